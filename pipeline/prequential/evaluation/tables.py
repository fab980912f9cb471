"""What users of Python have as tables: pandas, polars, Arrow, lists of dicts, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from prequential.tables.formats import Stored, needs_pyarrow, open_rows
from prequential.tables.objects import Objects
from prequential.tables.rows import RowFile


def rows_of(name: str, table: Any) -> RowFile:
    """A table, however it comes, as rows.

    It may be a path of a file, anything that speaks the Arrow C interface (`__arrow_c_stream__`: Arrow
    itself, pandas, polars, DuckDB, …), a dict of columns, or an iterable of dicts. Raises TypeError for
    anything else, UsageError where pyarrow is needed and isn't there.

    >>> rows_of("labels", [{"y_true": "UP"}]).unit
    'row'
    """
    if isinstance(table, (str, os.PathLike)):
        return open_rows(Stored(os.fspath(table)), None)
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__") or _is_pandas(table):
        arrow = needs_pyarrow(f"{name} is a table")
        return arrow.of_object(name, table)  # type: ignore[no-any-return]
    if isinstance(table, Mapping):
        return Objects(name, _transposed(name, table))
    if isinstance(table, Iterable):
        objects = list(table)
        for place, one in enumerate(objects):
            if not isinstance(one, Mapping):
                raise TypeError(f"{name}: row {place + 1} is {one!r:.48}: expected a dict of fields")
        return Objects(name, objects)
    raise TypeError(
        f"{name} is {table!r:.40}: expected a table (pandas, polars, Arrow), a dict of columns, dicts or a "
        "path"
    )


def _transposed(name: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {column: _listed(values) for column, values in columns.items()}
    sizes = {column: len(values) for column, values in lists.items()}
    if len(set(sizes.values())) > 1:
        raise TypeError(f"{name} has columns of several lengths ({sizes}): expected the same in all")
    return [dict(zip(lists, row)) for row in zip(*lists.values())]


def _listed(values: Any) -> list[Any]:
    tolist = getattr(values, "tolist", None)  # numpy's scalars become Python's
    return list(tolist() if callable(tolist) else values)


def _is_pandas(table: Any) -> bool:
    """A DataFrame of before the Arrow C interface."""
    kind = type(table)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"
