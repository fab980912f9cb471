"""The fetched records of one topic as columns, partition by partition.

A message is one record, or a batch of records (`runtime.kafka.message_values`). Each record is a row of the
columns, and the rows of a message share its offset, its time and its key.

librdkafka keeps fetched records in a queue for each partition. A compiled loop copies them from there
(`partition_queues`), at a tenth of the cost of an object for each record. Where the loop is not available,
`ObjectReader` reads the records as objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import NamedTuple, Union

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, Message, TopicPartition
from prequential.engine.compiled.kernel import Ints, Ints32
from prequential.runtime.kafka.message_values import records_of


class Original(NamedTuple):
    """A record as it was fetched, with the key of its message."""

    key: bytes | None
    value: bytes | None


#: Names and contents of a record's headers.
Headers = Sequence[tuple[str, Union[bytes, None]]]


class ConsumerRecords:
    """Records of one partition in order of offset, and within a message in its order."""

    __slots__ = (
        "_messages", "_places", "by_producer", "headers", "keys", "offsets", "reasons", "rows", "times",
        "values",
    )  # fmt: skip

    def __init__(
        self, offsets: Sequence[int], times: Ints, values: Sequence[bytes | None],
        keys: Sequence[bytes | None], *, by_producer: bool, headers: Mapping[int, Headers] | None = None,
    ) -> None:  # fmt: skip
        """Make the records of messages, which have these offsets, times, values, keys and headers."""
        #: By record: the offset of its message.
        self.offsets = offsets
        #: Kafka's timestamps, (n,) int64: epoch ms, or any number that a producer has set.
        self.times = times
        self.values = values
        #: By message.
        self.keys = keys
        #: Whether the first message's timestamp is from its producer.
        self.by_producer = by_producer
        #: The headers of records without a value, by the record's place.
        self.headers = headers or {}
        #: By record: its number in its message, or `WHOLE`, (n,) int32; None if all messages are records.
        self.rows: Ints32 | None = None
        #: Why messages are unreadable, by offset.
        self.reasons: dict[int, str] = {}
        self._messages = values
        self._places: Ints | None = None
        self._expand()

    def _expand(self) -> None:
        """Make a record of each row of the messages."""
        records = records_of(self.values)
        if records is None:
            return
        self._places, self.rows, self.values = records.messages, records.numbers, records.values
        self.reasons = {self.offsets[message]: why for message, why in records.reasons.items()}
        counts = np.bincount(records.messages, minlength=len(self.keys)).tolist()
        self.offsets = list(chain.from_iterable(map(repeat, self.offsets, counts)))
        self.times = self.times[records.messages]
        first_places = np.searchsorted(records.messages, list(self.headers)).tolist()
        self.headers = dict(zip(first_places, self.headers.values()))

    @classmethod
    def of(cls, messages: Sequence[Message]) -> ConsumerRecords:
        """Make records of messages without errors; there must be at least one message."""
        offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
        times = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, len(messages))
        values, keys = list(map(Message.value, messages)), list(map(Message.key, messages))
        by_producer = messages[0].timestamp()[0] == TIMESTAMP_CREATE_TIME
        headers = {
            index: messages[index].headers() or [] for index, value in enumerate(values) if value is None
        }
        return cls(consecutive(offsets), times, values, keys, by_producer=by_producer, headers=headers)

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, place: int) -> bytes | None:
        """The key of the message of the record at a place."""
        return self.keys[place if self._places is None else self._places[place]]

    def find(self, offset: int, row: int | None = None) -> Original | None:
        """The message at an offset, or one of its rows; None if it isn't among these."""
        place = bisect_left(self.offsets, offset)
        if place == len(self) or self.offsets[place] != offset:
            return None
        if row is not None:
            return Original(self.key(place), self.values[place + row])
        message = place if self._places is None else self._places[place]
        return Original(self.keys[message], self._messages[message])


def consecutive(offsets: Ints) -> Sequence[int]:
    """Offsets as a range, or as a list where compaction or transactions have left gaps."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets.tolist()


class Failure(NamedTuple):
    """An error that prevents reading a partition (-1: the client) from this offset on."""

    partition: int
    offset: int
    error: KafkaError


class PartitionRead(NamedTuple):
    """The result of one read for one partition."""

    partition: int
    #: None if the read found only the end of the partition.
    records: ConsumerRecords | None
    #: The partition's end offset if the read reached it; None: more records may be available at once.
    end: int | None


class TopicRead(NamedTuple):
    """The result of one read of a topic."""

    runs: list[PartitionRead]
    failures: list[Failure]
    #: Whether the read left no available records.
    whole: bool


def records_in(runs: Sequence[PartitionRead]) -> int:
    """Return the number of records of these reads."""
    return sum(len(run.records) for run in runs if run.records is not None)


#: Most bytes of a topic that one read takes, by the size of the messages of the reads before: a shard's
#: memory is many times that of its newest records.
MOST_BYTES = 4 << 20

#: Records that each message may have, until a read shows how many: the first read of a topic takes few
#: messages.
_UNREAD = 160


class PartitionReader(ABC):
    """A client that reads partitions of one topic from given offsets."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        self.topic = topic
        # Of a message, by the reads that returned messages: bytes of its value, and records.
        self._bytes_each, self._records_each = 1, _UNREAD

    def most_messages(self, most: int) -> int:
        """Return how many messages to read for about `most` records at most, and about `MOST_BYTES`."""
        return max(1, min(most // self._records_each, MOST_BYTES // self._bytes_each))

    def note_size(self, messages: int, size: int, records: int) -> None:
        """Note the bytes of the values of so many messages, at least one, and their records.

        Where messages of several sizes alternate, the large ones are remembered for some reads.
        """
        self._bytes_each = max(1, size // messages, self._bytes_each // 2)
        self._records_each = max(1, records // messages, self._records_each // 2)

    def open(self, partition: int, offset: int) -> None:
        """Begin to read a partition at an offset."""
        self.consumer.incremental_assign([TopicPartition(self.topic, partition, offset)])

    def close(self, partition: int) -> None:
        """Stop reading a partition."""
        self.consumer.incremental_unassign([TopicPartition(self.topic, partition)])

    def pause(self, partition: int, on: bool) -> None:
        """Pause the fetching of a partition, or resume it."""
        (self.consumer.pause if on else self.consumer.resume)([TopicPartition(self.topic, partition)])

    @abstractmethod
    def look(self, most: int) -> TopicRead:
        """Return about `most` available messages at most, without waiting; can be called in any thread."""

    @abstractmethod
    def release(self) -> None:
        """Free all resources of the client, before the client is closed."""

    def stop(self) -> None:
        """Close the client."""
        self.release()
        self.consumer.close()


class ObjectReader(PartitionReader):
    """Reads records as the client's own message objects."""

    def look(self, most: int) -> TopicRead:
        """See `PartitionReader`."""
        most = self.most_messages(most)
        messages = self.consumer.consume(most, 0)
        look = sorted_out(messages, most)
        if messages:
            size = sum(len(message.value() or b"") for message in messages)
            self.note_size(len(messages), size, records_in(look.runs))
        return look

    def release(self) -> None:
        """Do nothing: this reader has no resources of its own."""


def sorted_out(messages: list[Message], most: int) -> TopicRead:
    """Return the messages of one topic, grouped by partition in their order.

    While few records arrive, a message that reports the partition's end follows each record.
    """
    by_partition: dict[int, list[Message]] = {}
    for partition, run in groupby(messages, Message.partition):
        by_partition.setdefault(partition, []).extend(run)
    look = TopicRead([], [], len(messages) < most)
    for partition, of_partition in by_partition.items():
        records, end = [], None
        for message in of_partition:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                end = message.offset()
            else:
                look.failures.append(failure_of(message, error))
        if records or end is not None:
            look.runs.append(PartitionRead(partition, ConsumerRecords.of(records) if records else None, end))
    return look


def failure_of(message: Message, error: KafkaError) -> Failure:
    """Return the failure that an error message reports."""
    partition = -1 if message.topic() is None else message.partition()
    return Failure(partition, message.offset(), error)
