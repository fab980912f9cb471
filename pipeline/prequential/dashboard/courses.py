"""How numbers went, as what is sent to the page."""

from __future__ import annotations

from typing import Any

from prequential.dashboard.history import History
from prequential.dashboard.series import Series

#: The name of the course of what became of predictions: no stage has it.
COVERAGE = "@coverage"

#: … and that of periods.
PERIODS = "@periods"


class Absent(Exception):
    """Nothing is known of what was asked for; its text is a sentence."""


class Courses:
    """Courses as they are sent: whoever asks again through the same object gets what is new."""

    def __init__(self, history: History) -> None:
        self._history = history
        #: By name: which series it was, how often points had gone from it, and how many were sent.
        self._sent: dict[str, tuple[Series, int, int]] = {}

    def course(self, name: str, series: Series | None) -> dict[str, Any]:
        """The points of a course, column by column, from number `from` on: those before it were sent.

        `t` is epoch ms, `outcomes` the sequence's by then, `values` numbers by name.
        """
        if series is None:
            return {"from": 0, "t": [], "outcomes": [], "values": {}}
        self._history.within(series)
        sent, generation, start = self._sent.get(name, (None, 0, 0))
        if sent is not series or generation != series.generation:
            start = 0
        self._sent[name] = series, series.generation, series.size
        return {
            "from": start,
            "t": series.times(start),
            "outcomes": series.outcomes(start),
            "values": {value: series.values(value, start) for value in series.names},
        }
