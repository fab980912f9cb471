"""Isolates the record that crashes workers.

If a worker dies of an unexpected error, or of a crash below Python, the journal shows at most the micro-batch
in which it died. So its successor takes the same records in small parts. It announces each part in the
journal before it processes the part (`runtime.worker.journal.Attempt`). However the process ends, it died
at the announced part that no later entry follows. If enough workers have died at a part with a single record,
shards skip that record from then on (`Quarantine`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from prequential.engine.input.merge import Merge, OffsetVector
from prequential.runtime.worker.journal import Attempt, Idle, JournalStatus, Quarantine, Suspicion
from prequential.topics.errors import Fault

#: Records of a part at first. Parts are small enough that the shard can try the records of one part singly in
#: a few seconds, and large enough that a whole micro-batch takes only about as long.
_PART = 250

#: Records taken in parts if it is unknown where a worker died: more than a shard processes between two
#: commits. After so many the journal has newer entries, from which isolation would start again. The number is
#: smaller if the topics end earlier: see `Isolation.limit`.
_DOUBTFUL = 200_000

#: Characters of an error that a reason repeats.
_LONGEST_ERROR = 300


class Isolation:
    """The records that the shard takes in small parts.

    First it takes the records below `planned`, offset vectors whose order is settled. If it is unknown where
    the worker died, it then takes the next records in parts.
    """

    def __init__(self, status: JournalStatus) -> None:
        suspicion = status.suspicion or Suspicion()
        self.deaths = suspicion.deaths
        # Outputs that a silence made due are published before the first part is tried.
        self.planned = deque(entry for entry in status.open if not isinstance(entry, Idle))
        self.most = 1 if 0 < suspicion.records <= _PART else _PART
        self._left = 0 if suspicion.records else _DOUBTFUL
        self._ends: tuple[int, ...] | None = None

    @property
    def over(self) -> bool:
        """Whether isolation has ended, so that the shard may go on as before."""
        return not self.planned and self._left <= 0

    def limit(self, ends: Sequence[int], vector: Sequence[int]) -> None:
        """Stop trying new records once the shard has processed all that existed when the worker died.

        The topics have been read up to `ends`, and the shard has processed the records below `vector`.
        Records after the first `ends` arrived after the worker's death, so it can't have died at them.
        """
        if self._ends is None:
            self._ends = tuple(ends)
        if all(reached >= end for reached, end in zip(vector, self._ends)):
            self._left = 0

    def next(self, merge: Merge, watermarks: Sequence[int | None]) -> tuple[OffsetVector, Attempt] | None:
        """Return the offset vector after the next part, and its attempt; None if there is no part yet."""
        until = self.planned[0] if self.planned else None
        if until is not None and not merge.covers(until):
            return None
        vector, records = merge.ahead(watermarks, self.most, until)
        if not records:
            if until is None:
                return None
            merge.take_until(until)  # its remaining records have been deleted
            self.taken(until, 0)
            return self.next(merge, watermarks)
        record = None
        if records == 1:
            [kind] = [kind for kind, before in enumerate(merge.vector) if vector[kind] > before]
            record = kind, vector[kind] - 1
        return vector, Attempt(self.deaths, records, record)

    def taken(self, vector: OffsetVector, records: int) -> None:
        """Note that the shard has processed these records, up to an offset vector."""
        if not self.planned:
            self._left -= records
        while self.planned and all(reached >= end for reached, end in zip(vector, self.planned[0])):
            self.planned.popleft()


def to_quarantine(suspicion: Suspicion, after: int | None) -> Quarantine | None:
    """Return the record that shards skip from now on, if `after` workers have died at it; otherwise None.

    If an error occurred while the record was tried alone, the record also caused the earlier deaths. If the
    process ended without an error, it may have been killed for other reasons. In that case only deaths while
    the record was tried alone count. A fault of the program is never attributed to a record (`Fault`).

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
