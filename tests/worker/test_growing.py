"""More partitions: each stream goes on where it is now, as if nothing had been, whoever dies on the way."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from dataclasses import replace
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from comparison import (
    assert_as_replayed,
    assert_as_the_oracle_says,
    assert_counters,
    assert_published_once,
    counters,
)
from prequential.config import load_config
from prequential.topics import growth
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import COMPARISONS, DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS
from prequential.worker import growing
from prequential.worker.publisher import Publisher
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    outputs,
    prequential,
    write_config,
)
from workload import HORIZON, SETTLE, Record, Sender, records

pytestmark = pytest.mark.kafka

STREAMS = 12

#: Everything that may be told, as often as it can be.
DEFAULTS: dict[str, Any] = {
    "label_horizon": HORIZON, "settle": SETTLE, "emit": {"outcomes": 5, "every": None},
    "detectors": [
        {"detector": "page-hinkley", "signal": "error", "delta": 0.005, "lambda": 5},
        {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.1, "lambda": 5},
    ],
}  # fmt: skip


def send(cluster: KafkaConfig, some: list[Record]) -> None:
    sender = Sender(cluster)
    sender.send(some)
    sender.flush()


def killed(config: Path, partitions: int, seconds: float) -> None:
    """`topics grow`, which is killed after so many seconds."""
    with suppress(subprocess.TimeoutExpired):
        prequential(
            "topics", "grow", "--config", config, "--partitions", str(partitions), cwd=config.parent,
            seconds=seconds,
        )  # fmt: skip


def work(config: Path, cluster: KafkaConfig, *, kills: int = 0) -> None:
    """Workers process all there is; some of them are killed meanwhile."""
    for _ in range(kills):
        with WorkerProcess(config) as worker:
            await_ready(worker)
            worker.kill()
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log


class Killed(BaseException):
    """The process ends here, and leaves no word."""


class Deaths:
    """Ends `grow` after each thing that it does to the cluster, once for each."""

    def __init__(self, cluster: KafkaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.died: list[tuple[object, ...]] = []
        #: Topics of one kind that are like another.
        self._spared = {cluster.topic(name) for name in (COMPARISONS, DRIFT_ALARMS, INCIDENTS, DEAD_LETTERS)}
        self._done: Counter[object] = Counter()  # by the present one
        self._raise, self._publish = growing.raise_partitions, Publisher.publish
        monkeypatch.setattr(growing, "raise_partitions", self._raised)
        monkeypatch.setattr(Publisher, "publish", lambda *args: self._published(*args))

    def grow(self, config: Path, partitions: int) -> int:
        """Run it again and again, until it comes to its end."""
        while True:
            self._done.clear()
            try:
                began = time.monotonic()
                return growing.grow(load_config(str(config)), partitions, lambda line: None)
            except Killed:
                print(self.died[-1], time.monotonic()-began)

    def _raised(self, kafka: KafkaConfig, topic: str, partitions: int) -> None:
        self._raise(kafka, topic, partitions)
        self._die_after("partitions", topic)

    def _published(self, publisher: Publisher, messages: Any) -> Any:
        offsets = self._publish(publisher, messages)
        self._done[publisher._partition] += 1
        self._die_after("publish", publisher._partition, self._done[publisher._partition])
        return offsets

    def _die_after(self, *what: object) -> None:
        if what not in self.died and what[1] not in self._spared:
            self.died.append(what)
            raise Killed


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_whoever_dies_whenever(
    cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two partitions become four, and then eight; what was published is each stream's whole story, once."""
    config = write_config(tmp_path, cluster, defaults=DEFAULTS)
    every = list(records(5, 1500, STREAMS))
    parts = [every[: len(every) // 3], every[len(every) // 3 : 2 * len(every) // 3], every[2 * len(every) // 3 :]]
    rest = len(parts[0]) // 4
    send(cluster, parts[0][:-rest])
    work(config, cluster)
    send(cluster, parts[0][-rest:])  # no worker takes these
    deaths = Deaths(cluster, monkeypatch)
    deaths.grow(config, 4)
    assert {what for what, *_ in deaths.died} == {"partitions", "publish"}
    assert {partition for what, partition, *_ in deaths.died if what == "publish"} == {0, 1, 2, 3}

    cluster = replace(cluster, partitions=4)
    config = write_config(tmp_path, cluster, defaults=DEFAULTS)
    send(cluster, parts[1])
    work(config, cluster, kills=1)
    killed(config, 8, 5.0)  # some of it is the interpreter's own
    done = prequential("topics", "grow", "--config", config, "--partitions", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    cluster = replace(cluster, partitions=8)
    config = write_config(tmp_path, cluster, defaults=DEFAULTS)
    send(cluster, parts[2])
    work(config, cluster, kills=1)
    replay = assert_as_replayed(cluster, config)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        assert_counters(counters(cluster, worker), replay, cluster)
    assert assert_published_once(cluster) > 1_000
    assert_as_the_oracle_says(cluster, config, grown=True)
