"""Return the courses of values over time as the page's JSON, and small plots of each stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import LESS_IS_BETTER, MEASURES
from prequential.topics.errors import printable
from prequential.topics.outputs import Incident
from prequential.views.state.history import History, newest_point
from prequential.views.state.newest import ModelKey, StreamPartition
from prequential.views.state.ranking import RankedModel, look_by_name, measures_shown
from prequential.views.state.series import Point, Series
from prequential.views.wording import measures, status
from prequential.views.wording.periods import period_name

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
    series: Series, indices: Sequence[int], newest: Point | None, names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return the points with these numbers, and the newest one, by column; `names` restricts the values."""
    times, outcomes = series.times(), series.outcomes()
    known_names = dict.fromkeys((*series.names, *(() if newest is None else newest.values)))
    shown = known_names if names is None else [name for name in names if name in known_names]
    kept = {name: series.values(name) for name in shown}
    t, n = [times[index] for index in indices], [outcomes[index] for index in indices]
    values = {name: [kept[name][index] for index in indices] for name in shown}
    if newest is not None:
        t.append(max([newest.time, *t[-1:]]))
        n.append(newest.outcomes)
        for name in shown:
            values[name].append(newest.values.get(name))
    return {"t": t, "outcomes": n, "values": values}


#: The number of a stream's first models whose lines have names; the other lines are thin.
NAMED = 6

#: Points of a line with a name, of all thin lines of a page together, and the least of one thin line.
_POINTS, _THIN_POINTS, _LEAST_POINTS = 40, 4_000, 6

#: The largest number of incidents in a plot: the newest.
_BANDS = 60

#: Digits of a point's place on the axis from 0 to 1, and significant digits of its value.
_PLACE_DIGITS, _DIGITS = 4, 5


def looks_of(models: Iterable[ModelKey], stream_partition: StreamPartition) -> dict[str, int]:
    """Return the number of each model's colour in the plots of a stream: its place among all names.

    So a model has the same colour on every page, and in a notebook.
    """
    names = sorted({key.model for key in models if key.stream_partition == stream_partition})
    return look_by_name(names)


def by_stream(rows: Sequence[RankedModel]) -> dict[StreamPartition, list[RankedModel]]:
    """Group rows by stream and partition; streams are in the order of their first rows."""
    streams: dict[StreamPartition, list[RankedModel]] = {}
    for row in rows:
        streams.setdefault(row.model.key.stream_partition, []).append(row)
    return streams


def stream_plots(
    history: History,
    streams: dict[StreamPartition, list[RankedModel]],
    by: str | None,
    line: Callable[[RankedModel, list[str]], Any],
) -> list[dict[str, Any]]:
    """Return plots of these streams, with the result of `line` for each model with a name.

    The plots show the measure `by`, which sorts the models, if they have it; else (None) the usual one.
    `line` returns a model's line of the overview, with the values of these measures.
    """
    thin = sum(max(0, len(rows) - NAMED) for rows in streams.values())
    points = max(_LEAST_POINTS, min(_POINTS // 2, _THIN_POINTS // max(1, thin)))
    return [
        _plot(history, stream_partition, rows, by, line, points) for stream_partition, rows in streams.items()
    ]


def _plot(
    history: History, stream_partition: StreamPartition, rows: list[RankedModel], by: str | None,
    line: Callable[[RankedModel, list[str]], Any], thin_points: int,
) -> dict[str, Any]:  # fmt: skip
    # Baselines are drawn thin, so that other models get the lines with names.
    rows = sorted(rows, key=lambda row: is_baseline(row.model.key.model))
    measure_names = frozenset(
        name for row in rows if row.reading is not None for name in row.reading.measures
    )
    measure = measures_shown(measure_names, by)[0]
    courses = [
        course_of(history, row, measure, _POINTS if index < NAMED else thin_points)
        for index, row in enumerate(rows)
    ]
    untimed = any(row.model.untimed for row in rows)
    timed = not untimed and any(
        course is not None and course["t"][:1] < course["t"][-1:] for course in courses
    )
    column = "t" if timed else "outcomes"
    ends = [xs for course in courses if course is not None and (xs := course[column])]
    axis = _Axis(column, min((xs[0] for xs in ends), default=0), max((xs[-1] for xs in ends), default=1))
    first = rows[0].sequence
    looks, zone = (
        looks_of(history.models, stream_partition),
        history.config.stream(stream_partition.stream).period_zone,
    )
    objective = history.config.stream(stream_partition.stream).objective
    return {
        "stream": stream_partition.stream,
        "partition": stream_partition.partition,
        "split": stream_partition.stream in history.split,
        "measure": measure,
        "less_is_better": measure in LESS_IS_BETTER,
        "bounds": _bounds(measure),
        "stage": None if first is None else first.stage,
        "estimator": None if first is None else first.estimator,
        "axis": column,
        "untimed": untimed,
        "low": axis.low,
        "high": axis.high,
        "models": len(rows),
        "lines": [
            {
                **line(row, [measure]),
                **_points(course, measure, axis),
                "look": looks.get(row.model.key.model, 0),
                "expected": _expected(row, measure, zone),
            }
            for row, course in zip(rows[:NAMED], courses)
        ],
        "thin": [_points(course, measure, axis) for course in courses[NAMED:] if course is not None],
        "baselines": _baselines(rows, courses, measure, axis),
        "objective": None if objective is None else dict(objective.bounds).get(measure),
        "bands": [
            band
            for row in rows
            for incident in history.incidents.of_model(*row.model.key)
            if (band := _band(incident, axis)) is not None
        ][:_BANDS],
    }


class _Axis(NamedTuple):
    """The axis of a plot: a column of courses, and its ends."""

    column: str
    low: int
    high: int

    def fraction(self, value: int) -> float:
        """Return a value's place: 0 at the low end, 1 at the high one."""
        return round((value - self.low) / max(1, self.high - self.low), _PLACE_DIGITS)


def _bounds(measure: str) -> tuple[float | None, float | None]:
    """Return the smallest and the largest possible value of the measure; None without a bound."""
    definition = MEASURES.get(measure)
    ends = (None, None) if definition is None else (definition.low, definition.high)
    low, high = (None if end is None or math.isinf(end) else float(end) for end in ends)
    return low, high


def course_of(history: History, row: RankedModel, measure: str, points: int) -> dict[str, Any] | None:
    """Return the course of a model's measure, and of baselines, in at most `points` points and the newest.

    Returns None if there is none.
    """
    past = history.past.get(row.model.key)
    if past is None or row.sequence is None or row.reading is None or measure not in row.reading.measures:
        return None
    series = past.series.get(row.sequence)
    if series is None:
        return None
    history.within(series)
    newest = newest_point(row.reading)
    indices = [index for index in series.at_most(points) if index < series.before(newest)]
    baselines = (reference.measure for reference in measures.baseline_references(measure))
    return columns(series, indices, newest, [measure, *baselines])


def _points(course: dict[str, Any] | None, name: str, axis: _Axis, one_less: bool = False) -> dict[str, Any]:
    """Return the points of a course: `x` from 0 to 1 on the axis, `y` None without a value."""
    if course is None:
        return {"x": [], "y": []}
    values = [1 - y if one_less and y is not None else y for y in course["values"][name]]
    return {
        "x": [axis.fraction(x) for x in course[axis.column]],
        "y": [None if y is None else float(f"{y:.{_DIGITS}g}") for y in values],
    }


def _baselines(
    rows: list[RankedModel], courses: list[dict[str, Any] | None], measure: str, axis: _Axis
) -> list[dict[str, Any]]:
    """Return baselines from the first model's messages, unless they are also evaluated as models."""
    course = next((course for course in courses if course is not None), None)
    if course is None or any(is_baseline(row.model.key.model) for row in rows):
        return []
    return [
        {"name": reference.line.name, "short": reference.line.short,
         **_points(course, reference.measure, axis, reference.one_less)}
        for reference in measures.baseline_references(measure)
        if reference.measure in course["values"]
    ]  # fmt: skip


def _expected(row: RankedModel, measure: str, zone: str) -> dict[str, Any] | None:
    """Return the expected value of the newest whole period; None if the period is final."""
    period_reading = row.model.period
    if period_reading is None or period_reading.is_final or period_reading.expected is None:
        return None
    expected_value = period_reading.expected.measures.get(measure)
    if expected_value is None or expected_value.get("value") is None:
        return None
    low, high = expected_value.get("interval") or (None, None)
    return {
        "start": period_reading.period.start, "end": period_reading.period.end,
        "value": expected_value["value"], "low": low, "high": high,
        "so_far": period_reading.measures.get(measure),
        "period": period_name(period_reading.period.start, period_reading.period.end, zone,
            untimed=row.model.untimed),
    }  # fmt: skip


def _band(incident: Incident, axis: _Axis) -> dict[str, Any] | None:
    """Return an incident's beginning and end, from 0 to 1 on the axis; None if it ended before that."""
    start, end = status.span_of(incident, "ts" if axis.column == "t" else "outcome")
    if end is not None and end < axis.low:
        return None
    ends = (start, axis.high if end is None else max(start, end))
    fractions = [min(1.0, max(0.0, axis.fraction(axis_value))) for axis_value in ends]
    return {
        "id": incident.id,
        "model": incident.model,
        "from": fractions[0],
        "to": fractions[1],
        "better": incident.severity < 0,
        "open": incident.status == "open",
        "text": f"{printable(incident.model)}: {status.change_in_words(incident)}, {incident.status}",
    }
