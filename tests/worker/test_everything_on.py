"""All stages, details and companions at once, through Kafka, with `kill -9` in the middle of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from comparison import assert_published_once
from conftest import fresh_cluster
from prequential.configuration.settings.streams import BASELINES, DETAILS
from prequential.engine.measures.registry import NAMES, OF_NUMBERS
from processes import HANGS, WorkerProcess, await_published, prequential, read_topic, write_config
from workload import HORIZON, SETTLE, STEP, Record, Sender, records

from tests.brokers import Broker

STREAM = {
    "measures": NAMES,
    "stages": ["initial", "final", "bins", "intermediate", "after:1s"],
    "bins": 3,
    "estimators": ["all", "window:50", "fading:0.9"],
    "positive_class": "UP",
    "baselines": list(BASELINES),
    "details": list(DETAILS),
    "objective": {"reference": "10s"},
    "temporal_correction": True,
    "segments": ["arm"],
    "label_horizon": HORIZON,
    "settle": SETTLE,
    "emit": {"outcomes": 50, "every": "2s"},
    "compare_losses": ["error", "log_loss", "brier"],
    "period": "20s",
    "cluster": f"{30 * STEP}ms",
    "alarm_budget": "2000 per 1m",
    "incident_budget": "1 per 1s",
    "detectors": [
        {"detector": "page-hinkley", "signal": "error", "delta": 0.05},
        {"detector": "page-hinkley", "signal": "error", "lambda": 5},
        {"detector": "page-hinkley", "signal": "window:50:log_loss", "delta": 0.01, "lambda": 3},
    ],
}


def enriched(plain: Iterator[Record]) -> Iterator[Record]:
    """The workload; most predictions carry probabilities and a segment, instances a propensity."""
    rng = random.Random(5)
    for record in plain:
        if record.topic == "instances":
            assert record.value is not None
            obj = json.loads(record.value)
            obj["label_propensity"] = 1 / (1 + int(obj["instance_id"]) % 3)
            record = record._replace(value=json.dumps(obj).encode())
        if record.topic == "predictions":
            assert record.value is not None
            obj = json.loads(record.value)
            # By the instance: a redelivered prediction says the same.
            rng.seed(f"{obj['instance_id']} {obj['model']} {obj['ts']}")
            other = "DOWN" if obj["y_pred"] == "UP" else "UP"
            p = rng.uniform(0.5, 1)
            if rng.random() < 0.9:
                obj["y_proba"] = {obj["y_pred"]: p, other: 1 - p}
            obj["segments"] = {"arm": "AB"[int(obj["instance_id"]) % 2]}
            record = record._replace(value=json.dumps(obj).encode())
        yield record


def numbers(seed: int, count: int) -> Iterator[Record]:
    """A stream of numbers with two predictions each."""
    rng = random.Random(seed)
    for number in range(count):
        ts = 1_700_000_000_000 + 100 * number
        about = {"stream": "numbers", "instance_id": number}
        y = rng.gauss(10, 3)
        for later in (0, 30):
            h = y + rng.gauss(0, 1)
            guess = {"model": "m", "y_pred": h, "y_lower": h - 1, "y_upper": h + 1, "ts": ts + later}
            yield Record("predictions", b"numbers", json.dumps({**about, **guess}).encode())
        yield Record("labels", b"numbers", json.dumps({**about, "y_true": y, "ts": ts + 60}).encode())


def test_killed_workers_publish_what_a_replay_says(kafka: Broker, tmp_path: Path) -> None:
    cluster = fresh_cluster(kafka, 2)
    config = write_config(
        tmp_path, cluster, defaults=STREAM,
        streams={
            "numbers": {
                "task": "regression", "loss": "squared", "measures": OF_NUMBERS, "quantile": 0.9,
            },
            "s-1": {"label_at_horizon": "DOWN", "costs": {"UP": {"DOWN": 7}, "DOWN": {"UP": 2}}},
        },
        worker={"snapshot_every": "1s", "commit_every": "100ms", "session_timeout": "6s"},
    )  # fmt: skip
    everything = [*enriched(records(8, 1_500, 2)), *numbers(8, 500)]
    sender = Sender(cluster)
    parts, log = 5, ""
    for part in range(parts):
        sender.send(_slice(everything, part, parts))
        sender.flush()
        with WorkerProcess(config) as worker:
            await_published(cluster, worker)
            if part < parts - 1:
                worker.kill()
            else:
                assert worker.stop() == 0, worker.log
            log += worker.log
    assert assert_published_once(cluster) > 500
    names = ("metrics", "comparisons", "alarms", "incidents", "letters")
    out = {name: tmp_path / f"{name}.jsonl" for name in names}
    done = prequential(
        "replay", "--from-topics", "--config", config, "--metrics-out", out["metrics"],
        "--comparisons-out", out["comparisons"], "--alarms-out", out["alarms"],
        "--incidents-out", out["incidents"], "--dead-letters-out", out["letters"],
        cwd=tmp_path, seconds=3 * HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for topic, name in (("metrics", "metrics"), ("comparisons", "comparisons"), ("drift-alarms", "alarms")):
        ours = {json.loads(message.value())["id"]: message.value() for message in read_topic(cluster, topic)}
        theirs: dict[str, bytes] = {}
        for line in out[name].read_bytes().splitlines():
            # The last set may repeat an id: no outcome came since, but counts of the stream moved on.
            theirs.setdefault(json.loads(line)["id"], line)
        assert ours.keys() <= theirs.keys()
        assert topic != "metrics" or any("reference" in json.loads(value) for value in ours.values())
        assert {id: theirs[id] for id in ours} == ours
        # What a replay has beyond it is its last set.
        assert name != "alarms" or ours.keys() == theirs.keys()
    # All messages of an incident have its id: they are the same in the same order.
    told: dict[str, list[bytes]] = {}
    for line in out["incidents"].read_bytes().splitlines():
        told.setdefault(json.loads(line)["id"], []).append(line)
    published: dict[str, list[bytes]] = {}
    for message in read_topic(cluster, "incidents"):
        published.setdefault(json.loads(message.value())["id"], []).append(message.value())
    assert published == told
    assert published
    alarms = [json.loads(message.value()) for message in read_topic(cluster, "drift-alarms")]
    of_budget = [one for one in alarms if one["params"].get("delta") == 0.05]
    assert any(one["threshold"] != one["params"]["lambda"] for one in of_budget), of_budget
    assert {alarm["segment"] for alarm in alarms} >= {None, "arm=A", "arm=B"}
    for alarm in alarms:
        segment = f" {alarm['segment']}" if alarm["segment"] else ""
        about = f"{alarm['stream']}/{alarm['model']}{segment} {alarm['stage']}"
        says = f"{alarm['detector']} on {alarm['signal']} at outcome {alarm['outcome']} ("
        assert f"drift: {about}: {says}" in log, alarm
    found = [json.loads(message.value()) for message in read_topic(cluster, "metrics")]
    models = {message["model"] for message in found}
    assert {"nb", "nb+temporal", "nb@random", "@persistent", "@majority", "m"} <= models
    assert {"after:1s", "intermediate", "bin:3", "period"} <= {message["stage"] for message in found}
    assert {"provisional", "final"} == {m["period"]["status"] for m in found if "period" in m}
    compared = [json.loads(message.value()) for message in read_topic(cluster, "comparisons")]
    assert {message["loss"] for message in compared} == {"error", "log_loss", "brier"}
    assert {"after:1s", "bin:3", "final"} <= {message["stage"] for message in compared}
    assert any(message["segment"] for message in compared)
    assert any(message["against"] == "@persistent" for message in compared)
    assert any("coverage" in message for message in found)
    assert any("ipw_accuracy" in message["measures"] for message in found)
    assert any("top_k_accuracy" in message["measures"] for message in found)
    of_numbers = [message for message in found if message["stream"] == "numbers"]
    assert {"mape", "pinball", "interval_coverage"} <= of_numbers[-1]["measures"].keys()
    assert any("residuals" in message for message in of_numbers)
    closed = {message["stream"] for message in found if message["counts"].get("at_horizon")}
    assert closed == {"s-1"}


def _slice(everything: list[Record], part: int, parts: int) -> list[Record]:
    size = -(-len(everything) // parts)
    return everything[part * size : (part + 1) * size]
