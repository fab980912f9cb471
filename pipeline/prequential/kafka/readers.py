"""What has come of the partitions of one topic that a client reads, partition by partition.

librdkafka keeps fetched records in a queue for each partition. From there they are copied by a compiled loop
(`partition_queues`), at a tenth of what it costs to have an object of each; where that can't be, as objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import groupby
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from prequential.kafka.consumer_records import ConsumerRecords


class Failure(NamedTuple):
    """That a partition (-1: the client) can't be read on, from this offset."""

    partition: int
    offset: int
    error: KafkaError


class Run(NamedTuple):
    """What a look has brought of a partition."""

    partition: int
    #: None if it has brought nothing but where the partition ends.
    records: ConsumerRecords | None
    #: Where the partition ended when it was read to its end; None: there may be more at once.
    end: int | None


class Look(NamedTuple):
    """What a look at a topic has brought."""

    runs: list[Run]
    failures: list[Failure]
    #: Whether nothing was left.
    whole: bool


class Reader(ABC):
    """A client that reads partitions of one topic from offsets that it is told."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        self.topic = topic

    def open(self, partition: int, offset: int) -> None:
        """Begin to read a partition at an offset."""
        self.consumer.incremental_assign([TopicPartition(self.topic, partition, offset)])

    def close(self, partition: int) -> None:
        """Read a partition no more."""
        self.consumer.incremental_unassign([TopicPartition(self.topic, partition)])

    def pause(self, partition: int, on: bool) -> None:
        """Stop fetching a partition for a while, or go on."""
        (self.consumer.pause if on else self.consumer.resume)([TopicPartition(self.topic, partition)])

    @abstractmethod
    def look(self, most: int) -> Look:
        """What has come, at most about so many records; waits for nothing. In any thread."""

    @abstractmethod
    def release(self) -> None:
        """Hold nothing of the client any more, which is about to go."""

    def stop(self) -> None:
        """Close the client."""
        self.release()
        self.consumer.close()


class ObjectReader(Reader):
    """By the client's own messages."""

    def look(self, most: int) -> Look:
        """See `Reader`."""
        return sorted_out(self.consumer.consume(most, 0), most)

    def release(self) -> None:
        """There is nothing."""


def sorted_out(messages: list[Message], most: int) -> Look:
    """Messages of one topic, those of each partition together, as they came.

    At a quiet pace each of a partition's few records is followed by the news that this was the last one.
    """
    by_partition: dict[int, list[Message]] = {}
    for partition, run in groupby(messages, Message.partition):
        by_partition.setdefault(partition, []).extend(run)
    look = Look([], [], len(messages) < most)
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
            look.runs.append(Run(partition, ConsumerRecords.of(records) if records else None, end))
    return look


def failure_of(message: Message, error: KafkaError) -> Failure:
    """What a message says that is none."""
    partition = -1 if message.topic() is None else message.partition()
    return Failure(partition, message.offset(), error)
