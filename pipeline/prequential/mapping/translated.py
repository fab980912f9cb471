"""The input records that a batch was translated to, as columns of values and as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple, Union

import numpy.typing as npt
from prequential.topics.messages import Record


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
            {name: value for name, value in zip(self.names, row) if value is not None} or None
            for row in rows
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
        made = self.some(slice(None))
        if len(self.kept) == self._count and not self.reasons:
            return made
        records: list[Record | None] = [None] * self._count
        for place, record in zip(self.kept, made):
            if place not in self.reasons:
                records[place] = record
        return records

    def some(self, which: slice) -> list[Record | None]:
        """Return some of the selected records as objects, in order; those of invalid ones mean nothing."""
        count = len(range(len(self.kept))[which])
        columns: list[Any] = []
        for column in self.fields.values():
            if isinstance(column, ObjectColumns):
                columns.append(ObjectColumns(column.names, [one[which] for one in column.columns]).objects())
            elif isinstance(column, WholeNumbers):
                columns.append(map(str, column[which]))
            else:
                columns.append(repeat(None, count) if column is None else column[which])
        return list(map(self._struct, *columns))
