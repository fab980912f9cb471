"""A model server's producer while its broker doesn't answer: no call waits, and no record is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from time import monotonic

import pytest
from conftest import fresh_cluster
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError
from prequential.topics.producer import DeliveryError, RecordProducer, StreamProducer
from processes import read_topic

from tests.brokers import JavaBroker, launch
from tests.skipping import or_skip

#: Records in the buffer.
BUFFER = 50

Spilled = list[tuple[str, bytes | None, bytes, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[JavaBroker]:
    """A broker that a test may stop."""
    with or_skip():
        started = launch("java")
    assert isinstance(started, JavaBroker)
    with started:
        yield started


@pytest.fixture
def kafka(broker: JavaBroker) -> Iterator[KafkaConfig]:
    """A cluster whose broker goes on after the test."""
    config = fresh_cluster(broker, 1)
    yield config
    os.killpg(broker.group, signal.SIGCONT)


def labels_of(kafka: KafkaConfig) -> list[int]:
    values = [record.value() or b"" for record in read_topic(kafka, "labels")]
    return sorted(int(json.loads(value)["instance_id"]) for value in values)


def spilling(spilled: Spilled) -> dict[str, object]:
    return {"buffer": BUFFER, "spill": lambda *record: spilled.append(record), "log_level": 0}


@pytest.mark.kafka
def test_an_outage_fills_the_buffer_and_then_the_callback(broker: JavaBroker, kafka: KafkaConfig) -> None:
    spilled: Spilled = []
    with StreamProducer(kafka, **spilling(spilled)) as producer:
        for number in range(20):
            producer.label("s", number, "a")
        producer.flush()
        os.killpg(broker.group, signal.SIGSTOP)
        began = monotonic()
        for number in range(20, 220):
            producer.label("s", number, "a")
        assert monotonic() - began < 5.0
        assert len(spilled) == 200 - BUFFER
        topic, key, value, reason = spilled[0]
        assert (topic, key, reason) == ("labels", b"s", f"{BUFFER} records are waiting for the brokers")
        assert json.loads(value)["instance_id"] == str(20 + BUFFER)
        os.killpg(broker.group, signal.SIGCONT)
        producer.flush()
        assert labels_of(kafka) == list(range(20 + BUFFER))
        for record in list(spilled):
            producer.send(*record[:3])
            producer.flush()
    assert labels_of(kafka) == list(range(220))


@pytest.mark.kafka
def test_what_waits_at_the_end_goes_to_the_callback(
    broker: JavaBroker, kafka: KafkaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordProducer.flush, "__defaults__", (1.0,))
    spilled: Spilled = []
    with StreamProducer(kafka, **spilling(spilled)) as producer:
        producer.label("s", 0, "a")
        producer.flush(30.0)
        os.killpg(broker.group, signal.SIGSTOP)
        for number in range(1, 30):
            producer.label("s", number, "a")
    os.killpg(broker.group, signal.SIGCONT)
    kept = {int(json.loads(record[2])["instance_id"]) for record in spilled}
    assert kept
    assert kept.union(labels_of(kafka)) == set(range(30))


@pytest.mark.kafka
def test_without_a_callback_a_full_buffer_is_an_error(broker: JavaBroker, kafka: KafkaConfig) -> None:
    producer = StreamProducer(kafka, buffer=3, log_level=0)
    producer.label("s", 0, "a")
    producer.flush()
    os.killpg(broker.group, signal.SIGSTOP)
    for number in range(1, 4):
        producer.label("s", number, "a")
    with pytest.raises(DeliveryError, match="labels': 3 records are waiting for the brokers"):
        producer.label("s", 4, "a")
    os.killpg(broker.group, signal.SIGCONT)
    producer.flush()
    assert labels_of(kafka) == [0, 1, 2, 3]


@pytest.mark.parametrize("buffer", [0, -1, True, "10"])
def test_a_buffer_is_a_number_of_records(buffer: object) -> None:
    with pytest.raises(UsageError, match=r"buffer is .*: expected a number of records from 1 on, or None"):
        StreamProducer(KafkaConfig(), buffer=buffer)  # type: ignore[arg-type]
