"""A topic as it is now, read once from a place in time to its present end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.topics import clients
from prequential.topics.admin import partition_counts
from prequential.topics.errors import WorkError
from prequential.topics.permissions import READ, require, why_unread

#: Records taken at once, and seconds to wait for them.
_BATCH_RECORDS = 5_000
_BATCH_SECONDS = 0.25

#: Seconds without any answer after which reading is given up.
_SILENCE_SECONDS = 30.0

#: Seconds before a partition that has no leader for a moment (as when it is new) is asked again.
_AGAIN_SECONDS = 0.2

_T = TypeVar("_T")


class TopicReader:
    """The committed records of a topic (its full name) that are there now, partition by partition in order.

    From its beginning, or from the first one that was written at `since` (epoch ms) or later; only the `last`
    ones of each partition, or fewer where there are gaps. Nothing is committed and no group is joined; the
    client is called `name` where Kafka asks for a group's name. Raises WorkError if the topic doesn't exist
    or can't be read.
    """

    def __init__(
        self, kafka: clients.KafkaConfig, topic: str, name: str, since: int | None = None,
        last: int | None = None,
    ) -> None:  # fmt: skip
        self._kafka, self._name = kafka, name
        self._trouble: str | None = None
        require(kafka, {topic: READ})
        count = partition_counts(kafka, [topic])[topic]
        with clients.plain_errors(kafka):
            settings = {**clients.READ_TO_END, **clients.READ_COMMITTED, "log_level": 0}
            self._consumer = clients.new_consumer(kafka, name, error_cb=self._note, **settings)
            self._topic_partitions: list[TopicPartition] = []
            self._ends: dict[int, int] = {}
            #: Whether no record has been removed from before the first one to read.
            self.is_whole = since is None and last is None
            for partition in range(count):
                self._add(TopicPartition(topic, partition), since, last)

    def _add(self, topic_partition: TopicPartition, since: int | None, last: int | None) -> None:
        low, high = watermarks(self._consumer, topic_partition)
        self.is_whole &= low == 0
        topic_partition.offset = (
            low if since is None else first_since(self._consumer, topic_partition, since, high)
        )
        if last is not None:
            topic_partition.offset = max(topic_partition.offset, high - last)
        if topic_partition.offset < high:
            self._topic_partitions.append(topic_partition)
            self._ends[topic_partition.partition] = high

    @property
    def size(self) -> int:
        """Offsets to read, over all partitions: of records, and of transactions' markers, which are none."""
        return sum(
            self._ends[topic_partition.partition] - topic_partition.offset
            for topic_partition in self._topic_partitions
        )

    def close(self) -> None:
        """Close the client; the reader can't be used after it."""
        self._consumer.close()

    def messages(self, progress: Callable[[int], None] = lambda offsets: None) -> Iterator[Message]:
        """The records, partition by partition in order, up to the ends that there were at the beginning.

        `progress` is called with the number of offsets passed since its last call. Raises WorkError for
        errors that don't pass, and if nothing came for 30 s.
        """
        passed = {
            topic_partition.partition: topic_partition.offset for topic_partition in self._topic_partitions
        }
        heard = monotonic()
        with clients.plain_errors(self._kafka):
            self._consumer.assign(self._topic_partitions)
            while passed:
                batch = self._consumer.consume(_BATCH_RECORDS, _BATCH_SECONDS)
                for message in batch:
                    if message.error() is None:
                        read = message.offset() + 1
                    elif self._is_end(message):
                        read = self._ends[message.partition()]
                    else:
                        continue
                    heard = monotonic()
                    partition = message.partition()
                    if partition not in passed:
                        continue  # it came after we began
                    end = self._ends[partition]
                    if message.error() is None and read <= end:
                        yield message
                    progress(min(read, end) - passed[partition])
                    passed[partition] = read
                    if read >= end:
                        del passed[partition]
                if monotonic() - heard > _SILENCE_SECONDS:
                    reason = self._trouble or "no answer"
                    raise WorkError(f"reading from {self._kafka.bootstrap_servers} stopped: {reason}")

    def _is_end(self, message: Message) -> bool:
        """Whether it says that a partition is read to its end; raises WorkError for what doesn't pass."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False  # librdkafka looks for the group's coordinator, which nobody here needs
        if not clients.is_temporary(error):
            topic = message.topic()
            raise WorkError(why_unread(self._kafka, error, topic, self._name, f"can't read {topic!r}"))
        self._note(error)
        return False

    def _note(self, error: KafkaError) -> None:
        self._trouble = error.str()


def watermarks(consumer: Consumer, topic_partition: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition, and the one that its next record gets.

    A partition without a leader for a moment is asked again for up to 10 s; then librdkafka's KafkaException
    is raised.
    """
    low, high = _ask_until_led(
        lambda: consumer.get_watermark_offsets(topic_partition, timeout=clients.REACH_SECONDS)
    )
    return low, high


def first_since(consumer: Consumer, topic_partition: TopicPartition, since: int, high: int) -> int:
    """The offset of the first record that was written at `since` (epoch ms) or later; `high` without one.

    Asked again, and raised, as in `watermarks`.
    """
    asked = TopicPartition(topic_partition.topic, topic_partition.partition, since)
    [answer] = _ask_until_led(lambda: consumer.offsets_for_times([asked], timeout=clients.REACH_SECONDS))
    return high if answer.offset in (-1, OFFSET_END) else int(answer.offset)


def _ask_until_led(ask: Callable[[], _T]) -> _T:
    """An answer; a partition that has no leader for a moment is asked again."""
    until = monotonic() + clients.REACH_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            cause = error.args[0]
            # Without a broker it has waited long enough already: who can wait longer says so.
            if cause.code() in clients.NO_BROKER or not clients.is_temporary(cause) or monotonic() > until:
                raise
            sleep(_AGAIN_SECONDS)
