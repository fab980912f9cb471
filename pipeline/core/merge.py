"""Time-ordered reading: three topics in, one sequence of records out.

The next record is the one with the smallest time, ties in the order instances, predictions, labels.
A topic that has nothing buffered holds the others back, unless the caller promises that nothing
earlier will come from it. Promises are made from clocks and can be wrong; what was really taken can't
be read off the records' times then. So it is written down: taking records moves the *cut*, the next
offset of each topic, and between two cuts the order is that of time. A list of cuts (the journal)
therefore says the whole order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, islice
from operator import gt
from typing import NamedTuple

from topics.decoding import KINDS, Decoded

_EARLIEST = -(1 << 62)

#: Next offset to take of instances, predictions, labels.
Cut = tuple[int, int, int]


class Batch:
    """Consecutive records of one input topic; `times` never decrease."""

    __slots__ = ("kind", "offsets", "times", "records", "reasons")

    def __init__(
        self, kind: int, offsets: Sequence[int], times: list[int], decoded: Decoded
    ) -> None:
        self.kind = kind
        self.offsets = offsets
        self.times = times
        self.records, self.reasons = decoded


class Run(NamedTuple):
    """Records `start` … `stop`-1 of a batch, to be processed in this order."""

    batch: Batch
    start: int
    stop: int


class Merge:
    """Buffers batches and gives their records out in order of time.

    A record's time is the largest seen so far in its topic: a broker's clock that steps back must not
    bring records of one topic out of order.
    """

    def __init__(self) -> None:
        #: Next offset to take, by kind.
        self.cut: list[int] = [0, 0, 0]
        #: Next offset to be added, by kind.
        self.added: list[int] = [0, 0, 0]
        #: Records buffered, by kind.
        self.buffered: list[int] = [0, 0, 0]
        self._queues: tuple[deque[Batch], ...] = (deque(), deque(), deque())
        self._start = [0, 0, 0]  # first record not taken in the head batch
        self._latest = [_EARLIEST] * 3  # largest time added
        self._taken = [_EARLIEST] * 3  # largest time taken
        self._last = (_EARLIEST, 0)  # time and kind of the record taken last

    def add(self, batch: Batch) -> int:
        """Buffer a batch; returns how many records are new (those below `added` are dropped)."""
        kind = batch.kind
        offsets = batch.offsets
        if not len(offsets) or offsets[-1] < self.added[kind]:
            return 0
        times = batch.times
        if times[0] < self._latest[kind] or any(map(gt, times, islice(times, 1, None))):
            batch.times = times = list(accumulate(times, max, initial=self._latest[kind]))[1:]
        queue = self._queues[kind]
        start = bisect_left(offsets, self.added[kind])
        if start:  # fetched again after a rebalance: its first part is here already
            tail = Decoded(
                batch.records[start:],
                {index - start: why for index, why in batch.reasons.items() if index >= start},
            )
            batch = Batch(kind, offsets[start:], times[start:], tail)
        queue.append(batch)
        self.added[kind] = offsets[-1] + 1
        self.buffered[kind] += len(batch.offsets)
        self._latest[kind] = times[-1]
        return len(batch.offsets)

    def take(self, promises: Sequence[int | None], most: int) -> list[Run]:
        """Records whose turn has come, at most about `most`.

        `promises[kind]`: nothing with a smaller time will come from that topic, as far as the caller
        knows; None: nothing is known beyond what is buffered.
        """
        bounds = [
            latest if promise is None else max(latest, promise)
            for latest, promise in zip(self._latest, promises)
        ]
        runs = []
        while most > 0:
            run = self._next_run(bounds, most, None)
            if run is None:
                break
            runs.append(run)
            most -= run.stop - run.start
        return runs

    def take_until(self, cut: Cut) -> list[Run]:
        """Exactly the records below `cut`; all of them must have been added (see `covers`)."""
        bounds = [1 << 62] * 3
        runs = []
        while (run := self._next_run(bounds, 1 << 62, cut)) is not None:
            runs.append(run)
        self.cut = list(map(max, self.cut, cut))
        return runs

    def covers(self, cut: Cut) -> bool:
        """Whether everything below `cut` has been added."""
        return all(added >= end for added, end in zip(self.added, cut))

    def _next_run(self, bounds: list[int], most: int, cut: Cut | None) -> Run | None:
        best: tuple[int, int] | None = None  # (time, kind) of the earliest head …
        limit = (1 << 62, 3)  # … and of what must come before anything later than it
        for kind in range(3):
            queue = self._queues[kind]
            start = self._start[kind]
            if queue and (cut is None or queue[0].offsets[start] < cut[kind]):
                key = (queue[0].times[start], kind)
                if best is None or key < best:
                    if best is not None:
                        limit = min(limit, best)
                    best = key
                else:
                    limit = min(limit, key)
            else:
                limit = min(limit, (bounds[kind], kind))
        if best is None or best > limit:
            return None
        kind = best[1]
        batch, start = self._queues[kind][0], self._start[kind]
        within = bisect_right if kind < limit[1] else bisect_left
        stop = within(batch.times, limit[0], start, min(len(batch.times), start + most))
        if cut is not None:
            stop = min(stop, bisect_left(batch.offsets, cut[kind], start))
        self._advance(kind, batch, stop)
        return Run(batch, start, stop)

    def _advance(self, kind: int, batch: Batch, stop: int) -> None:
        self.buffered[kind] -= stop - self._start[kind]
        self.cut[kind] = batch.offsets[stop - 1] + 1
        self._taken[kind] = batch.times[stop - 1]
        if stop == len(batch.times):
            self._queues[kind].popleft()
            stop = 0
        self._start[kind] = stop

    def joins(self, runs: list[Run]) -> bool:
        """Whether these runs, just taken, continue in order of time what was taken before.

        If so the cut between them needn't be written down.
        """
        if not runs:
            return True
        first, last = runs[0], runs[-1]
        begins = (first.batch.times[first.start], first.batch.kind)
        continues = begins >= self._last
        self._last = (last.batch.times[last.stop - 1], last.batch.kind)
        return continues

    def head_time(self) -> int | None:
        """Time of the earliest record that is buffered."""
        heads = [q[0].times[s] for q, s in zip(self._queues, self._start) if q]
        return min(heads, default=None)

    def snapshot(self) -> list[object]:
        return [list(self.cut), list(self._taken), list(self._last)]

    def restore(self, state: list[object]) -> None:
        """Begin at the snapshot's cut with nothing buffered."""
        cut, taken, last = state
        self.__init__()  # type: ignore[misc]
        self.cut, self.added = list(cut), list(cut)  # type: ignore[call-overload]
        self._taken, self._latest = list(taken), list(taken)  # type: ignore[call-overload]
        self._last = tuple(last)  # type: ignore[arg-type]


__all__ = ["Batch", "Cut", "KINDS", "Merge", "Run"]
