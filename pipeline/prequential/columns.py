"""Whole columns in the form that a field has, if all values are of one plain type: `conversion`, but faster.

A column that has anything else in it is left to the functions there, value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from prequential import conversion
from prequential.mapping import UNITS
from prequential.topics import values
from prequential.topics.messages import MAX_NAME_BYTES

_NUMBERS = {int, float}

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


def _shares(found: Column, types: set[type]) -> Column | None:
    if types and types <= _NUMBERS and all(0 <= value <= 1 for value in found):  # which NaN isn't
        return found if types == {float} else list(map(float, found))
    return None


def _rests(found: Column, types: set[type]) -> Column | None:
    shares = _shares(found, types)
    return None if shares is None else [1 - value for value in shares]


def _times(found: Column, types: set[type], unit: str | None = None) -> Column | None:
    if types != {int} or unit not in (None, *UNITS):
        return None
    of_unit, of_ms = UNITS[unit or "ms"], UNITS["ms"]
    if of_unit != of_ms:
        found = [value * of_unit // of_ms for value in found]
    return found if max(found) <= values.MAX_TS and min(found) >= -values.MAX_TS else None


def _cut(found: Column, types: set[type], field: Any) -> Column | None:
    if not types or not types <= _NUMBERS or any(value - value != 0 for value in found):  # NaN or infinity
        return None
    threshold, above, below = field.threshold, field.above, field.below
    return [above if value >= threshold else below for value in found]


_WAYS: dict[Any, Callable[[Column, set[type]], Column | None]] = {
    conversion.name: _names, conversion.identifier: _ids, conversion.target: _targets,
    conversion.share: _shares, conversion.rest: _rests, conversion.time: _times,
}  # fmt: skip

#: … of those that a field's settings are bound to.
_OF_FIELDS: dict[Any, Callable[..., Column | None]] = {
    conversion.time: _times, conversion.above_or_below: _cut,
}  # fmt: skip
