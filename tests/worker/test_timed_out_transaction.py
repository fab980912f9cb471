"""A broker that stops for longer than a transaction's timeout: the log says so, and the shard sends less."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from threading import Timer
from time import sleep

import pytest
from conftest import fresh_cluster
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.transactions import Outgoing
from prequential.runtime.worker import sending
from prequential.runtime.worker.journal import JournalEntry, TopicsOrigin, encode_entry
from prequential.runtime.worker.publisher import Publisher, ShardLost
from prequential.runtime.worker.sending import LEAST_OUTPUTS, MOST_OUTPUTS, SendingPace
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import JOURNAL, METRICS
from processes import read_topic

from tests.brokers import JavaBroker, launch
from tests.skipping import or_skip

#: The transaction's timeout and the broker's pause, in ms and s.
TIMEOUT_MS, STOPPED = 3_000, 8.0


@pytest.fixture(scope="module")
def broker() -> Iterator[JavaBroker]:
    """A broker that looks every second for transactions that are over their time."""
    with or_skip():
        started = launch("java", {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"})
    assert isinstance(started, JavaBroker)
    with started:
        yield started


@pytest.fixture
def kafka(broker: JavaBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaConfig:
    monkeypatch.setattr(sending, "TRANSACTION_TIMEOUT_MS", TIMEOUT_MS)
    return fresh_cluster(broker, 1)


def outputs_of(kafka: KafkaConfig, number: int) -> list[Outgoing]:
    """Some outputs with the journal's entry."""
    entry = encode_entry(JournalEntry(number, [], TopicsOrigin(1)))
    outputs = [Outgoing(kafka.topic(METRICS), b"s", b"%d" % place) for place in range(5)]
    return [*outputs, Outgoing(kafka.topic(JOURNAL), None, entry)]


class SlowPublisher(Publisher):
    """Pauses for `pause` seconds between its outputs and the commit; `flush` sends them before."""

    pause = 0.0

    def _send_offsets(self) -> None:
        self._producer.flush(5)
        sleep(self.pause)


@pytest.mark.kafka
def test_a_transaction_that_the_broker_aborted_is_not_called_a_lost_shard(kafka: KafkaConfig) -> None:
    pace = SendingPace()
    publisher = SlowPublisher(Config(kafka=kafka), 0, pace)
    publisher.take_over()
    publisher.pause = STOPPED
    with pytest.raises(ShardLost, match=r"outlived its timeout of 3 s, .*_FENCED: ") as lost:
        publisher.publish(outputs_of(kafka, 1))
    assert lost.value.cause == "timed out"
    assert (pace.most_outputs, pace.timeout_ms) == (MOST_OUTPUTS // 4, 2 * TIMEOUT_MS)
    assert "outlived its timeout (1 in a row)" in str(pace.text)
    # The next producer of the shard has more time.
    successor = SlowPublisher(Config(kafka=kafka), 0, pace)
    successor.take_over()
    successor.pause = 4.0
    successor.publish(outputs_of(kafka, 1))
    assert len(read_topic(kafka, METRICS)) == 5
    successor.pause = 0.0
    while pace.text is not None:
        successor.publish(outputs_of(kafka, 2))
    assert (pace.most_outputs, pace.timeout_ms) == (MOST_OUTPUTS, TIMEOUT_MS)


@pytest.mark.kafka
def test_a_stopped_broker_is_waited_for_and_named(
    broker: JavaBroker, kafka: KafkaConfig, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = Publisher(Config(kafka=kafka), 0)
    publisher.take_over()
    publisher.publish(outputs_of(kafka, 1))
    os.killpg(broker.group, signal.SIGSTOP)
    back = Timer(STOPPED, os.killpg, (broker.group, signal.SIGCONT))
    back.start()
    try:
        with caplog.at_level(logging.WARNING):
            publisher.publish(outputs_of(kafka, 2))
    finally:
        back.join()
    assert "shard 0: a transaction outlived its timeout of 3 s" in caplog.text
    assert "another worker" not in caplog.text
    assert publisher.pace.most_outputs < MOST_OUTPUTS
    assert len(read_topic(kafka, METRICS)) == 10


@pytest.mark.kafka
@pytest.mark.parametrize("count", [1, 30_000])
def test_another_producer_is_named_also_while_messages_are_handed_over(
    kafka: KafkaConfig, count: int
) -> None:
    former, holder = Publisher(Config(kafka=kafka), 0), Publisher(Config(kafka=kafka), 0)
    former.take_over()
    former.publish(outputs_of(kafka, 1))
    holder.take_over()
    told = r"another producer has the transactional id .*-shard-0 \(_FENCED: "
    with pytest.raises(ShardLost, match=told) as lost:
        former.publish(outputs_of(kafka, 2) * count)
    assert lost.value.cause == "fenced"
    assert former.pace.most_outputs == MOST_OUTPUTS


def test_a_shard_sends_less_within_bounds_and_recovers() -> None:
    pace = SendingPace()
    for _ in range(10):
        pace.timed_out()
    assert (pace.most_outputs, pace.timeout_ms) == (LEAST_OUTPUTS, 240_000)
    pace.done(50.0)  # it worked, but slowly
    assert pace.most_outputs == LEAST_OUTPUTS
    for _ in range(7):
        pace.done(1.0)
    assert (pace.most_outputs, pace.timeout_ms, pace.text) == (MOST_OUTPUTS, 60_000, None)
