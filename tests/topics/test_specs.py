"""The topics' names and settings, and the configuration that they come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.messages import MAX_VALUE_BYTES
from prequential.topics.specs import FITS, TopicSpec, topic_specs

#: Nothing listens on this port (tcpmux), and connecting is refused at once.
NOBODY = "127.0.0.1:1"


def by_name(kafka: KafkaConfig) -> dict[str, TopicSpec]:
    return {spec.name: spec for spec in topic_specs(kafka)}


def test_all_topics_with_prefix_and_partitions() -> None:
    specs = topic_specs(KafkaConfig(prefix="eu.", partitions=6))
    assert [spec.name for spec in specs] == [
        "eu.instances",
        "eu.predictions",
        "eu.labels",
        "eu.metrics",
        "eu.comparisons",
        "eu.drift-alarms",
        "eu.incidents",
        "eu.incident-marks",
        "eu.dead-letters",
        "eu.prequential-journal",
        "eu.prequential-snapshots",
    ]
    assert {spec.partitions for spec in specs} == {6}


def test_journal_lives_as_long_as_the_inputs() -> None:
    specs = by_name(KafkaConfig())
    kept = {spec.configs["retention.ms"] for spec in specs.values() if spec.role == "input"}
    assert kept == {specs["prequential-journal"].configs["retention.ms"]}
    assert specs["prequential-journal"].configs["retention.bytes"] == "-1"


def test_comparisons_are_kept_as_metrics_are() -> None:
    specs = by_name(KafkaConfig(replication=3))
    assert replace(specs["comparisons"], name="metrics") == specs["metrics"]


def test_every_setting_can_be_compared_with_an_existing_one() -> None:
    made = {key for spec in topic_specs(KafkaConfig(replication=3)) for key in spec.configs}
    assert made == set(FITS)


def test_only_snapshots_are_compacted_and_their_segments_hold_their_messages() -> None:
    specs = by_name(KafkaConfig())
    compacted = [s.name for s in specs.values() if s.configs["cleanup.policy"] == "compact"]
    assert compacted == ["prequential-snapshots"]
    snapshots = specs["prequential-snapshots"].configs
    assert MAX_VALUE_BYTES < int(snapshots["max.message.bytes"]) < int(snapshots["segment.bytes"])
    assert "retention.ms" not in snapshots


def test_brokers_stamp_inputs_and_journal() -> None:
    stamped = {
        spec.name
        for spec in topic_specs(KafkaConfig())
        if spec.configs.get("message.timestamp.type") == "LogAppendTime"
    }
    assert stamped == {"instances", "predictions", "labels", "prequential-journal"}


@pytest.mark.parametrize(("replication", "expected"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_replicated_topics_survive_one_broker(replication: int, expected: str | None) -> None:
    specs = topic_specs(KafkaConfig(replication=replication))
    assert {spec.configs.get("min.insync.replicas") for spec in specs} == {expected}


def test_repr_hides_secrets_and_nothing_else() -> None:
    kafka = KafkaConfig(
        security={
            "sasl.username": "alice",
            "sasl.password": "s3cret-1",
            "SASL.OAUTHBEARER.CLIENT.SECRET": "s3cret-2",
            "ssl.key.pem": "s3cret-3",
            "sasl.oauthbearer.token.endpoint.url": "s3cret-4",
        }
    )
    assert "s3cret" not in repr(kafka)
    assert "'sasl.username': 'alice'" in repr(kafka)
    assert repr(kafka).count("***") == 4


def test_client_settings_resolve_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("from:file\n")
    monkeypatch.setenv("KAFKA_USER", "env:as is")
    kafka = KafkaConfig(
        "a:1,b:2",
        security={
            "sasl.username": "env:KAFKA_USER",
            "sasl.password": f"file:{tmp_path / 'password'}",
            "client.id": "given",
        },
    )
    assert kafka.client(**{"group.id": "g", "client.id": "mine"}) == {
        "bootstrap.servers": "a:1,b:2",
        "log_level": 0,
        "sasl.username": "env:as is",
        "sasl.password": "from:file",
        "client.id": "mine",
        "group.id": "g",
    }


@pytest.mark.parametrize("value", ["env:NOT_SET_ANYWHERE", "file:/no/such/file"])
def test_a_missing_secret_is_named(value: str) -> None:
    kafka = KafkaConfig(security={"sasl.password": value})
    with pytest.raises(UsageError, match=r"sasl\.password") as raised:
        kafka.client()
    assert value.partition(":")[2] in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partitions", 0),
        ("replication", -1),
        ("prefix", "a b"),
        ("prefix", "x" * 230),
        ("bootstrap_servers", " "),
    ],
)
def test_impossible_values_are_refused(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"kafka.{field}"):
        replace(KafkaConfig(), **{field: value})  # type: ignore[arg-type]


@pytest.mark.slow
def test_unreachable_broker_is_named_with_the_reason() -> None:
    with pytest.raises(WorkError, match=r"127\.0\.0\.1:1 within 1 s: .*refused$"):
        connect(KafkaConfig(NOBODY), timeout=1.0)


def test_refused_settings_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r'kafka\.security: .*"no\.such\.setting"'):
        connect(KafkaConfig(NOBODY, security={"no.such.setting": "x"}), timeout=1.0)
