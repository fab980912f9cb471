"""Keep the course of a sequence's values up to a limit of points, and a model's newest periods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from prequential.engine.measures.registry import MEASURES
from prequential.views.state.ranking import measures_shown
from prequential.views.state.readings import PeriodReading

#: The initial room for points: most sequences of a short run need no more.
_FIRST = 16

#: The axes, as columns before those of the values.
AXES = 2


class Point(NamedTuple):
    """The newest message of a sequence, which a course shows as its last point."""

    time: int
    outcomes: int
    values: Mapping[str, float]


class Series:
    """Points of one sequence in the order in which they arrived: time, outcomes, and values by name.

    A point contains the values of one message; nothing is averaged. At most `capacity` points are kept. When
    there are more, every second point is dropped. After that, a new point is added only if it is far enough
    from the previous one, in time or in outcomes. The required distance is twice the distance of `capacity`
    points that are spread evenly over the kept range.

    So memory is bounded, the points cover the whole history, and a sequence that becomes slow keeps its
    resolution in time. `NewestMessages` keeps the newest state separately.

    Time is in epoch ms and never decreases, although labels may be processed in another order than that of
    their times.

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
        #: Counts changes other than new points at the end. While it is the same, a reader needs only the
        #: points after those that it has.
        self.generation = 0
        self._columns: dict[str, int] = {}
        first = min(_FIRST, capacity)
        self._axes: npt.NDArray[np.int64] = np.empty((first, AXES), np.int64)
        self._values: npt.NDArray[np.float32] = np.empty((first, 0), np.float32)
        self._time_apart = 0
        self._outcomes_apart = 0

    @property
    def names(self) -> list[str]:
        """Names of the values that any point has, in the order in which they first occurred."""
        return list(self._columns)

    @property
    def width(self) -> int:
        """The size of a point in numbers of 4 bytes: its time, its outcomes and its values."""
        return 2 * AXES + len(self._columns)

    def wants(self, time: int, outcomes: int) -> bool:
        """Whether such a point would be added; if not, the caller need not decode its message."""
        if not self.size:
            return True
        last_time, last_outcomes = self._axes[self.size - 1].tolist()
        time_apart, outcomes_apart = time - last_time, outcomes - last_outcomes
        is_repeated = outcomes_apart == 0
        is_far_in_time = time_apart > 0 and time_apart >= self._time_apart
        is_far_in_outcomes = outcomes_apart > 0 and outcomes_apart >= self._outcomes_apart
        return bool(is_repeated or is_far_in_time or is_far_in_outcomes)

    def add(self, time: int, outcomes: int, values: Mapping[str, float]) -> bool:
        """Add a point if it is far enough from the last one; returns whether it was added.

        A point with as many outcomes as the last one replaces it.
        """
        if self.size:
            last_time, last_outcomes = self._axes[self.size - 1].tolist()
            time = max(time, last_time)
            if outcomes == last_outcomes:  # the message is a repetition or a correction
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
        """Drop every second point."""
        kept = np.arange(0, self.size, 2)
        time_range, outcomes_range = (self._axes[self.size - 1] - self._axes[0]).tolist()
        self._keep(kept)
        self._time_apart = 2 * time_range // self.capacity
        self._outcomes_apart = 2 * outcomes_range // self.capacity

    def shrink(self, capacity: int) -> None:
        """Reduce the capacity, and drop points beyond it."""
        self.capacity = capacity
        while self.size > capacity:
            self.thin()
        if len(self._axes) > capacity:
            self._axes = self._axes[:capacity].copy()
            self._values = self._values[:capacity].copy()

    def drop_before(self, time: int) -> None:
        """Drop the points that are older."""
        first = int(np.searchsorted(self._axes[: self.size, 0], time))
        if first:
            self._keep(np.arange(first, self.size))

    def times(self, start: int = 0) -> list[int]:
        """Return the times, in epoch ms, of the points from number `start` (from 0) on."""
        return cast(list[int], self._axes[start : self.size, 0].tolist())

    def outcomes(self, start: int = 0) -> list[int]:
        """Return the sequence's numbers of outcomes at the points from number `start` (from 0) on."""
        return cast(list[int], self._axes[start : self.size, 1].tolist())

    def values(self, name: str, start: int = 0) -> list[float | None]:
        """Return values at the points from number `start` (from 0) on, to six digits; None if missing."""
        column = self._column(name)
        if column is None:
            return [None] * (self.size - start)
        return [_shown(value) for value in column[start:].tolist()]

    def before(self, newest: Point | None) -> int:
        """Return the number of points that precede the newest message; all of them without one."""
        if newest is None or not self.size or self._axes[self.size - 1, 1] != newest.outcomes:
            return self.size
        return self.size - 1

    def at_most(self, points: int) -> list[int]:
        """Return numbers, from 0, of at most `points` evenly spread points, with the first and the last."""
        if self.size <= points:
            return list(range(self.size))
        return cast(list[int], np.unique(np.linspace(0, self.size - 1, points).round().astype(int)).tolist())

    def _column(self, name: str) -> npt.NDArray[np.float32] | None:
        """Return the values of a name at all points, NaN where one is missing; None for an unknown name."""
        column = self._columns.get(name)
        return None if column is None else self._values[: self.size, column]

    def _put(self, index: int, time: int, outcomes: int, values: Mapping[str, float]) -> None:
        columns = self._columns
        if not values.keys() <= columns.keys():
            for name in values:
                columns.setdefault(name, len(columns))
            self._widen(len(self._axes), len(columns))
        self._axes[index] = time, outcomes
        with np.errstate(over="ignore"):  # values beyond single precision are not drawn
            self._values[index] = [values.get(name, np.nan) for name in columns]

    def _widen(self, points: int, columns: int) -> None:
        axes: Any = np.empty((points, AXES), np.int64)
        axes[: self.size] = self._axes[: self.size]
        values: Any = np.full((points, columns), np.nan, np.float32)
        values[: self.size, : self._values.shape[1]] = self._values[: self.size]
        self._axes, self._values = axes, values

    def _keep(self, indices: npt.NDArray[np.int64]) -> None:
        self._axes[: len(indices)] = self._axes[indices]
        self._values[: len(indices)] = self._values[indices]
        self.size = len(indices)
        self.generation += 1


def _shown(value: float) -> float | None:
    """Round a value to the digits of single precision; None for a missing value.

    >>> import numpy as np
    >>> _shown(float(np.float32(0.1))), _shown(float("nan"))
    (0.1, None)
    """
    return float(f"{value:.6g}") if value - value == 0 else None


#: The largest size of all series together, in numbers of 4 bytes: 256 MB.
BUDGET = 64 << 20

#: The largest and the least capacity of a series: the points that a chart can show, and that a course needs.
MOST, LEAST = 512, 16


class Capacity:
    """The number of points that each series may have, so that all together stay within the budget.

    The number is a power of two, so it decreases in few steps. It never increases again. 1,000 streams with 5
    models, each with 2 stages, 3 estimators and 22 measures (26 numbers a point), have 64 points each:

    >>> capacity = Capacity()
    >>> capacity.add(30_000 * 26)
    True
    >>> capacity.points
    64
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        #: The size of one point of every series, in numbers of 4 bytes.
        self.width = 0
        self.points = MOST

    def add(self, width: int) -> bool:
        """Add to the width of all series (negative for a dropped one); returns whether all must shrink."""
        self.width += width
        before = self.points
        while self.points > LEAST and self.width * self.points > self._budget:
            self.points //= 2
        return self.points < before

    def shrink(self, series: Iterable[Series]) -> None:
        """Reduce series to the allowed number of points."""
        for member in series:
            if member.capacity > self.points:
                member.shrink(self.points)


#: The largest number of a model's measures that are kept: those that the page draws by default.
_MEASURES = 4

#: Measures of a model's quality.
_QUALITIES = frozenset(name for name, definition in MEASURES.items() if definition.quality)

#: Values of a measure that are kept in addition to its final value, and the prefix of those at the period's
#: end.
_SO_FAR = ("expected", "low", "high", "so_far")
_THEN = "then_"


class PeriodSeries(Series):
    """Points are periods, in order of time; beyond `capacity` periods, the oldest ones are dropped.

    The values of a measure are NAME, NAME.expected, NAME.low, NAME.high and NAME.so_far. Only final periods
    have NAME. The other values of a provisional period are from its newest message. Those of a final period
    are from the first message after the period's end.
    """

    __slots__ = ("_measures",)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._measures: list[str] = []

    @property
    def names(self) -> list[str]:
        """Names of the values."""
        return [
            column_name
            for name in self._measures
            for column_name in (name, *(f"{name}.{part}" for part in _SO_FAR))
        ]

    def put(self, period_reading: PeriodReading) -> None:
        """Replace the values of a period with those of a newer message."""
        start = period_reading.period.start
        index = int(np.searchsorted(self._axes[: self.size, 0], start))
        is_known = index < self.size and int(self._axes[index, 0]) == start
        if not is_known:
            if self.size == self.capacity:
                if index == 0:
                    return
                self._keep(np.arange(1, self.size))
                index -= 1
            self._insert(index)
        before = dict(zip(self._columns, self._values[index].tolist())) if is_known else {}
        self._put(index, start, period_reading.period.labelled, before | self._read(period_reading, before))
        self.generation += 1

    def thin(self) -> None:
        """Drop the older half of the periods."""
        self._keep(np.arange(self.size // 2, self.size))

    def _read(self, period_reading: PeriodReading, before: dict[str, float]) -> dict[str, float]:
        expected = {} if period_reading.expected is None else period_reading.expected.measures
        measure_names = frozenset(
            expected or {name for name in period_reading.measures if name in _QUALITIES}
        )
        for name in measures_shown(measure_names, None):
            if name in measure_names and name not in self._measures and len(self._measures) < _MEASURES:
                self._measures.append(name)
        values: dict[str, float] = {}
        for name in self._measures:
            value = period_reading.measures.get(name, np.nan)
            if period_reading.is_final:
                values[name] = value
                continue
            values[f"{name}.so_far"] = value
            if (expected_value := expected.get(name)) is not None:
                low, high = expected_value.get("interval") or (np.nan, np.nan)
                values |= {
                    f"{name}.expected": expected_value["value"],
                    f"{name}.low": low,
                    f"{name}.high": high,
                }
            if period_reading.is_whole and np.isnan(before.get(f"{name}.{_THEN}expected", np.nan)):
                now = {part: values.get(f"{name}.{part}", np.nan) for part in _SO_FAR}
                values |= {f"{name}.{_THEN}{part}": value for part, value in now.items()}
        return values

    def _insert(self, index: int) -> None:
        if self.size == len(self._axes):
            self._widen(min(2 * self.size, self.capacity), len(self._columns))
        for rows in (self._axes, self._values):
            rows[index + 1 : self.size + 1] = rows[index : self.size].copy()
        self.size += 1

    def _column(self, name: str) -> npt.NDArray[np.float32] | None:
        values = super()._column(name)
        measure, _, part = name.rpartition(".")
        final, expected = super()._column(measure), super()._column(f"{measure}.{_THEN}expected")
        then = super()._column(f"{measure}.{_THEN}{part}")
        if values is None or final is None or expected is None or then is None:
            return values
        return np.where(np.isnan(final) | np.isnan(expected), values, then)
