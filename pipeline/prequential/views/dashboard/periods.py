"""Keep a model's results by time of prediction: its newest periods, as final, expected and so-far values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from prequential.engine.measures.registry import MEASURES
from prequential.views.dashboard.series import Series
from prequential.views.watching.messages import PeriodReading
from prequential.views.watching.ranking import measures_shown

#: The largest number of a model's measures that are kept: those that the page draws by default.
_MEASURES = 4

#: Measures of a model's quality.
_QUALITIES = frozenset(name for name, one in MEASURES.items() if one.quality)

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
        return [one for name in self._measures for one in (name, *(f"{name}.{part}" for part in _SO_FAR))]

    def put(self, said: PeriodReading) -> None:
        """Replace the values of a period with those of a newer message."""
        start = said.period.start
        place = int(np.searchsorted(self._axes[: self.size, 0], start))
        known = place < self.size and int(self._axes[place, 0]) == start
        if not known:
            if self.size == self.capacity:
                if place == 0:
                    return
                self._keep(np.arange(1, self.size))
                place -= 1
            self._insert(place)
        before = dict(zip(self._columns, self._values[place].tolist())) if known else {}
        self._put(place, start, said.period.labelled, before | self._read(said, before))
        self.generation += 1

    def thin(self) -> None:
        """Drop the older half of the periods."""
        self._keep(np.arange(self.size // 2, self.size))

    def _read(self, said: PeriodReading, before: dict[str, float]) -> dict[str, float]:
        expected = {} if said.expected is None else said.expected.measures
        known = frozenset(expected or {name for name in said.measures if name in _QUALITIES})
        for name in measures_shown(known, None):
            if name in known and name not in self._measures and len(self._measures) < _MEASURES:
                self._measures.append(name)
        values: dict[str, float] = {}
        for name in self._measures:
            value = said.measures.get(name, np.nan)
            if said.is_final:
                values[name] = value
                continue
            values[f"{name}.so_far"] = value
            if (one := expected.get(name)) is not None:
                low, high = one.get("interval") or (np.nan, np.nan)
                values |= {f"{name}.expected": one["value"], f"{name}.low": low, f"{name}.high": high}
            if said.is_whole and np.isnan(before.get(f"{name}.{_THEN}expected", np.nan)):
                now = {one: values.get(f"{name}.{one}", np.nan) for one in _SO_FAR}
                values |= {f"{name}.{_THEN}{one}": value for one, value in now.items()}
        return values

    def _insert(self, place: int) -> None:
        """Insert an empty point at a place."""
        if self.size == len(self._axes):
            self._widen(min(2 * self.size, self.capacity), len(self._columns))
        for rows in (self._axes, self._values):
            rows[place + 1 : self.size + 1] = rows[place : self.size].copy()
        self.size += 1

    def _column(self, name: str) -> npt.NDArray[np.float32] | None:
        values = super()._column(name)
        measure, _, part = name.rpartition(".")
        final, expected = super()._column(measure), super()._column(f"{measure}.{_THEN}expected")
        then = super()._column(f"{measure}.{_THEN}{part}")
        if values is None or final is None or expected is None or then is None:
            return values
        return np.where(np.isnan(final) | np.isnan(expected), values, then)
