"""The interface of a file of rows, common to all formats, and rows that are dicts in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from prequential.mapping.model import Path
from prequential.mapping.row_texts import json_of
from prequential.mapping.rows import has_name, pick

#: Rows in one batch. Python's lists reach full speed with far fewer rows, and a batch needs little memory.
BATCH = 10_000

#: A callback for progress: the rows read so far, and their share of the file if it is known.
Progress = Callable[[int, "float | None"], None]


#: The largest number of field names that a sentence shows.
_MOST_FIELDS = 30


class FileRows(Protocol):
    """A batch of rows of a file (a `prequential.mapping.translation.SourceColumns`)."""

    #: The reasons why rows are unreadable, by place.
    reasons: Mapping[int, str]

    def __len__(self) -> int: ...

    def column(self, path: Path) -> list[Any]:
        """Return the value of every row at a path; None where there is none."""

    def raw(self, index: int) -> bytes:
        """Return a row as text."""

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a row without a value at a path has it as null: in columns, an empty cell is null."""
        return self.has(path)

    def has(self, path: Path) -> bool:
        """Whether any row has this path, even with an empty value; a path that no row has is an error.

        The caller has already checked the columns of files that have some.
        """
        return True

    def fields(self) -> str:
        """Return the field names of the first readable row as text, if each row has its own names."""
        return ""

    def names(self) -> Sequence[str]:
        """Return the names of all fields."""


#: Returns the rows of a file with these numbers, counted from 0.
TakeRows = Callable[[Sequence[int]], FileRows]


class RowFile(Protocol):
    """A file of rows, which can be read repeatedly; by default without columns and types."""

    #: The name of the file, as the user gave it in a command or a call.
    name: str
    #: The unit of row numbers: `line`, counted from 1, or `row`, counted from 0.
    unit: str = "row"
    #: Whether all cells are text, as in CSV, so that numbers have to be read from it.
    text: bool = False
    #: The names of the columns; None if every row has its own.
    columns: Sequence[str] | None = None
    #: The columns of the user's table, without an added column of row numbers.
    own_columns: Sequence[str] | None = None
    #: Whether the IDs of its rows are their numbers, in an added column.
    is_numbered: bool = False

    def select(self, paths: Sequence[Path]) -> None:
        """Select paths to read, in addition to those selected before; other columns need not be read."""
        return

    def batches(self, progress: Progress = ..., only: Sequence[Path] | None = None) -> Iterator[FileRows]:
        """Yield the rows in their order, in batches. Raises WorkError if the file is unreadable.

        The caller needs `only` these paths of the selected ones (None: all); a reader may read more.
        """

    def hold(self) -> TakeRows:
        """Read all rows into memory, for access in any order. Raises WorkError if the file is unreadable."""

    def type_of_time(self, path: Path) -> str | None:
        """Return the type of a column of times, which need no unit; None for a column of other types."""
        return None

    def numbered(self, field: str) -> RowFile:
        """Return the same rows with an added field of their numbers, counted from 0."""
        return NumberedFile(self, field)


class NumberedRows(FileRows):
    """A batch of rows with their numbers in a field."""

    def __init__(self, rows: FileRows, numbers: Sequence[int], field: str) -> None:
        self._rows, self._numbers, self._field = rows, numbers, field
        self.reasons = rows.reasons

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every row at a path; numbers are text, as in files of text."""
        return list(map(str, self._numbers)) if self._is_number(path) else self._rows.column(path)

    def raw(self, index: int) -> bytes:
        """Return a row as text, without its number."""
        return self._rows.raw(index)

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a row without a value at a path has it as null."""
        return not self._is_number(path) and self._rows.has_null(path, index)

    def has(self, path: Path) -> bool:
        """Whether any row has this path."""
        return self._is_number(path) or self._rows.has(path)

    def fields(self) -> str:
        """Return the field names of the first readable row as text."""
        return self._rows.fields()

    def names(self) -> Sequence[str]:
        """Return the names of all fields, and that of the number."""
        return [*self._rows.names(), self._field]

    def _is_number(self, path: Path) -> bool:
        return path.keys == (self._field,)


class NumberedFile(RowFile):
    """A file whose rows have their numbers, counted from 0, in an added field."""

    is_numbered = True

    def __init__(self, file: RowFile, field: str) -> None:
        self._file, self._field = file, field
        self.name, self.text, self.own_columns = file.name, file.text, file.columns
        self.columns = None if file.columns is None else [*file.columns, field]

    @property
    def unit(self) -> str:  # type: ignore[override]
        """The unit of row numbers, which some files know once they have been read."""
        return self._file.unit

    def select(self, paths: Sequence[Path]) -> None:
        """Select paths to read, in addition to those selected before."""
        self._file.select(self._stored(paths))

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[FileRows]:
        """Yield the rows in their order, in batches."""
        start = 0
        for rows in self._file.batches(progress, None if only is None else self._stored(only)):
            yield NumberedRows(rows, range(start, start + len(rows)), self._field)
            start += len(rows)

    def hold(self) -> TakeRows:
        """Read all rows into memory."""
        take = self._file.hold()
        return lambda numbers: NumberedRows(take(numbers), numbers, self._field)

    def type_of_time(self, path: Path) -> str | None:
        """Return the type of a column of times; None for a column of other types."""
        return self._file.type_of_time(path)

    def _stored(self, paths: Sequence[Path]) -> list[Path]:
        return [path for path in paths if path.keys != (self._field,)]


def names_of(record: Mapping[str, Any]) -> str:
    """Return the field names of a record as text, with those of objects in braces.

    >>> names_of({"at": 1, "customer": {"country": "DE", "age": 3}})
    'at, customer {country, age}'
    """
    return shortened(
        [
            f"{name} {{{names_of(value)}}}" if isinstance(value, Mapping) and value else str(name)
            for name, value in record.items()
        ]
    )


def shortened(names: Sequence[str]) -> str:
    """Return a list of names for a sentence, shortened if there are many."""
    shown = ", ".join(names[:_MOST_FIELDS])
    return shown if len(names) <= _MOST_FIELDS else f"{shown}, … ({len(names)} in all)"


class ObjectRows:
    """A batch of objects; None for an unreadable one, whose reason is in `reasons`."""

    def __init__(self, objects: Sequence[Any], reasons: Mapping[int, str] | None = None) -> None:
        self.objects, self.reasons = objects, reasons or {}

    def __len__(self) -> int:
        return len(self.objects)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every object at a path; None where there is none."""
        return pick(self.objects, self._keys(path))

    def has_null(self, path: Path, index: int) -> bool:
        """Whether an object without a value at a path has it as null."""
        return has_name(self.objects[index], self._keys(path))

    def raw(self, index: int) -> bytes:
        """Return an object as JSON."""
        return json_of(self.objects[index])

    def has(self, path: Path) -> bool:
        """Whether any object has the field, even with the value null."""
        *above, name = self._keys(path)
        for parent in pick(self.objects, tuple(above)):
            if isinstance(parent, Mapping) and name in parent:
                return True
            if isinstance(parent, list) and name.isdigit() and int(name) < len(parent):
                return True
        return False

    def _keys(self, path: Path) -> tuple[str, ...]:
        """Return the names of a path; a name may contain dots, as in columns of flattened tables."""
        whole = ".".join(path.keys)
        first: Any = next((record for record in self.objects if record is not None), {})
        return (whole,) if len(path.keys) > 1 and whole in first else path.keys

    def fields(self) -> str:
        """Return the field names of the first object."""
        first: Any = next((record for record in self.objects if isinstance(record, Mapping)), {})
        return names_of(first)

    def names(self) -> Sequence[str]:
        """Return the names of all objects' fields, without names that are no text and have no mapping."""
        named = dict.fromkeys(
            name for record in self.objects if isinstance(record, Mapping) for name in record
        )
        return [name for name in named if isinstance(name, str)]


class DictRows(RowFile):
    """Dicts in memory, one for each row."""

    def __init__(self, name: str, objects: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self._objects = objects

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[ObjectRows]:
        """Yield the objects in their order, in batches of at most `BATCH`."""
        for start in range(0, len(self._objects), BATCH):
            yield ObjectRows(self._objects[start : start + BATCH])

    def __len__(self) -> int:
        return len(self._objects)

    def hold(self) -> TakeRows:
        """Return a function of these objects, which are already in memory."""
        return lambda rows: ObjectRows([self._objects[row] for row in rows])
