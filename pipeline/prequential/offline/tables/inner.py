"""Read the rows and parts within the records of a file (`mapping.rows`, `mapping.evaluations`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from prequential.engine.compiled.kernel import Ints
from prequential.mapping.evaluations import RecordPart, Unreadable
from prequential.mapping.model import ROW, Path
from prequential.mapping.rows import RowColumns
from prequential.offline.tables.objects import ObjectRows
from prequential.offline.tables.rows import FileRows, Held, Progress, RowFile

if TYPE_CHECKING:
    from typing_extensions import Self


class InnerRows(RowColumns):
    """The rows within a batch of a file's records."""

    def __init__(self, rows: FileRows, path: Path, paths: Sequence[Path]) -> None:
        super().__init__(rows, path, paths)
        self._outer = rows
        self._find_reasons()

    def take(self, places: Sequence[int]) -> Self:
        """Return the rows at these places, in the order of `places`."""
        some = super().take(places)
        some._find_reasons()
        return some

    def _find_reasons(self) -> None:
        unreadable = self._outer.reasons
        self.reasons: Mapping[int, str] = {
            index: unreadable[place] for index, place in enumerate(self.places) if place in unreadable
        } if unreadable else {}  # fmt: skip

    def raw(self, place: int) -> bytes:
        """Return the record of a row as text."""
        return self._outer.raw(self.places[place])

    def has(self, path: Path) -> bool:
        """Whether any row, or any record, has this path, even with an empty value."""
        return super().has(path) if path.root == ROW else self._outer.has(path)

    def fields(self) -> str:
        """Return the fields of the first record as text, if each record has its own."""
        return self._outer.fields()

    def names(self) -> Sequence[str]:
        """Return the names of all fields of the records."""
        return self._outer.names()


class PartRows(ObjectRows):
    """The parts of the records in a batch, by the function of their format."""

    def __init__(self, rows: FileRows, parts: Callable[[Any], list[RecordPart]]) -> None:
        objects: list[Any] = []
        reasons: dict[int, str] = {}
        self.places: list[int] = []
        for place, record in enumerate(_objects(rows)):
            reason = rows.reasons.get(place)
            try:
                found = [RecordPart(None, None, reason)] if reason is not None else parts(record)
            except Unreadable as error:
                found = [RecordPart(None, None, str(error))]
            for part in found:
                if part.reason is not None:
                    named = part.name is not None
                    reasons[len(objects)] = f"{part.name}: {part.reason}" if named else part.reason
                objects.append(part.value if part.reason is None else None)
                self.places.append(place)
        super().__init__(objects, reasons)
        self._outer = rows

    def take(self, places: Sequence[int]) -> PartRows:
        """Return the parts at these places, in the order of `places`."""
        some = copy(self)
        some.objects = [self.objects[place] for place in places]
        some.places = [self.places[place] for place in places]
        some.reasons = {
            index: self.reasons[place] for index, place in enumerate(places) if place in self.reasons
        }
        return some

    def raw(self, place: int) -> bytes:
        """Return the record of a part as text."""
        return self._outer.raw(self.places[place])


def _objects(rows: FileRows) -> Sequence[Any]:
    """Return the records of a batch as objects."""
    if isinstance(rows, ObjectRows):
        return rows.objects
    names = rows.names()
    columns = [rows.column(Path("value", (name,), name)) for name in names]
    return [dict(zip(names, values)) for values in zip(*columns)]


class Expanded(FileRows, Protocol):
    """A batch of rows or parts: `places` has the record of each."""

    @property
    def places(self) -> list[int]:
        """The record of each, counted from 0 within the batch."""

    def take(self, places: Sequence[int]) -> FileRows:
        """Return those at these places, in the order of `places`."""


#: A function that returns the rows or parts of a batch of records.
Expand = Callable[[FileRows], Expanded]


class InnerFile:
    """The rows or parts within a file's records, as a file of rows; `expand` returns those of a batch."""

    def __init__(self, file: RowFile, expand: Expand, *, has_parts: bool = False) -> None:
        self._file, self._expand, self._has_parts = file, expand, has_parts
        self.name, self.unit, self.text = file.name, file.unit, file.text
        self.columns, self.own_columns, self.is_numbered = file.columns, file.own_columns, file.is_numbered
        if has_parts:
            self.columns = self.own_columns = None
        #: The record of each row, and the row's place among those of its record, (rows,).
        self._records: Ints = np.zeros(0, dtype=np.int64)
        self._places: Ints = self._records

    def select(self, paths: Sequence[Path]) -> None:
        """Select paths to read, in addition to those selected before."""
        if not self._has_parts:
            self._file.select([path for path in paths if path.root != ROW])

    def type_of_time(self, path: Path) -> str | None:
        """Return the type of a column of times; None for a column of other types, and within rows."""
        return None if path.root == ROW or self._has_parts else self._file.type_of_time(path)

    def record(self, row: int) -> int:
        """Return the number of a row's record, counted from 0."""
        record = int(self._records[row])
        return self._file.record(record) if isinstance(self._file, InnerFile) else record

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[FileRows]:
        """Yield the rows in their order, in a batch for each batch of records."""
        records, places, count = [self._records[:0]], [self._records[:0]], 0
        for outer in self._file.batches(progress):
            rows = self._expand(outer)
            of_rows = np.array(rows.places, dtype=np.int64)
            records.append(of_rows + count)
            places.append(np.arange(len(of_rows)) - np.searchsorted(of_rows, of_rows))
            count += len(outer)
            yield rows
        self._records, self._places = np.concatenate(records), np.concatenate(places)

    def hold(self) -> HeldInner:
        """Read all records into memory."""
        return HeldInner(self._file.hold(), self._expand, self._records, self._places)


class HeldInner:
    """The rows of records that are all in memory."""

    def __init__(self, held: Held, expand: Expand, records: Ints, places: Ints) -> None:
        self._held, self._expand = held, expand
        self._records, self._places = records, places

    def take(self, rows: Sequence[int]) -> FileRows:
        """Return the rows with these numbers, counted from 0."""
        numbers = np.asarray(rows, dtype=np.int64)
        records, which = np.unique(self._records[numbers], return_inverse=True)
        inner = self._expand(self._held.take(records.tolist()))
        first: Any = np.searchsorted(np.array(inner.places, dtype=np.int64), np.arange(len(records)))
        return inner.take((first[which] + self._places[numbers]).tolist())
