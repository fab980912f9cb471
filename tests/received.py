"""What lies in a topic, and in which partition."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from prequential.topics.clients import KafkaConfig


class Received(NamedTuple):
    partition: int
    key: bytes
    value: bytes


def everything(kafka: KafkaConfig, topic: str, partitions: int) -> list[Received]:
    """All records of a topic, partition by partition."""
    consumer = Consumer(
        kafka.client(
            **{
                "group.id": "test",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
    )
    records = []
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        ended = 0
        while ended < partitions:
            message = consumer.poll(60)
            assert message is not None, "the broker fell silent"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
            else:
                records.append(Received(message.partition(), message.key(), message.value()))
    finally:
        consumer.close()
    return records
