"""What a shard does after workers have died at its records: fewer at a time, until the one is known.

A worker that dies of an unexpected error, or of a crash below Python, knows at most the micro-batch that it
was in. So its successor takes the same records in small parts, each of them announced in the journal before
it is processed (`prequential.worker.journal.Attempt`): a part that follows an announcement of which nothing
came is the one that was died at, however the process ended. A part of a single record at which enough workers
have died is passed over from then on (`Quarantine`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from prequential.core.input.merge import Merge, OffsetVector
from prequential.topics.errors import Fault
from prequential.worker.journal import Attempt, Idle, PairStatus, Quarantine, Suspicion

#: Records of a part at first: small enough that its records can be tried one by one in some seconds, large
#: enough that a whole micro-batch of them takes only about that long.
_PART = 250

#: Where it isn't known at which records a worker died, so many are taken in parts: more than a shard
#: processes between two commits. Beyond them the journal has got on, and all of it begins anew there. There
#: are fewer if the topics end before: see `Isolation.limit`.
_DOUBTFUL = 200_000

#: Characters of an error that a reason repeats.
_LONGEST_ERROR = 300


class Isolation:
    """The records that are to be taken in small parts.

    First those of `planned`, offset vectors whose order is settled; then, if it isn't known where the worker
    died, those that come.
    """

    def __init__(self, status: PairStatus) -> None:
        suspicion = status.suspicion or Suspicion()
        self.deaths = suspicion.deaths
        # What a silence made due is published before anything is tried.
        self.planned = deque(one for one in status.open if not isinstance(one, Idle))
        self.most = 1 if 0 < suspicion.records <= _PART else _PART
        self._left = 0 if suspicion.records else _DOUBTFUL
        self._ends: tuple[int, ...] | None = None

    @property
    def over(self) -> bool:
        """Whether the shard may go on as ever."""
        return not self.planned and self._left <= 0

    def limit(self, ends: Sequence[int], vector: Sequence[int]) -> None:
        """The topics have been read to these ends, and the shard has come to an offset vector.

        What came behind the first of these ends came after the worker's death: it didn't die at that.
        """
        if self._ends is None:
            self._ends = tuple(ends)
        if all(at >= end for at, end in zip(vector, self._ends)):
            self._left = 0

    def next(self, merge: Merge, watermarks: Sequence[int | None]) -> tuple[OffsetVector, Attempt] | None:
        """The next part, as the offset vector behind it; None while there is none, or it isn't known yet."""
        until = self.planned[0] if self.planned else None
        if until is not None and not merge.covers(until):
            return None
        vector, records = merge.ahead(watermarks, self.most, until)
        if not records:
            if until is None:
                return None
            merge.take_until(until)  # what is left of it is gone for good
            self.taken(until, 0)
            return self.next(merge, watermarks)
        record = None
        if records == 1:
            [kind] = [kind for kind, before in enumerate(merge.vector) if vector[kind] > before]
            record = kind, vector[kind] - 1
        return vector, Attempt(self.deaths, records, record)

    def taken(self, vector: OffsetVector, records: int) -> None:
        """The shard has processed these records and stands at an offset vector."""
        if not self.planned:
            self._left -= records
        while self.planned and all(at >= end for at, end in zip(vector, self.planned[0])):
            self.planned.popleft()


def to_quarantine(suspicion: Suspicion, after: int | None) -> Quarantine | None:
    """The record that is to be passed over from now on, if so many workers have died at it.

    An error that came when the record was tried alone shows that it was this one that the deaths before were
    about. A process that ended without a word may have been killed for other reasons just then: only deaths
    when the record was tried alone count. A fault of the program is no record's (`Fault`).

    >>> to_quarantine(Suspicion(3, 1, (2, 17), "ValueError: no", 1), 3).reason
    '3 workers in a row died at it: ValueError: no'
    >>> to_quarantine(Suspicion(3, 1, (2, 17), "prequential.topics.errors.Fault: row 7 is missing", 3), 3)
    >>> to_quarantine(Suspicion(3, 1, (2, 17), None, 1), 3)
    >>> to_quarantine(Suspicion(5, 1, (2, 17), None, 3), 3).reason
    '3 workers in a row died at it: the process ended without an error of its own'
    """
    is_fault = suspicion.error is not None and suspicion.error.partition(":")[0].endswith(Fault.__name__)
    if suspicion.record is None or after is None or is_fault:
        return None
    deaths = suspicion.alone if suspicion.error is None else suspicion.deaths
    if deaths < after:
        return None
    workers = f"{deaths} workers in a row" if deaths > 1 else "a worker"
    why = suspicion.error or "the process ended without an error of its own"
    return Quarantine(*suspicion.record, f"{workers} died at it: {why[:_LONGEST_ERROR]}")
