"""Workers whose group has the `consumer` protocol, and a group that changes its protocol and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from comparison import assert_as_replayed, assert_published_once
from confluent_kafka import ConsumerGroupType
from prequential.configfile.reading.reader import load_config
from prequential.topics.admin import create
from prequential.topics.clients import CLASSIC, CONSUMER, KafkaConfig, connect
from prequential.topics.specs import topic_specs
from prequential.views.watching.group import read_group
from processes import HANGS, WorkerProcess, await_published, eventually, write_config
from workload import Feeder, records

from tests.brokers import launch
from tests.group_protocols import NEEDS_CONSUMER
from tests.skipping import or_skip

pytestmark = [pytest.mark.slow, NEEDS_CONSUMER]

#: Records a second of the stream that goes on meanwhile.
RATE = 200

EVERY_SHARD = {0, 1, 2, 3}


@pytest.fixture
def stream(cluster: KafkaConfig) -> Iterator[Feeder]:
    """A stream that goes on."""
    with Feeder(cluster, records(5, 10**9, 8), RATE) as feeder:
        yield feeder


def have_all(*workers: WorkerProcess) -> None:
    """Wait until each of these workers has shards, each shard has one of them, and all are ready."""

    def shared() -> bool:
        shards = [worker.shards() for worker in workers]
        together = sorted(number for numbers in shards for number in numbers)
        return together == sorted(EVERY_SHARD) and all(shards) and all(w.ready() for w in workers)

    eventually(f"{len(workers)} workers share the shards", shared)


def group_type(kafka: KafkaConfig, group: str) -> ConsumerGroupType:
    """The type of a group as the cluster shows it."""
    admin = connect(kafka)  # answers come only while there is a client
    answer = admin.list_consumer_groups().result(HANGS)
    [listed] = [listing for listing in answer.valid if listing.group_id == group]
    return listed.type


def assert_right(kafka: KafkaConfig, config: Path) -> None:
    """All was published once, and as a replay of the topics says."""
    assert_published_once(kafka)
    assert_as_replayed(kafka, config)


def test_workers_share_die_and_leave(cluster: KafkaConfig, stream: Feeder, tmp_path: Path) -> None:
    """Nothing is lost or doubled, and shards that stay are not disturbed."""
    kafka = replace(cluster, group_protocol=CONSUMER)
    config = write_config(tmp_path, kafka)
    with WorkerProcess(config) as first, WorkerProcess(config) as second:
        have_all(first, second)
        kept = second.shards()
        members = read_group(load_config(str(config))).members
        assert members is not None
        assert sorted(member.partitions for member in members) == [(0, 1), (2, 3)]
        first.kill()
        have_all(second)
        assert all(second.log.count(f"shard {number}: no snapshot") == 1 for number in kept)
        with WorkerProcess(config) as third:
            have_all(second, third)
            assert second.stop() == 0
            have_all(third)
            stream.stop()
            await_published(kafka, third)
            assert group_type(kafka, load_config(str(config)).group) == ConsumerGroupType.CONSUMER
            assert third.stop() == 0
    assert_right(kafka, config)


@pytest.mark.nightly
def test_brokers_without_the_protocol(tmp_path: Path) -> None:
    """As those before Apache Kafka 4.0; the worker says so in one sentence."""
    with or_skip():
        broker = launch("kafka", {"group.coordinator.rebalance.protocols": CLASSIC})
    with broker:
        kafka = broker.config(group_protocol=CONSUMER)
        create(kafka, topic_specs(kafka))
        with WorkerProcess(write_config(tmp_path, kafka)) as worker:
            assert worker.wait() == 1
            reason = "don't support it (Broker: API version not supported): expected Apache Kafka 4.0"
            assert reason in worker.log
            assert "Traceback" not in worker.log


def test_a_group_changes_its_protocol_and_back(cluster: KafkaConfig, stream: Feeder, tmp_path: Path) -> None:
    """One worker after the other is replaced, while records arrive."""
    configs = {}
    for protocol in (CLASSIC, CONSUMER):
        (tmp_path / protocol).mkdir()
        configs[protocol] = write_config(
            tmp_path / protocol, replace(cluster, group_protocol=protocol), worker={"session_timeout": "6s"}
        )
    group = load_config(str(configs[CLASSIC])).group
    workers = [WorkerProcess(configs[CLASSIC]) for _ in range(2)]
    try:
        have_all(*workers)
        assert group_type(cluster, group) == ConsumerGroupType.CLASSIC
        for protocol, kind in (
            (CONSUMER, ConsumerGroupType.CONSUMER), (CLASSIC, ConsumerGroupType.CLASSIC),
        ):  # fmt: skip
            for _ in range(2):
                former = workers.pop(0)
                assert former.stop() == 0, former.log
                workers.append(WorkerProcess(configs[protocol]))
                have_all(*workers)
            assert group_type(cluster, group) == kind
        stream.stop()
        await_published(cluster, *workers)
        for worker in workers:
            assert worker.stop() == 0, worker.log
    finally:
        for worker in workers:
            worker.kill()
    assert_right(cluster, configs[CLASSIC])


@pytest.mark.nightly
def test_a_name_is_free_after_the_session(
    cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After SIGTERM at once, after kill -9 with the session; of two with one name the second one waits."""
    monkeypatch.setenv("POD_NAME", "worker-0")
    kafka = replace(cluster, group_protocol=CONSUMER)
    config = write_config(tmp_path, kafka, worker={"instance_id": "env:POD_NAME"})
    with WorkerProcess(config) as first:
        have_all(first)
        assert first.stop() == 0
    with WorkerProcess(config) as second:
        have_all(second)
        assert "still has a member" not in second.log
        with WorkerProcess(config) as third:
            eventually("it waits", lambda: "still has a member with this worker.instance_id" in third.log)
            assert third.shards() == set()
            assert second.ready()
            second.kill()
            have_all(third)
            assert third.log.count("still has a member") == 1
            assert third.stop() == 0
