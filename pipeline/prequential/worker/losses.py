"""What retention has removed before a shard took it, and whether the shard may go on without.

A shard goes on from its snapshot, or without one from the beginning of what the journal speaks of. Where its
inputs begin later than that, what it would publish isn't what it would have been: so it halts, alone, until
somebody accepts the loss (`worker.accept_loss`). The journal then says what is missing (`Lost`), and so do
all messages that follow (`counts`), whose ids are others than without the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from prequential.core.input.merge import OffsetVector
from prequential.settings.model import Config
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS
from prequential.worker.journal import Idle, JournalEntry, Lost, standing


class LostRecords(WorkError):
    """What a shard needs isn't there any more: it can't go on, others can."""


def way_out(partition: int) -> str:
    """What can be done about it, in words."""
    return (
        f"`prequential worker --accept-loss {partition}` (or worker.accept_loss: [{partition}]) goes on from "
        "what is there, and says so; or begin under a new kafka.prefix"
    )


def goes_on_from(start: OffsetVector, journal: Sequence[JournalEntry]) -> tuple[OffsetVector, list[Lost]]:
    """Where a shard wants its inputs from, that stood at `start` before this journal, and accepted losses.

    A loss counts where it went on from there: one that another snapshot had, or none, says nothing of it.

    >>> from prequential.worker.origin import Origin
    >>> lost = Lost((4, 0, 0), (9, 0, 0))
    >>> entries = [JournalEntry(1, [], Origin(1), lost)]
    >>> goes_on_from((5, 2, 3), entries)[0], goes_on_from((0, 0, 0), entries)
    ((9, 2, 3), ((0, 0, 0), []))
    """
    losses = []
    for entry in journal:
        note = entry.note
        if isinstance(note, Lost) and all(a <= b for a, b in zip(note.start, start)):
            losses.append(note)
            start = tuple(map(max, start, note.begins))
    return start, losses


def missing_entries(journal: Sequence[JournalEntry], last: int) -> int:
    """How many entries a journal lacks that goes on from the `last` one; not those of accepted losses.

    >>> from prequential.worker.origin import Origin
    >>> some = [JournalEntry(number, [], Origin(1)) for number in (3, 4, 7)]
    >>> missing_entries(some, 2), missing_entries(some, 0)
    (2, 4)
    """
    missing = 0
    for entry in journal:
        missing += entry.number - last - 1
        last = entry.number
        if isinstance(entry.note, Lost):
            missing = 0
    return missing


def loss(
    start: OffsetVector, begins: Sequence[int], journal: Sequence[JournalEntry], entries: int, *, fresh: bool
) -> Lost | None:
    """What is missing for who wants inputs from `start` that begin at `begins`; None: nothing.

    `entries` of the journal are missing. A `fresh` shard has missed only what the journal's first offset
    vector speaks of: topics may have begun later than at offset 0 when it was written.
    """
    needed = list(start)
    if fresh:
        first = next((vector for entry in journal for vector in entry.vectors), None)
        if first is None:
            return Lost(start, start, entries) if entries else None
        needed = [max(a, b) for a, b in zip(start, first)]
    gone = [low > offset for low, offset in zip(begins, needed)]
    if not any(gone) and not entries:
        return None
    ends = tuple(low if is_gone else a for a, low, is_gone in zip(start, begins, gone))
    vectors = [step for step in standing(journal).settled if not isinstance(step, Idle)]
    return Lost(start, ends, entries, vectors[-1] if vectors else (0, 0, 0))


def refusal(config: Config, partition: int, lost: Lost) -> str:
    """The sentence of a shard that halts."""
    topics = [config.kafka.topic(name) for name in INPUTS]
    what = lost.says([f"{topic}/{partition}" for topic in topics])
    return (
        f"shard {partition} halted: retention deleted records that it needs: {what}; "
        f"{way_out(partition)}"
    )
