"""The report of a backtest, as JSON and as tables: alarms on the past and in streams like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from prequential.configuration.settings.durations import shown_duration
from prequential.offline.backtesting.changes import PER, DetectionScores
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


class SequenceAlarms(NamedTuple):
    """Alarms of one detector in one sequence."""

    sequence: str
    detector: str
    alarms: list[Alarm]


def tables(report: BacktestReport) -> Iterator[Table]:
    """Yield a backtest as tables for people: on the past, its alarms by outcome, and with injected rises."""
    past = report.past
    outcomes = sum(one.outcomes for one in past.sequences)
    title = f"on the past: {outcomes:,} outcomes of {_plural(len(past.sequences), 'sequence')}"
    yield _lines(past.lines, title)
    places = list(_places(past.sequences))
    if places:
        yield _alarms(places)
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


def _alarms(places: Sequence[SequenceAlarms]) -> Table:
    """Return a table of alarms: their outcomes, and the label time of the first one."""
    grid = new_grid("alarms on the past")
    grid.add_column("sequence", overflow="fold")
    grid.add_column("detector", overflow="fold")
    grid.add_column("alarms", justify="right")
    grid.add_column("at outcomes", overflow="fold")
    grid.add_column("first at", no_wrap=True)
    for place in places[:_ROWS]:
        at = [f"{alarm.outcome:,}" for alarm in place.alarms[:_PLACES]]
        at += ["…"] if len(place.alarms) > _PLACES else []
        cells = [place.sequence, place.detector, f"{len(place.alarms):,}", " ".join(at)]
        grid.add_row(*map(Text, [*cells, clock(place.alarms[0].ts)]))
    if len(places) > _ROWS:
        grid.caption = f"and {len(places) - _ROWS:,} more rows: --json has all"
    return grid


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
    for one in past.incidents[:_ROWS]:
        agreed = "open" if one.agreed is msgspec.UNSET else "yes" if one.agreed else "no"
        cells = [
            f"{printable(one.stream)} {printable(one.model)}", _at(one, one.opened),
            _at(one, one.change_point), _number(one.before["level"], 3), _number(one.after["level"], 3),
            _clusters(one), agreed,
        ]  # fmt: skip
        grid.add_row(*map(Text, cells))
    if len(past.incidents) > _ROWS:
        grid.caption = f"and {len(past.incidents) - _ROWS:,} more rows: --json has all"
    return grid


def _at(one: Incident, place: dict[str, int]) -> str:
    return f"outcome {place['outcome']:,}" if one.untimed else clock(place["ts"])


def _clusters(one: Incident) -> str:
    """Return the number of clusters on which the decision is based, and their length."""
    if not one.cluster:
        return "-"
    length = "" if one.untimed else f" of {shown_duration(int(one.cluster['length_ms']))}"
    return f"{one.cluster['after']:,}{length}"


def _places(sequences: Iterable[Watched]) -> Iterator[SequenceAlarms]:
    for one in sequences:
        by_detector: dict[str, list[Alarm]] = {}
        for alarm, detector in zip(one.alarms, one.detectors):
            by_detector.setdefault(detector, []).append(alarm)
        names = " ".join(printable(name) for name in (one.stream, one.model, one.segment, one.stage) if name)
        for detector, alarms in by_detector.items():
            yield SequenceAlarms(names, detector, alarms)


def new_grid(title: str) -> Table:
    """An empty table of a report for a terminal, with its title at the left."""
    return Table(
        title=Text(title), title_justify="left", caption_justify="left", show_edge=False, pad_edge=False
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
