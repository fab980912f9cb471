"""Inputs written in transactions: markers, and what was aborted, have offsets but are no records."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from comparison import assert_as_replayed, assert_published_once
from confluent_kafka import Producer, TopicPartition
from prequential.topics.admin import connect
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS
from processes import (
    HANGS,
    WorkerProcess,
    await_markers,
    await_ready,
    ends,
    eventually,
    outputs,
    write_config,
)
from workload import Record, records


def send(kafka: KafkaConfig, messages: Iterable[Record]) -> None:
    """Some records in each transaction, some of which are tried and aborted first."""
    rng = random.Random(3)
    producer = Producer(
        kafka.client(**{"transactional.id": f"{kafka.prefix}upstream", "partitioner": "murmur2_random"})
    )
    producer.init_transactions(HANGS)
    waiting = list(messages)
    while waiting:
        part, aborted = waiting[: rng.randrange(1, 400)], rng.random() < 0.2
        producer.begin_transaction()
        for topic, key, value in part:
            producer.produce(kafka.topic(topic), value, key)
        producer.flush(HANGS)
        if aborted:
            producer.abort_transaction(HANGS)
        else:
            producer.commit_transaction(HANGS)
            del waiting[: len(part)]
    for topic in INPUTS:
        await_markers(kafka, topic)


def work(config: Path, wanted: int, kafka: KafkaConfig) -> None:
    """A worker publishes all there is; nothing is behind then."""
    with WorkerProcess(config) as worker:
        await_ready(worker)

        def done() -> bool:
            samples = worker.metrics()
            lags = samples.get("prequential_lag_records", {}).values()
            fetched = sum(samples["prequential_records_total"].values())
            return fetched == wanted and len(lags) == len(INPUTS) * kafka.partitions and not any(lags)

        eventually("all is processed", done)
        assert worker.stop() == 0, worker.log


def remove(kafka: KafkaConfig) -> None:
    """All that is in the inputs, as retention does it where nothing has come for long."""
    parts = [
        TopicPartition(kafka.topic(topic), partition, end)
        for partition, shard in enumerate(ends(kafka))
        for topic, end in zip(INPUTS, shard, strict=True)
    ]
    admin = connect(kafka)
    for removed in admin.delete_records(parts).values():
        removed.result(HANGS)


@pytest.mark.nightly
def test_topics_that_retention_has_emptied(cluster: KafkaConfig, tmp_path: Path) -> None:
    """All was read, so nothing is missing: the next worker goes on, though even the last offset is gone."""
    config = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 10, "every": None}})
    everything = list(records(5, 600, 8))
    half = len(everything) // 2
    send(cluster, everything[:half])
    work(config, half, cluster)
    before = outputs(cluster, "metrics")
    assert len(before) > 20
    assert_as_replayed(cluster, config)
    remove(cluster)
    work(config, 0, cluster)
    send(cluster, everything[half:])
    work(config, len(everything) - half, cluster)
    assert_published_once(cluster)
    after = outputs(cluster, "metrics")
    assert len(after) > 2 * len(before) - 20
