"""All that is known of one model, as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prequential.core.measures import NAMES
from prequential.topics.reasons import printable
from prequential.watching.changes import Change
from prequential.watching.messages import Notice, Reading
from prequential.watching.ranking import Row, measures_shown
from prequential.watching.state import Model, State, coverage_of
from prequential.watching.table import change_line, shown_changes
from prequential.watching.text import age, clock, count, duration, left, measure_text, number, rows
from prequential.wording.comparing import Pair, standing
from rich.text import Text

#: Columns of the names of stages, estimators and segments: the longest usual ones, `intermediate` and
#: `fading:0.9994`, and a segment such as `country=france`.
_STAGE, _ESTIMATOR, _SEGMENT = 12, 13, 27

#: Columns of `n` and `outcomes`, and of each measure.
_COUNT, _MEASURE = 8, 10

#: Columns of a measure with its name in the list of all.
_LISTED = 40


def detail(row: Row, state: State, by: str | None, now: int, width: int) -> list[Text]:
    """A model's messages, its segments, what became of its predictions, and its alarms; `now` in epoch ms."""
    model, reading = row.model, row.reading
    lines = [
        _field("stream", printable(model.key.stream)),
        _field("model", printable(model.key.model)),
        _field("partition", str(model.key.partition)),
    ]
    if not model.untimed:
        lines.append(_field("heard", f"{age(now - model.time)} ago"))
    if reading is not None:
        label = "" if model.untimed else f"label of {clock(reading.ts)}, "
        lines.append(_field("newest", f"{label}outcome {reading.outcomes:,}"))
        if reading.model_version is not None:
            first = "" if reading.version_since is None else f" since outcome {reading.version_since:,}"
            lines.append(_field("version", f"{printable(reading.model_version)}{first}"))
    readings = [state.reading(newest) for newest in model.sequences.values()]
    known = {name for reading in readings if reading is not None for name in reading.measures}
    names = _fitting(measures_shown(known, by), width - _STAGE - _ESTIMATOR - 2 * _COUNT - 3)
    changes = model.changes.newest_first()
    lines += _section("incidents and alarms", (change_line(one, now, width) for one in shown_changes(model)))
    lines += _section("stages and estimators", _estimators(model, state, names))
    lines += _section("comparisons", _comparisons(state.pairs(model.key.stream, model.key.partition), model))
    if row.sequence is not None and reading is not None:
        of = f"{row.sequence.stage}, {row.sequence.estimator}"
        lines += _section(f"measures: {of}", _measures(reading, width))
        lines += _section(f"segments: {of}", _segments(row, state, names))
        lines += _section("counts", [_numbers(reading.counts)] if reading.counts else [])
    lines += _section("coverage", _coverage(coverage_of(model), rows if model.untimed else duration))
    lines += _section("alarms, each", _alarms(changes))
    return lines


def _section(title: str, lines: Iterable[Text]) -> list[Text]:
    found = list(lines)
    return [Text(), Text(title, style="bold"), *found] if found else []


def _field(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<11}", "dim"), value, overflow="fold")


def _fitting(names: list[str], width: int) -> list[str]:
    return names[: max(1, width // (_MEASURE + 1))]


def _alarms(changes: Iterable[Change]) -> Iterator[Text]:
    for change in changes:
        for alarm in reversed(change.alarms):
            yield _alarm(alarm)
        if more := change.count - len(change.alarms):
            yield Text(f"and {more:,} before these", style="dim")


def _alarm(alarm: Notice) -> Text:
    segment = f" {printable(alarm.segment)}" if alarm.segment is not None else ""
    what = f"{alarm.stage}{segment} {printable(alarm.detector)} {printable(alarm.signal)}"
    when = "" if alarm.untimed else f"{clock(alarm.ts)} "
    return Text(
        f"{when}{what} at outcome {alarm.outcome:,}: {number(alarm.statistic)} > "
        f"{alarm.threshold:g}"
    )


def _estimators(model: Model, state: State, names: list[str]) -> Iterator[Text]:
    whole = [sequence for sequence in model.sequences if sequence.segment is None]
    if whole:
        yield _head(f"{'stage':<{_STAGE}} {'estimator':<{_ESTIMATOR}}", names)
    for sequence in whole:
        reading = state.reading(model.sequences[sequence])
        marks = "  (has not seen all)" if reading is not None and reading.started_empty else ""
        start = f"{left(sequence.stage, _STAGE)} {left(sequence.estimator, _ESTIMATOR)}"
        yield _values(start, reading, names).append(marks, "dim")


def _comparisons(pairs: Iterable[Pair], model: Model) -> Iterator[Text]:
    """The model's; first those of the stream as a whole."""
    own = [pair for pair in pairs if model.key.model in (pair.model, pair.against)]
    for pair in sorted(own, key=lambda pair: pair.segment or ""):
        segment = f" {pair.segment}" if pair.segment is not None else ""
        yield Text(printable(f"{pair.stage}{segment}: {standing(pair)}"))


def _segments(row: Row, state: State, names: list[str]) -> Iterator[Text]:
    assert row.sequence is not None
    of = row.sequence[1:]
    found = {
        sequence.segment: state.reading(newest)
        for sequence, newest in row.model.sequences.items()
        if sequence.segment is not None and sequence[1:] == of
    }
    if found:
        yield _head(f"{'segment':<{_SEGMENT}}", names)
    for segment in sorted(found):
        yield _values(left(printable(segment), _SEGMENT), found[segment], names)


def _head(start: str, names: list[str]) -> Text:
    columns = f"{'n':>{_COUNT}} {'outcomes':>{_COUNT}} " + " ".join(name.rjust(_MEASURE) for name in names)
    return Text(f"{start} {columns}", style="dim")


def _values(start: str, reading: Reading | None, names: list[str]) -> Text:
    line = Text(start)
    if reading is None:
        return line.append(" -")
    line.append(f" {count(reading.n):>{_COUNT}} {count(reading.outcomes):>{_COUNT}}")
    for name in names:
        line.append(" ").append_text(measure_text(reading.measures.get(name), _MEASURE))
    return line


def _measures(reading: Reading, width: int) -> Iterator[Text]:
    """In as many columns as there is room for; those without a value with the reason."""
    known = [name for name in NAMES if name in reading.measures or name in reading.undefined]
    more = [name for name in reading.measures if name not in known]
    cells = []
    for name in [*known, *more]:
        value = reading.measures.get(name)
        cell = Text(f"{name:<18} ")
        if value is None:
            cell.append(f"- {reading.undefined.get(name, '')}", "dim")
        else:
            cell.append_text(measure_text(value, 8))
        cells.append(cell)
    side_by_side = max(1, width // _LISTED)
    rows = -(-len(cells) // side_by_side)
    for start in range(rows):
        line = Text()
        for cell in cells[start::rows]:
            cell.truncate(_LISTED - 1, overflow="ellipsis")
            cell.pad_right(_LISTED - len(cell))
            line.append_text(cell)
        yield line


def _coverage(said: Mapping[str, Any], time: Callable[[float], str]) -> Iterator[Text]:
    latency, labelled = said.get("label_latency_ms"), said.get("labelled")
    if isinstance(latency, dict) and latency:
        times = ", ".join(f"{name} {time(ms)}" for name, ms in latency.items())
        yield Text(f"label latency  {times}")
    if isinstance(labelled, dict) and labelled:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in labelled.items())
        yield Text(f"labelled by age  {shares}")
    rest = {name: value for name, value in said.items() if isinstance(value, int | float)}
    if "oldest_waiting_ms" in rest:
        yield Text(f"oldest waiting  {time(rest.pop('oldest_waiting_ms'))}")
    if rest:
        yield _numbers(rest)
    for name in ("labelled_by_class", "segment_psi"):
        found = said.get(name)
        if isinstance(found, dict) and found:
            values = ", ".join(f"{printable(key)} {number(value)}" for key, value in found.items())
            yield Text(f"{name}  {values}")


def _numbers(values: Mapping[str, float]) -> Text:
    shown = ((name, count if isinstance(value, int) else number, value) for name, value in values.items())
    return Text("  ".join(f"{name} {text(value)}" for name, text, value in shown))
