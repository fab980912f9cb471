"""What a shard tells the fetcher that it needs, or can't buffer any more."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Final

from prequential.engine.input.merge import OffsetVector
from prequential.engine.shard import Shard
from prequential.runtime.kafka.fetching import Fetcher
from prequential.topics.specs import INPUTS

#: Numbers of buffered records at which fetching of a topic is paused, and at which it resumes. If another
#: shard needs the topic, it is fetched for all shards; these numbers limit a shard's buffer to about 100 MB.
_HOLD: Final = 200_000

_RESUME: Final = 50_000

#: Seconds after which a shard without records of a topic asks for the topic to be read, if it was not read
#: because another shard has enough of it. The shard cannot know whether there are records for it.
_UNREAD_SECONDS: Final = 0.25


class BackPressure:
    """Reports to the fetcher how much of each topic a shard has, waits for, or can't buffer any more."""

    def __init__(self, fetcher: Fetcher, partition: int, shard: Shard) -> None:
        self._fetcher, self._partition, self._shard = fetcher, partition, shard
        self._held = [False] * len(INPUTS)

    def say(self, ends: Sequence[int | None], settled: OffsetVector | None, enough: int) -> None:
        """Report to the fetcher which topics the shard needs now.

        `ends` are the offsets of topics that were read to their end. `settled` is the offset vector up to
        which the order is already known; the shard needs all records below it to go on. `enough` is the
        number of records of a topic that it needs in advance.
        """
        merge = self._shard.merge
        if settled is not None:
            blocked = [added < wanted for added, wanted in zip(merge.added, settled)]
        else:
            any_buffered, unread = any(merge.buffered), monotonic() - _UNREAD_SECONDS
            read_at = [self._fetcher.read_at(kind, self._partition) for kind in range(len(INPUTS))]
            blocked = [
                any_buffered and not buffered and (end is None or added > end or topic_read_at < unread)
                for buffered, end, added, topic_read_at in zip(merge.buffered, ends, merge.added, read_at)
            ]
        self._fetcher.demand(self._partition, list(merge.buffered), enough, blocked, list(merge.vector))

    def hold_if_full(self, kind: int) -> None:
        """Pause fetching of a topic if too many of its records are buffered."""
        if self._shard.merge.buffered[kind] > _HOLD:
            self._hold(kind, True)

    def resume(self) -> None:
        """Resume fetching of topics of which few records are left."""
        for kind, buffered in enumerate(self._shard.merge.buffered):
            if buffered < _RESUME:
                self._hold(kind, False)

    def release_for(self, vector: OffsetVector) -> None:
        """Resume fetching of topics of which this offset vector needs more records than have arrived."""
        for kind, added in enumerate(self._shard.merge.added):
            if added < vector[kind]:
                self._hold(kind, False)

    def _hold(self, kind: int, on: bool) -> None:
        if self._held[kind] != on:
            self._held[kind] = on
            self._fetcher.hold(kind, self._partition, on)
