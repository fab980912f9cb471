"""The account of a model's predictions: what waits, since when, and what share gets a label by which age."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
from prequential.core.arrays import Ints
from prequential.core.latency import AGES, BOUNDS_MS

#: Cohorts within one horizon, at most about this many: each takes some 300 bytes, in every model.
_COHORTS = 128

#: Steps after which shares are made anew: each time all cohorts are looked at.
_STEPS = 2

#: With more cohorts than these, clocks have been very wrong.
_MOST = 8 * _COHORTS

#: Places in a cohort: predictions that wait, all that were made, and from here on those that met their
#: label, by age (see `BOUNDS_MS`).
_WAITING, _MADE, _MET = range(3)

_SIZE = _MET + len(BOUNDS_MS) + 1

_EMPTY = [0] * _SIZE

#: More than there are ages: cohort and age in one number.
_AGES = 32


class Coverage:
    """Predictions of one model by cohort, that is by their time, in steps of 1/128 of the horizon.

    The age of a prediction is counted from its `ts`; it meets its label at the age t1 - ts.

    >>> coverage = Coverage(horizon=10_000)
    >>> for ts in (0, 1, 2):
    ...     coverage.wait(ts)
    >>> coverage.met(0, 50), coverage.met(1, 1_001)
    (None, None)
    >>> coverage.waiting, coverage.oldest(clock=5_000), coverage.labelled(clock=5_000)
    (1, 5000, {'100ms': 0.3333333333333333, '1s': 0.6666666666666666})
    """

    def __init__(self, horizon: int) -> None:
        self.waiting = 0
        self._horizon = horizon
        self._width = max(1, horizon // _COHORTS)
        self._cohorts: dict[int, list[int]] = {}
        self._old = [0] * _SIZE  # the sum of those that nothing will happen to any more
        self._slot: int | None = None  # the step that the clock was in when `_shares` was made
        self._shares: dict[str, float] = {}
        # Not part of the state: the newest answer to lookers-on, and numbers of cohorts that something may
        # wait in, with each that it does.
        self._looked: tuple[int | None, dict[str, float]] = (None, {})
        self._first: list[int] = []

    # ---- predictions

    def wait(self, ts: int) -> None:
        """A prediction waits for its label."""
        self._wait(ts // self._width, 1)

    def met(self, ts: int, t1: int) -> None:
        """One that waits met its label."""
        self.waiting -= 1
        cohort = self._cohort(ts // self._width)
        cohort[_WAITING] -= 1
        cohort[_MET + bisect_left(BOUNDS_MS, t1 - ts)] += 1

    def late(self, ts: int) -> None:
        """One that waits turned out to be made after its label: it isn't of those that may get one."""
        self.waiting -= 1
        cohort = self._cohort(ts // self._width)
        cohort[_WAITING] -= 1
        cohort[_MADE] -= 1

    def expired(self, ts: int) -> None:
        """One that waits won't get a label any more."""
        self.waiting -= 1
        self._cohort(ts // self._width)[_WAITING] -= 1

    def wait_many(self, ts: Ints) -> None:
        """`wait` for each."""
        for number, count in _counted(ts // self._width):
            self._wait(number, count)

    def _wait(self, number: int, count: int) -> None:
        self.waiting += count
        cohort = self._cohort(number)
        if not cohort[_WAITING]:
            heapq.heappush(self._first, number)
        cohort[_WAITING] += count
        cohort[_MADE] += count

    def met_many(self, ts: Ints, t1: Ints) -> None:
        """`met` for each."""
        self.waiting -= len(ts)
        ages = np.searchsorted(BOUNDS_MS, t1 - ts, side="left")
        for key, count in _counted(ts // self._width * _AGES + ages):
            cohort = self._cohort(key // _AGES)
            cohort[_WAITING] -= count
            cohort[_MET + key % _AGES] += count

    def _cohort(self, number: int) -> list[int]:
        cohort = self._cohorts.get(number)
        if cohort is None:
            if len(self._cohorts) > 4 * _COHORTS and len(self._cohorts) % _COHORTS == 0:
                self._fold(number * self._width - self._horizon)  # nobody has asked for a long time
            cohort = self._cohorts[number] = [0] * _SIZE
        return cohort

    # ---- what is told

    def oldest(self, clock: int) -> int:
        """Age of the oldest prediction that waits, in ms: at most a step too much; 0 if none waits."""
        first = self._first
        while first and self._cohorts.get(first[0], _EMPTY)[_WAITING] <= 0:
            heapq.heappop(first)
        return max(0, clock - first[0] * self._width) if first else 0

    def labelled(self, clock: int) -> dict[str, float]:
        """The label maturity curve: by age, the share of predictions that had met their label by then.

        Of all predictions that are at least as old; ages up to the horizon, and the horizon itself as
        `horizon`. Made anew whenever the clock has moved by 1/64 of the horizon.
        """
        slot = clock // (_STEPS * self._width)
        if slot != self._slot:
            self._slot = slot
            self._fold(clock)
            self._shares = dict(self._curve(clock))
        return self._shares

    def _fold(self, clock: int) -> None:
        """Add up cohorts in which nothing happens any more, so that their number is bounded.

        That is those older than the horizon, and, if there are very many, those of times to come.
        """
        first, last = (clock - self._horizon) // self._width - 1, clock // self._width
        many = len(self._cohorts) > _MOST
        for number, cohort in list(self._cohorts.items()):
            if (number < first or (many and number > last)) and not cohort[_WAITING]:
                del self._cohorts[number]
                self._old = [a + b for a, b in zip(self._old, cohort)]

    def curve(self, clock: int) -> dict[str, float]:
        """Likewise, for lookers-on: what they ask for and when mustn't change what messages say."""
        slot = clock // (_STEPS * self._width)
        if self._looked[0] != slot:
            self._looked = slot, dict(self._curve(clock))
        return self._looked[1]

    def _curve(self, clock: int) -> Iterator[tuple[str, float]]:
        numbers = np.fromiter(self._cohorts, np.int64, len(self._cohorts))
        counts = np.array([self._old, *self._cohorts.values()], dtype=np.int64)
        ages = [(name, bound) for name, bound in zip(AGES, BOUNDS_MS) if bound < self._horizon]
        for place, (name, age) in enumerate((*ages, ("horizon", self._horizon))):
            grown = np.concatenate(([True], (numbers + 1) * self._width + age <= clock))
            made = counts[grown, _MADE].sum()
            if made:
                stop = _MET + place + 1 if name != "horizon" else _SIZE
                yield name, float(counts[grown, _MET:stop].sum() / made)

    # ---- snapshot

    def snapshot(self) -> list[object]:
        return [
            self._width, self.waiting, [[number, *c] for number, c in self._cohorts.items()],
            list(self._old), self._slot, dict(self._shares),
        ]  # fmt: skip

    def restore(self, state: Any) -> None:
        """Take a snapshot over. Under another horizon cohorts go to the new steps as a whole."""
        width, self.waiting, cohorts, self._old, self._slot, self._shares = state
        for number, *counts in cohorts:
            cohort = self._cohort(number * width // self._width)
            cohort[:] = (a + b for a, b in zip(cohort, counts))
        if width != self._width:
            self._slot = None
        self._first = sorted(number for number, cohort in self._cohorts.items() if cohort[_WAITING])


def _counted(values: Ints) -> Iterator[tuple[int, int]]:
    """Each value that occurs, and how often."""
    if not len(values):
        return iter(())
    first = int(values.min())
    span = int(values.max()) - first
    if span < 4 * len(values):  # faster than sorting
        counts = np.bincount(values - first)
        found = np.flatnonzero(counts)
        return zip((found + first).tolist(), counts[found].tolist())
    found, counts = np.unique(values, return_counts=True)
    return zip(found.tolist(), counts.tolist())
