"""Records that retention deleted before a shard processed them, and whether the shard may go on without them.

A shard goes on from its snapshot, or without one from the first record that the journal covers. If its inputs
begin later, the shard would publish different outputs than without the loss. So this shard halts, until the
operator accepts the loss (`worker.accept_loss`). The journal then lists the missing records (`Lost`), and all
later messages count them (`counts`). The IDs of these messages also differ from those without the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from prequential.configuration.settings.model import Config
from prequential.engine.input.merge import OffsetVector
from prequential.runtime.worker.journal import Idle, JournalEntry, Lost, standing
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS


class LostRecords(WorkError):
    """Records that a shard needs have been deleted: this shard can't go on, but others can."""


def instruction(partition: int) -> str:
    """Return the instruction for the operator of a halted shard."""
    return (
        f"`prequential worker --accept-loss {partition}` (or worker.accept_loss: [{partition}]) goes on from "
        "the first records that exist, and reports the loss; or begin under a new kafka.prefix"
    )


def start_and_losses(start: OffsetVector, journal: Sequence[JournalEntry]) -> tuple[OffsetVector, list[Lost]]:
    """Return the offsets from which a shard needs its inputs, and the accepted losses that apply to it.

    `start` is the shard's offset vector before this journal. A loss applies only if it begins at or below the
    vector that the shard has reached. Other losses belong to another snapshot, or to a shard without one.

    >>> from prequential.runtime.worker.origin import TopicsOrigin
    >>> lost = Lost((4, 0, 0), (9, 0, 0))
    >>> entries = [JournalEntry(1, [], TopicsOrigin(1), lost)]
    >>> start_and_losses((5, 2, 3), entries)[0], start_and_losses((0, 0, 0), entries)
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
    """Return how many entries are missing in a journal after entry `last`, except for accepted losses.

    >>> from prequential.runtime.worker.origin import TopicsOrigin
    >>> some = [JournalEntry(number, [], TopicsOrigin(1)) for number in (3, 4, 7)]
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
    """Return what a shard lacks that needs its inputs from `start`; None if nothing is missing.

    The inputs begin at `begins`, and `entries` entries of the journal are missing. A `fresh` shard lacks
    records only if an input begins after the journal's first offset vector. The topics may have begun later
    than at offset 0 when that vector was written.
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
    """Return the error message of a shard that halts."""
    topics = [config.kafka.topic(name) for name in INPUTS]
    what = lost.says([f"{topic}/{partition}" for topic in topics])
    return (
        f"shard {partition} halted: retention deleted records that it needs: {what}; "
        f"{instruction(partition)}"
    )
