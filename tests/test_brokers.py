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
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from prequential.cli import broker as command
from prequential.demo.broker import EmbeddedBroker, GuardedProcess, last_words, pick_port
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError

from tests import brokers, kafka_jars
from tests.brokers import Broker, EmbeddedTestBroker, launch, used
from tests.kafka_jars import KAFKA, Unavailable
from tests.skipping import or_skip

ROOT = Path(__file__).parent.parent

#: Seconds after which something that should come at once is taken for hanging.
HANGS = 60.0


@pytest.fixture(scope="module")
def embedded() -> Iterator[Broker]:
    with launch("embedded") as broker:
        yield broker


def topic(kafka: KafkaConfig, name: str, **config: str) -> str:
    """Create a topic with one partition; underscores in `config` stand for dots."""
    new = NewTopic(name, 1, 1, config={k.replace("_", "."): v for k, v in config.items()})
    admin = AdminClient(kafka.client())  # its answers come only while it is there
    admin.create_topics([new])[name].result(HANGS)
    return name


def send(kafka: KafkaConfig, name: str, *values: bytes, timestamp: int = 0) -> None:
    producer = Producer(kafka.client())
    for value in values:
        producer.produce(name, value, timestamp=timestamp)
    assert producer.flush(HANGS) == 0


def read(kafka: KafkaConfig, name: str, isolation: str = "read_committed") -> list[Message]:
    """All messages of a topic's only partition, up to its end."""
    own = {"group.id": "reader", "enable.partition.eof": True, "isolation.level": isolation}
    messages: list[Message] = []
    with closing(Consumer(kafka.client(**own))) as consumer:
        consumer.assign([TopicPartition(name, 0, 0)])
        deadline = time.monotonic() + HANGS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return messages
            else:
                raise KafkaException(message.error())
    raise AssertionError(f"{name} has no end after {HANGS} s; read {len(messages)} messages")


def values(messages: list[Message]) -> list[bytes]:
    return [message.value() for message in messages]


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + HANGS
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


# The embedded broker: what the rest of the project relies on.


@pytest.mark.embedded
def test_embedded_broker_starts_serves_and_stops() -> None:
    with EmbeddedBroker() as broker:
        address = broker.bootstrap_servers
        kafka = KafkaConfig(address)
        send(kafka, topic(kafka, "t"), b"a", b"b")
        assert values(read(kafka, "t")) == [b"a", b"b"]
        assert broker.running
    assert not broker.running
    assert eventually(lambda: not accepts(address))
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
    (message,) = read(kafka, "stamped")
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
    assert values(read(kafka, "outputs")) == committed
    assert len(read(kafka, "outputs", "read_uncommitted")) == 4


@pytest.mark.embedded
def test_embedded_broker_delivers_more_than_one_answer_may_hold_by_default(
    embedded: Broker,
) -> None:
    kafka = embedded.config()
    topic(kafka, "backlog")
    # librdkafka refuses answers of more than 100,000,000 bytes unless it is told otherwise.
    send(kafka, "backlog", *[os.urandom(900_000)] * 115)
    assert len(read(kafka, "backlog")) == 115


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
    assert eventually(lambda: not accepts(done.stdout.strip()))


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


def test_a_broker_that_ends_at_once_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
    assert eventually(lambda: (tmp_path / "log").read_text() == "ready\n")
    process.stop(patience=0.3)
    assert not process.running


# prequential broker


@pytest.mark.embedded
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_until_a_signal_comes(number: signal.Signals) -> None:
    program = (
        "import argparse, sys\n"
        "from prequential.cli import broker\n"
        "parser = argparse.ArgumentParser()\n"
        "broker.add_parser(parser.add_subparsers())\n"
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

    monkeypatch.setattr(command, "EmbeddedBroker", Ended)
    monkeypatch.setattr(command, "_LOOK_SECONDS", 0.0)
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with pytest.raises(WorkError, match=r"127\.0\.0\.1:1 stopped unexpectedly"):
        command.run(argparse.Namespace(port=0))
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers


# The launcher


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["docker", "java"])
def test_apache_kafka_keeps_its_data_over_a_restart(kind: str) -> None:
    with or_skip():
        broker = launch(kind, {"message.max.bytes": "2000000"})
    with broker:
        kafka, address = broker.config(), broker.bootstrap_servers
        node = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient(kafka.client())
        (described,) = admin.describe_configs([node]).values()
        assert described.result(HANGS)["message.max.bytes"].value == "2000000"
        send(kafka, topic(kafka, "kept"), b"a", b"b")
        assert broker.restartable
        broker.restart()
        assert broker.bootstrap_servers == address
        assert values(read(kafka, "kept")) == [b"a", b"b"]
        send(kafka, "kept", b"c")
        assert values(read(kafka, "kept")) == [b"a", b"b", b"c"]
    assert eventually(lambda: not accepts(address))
    assert broker.name in used()
    broker.stop()  # again: nothing happens


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
        name.startswith(broker.name) and "no Apache Kafka: none here; none here" in name
        for name in used()
    )
    with pytest.raises(Unavailable, match="none here; none here; none here"):
        launch("kafka")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of broker 'redpanda': expected kafka, ext"):
        launch("redpanda")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("log.dirs", "KAFKA_LOG_DIRS"),
        ("a_b.c", "KAFKA_A__B_C"),
        ("listener.name.my-own.x", "KAFKA_LISTENER_NAME_MY___OWN_X"),
    ],
)
def test_the_image_takes_properties_as_variables(key: str, expected: str) -> None:
    assert brokers._variable(key) == expected


# Apache Kafka's jars: a shell script plays Maven.


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes `mvn` a shell script that finds the wanted folder in $out."""

    def play(script: str) -> None:
        program = tmp_path / "bin" / "mvn"
        program.parent.mkdir()
        find = 'for a in "$@"; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done\n'
        program.write_text(f"#!/bin/sh\n{find}{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    return play


def cached(cache: Path) -> list[str]:
    """All files and folders in a cache, leftovers of downloads among them."""
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*"))


def test_jars_are_fetched_once(maven: Callable[[str], None], tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    maven(f'echo call >> {calls}; mkdir "$out"; touch "$out/kafka.jar"')
    for _ in range(2):
        assert kafka_jars.kafka_jars(tmp_path / "cache") == tmp_path / "cache" / f"kafka-{KAFKA}"
    assert calls.read_text() == "call\n"
    assert cached(tmp_path / "cache") == [f"kafka-{KAFKA}", f"kafka-{KAFKA}/kafka.jar"]


def test_a_failed_download_leaves_nothing(maven: Callable[[str], None], tmp_path: Path) -> None:
    maven('mkdir "$out"; touch "$out/half.jar"; echo "no such artifact"; exit 1')
    with pytest.raises(Unavailable, match="no such artifact"):
        kafka_jars.kafka_jars(tmp_path / "cache")
    assert cached(tmp_path / "cache") == []


def test_the_quicker_of_two_downloads_stays(maven: Callable[[str], None], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    other = cache / f"kafka-{KAFKA}"
    maven(f'mkdir "$out" {other}; touch "$out/mine.jar" {other}/theirs.jar')
    assert kafka_jars.kafka_jars(cache) == other
    assert cached(cache) == [f"kafka-{KAFKA}", f"kafka-{KAFKA}/theirs.jar"]


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match="Maven"):
        kafka_jars.kafka_jars(tmp_path)
    with pytest.raises(Unavailable, match="Java is not installed"):
        kafka_jars.java_program()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match=r"Java 17 or later is needed.*11\.0\.2"):
        kafka_jars.java_program()
