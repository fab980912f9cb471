"""What a shard has use for, as the fetcher is told: it reads no more than shards can buffer."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Final

from prequential.core.input.merge import OffsetVector
from prequential.core.shard import Shard
from prequential.kafka.fetching import Fetcher
from prequential.topics.specs import INPUTS

#: Records buffered of one topic that are plenty: some micro-batches, and they are still in the cache.
_PLENTY: Final = 16_000

#: Records buffered of one topic at which its fetching is held, and at which it goes on: where another
#: shard needs the topic, it is fetched for all, and some 100 MB bound what a shard buffers.
_HOLD: Final = 200_000
_RESUME: Final = 50_000

#: Seconds for which a topic wasn't read, since another shard has plenty of it, after which a shard that has
#: nothing of it wants it read: it can't know whether there is something.
_UNREAD_SECONDS: Final = 0.25


class BackPressure:
    """Tells the fetcher what a shard has plenty of, waits for, or can't take any more of."""

    def __init__(self, fetcher: Fetcher, partition: int, shard: Shard) -> None:
        self._fetcher, self._partition, self._shard = fetcher, partition, shard
        self._held = [False] * len(INPUTS)

    def say(self, ends: Sequence[int | None], settled: OffsetVector | None) -> None:
        """Say what there is use for now.

        `ends` of topics that were read to their end; `settled`: up to where the order is known already, so
        that the shard can't go on without all of it.
        """
        merge = self._shard.merge
        if settled is not None:
            blocked = [added < wanted for added, wanted in zip(merge.added, settled)]
        else:
            some, unread = any(merge.buffered), monotonic() - _UNREAD_SECONDS
            read_at = [self._fetcher.read_at(kind, self._partition) for kind in range(len(INPUTS))]
            blocked = [
                some and not buffered and (end is None or added > end or at < unread)
                for buffered, end, added, at in zip(merge.buffered, ends, merge.added, read_at)
            ]
        plenty = [buffered >= _PLENTY for buffered in merge.buffered]
        self._fetcher.demand(self._partition, plenty, blocked, list(merge.vector))

    def hold_if_full(self, kind: int) -> None:
        """Hold a topic of which so much is buffered."""
        if self._shard.merge.buffered[kind] > _HOLD:
            self._hold(kind, True)

    def resume(self) -> None:
        """Go on with topics of which little is left."""
        for kind, buffered in enumerate(self._shard.merge.buffered):
            if buffered < _RESUME:
                self._hold(kind, False)

    def release_for(self, vector: OffsetVector) -> None:
        """Go on with topics of which this offset vector needs more than is buffered otherwise."""
        for kind, added in enumerate(self._shard.merge.added):
            if added < vector[kind]:
                self._hold(kind, False)

    def _hold(self, kind: int, on: bool) -> None:
        if self._held[kind] != on:
            self._held[kind] = on
            self._fetcher.hold(kind, self._partition, on)
