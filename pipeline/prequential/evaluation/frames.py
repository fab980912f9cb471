"""Frames of pandas, and dicts of columns, whose columns have names or values that Arrow doesn't know."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from prequential.mapping.model import KNOWN_FIELDS, as_text


def with_text_names(frame: Any) -> Any:
    """A frame of pandas whose columns have text as names, as paths have.

    Names of several levels are put together with dots; a number whose text is another column's name goes.

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
    """Whether a column of a frame of pandas has objects that Arrow doesn't know as they are, such as dicts.

    Values of several types are that, too, but in a column that is a field: Arrow says what is wrong there.
    Of times with and without a zone Arrow would forget which ones have one.
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
    """The rows of a frame as dicts, with its index where that has labels of its own."""
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    rows: list[dict[str, Any]] = with_text_names(frame).to_dict("records")
    return rows


def flattened(columns: Mapping[Any, Any]) -> dict[Any, Any]:
    """Columns by name; those of a dict or a frame in one of them have its name before their own.

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
