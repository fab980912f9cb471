"""The report of a backtest, as JSON, tables and a plot: alarms on the past and in streams like it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

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
from prequential.views.svg import Plot, lines_by_outcome, stacked
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
    """Incidents on the past, and how many of them lasted."""

    #: The newest message of each incident.
    incidents: list[Incident]
    #: Prediction time of all models together, in months of 30 days; None: records have no time.
    model_months: float | None
    #: Incidents that are over or lasting, and how many of them lasted.
    graded: int
    lasting: int


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
    outcomes = sum(sequence.outcomes for sequence in past.sequences)
    title = f"on the past: {outcomes:,} outcomes of {_plural(len(past.sequences), 'sequence')}"
    yield _lines(past.lines, title)
    if any(sequence.alarms for sequence in past.sequences):
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
    for sequence in sequences:
        by_detector: dict[str, list[Alarm]] = {}
        for alarm, detector in zip(sequence.alarms, sequence.detectors):
            by_detector.setdefault(detector, []).append(alarm)
        names = " ".join(
            printable(name)
            for name in (sequence.stream, sequence.model, sequence.segment, sequence.stage)
            if name
        )
        for detector, alarms in by_detector.items():
            outcome_texts = [f"{alarm.outcome:,}" for alarm in alarms[:_PLACES]]
            outcome_texts += ["…"] if len(alarms) > _PLACES else []
            rows.append([names, detector, f"{len(alarms):,}", " ".join(outcome_texts), clock(alarms[0].ts)])
    return _with_rows(grid, rows)


def _incidents(past: PastIncidents) -> Table:
    """Return a table of incidents: start, opening, levels, and grade."""
    title = f"on the past: {_plural(len(past.incidents), 'incident')}"
    if past.model_months:
        title += f", {len(past.incidents) / past.model_months:.2f} for each model and 30 days"
    if past.graded:
        title += f"; {past.lasting} of {past.graded} lasted"
    grid = new_grid(title)
    grid.add_column("model", overflow="fold")
    for head in ("opened", "since", "loss before", "after", "clusters"):
        grid.add_column(head, justify="right")
    grid.add_column("grade")
    rows = []
    for incident in past.incidents:
        grade = str(incident.grade) if incident.grade else ""
        rows.append([
            f"{printable(incident.stream)} {printable(incident.model)}", _at(incident, incident.opened),
            _at(incident, incident.change_point), _number(incident.before["level"], 3),
            _number(incident.after["level"], 3),
            _clusters(incident), grade,
        ])  # fmt: skip
    return _with_rows(grid, rows)


def _with_rows(grid: Table, rows: Sequence[Sequence[str]]) -> Table:
    for cells in rows[:_ROWS]:
        grid.add_row(*map(Text, cells))
    if len(rows) > _ROWS:
        grid.caption = f"and {len(rows) - _ROWS:,} more rows: --json has all"
    return grid


def _at(incident: Incident, place: dict[str, int]) -> str:
    return f"outcome {place['outcome']:,}" if incident.untimed else clock(place["ts"])


def _clusters(incident: Incident) -> str:
    """Return the number of clusters on which the decision is based, and their length."""
    if not incident.cluster:
        return "-"
    length = "" if incident.untimed else f" of {shown_duration(int(incident.cluster['length_ms']))}"
    return f"{incident.cluster['after']:,}{length}"


def new_grid(title: str) -> Table:
    """An empty table of a report for a terminal, with its title at the left."""
    return Table(
        title=Text(title), title_justify="left", caption_justify="left", show_edge=False, pad_edge=False
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


#: How many sequences are drawn: those with the most alarms.
_DRAWN = 8

#: The most letters of a detector's name, with its parameters and its false alarms, in a plot.
_NAME_LETTERS = 60

#: The error is drawn as a moving mean of the loss: over this share of a sequence, and at least this many
#: outcomes.
_SHARE, _LEAST = 0.01, 20


def plot(report: BacktestReport, sequences: Sequence[PastSequence]) -> str:
    """A backtest as the text of an SVG image; `sequences` are the report's."""
    plots = list(_past(report, sequences))
    plots += _delays(report.past.lines, report.past.window, "on the past")
    if report.injected is not None:
        injected = report.injected
        plots += _delays(injected.lines, injected.window, " and ".join(injected.injections))
    return stacked(plots, _NAME_LETTERS)


def _past(report: BacktestReport, sequences: Sequence[PastSequence]) -> Iterator[Plot]:
    watched = report.past.sequences
    order = sorted(range(len(watched)), key=lambda index: -len(watched[index].alarms))
    for index in sorted(order[:_DRAWN]):
        watched_sequence = watched[index]
        sequence = sequences[index]
        marks: dict[str, list[int]] = {name_of(detector): [] for detector in every_detector(sequence.config)}
        for alarm, detector in zip(watched_sequence.alarms, watched_sequence.detectors):
            marks[detector].append(alarm.outcome)
        window = min(watched_sequence.outcomes, max(_LEAST, int(_SHARE * watched_sequence.outcomes)))
        names = ", ".join(
            name
            for name in (
                watched_sequence.stream,
                watched_sequence.model,
                watched_sequence.segment,
                watched_sequence.stage,
            )
            if name
        )
        title = f"{names}: mean loss of {window:,} outcomes, and alarms"
        lines = lines_by_outcome({"": _mean_loss(sequence.loss, window)})
        yield Plot(title, lines, bounds=(0.0, math.inf), marks=marks, dashed=watched_sequence.changes)


def _mean_loss(losses: Floats, window: int) -> Floats:
    """Return the mean of the last `window` losses at each outcome; NaN while there are fewer."""
    total = np.concatenate([np.zeros(1), np.cumsum(losses)])
    means = np.full(len(losses), np.nan)
    means[window - 1 :] = (total[window:] - total[:-window]) / window
    return means


def _delays(lines: Sequence[DetectorAlarms], window: int, title: str) -> Iterator[Plot]:
    """Yield a plot with the share of changes found within each number of outcomes, by detector."""
    curves: dict[str, Floats] = {}
    for line in lines:
        scores = line.scores
        if scores is None or not scores.changes:
            continue
        detected_delays = [delay for run in scores.delays for delay in run if delay is not None]
        counts = np.bincount(detected_delays, minlength=window + 1)[: window + 1].cumsum()
        name = f"{line.detector} ({scores.false_alarms_per_10000 or 0.0:,.2f} false per 10,000)"
        curves[name] = counts[1:] / scores.changes
    if curves:
        title = f"{title}: share of changes found, by outcomes since"
        yield Plot(title, lines_by_outcome(curves), bounds=(0.0, 1.0), axis="outcomes since the change")
