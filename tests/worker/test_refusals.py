"""What a worker can't work with it says in one sentence, and ends with the contract's status."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from prequential.demo.broker import pick_port
from prequential.topics.admin import Misfits, check, present
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import COMPARISONS, INPUTS, JOURNAL, SNAPSHOTS, topic_specs
from processes import WorkerProcess, await_ready, eventually, prequential, write_config

from tests.brokers import Broker


def refusal(config: Path, *options: str) -> tuple[int, str]:
    """Exit status, and all that was said."""
    done = prequential("worker", "--config", config, *options, cwd=config.parent)
    return done.returncode, done.stdout + done.stderr


def test_missing_topics(kafka: Broker, tmp_path: Path) -> None:
    config = write_config(tmp_path, kafka.config(prefix="nowhere."))
    status, said = refusal(config)
    assert status == 1
    assert re.fullmatch(r"prequential: .*`prequential topics create` makes what is missing\n", said), said
    assert all(name in said for name in INPUTS)


def delete(cluster: KafkaConfig, *names: str) -> None:
    """Delete topics, and wait until the broker shows it."""
    admin = AdminClient(cluster.client())
    topics = [cluster.topic(name) for name in names]
    for done in admin.delete_topics(topics).values():
        done.result()
    eventually("the broker shows it", lambda: not present(cluster, topics))


def test_the_workers_own_topics_are_made_where_nobody_has(cluster: KafkaConfig, tmp_path: Path) -> None:
    """With as many partitions as the inputs have, whatever the configuration says."""
    delete(cluster, JOURNAL, SNAPSHOTS)
    with WorkerProcess(write_config(tmp_path, replace(cluster, partitions=7))) as worker:
        await_ready(worker)
        assert re.findall(r"created topic (\S+)", worker.log) == [
            cluster.topic(JOURNAL), cluster.topic(SNAPSHOTS),
        ]  # fmt: skip
    assert check(cluster, topic_specs(cluster)) == Misfits()


@pytest.mark.parametrize("more", [(), (JOURNAL, SNAPSHOTS)])
def test_topics_of_an_earlier_version_get_comparisons(
    cluster: KafkaConfig, tmp_path: Path, more: tuple[str, ...]
) -> None:
    delete(cluster, COMPARISONS, *more)
    with WorkerProcess(write_config(tmp_path, cluster)) as worker:
        await_ready(worker)
        found = re.findall(r"created topic (\S+)", worker.log)
        assert found == [cluster.topic(name) for name in (COMPARISONS, *more)]
    assert check(cluster, topic_specs(cluster)) == Misfits()


def test_a_lost_journal_is_not_replaced(cluster: KafkaConfig, tmp_path: Path) -> None:
    delete(cluster, JOURNAL)
    status, said = refusal(write_config(tmp_path, cluster))
    assert status == 1
    assert re.search(rf"prequential: no topic '{re.escape(cluster.topic(JOURNAL))}' at .*\n$", said), said


def test_inputs_that_differ_in_partitions(cluster: KafkaConfig, tmp_path: Path) -> None:
    labels = cluster.topic("labels")
    admin = AdminClient(cluster.client())
    admin.create_partitions([NewPartitions(labels, 5)])[labels].result()
    eventually(
        "the broker shows it",
        lambda: len(admin.list_topics(labels, timeout=10).topics[labels].partitions) == 5,
    )
    status, said = refusal(write_config(tmp_path, cluster))
    assert status == 1
    assert re.fullmatch(r"prequential: .*labels' has 5; expected the same for all.*\n", said), said


def test_times_of_producers_are_warned_of_at_the_start(cluster: KafkaConfig, tmp_path: Path) -> None:
    """It works, but by clocks that nobody here knows: said by the worker, not only by `topics check`."""
    labels = cluster.topic("labels")
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, labels, incremental_configs=[entry])
    admin = AdminClient(cluster.client())
    admin.incremental_alter_configs([resource])[resource].result()
    eventually("the broker shows it", lambda: check(cluster, topic_specs(cluster)).errors)
    with WorkerProcess(write_config(tmp_path, cluster)) as worker:
        await_ready(worker)
        [said] = [line for line in worker.log.splitlines() if "CreateTime" in line]
    assert re.search(
        rf" WARNING .*topic '{re.escape(labels)}' has message\.timestamp\.type=CreateTime: "
        r"expected LogAppendTime \(the clocks of producers decide .*\)$",
        said,
    ), said


@pytest.mark.slow
def test_no_broker(tmp_path: Path) -> None:
    port = pick_port()
    status, said = refusal(write_config(tmp_path, KafkaConfig(f"127.0.0.1:{port}")))
    assert status == 1
    assert re.fullmatch(
        rf"prequential: no Kafka broker answered at 127\.0\.0\.1:{port} within \d+ s: .+\n", said
    ), said


def test_a_taken_port(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        status, said = refusal(config, "--http", f"127.0.0.1:{worker.port}")
    assert status == 1
    assert re.fullmatch(rf"prequential: can't serve HTTP at .*:{worker.port}: .+\n", said), said


def test_a_wrong_configuration(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster, defaults={"label_horizn": "1d"})
    status, said = refusal(config)
    assert status == 2
    assert re.fullmatch(
        r"prequential: .*prequential\.yaml line 2: unknown key 'label_horizn' in defaults.*\n", said
    ), said


def test_a_setting_that_librdkafka_does_not_know(cluster: KafkaConfig, tmp_path: Path) -> None:
    kafka = replace(cluster, security={"no.such.setting": "1"})
    status, said = refusal(write_config(tmp_path, kafka))
    assert status == 2
    assert re.fullmatch(r"prequential: .*no\.such\.setting.*\n", said), said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    status, said = refusal(tmp_path / "none.yaml")
    assert status == 2
    assert re.fullmatch(r"prequential: .*none\.yaml.*No such file.*\n", said), said
