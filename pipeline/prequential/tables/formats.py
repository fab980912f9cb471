"""Which format a file has, by what it begins with or by its name, and what reads it."""

from __future__ import annotations

import gzip
import importlib
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from prequential.mapping.model import FORMATS
from prequential.replay.sources import cut_lines
from prequential.tables.csvfile import CsvFile
from prequential.tables.jsonfile import JsonFile
from prequential.tables.rows import RowFile
from prequential.topics.errors import Fault, UsageError, WorkError
from prequential.topics.reasons import as_text

#: What files of a format begin with.
_GZIP, _PARQUET, _ARROW, _ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"

#: Bytes that tell these from text.
_MARK = 6

#: Formats by the ends of names, for text: other formats are known by what they begin with.
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}

#: Bytes that are looked at: a byte order mark, white space, a brace.
_HEAD = 64


class Stored:
    """The bytes of a file, or of standard input (`-`) or a pipe, which are read to their ends.

    Raises UsageError if it can't be opened, WorkError if it can't be decompressed.
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
        """Open the file at its beginning, its bytes decompressed; the caller closes it."""
        raw = self._raw()
        stream: Any = _Gzip(raw) if self.compressed else raw
        return stream  # type: ignore[no-any-return]

    def position(self, stream: IO[bytes]) -> float | None:
        """Which share of the file, from 0 to 1, `stream` has read; None of an empty file.

        `stream` is one that `open` gave.
        """
        size = len(self._bytes) if self._bytes is not None else Path(self.path).stat().st_size
        raw = stream.raw_file if isinstance(stream, _Gzip) else stream
        return raw.tell() / size if size else None

    @property
    def source(self) -> Any:
        """Path or bytes, as pyarrow reads them."""
        return self.path if self._bytes is None else self._bytes

    def _raw(self) -> IO[bytes]:
        if self._bytes is not None:
            return BytesIO(self._bytes)
        try:
            return Path(self.path).open("rb")
        except OSError as error:
            raise UsageError(f"can't read {self.path!r}: {error.strerror}") from error


def _read_once(path: str) -> bytes | None:
    """The bytes of what can't be opened twice, such as a pipe; None of a file."""
    where = Path(path)
    try:
        if not (where.is_fifo() or where.is_char_device()):
            return None
        with where.open("rb") as stream:
            return _read_whole(stream)
    except OSError as error:
        raise UsageError(f"can't read {path!r}: {error.strerror}") from error


def _read_whole(stream: IO[bytes]) -> bytes:
    """All bytes; of lines of text no more than a record may have, so that one without an end is no burden."""
    head = stream.read(_MARK)
    if head.startswith((_GZIP, _PARQUET, _ARROW, _ARROW_STREAM)):
        return head + stream.read()
    return head + b"".join(cut_lines(stream))


class _Gzip(gzip.GzipFile):
    """A compressed file that closes the one beneath it."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.raw_file = raw

    def close(self) -> None:
        """Close both."""
        super().close()
        self.raw_file.close()


def format_of(stored: Stored) -> str:
    """The format: JSON lines where nothing speaks for another one."""
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
    """What reads a file's rows; `form` is its format, None: as `format_of` says.

    Raises UsageError where it has another format than is said, or pyarrow is needed and isn't there;
    WorkError if it can't be read as what it is.
    """
    actual = format_of(stored)
    form = form or actual
    if form not in FORMATS:
        raise Fault(f"{form!r} is no format of tables: expected one of {', '.join(FORMATS)}")
    text: dict[str, Callable[..., RowFile]] = {"csv": CsvFile, "jsonl": JsonFile}
    if form in text:
        if actual not in text:
            raise UsageError(f"{stored.name!r} is {actual}: expected {form}, as the configuration says")
        return text[form](stored.name, stored.open, stored.position)
    if form != actual:
        raise UsageError(f"{stored.name!r} is {actual}: expected {form}, as the configuration says")
    arrow = needs_pyarrow(f"{stored.name!r} is {form}")
    if stored.compressed:
        raise UsageError(f"{stored.name!r} is {form} in gzip: expected {form}, which is compressed by itself")
    try:
        if form == "parquet":
            return arrow.of_parquet(stored.name, stored.source)  # type: ignore[no-any-return]
        return arrow.of_arrow(  # type: ignore[no-any-return]
            stored.name, stored.source, stream=stored.head.startswith(_ARROW_STREAM)
        )
    except (ValueError, OSError) as error:  # pyarrow's own errors are one of these
        raise WorkError(f"can't read {stored.name!r}: {' '.join(str(error).split())}") from error


def needs_pyarrow(why: str) -> Any:
    """The module `prequential.tables.arrowfile`.

    Raises UsageError, beginning with `why`, if pyarrow isn't installed.
    """
    try:
        return importlib.import_module("prequential.tables.arrowfile")
    except ImportError as error:
        raise UsageError(f"{why}, which needs pyarrow: pip install 'prequential[files]'") from error
