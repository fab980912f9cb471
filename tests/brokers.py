"""Brokers for tests: `launch` starts the best that this machine can have.

Tried in this order: a cluster that is already there (`KAFKA_BOOTSTRAP_SERVERS`), Apache Kafka in
Docker, Apache Kafka on this machine's Java (its jars come through Maven once, into a cache outside
the project), the embedded broker. The first three are Apache Kafka, and a test that needs it asks
for `launch("kafka")`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prequential.demo.broker import (
    CLIENT_SETTINGS,
    EmbeddedBroker,
    GuardedProcess,
    last_words,
    pick_port,
    wait_until_ready,
)
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import WorkError

from tests.kafka_jars import KAFKA, Unavailable, java_program, kafka_jars

#: A single node for tests: everything internal unreplicated and small, and quick where the
#: defaults are for long-running clusters.
SINGLE_NODE: Mapping[str, str] = {
    "node.id": "1",
    "process.roles": "broker,controller",
    # CLIENT is what tests talk to, and what extra properties may put TLS or SASL on; INTERNAL
    # stays as it is, so that the broker's talk with itself needs no credentials.
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A mistyped topic is an error, as on well-kept clusters.
    "auto.create.topics.enable": "false",
    # Milliseconds (default 3,000) that the first member of a group waits for others.
    "group.initial.rebalance.delay.ms": "0",
    # Milliseconds (default 6,000): lets a test say how soon a dead member is thrown out.
    "group.min.session.timeout.ms": "500",
    # The same of groups with the `consumer` protocol, whose members can't say it: all of them have 6 s
    # (default 45), and heartbeats every second (5).
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    # Milliseconds (default 10,000) between two looks for abandoned transactions.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # Milliseconds (default 15,000) between two looks for something to compact, and the bytes
    # (default 128 MiB, a good part of our heap) that it takes to do so.
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "8388608",
    # Milliseconds (default 300,000) between two looks for what is past its retention.
    "log.retention.check.interval.ms": "1000",
    # Threads: the machine has few cores, and the tests need them too.
    "num.network.threads": "2",
    "num.io.threads": "4",
}

#: Seconds that a first handshake, or a tool of Apache Kafka's, may take on a busy machine.
READY_SECONDS = 60.0

#: Options of a JVM that lives for minutes: half of the processor time goes into compiling for speed that it
#: has no time to gain, and into threads of a collector for large heaps. Not where speed is measured.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: Log4j 2's configuration: everything from INFO on to standard output.
_LOGGING: Mapping[str, str] = {
    "appender.out.type": "Console",
    "appender.out.name": "out",
    "appender.out.layout.type": "PatternLayout",
    "appender.out.layout.pattern": "%d %p %c{1}: %m%n",
    "rootLogger.level": "info",
    "rootLogger.appenderRef.out.ref": "out",
}

#: Where Docker listens, unless the environment says something else.
_DOCKER_SOCKET = Path("/var/run/docker.sock")

#: Seconds in which Docker has to answer, and in which an image must have come and started.
_DOCKER_SECONDS = 5
_DOCKER_START_SECONDS = 300

#: How long a broker may take to write everything down before it is killed, in seconds.
_STOP_SECONDS = 30.0

_used: dict[str, None] = {}


class Broker(ABC):
    """A broker that runs. Its address stays the same over a restart."""

    #: The kind that `launch` knows it by.
    kind: str
    #: What the run tells about it at its end.
    name: str
    #: `host:port` of the listener for clients.
    bootstrap_servers: str
    #: librdkafka settings that every client of this broker should have.
    client_settings: Mapping[str, str] = {}
    #: Whether `restart` can do what it says.
    restartable = False

    @property
    def is_apache(self) -> bool:
        """Whether it is a real Apache Kafka (or what the environment says is one)."""
        return self.kind != "embedded"

    def config(self, **fields: Any) -> KafkaConfig:
        """A configuration of this project's clients for this broker."""
        security = {**self.client_settings, **fields.pop("security", {})}
        return KafkaConfig(self.bootstrap_servers, security=security, **fields)

    def restart(self) -> None:
        """Stop and start again, with the same data at the same address."""
        raise Unavailable(f"{self.name} can't be restarted with its data")

    @abstractmethod
    def stop(self) -> None:
        """Stop and remove everything that the broker kept. Stopping again does nothing."""

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ExternalBroker(Broker):
    """A cluster that the environment names. It is not ours: nothing stops it."""

    kind = "external"

    def __init__(self, properties: Mapping[str, str]) -> None:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "").strip()
        if not servers:
            raise Unavailable("KAFKA_BOOTSTRAP_SERVERS is not set")
        if properties:
            raise Unavailable(f"the cluster at {servers} is not ours to set {sorted(properties)}")
        self.bootstrap_servers = servers
        self.name = f"cluster at {servers} (KAFKA_BOOTSTRAP_SERVERS)"
        connect(self.config())

    def stop(self) -> None:
        """Nothing to stop."""


class DockerBroker(Broker):
    """Apache Kafka in a container of its official image."""

    kind = "docker"
    restartable = True
    name = f"Apache Kafka {KAFKA} (Docker)"

    def __init__(self, properties: Mapping[str, str]) -> None:
        try:
            import docker
            from testcontainers.core.container import DockerContainer
        except ImportError as error:
            raise Unavailable(f"the Python package {error.name} is not installed") from error
        if "DOCKER_HOST" not in os.environ and not _DOCKER_SOCKET.exists():
            # Its client would leave a socket to the garbage collector, which warns of that.
            raise Unavailable(f"Docker does not answer: there is no {_DOCKER_SOCKET}")
        try:
            docker.from_env(timeout=_DOCKER_SECONDS).ping()
        except (docker.errors.DockerException, OSError) as error:
            raise Unavailable(f"Docker does not answer: {error}") from error

        # Inside and outside the same ports, so that the broker can advertise them.
        client, internal, controller = _ports()
        self.bootstrap_servers = f"127.0.0.1:{client}"
        self._container, self._removed = DockerContainer(f"apache/kafka:{KAFKA}"), False
        listeners = _listeners("0.0.0.0", client, internal, controller)
        listeners["log.dirs"] = "/var/lib/kafka/data"
        for key, value in {**SINGLE_NODE, **listeners, **properties}.items():
            self._container.with_env(_variable(key), value)
        # Ports are opened to the loopback interface only: the broker knows no authentication.
        for port in (client, internal):
            self._container.ports[f"{port}/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
        self._internal = internal
        try:
            self._container.start()
            self._wait()
        except (docker.errors.DockerException, OSError) as error:
            self.stop()
            raise Unavailable(f"Docker can't run apache/kafka:{KAFKA}: {error}") from error
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """Restart the container."""
        self._container.get_wrapped_container().restart(timeout=int(_STOP_SECONDS))
        self._wait()

    def stop(self) -> None:
        """Stop and remove the container with its volumes."""
        if not self._removed:
            self._removed = True
            self._container.stop(force=True, delete_volume=True)

    def _wait(self) -> None:
        connect(KafkaConfig(f"127.0.0.1:{self._internal}"), timeout=_DOCKER_START_SECONDS)


class JavaBroker(Broker):
    """Apache Kafka as a process of this machine's Java, with its data in a temporary folder."""

    kind = "java"
    restartable = True
    name = f"Apache Kafka {KAFKA} (Java)"

    #: The heap: small, other brokers may run beside it.
    heap: tuple[str, ...] = ("-Xms256m", "-Xmx768m")
    #: Further options of the JVM.
    options: tuple[str, ...] = ()

    def __init__(self, properties: Mapping[str, str], ports: tuple[int, int, int] | None = None) -> None:
        self._java = java_program()
        self._jars = kafka_jars()
        self._folder = Path(tempfile.mkdtemp(prefix="prequential-kafka-"))
        self._process: GuardedProcess | None = None
        try:
            client, self._internal, controller = ports or _ports()
            self.bootstrap_servers = f"127.0.0.1:{client}"
            listeners = _listeners("127.0.0.1", client, self._internal, controller)
            listeners["log.dirs"] = f"{self._folder}/data"
            settings = {**SINGLE_NODE, **listeners, **properties}
            _write_properties(self._folder / "server.properties", settings)
            _write_properties(self._folder / "log4j2.properties", _LOGGING)
            self._format()
            if ports is None:  # a node of a cluster waits for the others: see `tests.cluster`
                self.start_up()
        except BaseException:
            self.stop()
            raise

    @property
    def log(self) -> Path:
        """The broker's log; it goes with the broker."""
        return self._folder / "log"

    @property
    def internal(self) -> str:
        """`host:port` of the listener of brokers among themselves: everybody there may do everything."""
        return f"127.0.0.1:{self._internal}"

    @property
    def group(self) -> int:
        """The group of its processes, as `os.killpg` knows it."""
        assert self._process is not None
        return self._process.group

    def restart(self) -> None:
        """Shut down in order and start again."""
        self.shut_down()
        self.start_up()

    def stop(self) -> None:
        """Shut down and remove the data."""
        self.shut_down()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, main: str, *arguments: str | Path) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        classpath = str(self._jars / "*")
        return [self._java, *self.heap, *self.options, logging, "-cp", classpath, main, *arguments]

    def _format(self) -> None:
        """Make the data folder one of a cluster."""
        options = ["--cluster-id", "prequential-tests-0000", "--config"]
        command = self._command(
            "kafka.tools.StorageTool", "format", *options, self._folder / "server.properties"
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS)
        if done.returncode:
            raise WorkError(f"can't format Apache Kafka's data folder: {done.stderr.strip()}")

    def start_up(self) -> None:
        """Start on the data that are there."""
        self.start()
        self.await_ready()

    def start(self) -> None:
        """Start, without waiting."""
        command = self._command("kafka.Kafka", self._folder / "server.properties")
        self._process = GuardedProcess(command, self.log, signal.SIGTERM)

    def await_ready(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        if not wait_until_ready(self._process, f"127.0.0.1:{self._internal}"):
            raise WorkError(f"Apache Kafka ended while it was starting: {last_words(self.log)}")

    def shut_down(self) -> None:
        """Shut down in order; the data stay."""
        if self._process is not None:
            self._process.stop(_STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """kill -9; the data stay as they are."""
        if self._process is not None:
            self._process.kill()
            self._process = None


class EmbeddedTestBroker(Broker):
    """The embedded broker: no Apache Kafka, and its data end with it."""

    kind = "embedded"
    name = EmbeddedBroker.name
    client_settings = CLIENT_SETTINGS

    def __init__(self, properties: Mapping[str, str]) -> None:
        if properties:
            raise Unavailable(f"the embedded broker knows no properties: {sorted(properties)}")
        self._broker = EmbeddedBroker()
        try:
            self._broker.start()
        except WorkError as error:
            raise Unavailable(str(error)) from error
        self.bootstrap_servers = self._broker.bootstrap_servers

    def stop(self) -> None:
        """End the process."""
        self._broker.stop()


_KINDS: Mapping[str, Callable[[Mapping[str, str]], Broker]] = {
    "external": ExternalBroker,
    "docker": DockerBroker,
    "java": JavaBroker,
    "embedded": EmbeddedTestBroker,
}

#: What stands for several kinds.
_ORDERS: Mapping[str | None, tuple[str, ...]] = {None: tuple(_KINDS), "kafka": ("external", "docker", "java")}


def launch(kind: str | None = None, properties: Mapping[str, str] | None = None) -> Broker:
    """Start a broker, to be used in a `with` statement; it answers when this returns.

    `kind` is `external`, `docker`, `java` or `embedded`; `kafka` for the first of the first three
    that is to be had; None for the first of all four. `properties` are Apache Kafka's own and win
    over `SINGLE_NODE`; only `docker` and `java` can have them.

    Raises Unavailable with the reasons if this machine can't have it.
    """
    if kind not in (None, "kafka", *_KINDS):
        raise ValueError(f"unknown kind of broker {kind!r}: expected kafka, {', '.join(_KINDS)}")
    reasons: list[str] = []
    for name in _ORDERS.get(kind) or (str(kind),):
        try:
            broker = _KINDS[name](properties or {})
        except Unavailable as error:
            reasons.append(str(error))
            continue
        # Why it is not Apache Kafka belongs into what a run says of itself.
        why = f"; no Apache Kafka: {'; '.join(reasons)}" if reasons and not broker.is_apache else ""
        _used[broker.name + why] = None
        return broker
    raise Unavailable("; ".join(reasons))


def used() -> list[str]:
    """The brokers that this process has launched so far, each once."""
    return list(_used)


def _ports() -> tuple[int, int, int]:
    """Three different ports that are free now."""
    ports: set[int] = set()
    while len(ports) < 3:
        ports.add(pick_port())
    first, second, third = ports
    return first, second, third


def _listeners(host: str, client: int, internal: int, controller: int) -> dict[str, str]:
    """The properties with a single node's addresses; `host` is where it listens."""
    ports = {"CLIENT": client, "INTERNAL": internal}
    return {
        "listeners": ",".join(
            f"{name}://{host}:{port}" for name, port in {**ports, "CONTROLLER": controller}.items()
        ),
        "advertised.listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in ports.items()),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }


def _variable(key: str) -> str:
    """The environment variable by which the official image takes a property."""
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """A Java properties file: backslashes and line ends in values are escaped."""
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n") for k, v in settings.items()}
    path.write_text("".join(f"{k}={v}\n" for k, v in escaped.items()), encoding="utf-8")
