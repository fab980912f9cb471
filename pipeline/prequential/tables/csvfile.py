"""CSV: a line of names, then a row a line. All cells are text, empty ones are none."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import IO, Any

import msgspec
from prequential.mapping.model import Path
from prequential.tables.rows import BATCH, Progress
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.messages import INPUT_MESSAGE_BYTES

#: What may stand between cells: of these the one that the line of names has most of.
DELIMITERS = ",;\t|"

#: Excel's line before the names, such as `sep=;`.
_HINT = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)

#: A name in quotation marks, in which a delimiter is none.
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

#: Stands for a row with a line that is cut off.
_TOO_LONG: list[str] = []

_LONGEST = f"more than {INPUT_MESSAGE_BYTES:,} characters"

_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class CsvRows:
    """Some rows of a CSV file."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._columns = columns
        self._rows = rows
        self.reasons: Mapping[int, str] = {}
        if any(len(row) != len(columns) for row in rows):
            self.reasons = {
                place: f"the row has {len(row)} cells: expected {len(columns)}, as the first line has"
                if row else f"the row has a line of {_LONGEST}"
                for place, row in enumerate(rows) if len(row) != len(columns)
            }  # fmt: skip
            empty = [""] * len(columns)
            rows = [empty if place in self.reasons else row for place, row in enumerate(rows)]
        self._cells = list(zip(*rows))

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, path: Path) -> list[Any]:
        """What every row has there; None where the cell is empty."""
        cells = self._cells[self._columns.index(".".join(path.keys))]
        return [cell or None for cell in cells] if "" in cells else list(cells)

    def raw(self, place: int) -> bytes:
        """A row as an object of its cells, as JSON."""
        row = self._rows[place]
        shown = [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in row]
        if place in self.reasons:
            return msgspec.json.encode(shown)
        return msgspec.json.encode(dict(zip(self._columns, shown)))

    def has(self, path: Path) -> bool:
        """Whether there is such a column, which was checked before."""
        return True

    def fields(self) -> str:
        """All rows have the same."""
        return ""

    def names(self) -> Sequence[str]:
        """Of the columns."""
        return self._columns


class CsvFile:
    """A CSV file; `open_file` opens its bytes anew, `size` is how many there are, before decompression."""

    unit, text = "row", True

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], position: Callable[[IO[bytes]], float | None]
    ) -> None:
        self.name = name
        self._open_file, self._position = open_file, position
        with self._reading() as (lines, _):
            head = lines.readline(INPUT_MESSAGE_BYTES).lstrip("\ufeff")
        _refuse_other_encodings(name, head)
        #: Excel's own first line, which names the delimiter.
        self._hint = _HINT.fullmatch(head)
        outside = _QUOTED.sub("", head)
        self._delimiter = self._hint[1] if self._hint else max(DELIMITERS, key=outside.count)
        with self._reading() as (lines, _):
            names = next(self._rows(lines), None)
        if names == _TOO_LONG:
            raise UsageError(f"{name}: the first line has {_LONGEST}: expected the names of its columns")
        if names is None:
            raise UsageError(f"{name} is empty: expected a line with the names of its columns")
        self.columns: Sequence[str] = [cell.strip() for cell in names]
        self.own_columns = self.columns
        twice = [column for column in self.columns if self.columns.count(column) > 1]
        if twice:
            raise UsageError(f"{name} has the column {twice[0]!r} twice: expected a name for each")

    def select(self, paths: Sequence[Path]) -> None:
        """All columns are read anyway."""

    def type_of_time(self, path: Path) -> str | None:
        """Text has none."""
        return None

    def batches(self, progress: Progress = lambda rows, share: None) -> Iterator[CsvRows]:
        """The rows, in their order; empty lines are none."""
        count = 0
        with self._reading() as (lines, stream):
            rows = self._rows(lines)
            next(rows)
            while batch := list(islice(rows, BATCH)):
                yield CsvRows(self.columns, batch)
                count += len(batch)
                progress(count, self._position(stream))

    def hold(self) -> HeldRows:
        """All rows in memory."""
        held: list[bytes] = []
        with self._reading() as (lines, _):
            rows = self._rows(lines)
            next(rows)
            held += (_pack([cell.encode("utf-8", "surrogateescape") for cell in row]) for row in rows)
        return HeldRows(self.columns, held)

    @contextmanager
    def _reading(self) -> Iterator[tuple[io.TextIOWrapper, IO[bytes]]]:
        stream = self._open_file()
        with stream, io.TextIOWrapper(
            stream, encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as lines:  # fmt: skip
            yield lines, stream

    def _rows(self, lines: io.TextIOWrapper) -> Iterator[list[str]]:
        """The rows that aren't blank; `_TOO_LONG` for one with a line that is cut off."""
        own = _Lines(lines)
        if self._hint:
            next(own)
        csv.field_size_limit(INPUT_MESSAGE_BYTES)
        reader = csv.reader(own, delimiter=self._delimiter)
        try:
            for row in reader:
                if own.cut:
                    yield _TOO_LONG
                elif row:
                    yield row
                own.begin_row()
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {self.name!r} beyond line {reader.line_num}: {error}") from error


def _refuse_other_encodings(name: str, head: str) -> None:
    """Raise UsageError where the line of names isn't UTF-8."""
    found = None
    if "\0" in head or head.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        found = "UTF-16"
    elif not_utf8 := re.search("[\udc80-\udcff]", head):
        byte = ord(not_utf8[0]) & 0xFF
        found = f"not UTF-8 (byte {byte:#04x} in its first line), perhaps Windows-1252 (cp1252)"
    if found:
        raise UsageError(
            f"{name} is {found}: expected UTF-8; export it as CSV UTF-8, or convert it with iconv -t UTF-8"
        )


class _Lines:
    """The lines of a text for `csv.reader`, of which it takes as many as a row has.

    A line beyond what a record may have is skipped, and a blank one stands for it. Raises csv.Error where
    lines of one row come to more, as they do where the end of a quoted cell is missing.
    """

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._read = partial(text.readline, INPUT_MESSAGE_BYTES)
        self.begin_row()

    def begin_row(self) -> None:
        """Count the next row's characters from here on."""
        self.cut, self._characters = False, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._read()
        if not line:
            raise StopIteration
        if len(line) == INPUT_MESSAGE_BYTES and line[-1] not in "\r\n":
            while line and line[-1] not in "\r\n":
                line = self._read()
            self.cut, line = True, "\n"
        self._characters += len(line)
        if self._characters > INPUT_MESSAGE_BYTES:
            raise csv.Error(f"a row has {_LONGEST}: is a quotation mark missing?")
        return line


class HeldRows:
    """All rows in memory, a cell as long as its text."""

    def __init__(self, columns: Sequence[str], rows: list[bytes]) -> None:
        self._columns, self._rows = columns, rows

    def take(self, rows: Sequence[int]) -> CsvRows:
        """These rows, from 0 on."""
        return CsvRows(
            self._columns,
            [
                [cell.decode("utf-8", "surrogateescape") for cell in _unpack(self._rows[row])]
                for row in rows
            ],
        )  # fmt: skip
