"""Records that can't be used, for the log: a line now and then, however many there are."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from prequential.topics.reasons import kind_of, printable

log = logging.getLogger(__name__)

#: Seconds between two lines: often enough for whoever has just changed a producer.
_EVERY_SECONDS = 60.0

#: Seconds between two looks whether a line is due; the first of many records waits so long for company.
_LOOK_SECONDS = 5.0

#: Kinds of reasons that are told apart, the most frequent of which a line names.
_MOST_KINDS, _NAMED_KINDS = 1_000, 10


class _Kind:
    """How many there were of a topic and kind, and where the first one stands."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.count = 0


class Rejected:
    """Counts of dead letters by reason since they were told last.

    >>> rejected = Rejected()
    >>> rejected.note("labels", 3, 17, "class 'a' is one too many: limits.classes_per_stream is 2")
    >>> rejected.note("labels", 3, 19, "class 'b' is one too many: limits.classes_per_stream is 2")
    >>> rejected.note("labels", 0, 5, "the record has no value")
    >>> print(rejected.due(now=100.0))
    3 records can't be used: 2 of labels: class '…' is one too many: limits.classes_per_stream is 2 (first: \
labels/3 offset 17); 1 of labels: the record has no value (labels/0 offset 5)
    >>> rejected.note("labels", 0, 6, "the record has no value")
    >>> rejected.due(now=159.0)
    >>> rejected.due(now=160.0)
    "1 record can't be used: labels: the record has no value (labels/0 offset 6)"
    >>> rejected.due(now=300.0)
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._total = 0
        self._told_at = float("-inf")

    def note(self, topic: str, partition: int, offset: int, reason: str) -> None:
        """A dead letter: where the original stands, and why it can't be used."""
        self._total += 1
        about = (topic, kind_of(reason))
        kind = self._kinds.get(about)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                return
            kind = self._kinds[about] = _Kind(f"{topic}/{partition} offset {offset}")
        kind.count += 1

    def due(self, now: float) -> str | None:
        """The line, if there is something to tell and the last one is long enough ago."""
        if not self._total or now - self._told_at < _EVERY_SECONDS:
            return None
        self._told_at = now
        return self._take()

    def remaining(self) -> str | None:
        """The line about what is left, at the end."""
        return self._take() if self._total else None

    def _take(self) -> str:
        kinds = sorted(self._kinds.items(), key=lambda item: -item[1].count)
        total, self._kinds, self._total = self._total, {}, 0
        if total == 1:
            [((topic, reason), kind)] = kinds
            return printable(f"1 record can't be used: {topic}: {reason} ({kind.first})")
        told = [
            f"{kind.count} of {topic}: {reason} ({'first: ' if kind.count > 1 else ''}{kind.first})"
            for (topic, reason), kind in kinds[:_NAMED_KINDS]
        ]
        if others := total - sum(kind.count for _, kind in kinds[:_NAMED_KINDS]):
            told.append(f"{others} for other reasons")
        return printable(f"{total} records can't be used: {'; '.join(told)}")


#: Of all shards of a process.
rejected = Rejected()


async def tell() -> None:
    """Write lines about rejected records to the log when they are due, for ever."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        say(rejected.due(monotonic()))


def say(line: str | None) -> None:
    """Write a line to the log, if there is one."""
    if line is not None:
        log.warning("%s; `prequential dead-letters` shows them", line)
