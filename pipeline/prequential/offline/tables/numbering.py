"""Tables without an instance_id: their rows belong together by position, and row numbers are the ids.

Such tables often have an id by another name, such as `order`. If the rows of two tables are in different
orders by such a column, positions would join each prediction with the label of another instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from prequential.mapping.conversion import lacks_offset, time
from prequential.mapping.model import OPTIONAL, REQUIRED, Path, RecordMapping
from prequential.mapping.units import time_names
from prequential.offline.tables.rows import RowFile
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError

#: The field whose values are row numbers.
ID = "instance_id"

#: The fields of records, whose values may differ between the records of one instance.
_FIELDS = {name for kind in (*REQUIRED, *OPTIONAL) for name in (*REQUIRED[kind], *OPTIONAL[kind])}

#: Values that are compared at once.
_CHUNK = 10_000

#: Matches text that may be a date, and no number.
_DIGITS_AND_MORE = re.compile(r"\s*\d{4}-")

#: Share of the values of a column that another table has too, from which on both name the same instances.
_SAME = 0.5


def columns_of(file: RowFile) -> Sequence[str]:
    """Return the names of a file's columns, or the fields of its first rows."""
    if file.columns is not None:
        return file.columns
    return next((rows.names() for rows in file.batches()), [])


def lacks_ids(file: RowFile, mappings: Iterable[RecordMapping]) -> bool:
    """Return whether neither a mapping nor a column gives the instance of a row."""
    is_mapped = any(ID not in mapping.implied for mapping in mappings)
    return not is_mapped and ID not in columns_of(file)


#: Returns what to write, for a sentence, so that a column is the id.
NameColumn = Callable[[str], str]


def number_rows(files: Mapping[int, RowFile], name_column: NameColumn) -> dict[int, RowFile]:
    """Return tables by kind, which all lack ids, with row numbers as ids.

    Raises UsageError if the numbers of rows differ, or if a column that several tables have shows that their
    rows are not in the same order; `name_column` gives the fix.
    """
    own = {id(file): file for file in files.values()}
    kinds = {key: next(KINDS[kind] for kind, file in files.items() if id(file) == key) for key in own}
    if len(own) > 1:
        tables = {kinds[key]: file for key, file in own.items()}
        _check_sizes(tables, name_column)
        _check_order(tables, name_column)
    numbered = {key: file.numbered(ID) for key, file in own.items()}
    return {kind: numbered[id(file)] for kind, file in files.items()}


def _check_sizes(tables: Mapping[str, RowFile], name_column: NameColumn) -> None:
    sizes = {kind: sum(map(len, file.batches(only=()))) for kind, file in tables.items()}
    if len(set(sizes.values())) > 1:
        counted = ", ".join(f"{size:,} rows of {kind}" for kind, size in sizes.items())
        shared = _shared_columns(tables)
        fix = f"; or {name_column(shared[0])}, if that names the instance" if shared else ""
        raise UsageError(
            f"there are {counted}: expected the same number of each, since without an instance_id rows "
            f"belong together one by one{fix}"
        )


def _shared_columns(tables: Mapping[str, RowFile]) -> list[str]:
    """The columns of all tables that are no fields of records, in the order of the first table."""
    first, *others = (columns_of(file) for file in tables.values())
    return [name for name in first if name not in _FIELDS and all(name in names for names in others)]


def _check_order(tables: Mapping[str, RowFile], name_column: NameColumn) -> None:
    for column in _shared_columns(tables):
        (first_kind, first), *others = tables.items()
        for kind, file in others:
            difference = _first_difference(first, file, column)
            if difference is None or not _name_the_same(_values(first, column), _values(file, column)):
                continue
            row, (value, other_value) = difference
            if time_names([column]) or all(map(is_time, (value, other_value))):
                continue  # labels a step later than their predictions have the times of other rows
            raise UsageError(
                f"rows belong together by position, since there is no {ID}, but the column {column!r} has "
                f"the same values in another order: row {row} has {value!r} in {first_kind} and "
                f"{other_value!r} in {kind}: expected {name_column(column)}, or rows in the same order"
            )


def is_time(value: Any) -> bool:
    """Return whether a value is a time or date, or ISO 8601 text of one.

    >>> is_time("2026-01-05 10:00"), is_time("2026-01-05T10:00:00Z"), is_time("1760000000000"), is_time("a7")
    (True, True, False, False)
    """
    if not isinstance(value, str) or not _DIGITS_AND_MORE.match(value):
        return isinstance(value, date)
    try:
        return lacks_offset(value) or time("", value) is not None
    except ValueError:
        return False


def _values(file: RowFile, column: str) -> Iterator[Any]:
    """Yield the values of a column, as Python's own."""
    path = Path("value", (column,), column)
    for rows in file.batches(only=[path]):
        values: Any = rows.column(path)
        yield from values.tolist() if hasattr(values, "tolist") else values


def _first_difference(first: RowFile, other: RowFile, column: str) -> tuple[int, tuple[Any, Any]] | None:
    """The first row whose values of a column differ as text, and these values; None if all are equal.

    None as well if the first values occur several times, so that they don't name instances.
    """
    values, other_values = _values(first, column), _values(other, column)
    row = 0
    while chunk := list(islice(values, _CHUNK)):
        other_chunk = list(islice(other_values, _CHUNK))
        if row == 0 and len(set(map(str, chunk))) < len(chunk):
            return None
        if chunk != other_chunk:
            for place, pair in enumerate(zip(chunk, other_chunk)):
                if str(pair[0]) != str(pair[1]):
                    return row + place, pair
        row += len(chunk)
    return None


def _name_the_same(values: Iterable[Any], other_values: Iterable[Any]) -> bool:
    """Whether each value occurs once in its table, and many of them in both, as those of ids do.

    >>> _name_the_same([1, 2, 3, 4], [2, 1, 5, 4]), _name_the_same([1, 1, 2], [2, 1, 1])
    (True, False)
    >>> _name_the_same([1, 2, 3, 4], [5, 6, 7, 1])
    False
    """
    present = []
    for of_table in (values, other_values):
        texts = list(map(str, of_table))
        present.append(set(texts))
        if len(present[-1]) < len(texts):
            return False
    return len(present[0] & present[1]) >= _SAME * len(present[0])
