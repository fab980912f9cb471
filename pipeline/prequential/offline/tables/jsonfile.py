"""Read JSON lines of any shape: each line is an object with its own fields."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import copy
from itertools import islice
from typing import IO, Any

from prequential.mapping.evaluations import Unreadable, read_json
from prequential.mapping.model import Path
from prequential.offline.replay.sources import lines_of
from prequential.offline.tables.objects import ObjectRows
from prequential.offline.tables.rows import BATCH, Progress
from prequential.topics.decoding import decode_objects
from prequential.topics.errors import WorkError


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

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[JsonRows]:
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
