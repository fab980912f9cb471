"""The page of one model: its messages, segments, predictions and alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prequential.engine.measures.registry import NAMES
from prequential.topics.errors import printable
from prequential.views.watching.incidents import AlarmGroup
from prequential.views.watching.messages import Reading
from prequential.views.watching.ranking import RankedModel, measures_shown
from prequential.views.watching.state import ModelState, SequenceName, WatchState, coverage_of, expected_lines
from prequential.views.watching.table import change_line, shown_changes
from prequential.views.watching.text import age, clock, count, duration, measure_text, number, rows
from prequential.views.wording.comparing import Pair, standing
from prequential.views.wording.expected import ASSUMPTION, of_period
from prequential.views.wording.measures import stage_in_words
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

#: Columns for the names of stages, estimators and counts, and columns for each measure.
_NAMES_WIDTH, _MEASURE = 44, 11

#: The heading of incidents and alarms, with the next step.
_CHANGES = "incidents and alarms (causes of an incident: prequential explain ID)"

#: Columns of a measure with its name in the list of all measures.
_LISTED = 40


def detail(row: RankedModel, state: WatchState, by: str | None, now: int, width: int) -> Group:
    """Return a model's messages, segments, coverage and alarms, to be printed; `now` in epoch ms."""
    model, reading, shown = row.model, row.reading, row.sequence
    readings = {sequence: state.reading(newest) for sequence, newest in model.sequences.items()}
    known = {name for one in readings.values() if one is not None for name in one.measures}
    names = measures_shown(known, by)[: max(1, (width - _NAMES_WIDTH) // _MEASURE)]
    whole = {sequence: one for sequence, one in readings.items() if sequence.segment is None}
    segments = {
        sequence: readings[sequence]
        for sequence in sorted(model.sequences, key=lambda one: one.segment or "")
        if shown is not None and sequence.segment is not None and sequence[1:] == shown[1:]
    }
    whose = ""
    if shown is not None:
        stage, *same = model.stages_of(shown)
        whose = f": {stage_in_words(stage, same)}, {shown.estimator}"
    sections: list[tuple[str, list[Any]]] = [
        (_CHANGES, [change_line(one, now, width) for one in shown_changes(model)]),
        ("stages and estimators", [_estimates(whole, names)] if whole else []),
        ("comparisons", list(_comparisons(state.pairs(model.key.stream, model.key.partition), model))),
        ("expected until labels come", list(_expected(model))),
        (f"measures{whose}", [_measures(reading, width)] if reading is not None else []),
        (f"segments{whose}", [_estimates(segments, names)] if segments else []),
        ("counts", [_numbers(reading.counts)] if reading is not None and reading.counts else []),
        ("coverage", list(_coverage(coverage_of(model), rows if model.untimed else duration))),
        ("alarms, each", list(_alarms(model.changes.newest_first()))),
    ]
    parts: list[RenderableType] = [_fields(row, now)]
    for title, lines in sections:
        if lines:
            parts += [Text(), Text(title, style="bold"), *lines]
    return Group(*parts)


def _fields(row: RankedModel, now: int) -> Table:
    model, reading = row.model, row.reading
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row("stream", Text(printable(model.key.stream)))
    grid.add_row("model", Text(printable(model.key.model)))
    grid.add_row("partition", str(model.key.partition))
    if not model.untimed:
        grid.add_row("newest message", f"{age(now - model.time)} ago")
    if reading is not None:
        label = "" if model.untimed else f"label of {clock(reading.ts)}, "
        grid.add_row("newest outcome", f"{label}outcome {reading.outcomes:,}")
        if reading.model_version is not None:
            first = "" if reading.version_since is None else f" since outcome {reading.version_since:,}"
            grid.add_row("version", Text(f"{printable(reading.model_version)}{first}"))
    return grid


def _estimates(readings: Mapping[SequenceName, Reading | None], names: list[str]) -> Table:
    """Return a table of sequences, either of the model as a whole or of its segments."""
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    of_segments = any(sequence.segment is not None for sequence in readings)
    for name in ("segment",) if of_segments else ("stage", "estimator"):
        grid.add_column(name)
    for name in ("n", "outcomes", *names):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column()
    for sequence, reading in readings.items():
        stage = sequence.stage if reading is None else stage_in_words(sequence.stage, reading.same)
        names_of = (sequence.segment,) if of_segments else (stage, sequence.estimator)
        start = [Text(printable(name or "")) for name in names_of]
        if reading is None:
            grid.add_row(*start, "-")
            continue
        values = [measure_text(reading.measures.get(name)) for name in names]
        mark = Text("(has not seen all)" if reading.started_empty else "", style="dim")
        grid.add_row(*start, count(reading.n), count(reading.outcomes), *values, mark)
    return grid


def _expected(model: ModelState) -> Iterator[Text]:
    """Yield lines about the newest whole period, the pending predictions, and the assumptions."""
    if lines := expected_lines(model):
        yield from map(Text, lines)
        yield Text(ASSUMPTION, style="dim")


def _comparisons(pairs: Iterable[Pair], model: ModelState) -> Iterator[Text]:
    """Yield the model's comparisons, those of the stream as a whole first."""
    its_pairs = [pair for pair in pairs if model.key.model in (pair.model, pair.against)]
    for pair in sorted(its_pairs, key=lambda pair: pair.segment or ""):
        segment = f" {pair.segment}" if pair.segment is not None else ""
        yield Text(printable(f"{stage_in_words(pair.stage, pair.same)}{segment}: {standing(pair)}"))


def _measures(reading: Reading, width: int) -> Columns:
    """Return the measures in as many columns as fit; a measure without a value has the reason."""
    known = [name for name in NAMES if name in reading.measures or name in reading.undefined]
    cells = []
    for name in dict.fromkeys([*known, *reading.measures]):
        value = measure_text(reading.measures.get(name))
        why = Text(f" {reading.undefined.get(name, '')}", "dim")
        cells.append(Text.assemble(f"{name:<18} ", value, why, no_wrap=True))
    return Columns(cells, width=min(_LISTED, width), column_first=True, padding=0)


def _coverage(said: Mapping[str, Any], time: Callable[[float], str]) -> Iterator[Text]:
    latency, labelled = said.get("label_latency_ms"), said.get("labelled")
    if isinstance(latency, dict) and latency:
        times = ", ".join(f"{name} {time(ms)}" for name, ms in latency.items())
        yield Text(f"label latency  {times}")
    if isinstance(labelled, dict) and labelled:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in labelled.items())
        yield Text(f"labelled by age  {shares}")
    numbers = {name: value for name, value in said.items() if isinstance(value, int | float)}
    if "oldest_waiting_ms" in numbers:
        yield Text(f"oldest waiting  {time(numbers.pop('oldest_waiting_ms'))}")
    if numbers:
        yield _numbers(numbers)
    for name in ("labelled_by_class", "segment_psi"):
        values_by_name = said.get(name)
        if isinstance(values_by_name, dict) and values_by_name:
            values = ", ".join(f"{printable(key)} {number(value)}" for key, value in values_by_name.items())
            yield Text(f"{name}  {values}")


def _numbers(values: Mapping[str, float]) -> Text:
    shown = ((name, count if isinstance(value, int) else number, value) for name, value in values.items())
    return Text("  ".join(f"{name} {text(value)}" for name, text, value in shown))


def _alarms(changes: Iterable[AlarmGroup]) -> Iterator[Text]:
    for change in changes:
        for alarm in reversed(change.alarms):
            segment = f" {printable(alarm.segment)}" if alarm.segment is not None else ""
            what = f"{alarm.stage}{segment} {printable(alarm.detector)} {printable(alarm.signal)}"
            when = "" if alarm.untimed else f"{clock(alarm.ts)} "
            beyond = f"{number(alarm.statistic)} > {alarm.threshold:g}"
            yield Text(when + (of_period(alarm) or f"{what} at outcome {alarm.outcome:,}: {beyond}"))
        if more := change.count - len(change.alarms):
            yield Text(f"and {more:,} before these", style="dim")
