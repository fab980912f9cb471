"""Commit the offsets up to which outputs are published, for lag monitors and `prequential status`.

Recovery does not use them: a shard restores its offsets from its snapshot and its journal. So a refused
commit is logged, and nothing else. The offsets never exceed what is published, and follow it within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prequential.topics.progress import progress_note
from prequential.topics.wall_clock import now_ms

log = logging.getLogger(__name__)

#: Seconds between two commits (the default of Kafka's own consumers), and seconds after which unchanged
#: offsets are committed again: a previous owner's late commit may have replaced them.
_EVERY_SECONDS, _REPEAT_SECONDS = 5.0, 60.0


class _Published(NamedTuple):
    """The next offsets of a shard's inputs whose outputs are all published, and when (epoch ms)."""

    offsets: tuple[int, ...]
    at: int


class CommittedProgress:
    """The published offsets of the shards of one process, committed in one request every few seconds.

    `topics` are the input topics (full names). The `member` that commits belongs to the workers' group, and
    calls `answered` with the result of each commit.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        #: By partition: the newest published offsets, and those that were committed last.
        self._published: dict[int, _Published] = {}
        self._committed: dict[int, tuple[int, ...]] = {}
        self._commit_at = self._repeat_at = 0.0
        self._is_refused = False

    def note(self, partition: int, offsets: Iterable[int]) -> None:
        """Note the next offsets of a shard, below which all outputs are published."""
        self._published[partition] = _Published(tuple(offsets), now_ms())

    def close(self, member: Any, partition: int) -> None:
        """Commit a shard's offsets: from now on another worker may commit those of its partition."""
        self._send(member, [partition])
        self._published.pop(partition, None)
        self._committed.pop(partition, None)

    def commit_if_due(self, member: Any, now: float) -> None:
        """Commit what has changed, every few seconds; `now` is in monotonic seconds."""
        if now < self._commit_at:
            return
        self._commit_at = now + _EVERY_SECONDS
        if now >= self._repeat_at:
            self._repeat_at = now + _REPEAT_SECONDS
            self._committed.clear()
        self.commit(member)

    def commit(self, member: Any) -> None:
        """Commit what has changed since the last commit, without waiting for the answer."""
        self._send(member, list(self._published))

    def answered(self, error: object, parts: Sequence[TopicPartition] = ()) -> None:
        """Take the answer to a commit; a refused one is tried again with the next, and logged once."""
        error = error or next((part.error for part in parts if part.error is not None), None)
        if error is None:
            self._is_refused = False
            return
        self._committed.clear()
        if isinstance(error, KafkaError) and error.code() == KafkaError.STALE_MEMBER_EPOCH:
            return  # the group has changed since the client's last heartbeat: the next commit works
        log.log(
            logging.DEBUG if self._is_refused else logging.WARNING,
            "offsets for lag monitors are not committed, evaluation goes on: %s", error,
        )  # fmt: skip
        self._is_refused = True

    def _send(self, member: Any, partitions: Iterable[int]) -> None:
        parts = []
        for partition in partitions:
            published = self._published.get(partition)
            if published is not None and published.offsets != self._committed.get(partition):
                self._committed[partition] = published.offsets
                note = progress_note(published.at)
                parts += [
                    TopicPartition(topic, partition, offset, metadata=note)
                    for topic, offset in zip(self._topics, published.offsets)
                ]
        if not parts:
            return
        try:
            member.commit(offsets=parts, asynchronous=True)
        except (KafkaException, RuntimeError) as error:  # the second: the client is closed
            self.answered(error)
