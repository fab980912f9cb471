"""Read text files of rows: CSV with a line of names, and JSON lines of any shape."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from copy import copy
from functools import partial
from itertools import islice
from typing import IO, Any

import msgspec
from prequential.mapping.evaluations import read_json
from prequential.mapping.model import Path
from prequential.offline.replay.array_files import record_lines, single_records
from prequential.offline.tables.rows import BATCH, FileRows, ObjectRows, Progress, RowFile, TakeRows
from prequential.topics.decoding import decode_objects
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.foreign_json import Unreadable
from prequential.topics.messages import INPUT_MESSAGE_BYTES

#: The possible delimiters of cells. The one that occurs most often in the line of names is used.
DELIMITERS = ",;\t|"

#: Excel's line before the names, such as `sep=;`.
_HINT = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)

#: A name in quotation marks, in which delimiters do not count.
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

#: Stands for a row with a line that is too long.
_TOO_LONG: list[str] = []

#: What is expected of a file in another encoding.
UTF8 = "expected UTF-8; export it as CSV UTF-8, or convert it with iconv -t UTF-8"

_LONGEST = f"more than {INPUT_MESSAGE_BYTES:,} characters"

_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class CsvRows(FileRows):
    """A batch of rows of a CSV file."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._columns = columns
        self._rows = rows
        self.reasons = {}
        if any(len(row) != len(columns) for row in rows):
            self.reasons = {
                index: f"the row has {len(row)} cells: expected {len(columns)}, as the first line has"
                if row else f"the row has a line of {_LONGEST}"
                for index, row in enumerate(rows) if len(row) != len(columns)
            }  # fmt: skip
            empty = [""] * len(columns)
            rows = [empty if index in self.reasons else row for index, row in enumerate(rows)]
        self._cells = list(zip(*rows))

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, path: Path) -> list[Any]:
        """Return the value of every row at a path; None for an empty cell."""
        cells = self._cells[self._columns.index(".".join(path.keys))]
        return [cell or None for cell in cells] if "" in cells else list(cells)

    def raw(self, index: int) -> bytes:
        """Return a row as a JSON object of its cells."""
        row = self._rows[index]
        shown = [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in row]
        if index in self.reasons:
            return msgspec.json.encode(shown)
        return msgspec.json.encode(dict(zip(self._columns, shown)))

    def names(self) -> Sequence[str]:
        """Return the names of the columns."""
        return self._columns


class TextFile(RowFile):
    """A file of text; `open_file` opens its bytes, `position` returns the share that a stream has read."""

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], position: Callable[[IO[bytes]], float | None]
    ) -> None:
        self.name = name
        self._open_file, self._position = open_file, position

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[FileRows]:
        """Yield the rows in their order, in batches; blank lines are skipped."""
        count = 0
        with self._reading() as (rows, stream):
            while batch := list(islice(rows, BATCH)):
                yield self._batch(batch)
                count += len(batch)
                progress(count, self._position(stream))

    def _reading(self) -> AbstractContextManager[tuple[Iterator[Any], IO[bytes]]]:
        """Open the file: its rows, and the stream that they come from."""
        raise NotImplementedError

    def _batch(self, rows: Sequence[Any]) -> FileRows:
        raise NotImplementedError


class CsvFile(TextFile):
    """A CSV file."""

    text = True

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], position: Callable[[IO[bytes]], float | None]
    ) -> None:
        super().__init__(name, open_file, position)
        with self._opened() as (lines, _):
            head = lines.readline(INPUT_MESSAGE_BYTES).lstrip("\ufeff")
        _refuse_other_encodings(name, head)
        #: Excel's optional first line, which names the delimiter.
        self._hint = _HINT.fullmatch(head)
        outside = _QUOTED.sub("", head)
        self._delimiter = self._hint[1] if self._hint else max(DELIMITERS, key=outside.count)
        with self._opened() as (lines, _):
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

    def hold(self) -> TakeRows:
        """Read all rows into memory, packed so that a cell needs only the bytes of its text."""
        with self._reading() as (rows, _):
            held = [_pack([cell.encode("utf-8", "surrogateescape") for cell in row]) for row in rows]

        def take(numbers: Sequence[int]) -> FileRows:
            packed = (_unpack(held[number]) for number in numbers)
            return self._batch([[cell.decode("utf-8", "surrogateescape") for cell in row] for row in packed])

        return take

    def _batch(self, rows: Sequence[Sequence[str]]) -> FileRows:
        return CsvRows(self.columns, rows)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Iterator[Any], IO[bytes]]]:
        with self._opened() as (lines, stream):
            rows = self._rows(lines)
            next(rows)
            yield rows, stream

    @contextmanager
    def _opened(self) -> Iterator[tuple[io.TextIOWrapper, IO[bytes]]]:
        stream = self._open_file()
        with stream, io.TextIOWrapper(
            stream, encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as lines:  # fmt: skip
            yield lines, stream

    def _rows(self, lines: io.TextIOWrapper) -> Iterator[list[str]]:
        """Yield the rows that are not blank; `_TOO_LONG` for a row with a line that is too long."""
        own = _Lines(lines)
        if self._hint:
            next(own)
        csv.field_size_limit(INPUT_MESSAGE_BYTES)
        reader = csv.reader(own, delimiter=self._delimiter)
        try:
            for row in reader:
                own.check_quotes(reader.dialect)
                if own.cut:
                    yield _TOO_LONG
                elif row:
                    yield row
                own.begin_row()
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {self.name!r} beyond line {reader.line_num}: {error}") from error


def _refuse_other_encodings(name: str, head: str) -> None:
    """Raise UsageError if the line of names is not UTF-8."""
    encoding = None
    if "\0" in head or head.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        encoding = "UTF-16"
    elif not_utf8 := re.search("[\udc80-\udcff]", head):
        byte = ord(not_utf8[0]) & 0xFF
        encoding = f"not UTF-8 (byte {byte:#04x} in its first line), perhaps Windows-1252 (cp1252)"
    if encoding:
        raise UsageError(f"{name} is {encoding}: {UTF8}")


class _Lines:
    """The lines of a text for `csv.reader`, which takes as many lines as a row has.

    A line that exceeds the largest size of a record is replaced by a blank one. Raises csv.Error if a
    quotation mark is never closed: if the lines of one row together exceed that size, if the text ends within
    quotation marks, or if a cell of several lines goes on after its closing quotation mark.
    """

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._read = partial(text.readline, INPUT_MESSAGE_BYTES)
        self._number = 0
        self.begin_row()

    def begin_row(self) -> None:
        """Count the next row's characters from here on."""
        self.cut, self._characters, self._row = False, 0, list[str]()

    def check_quotes(self, dialect: Any) -> None:
        """Raise csv.Error if the row has several lines, and text after a closing quotation mark.

        Otherwise, the mark that closes the cell is one that should have opened another cell.
        """
        if len(self._row) < 2:
            return
        try:
            list(csv.reader(self._row, delimiter=dialect.delimiter, strict=True))
        except csv.Error as error:
            raise self._not_closed() from error

    def _not_closed(self) -> csv.Error:
        """Return the error for a quotation mark that is never closed, with the line where it opens."""
        opening = first = self._number - len(self._row) + 1
        is_open = False
        for line, text in enumerate(self._row, start=first):
            marks = text.count('"')
            if marks > is_open:
                opened = line
            is_open ^= marks % 2 == 1
            if is_open:
                opening = opened
        return csv.Error(
            f"the quotation mark that opens in line {opening} is never closed: remove or close it"
        )

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._read()
        if not line:
            if self._row:
                raise self._not_closed()
            raise StopIteration
        self._number += 1
        if len(line) == INPUT_MESSAGE_BYTES and line[-1] not in "\r\n":
            while line and line[-1] not in "\r\n":
                line = self._read()
            self.cut, line = True, "\n"
        self._characters += len(line)
        self._row.append(line)
        if self._characters > INPUT_MESSAGE_BYTES:
            first = self._number - len(self._row) + 1
            raise csv.Error(f"the row from line {first} on has {_LONGEST}: is a quotation mark missing?")
        return line


class JsonRows(ObjectRows):
    """A batch of lines."""

    def __init__(self, lines: Sequence[bytes], any_json: bool = False) -> None:
        super().__init__(*(_decoded(lines) if any_json else decode_objects(lines)))
        self._lines = lines

    def raw(self, index: int) -> bytes:
        """Return the line."""
        return self._lines[index]


def _decoded(lines: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    """Return any JSON of lines, such as arrays, and the reasons of unreadable lines."""
    decoded: list[Any] = []
    reasons: dict[int, str] = {}
    for index, line in enumerate(lines):
        try:
            decoded.append(read_json(line))
        except Unreadable as error:
            decoded.append(None)
            reasons[index] = str(error)
    return decoded, reasons


class JsonFile(TextFile):
    """A file of JSON lines. Lines are objects, or arrays of these; for `of_any_json`, they may be any JSON.

    Blank lines are skipped; the unit is then the row, unless all of them are at the end of the file.
    `is_array`: the file begins with an array, so its rows aren't its lines.
    """

    _any_json = False

    def __init__(
        self, name: str, open_file: Callable[[], IO[bytes]], position: Callable[[IO[bytes]], float | None], *,
        is_array: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, open_file, position)
        self.unit = "row" if is_array else "line"

    def of_any_json(self) -> JsonFile:
        """Return the same file, whose lines may be any JSON."""
        file = copy(self)
        file._any_json = True
        return file

    def hold(self) -> TakeRows:
        """Read all lines into memory."""
        with self._reading() as (lines, _):
            held = list(lines)
        return lambda numbers: self._batch([held[number] for number in numbers])

    def _batch(self, rows: Sequence[bytes]) -> FileRows:
        return JsonRows(rows, self._any_json)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Iterator[Any], IO[bytes]]]:
        with closing(self._open_file()) as stream:
            yield self._lines(stream), stream

    def _lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        has_blank = False
        try:
            for line in record_lines(stream):
                if not line.strip():
                    has_blank = True
                    continue
                if has_blank:
                    self.unit = "row"
                if self._any_json or line.startswith(b"{"):
                    yield line
                    continue
                records = single_records([line])
                if len(records) > 1:
                    self.unit = "row"
                yield from records
        except (OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {self.name!r}: {error}") from error
