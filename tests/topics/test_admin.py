"""Creating topics, and every way in which existing ones may not fit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from threading import Timer
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from prequential.demo.broker import EmbeddedBroker, pick_port
from prequential.topics import admin
from prequential.topics.admin import (
    Misfits,
    TopicFound,
    check,
    create,
    find,
    misfits,
    partition_counts,
    partition_errors,
    present,
)
from prequential.topics.clients import REACH_SECONDS, KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import TopicSpec, topic_specs

from tests.created_topics import create_topics

SPECS = topic_specs(KafkaConfig())


def fitting(specs: Sequence[TopicSpec] = SPECS) -> dict[str, TopicFound]:
    """Topics just as they should be."""
    return {spec.name: TopicFound(spec.partitions, spec.configs, spec.replication) for spec in specs}


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
    assert misfits(SPECS, fitting()) == Misfits()
    replicated = topic_specs(KafkaConfig(replication=3))
    assert misfits(replicated, fitting(replicated)) == Misfits()


def test_what_is_not_reported_is_not_judged() -> None:
    found = {name: replace(topic, configs={}, replicas=None) for name, topic in fitting().items()}
    assert misfits(SPECS, found) == Misfits()


def test_missing_topics_are_listed() -> None:
    found = fitting()
    del found["labels"], found["metrics"]
    assert misfits(SPECS, found).errors == (
        "topic 'labels' is missing: expected it with 4 partitions",
        "topic 'metrics' is missing: expected it with 4 partitions",
    )


def test_inputs_with_different_numbers_of_partitions() -> None:
    found = with_partitions(predictions=8, prequential_journal=8, metrics=1)
    assert misfits(SPECS, found) == Misfits(
        errors=(
            "the inputs' numbers of partitions differ: 'instances' has 4, 'predictions' has 8, "
            "'labels' has 4; expected the same for all",
            "topic 'metrics' has 1 partition: expected as many as the inputs",
        )
    )


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if spec.role != "input"])
@pytest.mark.parametrize("number", [1, 9])
def test_all_others_need_a_partition_for_each_shard(name: str, number: int) -> None:
    found = with_partitions(**{name.replace("-", "_"): number})
    partitions = "1 partition" if number == 1 else "9 partitions"
    assert misfits(SPECS, found).errors == (
        f"topic '{name}' has {partitions}: expected 4, as many as the inputs",
    )


def test_without_inputs_the_configuration_says_how_many() -> None:
    counts = {"metrics": 4, "dead-letters": 3}
    assert partition_errors(SPECS, counts) == [
        "topic 'dead-letters' has 3 partitions: expected 4, as kafka.partitions says"
    ]


def test_a_configuration_that_says_otherwise_than_the_topics() -> None:
    """Only a remark: it is for topics that are yet to be created, and those are made as the inputs are."""
    found = {name: replace(topic, partitions=6) for name, topic in fitting().items()}
    assert misfits(SPECS, found) == Misfits(
        remarks=(
            "the configuration says kafka.partitions: 4, but the inputs have 6 partitions each: "
            "expected the same number",
        )
    )


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("labels", "compact", "delete"),
        ("metrics", "compact", "delete"),
        ("prequential-journal", "compact,delete", "delete"),
        ("prequential-snapshots", "delete", "compact"),
    ],
)
def test_cleanup_policy(name: str, found: str, expected: str) -> None:
    [error] = misfits(SPECS, with_config(name, cleanup_policy=found)).errors
    assert error.startswith(f"topic '{name}' has cleanup.policy={found}: expected {expected} (")


def test_client_timestamps() -> None:
    """On inputs; the journal's own records have the worker's clock then, which decides nothing."""
    found = with_config("predictions", message_timestamp_type="CreateTime")
    assert misfits(SPECS, found) == Misfits(
        errors=(
            "topic 'predictions' has message.timestamp.type=CreateTime: expected LogAppendTime (the clocks "
            "of producers decide in which order records are taken, and what retention removes)",
        )
    )
    found = with_config("prequential-journal", message_timestamp_type="CreateTime")
    assert misfits(SPECS, found) == Misfits(
        remarks=("topic 'prequential-journal' has message.timestamp.type=CreateTime: expected LogAppendTime",)
    )


@pytest.mark.parametrize(
    ("name", "key", "found", "expected"),
    [
        ("labels", "max.message.bytes", "1048588", "at least 1064960"),
        ("labels", "retention.ms", "3600000", "at least 1209600000"),
        ("metrics", "retention.ms", "3600000", "at least 1209600000"),
        ("comparisons", "retention.ms", "3600000", "at least 1209600000"),
        ("drift-alarms", "retention.ms", "1209600000", "at least 7776000000"),
        ("dead-letters", "retention.ms", "1209600000", "at least 2592000000"),
        ("dead-letters", "max.message.bytes", "2000000", "at least 8388608"),
        ("prequential-journal", "retention.bytes", "1000", "at least -1"),
        ("prequential-snapshots", "segment.bytes", "1073741824", "at most 16777216"),
        ("prequential-snapshots", "segment.ms", "604800000", "at most 3600000"),
        ("prequential-snapshots", "min.cleanable.dirty.ratio", "0.5", "at most 0.1"),
        ("prequential-snapshots", "max.compaction.lag.ms", "9223372036854775807", "at most 3600000"),
        ("prequential-snapshots", "delete.retention.ms", "86400000", "at most 3600000"),
    ],
)
def test_what_create_would_have_made_otherwise_is_remarked(
    name: str, key: str, found: str, expected: str
) -> None:
    assert misfits(SPECS, with_config(name, **{key.replace(".", "_"): found})) == Misfits(
        remarks=(f"topic '{name}' has {key}={found}: expected {expected}",)
    )


@pytest.mark.parametrize(
    ("name", "key", "found"),
    [
        ("metrics", "retention.ms", "-1"),
        ("metrics", "retention.ms", "1209600001"),
        ("labels", "max.message.bytes", "2000000"),
        ("prequential-snapshots", "segment.bytes", "8388608"),
        ("prequential-snapshots", "min.cleanable.dirty.ratio", "0.01"),
    ],
)
def test_more_than_is_needed_fits(name: str, key: str, found: str) -> None:
    assert misfits(SPECS, with_config(name, **{key.replace(".", "_"): found})) == Misfits()


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
def test_journal_is_kept_as_long_as_the_inputs(key: str, inputs: str, journal: str, fits: bool) -> None:
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
    found = misfits(specs, found)
    assert found.errors == (() if fits else (expected,))
    assert fits or not any("prequential-journal" in remark for remark in found.remarks)


def test_sizes_that_stop_a_shard_are_errors() -> None:
    found = with_config("prequential-snapshots", max_message_bytes="1048588")
    found["dead-letters"] = TopicFound(4, {"max.message.bytes": "1064960"})
    found["labels"] = TopicFound(4, {"max.message.bytes": "2000000"})
    assert misfits(SPECS, found) == Misfits(
        errors=(
            "topic 'prequential-snapshots' has max.message.bytes=1048588: expected at least 2097152 "
            "(a snapshot is written in chunks of up to that size)",
            "topic 'dead-letters' has max.message.bytes=1064960: expected at least 2004096, "
            "so that it can take any record of the inputs with the reason",
        )
    )


def test_replication_is_what_the_configuration_says_at_least() -> None:
    specs = topic_specs(KafkaConfig(replication=3))
    found = fitting(specs)
    found["labels"] = replace(found["labels"], replicas=1)
    found["metrics"] = replace(found["metrics"], configs={"min.insync.replicas": "1"}, replicas=4)
    assert misfits(specs, found) == Misfits(
        errors=(
            "topic 'labels' has 1 replica: expected 3, as kafka.replication says",
            "topic 'labels' has min.insync.replicas=2: expected at most 1, as many as it has replicas, "
            "or nothing can be written to it",
        ),
        remarks=("topic 'metrics' has min.insync.replicas=1: expected at least 2",),
    )


class Behind:
    """Brokers of which some learn of a new topic later: each kind of request knows it from its n-th on."""

    def __init__(self, described: int, configured: int) -> None:
        self._from = {"describe_topics": described, "describe_configs": configured}
        self._asked = {name: count(1) for name in self._from}
        self.looks = 0

    def _answer(self, request: str, value: object) -> Future[Any]:
        answer: Future[Any] = Future()
        if next(self._asked[request]) >= self._from[request]:
            answer.set_result(value)
        else:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answer

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        partition = SimpleNamespace(replicas=[1, 2, 3])
        return {"new": self._answer("describe_topics", SimpleNamespace(partitions=[partition] * 4))}

    def describe_configs(self, resources: Any, **_: object) -> dict[Any, Future[Any]]:
        (resource,) = resources
        entry = SimpleNamespace(value="delete")
        return {resource: self._answer("describe_configs", {"cleanup.policy": entry})}

    def poll(self, timeout: float) -> None:
        self.looks += 1


@pytest.mark.parametrize("as_far_as_possible", [False, True])
def test_brokers_that_contradict_each_other_are_asked_again(as_far_as_possible: bool) -> None:
    """A node that tells of a topic, and one that hasn't learned of it yet."""
    brokers = Behind(described=1, configured=3)
    found = find(KafkaConfig(), cast(AdminClient, brokers), ["new"], as_far_as_possible=as_far_as_possible)
    assert found == {"new": TopicFound(4, {"cleanup.policy": "delete"}, 3, seen=True)}
    assert brokers.looks == 2


def test_a_topic_that_no_broker_knows_is_not_found() -> None:
    brokers = Behind(described=100, configured=100)
    assert find(KafkaConfig(), cast(AdminClient, brokers), ["new"]) == {}
    assert brokers.looks == 0


@pytest.mark.slow
def test_an_unreachable_broker_is_named() -> None:
    kafka = KafkaConfig("127.0.0.1:1")
    with pytest.raises(WorkError, match=r"no Kafka broker answered at 127\.0\.0\.1:1"):
        check(kafka, topic_specs(kafka), timeout=1.0)


@pytest.fixture
def cluster(kafka: Any) -> KafkaConfig:
    """A configuration whose topics nobody else uses."""
    return KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.", partitions=3)


def test_create_once_then_leave_alone(cluster: KafkaConfig) -> None:
    specs = topic_specs(cluster)
    names = tuple(spec.name for spec in specs)
    assert len(check(cluster, specs).errors) == len(specs)  # all missing
    first = create(cluster, specs)
    assert (first.created, first.existing, first.misfits) == (names, (), Misfits())
    second = create(cluster, specs)
    assert (second.created, second.existing, second.misfits) == ((), names, Misfits())
    assert check(cluster, specs) == Misfits()
    assert partition_counts(cluster, names) == dict.fromkeys(names, 3)


def make(cluster: KafkaConfig, **topics: tuple[int, dict[str, str]]) -> None:
    """Make topics of so many partitions with such settings, as somebody else has."""
    new = [
        NewTopic(cluster.topic(name.replace("_", "-")), partitions, 1, config=configs)
        for name, (partitions, configs) in topics.items()
    ]
    create_topics(AdminClient(cluster.client()), new)


def test_what_exists_is_kept_and_decides_the_number_of_shards(cluster: KafkaConfig) -> None:
    make(cluster, labels=(5, {"cleanup.policy": "compact", "retention.ms": "-1"}))
    cluster = replace(cluster, partitions=5)
    report = create(cluster, topic_specs(cluster))
    labels, journal = cluster.topic("labels"), cluster.topic("prequential-journal")
    assert report.existing == (labels,)
    names = [spec.name for spec in topic_specs(cluster)]
    assert set(partition_counts(cluster, names).values()) == {5}
    kept = next(s.configs["retention.ms"] for s in topic_specs(cluster) if s.name == journal)
    assert report.misfits == Misfits(
        errors=(
            f"topic {labels!r} has cleanup.policy=compact: expected delete (compaction leaves a stream's "
            "newest record only)",
            f"topic {labels!r} has message.timestamp.type=CreateTime: expected LogAppendTime (the clocks of "
            "producers decide in which order records are taken, and what retention removes)",
            f"topic {journal!r} has retention.ms={kept}, but {labels!r} has retention.ms=-1: "
            "expected the journal to be kept for as long as the inputs",
        ),
        remarks=(f"topic {labels!r} has max.message.bytes=1048588: expected at least 1064960",),
    )


def test_numbers_of_partitions_that_cannot_be_right_are_found_before_anything_is_made(
    cluster: KafkaConfig,
) -> None:
    stamped = {"message.timestamp.type": "LogAppendTime"}
    make(cluster, predictions=(4, {}), labels=(6, stamped), metrics=(1, {}))
    specs = topic_specs(cluster)
    with pytest.raises(WorkError) as raised:
        create(cluster, specs)
    said = str(raised.value)
    assert said.startswith(f"nothing was created at {cluster.bootstrap_servers}, ")
    assert "make new ones under another kafka.prefix: the inputs' numbers of partitions differ: " in said
    for wrong in (
        "predictions' has 4, ", "labels' has 6; ", "metrics' has 1 partition: expected as many as the inputs",
        "predictions' has message.timestamp.type=CreateTime: ",
    ):  # fmt: skip
        assert said.count(wrong) == 1, said
    found = present(cluster, [spec.name for spec in specs])
    assert found == {cluster.topic(name) for name in ("predictions", "labels", "metrics")}


def test_what_the_cluster_refuses_is_said_once_and_nothing_is_made(cluster: KafkaConfig) -> None:
    kafka = replace(cluster, replication=3)
    with pytest.raises(WorkError, match="refused to create") as raised:
        create(kafka, topic_specs(kafka))
    assert str(raised.value).count("replication factor") == 1
    # One topic that is refused is found before the others are made.
    good = topic_specs(cluster)
    bad = replace(good[-1], configs={**good[-1].configs, "segment.bytes": "-1"})
    with pytest.raises(WorkError, match=r"refused to create '.*prequential-snapshots': .*segment\.bytes"):
        create(cluster, [*good[:-1], bad])
    assert present(cluster, [spec.name for spec in good]) == set()


def test_asking_for_topics_does_not_create_them(cluster: KafkaConfig) -> None:
    name = cluster.topic("labels")
    with pytest.raises(WorkError, match=f"no topic {name!r}"):
        partition_counts(cluster, [name])
    assert name not in AdminClient(cluster.client()).list_topics(timeout=10).topics


def test_inputs_must_be_kept_for_the_label_horizon() -> None:
    found = with_config("labels", retention_ms="3600000")
    [error] = misfits(SPECS, found, 3_600_001).errors
    assert error.startswith("topic 'labels' has retention.ms=3600000: expected at least 3600001, the longest")
    assert misfits(SPECS, found, 3_600_000).errors == ()
    for_ever = with_config("labels", retention_ms="-1")
    assert not [one for one in misfits(SPECS, for_ever, 1 << 60).errors if one.startswith("topic 'labels'")]


def test_topics_are_created_so_that_they_outlive_the_horizon() -> None:
    days = 24 * 3_600_000
    specs = topic_specs(KafkaConfig(), 30 * days)
    assert {one.configs["retention.ms"] for one in specs if one.role == "input"} == {str(60 * days)}
    assert misfits(specs, fitting(specs), 30 * days) == Misfits()


def test_a_topic_that_a_producer_made_does_not_decide_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "connect", lambda *_: None)
    monkeypatch.setattr(admin, "find", lambda *_: {"labels": TopicFound(1, {})})
    expected = r"'labels' has 1 partition, maybe made by a producer .*: expected 4, .* kafka.partitions: 1"
    with pytest.raises(WorkError, match=expected):
        create(KafkaConfig(), SPECS)


@pytest.mark.slow
@pytest.mark.embedded
def test_a_broker_may_start_while_its_topics_are_created() -> None:
    """As in the quickstart, on a slow machine: later than other commands wait for a broker."""
    port = pick_port()
    broker = EmbeddedBroker(port)
    started = Timer(REACH_SECONDS + 2, broker.__enter__)
    started.start()
    try:
        made = admin.create(KafkaConfig(f"127.0.0.1:{port}"), topic_specs(KafkaConfig()))
        assert "predictions" in made.created
    finally:
        started.join()
        broker.__exit__(None, None, None)


def test_inputs_with_another_number_of_partitions_than_configured() -> None:
    kafka = KafkaConfig(prefix="eu.", partitions=4)
    counts = dict.fromkeys(("eu.instances", "eu.predictions", "eu.labels"), 6)
    differ = admin.partitions_differ(kafka, counts)
    assert differ == (
        "kafka.partitions is 4, the inputs have 6: the number of the topics counts; say kafka.partitions: 6"
    )
    assert admin.partitions_differ(kafka, dict.fromkeys(counts, 4)) is None
    assert admin.partitions_differ(kafka, {**counts, "eu.labels": 4}) is None  # an error of its own
