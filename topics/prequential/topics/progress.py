"""The note that workers commit with input offsets: when all outputs below the offsets were published."""

from __future__ import annotations

import msgspec
from prequential.topics.foreign_json import Unreadable, reader


class ProgressNote(msgspec.Struct, frozen=True):
    """The metadata of a committed offset."""

    #: When a worker found that all outputs below the offset are published (epoch ms, its clock).
    published_at: int


_decode = reader(ProgressNote)


def progress_note(published_at: int) -> str:
    """Return the metadata of an offset below which all outputs were published at `published_at` (epoch ms).

    Examples
    --------
    >>> progress_note(1_700_000_000_000)
    '{"published_at":1700000000000}'
    """
    return msgspec.json.encode(ProgressNote(published_at)).decode()


def published_at(metadata: str | None) -> int | None:
    """Return the time (epoch ms) in the metadata of an offset; None if another program committed the offset.

    Examples
    --------
    >>> published_at(progress_note(1_700_000_000_000)), published_at("by hand"), published_at(None)
    (1700000000000, None, None)
    """
    try:
        return _decode((metadata or "").encode()).published_at
    except Unreadable:
        return None
