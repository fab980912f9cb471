"""Snapshots of a shard in a compacted topic: chunks, then a manifest that makes them valid.

A shard's state is written in parts (see `Shard.snapshot`), laid end to end and cut into chunks that
fit a Kafka message. Two slots take turns, so the newest whole snapshot stays readable until the next
one's manifest is there. Nothing is ever pickled.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
from prequential.core.input.merge import OffsetVector
from prequential.topics.errors import WorkError
from prequential.worker.origin import Origin

#: Format of what snapshots hold: another one can't be read.
FORMAT = 11

#: Bytes of a chunk, at most: Kafka's default limit of a message is 1 MiB.
CHUNK_BYTES = 900_000

MANIFEST_KEY = b"manifest"

_REBUILD = "`prequential worker --rebuild` makes the state anew from the input topics"


class Manifest(msgspec.Struct):
    """What is needed to read a snapshot, and where to go on from it."""

    format: int
    generation: int
    chunks: int
    size: int
    checksum: int
    #: Next input offsets, by kind; on the wire by the name that all formats have.
    vector: OffsetVector = msgspec.field(name="cut")
    #: Number of the last journal entry that the state contains, and the journal's offset after it.
    journal_number: int
    journal_offset: int
    config: str
    origin: Origin


def chunk_key(generation: int, place: int) -> bytes:
    """Key of a chunk; generations share keys with the one before the last.

    >>> chunk_key(7, 0)
    b'1/0'
    """
    return b"%d/%d" % (generation % 2, place)


class ChunkWriter:
    """Turns parts into chunks, and counts what the manifest must say."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.size = 0
        self.checksum = 0
        self.chunks = 0

    def chunks_of(self, parts: Iterator[object]) -> Iterator[bytes]:
        """Chunks of all parts."""
        for part in parts:
            encoded = msgspec.msgpack.encode(part)
            self._pending += len(encoded).to_bytes(4, "big")
            self._pending += encoded
            while len(self._pending) >= CHUNK_BYTES:
                yield self._chunk(CHUNK_BYTES)
        if self._pending:
            yield self._chunk(len(self._pending))

    def _chunk(self, size: int) -> bytes:
        chunk = bytes(self._pending[:size])
        del self._pending[:size]
        self.size += size
        self.checksum = zlib.crc32(chunk, self.checksum)
        self.chunks += 1
        return chunk


class SnapshotReader:
    """Collects a partition's records, oldest first, and gives the newest whole snapshot."""

    def __init__(self) -> None:
        self._chunks: dict[bytes, tuple[bytes, int]] = {}
        self._newest: tuple[Manifest, list[tuple[bytes, int] | None]] | None = None
        self._trouble: WorkError | None = None  # with the newest manifest

    def forget(self) -> None:
        """The newest manifest was taken back: there is no snapshot until the next one."""
        self._newest = self._trouble = None

    def add(self, key: bytes, value: bytes, generation: int) -> None:
        """A record of the topic."""
        if key != MANIFEST_KEY:
            self._chunks[key] = (value, generation)
            return
        self.forget()
        try:
            manifest = msgspec.msgpack.decode(value, type=Manifest)
        except msgspec.MsgspecError as error:
            self._trouble = WorkError(f"the snapshot's manifest can't be read ({error}): {_REBUILD}")
            return
        if manifest.format != FORMAT:
            self._trouble = WorkError(
                f"the snapshot has format {manifest.format}, this version reads {FORMAT}: {_REBUILD}"
            )
            return
        keys = (chunk_key(manifest.generation, place) for place in range(manifest.chunks))
        self._newest = manifest, [self._chunks.get(key) for key in keys]

    def newest(self) -> tuple[Manifest, Iterator[Any]] | None:
        """Manifest and parts; None if there is no snapshot. Raises WorkError for a damaged one."""
        if self._trouble is not None:
            raise self._trouble
        if self._newest is None:
            return None
        manifest, stored = self._newest
        chunks = [
            chunk[0]
            for chunk in stored
            if chunk is not None and chunk[1] == manifest.generation
        ]
        if len(chunks) < manifest.chunks:
            raise WorkError(
                f"the snapshot has {len(chunks)} of its {manifest.chunks} chunks: {_REBUILD}"
            )
        state = b"".join(chunks)
        if len(state) != manifest.size or zlib.crc32(state) != manifest.checksum:
            raise WorkError(f"the snapshot's checksum is wrong: {_REBUILD}")
        return manifest, _parts(state)


def _parts(state: bytes) -> Iterator[Any]:
    view = memoryview(state)
    place = 0
    while place < len(view):
        length = int.from_bytes(view[place : place + 4], "big")
        place += 4
        yield msgspec.msgpack.decode(view[place : place + length])
        place += length
