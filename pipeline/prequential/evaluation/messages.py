"""Messages as Arrow tables: a row a message, a column a field, measures as columns of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from prequential.tables.formats import needs_pyarrow

#: Fields that are times (epoch ms), and objects whose entries become columns.
_TIMES = ("ts",)
_SPREAD = ("measures",)

#: Objects of plain values by name, which stay such.
_MAPS = {"undefined": "string", "counts": "int64"}


def table_of(messages: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> Any:
    """The table of messages of a kind, as pyarrow has it; other objects and lists in it are JSON text.

    Fields that no message has are left out; there is no column of a measure that never has a value. Raises
    UsageError if pyarrow isn't installed.
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
        elif field.required or any(name in row for row in rows):
            columns[name] = _column(pa, name, [row.get(name) for row in rows], field.type)
    return pa.table(columns)


def _column(pa: Any, name: str, values: list[Any], kind: Any) -> Any:
    if name in _TIMES:
        return pa.array(values, pa.timestamp("ms", "UTC"))
    if name in _MAPS:
        entries = [list(value.items()) for value in values]
        return pa.array(entries, pa.map_(pa.string(), getattr(pa, _MAPS[name])()))
    if any(isinstance(value, (dict, list)) for value in values):
        text = [None if value is None else msgspec.json.encode(value).decode() for value in values]
        return pa.array(text, pa.string())
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    names = str(kind).replace("<class '", "").partition("'")[0].split(" | ")
    # What may be a whole number or not, such as the `n` of a fading estimator, is a float.
    return pa.array(values, types.get("float" if "float" in names else names[0], pa.string()))
