"""The tables of an evaluation (pandas, polars, Arrow, dicts, files) as rows, and records read repeatedly."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config, ConfigError
from prequential.mapping import model
from prequential.mapping.evaluations import FILE_FORMATS
from prequential.mapping.model import Field, MappingOrigin, RecordMapping
from prequential.mapping.parsing import parse
from prequential.offline.replay.sources import Located
from prequential.offline.tables import opening
from prequential.offline.tables.numbering import ID, columns_of, number_rows
from prequential.offline.tables.rows import DictRows, RowFile
from prequential.runtime.compilation import reading
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError
from prequential.topics.values import is_set
from rich.progress import Progress


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
    names = [(position, _text_of(name), isinstance(name, str)) for position, name in enumerate(frame.columns)]
    kept = [(position, name) for position, name, is_own in names if is_own or name not in own]
    named = frame.iloc[:, [position for position, _ in kept]]
    return named.set_axis([name for _, name in kept], axis=1)


def has_objects(frame: Any) -> bool:
    """Return whether a column of a pandas frame has objects that Arrow would not keep, such as dicts.

    Values of several types also count, except in a column that is a field: there Arrow reports the error.
    Times of which only some have a zone count also, because Arrow would lose which ones have one.
    """
    infer_dtype = importlib.import_module("pandas.api.types").infer_dtype
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        if str(column.dtype) != "object":
            continue
        kind = infer_dtype(column, skipna=True)
        if kind == "datetime" and len({time.tzinfo is None for time in column.dropna()}) == 2:
            return True
        if not kind.startswith("mixed"):
            continue
        kinds = {*map(type, column)} - {type(None)}
        nested = any(issubclass(value_type, Mapping) for value_type in kinds)
        if len(kinds) == 1 or nested or name not in model.KNOWN_FIELDS:
            return True
    return False


def with_index_as_columns(frame: Any) -> Any:
    """Return a pandas frame with the levels of its index as columns, but for those with a column's name."""
    twice = [level for level, name in enumerate(frame.index.names) if name in frame.columns]
    return (frame.reset_index(level=twice, drop=True) if twice else frame).reset_index()


def with_plain_types(frame: Any) -> Any:
    """Return a pandas frame with periods and intervals as text, and periods in `ts` as times of their starts.

    Arrow would have the numbers of periods, counted from 1970, and a structure for each interval.

    >>> import pandas as pd
    >>> months = pd.period_range("2026-01", periods=2, freq="M")
    >>> frame = with_plain_types(pd.DataFrame({"y_pred": months}, index=months.rename("ts")))
    >>> frame.index.year.tolist(), frame["y_pred"].tolist()
    ([2026, 2026], ['2026-01', '2026-02'])
    """
    levels = frame.index.levels if frame.index.nlevels > 1 else ()
    if any(_is_of_spans(level.dtype) for level in levels):
        frame = with_index_as_columns(frame)
    positions = [position for position, dtype in enumerate(frame.dtypes) if _is_of_spans(dtype)]
    in_index = frame.index.nlevels == 1 and _is_of_spans(frame.index.dtype)
    if not positions and not in_index:
        return frame
    frame = frame.copy(deep=False)
    for position in positions:
        frame.isetitem(position, _plain_spans(frame.iloc[:, position]))
    if in_index:
        values = frame.index.to_series().reset_index(drop=True)
        frame.index = importlib.import_module("pandas").Index(_plain_spans(values), name=frame.index.name)
    return frame


def _is_of_spans(dtype: Any) -> bool:
    """Return whether a type of pandas is that of periods or intervals, also as categories."""
    categories = getattr(dtype, "categories", None)
    return str(dtype if categories is None else categories.dtype).startswith(("period[", "interval"))


def _plain_spans(column: Any) -> Any:
    if column.name == "ts" and str(column.dtype).startswith("period["):
        return column.dt.to_timestamp()
    return column.astype(object).map(str, na_action="ignore")


def with_named_index(frame: Any) -> Any:
    """Return a pandas frame whose index is named `index` if it has no name and isn't the default one.

    >>> import pandas as pd
    >>> with_named_index(pd.DataFrame({"y_pred": ["a"]}, index=["x"])).index.name
    'index'
    """
    index = frame.index
    if type(index).__name__ == "RangeIndex" or list(index.names) != [None] or "index" in frame.columns:
        return frame
    frame = frame.copy(deep=False)
    frame.index = index.rename("index")
    return frame


def with_columns_of_shares(frame: Any) -> Any:
    """Return a pandas frame whose column `y_proba` has become a column for each class, if that loses nothing.

    It does not where all rows are dicts with the same classes and finite numbers. Columns take a third of the
    time and memory that dicts take.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"y_proba": [{"a": 0.5, "b": 0.5}, {"b": 1, "a": 0}]})
    >>> with_columns_of_shares(frame).to_dict("list")
    {'y_proba.a': [0.5, 0.0], 'y_proba.b': [0.5, 1.0]}
    """
    names = list(frame.columns)
    if names.count("y_proba") != 1 or any(name.startswith("y_proba.") for name in names):
        return frame
    rows = frame["y_proba"].tolist()
    classes = list(rows[0]) if rows and type(rows[0]) is dict else []
    if not classes or not all(type(name) is str and "." not in name for name in classes):
        return frame
    class_names = set(classes)
    if not all(type(row) is dict and row.keys() == class_names for row in rows):
        return frame
    columns = {}
    for name in classes:
        values = [row[name] for row in rows]
        shares = np.array(values, dtype=np.float64) if set(map(type, values)) <= _NUMBERS else None
        if shares is None or not np.isfinite(shares).all():
            return frame
        columns[f"y_proba.{name}"] = shares
    return frame.drop(columns="y_proba").assign(**columns)


#: Types of probabilities that become floats without loss.
_NUMBERS = {float, int, np.float64}


def rows_of_pandas(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts, including its index if that is not the default one."""
    if type(frame.index).__name__ != "RangeIndex" or frame.index.name is not None:
        frame = with_index_as_columns(frame)
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
            flat |= {f"{name}.{model.as_text(key)}": cells for key, cells in below.items()}
        else:
            flat[name] = values
    return flat


def _text_of(name: Any) -> str:
    if isinstance(name, tuple):
        return ".".join(model.as_text(part) for part in name if part != "" and part is not None)
    return model.as_text(name)


#: The field of values without columns, by the kind of table.
_COLUMN = {"predictions": "y_pred", "labels": "y_true"}

#: Iterable types that are no tables: sets have no order, and bytes are one text.
_UNORDERED = (set, frozenset, bytes, bytearray)

#: Types of the values in a list without columns.
_VALUES = (str, int, float, bool, type(None))


def rows_of(name: str, table: Any, *, with_shares: bool = False) -> RowFile:
    """Return a table of any supported type as rows.

    The table may be the path of a file, a dict of columns, or an iterable of dicts. It may also be an object
    with the Arrow C interface (`__arrow_c_stream__`: Arrow, pandas, polars, DuckDB, …). Values without
    columns (a Series, an array, a list of values) are the predictions' `y_pred`, or the labels' `y_true`.
    Raises TypeError for anything else, and UsageError if pyarrow is needed and isn't installed.

    With `with_shares`, a pandas frame's column of dicts `y_proba` may become columns.

    >>> rows_of("labels", [{"y_true": "UP"}]).unit, rows_of("labels", ["UP", "DOWN"]).unit
    ('row', 'row')
    """
    if isinstance(table, (str, os.PathLike)):
        return opening.open_rows(opening.Stored(os.fspath(table)), None)
    if _is(table, "polars", "LazyFrame"):
        table = table.collect()
    values = _values(name, table)
    if values is not None:
        if name not in _COLUMN:
            raise TypeError(f"{name} has values alone: expected a table with columns")
        return DictRows(name, [{_COLUMN[name]: value} for value in values])
    if _is_pandas(table):
        table = with_named_index(with_plain_types(with_text_names(table)))
        table = with_columns_of_shares(table) if with_shares else table
        if has_objects(table):
            return DictRows(name, rows_of_pandas(table))
    if _is(table, "polars", "DataFrame") and "Object" in map(str, table.dtypes):
        return DictRows(name, table.to_dicts())
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__") or _is_pandas(table):
        arrow = opening.needs_pyarrow(f"{name} is a table")
        try:
            reader = arrow.of_pandas if _is_pandas(table) else arrow.of_object
            return reader(name, table)  # type: ignore[no-any-return]
        except (ValueError, TypeError, ArithmeticError, NotImplementedError) as error:  # Arrow's own
            why = _why_no_table(table)
            if why is None and _is_pandas(table):  # such as integers of 128 bits
                return DictRows(name, rows_of_pandas(table))
            if why is None and _is(table, "polars", "DataFrame"):
                return DictRows(name, table.to_dicts())
            raise TypeError(f"{name} can't be read: {why or ' '.join(str(error).split())}") from error
    if isinstance(table, Mapping):
        return DictRows(name, _transposed(name, table))
    if isinstance(table, Iterable) and not isinstance(table, _UNORDERED):
        objects = [_without_na(entry.item() if isinstance(entry, np.generic) else entry) for entry in table]
        if objects and (all(isinstance(entry, _VALUES) for entry in objects) or _is_indicator_rows(objects)):
            return rows_of(name, _Column(objects))
        for row_number, entry in enumerate(objects):
            if not isinstance(entry, Mapping):
                raise TypeError(f"{name}: row {row_number} is {entry!r:.48}: expected a dict of fields")
        return DictRows(name, objects)
    raise TypeError(
        f"{name} is {table!r:.40}: expected a table (pandas, polars, Arrow), a dict of columns, dicts, "
        "values or a path"
    )


class _Column(list[Any]):
    """A list that contains only plain values."""


def _values(name: str, table: Any) -> list[Any] | None:
    """Return the values of an object without columns; None for a table.

    A matrix of 0 and 1 has a vector of indicators in each row. Raises TypeError for other arrays of several
    dimensions.
    """
    if isinstance(table, _Column):
        return table
    if _is(table, "numpy", "ndarray"):
        if _is_indicator_matrix(table):
            return _listed(table)
        if table.ndim != 1 or table.dtype.names:
            raise TypeError(
                f"{name} is an array of shape {table.shape} and type {table.dtype}: expected one "
                "dimension, or a dict of columns"
            )
        return list(map(_without_na, _listed(table)))
    if _is(table, "pandas", "Series") or _is(table, "pandas", "Index"):
        return list(map(_without_na, _listed(table)))
    if _is(table, "polars", "Series"):
        return _listed(table.to_list())
    if _is(table, "pyarrow", "Array") or _is(table, "pyarrow", "ChunkedArray"):
        return None if str(table.type).startswith("struct") else _listed(table.to_pylist())
    return None


def _is_indicator_matrix(array: Any) -> bool:
    """Return whether an array has at least two columns of 0 and 1, or booleans, and nothing else."""
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "biuf":
        return False
    return bool(np.isin(array, (0, 1)).all())


def _is_indicator_rows(rows: list[Any]) -> bool:
    """Return whether these are vectors of 0 and 1, or booleans, of one length."""
    lengths = {len(row) if is_set(row) and isinstance(row, (Sequence, np.ndarray)) else 0 for row in rows}
    return len(lengths) == 1 and 0 not in lengths and _is_indicator_matrix(np.array(list(map(list, rows))))


def _without_na(value: Any) -> Any:
    """Return None for the missing value of pandas, and any other value itself."""
    return None if _is(value, "pandas", "NAType") else value


def _is(value: Any, package: str, name: str) -> bool:
    """Return whether a value is of a class of this package, which needn't be installed."""
    return any(
        kind.__module__.partition(".")[0] == package and kind.__name__ == name for kind in type(value).__mro__
    )


def _why_no_table(table: Any) -> str | None:
    """Return why the columns of a pandas frame have no types or names; None if they have."""
    for column in getattr(table, "columns", ()) if _is_pandas(table) else ():
        values = table[column]
        if not _is(values, "pandas", "Series"):
            return f"it has several columns {column!r}: expected names of their own"
        kinds = sorted({type(value).__name__ for value in values.dropna()})
        if str(values.dtype) == "object" and len(kinds) > 1:
            return f"column {column!r} has values of several types ({', '.join(kinds)}): expected one type"
    return None


def _transposed(name: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {}
    for column, values in flattened(columns).items():
        is_iterable = isinstance(values, Iterable) and getattr(values, "ndim", 1) != 0
        if not is_iterable or isinstance(values, (str, *_UNORDERED)):
            raise TypeError(
                f"{name}[{column!r}] is {values!r:.40}: expected a column, with a value for each row"
            )
        lists[column] = _listed(values)
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
    named_indexes = [
        (name, index) for table, content in tables.items() for name, index in _indexes(table, content)
    ]
    for name, index in named_indexes[1:]:
        first, first_index = named_indexes[0]
        if len(index) != len(first_index) or index.equals(first_index):
            continue
        row = int((index != first_index).argmax())
        labels = first_index.tolist()[row], index.tolist()[row]  # Python's own values, as people write them
        example = f"row {row} has {labels[0]!r} in {first} and {labels[1]!r} in {name}"
        if sorted(map(repr, index)) == sorted(map(repr, first_index)):
            raise ValueError(
                f"the indexes of {first} and {name} hold the same labels in another order ({example}): align "
                "them with .reindex or .loc, give both an instance_id column, or, if rows belong together by "
                "their place, call .reset_index(drop=True) on both"
            )
        if not _counts_rows(index) and not _counts_rows(first_index) and len(index.intersection(first_index)):
            warnings.warn(
                f"looks wrong: the indexes of {first} and {name} differ ({example}), and rows were joined by "
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
    return [(name, table.index)] if _is(table, "pandas", "Series") or _is_pandas(table) else []


def _counts_rows(index: Any) -> bool:
    """Return whether an index is the default one, which only counts the rows and has no name."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == (0, 1, None)


@dataclass(frozen=True)
class Inputs:
    """Tables by kind, as passed to `evaluate`, with the arguments that describe how to read them."""

    tables: Mapping[int, Any]
    columns: Mapping[str, Any]
    #: Names of the stream and the model for tables without such columns.
    stream: str
    model: str

    def open(self) -> dict[int, RowFile]:
        """Return the tables as rows, the same object for the same table. Raises as `rows_of` does."""
        files: dict[int, RowFile] = {}
        unmapped = "y_proba" not in repr(self.columns)  # a mapping may need the column as it is
        for kind, table in self.tables.items():
            same = next(
                (other_kind for other_kind in files if _is_same(self.tables[other_kind], table)), None
            )
            if same is not None:
                files[kind] = files[same]
            else:
                files[kind] = rows_of(KINDS[kind], table, with_shares=unmapped)
        return files

    def configured(self, config: Config, files: Mapping[int, RowFile]) -> Config:
        """Return the configuration with the mappings of `columns` for these files. Raises ConfigError."""
        return replace(config, files={**config.files, **_mappings(self.columns, files)})

    def sources(self, config: Config, files: Mapping[int, RowFile], bar: Progress) -> list[Located]:
        """Return the records of the opened tables; the configuration must have the mappings of their columns.

        Raises UsageError if rows don't correspond, and as `table_sources` and `in_order` do.
        """
        defaults = {"stream": Field(const=self.stream), "model": Field(const=self.model)}
        by_row = opening.lack_ids(config, files)
        if by_row:
            check_indexes({KINDS[kind]: table for kind, table in self.tables.items()})
            files = number_rows(files, lambda column: f"columns={{{ID!r}: {column!r}}}")
        read = opening.table_sources(
            config, files, lambda kind: reading(bar, KINDS[kind]), defaults, "columns[{!r}]".format
        )
        return opening.in_order(read, by_row=by_row)

    def check_again(self) -> None:
        """Raise UsageError if the tables can't be read again, because one was an iterator."""
        for kind, table in self.tables.items():
            if isinstance(table, Iterator):
                raise UsageError(
                    f"{KINDS[kind]} was {table!r:.40}, which is read once: expected a table, a list or a "
                    "path, to look back at"
                )


def _is_same(table: Any, other_table: Any) -> bool:
    """Return whether the two are the same table, or paths of the same file."""
    if isinstance(table, (str, os.PathLike)) and isinstance(other_table, (str, os.PathLike)):
        return os.fspath(table) == os.fspath(other_table)
    return table is other_table


def _mappings(
    columns: Mapping[str, Any], files: Mapping[int, RowFile]
) -> dict[str, tuple[RecordMapping, ...]]:
    """Return the mappings of `columns` by table; one without a table applies to each table that has it."""
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns is {columns!r:.40}: expected a dict such as {{'y_true': 'churned'}}")
    if not columns:
        return {}
    by_table = set(columns) <= set(KINDS)
    if not by_table:
        field_names = {name for kind in files for name in (*model.REQUIRED[kind], *model.OPTIONAL[kind])}
        for name in columns:
            if name not in field_names:
                raise ConfigError(f"columns: unknown field {name!r}; known: {', '.join(sorted(field_names))}")
    mappings = {}
    for kind in files:
        declared = columns.get(KINDS[kind]) if by_table else _columns_of_kind(columns, kind, files)
        if declared is None:
            continue
        sections = declared if isinstance(declared, list) else [declared]
        origin = MappingOrigin(f"columns[{KINDS[kind]!r}]" if by_table else "columns")
        try:
            mappings[KINDS[kind]] = tuple(
                parse(section, kind, bare=True, formats=FILE_FORMATS, origin=origin) for section in sections
            )
        except model.MappingError as error:
            raise ConfigError(f"{origin.section}: {error}") from error
    return mappings


def _columns_of_kind(columns: Mapping[str, Any], kind: int, files: Mapping[int, RowFile]) -> dict[str, Any]:
    """Select the mappings for one table: those whose columns are in this table, or in no table."""
    chosen = {}
    for name, column in columns.items():
        path = column.get("path") if isinstance(column, Mapping) else column
        paths = path if isinstance(path, list) else [path]
        able = [
            other_kind
            for other_kind in files
            if name in (*model.REQUIRED[other_kind], *model.OPTIONAL[other_kind])
        ]
        having = [other_kind for other_kind in able if set(paths) <= set(columns_of(files[other_kind]))]
        if kind in (having or able):
            chosen[name] = column
    return chosen
