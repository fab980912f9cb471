"""Processes of `prequential ingest`, sources for them, and what they have written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Message
from confluent_kafka.admin import NewTopic
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.producer import RecordProducer

from tests.created_topics import create_topics
from tests.worker.processes import WorkerProcess, read_topic

#: Milliseconds after which a process that was killed is missed, and its transaction aborted.
SESSION = "3s"


def create_sources(kafka: KafkaConfig, **partitions: int) -> dict[str, str]:
    """Topics with so many partitions, nobody else's; their full names by short ones."""
    names = {name: f"src-{kafka.prefix}{name}" for name in partitions}
    topics = [NewTopic(names[name], number, 1) for name, number in partitions.items()]
    create_topics(connect(kafka), topics)
    return names


def write_config(folder: Path, kafka: KafkaConfig, ingest: Mapping[str, Any], /, **sections: Any) -> Path:
    """A configuration file for processes of one group, which is named after the topics' prefix.

    They may take long to stop: of a machine that does other things besides.
    """
    cluster = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "prefix": kafka.prefix,
        "security": dict(kafka.security),
        "group_protocol": kafka.group_protocol,
        **sections.pop("kafka", {}),
    }
    worker = {"session_timeout": SESSION, "stop_within": "90s"}
    # Tests run next to each other: each process takes a free port.
    content = {"kafka": cluster, "worker": worker, "http": {"port": 0}, "ingest": dict(ingest), **sections}
    path = folder / "ingest.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def produce(kafka: KafkaConfig, topic: str, records: Iterable[tuple[bytes | None, Any]]) -> None:
    """Write records to a topic (its full name): values that aren't bytes or None as JSON."""
    plain = KafkaConfig(kafka.bootstrap_servers, security=kafka.security)
    with RecordProducer(plain) as producer:
        for key, value in records:
            is_bytes = value is None or isinstance(value, bytes)
            producer.send(topic, key, value if is_bytes else json.dumps(value).encode())


class IngestProcess(WorkerProcess):
    """A process of `ingest`; it is killed when the `with` block ends, if it still runs then."""

    command = "ingest"


def written(kafka: KafkaConfig, topic: str) -> list[tuple[int, bytes, dict[str, Any]]]:
    """Partition, key and value of all messages of an input, partition by partition in order."""
    return [
        (message.partition(), message.key(), json.loads(message.value()))
        for message in read_topic(kafka, topic)
    ]


def headers(message: Message) -> dict[str, str]:
    """The headers of a dead letter."""
    return {name: content.decode() for name, content in message.headers()}
