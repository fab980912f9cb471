"""Models, incidents and alarms as a table for a terminal, and messages as plain lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.declaration import CLASSIFICATION, MULTILABEL, REGRESSION
from prequential.engine.measures.registry import OF_NUMBERS, OF_SETS
from prequential.topics import outputs, specs
from prequential.topics.errors import printable
from prequential.views.state import readings
from prequential.views.state.incidents import (
    OPEN,
    AlarmGroup,
    ShownIncident,
    decode_incident,
)
from prequential.views.state.newest import ModelKey, ModelState, NewestMessages
from prequential.views.state.ranking import RankedModel, Ranking, is_recent, measures_shown
from prequential.views.state.statuses import Statuses, Verdicts
from prequential.views.wording import comparing, console, measures, status
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

#: Statuses that need attention, behind the name of a model.
_URGENT = {
    "worse": "is worse", "objective": "misses its objective", "unlabelled": "has no labels",
    "silent": "is silent", "below": "is below a baseline",
}  # fmt: skip

#: The most measures in a line, by task.
_MEASURES = {CLASSIFICATION: 4, MULTILABEL: 4, REGRESSION: 3}


def line(topic: str, value: bytes, split: Collection[str] = ()) -> str:
    """Return a message of a topic as one line; raises msgspec's errors if it can't be read.

    `split` are the streams in several partitions. For these, the line ends with the partition.
    """
    if topic == specs.DRIFT_ALARMS:
        return alarm_line(readings.decode_notice(value), split)
    if topic == specs.INCIDENTS:
        return plain_incident_line(decode_incident(value), split)
    if topic == specs.COMPARISONS:
        return comparison_line(comparing.pair_of(readings.decode_comparison(value)), split)
    return metrics_line(readings.decode_heading(value), readings.decode_reading(value), split)


def newest_lines(state: NewestMessages) -> Iterator[str]:
    """Yield the newest message of each sequence by name with its pairs; then alarms and incidents."""
    alarms: list[readings.Notice] = []
    incidents: list[outputs.Incident] = []
    for key, model in sorted(state.models.items()):
        for sequence in sorted(
            model.sequences, key=lambda name: (name.segment or "", name.stage, name.estimator)
        ):
            if (reading := state.reading(model.sequences[sequence])) is not None:
                heading = readings.Heading(
                    key.stream,
                    key.model,
                    *sequence,
                    key.partition,
                    ts=reading.ts,
                    untimed=reading.untimed,
                    same=model.sequences[sequence].same,
                )
                yield metrics_line(heading, reading, state.split)
        for pair in state.pairs(key.stream, key.partition):
            # A pair is listed with its first model, unless that model is not selected.
            first = key._replace(model=pair.model)
            if key.model == (pair.model if first in state.models else pair.against):
                yield comparison_line(pair, state.split)
        incidents += [shown_incident.message for shown_incident in state.incidents.unended_of(*key)]
        alarms += [alarm for change in model.changes.newest_first() for alarm in change.alarms]
    for alarm in sorted(alarms, key=lambda alarm: alarm.ts):
        yield alarm_line(alarm, state.split)
    # Those that are open come last: a terminal's reader sees the last lines.
    for incident in sorted(incidents, key=lambda message: (message.status == OPEN, message.ts)):
        yield plain_incident_line(incident, state.split)


def metrics_line(heading: readings.Heading, reading: readings.Reading, split: Collection[str] = ()) -> str:
    """Return a metrics message as a line; `-` stands for a missing time or value.

    >>> heading = readings.Heading("s", "nb", None, "final", "all")
    >>> metrics_line(heading, readings.Reading(2, 2, 0, {"kappa": 0.5}))
    '1970-01-01T00:00:00Z s nb final all n=2 outcomes=2 accuracy=- kappa=0.5000 kappa_per=- kappa_plus=-'
    """
    task = REGRESSION
    if (measure_names := reading.measures.keys()).isdisjoint(OF_NUMBERS):
        task = CLASSIFICATION if measure_names.isdisjoint(OF_SETS) else MULTILABEL
    values = ((name, reading.measures.get(name)) for name in measures.COLUMNS[task][: _MEASURES[task]])
    return _line(
        heading,
        split,
        f"{heading.estimator} n={reading.n:.0f} outcomes={reading.outcomes}",
        *(f"{name}={'-' if value is None else f'{value:.4f}'}" for name, value in values),
    )


def comparison_line(pair: comparing.Pair, split: Collection[str]) -> str:
    """Return the verdicts about two models over all history, and over the latest outcomes, as a line.

    `-` stands for an unknown or undecided verdict.
    """
    low, high = pair.interval or (None, None)
    latest = pair.latest
    of_latest = () if latest is None else (
        f"latest={latest.estimator}", f"latest_difference={latest.difference:.4f}",
    )  # fmt: skip
    values = (("difference", pair.difference), ("low", low), ("high", high))
    return _line(
        pair,
        split,
        f"COMPARED against={pair.against} loss={pair.loss} outcomes={pair.outcomes}",
        *(f"{name}={'-' if value is None else f'{value:.4f}'}" for name, value in values),
        f"verdict={pair.verdict} since={pair.since or '-'}",
        *of_latest,
    )


def alarm_line(alarm: readings.Notice, split: Collection[str]) -> str:
    """Return an alarm as a line: its signal, and its place in its sequence."""
    return _line(
        alarm,
        split,
        f"ALARM {alarm.detector} {alarm.signal}",
        f"outcome={alarm.outcome}",
        f"statistic={alarm.statistic:.6g}",
        f"threshold={alarm.threshold:g}",
    )


def plain_incident_line(incident: outputs.Incident, split: Collection[str]) -> str:
    """Return an incident as a line: its first outcome, its severity, and its causes."""
    causes = ",".join(f"{cause['cause']}:{cause['share']:.2f}" for cause in incident.causes)
    return _line(
        incident,
        split,
        f"INCIDENT {incident.id[:8]} {incident.status}",
        f"since={incident.change_point['outcome']}",
        f"before={incident.before['level']:.4f}",
        f"after={incident.after['level']:.4f}",
        f"severity={incident.severity:.2f}",
        f"causes={causes}",
        f"alarms={incident.alarm_count}",
    )


def _line(
    message: readings.Heading | comparing.Pair | readings.Notice | outputs.Incident,
    split: Collection[str],
    *details: str,
) -> str:
    """Return a line of details, after the time and the names; with the partition of a stream in several."""
    time_text = "-" if message.untimed else console.clock(message.ts)
    words = [time_text, message.stream, message.model, message.segment, message.stage, *details]
    if message.same:
        words.append(f"same={','.join(message.same)}")
    if message.stream in split:
        words.append(f"partition={partition_name(message.partition)}")
    return printable(" ".join(word for word in words if word is not None))


def partition_name(partition: int) -> str:
    """Return the name of a partition.

    >>> partition_name(3), partition_name(-1)
    ('3', 'all')
    """
    return "all" if partition == outputs.ALL_PARTITIONS else str(partition)


#: The least width of a name, which usually distinguishes names.
_NAME_WIDTH = 12

#: The least width of a measure, which fits common numbers.
_NUMBER_WIDTH = 7

#: The columns after the measures, with their widths, and the least width of a status behind them.
_LAST = (("outcomes", 8), ("newest", 6))
_STATUS_WIDTH = 9

#: The width that names leave in a change's line for its age, a count, a date, and the first signal.
_CHANGE_WIDTH = 54

#: The most split streams, or silent models, that a warning names.
_NAMED = 3


def label(key: ModelKey, state: NewestMessages) -> str:
    """Return a stream's name, with the partition if there are several."""
    name = printable(key.stream)
    return f"{name}[{partition_name(key.partition)}]" if key.stream in state.split else name


def table(
    rows: Sequence[RankedModel],
    state: NewestMessages,
    by: str | None,
    width: int,
    now: int,
    chosen: int | None = None,
) -> Table:
    """Return a table of these rows, of which one may be highlighted; `now` in epoch ms.

    The table has as many measures as fit next to names of the least width, and at least one.
    """
    names = [label(row.model.key, state) for row in rows]
    # The mark is for a model that isn't shown in the chosen stage and estimator.
    models = [
        printable(row.model.key.model) + "*" * (not row.as_chosen and row.reading is not None) for row in rows
    ]
    wanted = [max(map(cell_len, (head, *texts))) for head, texts in (("stream", names), ("model", models))]
    statuses = _statuses(rows, state, now)
    last: tuple[tuple[str, int], ...] = (
        *_LAST,
        ("status", max(_STATUS_WIDTH, *(text.cell_len for text in statuses))),
    )
    room = width - sum(size + 1 for _, size in last)
    least = sum(min(column_width, _NAME_WIDTH) + 1 for column_width in wanted)
    shown: list[str] = []
    for measure in measures_shown(state.measures, by):
        size = max(len(measure), _NUMBER_WIDTH) + 1
        if shown and room - size < least:
            break
        shown.append(measure)
        room -= size
    # Width that one of the names doesn't need goes to the other.
    of_stream = max(1, min(wanted[0], max(room - 2 - wanted[1], (room - 1) // 2)))
    of_model = max(1, min(wanted[1], room - 2 - of_stream))
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    grid.add_column("stream", width=of_stream, no_wrap=True)
    grid.add_column("model", width=of_model, no_wrap=True)
    if room <= 0:
        last = ()
    for name, size in [*((name, max(len(name), _NUMBER_WIDTH)) for name in shown), *last]:
        style = "bold underline" if name == by else "bold"
        grid.add_column(name, width=size, justify="right", no_wrap=True, header_style=style)
    for index, (row, name, model, status_text) in enumerate(zip(rows, names, models, statuses)):
        dim = "dim" if is_baseline(row.model.key.model) else ""
        reading, untimed = row.reading, row.model.untimed
        values = {} if reading is None else reading.measures
        cells: list[RenderableType] = [
            Text(console.elide(name, of_stream)),
            Text(console.elide(model, of_model)),
            *(console.measure_text(values.get(name)) for name in shown),
        ]
        if last:
            cells.append("-" if reading is None else console.count(reading.outcomes))
            cells.append("-" if untimed else console.age(now - row.model.time))
            cells.append(status_text)
        grid.add_row(*cells, style="reverse" if index == chosen else dim)
    return grid


def _statuses(rows: Sequence[RankedModel], state: NewestMessages, now: int) -> list[Text]:
    """Return why each model needs attention, as the dashboard names it; else the age of its newest alarm."""
    statuses = Statuses(state, Verdicts(state), live=True)
    texts = []
    for row in rows:
        kind = statuses.kind(row, now)
        if kind in status.URGENT:
            texts.append(Text(status.WORDS[kind], "bold yellow"))
        elif row.change is None:
            texts.append(Text())
        else:
            age_text = "" if row.model.untimed else f" {console.age(now - row.change.time)}"
            texts.append(Text(f"alarm{age_text}", "yellow" if is_recent(row.change, now) else "dim"))
    return texts


def whole_table(state: NewestMessages, now: int, width: int, ranking: Ranking) -> list[RenderableType]:
    """Return the complete output for a console: models, their changes, warnings, and who needs attention.

    The most urgent is last, where a terminal's reader looks: the newest change, warnings, a verdict. `now` is
    epoch ms, `width` the console's in characters.
    """
    rows = ranking.rows(now)
    changes = newest_changes((row.model for row in rows), state)
    read = []
    if state.since is not None:
        read.append(Text(f"read since {console.moment(state.since, now)}", style="dim"))
    by = ranking.choice.by
    models = table(rows, state, by, width, now) if rows else Text("no metrics yet")
    urgent = Statuses(state, Verdicts(state), live=True).urgent(rows, now)
    needs = [
        f"{printable(row.model.key.stream)}/{printable(row.model.key.model)} {_URGENT[kind]}"
        for row, kind in urgent
    ]
    models_known = sum(not is_baseline(row.model.key.model) for row in rows)
    verdict = Text(status.attention(len(needs), models_known), style="bold")
    if needs:
        more = f" and {len(needs) - _NAMED:,} more" if len(needs) > _NAMED else ""
        verdict.append(f": {', '.join(needs[:_NAMED])}{more}")
    return [
        *read, models, *change_lines(changes[::-1], state, now, width), *warnings(state, None, now),
        *([verdict] if rows else []),
    ]  # fmt: skip


def change_lines(
    changes: Iterable[ModelChange],
    state: NewestMessages,
    now: int,
    width: int,
) -> list[Text]:
    """Return the changes of several models, each as a line."""
    return [
        change_line(change, now, width, _names_of_change(model, state, width)) for change, model in changes
    ]


def change_line(change: AlarmGroup | ShownIncident, now: int, width: int, subject: str = "") -> Text:
    """Return a change as one line: the name `subject`, the time, the number of alarms, and their signals."""
    if isinstance(change, ShownIncident):
        return incident_line(change, now, width, subject)
    segment_words = [printable(segment) for segment in change.segments]
    if len(segment_words) > 1:
        segment_words = [f"{len(segment_words)} segments"]
    since = f"outcome {change.outcome:,}" if change.untimed else console.moment(change.began, now)
    alarms = f"{console.counted(change.count, 'alarm')} since {since}"
    signals = [", ".join(map(printable, change.signals)), ", ".join(change.stages)]
    # If the model as a whole is not affected, the segment is more important.
    details = [*signals, *segment_words] if change.whole else [*segment_words, *signals]
    heard = "-" if change.untimed else console.age(now - change.time)
    line = Text("  ".join([f"{heard:>4}", *([subject] if subject else []), alarms, *details]))
    line.stylize("yellow" if is_recent(change, now) else "")
    line.truncate(width, overflow="ellipsis")
    return line


def incident_line(incident: ShownIncident, now: int, width: int, subject: str = "") -> Text:
    """Return an incident as one line: the name `subject`, its levels, start, status, id, and causes."""
    message = incident.message
    segment_words = [] if message.segment is None else [printable(message.segment)]
    point = message.change_point
    began = f"outcome {point['outcome']:,}" if message.untimed else console.moment(point["ts"], now)
    details = [
        f"{status.levels_in_words(message)} since {began}",
        f"{status.standing_in_words(message)} ({printable(message.id[: status.ID])})",
        *segment_words,
        ", ".join(map(status.cause_in_words, message.causes[:2])),
        console.counted(message.alarm_count, "alarm"),
    ]
    line = Text("  ".join(["", *([subject] if subject else []), *details]))
    line.stylize("yellow" if message.status == OPEN else "")
    line.truncate(width, overflow="ellipsis")
    return line


def _names_of_change(model: ModelState, state: NewestMessages, width: int) -> str:
    """Return the names of a model for the line of its change, as wide as the rest of the line allows."""
    half = max(_NAME_WIDTH, (width - _CHANGE_WIDTH) // 2)
    name = printable(model.key.model)
    stream = console.elide(label(model.key, state), max(half, 2 * half - cell_len(name)))
    return f"{stream} {console.elide(name, max(half, 2 * half - cell_len(stream)))}"


def warnings(state: NewestMessages, trouble: str | None, now: int, *, reading: bool = False) -> list[Text]:
    """Return the warnings above the table, without which you would misread the table.

    While existing messages are still being read (`reading`), there are no warnings about silent models and
    split streams.
    """
    lines = []
    if trouble:
        lines.append(Text(printable(trouble), style="red"))
    if state.unreadable:
        lines.append(Text(console.counted(state.unreadable, "unreadable message"), style="red"))
    if reading:
        return lines
    if (silent := silent_warning(state, now)) is not None:
        lines.append(Text(silent, style="yellow"))
    if misplaced := state.misplaced:
        lines.append(Text(split_warning(misplaced), style="bold red"))
    return lines


def silent_warning(state: NewestMessages, now: int) -> str | None:
    """Return a warning about models with unusually long pauses, and their starts (`now` in epoch ms)."""
    silent = {
        key: silence for key, model in state.models.items()
        if not is_baseline(key.model) and (silence := state.silence(model, now)) is not None
    }  # fmt: skip
    if not silent:
        return None
    latest_first = sorted(silent, key=lambda key: (-silent[key].since, key))
    named = [
        f"{label(key, state)}/{printable(key.model)} since {console.moment(silent[key].since, now)} "
        f"({silent[key].why})"
        for key in latest_first[:_NAMED]
    ]
    more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    return f"no new outcomes: {'; '.join(named)}{more}"


def split_warning(split: Mapping[str, list[int]]) -> str:
    """Return a warning about streams with records in several partitions, and the fix.

    >>> split_warning({"clicks": [0, 2]})
    'records of 1 stream lie in several partitions, each evaluated apart: clicks (0, 2); \
key records by stream with murmur2'
    """
    named = [
        f"{console.elide(printable(stream), 2 * _NAME_WIDTH)} ({', '.join(map(str, partitions))})"
        for stream, partitions in sorted(split.items())
    ]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (
        f"records of {console.counted(len(named), 'stream')} lie in several partitions, "
        f"each evaluated apart: {', '.join(named[:_NAMED])}{more}; "
        "key records by stream with murmur2"
    )


def shown_changes(model: ModelState, state: NewestMessages) -> list[AlarmGroup | ShownIncident]:
    """Return a model's current incidents, and the changes whose alarms belong to no current incident."""
    incidents = state.incidents.unended_of(*model.key)
    changes = model.changes.newest_first()
    uncovered = [change for change in changes if not any(incident.covers(change) for incident in incidents)]
    return [*incidents, *uncovered]


class ModelChange(NamedTuple):
    """A change, and the model that it is of."""

    change: AlarmGroup | ShownIncident
    model: ModelState


def newest_changes(models: Iterable[ModelState], state: NewestMessages) -> list[ModelChange]:
    """Return all changes with their models, the newest first."""
    changes = [ModelChange(change, model) for model in models for change in shown_changes(model, state)]
    return sorted(changes, key=lambda entry: -entry.change.time)
