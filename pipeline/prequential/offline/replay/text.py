"""A summary as text for a terminal: lines, and the table of models that the demo also shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from prequential.configuration.settings.durations import shown_duration
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.engine.estimators.naming import recency
from prequential.engine.measures.registry import MEASURES
from prequential.offline.replay.sources import POINTS
from prequential.offline.replay.summary import SequenceSummary, Summary, SummaryFinding, place_in_words
from prequential.topics.errors import Fault, printable
from prequential.views.diagnosis.stream_facts import Finding
from prequential.views.wording.comparing import main_comparison
from prequential.views.wording.comparing import sentence as disparity_in_words
from prequential.views.wording.comparison_report import report
from prequential.views.wording.console import Console
from prequential.views.wording.expected import ASSUMPTION, in_words, of_period
from prequential.views.wording.measures import (
    COLUMNS,
    baseline_references,
    caption_of_stages,
    marked,
    stage_in_words,
)
from prequential.views.wording.status import sentence
from rich.table import Table
from rich.text import Text

#: The width of a course in characters.
_COURSE = 18
_BARS = "▁▂▃▄▅▆▇█"

#: The width of a table with courses, and of all output that doesn't go to a terminal.
_WIDE = 100


class ModelRow(NamedTuple):
    """A row of the table. The course has values from 0 to 1, and `ends` marks the last row of a group."""

    names: tuple[str, ...]
    values: tuple[float | None, ...]
    course: Sequence[float]
    ends: bool


def models_table(
    rows: Sequence[ModelRow], names: Sequence[str], columns: Sequence[str], course: str | None, *, title: str,
    caption: str,
) -> Table:  # fmt: skip
    """Return a table with a column for each of `names`, then of `columns`, then the course.

    `course` is the heading of the courses; None leaves them out.
    """
    grid = Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", show_edge=False,
        pad_edge=False,
    )  # fmt: skip
    for name in names:
        grid.add_column(name, no_wrap=True)
    for name in columns:
        grid.add_column(name, justify="right", no_wrap=True)
    if course is not None:
        grid.add_column(course, no_wrap=True)
    for row in rows:
        shown = [Text(printable(name)) for name in row.names]
        bar = [] if course is None else [bars(row.course)]
        grid.add_row(*shown, *map(number, row.values), *bar, end_section=row.ends)
    return grid


def with_courses(console: Console) -> bool:
    """Return whether the console is wide enough for courses, and can print their characters."""
    return console.encoding.startswith("utf") and console.width >= _WIDE


def print_wide(table: Callable[[Console], Table], console: Console) -> None:
    """Print a table that stays, in the width for courses if the output isn't a terminal."""
    if not console.is_terminal:
        console = Console(width=_WIDE, no_color=True, file=console.file, force_jupyter=False)
    console.print(table(console))


def bars(values: Sequence[float], width: int = _COURSE) -> str:
    """Return a course as a row of bars, the newest at the right.

    The lowest bar stands for 0.5, or for 0 where some value is below 0.5; the highest for 1.

    >>> bars([0.5, 0.75, 1.0], width=3)
    '▁▅█'
    >>> bars([0.9] * 10 + [0.7] * 10, width=4)
    '▇▇▄▄'
    >>> bars([0.0, 0.5, 1.0], width=3)
    '▁▅█'
    """
    width = min(width, len(values))
    lowest = 0.5 if all(value >= 0.5 for value in values) else 0.0
    indices = [len(values) * (i + 1) // width - 1 for i in range(width)]
    shares = [(values[index] - lowest) / (1 - lowest) for index in indices]
    return "".join(_BARS[min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)] for share in shares)


def number(value: float | None) -> Text:
    """Return a measure with three decimals; one below zero, which is worse than the baseline, is red.

    None is shown as a dash.
    """
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:.3f}", style="red" if value < 0 else "")


#: Stages that the caption explains.
_EXPLAINED = (INITIAL, FINAL)

#: The most lines shown of a table, of drops, and of incidents or alarms; the file has all.
_ROWS, _DROPS, _ALARMS = 40, 10, 10

#: The most measures in the table, of the latest part; the first one is also of the whole run.
_MEASURES = 3

#: What the caption explains, by task, and the measure that must be in the table.
_CAPTIONS = {
    "classification": ("kappa_per", "kappa_per: gain over repeating the latest label; below 0: a loss"),
    "multilabel": ("accuracy", "accuracy: exact match of the sets; the other measures are of labels"),
    "regression": (None, "over time: as a share of the largest"),
}


class Elsewhere(NamedTuple):
    """Endings of the lines that report hidden rows, by default for commands: where all of them are."""

    drops: str = ": --summary has all"
    sequences: str = ": --summary has all"
    pairs: str = ": --summary has all"
    incidents: str = ": --incidents-out and --summary have all"
    alarms: str = ": --alarms-out and --summary have all"
    expected: str = ": --summary has all"
    disparities: str = ": --summary has all"
    explain: str = "prequential explain ID --from FILE"  # the call that explains an incident


#: The endings for users of a command, and for users of a `Result`.
AT_A_TERMINAL = Elsewhere()
IN_PYTHON = Elsewhere(
    drops=": summary.dropped has all", sequences=": summary.sequences has all",
    pairs=": summary.comparisons has all", incidents=": incidents has all", alarms=": alarms has all",
    expected=": summary.expected has all", disparities=": summary.disparities has all",
    explain='explain("ID")',
)  # fmt: skip


def show(summary: Summary, config: Config, console: Console, more: Elsewhere = AT_A_TERMINAL) -> None:
    """Print a summary; `more` has the endings of lines that report hidden rows."""
    for line in (*record_lines(summary, more), *outcome_lines(summary)):
        _print(line, console)
    for task in COLUMNS:
        if rows := [sequence for sequence in summary.sequences if sequence.task == task]:
            shown = rows[:_ROWS]
            print_wide(partial(table_of_models, shown, task, measures_in_table(rows, config)), console)
            if len(rows) > len(shown):
                _print(f"… and {len(rows) - len(shown):,} more{more.sequences}", console)
    compared, incidents = report(summary.comparisons, more.pairs), incident_lines(summary, more)
    groups, expected = disparity_lines(summary, more), expected_lines(summary, config, more)
    for line in (*reference_lines(summary), *compared, *groups, *expected, *incidents):
        _print(line, console)
    for finding in summary.findings:
        _print(f"looks wrong: {finding_in_words(finding)}", console)


def finding_in_words(finding: SummaryFinding) -> str:
    """Return a finding as one sentence, with the name of its stream."""
    return str(Finding(finding.code, finding.stream, finding.sentence))


def _print(line: str, console: Console) -> None:
    console.print(Text(printable(line)), soft_wrap=True)


def record_lines(summary: Summary, more: Elsewhere = AT_A_TERMINAL) -> Iterator[str]:
    """Yield lines about records read, used and dropped, and the most frequent reasons for dropping."""
    read = [f"{kind.read:,} {name}" for name, kind in summary.records.items() if kind.read]
    became = (
        f"{word}: {sum(getattr(kind, name) for kind in summary.records.values()):,}"
        for word, name in (("used", "used"), ("dropped", "dropped"), ("pending", "waiting"))
    )
    yield f"read: {', '.join(read) or 'no records'}; {', '.join(became)}"
    for drop in summary.dropped[:_DROPS]:
        example_text = f" (first: {place_in_words(drop.example)})" if drop.example else ""
        yield f"  dropped: {drop.count:,} {drop.kind}: {drop.reason}{example_text}"
    if len(summary.dropped) > _DROPS:
        yield f"  … for {len(summary.dropped) - _DROPS:,} further reasons{more.drops}"


def outcome_lines(summary: Summary) -> Iterator[str]:
    """Yield lines about outcomes by stream and model, and about the times between messages."""
    by_stream: dict[str, dict[str, tuple[int, int]]] = {}
    for counts in summary.outcomes:
        models = by_stream.setdefault(counts.stream, {})
        outcomes, waiting = models.get(counts.model, (0, 0))
        models[counts.model] = outcomes + counts.outcomes, waiting + counts.waiting
    for stream, models in list(by_stream.items())[:_ROWS]:
        shown = ", ".join(f"{model} {outcomes:,}" for model, (outcomes, _) in models.items())
        labels = sum(entry.labels for entry in summary.waiting_labels if entry.stream == stream)
        predictions = sum(waiting for _, waiting in models.values())
        wait = f"; pending: {predictions:,} predictions, {labels:,} labels" if predictions or labels else ""
        closed = sum(counts.at_horizon for counts in summary.outcomes if counts.stream == stream)
        without = f"; {closed:,} predictions got no label within the horizon" if closed else ""
        yield f"outcomes of {stream}: {shown or 'none'}{without}{wait}"
    for emission in summary.emission or ():
        intervals = [f"{emission.outcomes:,} outcomes"] if emission.outcomes else []
        if emission.every_ms is not None:
            time = f"{shown_duration(emission.every_ms)} of record time"
            intervals.append(f"{emission.every_ms:,} rows" if emission.untimed else time)
        stream_text = "" if emission.stream is None else f" of {emission.stream}"
        line = (
            f"metrics{stream_text}: every {' and every '.join(intervals)}"
            if intervals
            else f"metrics{stream_text}: at the end"
        )
        if emission.by_default:
            line += f" (emit.every isn't configured: at most {POINTS:,} points a sequence)"
        yield line


def measures_in_table(rows: Iterable[SequenceSummary], config: Config) -> list[str]:
    """Return the measures for columns: the usual ones that are configured, then other configured ones."""
    streams = {sequence.stream: sequence.task for sequence in rows}
    configured = [
        name for stream, task in streams.items() for name in config.stream(stream).measures
        if MEASURES[name].fits(task)
    ]  # fmt: skip
    usual = [name for task in streams.values() for name in COLUMNS[task] if name in configured]
    return list(dict.fromkeys([*usual, *configured]))[:_MEASURES]


def table_of_models(
    rows: Sequence[SequenceSummary], task: str, latest: Sequence[str], console: Console | None = None,
    *, baselines: bool = False,
) -> Table:  # fmt: skip
    """Return the table of models, with the courses that the console can show.

    With `baselines`, rows of their values are below each stream's models.
    """
    whole = latest[:1]
    several = len({sequence.stream for sequence in rows}) > 1
    lines = []
    for index, sequence in enumerate(rows):
        estimators = first, last = shown_estimators(sequence.measures)
        before = rows[index - 1] if index else None
        after = rows[index + 1] if index + 1 < len(rows) else None
        new = before is None or _model_of(before) != _model_of(sequence)
        owner = f"{sequence.stream}/" if several else ""
        values = [sequence.measures[first].get(name) for name in whole]
        values += [sequence.measures[last].get(name) for name in latest]
        names = (
            f"{owner}{sequence.model}" if new else "",
            marked(sequence.stage, sequence.same),
            f"{sequence.outcomes:,}",
        )
        own = [ModelRow(names, tuple(values), course_of(sequence), False)]
        if baselines and (after is None or after.stream != sequence.stream):
            rest = (None,) * (len(latest) - 1)
            for name, of_estimators in baselines_of(sequence, "".join(whole), estimators):
                own.append(ModelRow((f"{owner}{name}", "", ""), (*of_estimators, *rest), (), False))
        if after is None or _model_of(after) != _model_of(sequence):
            own[-1] = own[-1]._replace(ends=True)
        lines += own
    measure = COLUMNS[task][0]  # of the course, whichever measures are configured
    last = shown_estimators(rows[0].measures)[1]
    needed, explained = _CAPTIONS[task]
    explanation = explained if needed in (None, *latest) else ""
    return models_table(
        lines, ("model", "stage", "outcomes"),
        (*(f"{name}\nwhole run" for name in whole), *(f"{name}\nlatest" for name in latest)),
        f"{measure} over time" if console is not None and with_courses(console) else None,
        title=f"latest: {last}" if several else f"{rows[0].stream}; latest: {last}",
        caption=caption_of_stages(sequence.same for sequence in rows if sequence.stage in _EXPLAINED)
        + explanation,
    )  # fmt: skip


def _model_of(sequence: SequenceSummary) -> tuple[str, int | None, str]:
    return sequence.stream, sequence.partition, sequence.model


def baselines_of(
    sequence: SequenceSummary, measure: str, estimators: Sequence[str]
) -> Iterator[tuple[str, list[float | None]]]:
    """Yield a measure's baselines: the name of each, and its value by each of these estimators."""
    for baseline in baseline_references(measure):
        values = [baseline.value(sequence.measures[name]) for name in estimators]
        if any(value is not None for value in values):
            yield baseline.line.name, values


def reference_lines(summary: Summary) -> Iterator[str]:
    """Yield lines that compare sequences with their first outcomes, by their main measure."""
    for sequence in [sequence for sequence in summary.sequences if sequence.reference][:_ROWS]:
        if sequence.reference is msgspec.UNSET:
            raise Fault("a sequence has no reference: this is a fault of prequential, please report it")
        _, last = shown_estimators(sequence.measures)
        if (sentence := main_comparison(sequence.reference.get(last, {}))) is not None:
            stage = stage_in_words(sequence.stage, sequence.same)
            yield f"{sequence.stream}/{sequence.model} {stage}, {last}: {sentence}"


def shown_estimators(measures: dict[str, Any]) -> tuple[str, str]:
    """Choose two estimators of the measures: one for the whole run, and one for its latest part.

    For the whole run it is `all`, or the first. For the latest part it is the first one that forgets; if
    there is none, it is the one for the whole run.
    """
    names = list(measures)
    whole = "all" if "all" in names else names[0]
    return whole, next((name for name in names if recency(name) is not None), whole)


def course_of(sequence: SequenceSummary) -> list[float]:
    """Return the course of a sequence as heights from 0 to 1.

    The heights are accuracies; for regression, they are errors as shares of the largest one.
    """
    losses = sequence.course.loss
    if sequence.task != "regression":
        return [1 - loss for loss in losses]
    largest = max(losses, default=0.0)
    return [loss / largest for loss in losses] if largest else [0.0] * len(losses)


def expected_lines(summary: Summary, config: Config, more: Elsewhere = AT_A_TERMINAL) -> Iterator[str]:
    """Yield a line for each model with expected measures of its non-final period and pending predictions."""
    for expected in summary.expected[:_ROWS]:
        zone = config.stream(expected.stream).period_zone
        sentence = "; ".join(in_words(expected.period, expected.waiting, zone, untimed=expected.untimed))
        yield f"before labels are there, {expected.stream}/{expected.model}: {sentence}"
    if len(summary.expected) > _ROWS:
        yield f"  … and {len(summary.expected) - _ROWS:,} more models{more.expected}"
    if summary.expected:
        yield f"  {ASSUMPTION}"


def disparity_lines(summary: Summary, more: Elsewhere = AT_A_TERMINAL) -> Iterator[str]:
    """Yield a line for each comparison of segments."""
    for disparity in summary.disparities[:_ROWS]:
        yield disparity_in_words(disparity)
    if len(summary.disparities) > _ROWS:
        yield f"  … and {len(summary.disparities) - _ROWS:,} more comparisons of segments{more.disparities}"


def incident_lines(summary: Summary, more: Elsewhere = AT_A_TERMINAL) -> Iterator[str]:
    """Yield a line for each incident, and lines for alarms outside of incidents."""
    incidents, alarms = summary.incidents, summary.alarms
    explain = f"; to explain one: {more.explain}" if incidents else ""
    # An incident is of a model, and each detector may raise many alarms about it.
    within = min(len(alarms), sum(reported.alarm_count for reported in incidents))
    belong = f", {within:,} of them in incidents" if incidents and alarms else ""
    yield f"incidents: {len(incidents):,} (drift alarms: {len(alarms):,}{belong}){explain}"
    for incident in incidents[:_ALARMS]:
        yield f"  {sentence(incident)}"
    if len(incidents) > _ALARMS:
        yield f"  … and {len(incidents) - _ALARMS:,} more{more.incidents}"
    grouped = {(reported.stream, reported.partition, reported.model) for reported in incidents}
    ungrouped = [alarm for alarm in alarms if (alarm.stream, alarm.partition, alarm.model) not in grouped]
    for alarm in ungrouped[:_ALARMS]:
        segment = f" {alarm.segment}" if alarm.segment else ""
        yield f"  {alarm.stream}/{alarm.model}{segment} " + (of_period(alarm) or (
            f"{alarm.stage}, {alarm.detector} on {alarm.signal} at "
            f"outcome {alarm.outcome:,}: {alarm.statistic:.1f} > {alarm.threshold:g}"
        ))  # fmt: skip
    if len(ungrouped) > _ALARMS:
        yield f"  … and {len(ungrouped) - _ALARMS:,} more{more.alarms}"
