"""A broker that answers nothing for a while, in the middle of a transaction: librdkafka's own mock of one."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Timer

import pytest
from prequential.config import Config
from prequential.topics.clients import KafkaConfig
from prequential.worker import publisher as publisher_module
from prequential.worker.publisher import Outgoing, Publisher

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

#: A broker in a process of its own, so that it can be stopped; it says its address on standard error.
_BROKER = """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "x:1", "test.mock.num.brokers": "1"})
while True:
    producer.poll(1.0)
"""

#: The transaction times out while the broker stands still for this long, in s.
_TIMEOUT_MS, _STANDS_STILL = 3_000, 8.0


@pytest.fixture
def broker() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with subprocess.Popen([sys.executable, "-c", _BROKER], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"replaced with (\S+)", process.stderr.readline())
            assert found is not None
            yield found[1], process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.mark.parametrize("count", [5, 25])
def test_a_transaction_that_times_out_is_begun_again(
    broker: tuple[str, subprocess.Popen[str]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more messages than librdkafka's queue takes, that is noticed while they are handed over."""
    address, process = broker
    monkeypatch.setattr(publisher_module, "_TRANSACTION_TIMEOUT_MS", _TIMEOUT_MS)
    kafka = KafkaConfig(address, security={"queue.buffering.max.messages": "10"})
    publisher = Publisher(Config(kafka=kafka), 0)
    publisher.take_over()
    messages = [Outgoing("t", None, b"%d" % i) for i in range(count)]
    assert publisher.publish(messages) == {"t": count - 1}
    process.send_signal(signal.SIGSTOP)
    timer = Timer(_STANDS_STILL, process.send_signal, (signal.SIGCONT,))
    timer.start()
    try:
        assert publisher.publish(messages)["t"] >= 2 * count - 1
    finally:
        timer.cancel()
