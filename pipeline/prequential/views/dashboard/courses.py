"""Return the courses of values over time as the page's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prequential.views.dashboard.history import History
from prequential.views.dashboard.series import Point, Series

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

    def course(self, name: str, series: Series | None, newest: Point | None = None) -> dict[str, Any]:
        """Return the points of a course by column, from number `from` on; the earlier ones were already sent.

        `t` is in epoch ms, `outcomes` counts the sequence's outcomes so far, `values` are numbers by name. A
        series keeps only some messages, so `newest` is the last point: a chart then ends at the value that
        the rest of the page shows.
        """
        if series is None:
            return {"from": 0, "t": [], "outcomes": [], "values": {}}
        self._history.within(series)
        sent, generation, start = self._sent.get(name, (None, 0, 0))
        if sent is not series or generation != series.generation:
            start = 0
        end = series.before(newest)
        # The newest point is sent again, until the series keeps it or has a later one.
        self._sent[name] = series, series.generation, end
        return {"from": start, **columns(series, range(start, end), newest)}


def columns(
    series: Series, places: Sequence[int], newest: Point | None, names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return the points with these numbers, and the newest one, by column; `names` restricts the values."""
    times, outcomes = series.times(), series.outcomes()
    known = dict.fromkeys((*series.names, *(() if newest is None else newest.values)))
    shown = known if names is None else [one for one in names if one in known]
    kept = {one: series.values(one) for one in shown}
    t, n = [times[place] for place in places], [outcomes[place] for place in places]
    values = {one: [kept[one][place] for place in places] for one in shown}
    if newest is not None:
        t.append(max([newest.time, *t[-1:]]))
        n.append(newest.outcomes)
        for one in shown:
            values[one].append(newest.values.get(one))
    return {"t": t, "outcomes": n, "values": values}
