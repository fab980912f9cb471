"""Keeps the parts of streams in all partitions until they are merged, while shards are replayed one by one.

A part contains all periods that are not forgotten, and each partition has one part for every `emit.every`.
The parts are kept as text, in files once they exceed a limit of memory. They are merged in order of time, so
only a few are decoded at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from prequential.configuration.settings.model import Config
from prequential.engine.merging.merger import Merger
from prequential.topics.outputs import Encoded
from prequential.topics.parts import Part, decode

#: Most bytes of a partition's parts that are kept in memory.
_IN_MEMORY = 16_000_000


class KeptParts:
    """The parts of all partitions, in order of time within each partition."""

    def __init__(self) -> None:
        self._files: dict[int, SpooledTemporaryFile[bytes]] = {}

    def add(self, partition: int, json: bytes) -> None:
        """Keep a part of a partition, in the form that it has in the topic."""
        if partition not in self._files:
            self._files[partition] = SpooledTemporaryFile(_IN_MEMORY)
        self._files[partition].write(json + b"\n")

    def merged(self, config: Config) -> Iterator[Encoded]:
        """Yield the merged messages, then delete the parts."""
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
