"""Messages for archives, and what is in one by a plain loop over its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
from confluent_kafka import Producer, TopicPartition
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.encoding import encode, identity
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics

DAY = 86_400_000
START = 1_700_000_000_000


def metrics(number: int, day: int = 0, **fields: Any) -> bytes:
    """A message whose id is a function of `number`."""
    return encode(
        Metrics(
            identity("m", number), fields.pop("stream", "elec2"), 0, "nb", None, "final", "window:1000", 1000,
            number, START + day * DAY + number, {"accuracy": number / 1e6, "kappa": 1.0},
            {"f1": "no_positive_class"}, {"late": number}, "5e0c", **fields,
        )
    )  # fmt: skip


def alarm(number: int, day: int = 0) -> bytes:
    return encode(
        Alarm(
            identity("a", number), "elec2", 0, "nb", None, "final", "page-hinkley", "error", number,
            f"i{number}", START + day * DAY, 50.3, 50.0, {"delta": 0.005, "two-sided": False, "side": "up"},
        )
    )  # fmt: skip


def comparison(number: int, day: int = 0) -> bytes:
    return encode(
        Comparison(
            identity("c", number), "elec2", 0, "nb", "tree", None, "final", "all", "error", 9, number,
            START + day * DAY, {"difference": 0.1, "n01": 3}, {}, (-0.1, 0.2), 0.025, 1, "undecided", None,
            "5e0c", recent={"verdict": "undecided", "since": None},
        )
    )  # fmt: skip


def incident(number: int, revision: int, day: int = 0, status: str = "open") -> bytes:
    return encode(
        Incident(
            identity("i", number), "elec2", 0, "nb", revision, status, None, "final",
            {"outcome": 9, "ts": START}, {"outcome": 5, "ts": START - 9}, ["a1"], 1, [{"detector": "adwin"}],
            0.4, {"level": 0.1, "interval": [0.0, 0.2], "n": 5},
            {"level": 0.3, "interval": [0.2, 0.4], "n": 4}, [{"cause": "concept", "share": 1.0}], {},
            ["i7"], {"alarms": 0, "outcomes": 9},
            9 + revision, START + day * DAY, "5e0c",
        )
    )  # fmt: skip


def publish(kafka: KafkaConfig, topic: str, values: Iterable[bytes], *, abort: bool = False) -> None:
    """In a transaction, as workers do; to the partitions in turn."""
    producer = Producer(kafka.client(**{"transactional.id": uuid4().hex}))
    producer.init_transactions(60)
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(kafka.topic(topic), value, b"elec2", number % kafka.partitions)
        producer.poll(0)
    if abort:
        producer.flush(60)
        producer.abort_transaction(60)
    else:
        producer.commit_transaction(60)


def delete(cluster: KafkaConfig, ends: dict[int, int]) -> None:
    """Delete the records of partitions of the metrics up to these offsets, as retention does."""
    admin, topic = connect(cluster), cluster.topic("metrics")
    for future in admin.delete_records([TopicPartition(topic, *place) for place in ends.items()]).values():
        future.result(60)


def rows(archive: Path, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Day and cells of each row of a topic."""
    for path in sorted((archive / topic).glob("*/*.parquet")):
        for cells in pq.ParquetFile(path).read().to_pylist():
            yield path.parent.name.removeprefix("date="), cells


def ids(archive: Path, topic: str) -> list[str]:
    return [cells["id"] for _, cells in rows(archive, topic)]


def ids_of(values: Iterable[bytes]) -> list[str]:
    return [json.loads(value)["id"] for value in values]
