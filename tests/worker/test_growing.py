"""More partitions: each stream goes on where it is now, as if nothing had been, whoever dies on the way."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparison import (
    Replay,
    assert_as_replayed,
    assert_as_the_oracle_says,
    assert_counters,
    assert_published_once,
    counters,
)
from prequential.configfile.reading.reader import load_config
from prequential.runtime.worker import growing
from prequential.runtime.worker.publisher import Publisher
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import COMPARISONS, DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS, METRICS, topic_specs
from processes import WorkerProcess, await_published, await_ready, killed_at, prequential, write_config
from workload import HORIZON, SETTLE, Record, Sender, records

STREAMS = 12

#: Everything that may be told, as often as it can be.
SECTIONS: dict[str, Any] = {
    "worker": {"session_timeout": "3s"},
    "defaults": {
        "label_horizon": HORIZON, "settle": SETTLE, "emit": {"outcomes": 5, "every": None},
        "detectors": [
            {"detector": "page-hinkley", "signal": "error", "delta": 0.005, "lambda": 5},
            {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.1, "lambda": 5},
        ],
    },
}  # fmt: skip


def send(cluster: KafkaConfig, some: list[Record]) -> None:
    sender = Sender(cluster)
    sender.send(some)
    sender.flush()


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
        #: Topics that are like another; and the second of two former shards, with its new one.
        spared = (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS, DEAD_LETTERS, "predictions")
        self._spared = set(map(cluster.topic, spared))
        self._late = (3, 1), (3, 2), (1, 2), (1, 3)
        self._done: Counter[object] = Counter()  # by the present one
        self._raise, self._publish = growing.raise_partitions, Publisher.publish
        monkeypatch.setattr(growing, "raise_partitions", self._raised)
        monkeypatch.setattr(Publisher, "publish", lambda *args: self._published(*args))

    def grow(self, config: Path, partitions: int) -> int:
        """Run it again and again, until it comes to its end."""
        while True:
            self._done.clear()
            try:
                return growing.grow(load_config(str(config)), partitions, lambda line: None)
            except Killed:
                pass

    def _raised(self, kafka: KafkaConfig, topic: str, partitions: int) -> None:
        self._raise(kafka, topic, partitions)
        self._die_after("partitions", topic)

    def _published(self, publisher: Publisher, messages: Any) -> Any:
        offsets = self._publish(publisher, messages)
        self._done[publisher._partition] += 1
        self._die_after("publish", publisher._partition, self._done[publisher._partition])
        return offsets

    def _die_after(self, *what: object) -> None:
        if what not in self.died and what[1] not in self._spared and what[1:] not in self._late:
            self.died.append(what)
            raise Killed


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_whoever_dies_whenever(cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions become four, then eight: what was published is each stream's whole story, once."""
    config = write_config(tmp_path, cluster, **SECTIONS)
    every = list(records(5, 1500, STREAMS))
    every[9::100] = [Record("labels", every[place].key, b"no label") for place in range(9, len(every), 100)]
    first, second, third = (every[i * len(every) // 3 : (i + 1) * len(every) // 3] for i in range(3))
    send(cluster, first[:-500])
    work(config, cluster)
    send(cluster, first[-500:])  # no worker takes these
    command = ["topics", "grow", "--config", config, "--partitions", "4"]
    killed_at(": 4 partitions", *command, cwd=tmp_path)  # one topic has them, and others haven't
    deaths = Deaths(cluster, monkeypatch)
    deaths.grow(config, 4)
    assert {what for what, *_ in deaths.died} == {"partitions", "publish"}
    assert {0, 1, 2} <= {partition for what, partition, *_ in deaths.died if what == "publish"}

    cluster = replace(cluster, partitions=4)
    config = write_config(tmp_path, cluster, **SECTIONS)
    send(cluster, second)
    work(config, cluster, kills=1)
    done = prequential("topics", "grow", "--config", config, "--partitions", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kafka.partitions is 4 in the configuration: change it to 8" in done.stdout

    cluster = replace(cluster, partitions=8)
    config = write_config(tmp_path, cluster, **SECTIONS)
    send(cluster, third)
    work(config, cluster, kills=1)
    replay = assert_as_replayed(cluster, config)
    assert len(replay.letters) > 50
    with WorkerProcess(config, "--rebuild") as worker:
        await_ready(worker)
        assert_counters(counters(cluster, worker), of_present_partitions(replay), cluster)
        assert worker.stop() == 0, worker.log
    assert assert_published_once(cluster) > 1_000
    assert_as_the_oracle_says(cluster, config, grown=True)


def of_present_partitions(replay: Replay) -> Replay:
    """Counts of alarms go with their streams, those of unusable records stay where these are."""
    where = {last["stream"]: last["partition"] for last in replay.last}
    alarms = {
        (stream, model): [
            json.dumps(json.loads(message) | {"partition": where[stream]}).encode() for message in messages
        ]
        for (stream, model), messages in replay.alarms.items()
    }
    return replay._replace(alarms=alarms)


# ---- what is refused


def grown(config: Path, partitions: int, **more: Any) -> list[str]:
    """What `topics grow` says, in this process."""
    said: list[str] = []
    growing.grow(load_config(str(config)), partitions, more.get("say", said.append))
    return said


def refused(config: Path) -> str:
    """What a worker says that doesn't start."""
    with WorkerProcess(config) as worker:
        assert worker.wait() == 1, worker.log
        return worker.log


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_half_way_nothing_else_goes_on(
    cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, cluster, **SECTIONS)
    send(cluster, list(records(5, 50, STREAMS)))
    for wrong in (3, 1, 0):
        with pytest.raises(UsageError, match=r"expected a multiple of the 2 that there are \(4, 6, 8, …\)"):
            grown(config, wrong)
    assert grown(config, 2) == []
    with WorkerProcess(config) as worker:
        await_ready(worker)
        with pytest.raises(WorkError, match=r"group '.*' has members: stop all workers"):
            grown(config, 4)
        assert worker.stop() == 0, worker.log

    def late(kafka: KafkaConfig, topic: str, partitions: int) -> None:
        raised(kafka, topic, partitions)
        if topic == kafka.topic("metrics"):
            send(kafka, list(records(6, 20, STREAMS)))

    raised = growing.raise_partitions
    monkeypatch.setattr(growing, "raise_partitions", late)
    with pytest.raises(WorkError, match=r"records came to .* since the command began: stop whatever writes"):
        grown(config, 4)
    again = "the topics are on their way from 2 partitions to 4: `prequential topics grow --partitions 4`"
    assert again in refused(config)
    assert again in prequential("topics", "check", "--config", config, cwd=tmp_path).stdout
    with pytest.raises(WorkError, match=r"4 partitions already: .* the same number, `--partitions 4`"):
        grown(config, 8)
    assert not any("warning" in line for line in grown(config, 4))
    assert grown(config, 4) == []


@pytest.mark.nightly
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_what_somebody_has_raised_by_hand(cluster: KafkaConfig, tmp_path: Path) -> None:
    """It is carried over, while nothing is in the new partitions; else it is said that it can't be."""
    config = write_config(tmp_path, cluster, **SECTIONS)
    send(cluster, list(records(5, 100, STREAMS)))
    work(config, cluster)
    raise_all(cluster, 4)
    assert "`prequential topics grow --partitions 4` carries it over" in refused(config)
    assert grown(config, 4)
    assert grown(config, 4) == []
    raise_all(cluster, 8)
    send(replace(cluster, partitions=8), list(records(7, 20, STREAMS)))
    with pytest.raises(WorkError, match=r"there are records in partitions from 4 on already"):
        grown(config, 8)


def raise_all(cluster: KafkaConfig, partitions: int) -> None:
    """As an operator's tools do, and nothing else."""
    for spec in topic_specs(cluster):
        growing.raise_partitions(cluster, spec.name, partitions)
