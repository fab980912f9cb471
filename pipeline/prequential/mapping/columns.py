"""The columns that a batch is translated to; those of one plain type are converted as a whole.

For a column with any other value, use the functions of `conversion`, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt
from prequential.mapping import conversion
from prequential.mapping.units import UNITS, Clocks
from prequential.topics import values
from prequential.topics.messages import MAX_NAME_BYTES, Record
from prequential.topics.zones import utc_of


class ObjectColumns(NamedTuple):
    """A field of records that is an object: the names of its entries, and a column of values for each."""

    names: tuple[str, ...]
    columns: list[list[Any]]
    #: The same values as numbers, (names, records) float64; None if the source didn't check them together.
    numbers: npt.NDArray[Any] | None = None

    def objects(self) -> list[dict[str, Any] | None]:
        """Return the objects, without absent values; None for empty ones."""
        rows = zip(*self.columns)
        if self.names and not any(None in column for column in self.columns):
            return [dict(zip(self.names, row)) for row in rows]
        return [
            {name: value for name, value in zip(self.names, row) if value is not None} or None for row in rows
        ]


class WholeNumbers(list[int]):
    """Ids that are whole numbers; records have their texts."""


#: The values of one field of all selected records; None for a field that no record has.
FieldColumn = Union[list[Any], ObjectColumns, None]


class Translated:
    """Input records of a batch: columns of values, from which objects are made when they are asked for."""

    def __init__(
        self, struct: type[Any], fields: Mapping[str, FieldColumn], count: int, kept: Sequence[int],
        reasons: dict[int, str],
    ) -> None:  # fmt: skip
        #: The values of the selected records, by field.
        self.fields = fields
        #: The places of these records in the batch; records at other places were passed over.
        self.kept = kept
        #: Why records are invalid, by place.
        self.reasons = reasons
        self._struct, self._count = struct, count

    @property
    def passed(self) -> frozenset[int]:
        """The places of records that were passed over."""
        kept = self.kept
        return frozenset() if len(kept) == self._count else frozenset(range(self._count)).difference(kept)

    @cached_property
    def records(self) -> list[Record | None]:
        """Records by place in the batch: None for invalid ones, and for those that were passed over."""
        selected = self.records_in(slice(None))
        if len(self.kept) == self._count and not self.reasons:
            return selected
        records: list[Record | None] = [None] * self._count
        for index, record in zip(self.kept, selected):
            if index not in self.reasons:
                records[index] = record
        return records

    def records_in(self, part: slice) -> list[Record | None]:
        """Return some of the selected records as objects, in order; those of invalid ones mean nothing."""
        count = len(range(len(self.kept))[part])
        columns: list[Any] = []
        for column in self.fields.values():
            if isinstance(column, ObjectColumns):
                columns.append(
                    ObjectColumns(
                        column.names, [entry_column[part] for entry_column in column.columns]
                    ).objects()
                )
            elif isinstance(column, WholeNumbers):
                columns.append(map(str, column[part]))
            else:
                columns.append(repeat(None, count) if column is None else column[part])
        return list(map(self._struct, *columns))


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
    bound = convert if isinstance(convert, partial) else partial(convert)
    way = _WAYS.get(bound.func)
    return way(column, {*map(type, column)}, **bound.keywords) if way else None


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
        for kind, mask in (("named", np.ones(len(local), np.bool_)), ("twice", twice), ("never", never)):
            if mask.any():
                first = np.datetime64(int(local[mask.argmax()]), "ms")
                clocks.note(kind, str(first.astype("datetime64[s]")).replace("T", " "), int(mask.sum()))
    return list(utc.tolist())


def _vector(column: Column, types: set[type], field: Any) -> Column | None:
    numbers = _numbers(column, types)
    threshold, above, below = field.threshold, field.above, field.below
    return None if numbers is None else [above if value >= threshold else below for value in numbers]


_WAYS: dict[Any, Callable[..., Column | None]] = {
    conversion.name: _names, conversion.instance: _instances, conversion.target: _targets,
    conversion.share: _shares, conversion.remainder: _remainders, conversion.time: _times,
    conversion.above_or_below: _vector,
}  # fmt: skip
