"""Convert pandas frames and dicts of columns whose names or values Arrow doesn't support."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from prequential.mapping.model import KNOWN_FIELDS, as_text


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
