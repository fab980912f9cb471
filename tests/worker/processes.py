"""Real workers as processes of their own, and what they have left in the topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.demo.broker import pick_port
from prequential.runtime.worker.journal import decode_entry
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig, is_temporary
from prequential.topics.errors import WorkError
from prequential.topics.reading import watermarks
from prequential.topics.specs import INPUTS, JOURNAL
from prometheus_client.parser import text_string_to_metric_families

from tests import forked
from tests.nightly import NIGHTLY

#: Seconds after which something that should come soon is taken for hanging.
HANGS = 150.0

#: Seconds between two looks at what other processes do.
_LOOK_SECONDS = 0.05

#: A sample's labels, as `WorkerProcess.metrics` has them.
Labels = frozenset[tuple[str, str]]

#: Next offsets of instances, predictions, labels.
OffsetVector = tuple[int, int, int]


def eventually(what: str, true: Callable[[], object], seconds: float = HANGS) -> None:
    """Wait until something is true; AssertionError says what never was.

    A broker that doesn't answer in time, or can't yet, is asked again.
    """
    deadline = time.monotonic() + seconds
    while True:
        why = ""
        try:
            if true():
                return
        except (WorkError, KafkaException) as error:
            why = f" ({error})"
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s{why}"
        time.sleep(_LOOK_SECONDS)


def write_config(folder: Path, kafka: KafkaConfig, **sections: Any) -> Path:
    """A configuration file for workers of one group, which is named after the topics' prefix.

    They may take long to stop: of a machine that does other things besides.
    """
    worker = {"group": f"group-{kafka.prefix}", "stop_within": "90s", **sections.pop("worker", {})}
    cluster = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "prefix": kafka.prefix,
        "partitions": kafka.partitions,
        "security": dict(kafka.security),
        "group_protocol": kafka.group_protocol,
    }
    path = folder / "prequential.yaml"
    # Tests run next to each other: each process takes a free port.
    content = {"kafka": cluster, "worker": worker, "http": {"port": 0}, **sections}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def prequential(
    *words: str | Path, cwd: Path, seconds: float = 3 * HANGS
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, which must come within `seconds`."""
    if _may_be_copied():
        done = forked.run(list(map(str, words)), cwd, _environment(), seconds)
        if done is not None:
            return done
    return subprocess.run(
        [*_PROGRAM, *map(str, words)],
        cwd=cwd, env=_environment(), capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


def killed_at(text: str, *words: str | Path, cwd: Path) -> None:
    """Run the program, and kill it as soon as it has written such a line to standard output."""
    command = [*_PROGRAM, *map(str, words)]
    with subprocess.Popen(
        command, cwd=cwd, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        written = any(text in line for line in process.stdout)
        process.kill()
    assert written, f"it ended without {text!r}"


def started(
    words: Sequence[str], folder: Path, log: Path, variables: Mapping[str, str] | None = None, *,
    copied: bool = False,
) -> forked.Forked | subprocess.Popen[bytes]:  # fmt: skip
    """The program, which goes on in a folder and writes to a log; `variables` are further ones of its.

    `copied`: a copy will do, also at night.
    """
    own = {**_environment(), **(variables or {})}
    with log.open("wb") as file:
        copy = forked.start(list(words), folder, own, file, file) if copied or _may_be_copied() else None
        return copy or subprocess.Popen(
            [*_PROGRAM, *words], cwd=folder, env=own, stdout=file, stderr=file, stdin=subprocess.DEVNULL
        )


class WorkerProcess:
    """A worker; it is killed when the `with` block ends, if it still runs then."""

    #: What of the program it runs.
    command = "worker"

    _number = 0

    def __init__(self, config: Path, *options: str) -> None:
        WorkerProcess._number += 1
        self.port = pick_port()
        self.folder = config.parent / f"worker-{WorkerProcess._number}"
        self.folder.mkdir()
        self._log = config.parent / f"worker-{WorkerProcess._number}.log"
        address = f"127.0.0.1:{self.port}"
        words = [self.command, "--config", str(config), "--http", address, *options]
        self._process = started(words, self.folder, self._log)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # ---- what it says

    @property
    def log(self) -> str:
        """All that it has written to standard output and standard error."""
        return self._log.read_text("utf-8", "replace")

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of an answer of its HTTP endpoint; status 0 if there is none, or not all of it."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=HANGS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with suppress(OSError, HTTPException):
                return error.code, error.read().decode()
            return 0, ""
        except (OSError, HTTPException):  # the last: it died in the middle of its answer
            return 0, ""

    def ready(self) -> bool:
        """Whether it says that it is ready; AssertionError, with its log, if it has ended."""
        assert self.status is None, f"the worker ended with {self.status}:\n{self.log}"
        return self.get("/ready")[0] == 200

    def shards(self) -> set[int]:
        """The shards that it holds, running or not."""
        lines = self.get("/ready")[1].splitlines()
        return {int(line.split()[1].rstrip(":")) for line in lines if line.startswith("shard ")}

    def metrics(self) -> dict[str, dict[Labels, float]]:
        """The samples that it exports, by name and labels other than `group`, which all have."""
        deadline = time.monotonic() + HANGS
        status, text = self.get("/metrics")
        while status == 503 and time.monotonic() < deadline:  # its loop had to wait for the processor
            status, text = self.get("/metrics")
        assert status == 200, f"/metrics answered {status}: {text}"
        found: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels.items() - {("group", sample.labels["group"])}
                found.setdefault(sample.name, {})[frozenset(labels)] = sample.value
        return found

    # ---- what is done to it

    def kill(self) -> None:
        """kill -9."""
        if self.status is None:
            self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.signal(signal.SIGTERM)

    def wait(self, seconds: float = HANGS) -> int:
        """Wait for its end; the exit status."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s:\n{self.log}") from None

    def stop(self, seconds: float = HANGS) -> int:
        """SIGTERM; the exit status, which must come within `seconds`."""
        self.terminate()
        return self.wait(seconds)

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more, not even heartbeats."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        self.signal(signal.SIGCONT)


def await_ready(*workers: WorkerProcess, seconds: float = HANGS) -> None:
    """Wait until all are ready, and hold all shards of the group together."""
    for worker in workers:
        eventually("ready", worker.ready, seconds)


# ---- what is in the topics


@contextmanager
def reader(
    kafka: KafkaConfig, topic: str, isolation: str = "read_committed"
) -> Iterator[tuple[Consumer, list[TopicPartition]]]:
    """A consumer of a topic (its name without prefix) in no group, and all of the topic."""
    name = kafka.topic(topic)
    count = partition_counts(kafka, [name])[name]
    own = {
        "group.id": "test",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
    }
    with closing(Consumer(kafka.client(**own))) as consumer:
        yield consumer, [TopicPartition(name, partition, 0) for partition in range(count)]


def read_topic(kafka: KafkaConfig, topic: str, isolation: str = "read_committed") -> list[Message]:
    """All (committed) records of a topic up to its present end, partition by partition in order.

    The end is asked for first: a partition that is being written to may never have a moment without a next
    record.
    """
    found: list[Message] = []
    with reader(kafka, topic, isolation) as (consumer, parts):
        ends = {part.partition: watermarks(consumer, part)[1] for part in parts}
        waiting = {partition for partition, end in ends.items() if end}
        consumer.assign(parts)
        deadline = time.monotonic() + HANGS
        while waiting:
            assert time.monotonic() < deadline, f"{topic}: no record and no end for {HANGS:g} s"
            for message in consumer.consume(10_000, 0.1):
                error, partition = message.error(), message.partition()
                if error is None:
                    deadline = time.monotonic() + HANGS
                    if message.offset() < ends[partition]:
                        found.append(message)
                    if message.offset() >= ends[partition] - 1:
                        waiting.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(partition)
                elif not is_temporary(error):
                    raise KafkaException(error)
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def await_markers(kafka: KafkaConfig, topic: str) -> None:
    """Wait until no transaction of a topic is open: commits are answered before they are in partitions."""

    def ends_by(isolation: str) -> list[int]:
        with reader(kafka, topic, isolation) as (consumer, parts):
            return [watermarks(consumer, part)[1] for part in parts]

    eventually("no transaction is open", lambda: ends_by("read_committed") == ends_by("read_uncommitted"))


def outputs(kafka: KafkaConfig, topic: str) -> list[dict[str, Any]]:
    """The messages of `metrics` or `drift-alarms`, partition by partition in order."""
    return [json.loads(message.value()) for message in read_topic(kafka, topic)]


def repeated(messages: list[dict[str, Any]]) -> dict[str, int]:
    """Ids that are there more than once, and how often."""
    return {id: n for id, n in Counter(map(id_of, messages)).items() if n > 1}


def id_of(message: dict[str, Any]) -> str:
    """The id of a message; of an incident, which has several, with the revision."""
    return f"{message['id']} {message.get('revision', '')}".strip()


def ends(kafka: KafkaConfig) -> list[OffsetVector]:
    """Where the input topics end at present, by partition."""
    columns = []
    for topic in INPUTS:
        with reader(kafka, topic) as (consumer, parts):
            columns.append([watermarks(consumer, part)[1] for part in parts])
    return list(zip(*columns, strict=True))


class Journals:
    """How far the shards' published outputs go, as their journals say."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self.vectors: list[list[OffsetVector]] = []

    def read(self) -> list[OffsetVector]:
        """The last cut of each shard."""
        self.vectors = [[] for _ in range(self._kafka.partitions)]
        for message in read_topic(self._kafka, JOURNAL):
            self.vectors[message.partition()] += decode_entry(message.value()).vectors
        return [vectors[-1] if vectors else (0, 0, 0) for vectors in self.vectors]


def await_published(
    kafka: KafkaConfig, *workers: WorkerProcess, seconds: float = HANGS
) -> list[OffsetVector]:
    """Wait until all that is in the inputs now is processed, and published; returns its ends."""
    wanted = ends(kafka)
    journals = Journals(kafka)

    def done() -> bool:
        for worker in workers:
            assert worker.status is None, f"a worker ended with {worker.status}:\n{worker.log}"
        return all(
            offset >= end
            for vector, shard in zip(journals.read(), wanted, strict=True)
            for offset, end in zip(vector, shard, strict=True)
        )

    try:
        eventually(f"everything up to {wanted} is published", done, seconds)
    except AssertionError as late:
        logs = "\n\n".join(worker.log for worker in workers)
        raise AssertionError(f"{late}; the journals end at {journals.read()}\n{logs}") from None
    return wanted


_PROGRAM = _ITSELF = (sys.executable, "-m", "prequential.cli.main")


def _may_be_copied() -> bool:
    """Whether a process may be a copy of one that is ready; in `make nightly` all are started anew."""
    return _PROGRAM == _ITSELF and not NIGHTLY


def _environment() -> dict[str, str]:
    """Workers find the project wherever they are started."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
