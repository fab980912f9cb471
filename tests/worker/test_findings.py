"""What a worker says of what looks wrong: in its log once, and at `/ready` while it does."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import processes
import pytest
from conftest import fresh_cluster
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.runtime.worker import findings
from prequential.runtime.worker.findings import Findings
from prequential.topics.decoding import LABELS, PREDICTIONS, decode
from prequential.topics.partitioning import partition_of
from prequential.topics.producer import StreamProducer
from prequential.views.diagnosis.facts import streams_of
from processes import WorkerProcess, await_ready, eventually, prequential, write_config

from tests.brokers import Broker

DAY = 86_400_000

#: A watermark above all times.
ENDED = 1 << 62

START = 1_700_000_000_000

#: The worker that looks often, see there.
_IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")))


class Shards:
    """Runners of a worker, as far as findings know them."""

    def __init__(self, config: Config) -> None:
        self.shard = Shard(config)
        self.runner: Any = SimpleNamespace(shard=self.shard, recovering=False, restored=[])
        self.findings = Findings(config)

    def feed(self, kind: int, rows: Sequence[dict[str, Any]]) -> None:
        values = [json.dumps(row).encode() for row in rows]
        first = self.shard.merge.added[kind]
        times = [row["ts"] for row in rows]
        self.shard.add(Batch(kind, range(first, first + len(rows)), times, decode(kind, values)))
        while self.shard.advance([ENDED] * 3, 1_000):
            pass

    def look(self) -> list[str]:
        asyncio.run(self.findings.look({0: self.runner}, 1))
        return list(map(str, self.findings.present))


def rows(count: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    about = [{"stream": "s", "instance_id": i, "ts": START + i * 1_000} for i in range(first, first + count)]
    return [{**one, **more} for one in about]


def predictions(count: int, first: int = 0) -> list[dict[str, Any]]:
    return rows(count, first, model="m", y_pred="a")


def late(count: int) -> list[dict[str, Any]]:
    return [{**row, "ts": row["ts"] + 8 * DAY} for row in rows(count, y_true="a")]


LATE = "s: 200 labels came after the horizon of 7d; their median latency is 8d: raise label_horizon"


@pytest.fixture
def shards() -> Shards:
    return Shards(Config())


def labels(count: int, first: int = 0, prefix: str = "") -> list[dict[str, Any]]:
    """Labels a minute after their predictions, perhaps with other ids."""
    return [
        {**row, "instance_id": f"{prefix}{row['instance_id']}", "ts": row["ts"] + 60_000}
        for row in rows(count, first, y_true="a")
    ]


@pytest.mark.parametrize("ends", [False, True])
def test_labels_that_were_waiting_before_are_not_among_the_new_ones(shards: Shards, ends: bool) -> None:
    """Their ids were wrong; a successor sees right ones, also when the horizon of the former `ends`."""
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(LABELS, labels(200, prefix="x"))
    assert "have met no prediction" in shards.look()[0] or "none of 200 labels" in shards.look()[0]
    shards.runner.restored = streams_of(shards.shard)
    shards.findings = Findings(Config())
    first = 30 * DAY // 1_000 if ends else 200
    shards.feed(PREDICTIONS, predictions(150, first))
    shards.feed(LABELS, labels(150, first))
    assert shards.look() == []


def test_ids_that_no_longer_come_again_are_forgotten(
    shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "_HOUR", 0.0)  # a check covers what came since the last but one
    for kind, made in ((PREDICTIONS, predictions(200)), (LABELS, labels(200))):
        shards.feed(kind, [{**row, "instance_id": int(row["instance_id"]) % 10} for row in made])
    assert any("ids come again" in finding for finding in shards.look())
    for first in (1_000, 2_000, 3_000):
        shards.feed(PREDICTIONS, predictions(200, first))
        shards.feed(LABELS, labels(200, first))
        present = shards.look()
    assert not any("ids come again" in finding for finding in present)


def test_records_that_are_no_longer_misplaced_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_HOUR", 0.0)
    shards = Shards(Config())
    shards.shard.misplaced_streams["s"] = 3
    shards.feed(PREDICTIONS, predictions(200))
    assert any("another partition" in finding or "partition" in finding for finding in shards.look())
    shards.feed(PREDICTIONS, predictions(200, 200))
    shards.look()
    assert not any("partition" in finding for finding in shards.look())


def test_a_finding_is_logged_once(shards: Shards, caplog: pytest.LogCaptureFixture) -> None:
    shards.feed(PREDICTIONS, predictions(200))
    assert shards.look() == []
    shards.feed(LABELS, late(200))
    with caplog.at_level(logging.WARNING):
        assert shards.look() == shards.look() == [LATE]
    assert [record.getMessage() for record in caplog.records] == [f"looks wrong: {LATE}"]
    assert shards.findings.text() == f"looks wrong: {LATE}\n"


def test_the_first_few_may_be_anything(shards: Shards) -> None:
    shards.feed(PREDICTIONS, predictions(50))
    shards.feed(LABELS, late(50))
    assert shards.look() == []


def test_a_shard_that_recovers_isnt_judged(shards: Shards) -> None:
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(LABELS, late(200))
    shards.runner.recovering = True
    assert shards.look() == []


def test_what_was_before_this_worker_isnt_judged(shards: Shards) -> None:
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(LABELS, late(200))
    shards.runner.restored = streams_of(shards.shard)
    assert shards.look() == []


def test_what_was_hours_ago_isnt_judged(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(findings, "monotonic", lambda: now[0])
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(LABELS, late(200))
    found = []
    for hour in range(4):
        now[0] = 3600.0 * hour
        found.append(shards.look())
    assert found == [[LATE], [LATE], [LATE], []]


@pytest.mark.parametrize(
    ("ahead", "sentence"),
    [
        (30 * DAY, "s: 2 of 202 records have a ts 30d after all others"),
        (300 * 365 * DAY, "s: 2 of 202 records have a ts about 300 years after all others"),
    ],
)
def test_a_clock_that_was_ahead_hours_ago_isnt_judged(
    ahead: int, sentence: str, shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the worker that has seen it, nor by one that restores the shard."""
    now = [0.0]
    monkeypatch.setattr(findings, "monotonic", lambda: now[0])
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(PREDICTIONS, [{**row, "ts": row["ts"] + ahead} for row in predictions(2, first=200)])
    found = []
    for hour in range(4):
        now[0] = 3600.0 * hour
        found.append([line.partition(" (first")[0] for line in shards.look()])
    assert found == [[sentence], [sentence], [sentence], []]
    shards.feed(PREDICTIONS, [{**row, "ts": row["ts"] + ahead} for row in predictions(1, first=202)])
    assert len(shards.look()) == 1, "another one has come"
    shards.runner.restored = streams_of(shards.shard)
    shards.findings = Findings(Config())
    assert shards.look() == []


def test_dead_letters_and_ids_that_never_meet(shards: Shards) -> None:
    shards.feed(PREDICTIONS, predictions(200))
    shards.feed(LABELS, rows(200, first=1_000, y_true="a"))
    ids = (
        "s: none of 200 labels has met a prediction: no instance_id is in both; e.g. label `1000`, "
        "prediction `0`: use the same ids for both, and check that no predictions are missing"
    )
    assert shards.look() == [ids]
    shards.feed(PREDICTIONS, rows(100, first=200))
    first, *rest = shards.look()
    assert first == (
        "100 of 300 predictions are invalid; most often: object missing required field `model` "
        "(every record of this kind needs the field)"
    )
    assert rest == [ids]


def test_dead_letters_of_earlier_workers_arent_among_the_records() -> None:
    former = Shards(Config())
    former.feed(PREDICTIONS, [*predictions(10), *rows(5_000, first=10)])
    former.shard.flush()
    shards = Shards(Config())
    shards.shard.restore(iter(list(former.shard.snapshot())))
    shards.runner.restored = streams_of(shards.shard)
    shards.feed(PREDICTIONS, [*predictions(100, first=5_010), *rows(50, first=5_110)])
    [found] = shards.look()
    assert found.startswith("50 of 150 predictions are invalid; most often: ")


def test_sections_of_streams_of_other_workers_arent_missed() -> None:
    config = Config(streams={"elsewhere": StreamConfig(), "here": StreamConfig()})
    shards = Shards(config)
    shards.feed(PREDICTIONS, predictions(200))
    assert shards.look() == [
        f"streams.{name}: no such stream occurs; streams: s" for name in ("elsewhere", "here")
    ]
    asyncio.run(shards.findings.look({0: shards.runner}, 2))  # by murmur2 `elsewhere` belongs into 1 of 2
    assert list(map(str, shards.findings.present)) == ["streams.here: no such stream occurs; streams: s"]


def test_a_running_worker_says_it(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fresh_cluster(kafka, 2)
    config = write_config(tmp_path, cluster, streams={"scores": {"label_horizon": "1s"}})
    with StreamProducer(cluster) as producer:
        for i in range(150):
            producer.prediction("scores", "m", i, "a", ts=START + i)
    with StreamProducer(cluster) as producer:  # predictions are there before any label
        for i in range(150):
            producer.label("scores", i, "a", ts=START + 3_601_000 + i)
    monkeypatch.setattr(processes, "_PROGRAM", _IMPATIENT)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        said = (
            "looks wrong: scores: 150 labels came after the horizon of 1s; their median latency is 1h: "
            "raise label_horizon"
        )
        # Some looks after all records are processed; the first may have come in the middle of them.
        eventually("the finding at /ready", lambda: said in worker.get("/ready")[1].splitlines())
        assert worker.get("/ready")[0] == 200
        assert worker.log.count("looks wrong: scores: ") == 1
    monkeypatch.undo()
    done = prequential(
        "replay", "--from-topics", "--config", config, "--summary", tmp_path / "s.json", cwd=tmp_path
    )
    assert done.returncode == 1, "nothing was evaluated"
    assert said in done.stderr.splitlines()
    summary = json.loads((tmp_path / "s.json").read_bytes())
    assert summary["records"]["labels"] == {"read": 150, "used": 0, "dropped": 150, "waiting": 0}
    place = {
        "topic": f"{cluster.prefix}labels", "partition": partition_of("scores", 2), "offset": 0,
    }  # fmt: skip
    assert [drop["example"] for drop in summary["dropped"] if drop["code"] == "late_label"] == [place]
