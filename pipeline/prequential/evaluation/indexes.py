"""Check the indexes of tables whose rows are matched by position."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

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
