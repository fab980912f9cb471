"""What a client's principal may do with topics: asked of brokers, and said in a sentence."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.permissions import (
    READER,
    WORKER,
    Permission,
    lacking,
    missing,
    needs,
    refusal,
    require,
    to_join,
    why_unread,
)
from prequential.topics.specs import topic_specs

from tests.brokers import Broker
from tests.conftest import fresh_cluster

KAFKA = KafkaConfig("kafka:9093", prefix="eu.", security={"sasl.username": "me", "sasl.password": "hush"})
READ = Permission("Read", "topic", "eu.labels")


def test_a_refusal_names_who_lacks_what_where() -> None:
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    who = "the principal 'me' (kafka.security: sasl.username)"
    expected = f"{who} lacks Read on topic 'eu.labels' at kafka:9093"
    assert refusal(KAFKA, error, READ) == expected
    assert why_unread(KAFKA, error, "eu.labels", "eu.group", "") == expected
    error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert "lacks Describe on group 'eu.group'" in why_unread(KAFKA, error, "eu.labels", "eu.group", "")


def test_what_is_no_refusal_is_said_otherwise() -> None:
    error = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    assert refusal(KAFKA, error, READ) is None
    assert why_unread(KAFKA, error, "eu.labels", "eu.group", "labels/3") == f"labels/3: {error.str()}"


def test_only_what_a_refusal_is_about_is_named() -> None:
    needed = to_join("eu.group", ["a", "b"])
    of_group = refusal(KAFKA, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), *needed)
    assert of_group is not None
    assert " lacks Read on group 'eu.group' at " in of_group
    of_topics = refusal(KAFKA, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), *needed)
    assert of_topics is not None
    assert " lacks Read on topics 'a', 'b' at " in of_topics
    assert to_join("eu.group", ["a", "b"], "b") == [
        Permission("Read", "group", "eu.group"), Permission("Read", "topic", "b"),
    ]  # fmt: skip
    assert refusal(KAFKA, KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), *needed) is None


def test_the_user_s_name_is_the_one_that_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = KafkaConfig("kafka:9093", security={"sasl.username": "env:KAFKA_USERNAME"})
    monkeypatch.setenv("KAFKA_USERNAME", "me")
    assert lacking(kafka, [READ]).startswith("the principal 'me' (kafka.security: sasl.username) lacks ")
    monkeypatch.delenv("KAFKA_USERNAME")
    assert lacking(kafka, [READ]).startswith("the principal 'env:KAFKA_USERNAME' ")


def test_topics_of_one_operation_are_said_together() -> None:
    wanted = [Permission("Write", "topic", "a"), READ, Permission("Write", "topic", "b")]
    assert "lacks Write on topics 'a', 'b', Read on topic 'eu.labels' at" in lacking(KAFKA, wanted)


def test_what_is_needed_goes_by_the_topics_roles() -> None:
    specs = topic_specs(KAFKA)
    assert set(needs(specs, WORKER)) == {spec.name for spec in specs if spec.role != "marks"}
    published = ("metrics", "comparisons", "drift-alarms", "incidents", "incident-marks")
    assert needs(specs, READER) == {f"eu.{name}": ("Read", "Describe") for name in published}


def test_a_broker_that_asks_for_nothing_denies_nothing(cluster: KafkaConfig) -> None:
    assert missing(cluster, needs(topic_specs(cluster), WORKER)) == []
    # What isn't there is said to be missing by whoever looks for it.
    require(cluster, {f"{cluster.prefix}nowhere": ("Read",)})


def test_nor_does_the_embedded_one(embedded: Broker) -> None:
    kafka = fresh_cluster(embedded, 2)
    assert missing(kafka, needs(topic_specs(kafka), WORKER)) == []


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(WorkError, match="no Kafka broker answered"):
        missing(KafkaConfig("127.0.0.1:1"), {"labels": ("Read",)})
