"""The page on one person's data: where an ID is, and that deleting records removes it and stops no worker."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from prequential.configfile.reading.reader import load_config
from prequential.runtime.worker.recovery import read_known
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer
from prequential.topics.reading import watermarks
from prequential.topics.specs import DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS, INPUTS
from processes import WorkerProcess, await_published, await_ready, outputs, read_topic, reader, write_config

_PERSON, _HOUR = "person-4711", 3_600_000


def send(cluster: KafkaConfig, start: int, count: int, name: str) -> None:
    """Predictions with right labels, a minute apart."""
    with StreamProducer(cluster) as producer:
        for number in range(count):
            ts = start + 60_000 * number
            instance = name if not number else f"{name}-{start}-{number}"
            producer.prediction("orders", "m", instance, "ok", ts=ts)
            producer.label("orders", instance, "ok", ts=ts + 1_000)


def is_in_state(config: Path, cluster: KafkaConfig) -> bool:
    """Whether the person's ID is in the newest snapshot of any shard."""
    settings = load_config(config)
    parts = [
        part
        for partition in range(cluster.partitions)
        for part in read_known(settings, partition, None, rebuild=False, stopped=lambda: False).parts
    ]
    assert parts
    return any(_PERSON.encode() in msgspec.msgpack.encode(part) for part in parts)


def topics_with_id(cluster: KafkaConfig) -> set[str]:
    """The topics (other than snapshots) of which a record has the person's ID."""
    names = (*INPUTS, "metrics", "comparisons", DRIFT_ALARMS, INCIDENTS, DEAD_LETTERS)
    return {
        name for name in names
        if any(_PERSON.encode() in (message.value() or b"") for message in read_topic(cluster, name))
    }  # fmt: skip


def delete_records(cluster: KafkaConfig, *names: str) -> None:
    """As Kafka's tool does, all that is there."""
    parts = []
    for name in names:
        with reader(cluster, name) as (consumer, all_parts):
            ends = [watermarks(consumer, part)[1] for part in all_parts]
        parts += [
            TopicPartition(part.topic, part.partition, end) for part, end in zip(all_parts, ends) if end
        ]
    admin = AdminClient(cluster.client())  # it must live as long as its answers
    for done in admin.delete_records(parts).values():
        done.result(60)


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_an_id_leaves_state_after_two_horizons_and_topics_by_deleting(
    cluster: KafkaConfig, tmp_path: Path
) -> None:
    defaults = {"label_horizon": "1h", "settle": "1m", "emit": {"outcomes": 10, "every": None}}
    config = write_config(tmp_path, cluster, defaults=defaults)
    start = int(time.time() * 1_000) - 6 * _HOUR
    send(cluster, start, 2, _PERSON)
    with StreamProducer(cluster) as producer:
        producer.prediction("orders", "m", _PERSON + "-pending", "ok", ts=start)
        invalid = b'{"stream": "orders", "instance_id": "%b"}' % _PERSON.encode()
        producer.send("labels", b"orders", invalid)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    assert is_in_state(config, cluster)  # its prediction is pending
    assert topics_with_id(cluster) == {"predictions", "labels", DEAD_LETTERS}
    send(cluster, start + 2 * _HOUR, 20, "other")  # the pending prediction expires
    send(cluster, start + 4 * _HOUR, 20, "another")  # a horizon later it is forgotten
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    assert not is_in_state(config, cluster)
    delete_records(cluster, *INPUTS, DEAD_LETTERS)
    assert topics_with_id(cluster) == set()
    send(cluster, start + 5 * _HOUR, 20, "later")
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
        assert "halted" not in worker.log
    assert max(message["outcomes"] for message in outputs(cluster, "metrics")) == 60  # of 62, every 10th
