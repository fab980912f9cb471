"""The model servers' producer, against the mock broker inside librdkafka; where streams lie, on Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prequential.cli.main import main
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import INSTANCES, LABELS, PREDICTIONS, decode
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.messages import MAX_VALUE_BYTES
from prequential.topics.partitioning import partition_of
from prequential.topics.producer import DeliveryError, StreamProducer

from tests.received import Received, everything

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

#: The mock broker gives every topic this many partitions.
PARTITIONS = 4


class Mock:
    """A producer whose librdkafka plays broker, and what arrived there."""

    def __init__(self, **settings: Any) -> None:
        # With a mock broker, the configured servers are not contacted.
        kafka = KafkaConfig(security={"test.mock.num.brokers": "1"})
        self.producer = StreamProducer(kafka, log_level=0, **settings)
        brokers = self.producer._producer.list_topics(timeout=10).brokers
        self._servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers.values())

    def received(self, topic: str) -> list[Received]:
        """All records of a topic, partition by partition."""
        self.producer.flush()
        return everything(KafkaConfig(self._servers), topic, PARTITIONS)


@pytest.fixture
def mock() -> Iterator[Mock]:
    mock = Mock()
    with mock.producer:
        yield mock


def test_streams_lie_where_java_puts_them(mock: Mock) -> None:
    streams = [f"stream-{i}" for i in range(40)] + ["é", "日本", "x" * 256, ""]
    for stream in streams:
        mock.producer.label(stream, 1, True)
    places = {record.key.decode(): record.partition for record in mock.received("labels")}
    assert places == {s: partition_of(s, PARTITIONS) for s in streams}
    assert set(places.values()) == set(range(PARTITIONS))


def test_messages_are_the_contracts_and_leave_out_what_was_not_given(mock: Mock) -> None:
    moment = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    mock.producer.instance("s", 17, ts=4)
    mock.producer.instance("s", "a", ts=5, version=2, segments={"region": "north"}, label_propensity=0.5)
    mock.producer.prediction("s", "nb", 17, "UP", ts=6)
    mock.producer.prediction(
        "s", "nb", 17, True, ts=moment, y_proba={True: 0.75, False: 0.25}, segments={}, model_version=3,
    )  # fmt: skip
    mock.producer.label("s", 17, 1.5, ts=-1)
    assert [json.loads(record.value) for record in mock.received("instances")] == [
        {"stream": "s", "instance_id": "17", "ts": 4},
        {
            "stream": "s",
            "instance_id": "a",
            "ts": 5,
            "version": 2,
            "segments": {"region": "north"},
            "label_propensity": 0.5,
        },
    ]
    assert [json.loads(record.value) for record in mock.received("predictions")] == [
        {"stream": "s", "model": "nb", "instance_id": "17", "y_pred": "UP", "ts": 6},
        {
            "stream": "s",
            "model": "nb",
            "instance_id": "17",
            "y_pred": True,
            "ts": 1704063600000,
            "y_proba": {"true": 0.75, "false": 0.25},
            "segments": {},
            "model_version": "3",
        },
    ]
    assert [json.loads(record.value) for record in mock.received("labels")] == [
        {"stream": "s", "instance_id": "17", "y_true": 1.5, "ts": -1}
    ]


def test_a_record_without_a_time_has_that_of_the_call(mock: Mock) -> None:
    """Not the broker's: a label's batch may reach it before that of the predictions."""
    before = time.time_ns() // 1_000_000
    for n in range(100):
        mock.producer.instance("s", n)
        mock.producer.prediction("s", "m", n, "UP")
        mock.producer.label("s", n, "UP")
    after = time.time_ns() // 1_000_000
    times = [
        [json.loads(record.value)["ts"] for record in mock.received(topic)]
        for topic in ("instances", "predictions", "labels")
    ]
    assert all(before <= a <= b <= c <= after for a, b, c in zip(*times, strict=True))


def test_a_predicted_interval_has_both_bounds_or_none(mock: Mock) -> None:
    mock.producer.prediction("s", "m", 1, 20.5, ts=1, y_lower=np.float64(19), y_upper=23, weight=2)
    with pytest.raises(ValueError, match="weight is '2': expected a number from 0 to 1e"):
        mock.producer.prediction("s", "m", 2, 20.5, weight="2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y_lower 19 stands without y_upper: expected both, or neither"):
        mock.producer.prediction("s", "m", 2, 20.5, y_lower=19)
    with pytest.raises(ValueError, match="y_lower is 3 and y_upper 2: expected y_lower <= y_upper"):
        mock.producer.prediction("s", "m", 2, 20.5, y_lower=3, y_upper=2)
    (record,) = mock.received("predictions")
    assert json.loads(record.value) == {
        "stream": "s", "model": "m", "instance_id": "1", "y_pred": 20.5, "ts": 1,
        "y_lower": 19.0, "y_upper": 23.0, "weight": 2.0,
    }  # fmt: skip


def test_numpys_scalars_are_understood(mock: Mock) -> None:
    mock.producer.prediction(
        "s",
        "nb",
        np.int64(7),  # type: ignore[arg-type]
        np.str_("UP"),
        y_proba={np.int32(1): np.float32(0.5), np.bool_(False): np.float64(0.5)},  # type: ignore[dict-item]
        ts=np.int64(3),  # type: ignore[arg-type]
    )
    mock.producer.label("s", "7", np.bool_(True))  # type: ignore[arg-type]
    assert json.loads(mock.received("predictions")[0].value) == {
        "stream": "s",
        "model": "nb",
        "instance_id": "7",
        "y_pred": "UP",
        "ts": 3,
        "y_proba": {"1": 0.5, "false": 0.5},
    }
    assert json.loads(mock.received("labels")[0].value)["y_true"] is True


def test_the_pipeline_can_use_all_that_is_sent(mock: Mock) -> None:
    longest = "é" * 128  # 256 bytes
    for ts in (None, 8_640_000_000_000_000, datetime.max.replace(tzinfo=timezone.utc)):
        mock.producer.instance(longest, longest, ts=ts, version=-1, segments={longest: longest})
        for target in (longest, 2**63 - 1, -(2**63) + 1, 1e308, False):
            mock.producer.prediction(longest, longest, 2**63 - 1, target, ts=ts)
            mock.producer.label(longest, longest, target, ts=ts)
    for y_proba in ({}, {"a": 0, "b": 1}, {1: 0.5, 2: 0.501}, dict.fromkeys("abc", np.float16(1 / 3))):
        mock.producer.prediction("s", "m", 1, "a", y_proba=y_proba)
    for kind, topic in ((INSTANCES, "instances"), (PREDICTIONS, "predictions"), (LABELS, "labels")):
        values = [record.value for record in mock.received(topic)]
        assert decode(kind, values).reasons == {}


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda p: p.label(7, 1, "UP"), "stream is 7"),
        (lambda p: p.label("s" * 257, 1, "UP"), "stream 'sss"),
        (lambda p: p.label("s", "é" * 129, "UP"), "instance_id 'ééé.*258 bytes"),
        (lambda p: p.label("\ud800", 1, "UP"), r"stream is '\\ud800'"),
        (lambda p: p.label("s", True, "UP"), "instance_id is True"),
        (lambda p: p.label("s", 1.0, "UP"), r"instance_id is 1\.0"),
        (lambda p: p.label("s", 2**63, "UP"), "instance_id is 9223372036854775808"),
        (lambda p: p.label("s", 1, float("nan")), "y_true is nan"),
        (lambda p: p.label("s", 1, np.float32("inf")), "y_true is inf"),
        (lambda p: p.label("s", 1, 2**63), "y_true is 9223372036854775808"),
        (lambda p: p.label("s", 1, "c" * 257), "y_true 'ccc"),
        (lambda p: p.label("s", 1, "UP", ts=1.5), r"ts is 1\.5"),
        (lambda p: p.label("s", 1, "UP", ts=True), "ts is True"),
        (lambda p: p.label("s", 1, "UP", ts=datetime(2024, 1, 1)), "ts is datetime"),
        (lambda p: p.label("s", 1, "UP", ts=8_640_000_000_000_001), "ts is 8640000000000001"),
        (lambda p: p.prediction("s", None, 1, "UP"), "model is None"),
        (lambda p: p.prediction("s", "m", 1, [1, None]), "a label of y_pred is None"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={1: float("nan")}), "y_proba of '1' is nan"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": 1.5}), r"y_proba of 'a' is 1\.5: expected a"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": -1e-5}), "y_proba of 'a' is -1e-05"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": 10**400}), "y_proba of 'a' is 1000"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": True}), "y_proba of 'a' is True"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": np.float32("inf")}), "y_proba of 'a' is"),
        (
            lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": 0.75, "b": np.float64(0.5)}),
            r"y_proba sums to 1\.25 over 2 classes: expected at most 1\.001",
        ),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={"a": "b"}), "y_proba of 'a' is 'b'"),
        (lambda p: p.prediction("s", "m", 1, 1, y_proba={None: 1}), "a class of y_proba is None"),
        (lambda p: p.prediction("s", "m", 1, 1, model_version=1.5), r"model_version is 1\.5"),
        (lambda p: p.instance("s", 1, version="2"), "version is '2'"),
        (lambda p: p.instance("s", 1, segments={"region": 1}), "segment 'region' is 1"),
        (lambda p: p.instance("s", 1, label_propensity=0), "label_propensity is 0: expected"),
        (lambda p: p.instance("s", 1, label_propensity=1.5), "label_propensity is 1.5: expected"),
        (lambda p: p.instance("s", 1, label_propensity=True), "label_propensity is True: expected"),
        (lambda p: p.instance("s", 1, segments={1: "north"}), "a segment's name is 1"),
    ],
)
def test_what_would_be_a_dead_letter_is_refused(mock: Mock, call: Any, quoted: str) -> None:
    with pytest.raises(ValueError, match=quoted):
        call(mock.producer)


def test_a_message_over_the_limit_is_refused(mock: Mock) -> None:
    many = {f"class-{i}": 0.0 for i in range(60_000)}
    with pytest.raises(ValueError, match=f"at most {MAX_VALUE_BYTES} are allowed"):
        mock.producer.prediction("s", "m", 1, 1, y_proba=many)


def test_a_full_queue_waits() -> None:
    mock = Mock(**{"queue.buffering.max.messages": 10})
    for i in range(500):
        mock.producer.label("s", i, "UP")
    assert len(mock.received("labels")) == 500


def nobody_listens() -> StreamProducer:
    kafka = KafkaConfig("127.0.0.1:1", prefix="eu.")
    return StreamProducer(kafka, log_level=0, **{"message.timeout.ms": 100})


def test_a_failed_delivery_shows_at_flush_and_only_once() -> None:
    producer = nobody_listens()
    producer.label("a", 1, "UP")
    producer.label("b", 2, "UP")
    with pytest.raises(DeliveryError, match=r"key 'a' .* topic 'eu\.labels' \(nor 1 others\)") as e:
        producer.flush(10)
    assert (e.value.topic, e.value.key, e.value.others) == ("eu.labels", b"a", 1)
    assert e.value.reason
    producer.flush(10)


def test_a_failed_delivery_shows_at_the_next_call() -> None:
    producer = nobody_listens()
    producer.label("a", 1, "UP")
    producer._producer.flush(10)  # as if time had passed
    with pytest.raises(DeliveryError, match="key 'a'"):
        producer.label("a", 2, "UP")


def fail_after_sending() -> None:
    with nobody_listens() as producer:
        producer.label("a", 1, "UP")
        raise KeyError


def test_leaving_the_context_flushes_but_keeps_an_error_that_is_on_its_way() -> None:
    with pytest.raises(DeliveryError), nobody_listens() as producer:
        producer.label("a", 1, "UP")
    with pytest.raises(KeyError):
        fail_after_sending()


def test_flush_gives_up_in_time() -> None:
    producer = StreamProducer(KafkaConfig("127.0.0.1:1"), log_level=0)
    producer.label("a", 1, "UP")
    with pytest.raises(WorkError, match=r"127\.0\.0\.1:1 did not take 1 records within 0\.1 s"):
        producer.flush(0.1)


def test_refused_settings_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"\"no\.such\""):
        StreamProducer(KafkaConfig(), **{"no.such": 1})


@pytest.mark.parametrize(
    ("settings", "security", "named"),
    [
        ({"partitioner": "consistent"}, {}, "the producer's settings: partitioner is 'consistent'"),
        ({"partitioner": lambda *_: 0}, {}, "the producer's settings: partitioner is <function"),
        ({"topic.partitioner": "random"}, {}, "the producer's settings: topic.partitioner is 'random'"),
        (
            {"default.topic.config": {"partitioner": "fnv1a"}}, {},
            "the producer's settings, default.topic.config: partitioner is 'fnv1a'",
        ),
        ({}, {"partitioner": "random"}, "kafka.security: partitioner is 'random'"),
        ({}, {"topic.partitioner": "consistent"}, "kafka.security: topic.partitioner is 'consistent'"),
    ],
)  # fmt: skip
def test_another_partitioner_is_refused(
    settings: dict[str, Any], security: dict[str, str], named: str
) -> None:
    with pytest.raises(UsageError, match="expected murmur2_random or none at all") as raised:
        StreamProducer(KafkaConfig(security=security), log_level=0, **settings)
    assert str(raised.value).startswith(f"{named}")


@pytest.mark.parametrize("settings", [{"partitioner": "murmur2"}, {"topic.partitioner": "murmur2_random"}])
def test_the_same_partitioner_by_another_way_places_streams_alike(settings: dict[str, Any]) -> None:
    mock = Mock(**settings)
    streams = [f"stream-{i}" for i in range(40)]
    for stream in streams:
        mock.producer.label(stream, 1, True)
    places = {record.key.decode(): record.partition for record in mock.received("labels")}
    assert places == {stream: partition_of(stream, PARTITIONS) for stream in streams}


@pytest.mark.parametrize("cluster", [7], indirect=True)
def test_on_kafka_every_way_in_puts_a_stream_where_it_belongs(cluster: KafkaConfig, tmp_path: Path) -> None:
    """By the model servers' producer and by `prequential produce`, into every input."""
    streams = [f"stream-{i}" for i in range(60)] + ["é", "日本", "x" * 256, ""]
    with StreamProducer(cluster) as producer:
        for stream in streams:
            producer.instance(stream, 1)
            producer.prediction(stream, "nb", 1, True)
            producer.label(stream, 1, True)
    path = tmp_path / "labels.jsonl"
    lines = [json.dumps({"stream": stream, "instance_id": 2, "y_true": True}) for stream in streams]
    path.write_text("\n".join(lines), encoding="utf-8")
    place = ["--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix]
    assert main(["produce", "labels", str(path), *place]) == 0
    for topic, times in (("instances", 1), ("predictions", 1), ("labels", 2)):
        found = sorted(
            (record.key.decode(), record.partition) for record in everything(cluster, cluster.topic(topic), 7)
        )
        assert found == sorted((stream, partition_of(stream, 7)) for stream in streams for _ in range(times))
