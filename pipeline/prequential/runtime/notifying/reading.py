"""Read topics for a webhook, as a consumer group that begins at the topics' current ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.runtime.kafka.fetching import new_member
from prequential.topics.admin import partition_counts
from prequential.topics.clients import (
    REACH_SECONDS,
    READ_COMMITTED,
    KafkaConfig,
    is_stranded,
    is_temporary,
    plain_errors,
    release_clients,
)
from prequential.topics.errors import WorkError
from prequential.topics.permissions import READ, refusal, require, to_join
from prequential.topics.reading import watermarks

log = logging.getLogger(__name__)

#: Seconds between checks whether to continue waiting.
LOOK_SECONDS = 0.25

#: Seconds between checks whether a client that receives no records has lost its brokers.
_WATCH_SECONDS = 30.0

#: Seconds without any record before the first of these checks.
_SILENT_SECONDS = 60.0

Place = tuple[str, int]


class RecordReader:
    """Returns the records that this process has to send, one after the other; `topics` are full names.

    `done` marks a record as finished. Until then the record's next reader, in any process, reads it again.
    Raises WorkError if a topic is missing or unreadable.
    """

    def __init__(self, kafka: KafkaConfig, group: str, session_timeout: int, topics: Sequence[str]) -> None:
        self._kafka, self._group, self._topics = kafka, group, list(topics)
        self._session_timeout = session_timeout
        require(kafka, dict.fromkeys(self._topics, READ))
        self._counts = partition_counts(kafka, self._topics)
        self._places: set[Place] = set()
        #: Records that arrived while another one was being sent.
        self._waiting: deque[Message] = deque()
        self._heard = self._watched = monotonic()
        #: Whether the group has assigned partitions to this process.
        self.assigned = False
        self._consumer = self._begin()

    def _begin(self) -> Consumer:
        settings = {
            "enable.auto.commit": True,  # of finished records, see `done`
            "enable.auto.offset.store": False,
            **READ_COMMITTED,  # `_assigned` sets the offsets of a new group
            "partition.assignment.strategy": "cooperative-sticky",
        }
        with plain_errors(self._kafka):
            consumer = new_member(self._kafka, self._group, self._session_timeout, **settings)
            consumer.subscribe(
                self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        return consumer

    @property
    def partitions(self) -> int:
        """Number of partitions that are assigned to this process."""
        return len(self._places)

    def next(self, seconds: float) -> Message | None:
        """Return the next record, or None if none arrives within so many seconds."""
        if not self._waiting:
            self._poll(seconds)
        return self._waiting.popleft() if self._waiting else None

    def wait(self, seconds: float, go_on: Callable[[], bool]) -> None:
        """Wait while `go_on` is true, and stay in the group; records that arrive are kept for `next`."""
        until = monotonic() + seconds
        with plain_errors(self._kafka):
            self._consumer.pause(self._consumer.assignment())
        while (left := until - monotonic()) > 0 and go_on():
            if self._poll(min(left, LOOK_SECONDS)):  # from a partition that was assigned meanwhile
                self._consumer.pause(self._consumer.assignment())
        with plain_errors(self._kafka):
            self._consumer.resume(self._consumer.assignment())

    def ours(self, message: Message) -> bool:
        """Whether a record's partition is still assigned to this process."""
        return (message.topic(), message.partition()) in self._places

    def done(self, message: Message, at_once: bool) -> None:
        """Mark a record, and all before it in its partition, as finished; commits this at once or soon."""
        try:
            self._consumer.store_offsets(message)
            if at_once:
                self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # Another process has the partition now, or no broker answers. The next commit includes this
            # record, or the record is sent once more.
            log.warning("committing: %s", error.args[0].str())

    def close(self) -> None:
        """Commit the finished records, and leave the group."""
        self._consumer.close()

    def _poll(self, seconds: float) -> bool:
        """Poll once; returns whether a record has arrived."""
        self._watch()
        with plain_errors(self._kafka):
            message = self._consumer.poll(seconds)
        if message is None:
            return False
        error = message.error()
        if error is None:
            self._heard = monotonic()
            self._waiting.append(message)
            return True
        if error.code() in _REFUSED:
            needed = to_join(self._group, self._topics, message.topic())
            where = f"can't read {', '.join(self._topics)} as group {self._group!r}"
            raise WorkError(refusal(self._kafka, error, *needed) or f"{where}: {error.str()}")
        if not is_temporary(error):
            log.warning("Kafka: %s", error.str())
        return False

    def _watch(self) -> None:
        """Replace a client that has permanently lost its brokers (`clients.is_stranded`)."""
        now = monotonic()
        if now - self._heard < _SILENT_SECONDS or now - self._watched < _WATCH_SECONDS:
            return
        try:
            partition_counts(self._kafka, self._topics)
            if is_stranded(self._consumer, self._topics[0]):
                log.warning("the client has lost its brokers, though they answer: replacing the client")
                release_clients([self._consumer])
                self._places.clear()
                self._waiting.clear()
                self.assigned = False
                self._consumer = self._begin()
        except WorkError as why:  # the cluster may be back at the next check
            log.warning("checking the topics: %s", why)
        self._watched = monotonic()

    # ---- called from within `poll`

    def _assigned(self, consumer: Consumer, new: list[TopicPartition]) -> None:
        """Begin at the group's committed offsets; a new group begins at the current ends of the partitions.

        A new group commits these ends at once. So the process later sends messages that are written while it
        is down. If a topic that the group reads gets a new partition, the process reads the partition from
        its beginning.
        """
        if new:
            every = [
                TopicPartition(topic, number)
                for topic in {one.topic for one in new}
                for number in range(max(self._counts[topic], 1 + max(_of(topic, new))))
            ]
            committed = {
                (one.topic, one.partition): one.offset
                for one in consumer.committed(every, timeout=REACH_SECONDS)
                if one.offset >= 0
            }
            known, begun = {topic for topic, _ in committed}, []
            for one in new:
                if (one.topic, one.partition) in committed:
                    one.offset = committed[one.topic, one.partition]
                else:
                    low, high = watermarks(consumer, one)
                    one.offset = low if one.topic in known else high
                    begun.append(one)
            consumer.incremental_assign(new)
            if begun:
                consumer.commit(offsets=begun, asynchronous=False)
        self._places |= {(one.topic, one.partition) for one in new}
        self.assigned = True
        log.info("partitions of this process: %s", sorted(self._places) or "none")

    def _revoked(self, _: Consumer, gone: list[TopicPartition]) -> None:
        self._places -= {(one.topic, one.partition) for one in gone}
        self._waiting = deque(one for one in self._waiting if self.ours(one))


#: Errors that do not disappear by waiting.
_REFUSED = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._FATAL,
     KafkaError._AUTHENTICATION}
)  # fmt: skip


def _of(topic: str, places: list[TopicPartition]) -> list[int]:
    return [one.partition for one in places if one.topic == topic]
