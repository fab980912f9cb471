"""Models as a table, and what stands above and below it: warnings, incidents and alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prequential.topics.reasons import printable
from prequential.watching.changes import Change
from prequential.watching.incidents import OpenIncident, incident_line
from prequential.watching.lines import partition_name
from prequential.watching.ranking import Ranking, Row, is_baseline, is_recent, measures_shown
from prequential.watching.state import Model, ModelKey, State
from prequential.watching.text import age, count, counted, elide, measure_text, moment
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

#: Columns of a name, at least: as many as tell names apart as a rule.
_NAME_WIDTH = 12

#: Columns of a measure, at least: numbers that are usual.
_NUMBER_WIDTH = 7

#: The columns behind the measures, with their widths.
_LAST = (("outcomes", 8), ("heard", 5), ("alarm", 5))

#: Columns of a change's line that names leave for the rest: its age, a count, a date, and the first signal.
_CHANGE_WIDTH = 54

#: Split streams, and silent models, that are named in a warning.
_NAMED = 3


def label(key: ModelKey, state: State) -> str:
    """A stream's name, with the partition where there are several."""
    name = printable(key.stream)
    return f"{name}[{partition_name(key.partition)}]" if key.stream in state.split else name


def table(
    rows: Sequence[Row], state: State, by: str | None, width: int, now: int, chosen: int | None = None
) -> Table:
    """These rows, one of which may be chosen; `now` in epoch ms.

    Of measures there are as many as leave names their least width, and one in any case.
    """
    names = [label(row.model.key, state) for row in rows]
    models = [printable(row.model.key.model) + _mark(row) for row in rows]
    wanted = _longest("stream", names), _longest("model", models)
    room = width - sum(size + 1 for _, size in _LAST)
    least = sum(min(one, _NAME_WIDTH) + 1 for one in wanted)
    shown: list[str] = []
    for measure in measures_shown(state.measures, by):
        size = max(len(measure), _NUMBER_WIDTH) + 1
        if shown and room - size < least:
            break
        shown.append(measure)
        room -= size
    # What one of the names doesn't need is the other's.
    of_stream = max(1, min(wanted[0], max(room - 2 - wanted[1], (room - 1) // 2)))
    of_model = max(1, min(wanted[1], room - 2 - of_stream))
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    grid.add_column("stream", width=of_stream, no_wrap=True)
    grid.add_column("model", width=of_model, no_wrap=True)
    last = _LAST if room > 0 else ()
    for name, size in [*((name, max(len(name), _NUMBER_WIDTH)) for name in shown), *last]:
        style = "bold underline" if name == by else "bold"
        grid.add_column(name, width=size, justify="right", no_wrap=True, header_style=style)
    for place, (row, name, model) in enumerate(zip(rows, names, models)):
        dim = "dim" if is_baseline(row.model.key.model) else ""
        reading, untimed, change = row.reading, row.model.untimed, row.change
        cells: list[RenderableType] = [Text(elide(name, of_stream)), Text(elide(model, of_model))]
        cells += [measure_text(None if reading is None else reading.measures.get(name)) for name in shown]
        if last:
            cells.append("-" if reading is None else count(reading.outcomes))
            cells.append("-" if untimed else age(now - row.model.time))
            cells.append("" if change is None else Text(
                "-" if untimed else age(now - change.time),
                "bold yellow" if is_recent(change, now) else "dim",
            ))  # fmt: skip
        grid.add_row(*cells, style="reverse" if place == chosen else dim)
    return grid


def _mark(row: Row) -> str:
    """Behind a model that isn't shown as was chosen."""
    return "" if row.as_chosen or row.reading is None else "*"


def _longest(head: str, names: Iterable[str]) -> int:
    return max([len(head), *map(cell_len, names)])


def whole_table(state: State, now: int, width: int, ranking: Ranking) -> list[RenderableType]:
    """All that is known, where nobody scrolls: warnings, the models' table, and their changes.

    `now` is epoch ms, `width` the console's in characters.
    """
    rows = ranking.rows(now)
    changes = newest_changes(row.model for row in rows)
    read = [] if state.since is None else [Text(f"read since {moment(state.since, now)}", style="dim")]
    by = ranking.choice.by
    models = table(rows, state, by, width, now) if rows else Text("no metrics yet")
    return [*warnings(state, None, now), *read, models, *change_lines(changes, state, now, width)]


def change_lines(
    changes: Iterable[tuple[Change | OpenIncident, Model]], state: State, now: int, width: int
) -> list[Text]:
    """Changes of several models, each in a line."""
    return [change_line(one, now, width, _names_of_change(model, state, width)) for one, model in changes]


def change_line(change: Change | OpenIncident, now: int, width: int, whose: str = "") -> Text:
    """One change in one line, after the name of `whose` it is: when, how many alarms, of what."""
    if isinstance(change, OpenIncident):
        return incident_line(change, now, width, whose)
    where = [printable(segment) for segment in change.segments]
    if len(where) > 1:
        where = [f"{len(where)} segments"]
    since = f"outcome {change.outcome:,}" if change.untimed else moment(change.began, now)
    alarms = f"{counted(change.count, 'alarm')} since {since}"
    signals = [", ".join(map(printable, change.signals)), ", ".join(change.stages)]
    # Where the model as a whole is not affected, the segment is what matters.
    what = [*signals, *where] if change.whole else [*where, *signals]
    heard = "-" if change.untimed else age(now - change.time)
    line = Text("  ".join([f"{heard:>4}", *([whose] if whose else []), alarms, *what]))
    line.stylize("yellow" if is_recent(change, now) else "")
    line.truncate(width, overflow="ellipsis")
    return line


def _names_of_change(model: Model, state: State, width: int) -> str:
    """The names of a model in front of its change: as much of the line as the rest can spare."""
    half = max(_NAME_WIDTH, (width - _CHANGE_WIDTH) // 2)
    name = printable(model.key.model)
    stream = elide(label(model.key, state), max(half, 2 * half - cell_len(name)))
    return f"{stream} {elide(name, max(half, 2 * half - cell_len(stream)))}"


def warnings(state: State, trouble: str | None, now: int, *, reading: bool = False) -> list[Text]:
    """Lines of what stands above everything else: whoever doesn't see it reads the table wrongly.

    While what is there is being read (`reading`), models aren't silent, and streams aren't split yet.
    """
    lines = []
    if trouble:
        lines.append(Text(printable(trouble), style="red"))
    if state.unreadable:
        lines.append(Text(counted(state.unreadable, "unreadable message"), style="red"))
    if reading:
        return lines
    if (silent := silent_warning(state, now)) is not None:
        lines.append(Text(silent, style="yellow"))
    if misplaced := state.misplaced:
        lines.append(Text(split_warning(misplaced), style="bold red"))
    return lines


def silent_warning(state: State, now: int) -> str | None:
    """Which models have no new outcomes for longer than ever before, since when (`now` in epoch ms)."""
    silent = [
        (key, one) for key, model in state.models.items()
        if not is_baseline(key.model) and (one := state.silence(model, now)) is not None
    ]  # fmt: skip
    if not silent:
        return None
    silent.sort(key=lambda one: (-one[1].since, one[0]))
    named = [
        f"{label(key, state)}/{printable(key.model)} since {moment(one.since, now)} ({one.why})"
        for key, one in silent[:_NAMED]
    ]
    more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    return f"no new outcomes: {'; '.join(named)}{more}"


def split_warning(split: Mapping[str, list[int]]) -> str:
    """A sentence about which streams lie in several partitions, and the way out.

    >>> split_warning({"clicks": [0, 2]})
    'records of 1 stream lie in several partitions, each evaluated apart: clicks (0, 2); \
key records by stream with murmur2'
    """
    named = [
        f"{elide(printable(stream), 2 * _NAME_WIDTH)} ({', '.join(map(str, partitions))})"
        for stream, partitions in sorted(split.items())
    ]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (
        f"records of {counted(len(named), 'stream')} lie in several partitions, "
        f"each evaluated apart: {', '.join(named[:_NAMED])}{more}; "
        "key records by stream with murmur2"
    )


def shown_changes(model: Model) -> list[Change | OpenIncident]:
    """A model's incidents that aren't over, and changes by their alarms alone where no such one has them."""
    incidents = model.incidents.newest_first()
    changes = model.changes.newest_first()
    uncovered = [change for change in changes if not any(one.covers(change) for one in incidents)]
    return [*incidents, *uncovered]


def newest_changes(models: Iterable[Model]) -> list[tuple[Change | OpenIncident, Model]]:
    """All changes with their models, the newest first."""
    changes = [(change, model) for model in models for change in shown_changes(model)]
    return sorted(changes, key=lambda one: -one[0].time)
