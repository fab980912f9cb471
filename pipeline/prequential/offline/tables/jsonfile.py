"""Read JSON lines of any shape: each line is an object with its own fields."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from itertools import islice
from typing import IO, Any

import msgspec
from prequential.mapping.evaluations import Unreadable, read_json
from prequential.mapping.model import Path, as_text
from prequential.mapping.rows import has_name, pick
from prequential.offline.replay.sources import lines_of
from prequential.offline.tables.rows import BATCH, Progress, names_of
from prequential.topics.decoding import decode_objects
from prequential.topics.errors import WorkError


class ObjectRows:
    """A batch of objects; None for an unreadable one, whose reason is in `reasons`."""

    def __init__(
        self, objects: Sequence[Any], reasons: Mapping[int, str] | None = None, number: str | None = None
    ) -> None:
        self.objects, self.reasons, self._number = objects, reasons or {}, number

    def __len__(self) -> int:
        return len(self.objects)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every object at a path; None where there is none."""
        return pick(self.objects, self._keys(path))

    def has_null(self, path: Path, place: int) -> bool:
        """Whether an object without a value at a path has it as null."""
        return has_name(self.objects[place], self._keys(path))

    def raw(self, place: int) -> bytes:
        """Return an object as JSON."""
        return msgspec.json.encode(_with_text_keys(self.objects[place]), enc_hook=str)

    def has(self, path: Path) -> bool:
        """Whether any object has the field, even with the value null."""
        *above, name = self._keys(path)
        for one in pick(self.objects, tuple(above)):
            if isinstance(one, Mapping) and name in one:
                return True
            if isinstance(one, list) and name.isdigit() and int(name) < len(one):
                return True
        return False

    def _keys(self, path: Path) -> tuple[str, ...]:
        """Return the names of a path; a name may contain dots, as in columns of flattened tables."""
        whole = ".".join(path.keys)
        first: Any = next((one for one in self.objects if one is not None), {})
        return (whole,) if len(path.keys) > 1 and whole in first else path.keys

    def fields(self) -> str:
        """Return the field names of the first object."""
        first: Any = next((one for one in self.objects if isinstance(one, Mapping)), {})
        return names_of({name: value for name, value in first.items() if name != self._number})

    def names(self) -> Sequence[str]:
        """Return the names of all objects' fields, without names that are no text and have no mapping."""
        named = dict.fromkeys(name for one in self.objects if isinstance(one, Mapping) for name in one)
        return [name for name in named if isinstance(name, str)]


def _with_text_keys(value: Any) -> Any:
    """Return a value whose objects have text as keys, as JSON requires."""
    if isinstance(value, Mapping):
        return {as_text(key): _with_text_keys(one) for key, one in value.items()}
    return value


class DictRows:
    """Dicts in memory, one for each row, with the interface of a file of rows (see `RowFile`).

    `number` is the field, if any, that contains the number of the row and is no column.
    """

    unit, text = "row", False
    columns = own_columns = None

    def __init__(
        self, name: str, objects: Sequence[Mapping[str, Any]], number: str | None = None
    ) -> None:
        self.name = name
        self._objects, self._number = objects, number
        self.is_numbered = number is not None

    def select(self, paths: Sequence[Path]) -> None:
        """Do nothing: every field of each object is in memory anyway."""

    def type_of_time(self, path: Path) -> str | None:
        """Return None: each object has its own types."""
        return None

    def batches(self, progress: Progress = lambda rows, share: None) -> Iterator[ObjectRows]:
        """Yield the objects in their order, in batches of at most `BATCH`."""
        for start in range(0, len(self._objects), BATCH):
            yield ObjectRows(self._objects[start : start + BATCH], number=self._number)

    def __len__(self) -> int:
        return len(self._objects)

    def numbered(self, field: str) -> DictRows:
        """Return the same objects with an added field of row numbers, counted from 0."""
        rows = [{**one, field: place} for place, one in enumerate(self._objects)]
        return DictRows(self.name, rows, field)

    def hold(self) -> DictRows:
        """Return these objects themselves, because they are already in memory."""
        return self

    def take(self, rows: Sequence[int]) -> ObjectRows:
        """Return the objects at these places, counted from 0, in the order of `rows`."""
        return ObjectRows([self._objects[row] for row in rows])


class JsonRows(ObjectRows):
    """A batch of lines."""

    def __init__(self, lines: Sequence[bytes], any_json: bool = False) -> None:
        super().__init__(*(_decoded(lines) if any_json else decode_objects(lines)))
        self._lines = lines

    def raw(self, place: int) -> bytes:
        """Return the line."""
        return self._lines[place]


def _decoded(lines: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    """Return any JSON of lines, such as arrays, and the reasons of unreadable lines."""
    decoded: list[Any] = []
    reasons: dict[int, str] = {}
    for place, line in enumerate(lines):
        try:
            decoded.append(read_json(line))
        except Unreadable as error:
            decoded.append(None)
            reasons[place] = str(error)
    return decoded, reasons


class JsonFile:
    """A file of JSON lines; `open_file` opens its bytes from the beginning.

    Lines are objects; for `of_any_json`, they may also be arrays.
    """

    unit, text = "line", False
    columns = own_columns = None
    is_numbered = False

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], position: Callable[[IO[bytes]], float | None]
    ) -> None:
        self.name, self._any_json = name, False
        self._open_file, self._position = open_file, position

    def of_any_json(self) -> JsonFile:
        """Return the same file, whose lines may be any JSON."""
        file = copy(self)
        file._any_json = True
        return file

    def select(self, paths: Sequence[Path]) -> None:
        """Do nothing: every read returns whole lines."""

    def type_of_time(self, path: Path) -> str | None:
        """Return None: JSON has no type of times."""
        return None

    def batches(self, progress: Progress = lambda rows, share: None) -> Iterator[JsonRows]:
        """Yield the lines in their order, in batches."""
        count = 0
        with closing(self._open_file()) as stream:
            lines = self._lines(stream)
            while batch := list(islice(lines, BATCH)):
                yield JsonRows(batch, self._any_json)
                count += len(batch)
                progress(count, self._position(stream))

    def hold(self) -> HeldLines:
        """Read all lines into memory."""
        with closing(self._open_file()) as stream:
            return HeldLines(list(self._lines(stream)), self._any_json)

    def _lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        try:
            for line in lines_of(stream):
                yield line.rstrip(b"\r\n")
        except (OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {self.name!r}: {error}") from error


class HeldLines:
    """All lines in memory."""

    def __init__(self, lines: Sequence[bytes], any_json: bool) -> None:
        self._lines, self._any_json = lines, any_json

    def take(self, rows: Sequence[int]) -> JsonRows:
        """Return the lines with these numbers, counted from 0."""
        return JsonRows([self._lines[row] for row in rows], self._any_json)
