"""Files of JSON that begin with an array: of all records, as pandas writes it, or of those of a line."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from typing import IO

from prequential.engine.input.message_rows import rows_of
from prequential.offline.replay.sources import lines_of
from prequential.topics.foreign_json import Unreadable, reader

#: The number of first bytes that are checked: a byte order mark, white space, a bracket.
_HEAD = 64

_any_json = reader()


def is_array(head: bytes) -> bool:
    """Whether a text that begins with these bytes begins with an array."""
    return head.removeprefix(BOM_UTF8).lstrip().startswith(b"[")


def record_lines(stream: IO[bytes]) -> Iterator[bytes]:
    r"""Yield the lines of a file of JSON without their ends.

    A file that is one array is one line. Otherwise lines are cut as in `lines_of`, but for files that begin
    with an array, whose lines may have any number of records.

    >>> from io import BytesIO
    >>> list(record_lines(BytesIO(b'[{"a": 1},\n {"a": 2}]\n'))), list(record_lines(BytesIO(b"[{}]\n{}")))
    ([b'[{"a": 1},  {"a": 2}]'], [b'[{}]', b'{}'])
    """
    head = stream.read(_HEAD)
    stream.seek(0)
    if not is_array(head):
        yield from (line.rstrip(b"\r\n") for line in lines_of(stream))
        return
    text = stream.read().removeprefix(BOM_UTF8).strip()
    first, end, _ = text.partition(b"\n")
    if not end or not _is_json(first):
        yield text.replace(b"\r", b" ").replace(b"\n", b" ")
    else:
        yield from (line.rstrip(b"\r") for line in text.split(b"\n"))


def single_records(lines: Sequence[bytes]) -> list[bytes]:
    """Return lines with one record each in place of lines that have several.

    >>> single_records([b'[{"a": 1}, 7]', b"{}", b"[]"])
    [b'{"a": 1}', b'7', b'{}', b'[]']
    """
    rows = rows_of(lines)
    return list(lines) if rows is None else [value or b"" for value in rows.values]


def _is_json(text: bytes) -> bool:
    try:
        _any_json(text)
    except Unreadable:
        return False
    return True
