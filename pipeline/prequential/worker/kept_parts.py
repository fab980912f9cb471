"""Parts of streams in all partitions while shards are replayed one after the other, until they are merged.

A part has all periods that aren't forgotten, and there is one for each `emit.every` of each partition: they
are kept as text, beyond some memory in files, and merged in order of time, so that few are needed at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from prequential.core.merging.merger import Merger
from prequential.settings.model import Config
from prequential.topics.outputs import Encoded
from prequential.topics.parts import Part, decode

#: Bytes of a partition's parts that are kept in memory.
_IN_MEMORY = 16_000_000


class KeptParts:
    """The parts of all partitions, which come in order of time from each."""

    def __init__(self) -> None:
        self._files: dict[int, SpooledTemporaryFile[bytes]] = {}

    def add(self, partition: int, json: bytes) -> None:
        """Keep a part of a partition, as it stands in the topic."""
        if partition not in self._files:
            self._files[partition] = SpooledTemporaryFile(_IN_MEMORY)
        self._files[partition].write(json + b"\n")

    def merged(self, config: Config) -> Iterator[Encoded]:
        """What is said of them together; the parts are gone then."""
        merger = Merger(config)
        own = [_read(file) for _, file in sorted(self._files.items())]
        for part in heapq.merge(*own, key=lambda one: one.since):
            yield from merger.add(part, 0)
        for file in self._files.values():
            file.close()
        self._files.clear()


def _read(file: SpooledTemporaryFile[bytes]) -> Iterator[Part]:
    file.seek(0)
    return map(decode, file)
