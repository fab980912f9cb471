"""Find the format of a file by its first bytes or its name, and open it with the format's reader."""

from __future__ import annotations

import gzip
import importlib
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from prequential.mapping.evaluations import FORMATS_WITH_PARTS
from prequential.mapping.model import FORMATS
from prequential.offline.replay.sources import cut_lines
from prequential.offline.tables.csvfile import CsvFile
from prequential.offline.tables.jsonfile import JsonFile
from prequential.offline.tables.rows import RowFile
from prequential.topics.errors import Fault, UsageError, WorkError, as_text

#: The first bytes of files by format.
_GZIP, _PARQUET, _ARROW, _ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"

#: The number of bytes that distinguish these formats from text.
_MARK = 6

#: Formats of text by the ends of file names. The first bytes identify the other formats.
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}

#: The number of first bytes that are checked: a byte order mark, white space, a brace.
_HEAD = 64


class Stored:
    """The bytes of a file; standard input (`-`) and pipes are read to their ends at once.

    Raises UsageError if the file cannot be opened, and WorkError if it cannot be decompressed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else as_text(path)
        self._bytes = _read_whole(sys.stdin.buffer) if path == "-" else _read_once(path)
        with self._raw() as raw:
            head = raw.read(_HEAD)
        self.compressed = head.startswith(_GZIP) or path.endswith(".gz")
        if self.compressed:
            try:
                with self.open() as stream:
                    head = stream.read(_HEAD)
            except (OSError, EOFError, zlib.error) as error:
                raise WorkError(f"can't read {self.name!r}: {error}") from error
        self.head = head

    def open(self) -> IO[bytes]:
        """Open the file at its beginning, decompressed; the caller must close it."""
        raw = self._raw()
        stream: Any = _Gzip(raw) if self.compressed else raw
        return stream  # type: ignore[no-any-return]

    def position(self, stream: IO[bytes]) -> float | None:
        """Return the share of the file, from 0 to 1, that `stream` has read; None for an empty file.

        `stream` must be a result of `open`.
        """
        size = len(self._bytes) if self._bytes is not None else Path(self.path).stat().st_size
        raw = stream.raw_file if isinstance(stream, _Gzip) else stream
        return raw.tell() / size if size else None

    @property
    def source(self) -> Any:
        """The path or the bytes, for pyarrow."""
        return self.path if self._bytes is None else self._bytes

    def _raw(self) -> IO[bytes]:
        if self._bytes is not None:
            return BytesIO(self._bytes)
        try:
            return Path(self.path).open("rb")
        except OSError as error:
            raise UsageError(f"can't read {self.path!r}: {error.strerror}") from error


def _read_once(path: str) -> bytes | None:
    """Return the bytes of a source that can be opened only once, such as a pipe; None for a file."""
    where = Path(path)
    try:
        if not (where.is_fifo() or where.is_char_device()):
            return None
        with where.open("rb") as stream:
            return _read_whole(stream)
    except OSError as error:
        raise UsageError(f"can't read {path!r}: {error.strerror}") from error


def _read_whole(stream: IO[bytes]) -> bytes:
    """Return all bytes; lines of text are cut at the largest size of a record, to bound the memory."""
    head = stream.read(_MARK)
    if head.startswith((_GZIP, _PARQUET, _ARROW, _ARROW_STREAM)):
        return head + stream.read()
    return head + b"".join(cut_lines(stream))


class _Gzip(gzip.GzipFile):
    """A compressed file that also closes its underlying file."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.raw_file = raw

    def close(self) -> None:
        """Close both files."""
        super().close()
        self.raw_file.close()


def format_of(stored: Stored) -> str:
    """Return the format: JSON lines unless the first bytes or the name indicate another one."""
    head = stored.head
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW, _ARROW_STREAM)):
        return "arrow"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl"
    endings = [ending.lower() for ending in Path(stored.path).suffixes if ending.lower() != ".gz"]
    return _ENDINGS.get(endings[-1] if endings else "", "jsonl")


def open_rows(stored: Stored, form: str | None) -> RowFile:
    """Return the reader of a file's rows; `form` is its format (None: the result of `format_of`).

    Raises UsageError if the file has another format than `form`, or if it needs pyarrow and pyarrow is not
    installed. Raises WorkError if the file is not readable in its format.
    """
    actual = format_of(stored)
    form = form or actual
    if form in FORMATS_WITH_PARTS:
        return JsonFile(stored.name, stored.open, stored.position)
    if form not in FORMATS:
        raise Fault(f"{form!r} is no format of tables: expected one of {', '.join(FORMATS)}")
    text: dict[str, Callable[..., RowFile]] = {"csv": CsvFile, "jsonl": JsonFile}
    if form in text:
        if actual not in text:
            raise UsageError(f"{stored.name!r} is {actual}: expected {form}, as configured")
        return text[form](stored.name, stored.open, stored.position)
    if form != actual:
        raise UsageError(f"{stored.name!r} is {actual}: expected {form}, as configured")
    arrow = needs_pyarrow(f"{stored.name!r} is {form}")
    if stored.compressed:
        raise UsageError(f"{stored.name!r} is {form} in gzip: expected {form}, which has its own compression")
    try:
        if form == "parquet":
            return arrow.of_parquet(stored.name, stored.source)  # type: ignore[no-any-return]
        return arrow.of_arrow(  # type: ignore[no-any-return]
            stored.name, stored.source, stream=stored.head.startswith(_ARROW_STREAM)
        )
    except (ValueError, OSError) as error:  # pyarrow's own errors are one of these
        raise WorkError(f"can't read {stored.name!r}: {' '.join(str(error).split())}") from error


def needs_pyarrow(why: str) -> Any:
    """Return the module `offline.tables.arrowfile`.

    Raises UsageError, whose message begins with `why`, if pyarrow is not installed.
    """
    try:
        return importlib.import_module("prequential.offline.tables.arrowfile")
    except ImportError as error:
        raise UsageError(f"{why}, which needs pyarrow: pip install 'prequential[files]'") from error
