"""Messages as Arrow tables, with a row for each message and a column for each field and measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from prequential.tables.formats import needs_pyarrow
from prequential.topics.outputs import Incident

#: Fields that are times (epoch ms), and objects whose entries become columns.
_TIMES = ("ts",)
_SPREAD = ("measures",)

#: Objects of plain values, which become Arrow maps, by the type of their values.
_MAPS = {"undefined": "string", "counts": "int64"}


#: Columns of a table of incidents, which an empty table has also. Times are recognised by their names.
_OF_INCIDENTS = {
    "id": "text", "stream": "text", "partition": "whole", "model": "text", "revision": "whole",
    "status": "text", "segment": "text", "stage": "text", "opened_outcome": "whole", "opened_ts": "",
    "change_point_outcome": "whole", "change_point_ts": "", "severity": "number", "before_level": "number",
    "before_interval_low": "number", "before_interval_high": "number", "after_level": "number",
    "after_interval_low": "number", "after_interval_high": "number", "cause": "text",
    "cause_share": "number", "alarm_count": "whole", "alarms": "texts", "examples": "texts",
    "outcome": "whole", "ts": "",
}  # fmt: skip


def table_of(messages: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> Any:
    """Return the pyarrow table of messages of a kind; other objects and lists in it are JSON text.

    Fields that no message has are left out, as are measures that no message has. Raises UsageError if pyarrow
    isn't installed.
    """
    needs_pyarrow("a table of messages is Arrow")
    import pyarrow as pa

    rows = [msgspec.to_builtins(message) for message in messages]
    columns: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        name = field.name
        if name in _SPREAD:
            for measure in dict.fromkeys(one for row in rows for one in row[name]):
                columns[measure] = pa.array([row[name].get(measure) for row in rows], pa.float64())
        elif name == "interval":
            for place, end in enumerate(("interval_low", "interval_high")):
                ends = [None if row[name] is None else row[name][place] for row in rows]
                columns[end] = pa.array(ends, pa.float64())
        elif name == "recent":  # empty in messages of earlier versions
            recent = [row.get(name) or {} for row in rows]
            columns["recent_verdict"] = pa.array([one.get("verdict") for one in recent], pa.string())
            columns["recent_since"] = pa.array([one.get("since") for one in recent], pa.int64())
        elif name in _TIMES:
            columns[name] = pa.array([row[name] for row in rows], _type_of_times(pa, rows))
        elif field.required or any(name in row for row in rows):
            columns[name] = _column(pa, name, [row.get(name) for row in rows], field.type)
    return pa.table(columns)


def table_of_incidents(incidents: Sequence[Incident]) -> Any:
    """Return the table of incidents: objects as columns, lists as lists. Raises as `table_of` does."""
    needs_pyarrow("a table of incidents is Arrow")
    import pyarrow as pa

    types = {
        "text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "texts": pa.list_(pa.string()),
    }  # fmt: skip
    rows = []
    for incident in incidents:
        row = _flat(msgspec.to_builtins(incident))
        first: dict[str, Any] = incident.causes[0] if incident.causes else {}
        rows.append({**row, "cause": first.get("cause"), "cause_share": first.get("share")})
    columns: dict[str, Any] = {}
    for name in dict.fromkeys([*_OF_INCIDENTS, *(name for row in rows for name in row)]):
        timed = name == "ts" or name.endswith("_ts")
        kind = _type_of_times(pa, rows) if timed else types.get(_OF_INCIDENTS.get(name, ""))
        columns[name] = pa.array([row.get(name) for row in rows], kind)
    return pa.table(columns)


def _type_of_times(pa: Any, rows: Sequence[dict[str, Any]]) -> Any:
    """Return the Arrow type of times: timestamps, or whole numbers if rows are numbered instead."""
    return pa.int64() if any(row.get("untimed") for row in rows) else pa.timestamp("ms", "UTC")


def _flat(fields: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return the entries of an object with nested objects flattened; an interval becomes two entries."""
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, f"{name}_")
        elif key == "interval":
            ends = value or (None, None)
            flat |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
        else:
            flat[name] = value
    return flat


def _column(pa: Any, name: str, values: list[Any], kind: Any) -> Any:
    if name in _MAPS:
        entries = [list(value.items()) for value in values]
        return pa.array(entries, pa.map_(pa.string(), getattr(pa, _MAPS[name])()))
    if any(isinstance(value, (dict, list)) for value in values):
        text = [None if value is None else msgspec.json.encode(value).decode() for value in values]
        return pa.array(text, pa.string())
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    names = str(kind).replace("<class '", "").partition("'")[0].split(" | ")
    # A field that may or may not be a whole number, such as the `n` of a fading estimator, is a float.
    return pa.array(values, types.get("float" if "float" in names else names[0], pa.string()))
