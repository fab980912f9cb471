"""What was seen of records: how many with which `ts` by stream and kind, and why some were invalid.

It isn't part of the state: it covers only records that the present process has read. Reports of likely
mistakes are made from it (`views.diagnosis.findings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Ints, Words, grown, inner, kernel
from prequential.engine.tables.records import INSTANCE, PREDICTION, Rows
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Registry
from prequential.topics.errors import kind_of

_KINDS = 3

#: The bit of classes beyond those that have one of their own.
OTHERS = 62


#: Names of classes that are kept of probabilities in which the prediction has none.
FOREIGN = 8


class Seen(NamedTuple):
    """By stream and kind: (streams, 3), unless noted."""

    records: Ints  # that could be used
    earliest: Ints  # ts, ms; 0 without records
    latest: Ints
    classes: Ints  # bit of each code of a class that was named; the last bit: of all others
    scored: Ints  # (streams, 2) predictions with probabilities, and those whose own class has none of them
    foreign: Words  # (streams, FOREIGN) hashes of the first names in the latter; 0: there are no more


def new_seen() -> Seen:
    """Tables for no streams: nothing was seen."""
    records, earliest, latest, classes = (np.zeros((0, _KINDS), dtype=np.int64) for _ in range(4))
    scored, foreign = np.zeros((0, 2), dtype=np.int64), np.zeros((0, FOREIGN), dtype=np.uint64)
    return Seen(records, earliest, latest, classes, scored, foreign)


def update(seen: Seen, rows: Rows, stop: int, streams: int, registry: Registry) -> Seen:
    """Count rows before `stop` that weren't refused, by stream and kind; returns the tables, maybe wider."""
    seen = grown(seen, streams)
    _update(seen, rows, stop, registry)
    return seen


@inner
def _note_names(seen: Seen, rows: Rows, i: int, own: int) -> None:
    """Count a prediction with probabilities whose class has the hash `own`."""
    stream, first, last = rows.stream[i], rows.probabilities[i], rows.probabilities[i + 1]
    seen.scored[stream, 0] += 1
    for at in range(first, last):
        if rows.names[at] == own:
            return
    seen.scored[stream, 1] += 1
    for at in range(first, last):
        for place in range(FOREIGN):
            if seen.foreign[stream, place] == 0:
                seen.foreign[stream, place] = rows.names[at]
            if seen.foreign[stream, place] == rows.names[at]:
                break


@kernel
def _update(seen: Seen, rows: Rows, stop: int, registry: Registry) -> None:
    for i in range(stop):
        if rows.refused[i]:
            continue
        stream, kind, ts = rows.stream[i], rows.kind[i], rows.ts[i]
        if seen.records[stream, kind] == 0:
            seen.earliest[stream, kind] = seen.latest[stream, kind] = ts
        seen.records[stream, kind] += 1
        seen.earliest[stream, kind] = min(seen.earliest[stream, kind], ts)
        seen.latest[stream, kind] = max(seen.latest[stream, kind], ts)
        if kind != INSTANCE and rows.label[i] != NO_CLASS:
            seen.classes[stream, kind] |= 1 << min(max(int(rows.label[i]), 0), OTHERS)
        named = kind == PREDICTION and rows.probabilities[i + 1] > rows.probabilities[i]
        if named and rows.label[i] >= 0 and not registry.streams.regression[stream]:
            own = registry.streams.classes[stream] + rows.label[i]
            _note_names(seen, rows, i, registry.classes.name[own])


#: Most reasons that are counted separately: names from strangers are part of them.
_MOST = 100


class Refusal(NamedTuple):
    """Records of a kind that can't be used for one reason; sentence and offset are the first one's."""

    kind: int
    sentence: str
    offset: int
    records: int


class Refusals:
    """Why records of a shard can't be used: kinds of reasons, with how many records have each.

    >>> refusals = Refusals()
    >>> for offset, name in enumerate("ab"):
    ...     refusals.add(2, f"y_true '{name}': expected a number", offset)
    >>> refusals.known()
    [Refusal(kind=2, sentence="y_true 'a': expected a number", offset=0, records=2)]
    """

    def __init__(self) -> None:
        #: The number of the record of a kind with an offset, where records aren't processed in their order.
        self.number_of: Callable[[int, int], int] = lambda kind, offset: offset
        self._first: dict[tuple[int, str], tuple[str, int]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def add(self, kind: int, reason: str, offset: int) -> None:
        """Count a record of a topic (kind) that can't be used; the first one for a kind of reason is kept.

        Beyond `_MOST` kinds of reasons, all others count as one.
        """
        key = kind, kind_of(reason)
        if key not in self._counts and len(self._counts) >= _MOST:
            key = kind, ""  # all others together
        _, first = self._first.setdefault(key, (reason, offset))
        if first != offset and self.number_of(kind, offset) < self.number_of(kind, first):
            self._first[key] = reason, offset
        self._counts[key] = self._counts.get(key, 0) + 1

    def known(self) -> list[Refusal]:
        """The reasons in the order in which they came first, with their first sentences and offsets."""
        return [Refusal(key[0], *self._first[key], count) for key, count in self._counts.items()]
