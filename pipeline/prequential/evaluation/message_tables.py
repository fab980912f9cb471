"""Messages as Arrow tables, with a row for each message and plain values in the cells; disparity by group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from prequential.offline.tables.opening import needs_pyarrow
from prequential.topics.disparities import Disparity
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Comparison, Incident, Message
from prequential.views.answers.explanation import ExplainingMessages, explain


class GroupRow(msgspec.Struct, gc=False):
    """A group in a message about disparity; fields are those of the message, or of the group in it."""

    model: str
    n: int
    stream: str
    stage: str
    outcomes: int
    ts: int
    key: str
    measure: str
    group: str
    group_value: float
    group_difference: float | None
    interval: tuple[float, float] | None
    largest: str | None
    smallest: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    verdict: str
    since: int | None
    partition: int
    id: str
    config: str
    untimed: bool | msgspec.UnsetType = msgspec.UNSET


def rows_of_groups(messages: Iterable[Disparity]) -> Iterator[GroupRow]:
    """Yield the groups of these messages, message by message."""
    for message in messages:
        low, high = message.interval or (None, None)
        for name, group in message.groups.items():
            yield GroupRow(
                message.model, group["n"], message.stream, message.stage, message.outcomes, message.ts,
                message.key, message.measure,
                name, group["value"], group.get("difference"), group.get("interval"), message.largest,
                message.smallest, message.difference, low, high, message.ratio, message.verdict,
                message.since, message.partition,
                message.id, message.config, message.untimed,
            )  # fmt: skip


#: The first columns of a table, and the last ones; all others are between them in the order of the fields.
_FIRST = ("model", "against", "estimator", "n", "stream", "segment", "stage", "outcomes", "ts")
_LAST = ("partition", "id", "config")

#: Objects whose entries become columns under their own names, without the name of the object.
_SPREAD = ("measures", "value")

#: Objects by class, whose number of columns would have no bound, and the names of the keys and of the value.
#: They become a list of structs.
_BY_CLASS = {"confusion": ("label", "prediction", "n"), "per_class": ("class",)}

#: Columns of durations and of times begin with these.
_DURATIONS = (
    "coverage_label_latency_ms", "coverage_recent_label_latency_ms", "coverage_oldest_waiting_ms",
    "cluster_length_ms",
)  # fmt: skip
_TIMES = (
    "ts", "opened_ts", "change_point_ts", "change_point_prediction_ts", "recovered_ts", "period_start",
    "period_end", "worse_than_baseline_",
)  # fmt: skip

#: Reasons for which measures of the other task are undefined, in each message: they make no columns.
_OTHER_TASK = ("not_regression", "not_classification", "not_multilabel")

#: The record of earlier estimates, which has eight values for each measure: only messages contain it.
_LEFT_OUT = "record"

#: Columns that a table has even without rows, by kind of message and field, in addition to those of simple
#: fields. `recent` is empty in messages of earlier versions.
_ALWAYS: Mapping[type[msgspec.Struct], Mapping[str, Mapping[str, str]]] = {
    Comparison: {
        "interval": {"interval_low": "number", "interval_high": "number"},
        "recent": {"recent_verdict": "text", "recent_since": "whole"},
    },
    GroupRow: {"interval": {"interval_low": "number", "interval_high": "number"}},
    Incident: {
        **{name: {f"{name}_outcome": "whole", f"{name}_ts": ""} for name in ("opened", "change_point")},
        **{
            name: dict.fromkeys(
                (f"{name}_level", f"{name}_interval_low", f"{name}_interval_high"), "number"
            )
            for name in ("before", "after")
        },
        "causes": {"cause": "text", "cause_share": "number"},
    },
}  # fmt: skip

#: The type of a column by the type of a field. A field that may be a whole number, such as the `n` of a
#: fading estimator, is a number.
_KINDS = {
    "str": "text", "str | None": "text", "int": "whole", "int | None": "whole", "float": "number",
    "float | None": "number", "int | float": "number", "list[str]": "texts",
}  # fmt: skip

_Cells = dict[str, Any]


def table_of(messages: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> Any:
    """Return the pyarrow table of messages of a kind, with a row for each message.

    The entries of an object become columns that begin with the name of the object, such as `counts_late`;
    measures have columns of their own names. An interval becomes two columns (`…_low`, `…_high`). Times are
    timestamps, and durations (`…_ms`) are durations, without `_ms`. If records had no times, both are whole
    numbers, which count rows. Columns without any value are left out. Raises UsageError if pyarrow isn't
    installed.
    """
    needs_pyarrow("a table of messages is Arrow")
    import pyarrow as pa

    kinds: dict[str, str] = {}
    by_field: dict[str, dict[str, None]] = {}
    for field in msgspec.structs.fields(kind):
        declared = _declared(kind, field)
        by_field[field.name] = dict.fromkeys(declared)
        kinds |= declared
    rows: list[_Cells] = []
    of_other_task: set[str] = set()
    for message in messages:
        row: _Cells = {}
        fields = msgspec.to_builtins(message)
        reasons = fields.get("undefined", {}).items()
        of_other_task |= {f"undefined_{name}" for name, reason in reasons if reason in _OTHER_TASK}
        for name_of_field, value in fields.items():
            cells = dict(_flat("", {name_of_field: value}))
            by_field[name_of_field] |= dict.fromkeys(name for name, cell in cells.items() if cell is not None)
            row |= cells
        rows.append(row)
    names = dict.fromkeys(name for of_field in by_field.values() for name in of_field)
    of_other_task -= {f"undefined_{name}" for name in by_field.get("measures", ())}
    between = [name for name in names if name not in (*_FIRST, *_LAST, *of_other_task)]
    ordered = [column_name for column_name in (*_FIRST, *between, *_LAST) if column_name in names]
    timed = not any(row.get("untimed") for row in rows)
    types = {
        "text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "texts": pa.list_(pa.string()),
        "time": pa.timestamp("ms", "UTC"), "duration": pa.duration("ms"),
    }  # fmt: skip
    columns = {}
    for name in ordered:
        cells_of = [row.get(name) for row in rows]
        if (kind_of_time := _kind_of_time(name)) is None:
            columns[name] = _column(pa, cells_of, types.get(kinds.get(name, "")))
            continue
        whole = pa.array([None if cell is None else round(cell) for cell in cells_of], pa.int64())
        unit = "_ms_" if timed else ""
        columns[f"{name}_".replace(unit, "_")[:-1] if unit else name] = (
            whole.cast(types[kind_of_time]) if timed else whole
        )
    return pa.table(columns)


def _declared(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> dict[str, str]:
    """Return the columns of a field that each table of a kind of message has, with their types."""
    written = str(field.type).replace("<class '", "").partition("'")[0]
    if field.required and written in _KINDS:
        return {field.name: _KINDS[written]}
    return dict(_ALWAYS.get(kind, {}).get(field.name, {}))


def _kind_of_time(name: str) -> str | None:
    """Return `time` for columns of times, `duration` for durations, None for all others.

    >>> [_kind_of_time(name) for name in ("opened_ts", "coverage_label_latency_ms_p50", "accuracy")]
    ['time', 'duration', None]
    """
    if name.startswith(_DURATIONS):
        return "duration"
    return "time" if name.startswith(_TIMES) else None


def _flat(above: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an object with nested objects flattened; an interval becomes two entries."""
    for key, value in fields.items():
        name = above.removesuffix("_") if key in _SPREAD else f"{above}{key}"
        if key == "causes" and not above:  # the first one explains most
            first = value[0] if value else {}
            yield from (("cause", first.get("cause")), ("cause_share", first.get("share")), (name, value))
        elif key in _BY_CLASS:
            yield name, list(_listed(value, _BY_CLASS[key]))
        elif key == "interval" or above == "intervals_":
            low, high = value or (None, None)
            yield f"{name}_low", low
            yield f"{name}_high", high
        elif isinstance(value, dict):
            if key != _LEFT_OUT:
                yield from _flat(f"{name}_" if name else "", value)
        elif key != _LEFT_OUT:
            yield name, value


def _listed(value: Mapping[str, Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[_Cells]:
    """Yield the entries of an object by class, with their keys as entries of these names."""
    for first, below in value.items():
        if len(names) == 1:
            yield {names[0]: first, **below}
        else:
            for second, number in below.items():
                yield dict(zip(names, (first, second, float(number))))


def _column(pa: Any, cells: list[Any], kind: Any) -> Any:
    """Return a column of a type, or (None) of the type of its cells; cells of several types become text."""
    try:
        return pa.array(cells, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def explanation_of(messages: Iterable[Message], incident: str | int | Incident) -> list[str]:
    """The lines that explain an incident, which is named as in `Result.explain`.

    Raises ValueError if there is no such incident.
    """
    if not isinstance(incident, (str, int, Incident)):
        raise ValueError(f"incident is {incident!r:.40}: expected an ID, a number or an incident")
    explaining = ExplainingMessages()
    for message in messages:
        explaining.put(message)
    incidents = explaining.newest()
    if isinstance(incident, int):
        if not -len(incidents) <= incident < len(incidents):
            how_many = f"there are {len(incidents):,}" if len(incidents) != 1 else "there is 1"
            raise ValueError(f"no incident number {incident}: {how_many}")
        incident = incidents[incident]
    try:
        return list(
            explain(explaining, explaining.by_id(incident) if isinstance(incident, str) else incident)
        )
    except WorkError as error:
        raise ValueError(str(error)) from None
