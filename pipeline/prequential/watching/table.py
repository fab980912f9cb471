"""Models and alarms as lines: one a model, one a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prequential.topics.reasons import printable
from prequential.watching.changes import Change
from prequential.watching.incidents import OpenIncident, incident_line
from prequential.watching.ranking import Row, is_baseline, is_recent
from prequential.watching.state import Model, ModelKey, State
from prequential.watching.text import age, count, counted, elide, left, measure_text, moment
from rich.cells import cell_len
from rich.text import Text

#: Columns of a name, at least: as many as tell names apart as a rule.
NAME_WIDTH = 12

#: Columns of a measure, at least: numbers that are usual.
_NUMBER_WIDTH = 7

#: The columns behind the measures, with their widths.
_LAST = (("outcomes", 8), ("heard", 5), ("alarm", 5))

#: Columns of a change's line that names leave for the rest: its age, a count, a date, and the first signal.
_CHANGE_WIDTH = 54

#: Split streams that are named in the warning.
_NAMED = 3


class Columns(NamedTuple):
    """How wide names are, and which measures have room beside them."""

    stream: int
    model: int
    measures: tuple[str, ...]
    last: bool


def label(key: ModelKey, state: State) -> str:
    """A stream's name, with the partition where there are several."""
    name = printable(key.stream)
    return f"{name}[{key.partition}]" if key.stream in state.split else name


def model_label(row: Row) -> str:
    """A model's name, with a mark where it isn't shown as was chosen."""
    name = printable(row.model.key.model)
    return name if row.as_chosen or row.reading is None else f"{name}*"


def columns(rows: Iterable[tuple[str, str]], measures: Sequence[str], width: int) -> Columns:
    """Columns for these names (of streams and of models) on a screen of this width.

    The first measure is always there; of the others as many as leave names their width, up to 20.
    """
    streams, models = [NAME_WIDTH], [NAME_WIDTH]
    for stream, model in rows:
        streams.append(cell_len(stream))
        models.append(cell_len(model))
    wanted = max(streams), max(models)
    last = sum(size + 1 for _, size in _LAST)
    free = width - last - 1 - sum(min(one, 20) for one in wanted)
    least = width - last - 1 - 2 * NAME_WIDTH
    shown: list[str] = []
    used = 0
    for place, measure in enumerate(measures):
        size = _width(measure) + 1
        # The first three are worth more than long names.
        if place and used + size > (least if place < 3 else free):
            break
        shown.append(measure)
        used += size
    names = max(width - last - used - 1, 2 * NAME_WIDTH)
    of_stream = min(wanted[0], max(names - wanted[1], (names + 1) // 2))
    of_model = min(wanted[1], names - of_stream)
    return Columns(of_stream, of_model, tuple(shown), width >= used + last + names + 1)


def heading(shown: Columns, by: str | None) -> Text:
    """The table's first line; what it is sorted by is underlined."""
    line = Text(f"{'stream':<{shown.stream}} {'model':<{shown.model}}", no_wrap=True, overflow="crop")
    last = _LAST if shown.last else ()
    for name, width in [*((name, _width(name)) for name in shown.measures), *last]:
        line.append(" " * (1 + max(0, width - len(name))))
        line.append(name, style="underline" if name == by else "")
    line.stylize("bold")
    return line


def row_line(row: Row, stream: str, model: str, shown: Columns, now: int) -> Text:
    """A model's line, with these labels of it; `now` in epoch ms."""
    reading = row.reading
    style = "dim" if is_baseline(row.model.key.model) else ""
    line = Text(
        f"{left(stream, shown.stream)} {left(model, shown.model)}", style, no_wrap=True, overflow="crop"
    )
    for measure in shown.measures:
        line.append(" ")
        line.append_text(
            measure_text(reading.measures.get(measure) if reading is not None else None, _width(measure))
        )
    if shown.last:
        outcomes = "-" if reading is None else count(reading.outcomes)
        untimed = row.model.untimed
        line.append(f" {outcomes:>8} {'-' if untimed else age(now - row.model.time):>5} ")
        if (change := row.change) is not None:
            heard = "-" if untimed else age(now - change.time)
            line.append(f"{heard:>5}", "bold yellow" if is_recent(change, now) else "dim")
    return line


def change_line(change: Change | OpenIncident, now: int, width: int, whose: str = "") -> Text:
    """One change in one line, after the name of `whose` it is: when, how many alarms, of what."""
    if isinstance(change, OpenIncident):
        return incident_line(change, now, width, whose)
    where = [printable(segment) for segment in change.segments]
    if len(where) > 1:
        where = [f"{len(where)} segments"]
    since = f"outcome {change.outcome:,}" if change.untimed else moment(change.began, now)
    alarms = f"{counted(change.count, 'alarm')} since {since}"
    of = [", ".join(map(printable, change.signals)), ", ".join(change.stages)]
    # Where the model as a whole is not affected, the segment is what matters.
    what = [*of, *where] if change.whole else [*where, *of]
    heard = "-" if change.untimed else age(now - change.time)
    line = Text("  ".join([f"{heard:>4}", *([whose] if whose else []), alarms, *what]))
    line.stylize("yellow" if is_recent(change, now) else "")
    line.truncate(width, overflow="ellipsis")
    return line


def names_of_change(model: Model, state: State, width: int) -> str:
    """The names of a model in front of its change: as much of the line as the rest can spare."""
    half = max(NAME_WIDTH, (width - _CHANGE_WIDTH) // 2)
    name = printable(model.key.model)
    stream = elide(label(model.key, state), max(half, 2 * half - cell_len(name)))
    return f"{stream} {elide(name, max(half, 2 * half - cell_len(stream)))}"


def warnings(state: State, trouble: str | None, now: int) -> list[Text]:
    """What stands above everything else: whoever doesn't see it reads the table wrongly."""
    lines = []
    if trouble:
        lines.append(Text(printable(trouble), style="red"))
    if state.unreadable:
        lines.append(Text(counted(state.unreadable, "unreadable message"), style="red"))
    if (silent := silent_warning(state, now)) is not None:
        lines.append(Text(silent, style="yellow"))
    if state.split:
        lines.append(Text(split_warning(state.split), style="bold red"))
    return lines


def silent_warning(state: State, now: int) -> str | None:
    """Which models have no new outcomes for longer than ever before, since when (`now` in epoch ms)."""
    found = [
        (key, one) for key, model in state.models.items()
        if not is_baseline(key.model) and (one := state.silence(model, now)) is not None
    ]  # fmt: skip
    if not found:
        return None
    found.sort(key=lambda one: (-one[1].since, one[0]))
    named = [
        f"{label(key, state)}/{printable(key.model)} since {moment(one.since, now)} ({one.why})"
        for key, one in found[:_NAMED]
    ]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"no new outcomes: {'; '.join(named)}{more}"


def split_warning(split: Mapping[str, list[int]]) -> str:
    """Which streams lie in several partitions, and the way out.

    >>> split_warning({"clicks": [0, 2]})
    'records of 1 stream lie in several partitions, each evaluated apart: clicks (0, 2); \
key records by stream with murmur2'
    """
    named = [
        f"{elide(printable(stream), 2 * NAME_WIDTH)} ({', '.join(map(str, partitions))})"
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
    rest = [change for change in changes if not any(one.covers(change) for one in incidents)]
    return [*incidents, *rest]


def newest_changes(models: Iterable[Model]) -> list[tuple[Change | OpenIncident, Model]]:
    """All changes with their models, the newest first."""
    found = [(change, model) for model in models for change in shown_changes(model)]
    return sorted(found, key=lambda one: -one[0].time)


def _width(measure: str) -> int:
    return max(len(measure), _NUMBER_WIDTH)
