"""The table of models, with the warnings above it, and the incidents and alarms below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prequential.topics.errors import printable
from prequential.views.watching.incidents import AlarmGroup, ShownIncident, incident_line
from prequential.views.watching.lines import partition_name
from prequential.views.watching.ranking import RankedModel, Ranking, is_baseline, is_recent, measures_shown
from prequential.views.watching.state import ModelKey, ModelState, WatchState
from prequential.views.watching.text import age, count, counted, elide, measure_text, moment
from prequential.views.wording.status import WORDS
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

#: The least width of a name, which usually distinguishes names.
_NAME_WIDTH = 12

#: The least width of a measure, which fits common numbers.
_NUMBER_WIDTH = 7

#: The columns after the measures, with their widths.
_LAST = (("outcomes", 8), ("newest", 6), ("status", 9))

#: The width that names leave in a change's line for its age, a count, a date, and the first signal.
_CHANGE_WIDTH = 54

#: The most split streams, or silent models, that a warning names.
_NAMED = 3


def label(key: ModelKey, state: WatchState) -> str:
    """Return a stream's name, with the partition if there are several."""
    name = printable(key.stream)
    return f"{name}[{partition_name(key.partition)}]" if key.stream in state.split else name


def table(
    rows: Sequence[RankedModel],
    state: WatchState,
    by: str | None,
    width: int,
    now: int,
    chosen: int | None = None,
) -> Table:
    """Return a table of these rows, of which one may be highlighted; `now` in epoch ms.

    The table has as many measures as fit next to names of the least width, and at least one.
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
    # Width that one of the names doesn't need goes to the other.
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
        reading, untimed = row.reading, row.model.untimed
        cells: list[RenderableType] = [Text(elide(name, of_stream)), Text(elide(model, of_model))]
        cells += [measure_text(None if reading is None else reading.measures.get(name)) for name in shown]
        if last:
            cells.append("-" if reading is None else count(reading.outcomes))
            cells.append("-" if untimed else age(now - row.model.time))
            cells.append(_status(row, state, now))
        grid.add_row(*cells, style="reverse" if place == chosen else dim)
    return grid


def _status(row: RankedModel, state: WatchState, now: int) -> Text:
    """Return why a model needs attention, as the dashboard names it; else the age of its newest alarm."""
    if row.model.incidents.has_open():
        return Text(WORDS["worse"], "bold yellow")
    if row.reading is not None and state.silence(row.model, now) is not None:
        return Text(WORDS["silent"], "bold yellow")
    if row.change is None:
        return Text()
    when = "" if row.model.untimed else f" {age(now - row.change.time)}"
    return Text(f"alarm{when}", "yellow" if is_recent(row.change, now) else "dim")


def _mark(row: RankedModel) -> str:
    """Return the mark of a model that isn't shown in the chosen stage and estimator."""
    return "" if row.as_chosen or row.reading is None else "*"


def _longest(head: str, names: Iterable[str]) -> int:
    return max([len(head), *map(cell_len, names)])


def whole_table(state: WatchState, now: int, width: int, ranking: Ranking) -> list[RenderableType]:
    """Return the complete output for a console without scrolling: warnings, models, and their changes.

    `now` is epoch ms, `width` the console's in characters.
    """
    rows = ranking.rows(now)
    changes = newest_changes(row.model for row in rows)
    read = [] if state.since is None else [Text(f"read since {moment(state.since, now)}", style="dim")]
    by = ranking.choice.by
    models = table(rows, state, by, width, now) if rows else Text("no metrics yet")
    return [*warnings(state, None, now), *read, models, *change_lines(changes, state, now, width)]


def change_lines(
    changes: Iterable[tuple[AlarmGroup | ShownIncident, ModelState]], state: WatchState, now: int, width: int
) -> list[Text]:
    """Return the changes of several models, each as a line."""
    return [change_line(one, now, width, _names_of_change(model, state, width)) for one, model in changes]


def change_line(change: AlarmGroup | ShownIncident, now: int, width: int, whose: str = "") -> Text:
    """Return a change as one line: the name `whose`, the time, the number of alarms, and their signals."""
    if isinstance(change, ShownIncident):
        return incident_line(change, now, width, whose)
    where = [printable(segment) for segment in change.segments]
    if len(where) > 1:
        where = [f"{len(where)} segments"]
    since = f"outcome {change.outcome:,}" if change.untimed else moment(change.began, now)
    alarms = f"{counted(change.count, 'alarm')} since {since}"
    signals = [", ".join(map(printable, change.signals)), ", ".join(change.stages)]
    # If the model as a whole is not affected, the segment is more important.
    what = [*signals, *where] if change.whole else [*where, *signals]
    heard = "-" if change.untimed else age(now - change.time)
    line = Text("  ".join([f"{heard:>4}", *([whose] if whose else []), alarms, *what]))
    line.stylize("yellow" if is_recent(change, now) else "")
    line.truncate(width, overflow="ellipsis")
    return line


def _names_of_change(model: ModelState, state: WatchState, width: int) -> str:
    """Return the names of a model for the line of its change, as wide as the rest of the line allows."""
    half = max(_NAME_WIDTH, (width - _CHANGE_WIDTH) // 2)
    name = printable(model.key.model)
    stream = elide(label(model.key, state), max(half, 2 * half - cell_len(name)))
    return f"{stream} {elide(name, max(half, 2 * half - cell_len(stream)))}"


def warnings(state: WatchState, trouble: str | None, now: int, *, reading: bool = False) -> list[Text]:
    """Return the warnings above the table, without which you would misread the table.

    While existing messages are still being read (`reading`), there are no warnings about silent models and
    split streams.
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


def silent_warning(state: WatchState, now: int) -> str | None:
    """Return a warning about models with unusually long pauses, and their starts (`now` in epoch ms)."""
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
    """Return a warning about streams with records in several partitions, and the fix.

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


def shown_changes(model: ModelState) -> list[AlarmGroup | ShownIncident]:
    """Return a model's current incidents, and the changes whose alarms belong to no current incident."""
    incidents = model.incidents.newest_first()
    changes = model.changes.newest_first()
    uncovered = [change for change in changes if not any(one.covers(change) for one in incidents)]
    return [*incidents, *uncovered]


def newest_changes(models: Iterable[ModelState]) -> list[tuple[AlarmGroup | ShownIncident, ModelState]]:
    """Return all changes with their models, the newest first."""
    changes = [(change, model) for model in models for change in shown_changes(model)]
    return sorted(changes, key=lambda one: -one[0].time)
