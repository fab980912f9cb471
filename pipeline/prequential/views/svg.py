"""Plots as SVG, made without any library: lines, marks, and intervals in a lane below them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.topics.errors import printable

#: Pixels: where the lines are, from the left and from the top, and the height with the margin below them.
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 56, 530, 40, 216, 260

#: Pixels of the lane: its distance from the lines, and its height; and the height of a mark.
_LANE_GAP, _LANE, _MARK = 3, 7, 6

#: Colours that are visible on white and on black, and dashes, which distinguish lines without colours.
_COLOURS = ("#3b7dd8", "#d2691e", "#1f9d77", "#a855c7", "#9a8700", "#d6407a")
_DASHES = ("", "7 4", "10 3 2 3", "4 2 1 2", "1 5")

#: A line with fewer points is drawn as points, because the values in between are unknown.
_FEW = 8

#: From this number of points on, the first twelfth of a line does not affect the range of the axis: estimates
#: from a few outcomes vary too much.
_SETTLING = 24

#: Parts of a line. Of the points of a part, only the lowest and the highest are drawn.
_PARTS = 200

#: Pixels between the names of lines, the most letters of a name, and the pixels of a letter.
_NAME_STEP, _NAME_LENGTH, _LETTER = 14, 20, 6.2

#: Values below this one have three decimals.
_THREE_DECIMALS = 10

#: The least number of gaps between ticks.
_GAPS = 3


class Line(NamedTuple):
    """A named line: places on the axis of outcomes or times (epoch ms), and values (None or NaN: none)."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None] | Floats
    faint: bool = False
    #: The number of its colour and dash, from 0; None: the next one. A model has the same on every page.
    look: int | None = None


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
    marks
        By name, the places with a mark, such as alarms by detector; a row for each name.
    dashed
        Places with a dashed vertical line, such as known changes.

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
        marks: Mapping[str, Sequence[float]] | None = None, dashed: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.title = title
        self.lines = list(lines)
        self.bands = list(bands)
        self.timed = timed
        self.axis = axis or ("label time (UTC)" if timed else "outcomes")
        self.marks = dict(marks or {})
        self.dashed = list(dashed)
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
        return stacked([self])

    def _parts(self, letters: int) -> Iterator[str]:
        """Yield the elements of the plot, with the names' first `letters` letters."""
        all_xs = [np.asarray(line.x, np.float64) for line in self.lines]
        points = [_finite_points(x, line.y) for x, line in zip(all_xs, self.lines)]
        low, high = self._heights([y for _, y in points])
        x_low = min((float(x.min()) for x in all_xs if len(x)), default=0.0)
        x_high = max((float(x.max()) for x in all_xs if len(x)), default=1.0)
        x_high = x_high if x_high > x_low else x_low + 1
        title = escape(printable(self.title))
        yield f'<text x="{_LEFT}" y="14" font-size="13" font-weight="bold">{title}</text>'
        yield from self._bands(x_low, x_high, _width(letters))
        yield from _rules(low, high)
        yield from self._axis(x_low, x_high)
        for position in self.dashed:
            pixel = _across(position, x_low, x_high)
            yield (
                f'<line x1="{pixel:.1f}" x2="{pixel:.1f}" y1="{_TOP}" y2="{_BOTTOM}" '
                'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="5 4"/>'
            )
        looks = count()
        ends: list[tuple[float, str, str]] = []
        for line, (xs, ys) in zip(self.lines, points):
            colour, dash = ("#888", "3 3") if line.faint else _look(line.look, looks)
            drawn = [(_across(xs[i], x_low, x_high), _up(ys[i], low, high)) for i in _extremes(ys)]
            yield _drawn(drawn, colour, dash, line.faint)
            if drawn and line.name:
                # The value comes first: behind a name such as "model", it would read as its number.
                ends.append((drawn[-1][1], f"{_value(float(ys[-1]))} {_short(line.name, letters)}", colour))
        for row, (name, marked) in enumerate(self.marks.items()):
            colour, _ = _look(None, looks)
            top = _BOTTOM - _MARK * (len(self.marks) - row)
            pixels = dict.fromkeys(round(_across(position, x_low, x_high), 1) for position in marked)
            path = "".join(f"M{x} {top}v{_MARK}" for x in pixels)
            yield f'<path d="{path}" stroke="{colour}" stroke-width="1.5"/>'
            ends.append((top + _MARK, _short(name, letters), colour))
        yield from _names(ends)

    def _heights(self, values: Sequence[Floats]) -> tuple[float, float]:
        """Return the lowest and the highest value of the plot."""
        seen = [y[len(y) // 12 :] if len(y) >= _SETTLING else y for y in values if len(y)]
        if not seen:
            return 0.0, 1.0
        low, high = float(min(y.min() for y in seen)), float(max(y.max() for y in seen))
        air = 0.08 * (high - low) or 0.05 * abs(high) or 0.5
        least, most = self._bounds
        return max(low - air, least), min(high + air, most)

    def _bands(self, x_low: float, x_high: float, end: float) -> Iterator[str]:
        free = 0.0
        for incident_number, band in enumerate(sorted(self.bands), 1):
            start = _across(band.start, x_low, x_high)
            width = max(2.0, _across(x_high if band.end is None else band.end, x_low, x_high) - start)
            name = escape(printable(band.name))
            yield (
                f'<rect x="{start:.1f}" y="{_BOTTOM + _LANE_GAP}" width="{width:.1f}" '
                f'height="{_LANE}" fill="#c0392b" fill-opacity="0.75">'
                f"<title>incident {incident_number}: {name}</title></rect>"
            )
            text = f"◆ {incident_number} {name}"
            if start >= free and start + _LETTER * len(text) <= end:
                yield f'<text x="{start:.1f}" y="{_TOP - 6}" fill="#c0392b">{text}</text>'
                free = start + _LETTER * len(text)

    def _axis(self, x_low: float, x_high: float) -> Iterator[str]:
        if self.timed:  # both ends, within the plot
            shown = [
                (x, anchor, _moment(x, x_high - x_low)) for x, anchor in ((x_low, "start"), (x_high, "end"))
            ]
        else:
            shown = [(x, "middle", f"{x:,.12g}") for x in _ticks(x_low, x_high)]
        for x, anchor, text in shown:
            yield (
                f'<text x="{_across(x, x_low, x_high):.1f}" y="{_BOTTOM + 24}" text-anchor="{anchor}" '
                f'opacity="0.75">{text}</text>'
            )
        middle = (_LEFT + _RIGHT) / 2
        yield (
            f'<text x="{middle}" y="{_BOTTOM + 38}" text-anchor="middle" opacity="0.75">'
            f"{escape(printable(self.axis))}</text>"
        )


def stacked(plots: Sequence[Plot], letters: int = _NAME_LENGTH) -> str:
    """Return the plots, one below the other, as one SVG; `letters`: the most of a line's name."""
    width, height = _width(letters), _HEIGHT * len(plots)
    groups = "".join(
        f'<g transform="translate(0 {_HEIGHT * index})">{"".join(plot._parts(letters))}</g>'
        for index, plot in enumerate(plots)
    )
    title = escape(printable("; ".join(plot.title for plot in plots)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" role="img" font-family="sans-serif" '
        f'font-size="11" fill="currentColor"><title>{title}</title>{groups}</svg>'
    )


def lines_by_outcome(curves: Mapping[str, Floats]) -> list[Line]:
    """Return curves with a value for each of the outcomes 1 … n as lines."""
    return [Line(name, range(1, len(curve) + 1), curve) for name, curve in curves.items()]


def _look(look: int | None, free_looks: Iterator[int]) -> tuple[str, str]:
    """Return colour and dash by their number; without one, those of the next number."""
    index = next(free_looks) if look is None else look
    return _COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)]


def _finite_points(x: Floats, values: Sequence[float | None] | Floats) -> tuple[Floats, Floats]:
    """Return the places and values of the points that have a value."""
    y = np.asarray(values, np.float64)  # NaN for None
    is_finite = np.isfinite(y)
    return x[is_finite], y[is_finite]


def _extremes(y: Floats) -> list[int]:
    """Return the indices of the points that are drawn: both ends, and the extremes of each part.

    >>> _extremes(np.array([0.5, 0.7])), len(_extremes(np.arange(5000.0)))
    ([0, 1], 400)
    """
    if len(y) <= _PARTS:
        return list(range(len(y)))
    indices = {0, len(y) - 1}
    for part in np.array_split(np.arange(len(y)), _PARTS):
        indices |= {int(part[np.argmin(y[part])]), int(part[np.argmax(y[part])])}
    return sorted(indices)


def _moment(ms: float, width: float) -> str:
    text = datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return text[:10] if width > 90 * 86_400_000 else text


def _value(value: float) -> str:
    return f"{value:.3f}" if abs(value) < _THREE_DECIMALS else f"{value:,.4g}"


def _short(name: str, letters: int) -> str:
    name = printable(name)
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _width(letters: int) -> int:
    """Return the width of a plot whose names have so many letters: 680 for those of a `Plot`."""
    return _RIGHT + 30 + 6 * letters


def _across(x: float, x_low: float, x_high: float) -> float:
    return _LEFT + (min(max(x, x_low), x_high) - x_low) / (x_high - x_low) * (_RIGHT - _LEFT)


def _up(y: float, low: float, high: float) -> float:
    return _TOP + (1 - (min(max(y, low), high) - low) / (high - low)) * (_BOTTOM - _TOP)


def _drawn(points: list[tuple[float, float]], colour: str, dash: str, faint: bool) -> str:
    width = 1 if faint else 1.8
    if len(points) < _FEW:
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    placed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _rules(low: float, high: float) -> Iterator[str]:
    for y in _ticks(low, high):
        pixel = _up(y, low, high)
        yield (
            f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{pixel:.1f}" y2="{pixel:.1f}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="{_LEFT - 6}" y="{pixel + 4:.1f}" text-anchor="end" '
            f'opacity="0.75">{y:.4g}</text>'
        )


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between the ends.

    >>> _ticks(0.61, 0.93), _ticks(0, 4000)
    ([0.7, 0.8, 0.9], [0.0, 1000.0, 2000.0, 3000.0, 4000.0])
    """
    size = 10.0 ** math.floor(math.log10((high - low) / _GAPS))
    step = next(factor * size for factor in (5, 2, 1) if (high - low) / (factor * size) >= _GAPS)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) + 0.0 for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _names(ends: list[tuple[float, str, str]]) -> Iterator[str]:
    """Yield names behind the last points, moved apart where they would cover each other."""
    free = float(_TOP - 8)
    for y, name, colour in sorted(ends):
        pixel = max(y + 4, free)
        if pixel > _HEIGHT - 4:
            break
        free = pixel + _NAME_STEP
        yield f'<text x="{_RIGHT + 6}" y="{pixel:.1f}" fill="{colour}">{escape(name)}</text>'
