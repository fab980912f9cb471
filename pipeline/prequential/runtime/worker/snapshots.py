"""Snapshots of a shard in a compacted topic: chunks, then a manifest that makes them valid.

A shard writes its state in parts (see `Shard.snapshot`), which are concatenated and cut into chunks that
fit a Kafka message. Snapshots alternate between two sets of keys, so the newest complete snapshot stays
readable until the next one's manifest is written. Snapshots never contain pickled objects.

One shard of a worker has the turn to write a snapshot, in memory that the next shard reuses. So a worker
needs memory for only one copy of a shard's tables, however many shards it has, and the process does not
repeatedly allocate and free this memory. Between two turns there is time to publish outputs that a snapshot
has delayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import inf
from threading import Lock
from typing import Any

import msgspec
from prequential.engine.input.merge import OffsetVector
from prequential.engine.snapshot.snapshot import Space
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.topics.errors import WorkError
from prequential.topics.foreign_json import FAILURES

#: Format of the snapshots that this version writes, and those that it reads.
FORMAT = 19
READABLE = (18, FORMAT)

#: Most bytes of a chunk: Kafka's default limit of a message is 1 MiB.
CHUNK_BYTES = 900_000

MANIFEST_KEY = b"manifest"

_REBUILD = "`prequential worker --rebuild` recomputes the state from the input topics"


class Manifest(msgspec.Struct):
    """The data needed to read a snapshot, and the offsets from which to go on."""

    format: int
    generation: int
    chunks: int
    size: int
    checksum: int
    #: Next input offsets by kind; encoded under the name `cut`, as in all formats.
    vector: OffsetVector = msgspec.field(name="cut")
    #: Number of the last journal entry that the state contains, and the journal's offset after it.
    journal_number: int
    journal_offset: int
    config: str
    origin: TopicsOrigin


def chunk_key(generation: int, number: int) -> bytes:
    """Return the key of a chunk; each generation reuses the keys of the second last generation.

    >>> chunk_key(7, 0)
    b'1/0'
    """
    return b"%d/%d" % (generation % 2, number)


class ChunkWriter:
    """Turns parts into chunks, and computes their number, size and checksum for the manifest."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.size = 0
        self.checksum = 0
        self.chunks = 0

    def chunks_of(self, parts: Iterator[object]) -> Iterator[bytes]:
        """Yield the chunks of all parts."""
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
    """Collects a partition's records, oldest first, and returns the newest complete snapshot."""

    def __init__(self) -> None:
        self._chunks: dict[bytes, tuple[bytes, int]] = {}
        self._newest: tuple[Manifest, list[tuple[bytes, int] | None]] | None = None
        self._trouble: WorkError | None = None  # error of the newest manifest

    def forget(self) -> None:
        """Forget the newest manifest, which was deleted: there is no snapshot until the next one."""
        self._newest = self._trouble = None

    def add(self, key: bytes, value: bytes, generation: int) -> None:
        """Add a record of the topic."""
        if key != MANIFEST_KEY:
            self._chunks[key] = (value, generation)
            return
        self.forget()
        try:
            manifest = msgspec.msgpack.decode(value, type=Manifest)
        except FAILURES as error:
            self._trouble = WorkError(f"the snapshot's manifest can't be read ({error}): {_REBUILD}")
            return
        if manifest.format not in READABLE:
            readable = " and ".join(map(str, READABLE))
            self._trouble = WorkError(
                f"the snapshot has format {manifest.format}, this version reads {readable}: {_REBUILD}"
            )
            return
        keys = (chunk_key(manifest.generation, number) for number in range(manifest.chunks))
        self._newest = manifest, [self._chunks.get(key) for key in keys]

    def newest(self) -> tuple[Manifest, Iterator[Any]] | None:
        """Return manifest and parts, or None if there is no snapshot; raises WorkError for a damaged one."""
        if self._trouble is not None:
            raise self._trouble
        if self._newest is None:
            return None
        manifest, stored = self._newest
        chunks = [chunk[0] for chunk in stored if chunk is not None and chunk[1] == manifest.generation]
        if len(chunks) < manifest.chunks:
            raise WorkError(f"the snapshot has {len(chunks)} of its {manifest.chunks} chunks: {_REBUILD}")
        state = b"".join(chunks)
        if len(state) != manifest.size or zlib.crc32(state) != manifest.checksum:
            raise WorkError(f"the snapshot's checksum is wrong: {_REBUILD}")
        return manifest, _parts(state)


def _parts(state: bytes) -> Iterator[Any]:
    view = memoryview(state)
    position = 0
    while position < len(view):
        length = int.from_bytes(view[position : position + 4], "big")
        position += 4
        yield msgspec.msgpack.decode(view[position : position + length])
        position += length


#: Seconds after which a shard that still has the turn no longer prevents others from writing. Its partition
#: may have no leader, for example.
_LONGEST_SECONDS = 300.0

#: Seconds without a request after which a shard counts as gone: shards ask several times a second.
_LATELY_SECONDS = 5.0


class SnapshotTurn:
    """The turn that the shards of a worker share, in the order in which they first ask for it.

    Any object can represent a shard (`who`); times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._holder: object = None
        self._since = -inf
        self._paused_until = -inf
        self._line: dict[object, float] = {}  # when each waiting shard last asked, in order of arrival
        self._space = Space()
        self._lock = Lock()  # for `space`, which the shards call in their own threads

    def ask(self, asker: object, now: float) -> bool:
        """Join the line unless `asker` has the turn; return whether `asker` may take the turn now."""
        if asker is self._holder:
            return False
        self._line[asker] = now
        for waiting in [waiting for waiting, asked in self._line.items() if now - asked > _LATELY_SECONDS]:
            del self._line[waiting]
        return self._is_free(now) and now >= self._paused_until and next(iter(self._line)) is asker

    def take(self, asker: object, now: float) -> bool:
        """Take the turn regardless of the line and of pauses; return False if another shard has it."""
        if not self._is_free(now):
            return False
        with self._lock:
            if self._holder is not None:
                self._space = Space()  # the previous holder's copy is still in the old memory
            self._holder, self._since = asker, now
        self._line.pop(asker, None)
        return True

    def pause(self, until: float) -> None:
        """Let all shards that ask wait until then."""
        self._paused_until = until

    def give(self, asker: object) -> None:
        """Give the turn back if `asker` has it; waiting shards keep their places."""
        if self._holder is asker:
            self._holder = None

    def space(self, asker: object, size: int) -> Space:
        """Return memory of `size` bytes, separate memory without the turn; blocks while it is allocated."""
        with self._lock:
            if self._holder is asker:
                if self._space.fits(size):
                    self._space.clear()
                    return self._space
                self._space = Space()  # free it before more is allocated
        new_space = Space(size)
        with self._lock:
            if self._holder is asker:
                self._space = new_space
        return new_space

    def _is_free(self, now: float) -> bool:
        return self._holder is None or now - self._since >= _LONGEST_SECONDS
