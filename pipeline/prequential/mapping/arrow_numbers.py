"""NaN and infinities in Arrow's columns. Needs pyarrow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from prequential.mapping.arrow_rows import values_of


def non_finite_rows(column: Any) -> dict[int, str]:
    """By row, the first number of a column that is NaN or infinite, as errors show it.

    >>> non_finite_rows(pa.array([{"a": 0.5}, {"a": math.nan}, None]))
    {1: 'NaN'}
    """
    if _is_finite(column):
        return {}
    shown_by_row = {row: _non_finite(value) for row, value in enumerate(values_of(column))}
    return {row: shown for row, shown in shown_by_row.items() if shown is not None}


def _is_finite(column: Any) -> bool:
    """Whether no number of a column is NaN or infinite; False also if only its values tell."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column.cast(pa.float64()))).as_py() is not False
    if pa.types.is_dictionary(kind):
        return _is_finite(column.dictionary)
    if pa.types.is_struct(kind):
        return all(map(_is_finite, column.flatten()))
    if pa.types.is_map(kind):
        return _is_finite(column.keys) and _is_finite(column.items)
    if pa.types.is_nested(kind):  # a list or a union
        return False
    return not (pa.types.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType))


def _non_finite(value: Any) -> str | None:
    """The first number in a value that is NaN or infinite; None if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    entries: Any = ()
    if isinstance(value, Mapping):
        entries = value.values()
    elif isinstance(value, (list, tuple)):  # maps are lists of pairs
        entries = value
    return next((shown for entry in entries if (shown := _non_finite(entry)) is not None), None)
