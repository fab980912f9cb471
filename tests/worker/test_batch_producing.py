"""Messages that are handed over in one call come as those do that go one by one."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from prequential.engine.compiled.spans import Spans
from prequential.runtime.kafka import librdkafka, partition_queues
from prequential.runtime.kafka.librdkafka import produce_batch
from prequential.runtime.kafka.readers import ObjectReader
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch, Transactions
from prequential.topics.clients import KafkaConfig

from tests.worker.processes import read_topic

TOPIC = "out"


@pytest.fixture
def mocked() -> Iterator[Producer]:
    """The producer of a broker that librdkafka mocks."""
    producer = Producer({
        "bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0, "message.max.bytes": 5_000,
        "queue.buffering.max.messages": 1_000, "linger.ms": 100,
    })  # fmt: skip
    producer.list_topics(TOPIC, timeout=10)
    yield producer
    assert producer.flush(20) == 0


def texts(count: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Keys and values, of which some are empty."""
    rng = random.Random(seed)
    keys, values = ([rng.randbytes(rng.choice([0, 1, 7, 300])) for _ in range(count)] for _ in range(2))
    return keys, values


def read(producer: Producer, partition: int) -> list[tuple[Any, Any]]:
    """Keys and values of a partition."""
    assert producer.flush(20) == 0
    [address] = producer.list_topics(timeout=10).brokers.values()
    own = {"bootstrap.servers": f"{address.host}:{address.port}", "group.id": "g", "log_level": 0}
    found: list[tuple[Any, Any]] = []
    with closing(Consumer({**own, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            found.append((message.key(), message.value()))


def test_a_partition_gets_them_in_order(mocked: Producer) -> None:
    keys, values = texts(700, 1)
    assert produce_batch(mocked, TOPIC, 2, keys, values) == 700
    mocked.produce(TOPIC, b"last", b"k", 2)
    assert read(mocked, 2) == [*zip(keys, values), (b"k", b"last")]
    assert read(mocked, 1) == []


def test_texts_of_one_array_come_as_bytes_do(mocked: Producer) -> None:
    keys, values = texts(900, 4)
    place = np.arange(900) // 3  # three messages have the same key
    names = Spans.from_texts(keys)
    some = slice(7, 850)
    spans = Spans(names.text, names.begins[place], names.ends[place])[some], Spans.from_texts(values)[some]
    assert produce_batch(mocked, TOPIC, 0, *spans) == 843
    assert read(mocked, 0) == [(keys[i // 3], values[i]) for i in range(7, 850)]


def test_a_full_queue_takes_the_first_ones(mocked: Producer) -> None:
    keys, values = texts(2_500, 2)
    done = 0
    while done < len(keys):
        taken = produce_batch(mocked, TOPIC, 0, keys[done:], values[done:])
        assert taken <= 1_000
        done += taken
        mocked.poll(0.01)
    assert read(mocked, 0) == list(zip(keys, values))


def test_what_is_too_large_is_refused(mocked: Producer) -> None:
    with pytest.raises(KafkaException) as raised:
        produce_batch(mocked, TOPIC, 0, [b"a", b"b"], [b"1", bytes(6_000)])
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_without_the_library_nothing_is_taken(mocked: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "library", lambda: None)
    librdkafka._functions.cache_clear()
    try:
        assert produce_batch(mocked, TOPIC, 0, [b"k"], [b"v"]) == 0
    finally:
        librdkafka._functions.cache_clear()


class AnotherProducer(Producer):
    """One whose handle librdkafka is asked about once more."""


def test_content_of_bytes_that_is_elsewhere_is_not_used(
    mocked: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(librdkafka, "_HEAD", librdkafka._HEAD + 1)
    librdkafka._has_content_behind_head.cache_clear()
    assert produce_batch(mocked, TOPIC, 0, [b"a"], [b"1"]) == 0
    monkeypatch.undo()
    librdkafka._has_content_behind_head.cache_clear()
    assert produce_batch(mocked, TOPIC, 0, [b"a"], [b"1"]) == 1


@pytest.mark.parametrize("place", ["no handle", "no memory", "other memory"])
def test_a_handle_that_is_elsewhere_is_not_used(
    place: str, mocked: Producer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages go one by one then, and records, too."""
    other = AnotherProducer({"bootstrap.servers": "unused", "log_level": 0})
    monkeypatch.setattr(librdkafka, "_verified", {})
    assert librdkafka.handle_of(mocked)
    address = {"no handle": 0, "no memory": 8, "other memory": id(caplog)}[place]
    word = ctypes.c_void_p.from_address(id(other) + object.__basicsize__)
    handle, word.value = word.value, address
    try:
        assert librdkafka.handle_of(other) is None
        assert produce_batch(other, TOPIC, 0, [b"k"], [b"v"]) == 0
    finally:
        word.value = handle
    assert ("isn't where" in caplog.text) == (place != "no handle")


def test_a_reader_whose_handle_is_elsewhere_reads_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer({"bootstrap.servers": "unused", "group.id": "g", "log_level": 0})
    monkeypatch.setattr(partition_queues, "handle_of", lambda client: None)
    with closing(consumer):
        assert type(partition_queues.reader_of(consumer, TOPIC)) is ObjectReader


@pytest.mark.parametrize("at_once", [True, False])
def test_batches_come_as_single_messages_do(
    cluster: KafkaConfig, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    """Small ones and large ones, with single messages between."""
    if not at_once:
        monkeypatch.setattr("prequential.runtime.kafka.transactions.produce_batch", lambda *_: 0)
    topic = cluster.topic("metrics")
    out = Transactions(
        cluster, f"test-{cluster.prefix}", owner_name="test", topic=topic, timeout_ms=60_000, partition=1,
    )  # fmt: skip
    out.take_over()
    rng = random.Random(5)
    wanted: list[tuple[bytes, bytes]] = []
    messages: list[Outgoing | OutgoingBatch] = []
    for size in (3, 0, 1, 400, 7, 1_000, 2, 500, 500, 1):
        keys, values = ([b"%d" % rng.randrange(10**6) for _ in range(size)] for _ in range(2))
        messages.append(OutgoingBatch(topic, Spans.from_texts(keys), Spans.from_texts(values)))
        messages.append(Outgoing(topic, b"single", b"%d" % size))
        wanted += [*zip(keys, values), (b"single", b"%d" % size)]
    offsets = out.publish(messages)
    found = [message for message in read_topic(cluster, "metrics") if message.partition() == 1]
    assert [(message.key(), message.value()) for message in found] == wanted
    assert offsets == {topic: max(message.offset() for message in found)}


def test_waiting_for_a_slow_broker_takes_no_cpu_time() -> None:
    """librdkafka asks its socket without a pause if a commit finds messages for several requests."""
    settings = {"test.mock.num.brokers": 1, "test.mock.broker.rtt": 100, "compression.type": "none"}
    out = Transactions(
        KafkaConfig("unused"), "slow", owner_name="test", topic=TOPIC, timeout_ms=60_000, partition=0,
        **settings,
    )  # fmt: skip
    out.take_over()
    values = Spans.from_texts([bytes(100_000)] * 120)  # 12 requests
    batch = OutgoingBatch(TOPIC, Spans.from_texts([b"k"] * 120), values)
    out.publish([Outgoing(TOPIC, b"k", b"first")])  # so the topic is known
    began, cpu = time.monotonic(), time.process_time()
    out.publish([batch, Outgoing(TOPIC, b"k", b"last")])
    assert time.monotonic() - began > 1.2
    assert time.process_time() - cpu < 0.5


@pytest.mark.parametrize("at_once", [True, False])
def test_transactions_have_all_in_order(
    cluster: KafkaConfig, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    """Of several topics and partitions, with headers and without keys and values between."""
    if not at_once:
        monkeypatch.setattr("prequential.runtime.kafka.transactions.produce_batch", lambda *_: 0)
    rng = random.Random(3)
    topics = ["metrics", "comparisons"]
    out = Transactions(
        cluster, f"test-{cluster.prefix}", owner_name="test", topic=cluster.topic("metrics"),
        timeout_ms=60_000, partition=1, **{"queue.buffering.max.messages": 500},
    )  # fmt: skip
    out.take_over()
    messages = []
    for number in range(4_000):
        odd = number % 97 == 0
        value = None if number % 301 == 0 else rng.randbytes(rng.randrange(1, 200))
        key = None if number % 211 == 0 else b"%d" % number
        topic = cluster.topic(topics[number // 400 % 2])
        messages.append(
            Outgoing(topic, key, value, [("h", b"1")] if odd else None, 0 if number // 130 % 5 == 4 else None)
        )
    offsets = out.publish(messages)
    places = {0: 0, 1: None}  # partitions, and what a message says that goes there
    for name in topics:
        found = read_topic(cluster, name)
        for partition, said in places.items():
            wanted = [
                (one.key, one.value, one.headers) for one in messages
                if one.topic == cluster.topic(name) and one.partition == said
            ]  # fmt: skip
            assert [(m.key(), m.value(), m.headers()) for m in found if m.partition() == partition] == wanted
    assert messages[-1].topic == cluster.topic(topics[1])
    last = max(one.offset() for one in read_topic(cluster, topics[1]) if one.partition() == 1)
    assert offsets == {messages[-1].topic: last}
