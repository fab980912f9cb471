"""Convert whole columns whose values all have one plain type, faster than `conversion` does.

For a column with any other value, use the functions of `conversion`, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from prequential.mapping import conversion
from prequential.mapping.translated import WholeNumbers
from prequential.mapping.units import UNITS, Clocks
from prequential.topics import values
from prequential.topics.messages import MAX_NAME_BYTES
from prequential.topics.zones import utc_of

_NUMBERS = {int, float}

#: The usual form of numbers that programs write as text.
_DIGITS = re.compile(r"[0-9.]*")

#: More digits than any valid time in the smallest unit has.
_MOST_DIGITS = 32

Column = list[Any]


def whole_column(convert: Callable[..., Any], column: Column) -> Column | None:
    """Return all values as `convert` returns them one by one; None if this shortcut does not apply.

    >>> whole_column(conversion.remainder, [0.25, 1]), whole_column(conversion.remainder, [0.25, "1"])
    ([0.75, 0.0], None)
    """
    types = {*map(type, column)}
    if type(convert) is partial:
        way, settings = _OF_FIELDS.get(convert.func), convert.keywords
        return way(column, types, **settings) if way else None
    converter = _WAYS.get(convert)
    return converter(column, types) if converter else None


def _names(column: Column, types: set[type]) -> Column | None:
    if types == {str} and "".join(column).isascii() and max(map(len, column)) <= MAX_NAME_BYTES:
        return column
    return None


def _are_whole(column: Column, types: set[type]) -> bool:
    """Whether all values are whole numbers that are written without an exponent."""
    return types == {int} and max(column) < conversion.FEW_DIGITS and min(column) > -conversion.FEW_DIGITS


def whole_numbers(column: Column) -> WholeNumbers | None:
    """Return ids that are whole numbers; None if `conversion.instance` has to check each value."""
    return WholeNumbers(column) if _are_whole(column, {*map(type, column)}) else None


def _instances(column: Column, types: set[type]) -> Column | None:
    """Return None if a spreadsheet may have rounded a value, so that each value is checked."""
    if _are_whole(column, types):
        return list(map(str, column))
    ids = _names(column, types)
    return None if ids is None or "E+" in "".join(ids) else ids


def _targets(column: Column, types: set[type]) -> Column | None:
    return column if types == {bool} or _are_whole(column, types) else _names(column, types)


def _numbers(column: Column, types: set[type]) -> Column | None:
    """Return floats for a column that contains numbers, or text with plain numbers."""
    try:
        if (types == {str} and _DIGITS.fullmatch("".join(column))) or (types and types <= _NUMBERS):
            numbers = column if types == {float} else list(map(float, column))
            return numbers if np.isfinite(numbers).all() else None
    except (ValueError, OverflowError):  # no number, or one beyond all floats
        pass
    return None


def _shares(column: Column, types: set[type]) -> Column | None:
    numbers = _numbers(column, types)
    if numbers is None or max(numbers) > 1 or min(numbers) < 0:
        return None
    return numbers


def _remainders(column: Column, types: set[type]) -> Column | None:
    shares = _shares(column, types)
    return None if shares is None else [1 - value for value in shares]


def _times(
    column: Column, types: set[type], unit: str | None = None, timezone: str | None = None,
    clocks: Clocks | None = None,
) -> Column | None:  # fmt: skip
    if timezone is not None:
        return _of_zone(column, timezone, clocks) if types == {int} and unit == "ms" else None
    if unit not in (None, *UNITS):
        return None
    if types == {str} and _DIGITS.fullmatch(text := "".join(column)) and "." not in text and all(column):
        if max(map(len, column)) > _MOST_DIGITS:  # Python would read thousands of digits
            return None
        column, types = list(map(int, column)), {int}
    if types != {int}:
        return None
    of_unit, of_ms = UNITS[unit or "ms"], UNITS["ms"]
    if of_unit != of_ms:
        column = [value * of_unit // of_ms for value in column]
    return column if max(column) <= values.MAX_TS and min(column) >= -values.MAX_TS else None


def _of_zone(column: Column, zone: str, clocks: Clocks | None) -> Column | None:
    """Return UTC in ms for local times of a zone in ms."""
    if max(column) > values.MAX_TS or min(column) < -values.MAX_TS:
        return None
    local = np.array(column, dtype=np.int64)
    utc, twice, never = utc_of(local, zone)
    if clocks is not None:
        clocks.zone = zone
        for kind, which in (("named", np.ones(len(local), np.bool_)), ("twice", twice), ("never", never)):
            if which.any():
                first = np.datetime64(int(local[which.argmax()]), "ms")
                clocks.note(kind, str(first.astype("datetime64[s]")).replace("T", " "), int(which.sum()))
    return list(utc.tolist())


def _vector(column: Column, types: set[type], field: Any) -> Column | None:
    numbers = _numbers(column, types)
    threshold, above, below = field.threshold, field.above, field.below
    return None if numbers is None else [above if value >= threshold else below for value in numbers]


_WAYS: dict[Any, Callable[[Column, set[type]], Column | None]] = {
    conversion.name: _names, conversion.instance: _instances, conversion.target: _targets,
    conversion.share: _shares, conversion.remainder: _remainders, conversion.time: _times,
}  # fmt: skip

#: Converters of whole columns for functions to which a field's settings are bound.
_OF_FIELDS: dict[Any, Callable[..., Column | None]] = {
    conversion.time: _times, conversion.above_or_below: _vector,
}  # fmt: skip
