"""Records copied from librdkafka's queues are what its messages say."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Message, Producer
from prequential.runtime.kafka import partition_queues
from prequential.runtime.kafka.partition_queues import QueueReader, reader_of
from prequential.runtime.kafka.readers import (
    ConsumerRecords,
    ObjectReader,
    Original,
    PartitionReader,
    TopicRead,
)

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the loops need the compiler")

TOPIC, PARTITIONS, EACH = "records", 3, 700


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A broker that librdkafka mocks, with a topic of records of all sorts."""
    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    address = next(iter(producer.list_topics(timeout=10).brokers.values()))
    rng = random.Random(1)
    for number in range(PARTITIONS * EACH):
        value: Any = rng.choice([None, b"", b"\n", b"{}", bytes([number % 256]) * rng.randrange(1, 400)])
        key: Any = rng.choice([None, b"", b"key", str(number).encode()])
        headers = [("h", b"x"), ("ü", b""), ("h", None)][: number % 4]
        producer.produce(
            TOPIC, value, key, number % PARTITIONS, timestamp=rng.randrange(1, 1 << 41), headers=headers
        )
        if number % 100 == 0:
            producer.poll(0)
    assert producer.flush(20) == 0
    yield f"{address.host}:{address.port}"
    del producer


def consumer_of(broker: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": broker, "group.id": "g", "enable.partition.eof": True, "log_level": 0,
        "enable.auto.commit": False, "enable.auto.offset.store": False, "auto.offset.reset": "error",
    })  # fmt: skip


def read(
    reader: PartitionReader, offsets: dict[int, int], most: int = 100
) -> dict[int, list[ConsumerRecords]]:
    """All records of these partitions, from these offsets to where they end."""
    for partition, offset in offsets.items():
        reader.open(partition, offset)
    found: dict[int, list[ConsumerRecords]] = {partition: [] for partition in offsets}
    ends: dict[int, int] = {}
    until = time.monotonic() + 20
    while ends.keys() != offsets.keys():
        assert time.monotonic() < until
        look: TopicRead = reader.look(most)
        assert not look.failures
        for run in look.runs:
            if run.records is not None:
                found[run.partition].append(run.records)
            if run.end is not None:
                ends[run.partition] = run.end
        time.sleep(0.01)
    assert ends == dict.fromkeys(offsets, EACH)
    return found


def said(records: list[ConsumerRecords]) -> list[tuple[int, int, Original]]:
    rows = []
    for one in records:
        assert one.by_producer
        for offset, when, value, key in zip(one.offsets, one.times.tolist(), one.values, one.keys):
            assert one.find(offset) == (key, value)
            rows.append((offset, when, Original(key, value)))
    return rows


def messages_of(broker: str) -> dict[int, list[Message]]:
    reader, found = ObjectReader(consumer_of(broker), TOPIC), {}
    for partition in range(PARTITIONS):
        reader.open(partition, 0)
        found[partition] = []
    while sum(map(len, found.values())) < PARTITIONS * EACH:
        for message in reader.consumer.consume(1000, 0.2):
            if message.error() is None:
                found[message.partition()].append(message)
    reader.stop()
    return found


@pytest.mark.parametrize("kind", [QueueReader, ObjectReader])
def test_records_are_what_messages_say(broker: str, kind: type[PartitionReader]) -> None:
    reader = kind(consumer_of(broker), TOPIC)
    found = read(reader, dict.fromkeys(range(PARTITIONS), 0))
    for partition, messages in messages_of(broker).items():
        expected = [(m.offset(), m.timestamp(), (m.key(), m.value())) for m in messages]
        rows = said(found[partition])
        headers = [pair for one in found[partition] for pair in sorted(one.headers.items())]
        assert [of for _, of in headers] == [m.headers() or [] for m in messages if m.value() is None]
        assert [(o, (TIMESTAMP_CREATE_TIME, t), tuple(one)) for o, t, one in rows] == expected
    reader.stop()


def test_a_partition_is_read_again_from_another_offset(broker: str) -> None:
    """Closed and opened at once, which librdkafka does one after the other in a thread of its own."""
    reader = reader_of(consumer_of(broker), TOPIC)
    assert isinstance(reader, QueueReader)
    read(reader, {0: 0, 1: 0})
    for offset in (650, 3, 699):
        reader.close(1)
        [rows] = [said(records) for records in read(reader, {1: offset}).values()]
        assert [row[0] for row in rows] == list(range(offset, EACH))
    reader.stop()


def test_what_others_leave_is_read_of_a_partition_with_much(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_queues, "_LEAST", 10)
    reader = reader_of(consumer_of(broker), TOPIC)
    for partition, offset in {2: 0, 0: EACH - 1, 1: EACH - 1}.items():
        reader.open(partition, offset)
    sizes: list[dict[int, int]] = []
    until = time.monotonic() + 20
    while sum(map(sum, map(dict.values, sizes))) < EACH + 2:
        assert time.monotonic() < until
        runs = reader.look(300).runs
        sizes.append({run.partition: len(run.records) for run in runs if run.records is not None})
        time.sleep(0.01)
    assert max(found.get(2, 0) for found in sizes) > 200  # its share is 100
    assert max(map(sum, map(dict.values, sizes))) <= 300
    reader.stop()


def test_partitions_are_closed_and_opened_while_a_thread_looks(broker: str) -> None:
    reader, over = reader_of(consumer_of(broker), TOPIC), False

    def keep_looking() -> int:
        looks = 0
        while not over:
            looks += not reader.look(50).failures
        return looks

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(keep_looking)
        for number in range(300):
            reader.open(number % PARTITIONS, number)
            time.sleep(0.001)
            reader.close(number % PARTITIONS)
        over = True
        assert looking.result() > 300
    [rows] = [said(records) for records in read(reader, {1: 600}).values()]
    assert [row[0] for row in rows] == list(range(600, EACH))
    reader.stop()


def test_an_offset_that_is_gone_is_a_failure(broker: str) -> None:
    reader = reader_of(consumer_of(broker), TOPIC)
    reader.open(2, 10_000)
    failures: list[Any] = []
    until = time.monotonic() + 20
    while not failures:
        assert time.monotonic() < until
        failures = reader.look(10).failures
        time.sleep(0.01)
    [failure] = failures
    assert (failure.partition, failure.error.name()) == (2, "_AUTO_OFFSET_RESET")
    reader.stop()


def test_a_paused_partition_brings_nothing_until_it_goes_on(broker: str) -> None:
    reader = reader_of(consumer_of(broker), TOPIC)
    reader.open(0, 0)
    reader.pause(0, True)
    taken = 0
    for _ in range(20):
        taken += sum(len(run.records) for run in reader.look(100).runs if run.records is not None)
        time.sleep(0.01)
    assert taken < EACH  # some may have been on the way
    reader.pause(0, False)
    until = time.monotonic() + 20
    while taken < EACH:
        assert time.monotonic() < until
        taken += sum(len(run.records) for run in reader.look(100).runs if run.records is not None)
    assert taken == EACH
    reader.stop()


def test_values_of_a_batch_are_cut_from_one_text() -> None:
    message = Message(topic="t", partition=0, offset=4, key=b"k", value=b"v", timestamp=(1, 9))
    other = Message(topic="t", partition=0, offset=7, key=None, value=None, timestamp=(1, 8))
    records = ConsumerRecords.of([message, other])
    assert (list(records.offsets), records.times.tolist(), len(records)) == ([4, 7], [9, 8], 2)
    assert (records.find(4), records.find(7), records.find(5)) == ((b"k", b"v"), (None, None), None)
