"""Creating topics, and every way in which existing ones may not fit."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prequential.topics.admin import TopicFound, check, create, misfits, partition_counts
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import topic_specs

SPECS = topic_specs(KafkaConfig())


def fitting() -> dict[str, TopicFound]:
    """Topics just as they should be."""
    return {spec.name: TopicFound(spec.partitions, spec.configs) for spec in SPECS}


def with_config(name: str, **configs: str) -> dict[str, TopicFound]:
    found = fitting()
    changed = {key.replace("_", "."): value for key, value in configs.items()}
    found[name] = replace(found[name], configs={**found[name].configs, **changed})
    return found


def with_partitions(**partitions: int) -> dict[str, TopicFound]:
    named = {name.replace("_", "-"): count for name, count in partitions.items()}
    return {
        name: replace(topic, partitions=named.get(name, topic.partitions))
        for name, topic in fitting().items()
    }


def test_topics_as_specified_fit() -> None:
    assert misfits(SPECS, fitting()) == []


def test_settings_that_are_not_reported_are_not_judged() -> None:
    assert misfits(SPECS, {name: replace(t, configs={}) for name, t in fitting().items()}) == []


def test_missing_topics_are_listed() -> None:
    found = fitting()
    del found["labels"], found["metrics"]
    assert misfits(SPECS, found) == [
        "topic 'labels' is missing: expected it with 4 partitions",
        "topic 'metrics' is missing: expected it with 4 partitions",
    ]


def test_inputs_with_different_numbers_of_partitions() -> None:
    found = with_partitions(predictions=8, **{"prequential_journal": 8, "prequential_snapshots": 8})
    assert misfits(SPECS, found) == [
        "the inputs' numbers of partitions differ: 'instances' has 4, 'predictions' has 8, "
        "'labels' has 4; expected the same for all"
    ]


@pytest.mark.parametrize("name", ["prequential-journal", "prequential-snapshots"])
def test_internal_topics_need_a_partition_for_each_shard(name: str) -> None:
    found = with_partitions(**{name.replace("-", "_"): 1})
    assert misfits(SPECS, found) == [
        f"topic '{name}' has 1 partition: expected 4, as many as the inputs (one for each shard)"
    ]


def test_a_configuration_that_says_otherwise_than_the_topics() -> None:
    found = {name: replace(topic, partitions=6) for name, topic in fitting().items()}
    assert misfits(SPECS, found) == [
        "the configuration says kafka.partitions: 4, but the inputs have 6 partitions each: "
        "expected the same number"
    ]


def test_outputs_may_have_any_number_of_partitions() -> None:
    assert misfits(SPECS, with_partitions(metrics=1, drift_alarms=2, dead_letters=9)) == []


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("labels", "compact", "delete"),
        ("prequential-journal", "compact,delete", "delete"),
        ("prequential-snapshots", "delete", "compact"),
    ],
)
def test_cleanup_policy(name: str, found: str, expected: str) -> None:
    assert misfits(SPECS, with_config(name, cleanup_policy=found)) == [
        f"topic '{name}' has cleanup.policy={found}: expected {expected}"
    ]


def test_client_timestamps() -> None:
    found = with_config("predictions", message_timestamp_type="CreateTime")
    assert misfits(SPECS, found) == [
        "topic 'predictions' has message.timestamp.type=CreateTime: expected LogAppendTime"
    ]


@pytest.mark.parametrize(
    ("inputs", "journal", "fits"),
    [
        ("1000", "999", False),
        ("1000", "1000", True),
        ("1000", "-1", True),
        ("-1", "1000", False),
        ("-1", "-1", True),
    ],
)
@pytest.mark.parametrize("key", ["retention.ms", "retention.bytes"])
def test_journal_is_kept_as_long_as_the_inputs(
    key: str, inputs: str, journal: str, fits: bool
) -> None:
    found = {
        spec.name: TopicFound(
            4, {key: inputs if spec.role == "input" else journal, "cleanup.policy": "delete"}
        )
        for spec in SPECS
        if spec.role in ("input", "journal")
    }
    specs = [spec for spec in SPECS if spec.name in found]
    expected = (
        f"topic 'prequential-journal' has {key}={journal}, but 'instances' has {key}={inputs}: "
        "expected the journal to be kept for as long as the inputs"
    )
    assert misfits(specs, found) == ([] if fits else [expected])


def test_sizes() -> None:
    found = with_config("prequential-snapshots", max_message_bytes="1048588")
    found["dead-letters"] = TopicFound(4, {"max.message.bytes": "1064960"})
    found["labels"] = TopicFound(4, {"max.message.bytes": "2000000"})
    assert misfits(SPECS, found) == [
        "topic 'prequential-snapshots' has max.message.bytes=1048588: expected at least 2097152",
        "topic 'dead-letters' has max.message.bytes=1064960: expected at least 2004096, "
        "so that it can take any record of the inputs with the reason",
    ]


def test_an_unreachable_broker_is_named() -> None:
    kafka = KafkaConfig("127.0.0.1:1")
    with pytest.raises(WorkError, match=r"no Kafka broker answered at 127\.0\.0\.1:1"):
        check(kafka, topic_specs(kafka), timeout=1.0)


@pytest.fixture
def cluster(kafka: Any) -> KafkaConfig:
    """A configuration whose topics nobody else uses."""
    return KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.", partitions=3)


@pytest.mark.kafka
def test_create_once_then_leave_alone(cluster: KafkaConfig) -> None:
    specs = topic_specs(cluster)
    names = tuple(spec.name for spec in specs)
    assert len(check(cluster, specs)) == len(specs)  # all missing
    first = create(cluster, specs)
    assert (first.created, first.existing, first.misfits) == (names, (), ())
    second = create(cluster, specs)
    assert (second.created, second.existing, second.misfits) == ((), names, ())
    assert check(cluster, specs) == []
    assert partition_counts(cluster, names) == dict.fromkeys(names, 3)


@pytest.mark.kafka
def test_what_exists_is_kept_and_decides_the_number_of_shards(cluster: KafkaConfig) -> None:
    admin = AdminClient(cluster.client())
    labels = cluster.topic("labels")
    new = NewTopic(labels, 5, 1, config={"cleanup.policy": "compact", "retention.ms": "-1"})
    admin.create_topics([new])[labels].result()
    while labels not in admin.list_topics().topics:  # a broker may know of it a moment later
        time.sleep(0.1)
    report = create(cluster, topic_specs(cluster))
    assert report.existing == (labels,)
    journal = cluster.topic("prequential-journal")
    kept = next(s.configs["retention.ms"] for s in topic_specs(cluster) if s.name == journal)
    assert list(report.misfits) == [
        "the configuration says kafka.partitions: 3, but the inputs have 5 partitions each: "
        "expected the same number",
        f"topic {labels!r} has cleanup.policy=compact: expected delete",
        f"topic {labels!r} has message.timestamp.type=CreateTime: expected LogAppendTime",
        f"topic {journal!r} has retention.ms={kept}, but {labels!r} has retention.ms=-1: "
        "expected the journal to be kept for as long as the inputs",
    ]


@pytest.mark.kafka
def test_what_the_cluster_refuses_is_said_once(cluster: KafkaConfig) -> None:
    kafka = replace(cluster, replication=3)
    with pytest.raises(WorkError, match="refused to create") as raised:
        create(kafka, topic_specs(kafka))
    assert str(raised.value).count("replication factor") == 1


@pytest.mark.kafka
def test_asking_for_topics_does_not_create_them(cluster: KafkaConfig) -> None:
    name = cluster.topic("labels")
    with pytest.raises(WorkError, match=f"no topic {name!r}"):
        partition_counts(cluster, [name])
    assert name not in AdminClient(cluster.client()).list_topics(timeout=10).topics
