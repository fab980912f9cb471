"""Return the courses of values over time as the page's JSON."""

from __future__ import annotations

from typing import Any

from prequential.dashboard.history import History
from prequential.dashboard.series import Series

#: The name of the course of coverage, which no stage can have.
COVERAGE = "@coverage"

#: The name of the course of periods.
PERIODS = "@periods"


class Absent(Exception):
    """The requested object is unknown; the text is a sentence."""


class Courses:
    """Returns courses as JSON; a repeated call on the same object returns only the new points."""

    def __init__(self, history: History) -> None:
        self._history = history
        #: By name: the series, its generation, and the number of points sent.
        self._sent: dict[str, tuple[Series, int, int]] = {}

    def course(self, name: str, series: Series | None) -> dict[str, Any]:
        """Return the points of a course by column, from number `from` on; the earlier ones were already sent.

        `t` is in epoch ms, `outcomes` counts the sequence's outcomes so far, `values` are numbers by name.
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
