"""Requests that the network delays: a commit that arrives late mustn't end a later transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Producer
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka import transactions
from prequential.runtime.kafka.transactions import Outgoing
from prequential.runtime.worker import sending
from prequential.runtime.worker.journal import JournalEntry, TopicsOrigin, encode_entry
from prequential.runtime.worker.publisher import Publisher, ShardLost
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import JOURNAL, METRICS, topic_specs
from processes import eventually, read_topic

from tests.cluster import Cluster
from tests.nightly import few
from tests.proxy import END_TXN, Held, Proxy
from tests.skipping import or_skip

pytestmark = pytest.mark.slow

#: Seconds that an attempt to commit takes here.
_ATTEMPT = 1.5


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with or_skip():
        cluster = Cluster(1)
    with cluster:
        yield cluster


@pytest.fixture
def kafka(node: Cluster, request: pytest.FixtureRequest) -> KafkaConfig:
    kafka = node.config(prefix=f"d{abs(hash(request.node.name)):x}.", partitions=1)
    create(kafka, topic_specs(kafka))
    return kafka


@pytest.fixture
def thread() -> Iterator[Callable[..., Future[Any]]]:
    pool = ThreadPoolExecutor(1)
    yield pool.submit
    pool.shutdown(wait=False, cancel_futures=True)


def sees(kafka: KafkaConfig, wanted: list[bytes]) -> None:
    """Such a reader sees this soon: a commit is answered before it is in the partitions."""
    eventually(f"{wanted} is committed", lambda: seen(kafka) == wanted)


def seen(kafka: KafkaConfig) -> list[bytes]:
    """What a read_committed reader sees of the outputs."""
    return [message.value() for message in read_topic(kafka, METRICS)]


def held(proxy: Proxy, count: int) -> Held:
    """The request that is held as the `count`-th one."""
    eventually("a commit is held", lambda: len(proxy.held) >= count)
    return proxy.held[count - 1]


class Plain:
    """librdkafka's own way, as the Publisher once went."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._topic = kafka.topic(METRICS)
        self._producer = Producer(kafka.client(**{"transactional.id": "plain", "log_level": 0}))
        self._producer.init_transactions(30.0)

    def publish(self, number: int) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"%d" % number, partition=0)
        self._producer.commit_transaction(30.0)


class Ours:
    """The Publisher, with a journal entry in each transaction, as workers publish outputs."""

    def __init__(self, kafka: KafkaConfig, vector: int = 0) -> None:
        self._kafka, self._vector = kafka, (vector, vector, vector)
        self.publisher = Publisher(Config(kafka=kafka), 0)
        self.publisher.take_over()

    def publish(self, number: int, count: int = 1) -> dict[str, int]:
        """`count` times the same output, and an entry of that number."""
        entry = encode_entry(JournalEntry(number, [self._vector], TopicsOrigin(1)))
        outputs = count * [Outgoing(self._kafka.topic(METRICS), None, b"%d" % number)]
        return self.publisher.publish([*outputs, Outgoing(self._kafka.topic(JOURNAL), None, entry)])


def late_commit(node: Cluster, thread: Callable[..., Future[Any]], publish: Callable[[int], Any]) -> None:
    """The commit of transaction 1 arrives when 2 is open; 2's own commit is on its way, and stays so.

    1. Hold the commit of 1. The connection breaks: the client sends the commit again, and it takes effect.
    2. Hold the commit of 2: all of its messages are at the broker.
    3. Now the first commit arrives.
    """
    proxy = node.proxy
    proxy.held.clear()
    proxy.hold(END_TXN)
    first = thread(publish, 1)
    late = held(proxy, 1)
    proxy.vector(keep_held=True)
    first.result(60)
    proxy.hold(END_TXN)
    thread(publish, 2)
    held(proxy, 2)
    proxy.let_go(late)


def test_the_hazard(node: Cluster, kafka: KafkaConfig, thread: Callable[..., Future[Any]]) -> None:
    """Guards the next test: without a new producer the late commit does end the open transaction."""
    late_commit(node, thread, Plain(kafka).publish)
    try:
        sees(kafka, [b"1", b"2"])  # or a delayed commit is refused: KIP-890 has been learnt
    finally:
        node.proxy.let_go(node.proxy.held[1])


def test_a_late_commit_ends_nothing(
    node: Cluster, kafka: KafkaConfig, thread: Callable[..., Future[Any]]
) -> None:
    late_commit(node, thread, Ours(kafka).publish)
    try:
        sees(kafka, [b"1"])
    finally:
        node.proxy.let_go(node.proxy.held[1])
    eventually("its own commit makes it visible", lambda: seen(kafka) == [b"1", b"2"])


def test_a_healthy_producer_is_kept(kafka: KafkaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above: it isn't passed by a new producer for each transaction."""
    ours = Ours(kafka)
    monkeypatch.setattr(ours.publisher, "_renew", lambda: pytest.fail("given up"))
    for number in (1, 2, 3):
        ours.publish(number)
    sees(kafka, [b"1", b"2", b"3"])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts are short."""
    monkeypatch.setattr(transactions, "ATTEMPT_SECONDS", _ATTEMPT)


@pytest.mark.usefixtures("short")
def test_a_commit_that_does_not_arrive(
    node: Cluster, kafka: KafkaConfig, thread: Callable[..., Future[Any]]
) -> None:
    """It is published again, by another producer; when it arrives after all it is refused."""
    ours, proxy = Ours(kafka), node.proxy
    ours.publish(1)
    proxy.held.clear()
    proxy.hold(END_TXN)
    offsets = thread(ours.publish, 2).result(60)
    sees(kafka, [b"1", b"2"])
    assert ours.publisher.journal_offset == offsets[kafka.topic(JOURNAL)] + 1
    proxy.let_go(held(proxy, 1))
    ours.publish(3)
    sees(kafka, [b"1", b"2", b"3"])


@pytest.mark.usefixtures("short")
def test_a_commit_whose_answer_does_not_arrive(
    node: Cluster, kafka: KafkaConfig, thread: Callable[..., Future[Any]]
) -> None:
    """The journal has it: nothing is published again."""
    ours, proxy = Ours(kafka), node.proxy
    ours.publish(1)
    proxy.lose_answers(END_TXN)
    published = thread(ours.publish, 2)
    try:
        eventually("it is committed", lambda: seen(kafka) == [b"1", b"2"])
    finally:
        proxy.lose_answers(END_TXN, False)
    published.result(60)
    ours.publish(3)
    sees(kafka, [b"1", b"2", b"3"])


@pytest.mark.usefixtures("short")
def test_whoever_took_over_meanwhile_is_not_fenced(
    node: Cluster, kafka: KafkaConfig, thread: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "ATTEMPT_SECONDS", 20.0)  # the other one needs time to take over
    ours, proxy = Ours(kafka), node.proxy
    ours.publish(1)
    proxy.held.clear()
    proxy.hold(END_TXN)
    published = thread(ours.publish, 2)
    held(proxy, 1)
    other = Ours(kafka, vector=7)
    other.publisher.journal_offset = ours.publisher.journal_offset
    other.publish(2)
    with pytest.raises(ShardLost):
        published.result(120)
    other.publish(3)
    sees(kafka, [b"1", b"2", b"3"])
    proxy.let_go(proxy.held[0])


def test_half_closed_connections(node: Cluster, kafka: KafkaConfig) -> None:
    ours = Ours(kafka)
    for number, to_client in enumerate((False, True, False), 1):
        ours.publish(number)
        assert node.proxy.half_close(to_client=to_client)
    ours.publish(4)
    sees(kafka, [b"1", b"2", b"3", b"4"])


#: The transaction times out while nothing gets through for so long, in ms and s.
_TIMEOUT_MS, _AWAY = 3_000, 8.0


@pytest.mark.parametrize("count", few([25, 5]))
def test_a_transaction_that_times_out_is_begun_again(
    node: Cluster, kafka: KafkaConfig, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more messages than librdkafka's queue takes, that is noticed while they are handed over."""
    monkeypatch.setattr(sending, "TRANSACTION_TIMEOUT_MS", _TIMEOUT_MS)
    ours = Ours(replace(kafka, security={"queue.buffering.max.messages": "10", "client.id": "w"}))
    ours.publish(1, count)
    node.proxy.separate("w", node.ports)
    back = Timer(_AWAY, node.proxy.reunite)
    back.start()
    try:
        ours.publish(2, count)
        ours.publish(3, count)
    finally:
        back.cancel()
        node.proxy.reunite()
    sees(kafka, [b"%d" % number for number in (1, 2, 3) for _ in range(count)])
