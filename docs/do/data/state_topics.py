"""Back up the state topics of an installation into a file, and restore them.

    python3 state_topics.py backup prequential.yaml state.jsonl.gz
    python3 state_topics.py restore prequential.yaml state.jsonl.gz

A backup may run while workers run. `restore` writes only into topics without records; stop all workers before it.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from prequential.configfile.reading.reader import load_config
from prequential.topics.clients import KafkaConfig

#: Snapshots first: the journal must have all entries after the newest snapshot.
STATE_TOPICS = ("prequential-snapshots", "prequential-journal")


def encoded(data: bytes | None) -> str | None:
    """Return bytes as text."""
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    """Return the bytes of a text of `encoded`."""
    return None if text is None else base64.b64decode(text)


def consumer_of(kafka: KafkaConfig) -> Consumer:
    """Return a client that reads committed records, and joins no group."""
    settings = {
        "group.id": "prequential-read", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    }  # fmt: skip
    return Consumer(kafka.client(**settings))


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, each at its start."""
    metadata = consumer.list_topics(topic, timeout=30.0).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [TopicPartition(topic, partition, 0) for partition in sorted(metadata.partitions)]


def records_of(consumer: Consumer, part: TopicPartition) -> Iterator[Message]:
    """Yield the records of a partition up to its present end."""
    consumer.assign([part])
    while (message := consumer.poll(60.0)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
    sys.exit(f"{part.topic}/{part.partition}: nothing came for 60 s")


def back_up(kafka: KafkaConfig, path: str) -> None:
    """Write all records of the state topics to a file."""
    with closing(consumer_of(kafka)) as consumer, gzip.open(path, "wt", encoding="utf-8") as file:
        for name in STATE_TOPICS:
            count = 0
            for part in partitions_of(consumer, kafka.topic(name)):
                for message in records_of(consumer, part):
                    headers = [[key, encoded(value)] for key, value in message.headers() or ()]
                    record: dict[str, Any] = {
                        "topic": name, "partition": part.partition, "headers": headers,
                        "key": encoded(message.key()), "value": encoded(message.value()),
                    }  # fmt: skip
                    file.write(json.dumps(record) + "\n")
                    count += 1
            print(f"{kafka.topic(name)}: {count:,} records")


def restore(kafka: KafkaConfig, path: str) -> None:
    """Write the records of a file into those state topics that have none."""
    with closing(consumer_of(kafka)) as consumer:
        filled = {
            name for name in STATE_TOPICS
            for part in partitions_of(consumer, kafka.topic(name))
            if consumer.get_watermark_offsets(part, timeout=30.0)[1] > 0
        }  # fmt: skip
    failures: list[KafkaError] = []
    counts = dict.fromkeys(STATE_TOPICS, 0)
    producer = Producer(kafka.client(**{"enable.idempotence": True}))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            name = record["topic"]
            if name in filled:
                continue
            producer.produce(
                kafka.topic(name), partition=record["partition"],
                key=decoded(record["key"]), value=decoded(record["value"]),
                headers=[(key, decoded(value)) for key, value in record["headers"]],
                on_delivery=lambda error, _: failures.append(error) if error is not None else None,
            )  # fmt: skip
            counts[name] += 1
            if counts[name] % 20 == 0:  # chunks of snapshots are large: do not fill the client's queue
                producer.flush()
    producer.flush()
    if failures:
        raise KafkaException(failures[0])
    for name in STATE_TOPICS:
        done = "left as it is, because it has records" if name in filled else f"{counts[name]:,} records"
        print(f"{kafka.topic(name)}: {done}")


if __name__ == "__main__":
    command, config, file_path = sys.argv[1:]
    {"backup": back_up, "restore": restore}[command](load_config(config).kafka, file_path)
