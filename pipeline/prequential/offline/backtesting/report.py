"""The report of a backtest, as JSON, tables and a plot: alarms on the past and in streams like it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import cycle
from typing import NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.durations import shown_duration
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors.objectives import every_detector
from prequential.offline.backtesting.changes import PER, DetectionScores, name_of
from prequential.offline.backtesting.sequences import PastSequence
from prequential.topics.dead_letters import clock
from prequential.topics.errors import printable
from prequential.topics.outputs import Alarm, Incident
from rich.table import Table
from rich.text import Text

#: The most rows of alarms that a table shows, and the most places in each row; JSON has all.
_ROWS, _PLACES = 40, 5

#: The name of incidents, which are compared with known changes as detectors are.
INCIDENTS = "(incidents)"

#: Names of the two baselines, which ignore the outcomes.
ALWAYS, NEVER = "(always)", "(never)"


class DetectorAlarms(msgspec.Struct):
    """A detector over all sequences that it watches."""

    detector: str
    sequences: int
    outcomes: int
    alarms: int
    #: Compared with the known changes; None: no changes are known.
    scores: DetectionScores | None


class Watched(msgspec.Struct):
    """A sequence of the past: its alarms are those that a worker would have published."""

    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    outcomes: int
    #: Outcomes after which something changed.
    changes: list[int]
    alarms: list[Alarm]
    #: For each alarm, its detector, as `Line.detector` names it.
    detectors: list[str]


class PastAlarms(msgspec.Struct):
    """The alarms that detectors would have raised on the past."""

    sequences: list[Watched]
    lines: list[DetectorAlarms]
    #: The longest delay with which a change is found, in outcomes.
    window: int


class Injected(msgspec.Struct):
    """The alarms in streams like the past ones, with rises of the error."""

    injections: list[str]
    seeds: int
    outcomes: int
    lines: list[DetectorAlarms]
    window: int
    #: Sequences from which no streams could be made, and why.
    left_out: list[str]


class PastIncidents(msgspec.Struct):
    """Incidents on the past, and whether later outcomes agree with them."""

    #: The newest message of each incident.
    incidents: list[Incident]
    #: Prediction time of all models together, in months of 30 days; None: records have no time.
    model_months: float | None
    #: Incidents after which clusters were closed, and how many of them the clusters agree with.
    graded: int
    agreed: int


class BacktestReport(msgspec.Struct):
    """A whole backtest, as `--json` prints it: on the past and, with injected rises, in streams like it."""

    #: How many outcomes after the end of a change an alarm may come to find it.
    tolerance: int
    past: PastAlarms
    incidents: PastIncidents
    injected: Injected | None


def tables(report: BacktestReport) -> Iterator[Table]:
    """Yield a backtest as tables for people: on the past, its alarms by outcome, and with injected rises."""
    past = report.past
    outcomes = sum(one.outcomes for one in past.sequences)
    title = f"on the past: {outcomes:,} outcomes of {_plural(len(past.sequences), 'sequence')}"
    yield _lines(past.lines, title)
    if any(one.alarms for one in past.sequences):
        yield _alarms(past.sequences)
    yield _incidents(report.incidents)
    if report.injected is not None:
        injected = report.injected
        title = (
            f"{' and '.join(injected.injections)}: {_plural(injected.seeds, 'stream')} like each past one, "
            f"of {injected.outcomes:,} outcomes"
        )
        yield _lines(injected.lines, title)


def _lines(lines: Sequence[DetectorAlarms], title: str) -> Table:
    """Return a table with a row for each detector, and its accuracy if changes are known."""
    judged = any(line.scores is not None for line in lines)
    grid = new_grid(title)
    grid.add_column("detector", overflow="fold")
    heads = ["alarms", f"per {PER:,}"]
    if judged:
        heads = ["found", "share", f"false per {PER:,}", "delay mean", "median", "normalised", "F1"]
    for head in heads:
        grid.add_column(head, justify="right")
    for line in lines:
        if line.scores is None:
            rate = PER * line.alarms / line.outcomes if line.outcomes else None
            cells = [f"{line.alarms:,}", _number(rate, 2)]
        else:
            scores = line.scores
            cells = [
                f"{scores.found:,}/{scores.changes:,}", _number(scores.probability, 2),
                _number(scores.false_alarms_per_10000, 2), _number(scores.delay_mean, 0),
                _number(scores.delay_median, 0), _number(scores.delay_normalised, 2), _number(scores.f1, 2),
            ]  # fmt: skip
        style = "dim" if line.detector in (ALWAYS, NEVER) else ""
        grid.add_row(Text(line.detector), *cells, style=style)
    return grid


def _alarms(sequences: Iterable[Watched]) -> Table:
    """Return a table of alarms by sequence and detector: their outcomes, and the first one's label time."""
    grid = new_grid("alarms on the past")
    grid.add_column("sequence", overflow="fold")
    grid.add_column("detector", overflow="fold")
    grid.add_column("alarms", justify="right")
    grid.add_column("at outcomes", overflow="fold")
    grid.add_column("first at", no_wrap=True)
    rows = []
    for one in sequences:
        by_detector: dict[str, list[Alarm]] = {}
        for alarm, detector in zip(one.alarms, one.detectors):
            by_detector.setdefault(detector, []).append(alarm)
        names = " ".join(printable(name) for name in (one.stream, one.model, one.segment, one.stage) if name)
        for detector, alarms in by_detector.items():
            at = [f"{alarm.outcome:,}" for alarm in alarms[:_PLACES]]
            at += ["…"] if len(alarms) > _PLACES else []
            rows.append([names, detector, f"{len(alarms):,}", " ".join(at), clock(alarms[0].ts)])
    return _with_rows(grid, rows)


def _incidents(past: PastIncidents) -> Table:
    """Return a table of incidents: start, opening, levels, and whether later clusters agree."""
    title = f"on the past: {_plural(len(past.incidents), 'incident')}"
    if past.model_months:
        title += f", {len(past.incidents) / past.model_months:.2f} for each model and 30 days"
    if past.graded:
        title += f"; later clusters agree with {past.agreed} of {past.graded}"
    grid = new_grid(title)
    grid.add_column("model", overflow="fold")
    for head in ("opened", "since", "loss before", "after", "clusters"):
        grid.add_column(head, justify="right")
    grid.add_column("later ones agree")
    rows = []
    for one in past.incidents:
        agreed = "open" if one.agreed is msgspec.UNSET else "yes" if one.agreed else "no"
        rows.append([
            f"{printable(one.stream)} {printable(one.model)}", _at(one, one.opened),
            _at(one, one.change_point), _number(one.before["level"], 3), _number(one.after["level"], 3),
            _clusters(one), agreed,
        ])  # fmt: skip
    return _with_rows(grid, rows)


def _with_rows(grid: Table, rows: Sequence[Sequence[str]]) -> Table:
    for cells in rows[:_ROWS]:
        grid.add_row(*map(Text, cells))
    if len(rows) > _ROWS:
        grid.caption = f"and {len(rows) - _ROWS:,} more rows: --json has all"
    return grid


def _at(one: Incident, place: dict[str, int]) -> str:
    return f"outcome {place['outcome']:,}" if one.untimed else clock(place["ts"])


def _clusters(one: Incident) -> str:
    """Return the number of clusters on which the decision is based, and their length."""
    if not one.cluster:
        return "-"
    length = "" if one.untimed else f" of {shown_duration(int(one.cluster['length_ms']))}"
    return f"{one.cluster['after']:,}{length}"


def new_grid(title: str) -> Table:
    """An empty table of a report for a terminal, with its title at the left."""
    return Table(
        title=Text(title), title_justify="left", caption_justify="left", show_edge=False, pad_edge=False
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_WIDTH, _HEIGHT = 860, 150  # of a panel, in pixels
_LEFT, _RIGHT, _TOP, _GAP = 60, 30, 30, 34

#: Pixel columns of a curve. Of all values that fall on one column, only the lowest and the highest are drawn.
_COLUMNS = _WIDTH - _LEFT - _RIGHT

#: Height of a mark.
_MARK = 6

_COLOURS = (
    "#1b6ca8", "#c8553d", "#4c956c", "#8b5fbf", "#b8860b", "#2a9d8f", "#d1495b", "#6c757d", "#7f4f24",
    "#3d5a80",
)  # fmt: skip


class Panel(NamedTuple):
    """Curves by name over outcomes 1 … n (NaN: no value), and the places of lines and marks."""

    title: str
    curves: dict[str, Floats]
    levels: Sequence[float] = ()
    low: float | None = None
    high: float | None = None
    #: By name, the outcomes with a mark; each name takes the next colour after the curves.
    marks: Mapping[str, Sequence[int]] = {}
    #: Outcomes with a dashed line in this panel, in addition to those of all panels.
    dashed: Sequence[int] = ()
    #: Whether the x axis ends with this panel's curves, and not with the longest curve of all panels.
    apart: bool = False


def figure(
    panels: Sequence[Panel], dashed: Sequence[int] = (), solid: Sequence[int] = (), columns: int = _COLUMNS
) -> str:
    """Return the SVG; `dashed` and `solid` are outcomes with a vertical line through all panels.

    `columns`: number of parts of a curve; for each, the lowest and the highest value are drawn.
    """
    height = _TOP + len(panels) * (_HEIGHT + _GAP) + 10
    n = max(len(curve) for panel in panels for curve in panel.curves.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for place, panel in enumerate(panels):
        length = max(map(len, panel.curves.values())) if panel.apart else n
        top, all_dashed = _TOP + place * (_HEIGHT + _GAP), (*dashed, *panel.dashed)
        parts += _panel(panel, top, length, all_dashed, solid, columns)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    panel: Panel, top: float, n: int, dashed: Sequence[int], solid: Sequence[int], columns: int
) -> list[str]:
    values = np.concatenate(list(panel.curves.values()))
    values = values[np.isfinite(values)]
    low = panel.low if panel.low is not None else float(min(values.min(), 0.0))
    high = panel.high if panel.high is not None else float(max(values.max(), *panel.levels, 0.0) * 1.03)
    high = high if high > low else low + 1.0  # all values are the same
    right, bottom = _WIDTH - _RIGHT, top + _HEIGHT

    def x(outcome: float) -> float:
        return _LEFT + _COLUMNS * outcome / n

    def y(value: float) -> float:
        return bottom - _HEIGHT * (min(max(value, low), high) - low) / (high - low)

    parts = [
        f'<rect x="{_LEFT}" y="{top}" width="{_COLUMNS}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
        f'<text x="{_LEFT}" y="{top - 6}" font-weight="bold">{escape(printable(panel.title))}</text>',
    ]
    for value in _ticks(low, high):
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
    for share in range(5):
        outcome = n * share // 4
        parts.append(
            f'<text x="{x(outcome):.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{outcome:,}</text>'
        )
    for places, dash, width in ((dashed, "5 4", 1), (solid, "none", 0.8)):
        parts += [
            f'<line x1="{x(place):.1f}" x2="{x(place):.1f}" y1="{top}" y2="{bottom}" stroke="#555" '
            f'stroke-dasharray="{dash}" stroke-width="{width}"/>'
            for place in places
        ]
    for level in (*panel.levels, 0.0):
        if low <= level <= high:
            dash = "2 3" if level else "none"
            parts.append(
                f'<line x1="{_LEFT}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#888" '
                f'stroke-dasharray="{dash}" stroke-width="0.8"/>'
            )
    names = [*panel.curves, *panel.marks]
    for colour, (place, name) in zip(cycle(_COLOURS), enumerate(names)):
        if place < len(panel.curves):
            drawn = _thinned(panel.curves[name], columns)
            points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in drawn)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1"/>')
        else:
            row = bottom - _MARK * (len(names) - place)
            marks = "".join(f"M{x(at):.1f} {row:.1f}v{_MARK}" for at in _apart(panel.marks[name], n))
            parts.append(f'<path d="{marks}" stroke="{colour}" stroke-width="1.5"/>')
        if name:
            parts.append(
                f'<text x="{right - 5}" y="{top + 14 + 13 * place}" text-anchor="end" '
                f'fill="{colour}" paint-order="stroke" stroke="white" stroke-width="3">'
                f"{escape(printable(name))}</text>"
            )
    return parts


def _apart(outcomes: Sequence[int], n: int) -> list[int]:
    """Return the first of all outcomes that fall on one pixel, on an axis of `n` outcomes."""
    return list({at * _COLUMNS // n: at for at in reversed(outcomes)}.values())[::-1]


def _ticks(low: float, high: float) -> list[float]:
    """Return about three round numbers between the two."""
    least = (high - low) / 4
    ten = 10.0 ** math.floor(math.log10(least))
    step = next(ten * factor for factor in (1, 2, 5, 10) if ten * factor >= least)
    return [step * at for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _thinned(curve: Floats, columns: int) -> list[tuple[int, float]]:
    """Return the points (outcome, value) of a curve that are drawn.

    They are the extremes of each column, in order. Of a run of equal values, only the ends are kept.
    """
    points = []
    for some in np.array_split(np.arange(len(curve)), min(len(curve), columns)):
        known = some[np.isfinite(curve[some])]
        if len(known):
            ends = {int(known[np.argmin(curve[known])]), int(known[np.argmax(curve[known])])}
            points += [(at + 1, float(curve[at])) for at in sorted(ends)]
    last = len(points) - 1
    return [
        point
        for at, point in enumerate(points)
        if at in (0, last) or not points[at - 1][1] == point[1] == points[at + 1][1]
    ]


#: How many sequences are drawn: those with the most alarms.
_DRAWN = 8

#: The error is drawn as a moving mean of the loss: over this share of a sequence, and at least this many
#: outcomes.
_SHARE, _LEAST = 0.01, 20


def plot(report: BacktestReport, sequences: Sequence[PastSequence]) -> str:
    """A backtest as the text of an SVG image; `sequences` are the report's."""
    panels = list(_past(report, sequences))
    panels += _delays(report.past.lines, report.past.window, "on the past")
    if report.injected is not None:
        injected = report.injected
        panels += _delays(injected.lines, injected.window, " and ".join(injected.injections))
    return figure(panels)


def _past(report: BacktestReport, sequences: Sequence[PastSequence]) -> Iterator[Panel]:
    watched = report.past.sequences
    order = sorted(range(len(watched)), key=lambda place: -len(watched[place].alarms))
    for place in sorted(order[:_DRAWN]):
        one = watched[place]
        sequence = sequences[place]
        marks: dict[str, list[int]] = {name_of(detector): [] for detector in every_detector(sequence.config)}
        for alarm, detector in zip(one.alarms, one.detectors):
            marks[detector].append(alarm.outcome)
        window = min(one.outcomes, max(_LEAST, int(_SHARE * one.outcomes)))
        names = ", ".join(name for name in (one.stream, one.model, one.segment, one.stage) if name)
        title = f"{names}: mean loss of {window:,} outcomes, and alarms"
        yield Panel(title, {"": _mean_loss(sequence.loss, window)}, marks=marks, dashed=one.changes)


def _mean_loss(losses: Floats, window: int) -> Floats:
    """Return the mean of the last `window` losses at each outcome; NaN while there are fewer."""
    total = np.concatenate([np.zeros(1), np.cumsum(losses)])
    means = np.full(len(losses), np.nan)
    means[window - 1 :] = (total[window:] - total[:-window]) / window
    return means


def _delays(lines: Sequence[DetectorAlarms], window: int, title: str) -> Iterator[Panel]:
    """Yield a panel with the share of changes found within each number of outcomes, by detector."""
    curves: dict[str, Floats] = {}
    for line in lines:
        scores = line.scores
        if scores is None or not scores.changes:
            continue
        known = [delay for run in scores.delays for delay in run if delay is not None]
        counts = np.bincount(known, minlength=window + 1)[: window + 1].cumsum()
        name = f"{line.detector} ({scores.false_alarms_per_10000 or 0.0:,.2f} false per 10,000)"
        curves[name] = counts[1:] / scores.changes
    if curves:
        title = f"{title}: share of changes found, by outcomes since"
        yield Panel(title, curves, low=0.0, high=1.0, apart=True)
