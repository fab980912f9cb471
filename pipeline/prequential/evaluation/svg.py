"""Plots as SVG, made without any library: lines, and incidents in a lane below them; and whose lines."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.measures.declaration import REGRESSION
from prequential.engine.measures.registry import MEASURES
from prequential.offline.replay.summary import SequenceSummary
from prequential.topics.errors import printable
from prequential.topics.outputs import Incident, Metrics
from prequential.views.watching.ranking import is_baseline
from prequential.views.wording.measures import COLUMNS, baseline_references
from prequential.views.wording.status import cause_name, span_of

#: Pixels: the size of the plot, and the margins for numbers, names and times.
_WIDTH, _HEIGHT = 680, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 150, 40, 44

#: Pixels of the lane: its distance from the plot, and its height.
_LANE_GAP, _LANE = 3, 7

#: Colours that are visible on white and on black, and dashes, which distinguish lines without colours.
_COLOURS = ("#3b7dd8", "#d2691e", "#1f9d77", "#a855c7", "#9a8700", "#d6407a")
_DASHES = ("", "7 4", "2 3", "10 3 2 3", "4 2 1 2", "1 5")

#: A line with fewer points is drawn as points, because the values in between are unknown.
_FEW = 8

#: From this number of points on, the first twelfth of a line does not affect the range of the axis: estimates
#: from a few outcomes vary too much.
_SETTLING = 24

#: The most points of a line that are drawn; more would not be visible.
_POINTS = 400

#: Pixels between the names of lines, and the most letters of a name.
_NAME_STEP, _NAME_LENGTH = 14, 20

#: The least number of gaps between ticks; and the pixels per letter of a band's name.
_GAPS, _LETTER = 3, 6.2


class Line(NamedTuple):
    """A named line: places on the axis of outcomes or times (epoch ms), and values (None: there is none)."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    faint: bool = False


class Band(NamedTuple):
    """A named interval of the axis, such as an incident; it is still open if `end` is None."""

    start: float
    end: float | None
    name: str


class Plot:
    """A plot as SVG, made without any library. A notebook displays it; `save` writes it to a file.

    Attributes
    ----------
    title
        The title of the plot.
    lines
        The lines, with all of their points; few points are drawn as points, not as lines.
    bands
        Incidents, in a lane below the lines.
    timed
        Whether places are label times (epoch ms).
    axis
        The name of the horizontal axis: `outcomes`, `label time (UTC)`, or that of a curve.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> table = {"y_pred": ["UP", "UP", "DOWN", "UP"], "y_true": ["UP", "DOWN", "DOWN", "UP"]}
    >>> plot = evaluate(table, table, estimators=["all"], emit={"outcomes": 1}).plot("accuracy")
    >>> [(line.name, line.x, line.y) for line in plot.lines if not line.faint]
    [('model', [1, 2, 3, 4], [1.0, 0.5, 0.6666666666666666, 0.75])]
    >>> plot._repr_svg_()[:4]
    '<svg'
    """

    def __init__(
        self, title: str, lines: Sequence[Line], bands: Sequence[Band] = (), *, timed: bool = False,
        bounds: tuple[float, float] = (-math.inf, math.inf), axis: str | None = None,
    ) -> None:  # fmt: skip
        self.title = title
        self.lines = list(lines)
        self.bands = list(bands)
        self.timed = timed
        self.axis = axis or ("label time (UTC)" if timed else "outcomes")
        self._bounds = bounds

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the plot to an SVG file; returns its bytes. Raises OSError if it can't be written."""
        return Path(path).write_bytes(self._repr_svg_().encode())

    def __repr__(self) -> str:
        drawn = ", ".join(printable(line.name) for line in self.lines)
        return f"Plot({self.title!r}: {drawn}; a notebook shows it, .save(path) writes SVG)"

    def _repr_html_(self) -> str:
        return f'<div class="prequential-plot">{self._repr_svg_()}</div>'

    def _repr_svg_(self) -> str:
        low, high = self._heights()
        xs = [x for line in self.lines for x in line.x]
        left, right = min(xs, default=0.0), max(xs, default=1.0)
        right = right if right > left else left + 1
        parts = [*self._bands(left, right), *_rules(low, high), *self._axis(left, right)]
        ends: list[tuple[float, str, str]] = []
        number = 0
        for line in self.lines:
            colour, dash = "#888", "3 3"
            if not line.faint:
                colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
                number += 1
            points = [
                (_across(x, left, right), _up(y, low, high)) for x, y in _thinned(line) if y is not None
            ]
            parts.append(_drawn(points, colour, dash, line.faint))
            known = [y for y in line.y if y is not None]
            if points:
                name = printable(line.name)
                short = name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
                ends.append((points[-1][1], f"{short} {known[-1]:.3g}", colour))
        parts += _names(ends)
        title = escape(printable(self.title))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" style="max-width:100%;height:auto" role="img" font-family="sans-serif" '
            f'font-size="11" fill="currentColor"><title>{title}</title>'
            f'<text x="{_LEFT}" y="14" font-size="13" font-weight="bold">{title}</text>{"".join(parts)}</svg>'
        )

    def _heights(self) -> tuple[float, float]:
        """Return the lowest and the highest value of the plot."""
        seen: list[float] = []
        for line in self.lines:
            known = [y for y in line.y if y is not None]
            seen += known[len(known) // 12 :] if len(known) >= _SETTLING else known
        if not seen:
            return 0.0, 1.0
        low, high = min(seen), max(seen)
        air = 0.08 * (high - low) or 0.05 * abs(high) or 0.5
        least, most = self._bounds
        return max(low - air, least), min(high + air, most)

    def _bands(self, left: float, right: float) -> list[str]:
        parts, free = [], 0.0
        for number, band in enumerate(sorted(self.bands), 1):
            start = _across(band.start, left, right)
            width = max(2.0, _across(right if band.end is None else band.end, left, right) - start)
            name = escape(printable(band.name))
            parts.append(
                f'<rect x="{start:.1f}" y="{_HEIGHT - _BOTTOM + _LANE_GAP}" width="{width:.1f}" '
                f'height="{_LANE}" fill="#c0392b" fill-opacity="0.75">'
                f"<title>incident {number}: {name}</title></rect>"
            )
            text = f"◆ {number} {name}"
            if start >= free and start + _LETTER * len(text) <= _WIDTH:
                parts.append(f'<text x="{start:.1f}" y="{_TOP - 6}" fill="#c0392b">{text}</text>')
                free = start + _LETTER * len(text)
        return parts

    def _axis(self, left: float, right: float) -> list[str]:
        at = _HEIGHT - _BOTTOM
        if self.timed:  # both ends, within the plot
            shown = [(x, anchor, _moment(x, right - left)) for x, anchor in ((left, "start"), (right, "end"))]
        else:
            shown = [(x, "middle", f"{x:,.12g}") for x in _ticks(left, right)]
        parts = [
            f'<text x="{_across(x, left, right):.1f}" y="{at + 24}" text-anchor="{anchor}" opacity="0.75">'
            f"{text}</text>"
            for x, anchor, text in shown
        ]
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        return [
            *parts,
            f'<text x="{middle}" y="{at + 38}" text-anchor="middle" opacity="0.75">'
            f"{escape(printable(self.axis))}</text>",
        ]


def _moment(ms: float, width: float) -> str:
    text = datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return text[:10] if width > 90 * 86_400_000 else text


def _across(x: float, left: float, right: float) -> float:
    return _LEFT + (min(max(x, left), right) - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)


def _up(y: float, low: float, high: float) -> float:
    return _TOP + (1 - (min(max(y, low), high) - low) / (high - low)) * (_HEIGHT - _TOP - _BOTTOM)


def _thinned(line: Line) -> list[tuple[float, float | None]]:
    points = list(zip(line.x, line.y))
    if len(points) <= _POINTS:
        return points
    step = (len(points) - 1) / (_POINTS - 1)
    return [points[round(step * place)] for place in range(_POINTS)]


def _drawn(points: list[tuple[float, float]], colour: str, dash: str, faint: bool) -> str:
    width = 1 if faint else 1.8
    if len(points) < _FEW:
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    placed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _rules(low: float, high: float) -> list[str]:
    return [
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_up(y, low, high):.1f}" y2="{_up(y, low, high):.1f}"'
        f' stroke="currentColor" stroke-opacity="0.15"/><text x="{_LEFT - 6}" '
        f'y="{_up(y, low, high) + 4:.1f}" text-anchor="end" opacity="0.75">{y:.4g}</text>'
        for y in _ticks(low, high)
    ]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the ends.

    >>> _ticks(0.61, 0.93), _ticks(0, 4000)
    ([0.7, 0.8, 0.9], [0.0, 1000.0, 2000.0, 3000.0, 4000.0])
    """
    size = 10.0 ** math.floor(math.log10((high - low) / _GAPS))
    step = next(one * size for one in (5, 2, 1) if (high - low) / (one * size) >= _GAPS)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) + 0.0 for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _names(ends: list[tuple[float, str, str]]) -> list[str]:
    """Names behind the last points, moved apart where they would cover each other."""
    parts, free = [], float(_TOP - 8)
    for y, name, colour in sorted(ends):
        at = max(y + 4, free)
        if at > _HEIGHT - 4:
            break
        free = at + _NAME_STEP
        parts.append(f'<text x="{_WIDTH - _RIGHT + 6}" y="{at:.1f}" fill="{colour}">{escape(name)}</text>')
    return parts


#: The most plots of a summary; further streams are only in the table.
_STREAMS = 6


def plot_of(messages: Sequence[Metrics], measure: str, incidents: Sequence[Incident], title: str) -> Plot:
    """Plot a measure by model, from messages of one stream, segment, stage and estimator.

    For the share of correct predictions, or 1 minus that share, the plot also shows both baselines. Their
    values come from the first model's messages.
    """
    times = [one.ts for one in messages]
    timed = not messages[0].untimed and max(times) > min(times)
    models: dict[str, list[Metrics]] = {}
    for one in messages:
        models.setdefault(one.model, []).append(one)
    lines = [_line(own, model, measure, timed) for model, own in models.items()]
    first = next(iter(models.values()))
    for baseline in baseline_references(measure):
        if any(baseline.measure in one.measures for one in first):
            line = _line(first, baseline.line.short, baseline.measure, timed)
            ys = [None if y is None else 1 - y for y in line.y] if baseline.one_less else line.y
            lines.append(line._replace(y=ys, faint=True))
    shown = (one for one in incidents if one.model in models)
    declared = MEASURES[measure]
    bounds = declared.low, declared.high
    return Plot(title, lines, list(_bands(shown, timed)), timed=timed, bounds=bounds)


def course_plots(sequences: Iterable[SequenceSummary], incidents: Iterable[Incident]) -> Iterator[Plot]:
    """Yield a plot for each stream: the mean loss of its models by blocks of outcomes, in the final stage."""
    streams: dict[tuple[str, str], list[SequenceSummary]] = {}
    for one in sequences:
        if one.is_of(FINAL) and one.course.loss:
            streams.setdefault((one.stream, one.task), []).append(one)
    incidents = list(incidents)
    for (stream, task), own in list(streams.items())[:_STREAMS]:
        measure = COLUMNS[task][0]
        right = task != REGRESSION
        lines = [
            Line(
                one.model,
                # A block's point is at its end. The last block may not be full.
                [
                    min(one.outcomes, one.course.outcomes * (place + 1))
                    for place in range(len(one.course.loss))
                ],
                [1 - loss if right else loss for loss in one.course.loss], is_baseline(one.model),
            )
            for one in own
        ]  # fmt: skip
        sizes = {one.course.outcomes for one in own}
        of = f"means of {min(sizes):,} outcomes" if len(sizes) == 1 else "means of blocks of outcomes"
        models = {one.model for one in own}
        bands = _bands((one for one in incidents if one.stream == stream and one.model in models), False)
        bounds = (0.0, 1.0) if right else (0.0, float("inf"))
        yield Plot(f"{stream}: {measure}, {of}", lines, list(bands), bounds=bounds)


def _line(messages: Sequence[Metrics], name: str, measure: str, timed: bool) -> Line:
    # If several points have the same place, the last one counts: the last set of messages repeats earlier
    # ones.
    newest = {one.ts if timed else one.outcomes: one.measures.get(measure) for one in messages}
    return Line(name, list(newest), list(newest.values()), is_baseline(name))


def _bands(incidents: Iterable[Incident], timed: bool) -> Iterator[Band]:
    axis = "ts" if timed else "outcome"
    for one in incidents:
        cause = cause_name(one.causes[0]) if one.causes else one.status
        yield Band(*span_of(one, axis), f"{one.model}: {cause}")
