"""Convert the tables of Python users to rows: pandas, polars, Arrow, lists of dicts, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from prequential.evaluation.frames import flattened, has_objects, rows_of_pandas, with_text_names
from prequential.offline.tables.formats import Stored, needs_pyarrow, open_rows
from prequential.offline.tables.objects import DictRows
from prequential.offline.tables.rows import RowFile

#: The field of values without columns, by the kind of table.
_COLUMN = {"predictions": "y_pred", "labels": "y_true"}

#: Types of the values in a list without columns.
_VALUES = (str, int, float, bool, type(None))


def rows_of(name: str, table: Any) -> RowFile:
    """Return a table of any supported type as rows.

    The table may be the path of a file, a dict of columns, or an iterable of dicts. It may also be an object
    with the Arrow C interface (`__arrow_c_stream__`: Arrow, pandas, polars, DuckDB, …). Values without
    columns (a Series, an array, a list of values) are the predictions' `y_pred`, or the labels' `y_true`.
    Raises TypeError for anything else, and UsageError if pyarrow is needed and isn't installed.

    >>> rows_of("labels", [{"y_true": "UP"}]).unit, rows_of("labels", ["UP", "DOWN"]).unit
    ('row', 'row')
    """
    if isinstance(table, (str, os.PathLike)):
        return open_rows(Stored(os.fspath(table)), None)
    if _is(table, "polars", "LazyFrame"):
        table = table.collect()
    values = _values(name, table)
    if values is not None:
        if name not in _COLUMN:
            raise TypeError(f"{name} has values alone: expected a table with columns")
        return DictRows(name, [{_COLUMN[name]: value} for value in values])
    if _is_pandas(table):
        table = with_text_names(table)
        if has_objects(table):
            return DictRows(name, rows_of_pandas(table))
    if _is(table, "polars", "DataFrame") and "Object" in map(str, table.dtypes):
        return DictRows(name, table.to_dicts())
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__") or _is_pandas(table):
        arrow = needs_pyarrow(f"{name} is a table")
        try:
            reader = arrow.of_pandas if _is_pandas(table) else arrow.of_object
            return reader(name, table)  # type: ignore[no-any-return]
        except (ValueError, TypeError, ArithmeticError, NotImplementedError) as error:  # Arrow's own
            raise TypeError(f"{name} can't be read: {_why_not_arrow(table, error)}") from error
    if isinstance(table, Mapping):
        return DictRows(name, _transposed(name, table))
    if isinstance(table, Iterable):
        objects = [one.item() if isinstance(one, np.generic) else one for one in table]
        if objects and all(isinstance(one, _VALUES) for one in objects):
            return rows_of(name, _Column(objects))
        for place, one in enumerate(objects):
            if not isinstance(one, Mapping):
                raise TypeError(f"{name}: row {place} is {one!r:.48}: expected a dict of fields")
        return DictRows(name, objects)
    raise TypeError(
        f"{name} is {table!r:.40}: expected a table (pandas, polars, Arrow), a dict of columns, dicts, "
        "values or a path"
    )


class _Column(list[Any]):
    """A list that contains only plain values."""


def _values(name: str, table: Any) -> list[Any] | None:
    """Return the values of an object without columns; None for a table. Raises TypeError for 2-d arrays."""
    if isinstance(table, _Column):
        return table
    if _is(table, "numpy", "ndarray"):
        if table.ndim != 1 or table.dtype.names:
            raise TypeError(
                f"{name} is an array of shape {table.shape} and type {table.dtype}: expected one "
                "dimension, or a dict of columns"
            )
        return _listed(table)
    if _is(table, "pandas", "Series") or _is(table, "pandas", "Index"):
        return [None if _is(value, "pandas", "NAType") else value for value in _listed(table)]
    if _is(table, "polars", "Series"):
        return _listed(table.to_list())
    if _is(table, "pyarrow", "Array") or _is(table, "pyarrow", "ChunkedArray"):
        return None if str(table.type).startswith("struct") else _listed(table.to_pylist())
    return None


def _is(value: Any, package: str, name: str) -> bool:
    """Return whether a value is of a class of this package, which needn't be installed."""
    return any(
        kind.__module__.partition(".")[0] == package and kind.__name__ == name for kind in type(value).__mro__
    )


def _why_not_arrow(table: Any, error: Exception) -> str:
    """Return the reason in one sentence; it names the column if that has values of several types."""
    for column in getattr(table, "columns", ()) if _is_pandas(table) else ():
        values = table[column]
        if not _is(values, "pandas", "Series"):
            return f"it has several columns {column!r}: expected names of their own"
        kinds = sorted({type(value).__name__ for value in values.dropna()})
        if str(values.dtype) == "object" and len(kinds) > 1:
            return f"column {column!r} has values of several types ({', '.join(kinds)}): expected one type"
    return " ".join(str(error).split())


def _transposed(name: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {column: _listed(values) for column, values in flattened(columns).items()}
    sizes = {column: len(values) for column, values in lists.items()}
    if len(set(sizes.values())) > 1:
        raise TypeError(f"{name} has columns of several lengths ({sizes}): expected the same in all")
    return [dict(zip(lists, row)) for row in zip(*lists.values())]


def _listed(values: Any) -> list[Any]:
    if _is(values, "numpy", "ndarray") and values.dtype.kind == "M":  # nanoseconds would become numbers
        values = values.astype("datetime64[us]")
    tolist = getattr(values, "tolist", None)  # numpy's scalars become Python's
    return list(tolist() if callable(tolist) else values)


def _is_pandas(table: Any) -> bool:
    """Return whether this is a pandas DataFrame, also of a version without the Arrow C interface."""
    return _is(table, "pandas", "DataFrame")
