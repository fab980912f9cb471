"""Convert the tables of Python users to rows: pandas, polars, Arrow, lists of dicts, files; their indexes."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from prequential.mapping.model import KNOWN_FIELDS, as_text
from prequential.offline.tables.formats import Stored, needs_pyarrow, open_rows
from prequential.offline.tables.objects import DictRows
from prequential.offline.tables.rows import RowFile


def with_text_names(frame: Any) -> Any:
    """Return a pandas frame whose column names are text, as paths need.

    Names of several levels are joined by dots. A column is dropped if the text of its name is the name of
    another column.

    >>> import pandas as pd
    >>> with_text_names(pd.DataFrame({"y_pred": ["a"], 0: [0.5]})).columns.tolist()
    ['y_pred', '0']
    >>> with_text_names(pd.DataFrame({("y_pred", ""): ["a"], ("y_proba", True): [0.5]})).columns.tolist()
    ['y_pred', 'y_proba.true']
    """
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    own = {name for name in frame.columns if isinstance(name, str)}
    names = [(place, _text_of(name), isinstance(name, str)) for place, name in enumerate(frame.columns)]
    kept = [(place, name) for place, name, is_own in names if is_own or name not in own]
    named = frame.iloc[:, [place for place, _ in kept]]
    return named.set_axis([name for _, name in kept], axis=1)


def has_objects(frame: Any) -> bool:
    """Return whether a column of a pandas frame has objects that Arrow would not keep, such as dicts.

    Values of several types also count, except in a column that is a field: there Arrow reports the error.
    Times of which only some have a zone count also, because Arrow would lose which ones have one.
    """
    infer_dtype = importlib.import_module("pandas.api.types").infer_dtype
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if str(column.dtype) != "object":
            continue
        kind = infer_dtype(column, skipna=True)
        if kind == "datetime" and len({one.tzinfo is None for one in column.dropna()}) == 2:
            return True
        if not kind.startswith("mixed"):
            continue
        kinds = {*map(type, column)} - {type(None)}
        if len(kinds) == 1 or name not in KNOWN_FIELDS or any(issubclass(one, Mapping) for one in kinds):
            return True
    return False


def rows_of_pandas(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts, including its index if that is not the default one."""
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    rows: list[dict[str, Any]] = with_text_names(frame).to_dict("records")
    return rows


def flattened(columns: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return columns by name; columns of a nested dict or frame get the outer name as a prefix.

    >>> flattened({"y_pred": ["a"], "y_proba": {True: [0.5], 0.0: [0.5]}})
    {'y_pred': ['a'], 'y_proba.true': [0.5], 'y_proba.0': [0.5]}
    """
    flat: dict[Any, Any] = {}
    for name, values in columns.items():
        below = values.to_dict("list") if hasattr(values, "columns") and hasattr(values, "iloc") else values
        if isinstance(below, Mapping) and isinstance(name, str):
            flat |= {f"{name}.{as_text(key)}": one for key, one in below.items()}
        else:
            flat[name] = values
    return flat


def _text_of(name: Any) -> str:
    if isinstance(name, tuple):
        return ".".join(as_text(one) for one in name if one != "" and one is not None)
    return as_text(name)


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


#: Stack frames between the warning and the code that calls `evaluate` or a result's method.
_STACK = 6


def check_indexes(tables: Mapping[str, Any]) -> None:
    """Compare the indexes of pandas tables whose rows are joined by position.

    Raises ValueError if two of them hold the same labels in another order. Warns if their labels differ, but
    some labels occur in both.
    """
    known = [
        (name, index) for table, one in tables.items() for name, index in _indexes(table, one)
    ]
    for name, index in known[1:]:
        first, other = known[0]
        if len(index) != len(other) or index.equals(other):
            continue
        place = int((index != other).argmax())
        where = f"row {place} has {other[place]!r} in {first} and {index[place]!r} in {name}"
        if sorted(map(repr, index)) == sorted(map(repr, other)):
            raise ValueError(
                f"the indexes of {first} and {name} hold the same labels in another order ({where}): align "
                "them with .reindex or .loc, give both an instance_id column, or, if rows belong together by "
                "their place, call .reset_index(drop=True) on both"
            )
        if not _counts_rows(index) and not _counts_rows(other) and len(index.intersection(other)):
            warnings.warn(
                f"looks wrong: the indexes of {first} and {name} differ ({where}), and rows were joined by "
                "their place: give both an instance_id column, or call .reset_index(drop=True) on both",
                UserWarning, stacklevel=_STACK,
            )  # fmt: skip


def _indexes(name: str, table: Any) -> list[tuple[str, Any]]:
    """Return the indexes of a table: its own, or those of the columns of a dict."""
    if isinstance(table, Mapping):
        return [
            (f"{name}[{column!r}]", index)
            for column, values in table.items() for _, index in _indexes("", values)
        ]  # fmt: skip
    is_pandas = any(
        kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in ("Series", "DataFrame")
        for kind in type(table).__mro__
    )
    return [(name, table.index)] if is_pandas else []


def _counts_rows(index: Any) -> bool:
    """Return whether an index is the default one, which only counts the rows."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
