"""How a model went by time of prediction: its newest periods, final, expected and labelled so far."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from prequential.core.measures.registry import MEASURES
from prequential.dashboard.series import Series
from prequential.watching.messages import PeriodReading
from prequential.watching.ranking import measures_shown

#: Measures of a model that are kept: those that are drawn unless others are chosen.
_MEASURES = 4

#: Measures that say how good a model is.
_QUALITIES = frozenset(name for name, one in MEASURES.items() if one.quality)

#: What is kept of a measure beside its final value, and again as it was when the period's time was over.
_SAID = ("expected", "low", "high", "so_far")
_THEN = "then_"


class PeriodSeries(Series):
    """Points are periods, in order of time; when there are more than `capacity`, the oldest go.

    The values of a measure are NAME, which only final periods have, and NAME.expected, NAME.low, NAME.high
    and NAME.so_far: of provisional ones as they were said last, of final ones as they were said first when
    the period's time was over.
    """

    __slots__ = ("_measures",)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._measures: list[str] = []

    @property
    def names(self) -> list[str]:
        """Names of the values."""
        return [one for name in self._measures for one in (name, *(f"{name}.{said}" for said in _SAID))]

    def put(self, said: PeriodReading) -> None:
        """Take what is said of a period, in place of what was said of it before."""
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
        self._put(place, start, said.period.labelled, before | self._said(said, before))
        self.generation += 1

    def thin(self) -> None:
        """Let the older half go."""
        self._keep(np.arange(self.size // 2, self.size))

    def _said(self, said: PeriodReading, before: dict[str, float]) -> dict[str, float]:
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
                now = {one: values.get(f"{name}.{one}", np.nan) for one in _SAID}
                values |= {f"{name}.{_THEN}{one}": value for one, value in now.items()}
        return values

    def _insert(self, place: int) -> None:
        """Make room for a point at a place."""
        if self.size == len(self._axes):
            self._widen(min(2 * self.size, self.capacity), len(self._columns))
        for rows in (self._axes, self._values):
            rows[place + 1 : self.size + 1] = rows[place : self.size].copy()
        self.size += 1

    def _column(self, name: str) -> npt.NDArray[np.float32] | None:
        values = super()._column(name)
        measure, _, said = name.rpartition(".")
        final, expected = super()._column(measure), super()._column(f"{measure}.{_THEN}expected")
        then = super()._column(f"{measure}.{_THEN}{said}")
        if values is None or final is None or expected is None or then is None:
            return values
        return np.where(np.isnan(final) | np.isnan(expected), values, then)
