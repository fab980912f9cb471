"""How numbers went: the points of one sequence, of which only so many are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

#: Points for which there is room at first: most sequences of a short run need no more.
_FIRST = 16

#: The axes, as columns before those of the values.
AXES = 2


class Series:
    """Points of one sequence in the order in which they came: time, outcomes, and values by name.

    A point is what one message said; nothing is averaged. At most `capacity` are kept. When there are
    more, each second one goes, and from then on a point is taken if it is far enough from the one before
    it, in time or in outcomes: twice as far as `capacity` points would be from each other if they were spread
    evenly over what is kept. So memory is bounded, what is kept reaches over everything, and a sequence that
    becomes slow keeps its resolution in time. (The newest state is no point's matter: see `watching.state`.)

    Time is epoch ms and never goes back: labels may be processed in another order than they have.

    >>> series = Series(4)
    >>> for n in range(1, 11):
    ...     _ = series.add(1000 * n, 10 * n, {"accuracy": n / 10})
    >>> series.outcomes(), series.values("accuracy")
    ([10, 50, 90], [0.1, 0.5, 0.9])
    """

    __slots__ = (
        "_axes", "_columns", "_outcomes_apart", "_time_apart", "_values", "capacity", "generation", "size",
    )  # fmt: skip

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        #: Counts how often points have gone, so whoever has some knows whether those after them are all that
        #: is new.
        self.generation = 0
        self._columns: dict[str, int] = {}
        first = min(_FIRST, capacity)
        self._axes: npt.NDArray[np.int64] = np.empty((first, AXES), np.int64)
        self._values: npt.NDArray[np.float32] = np.empty((first, 0), np.float32)
        self._time_apart = 0
        self._outcomes_apart = 0

    @property
    def names(self) -> list[str]:
        """Names of the values that some point has, in the order in which they came."""
        return list(self._columns)

    @property
    def width(self) -> int:
        """Numbers of 4 bytes that a point takes: its time, its outcomes and its values."""
        return 2 * AXES + len(self._columns)

    def wants(self, time: int, outcomes: int) -> bool:
        """Whether a point there would be taken: nobody need decode a message that isn't."""
        if not self.size:
            return True
        last_time, last_outcomes = self._axes[self.size - 1].tolist()
        past = time - last_time, outcomes - last_outcomes
        said_again = past[1] == 0
        far_in_time = past[0] > 0 and past[0] >= self._time_apart
        return bool(said_again or far_in_time or (past[1] > 0 and past[1] >= self._outcomes_apart))

    def add(self, time: int, outcomes: int, values: Mapping[str, float]) -> bool:
        """Take a point; returns whether it was taken.

        One after as many outcomes as the last one takes that one's place.
        """
        if self.size:
            last = self._axes[self.size - 1]
            time = max(time, int(last[0]))
            if outcomes == last[1]:  # said once more, or corrected since
                self._put(self.size - 1, time, outcomes, values)
                self.generation += 1
                return True
        if not self.wants(time, outcomes):
            return False
        if self.size == self.capacity:
            self.thin()
        if self.size == len(self._axes):
            self._widen(min(2 * self.size, self.capacity), len(self._columns))
        self.size += 1
        self._put(self.size - 1, time, outcomes, values)
        return True

    def thin(self) -> None:
        """Let each second point go."""
        kept = np.arange(0, self.size, 2)
        first, last = self._axes[0], self._axes[self.size - 1]
        self._keep(kept)
        self._time_apart = int(2 * (last[0] - first[0]) // self.capacity)
        self._outcomes_apart = int(2 * (last[1] - first[1]) // self.capacity)

    def shrink(self, capacity: int) -> None:
        """Have room for fewer points."""
        self.capacity = capacity
        while self.size > capacity:
            self.thin()
        if len(self._axes) > capacity:
            self._axes = self._axes[:capacity].copy()
            self._values = self._values[:capacity].copy()

    def drop_before(self, time: int) -> None:
        """Let points go that are older."""
        first = int(np.searchsorted(self._axes[: self.size, 0], time))
        if first:
            self._keep(np.arange(first, self.size))

    def times(self, start: int = 0) -> list[int]:
        """Times, in epoch ms, of the points from number `start` (from 0) on."""
        times: list[int] = self._axes[start : self.size, 0].tolist()
        return times

    def outcomes(self, start: int = 0) -> list[int]:
        """How many outcomes the sequence had had at the points from number `start` (from 0) on."""
        outcomes: list[int] = self._axes[start : self.size, 1].tolist()
        return outcomes

    def values(self, name: str, start: int = 0) -> list[float | None]:
        """Values at the points from number `start` (from 0) on, to six digits; None where there was none."""
        column = self._column(name)
        if column is None:
            return [None] * (self.size - start)
        return [_shown(value) for value in column[start:].tolist()]

    def at_most(self, points: int) -> list[int]:
        """Numbers, from 0, of at most `points` points, spread evenly, the first and the last among them."""
        if self.size <= points:
            return list(range(self.size))
        numbers: list[int] = np.unique(np.linspace(0, self.size - 1, points).round().astype(int)).tolist()
        return numbers

    def _column(self, name: str) -> npt.NDArray[np.float32] | None:
        """Values of a name at all points; NaN where there was none."""
        column = self._columns.get(name)
        return None if column is None else self._values[: self.size, column]

    def _put(self, place: int, time: int, outcomes: int, values: Mapping[str, float]) -> None:
        columns = self._columns
        if not values.keys() <= columns.keys():
            for name in values:
                columns.setdefault(name, len(columns))
            self._widen(len(self._axes), len(columns))
        self._axes[place] = time, outcomes
        with np.errstate(over="ignore"):  # beyond single precision there is nothing to draw
            self._values[place] = [values.get(name, np.nan) for name in columns]

    def _widen(self, points: int, columns: int) -> None:
        axes: Any = np.empty((points, AXES), np.int64)
        axes[: self.size] = self._axes[: self.size]
        values: Any = np.full((points, columns), np.nan, np.float32)
        values[: self.size, : self._values.shape[1]] = self._values[: self.size]
        self._axes, self._values = axes, values

    def _keep(self, places: npt.NDArray[np.int64]) -> None:
        self._axes[: len(places)] = self._axes[places]
        self._values[: len(places)] = self._values[places]
        self.size = len(places)
        self.generation += 1


def _shown(value: float) -> float | None:
    """What single precision is worth; None for what isn't there.

    >>> import numpy as np
    >>> _shown(float(np.float32(0.1))), _shown(float("nan"))
    (0.1, None)
    """
    return float(f"{value:.6g}") if value - value == 0 else None


#: Numbers of 4 bytes that all series together may take: 256 MB.
BUDGET = 64 << 20

#: Points of a series, at most and at least: as many as a chart has pixels for, and as few as make a course.
MOST, LEAST = 512, 16


class Capacity:
    """How many points each series may have, so that all together stay within the budget.

    A power of two, so few steps lead down; it never goes up again. 1,000 streams with 5 models, each with 2
    stages, 3 estimators and 22 measures (26 numbers a point) have 64 points each:

    >>> capacity = Capacity()
    >>> capacity.add(30_000 * 26)
    True
    >>> capacity.points
    64
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        #: Numbers of 4 bytes that a point of each series takes.
        self.width = 0
        self.points = MOST

    def add(self, width: int) -> bool:
        """Series are wider by so many numbers a point (one that goes: below 0); whether all must shrink."""
        self.width += width
        before = self.points
        while self.points > LEAST and self.width * self.points > self._budget:
            self.points //= 2
        return self.points < before

    def shrink(self, series: Iterable[Series]) -> None:
        """Let them have no more than they may."""
        for one in series:
            if one.capacity > self.points:
                one.shrink(self.points)
