"""The rows of Arrow's record batches, as a mapping reads them. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from prequential.mapping.model import Path
from prequential.mapping.row_texts import json_of
from prequential.mapping.rows import pick

#: The root of a path to a column with a type of times, which is read as milliseconds.
TIME = "timestamp"

#: Milliseconds of each unit of Arrow's times, as a fraction.
OF_MS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}

_MS_OF_DAY = 86_400_000


class ArrowRows:
    """The rows of one record batch."""

    reasons: Mapping[int, str] = {}

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    @property
    def schema(self) -> Any:
        """Return the schema of the record batch, with the columns' names and types, in their order."""
        return self.batch.schema

    def part(self, start: int, stop: int) -> ArrowRows:
        """Return some of these rows, without copying them."""
        return ArrowRows(self.batch.slice(start, max(0, stop - start)))

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every row at a path; None where there is none."""
        names = self.batch.schema.names
        whole = ".".join(path.keys)
        name, *below = [whole] if whole in names else path.keys
        column = self.batch.column(names.index(name))
        if path.root == TIME:
            return _milliseconds(column)
        values = _plain(column)
        return pick(values, tuple(below)) if below else values

    def raw(self, index: int) -> bytes:
        """Return a row as a JSON object in UTF-8, whose fields are the columns; absent values are null."""
        columns = self.batch.slice(index, 1).columns
        row = {name: values_of(column)[0] for name, column in zip(self.batch.schema.names, columns)}
        return json_of(row)

    def has(self, path: Path) -> bool:
        """Whether any row's structure has the field; the caller has already checked the column."""
        if path.root == TIME or len(path.keys) == 1:
            return True
        return any(value is not None for value in self.column(path))

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a row without a value at a path has it as null: in columns, an empty cell is null."""
        return self.has(path)

    def fields(self) -> str:
        """Return the columns and their types as text, if any column is nested; else an empty text."""
        schema = self.batch.schema
        return ", ".join(map(str, schema)) if any(map(pa.types.is_nested, schema.types)) else ""

    def names(self) -> Sequence[str]:
        """Return the names of the columns in their order, as the schema of the record batch has them."""
        return list(self.batch.schema.names)


def _plain(column: Any) -> list[Any]:
    """Return Python's values; faster than Arrow's own list for columns without nulls, and for categories."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = [*_plain(column.dictionary), None]
        indices = column.indices.cast(pa.int64()).fill_null(len(values) - 1)
        return list(map(values.__getitem__, indices.to_numpy().tolist()))
    if column.null_count == 0 and (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ):  # fmt: skip
        return list(column.to_numpy(zero_copy_only=False).tolist())
    return values_of(column)


def values_of(column: Any) -> list[Any]:
    """Return Python's values, and text for those that Python lacks.

    These are times in nanoseconds, after the year 9999 or in an unknown zone, and decimals with too many
    digits. Maps become objects, unless their keys can't be keys of one: these stay lists of pairs. Of two
    entries of an object with one name, the last one counts.
    """
    try:
        values = list(column.to_pylist())
    except (ValueError, ArithmeticError, KeyError):
        if len(column) == 1:
            return [_value(column)]
        return [value for index in range(len(column)) for value in values_of(column.slice(index, 1))]
    if pa.types.is_map(column.type):
        with suppress(TypeError):
            return [None if pairs is None else dict(pairs) for pairs in values]
    return values


def _value(column: Any) -> Any:
    """Return the value of a column with one that Python lacks, or that has such a value as an entry."""
    if pa.types.is_struct(column.type) and column.null_count == 0:
        with suppress(UnicodeDecodeError):  # of a name
            names = [field.name for field in column.type]
            return dict(zip(names, (values_of(entries)[0] for entries in column.flatten())))
    return column.to_string(skip_new_lines=True).removeprefix("[").removesuffix("]")


def _milliseconds(column: Any) -> list[int | None]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        times, (factor, divisor) = column.cast(pa.int64()), OF_MS[kind.unit]
    elif pa.types.is_date32(kind):
        times, (factor, divisor) = column.cast(pa.int32()), (_MS_OF_DAY, 1)
    else:
        times, (factor, divisor) = column.cast(pa.int64()), (1, 1)
    return [None if time is None else time * factor // divisor for time in _plain(times)]


def column_of(path: Path, columns: Sequence[str]) -> str | None:
    """Return the column of a path, whose name may have dots; None if there is none."""
    whole = ".".join(path.keys)
    name = whole if whole in columns else path.keys[0]
    return name if name in columns else None


def type_of_time(schema: Any, path: Path) -> str | None:
    """Return the type of a column of times, which need no unit; None for a column of other types."""
    name = column_of(path, schema.names)
    if name is None or (len(path.keys) > 1 and name != ".".join(path.keys)):
        return None
    kind = schema.field(name).type
    return str(kind) if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else None


def without_view(field: Any) -> Any:
    """Replace a view type, such as polars uses for text, because some functions here do not support views."""
    kind = field.type
    if pa.types.is_string_view(kind):
        kind = pa.large_string()
    elif pa.types.is_binary_view(kind):
        kind = pa.large_binary()
    elif pa.types.is_struct(kind):
        kind = pa.struct(list(map(without_view, kind)))
    elif pa.types.is_list(kind):
        kind = pa.list_(without_view(kind.value_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(without_view(kind.value_field))
    return field.with_type(kind)
