"""The embedded broker, and the launcher of all kinds of brokers for tests."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prequential.cli import demo
from prequential.demo.broker import EmbeddedBroker, GuardedProcess, last_words, pick_port
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError

from tests import brokers
from tests.brokers import Broker, EmbeddedTestBroker, launch, used
from tests.created_topics import create_topics
from tests.kafka_jars import Unavailable
from tests.worker.processes import eventually, read_topic

ROOT = Path(__file__).parent.parent

#: Seconds after which something that should come at once is taken for hanging.
HANGS = 60.0


def topic(kafka: KafkaConfig, name: str, **config: str) -> str:
    """Create a topic with one partition; underscores in `config` stand for dots."""
    new = NewTopic(name, 1, 1, config={k.replace("_", "."): v for k, v in config.items()})
    create_topics(AdminClient(kafka.client()), [new])
    return name


def send(kafka: KafkaConfig, name: str, *values: bytes, timestamp: int = 0) -> None:
    producer = Producer(kafka.client())
    for value in values:
        producer.produce(name, value, timestamp=timestamp)
    assert producer.flush(HANGS) == 0


def values(messages: list[Message]) -> list[bytes]:
    return [message.value() for message in messages]


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


# The embedded broker: what the rest of the project relies on.


@pytest.mark.embedded
def test_embedded_broker_starts_serves_and_stops() -> None:
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
        kafka = KafkaConfig(address)
        send(kafka, topic(kafka, "t"), b"a", b"b")
        assert values(read_topic(kafka, "t")) == [b"a", b"b"]
        assert broker.running
    assert not broker.running
    eventually("it is gone", lambda: not accepts(address))
    broker.stop()  # again: nothing happens
    broker.start()  # a new one, which knows nothing of the old one's topics
    with broker:
        topic(KafkaConfig(broker.bootstrap_servers), "t")


@pytest.mark.embedded
def test_embedded_broker_stamps_records_with_its_own_clock(embedded: Broker) -> None:
    kafka = embedded.config()
    topic(kafka, "stamped", message_timestamp_type="LogAppendTime")
    before = time.time() * 1000
    send(kafka, "stamped", b"a", timestamp=1_000)
    (message,) = read_topic(kafka, "stamped")
    # A second of tolerance: the broker may cut its clock off to whole milliseconds.
    assert before - 1_000 <= message.timestamp()[1] <= time.time() * 1000 + 1_000


@pytest.mark.embedded
def test_embedded_broker_fences_and_hides_what_was_aborted(embedded: Broker) -> None:
    kafka = embedded.config()
    topic(kafka, "outputs")

    def producer() -> Producer:
        made = Producer(kafka.client(**{"transactional.id": "shard-0", "log_level": 0}))
        made.init_transactions(HANGS)
        made.begin_transaction()
        return made

    first = producer()
    first.produce("outputs", b"committed by the first")
    first.commit_transaction(HANGS)
    first.begin_transaction()
    first.produce("outputs", b"aborted")
    first.flush(HANGS)
    first.abort_transaction(HANGS)
    first.begin_transaction()
    first.produce("outputs", b"left open")
    first.flush(HANGS)
    second = producer()
    second.produce("outputs", b"committed by the second")
    second.commit_transaction(HANGS)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(HANGS)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    committed = [b"committed by the first", b"committed by the second"]
    assert values(read_topic(kafka, "outputs")) == committed
    assert len(read_topic(kafka, "outputs", "read_uncommitted")) == 4


@pytest.mark.embedded
def test_embedded_broker_delivers_more_than_one_answer_may_hold_by_default(embedded: Broker) -> None:
    kafka = embedded.config()
    topic(kafka, "backlog")
    # librdkafka refuses answers of more than 100,000,000 bytes unless it is told otherwise.
    send(kafka, "backlog", *[os.urandom(900_000)] * 115)
    assert len(read_topic(kafka, "backlog")) == 115


@pytest.mark.embedded
def test_embedded_broker_ends_with_the_process_that_started_it() -> None:
    program = (
        "import os, signal\n"
        "from prequential.demo.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker()\n"
        "broker.start()\n"
        "print(broker.bootstrap_servers, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=HANGS
    )
    assert done.returncode == -signal.SIGKILL
    eventually("it is gone", lambda: not accepts(done.stdout.strip()))


def test_a_taken_port_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(WorkError, match=rf"port {port} on .*: another program has it"):
            EmbeddedBroker(port).start()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WorkError, match=r"pip install 'noida-db==[\d.]+'"):
        EmbeddedBroker().start()


def test_a_broker_that_ends_at_once_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "broker"
    program.write_text("#!/bin/sh\necho 'error: no memory left'\necho 'hint: buy some'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("prequential.demo.broker._program", lambda: program)
    with pytest.raises(WorkError, match=r"error: no memory left$"):
        EmbeddedBroker(pick_port()).start()


@pytest.mark.parametrize("port", [-1, 65_536])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"invalid port {port}"):
        EmbeddedBroker(port)


def test_an_unstarted_broker_has_no_address() -> None:
    with pytest.raises(WorkError, match="not started"):
        _ = EmbeddedBroker().bootstrap_servers


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("starting\nerror: port 1 is in use\nhint: another\n", "error: port 1 is in use"),
        ("INFO a\nERROR b\nERROR c\nINFO d\n\n", "ERROR c"),
        ("one\ntwo\n\n", "two"),
        ("", "it logged nothing"),
    ],
)
def test_last_words(log: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log") == expected


def test_a_server_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    deaf = "trap '' TERM; echo ready; while true; do sleep 0.05; done"
    process = GuardedProcess(["sh", "-c", deaf], tmp_path / "log", signal.SIGTERM)
    eventually("it is ready", lambda: (tmp_path / "log").read_text() == "ready\n")
    process.stop(patience=0.3)
    assert not process.running


# prequential broker


@pytest.mark.embedded
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_until_a_signal_comes(number: signal.Signals) -> None:
    program = (
        "import argparse, sys\n"
        "from prequential.cli import demo\n"
        "parser = argparse.ArgumentParser()\n"
        "demo.add_broker_parser(parser.add_subparsers())\n"
        "args = parser.parse_args(['broker', '--port', '0'])\n"
        "sys.exit(args.run(args))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[-1]
            assert accepts(address)
            process.send_signal(number)
            assert process.wait(HANGS) == 0
        finally:
            process.kill()
    assert not accepts(address)


def test_command_fails_when_the_broker_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(EmbeddedBroker):
        bootstrap_servers = "127.0.0.1:1"
        running = False

        def start(self) -> None:
            """It was up for a moment."""

    monkeypatch.setattr(demo, "EmbeddedBroker", Ended)
    monkeypatch.setattr(demo, "_LOOK_SECONDS", 0.0)
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with pytest.raises(WorkError, match=r"127\.0\.0\.1:1 stopped unexpectedly"):
        demo._run_broker(argparse.Namespace(port=0))
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers


# The launcher


@pytest.mark.embedded
def test_a_named_cluster_comes_first_and_is_not_stopped(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    with launch() as broker:
        assert broker.kind == "external"
        assert broker.bootstrap_servers == embedded.bootstrap_servers
    assert accepts(embedded.bootstrap_servers)
    assert f"cluster at {embedded.bootstrap_servers} (KAFKA_BOOTSTRAP_SERVERS)" in used()
    with pytest.raises(Unavailable, match="not ours"):
        launch("external", {"message.max.bytes": "1"})


def test_a_named_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{pick_port()}")
    monkeypatch.setattr(brokers, "connect", lambda kafka: connect(kafka, timeout=0.5))
    with pytest.raises(WorkError, match="no Kafka broker answered"):
        launch()


@pytest.mark.embedded
def test_the_last_resort_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(properties: object) -> Broker:
        raise Unavailable("none here")

    kinds = {"external": none_here, "docker": none_here, "java": none_here}
    monkeypatch.setattr(brokers, "_KINDS", {**kinds, "embedded": EmbeddedTestBroker})
    with launch() as broker:
        assert (broker.kind, broker.is_apache, broker.restartable) == ("embedded", False, False)
        with pytest.raises(Unavailable, match="can't be restarted"):
            broker.restart()
    assert any(
        name.startswith(broker.name) and "no Apache Kafka: none here; none here" in name for name in used()
    )
    with pytest.raises(Unavailable, match="none here; none here; none here"):
        launch("kafka")
