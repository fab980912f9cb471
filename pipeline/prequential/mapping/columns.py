"""Whole columns in the form that a field has, if all values are of one plain type: `conversion`, but faster.

A column that has anything else in it is left to the functions there, value by value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from prequential.mapping import conversion
from prequential.mapping.model import UNITS
from prequential.topics import values
from prequential.topics.messages import MAX_NAME_BYTES

_NUMBERS = {int, float}

#: Text of numbers as programs write most of them.
_DIGITS = re.compile(r"[0-9.]*")

#: Digits of a time in the smallest unit, and some more.
_MOST_DIGITS = 32

Column = list[Any]


def whole_column(convert: Callable[..., Any], found: Column) -> Column | None:
    """All values as `convert` makes them one by one; None if that isn't known of these.

    >>> whole_column(conversion.rest, [0.25, 1]), whole_column(conversion.rest, [0.25, "1"])
    ([0.75, 0.0], None)
    """
    types = {*map(type, found)}
    if type(convert) is partial:
        way, settings = _OF_FIELDS.get(convert.func), convert.keywords
        return way(found, types, **settings) if way else None
    own = _WAYS.get(convert)
    return own(found, types) if own else None


def _names(found: Column, types: set[type]) -> Column | None:
    if types == {str} and "".join(found).isascii() and max(map(len, found)) <= MAX_NAME_BYTES:
        return found
    return None


def _ids(found: Column, types: set[type]) -> Column | None:
    if types == {int} and max(found) < conversion.FEW_DIGITS and min(found) > -conversion.FEW_DIGITS:
        return list(map(str, found))
    return _names(found, types)


def _targets(found: Column, types: set[type]) -> Column | None:
    if types == {bool}:
        return found
    if types == {int} and max(found) < conversion.FEW_DIGITS and min(found) > -conversion.FEW_DIGITS:
        return found
    return _names(found, types)


def _numbers(found: Column, types: set[type]) -> Column | None:
    """Floats of numbers, and of text that is one without any doubt."""
    try:
        if (types == {str} and _DIGITS.fullmatch("".join(found))) or (types and types <= _NUMBERS):
            numbers = list(map(float, found))
            return numbers if math.isfinite(sum(map(abs, numbers))) else None
    except (ValueError, OverflowError):  # no number, or one beyond all floats
        pass
    return None


def _shares(found: Column, types: set[type]) -> Column | None:
    numbers = _numbers(found, types)
    if numbers is None or max(numbers) > 1 or min(numbers) < 0:
        return None
    return numbers


def _rests(found: Column, types: set[type]) -> Column | None:
    shares = _shares(found, types)
    return None if shares is None else [1 - value for value in shares]


def _times(
    found: Column, types: set[type], unit: str | None = None, timezone: str | None = None
) -> Column | None:
    if unit not in (None, *UNITS):
        return None
    if types == {str} and _DIGITS.fullmatch(text := "".join(found)) and "." not in text and all(found):
        if max(map(len, found)) > _MOST_DIGITS:  # Python reads some thousands of digits
            return None
        found, types = list(map(int, found)), {int}
    if types != {int}:
        return None
    of_unit, of_ms = UNITS[unit or "ms"], UNITS["ms"]
    if of_unit != of_ms:
        found = [value * of_unit // of_ms for value in found]
    return found if max(found) <= values.MAX_TS and min(found) >= -values.MAX_TS else None


def _vector(found: Column, types: set[type], field: Any) -> Column | None:
    numbers = _numbers(found, types)
    threshold, above, below = field.threshold, field.above, field.below
    return None if numbers is None else [above if value >= threshold else below for value in numbers]


_WAYS: dict[Any, Callable[[Column, set[type]], Column | None]] = {
    conversion.name: _names, conversion.identifier: _ids, conversion.target: _targets,
    conversion.share: _shares, conversion.rest: _rests, conversion.time: _times,
}  # fmt: skip

#: … of those that a field's settings are bound to.
_OF_FIELDS: dict[Any, Callable[..., Column | None]] = {
    conversion.time: _times, conversion.above_or_below: _vector,
}  # fmt: skip
