"""What a worker has published and has read, asked afterwards: `explain`, `calibrate --from-topics`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import fresh_cluster
from prequential.topics.clients import KafkaConfig
from processes import WorkerProcess, await_published, outputs, prequential, write_config
from workload import Record, Sender

from tests.brokers import Broker

#: Outcomes of the model, where it becomes worse, and ms from one to the next.
COUNT, CHANGE, STEP = 2_400, 1_600, 1_000

#: Label time of the first one.
START = 1_700_000_000_000

#: Outcomes that `calibrate` makes: the least that it takes.
MADE = "100000"

DETECTORS = [{"detector": "page-hinkley", "delta": 0.05, "lambda": 20}]


def lines() -> dict[str, list[bytes]]:
    """A model with 10% errors, then 40%."""
    some = random.Random(3)
    found: dict[str, list[bytes]] = {"predictions": [], "labels": []}
    for place in range(COUNT):
        y, wrong = some.random() < 0.5, some.random() < (0.1 if place < CHANGE else 0.4)
        about = {"stream": "s", "instance_id": place, "ts": START + STEP * place}
        found["predictions"].append(json.dumps({**about, "model": "m", "y_pred": y != wrong}).encode())
        found["labels"].append(json.dumps({**about, "ts": about["ts"] + 5, "y_true": y}).encode())
    return found


@pytest.fixture(scope="module")
def lived(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> tuple[KafkaConfig, Path, Path]:
    """A cluster after a worker's run, the configuration, and a folder with the same records as files."""
    folder = tmp_path_factory.mktemp("back")
    cluster = fresh_cluster(kafka, 1)
    config = write_config(folder, cluster, defaults={"detectors": DETECTORS, "stages": ["final"]})
    sender = Sender(cluster)
    for topic, values in lines().items():
        (folder / f"{topic}.jsonl").write_bytes(b"\n".join(values) + b"\n")
        sender.send(Record(topic, b"s", value) for value in values)
    sender.flush()
    with WorkerProcess(config) as worker:
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    return cluster, config, folder


def said(*words: Any, folder: Path) -> str:
    done = prequential(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_newest(text: str) -> list[str]:
    """What is explained, but for the newest accuracies: a replay ends with one set of metrics more."""
    kept = [line for line in text.splitlines() if "accuracy now" not in line]
    assert len(kept) < len(text.splitlines())
    return kept


def test_an_incident_is_explained_from_the_topics(lived: tuple[KafkaConfig, Path, Path]) -> None:
    """By its id or by model and time, as from the files of a replay of the same topics."""
    cluster, config, folder = lived
    [incident] = {one["id"]: one for one in outputs(cluster, "incidents")}.values()
    assert abs(incident["change_point"]["outcome"] - CHANGE) < 100
    found = said("explain", incident["id"], "--config", config, folder=folder)
    assert found.splitlines()[0] == f"incident {incident['id']}: s/m, final, {incident['status']}"
    assert "concept" in found
    at = START + STEP * (COUNT - 1)
    named = ("--stream", "s", "--model", "m", "--at", at)
    assert said("explain", *named, "--config", config, folder=folder) == found
    names = ("metrics", "alarms", "incidents")
    files = [folder / f"{name}-out.jsonl" for name in names]
    options = [word for name, file in zip(names, files) for word in (f"--{name}-out", file)]
    said("replay", "--from-topics", "--config", config, *options, folder=folder)
    again = said("explain", incident["id"], "--from", *files, folder=folder)
    assert without_newest(again) == without_newest(found)


@pytest.mark.nightly
def test_thresholds_from_topics_are_those_from_files(lived: tuple[KafkaConfig, Path, Path]) -> None:
    _, config, folder = lived
    common = ("calibrate", "--config", config, "--outcomes", MADE, "--json")
    files = [word for kind in ("predictions", "labels") for word in (f"--{kind}", folder / f"{kind}.jsonl")]
    lines = folder / "thresholds.yaml"
    from_topics = json.loads(said(*common, "--from-topics", "--out", lines, folder=folder))
    assert from_topics == json.loads(said(*common, *files, folder=folder))
    [detector] = from_topics["detectors"]
    assert (detector["parameter"], detector["before"], detector["sequences"]) == ("lambda", 20.0, 1)
    assert f"lambda: {detector['after']}" in lines.read_text()
