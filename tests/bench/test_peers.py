"""The peers do the job that they are timed at: each gives what a plain loop over dicts gives."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, topic_specs

from tests.bench import counting
from tests.bench.cases import CASES
from tests.bench.messages import SLICE_MS, Record, generate, load
from tests.bench.settings import WINDOW

ROOT = Path(__file__).parents[2]

#: Size of the runs that are compared; three streams, so that several partitions are in use.
SIZE = {"instances": 2_000, "models": 2, "streams": 3, "classes": 3}

#: Seconds after which a peer hangs: Faust takes about 5 s for these messages, and as long to start; the
#: worker may have its loops to compile.
PEER_SECONDS = 120

MODULES = {
    "prequential": "prequential_worker", "loop": "peer_loop", "quix": "peer_quix", "faust": "peer_faust",
}  # fmt: skip

#: What each peer imports that the project itself does not; cramjam is how aiokafka reads LZ4.
NEEDS = {"loop": ("river",), "quix": ("quixstreams",), "faust": ("cramjam",)}

#: Peers that only the benchmark's own environment has: `make nightly` runs these tests there.
ELSEWHERE = ("quix", "faust")


def test_the_same_arguments_give_the_same_messages() -> None:
    assert list(generate(**SIZE)) == list(generate(**SIZE))
    assert list(generate(**SIZE)) != list(generate(**SIZE, seed=2))


def test_what_belongs_to_an_instance_does_not_depend_on_how_many_follow() -> None:
    assert set(generate(100, streams=3)) < set(generate(500, streams=3))


@pytest.mark.parametrize("case", CASES)
def test_messages_come_in_order_of_time_and_labels_a_slice_after_their_predictions(case: str) -> None:
    records = list(generate(**SIZE, case=case))
    assert [record.ts for record in records] == sorted(record.ts for record in records)
    assert Counter(record.kind for record in records) == {
        "instances": 2_000,
        "predictions": 2_000 * (CASES[case].models or SIZE["models"]) * CASES[case].predictions,
        "labels": 2_000,
    }
    predicted: dict[str, int] = {}
    for record in records:
        instance_id = json.loads(record.value)["instance_id"]
        if record.kind == "predictions":
            predicted[instance_id] = record.ts
        elif record.kind == "labels":
            assert record.ts >= predicted[instance_id] + SLICE_MS


def test_counts_in_json_are_the_metrics_of_river() -> None:
    pytest.importorskip("river")
    from tests.bench import peer_loop

    random = Random(1)
    model, counts, previous = peer_loop.Model(), counting.new_counts(), None
    for _ in range(WINDOW + 500):
        y_true, first, last = random.choices("abc", (5, 2, 1), k=3)
        model.update(y_true, previous, first, last)
        counting.add(counts, y_true, previous, first, last)
        previous = y_true
    message = counting.message("s", "m", counts)
    for stage in ("initial", "final"):
        assert message.pop(stage) == pytest.approx(model.values()[stage], abs=1e-12)
    rest = {key: value for key, value in model.values().items() if key in message}
    assert message == {"stream": "s", "model": "m", **rest}


@pytest.fixture(scope="module")
def loaded(kafka: Any) -> KafkaConfig:
    """A cluster with the messages in topics that nobody else uses."""
    cluster = KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.")
    create(cluster, topic_specs(cluster))
    topics = {kind: cluster.topic(kind) for kind in INPUTS}
    counts = load(cluster.bootstrap_servers, topics, generate(**SIZE))
    assert counts == {"instances": 2_000, "predictions": 4_000, "labels": 2_000}
    return cluster


@pytest.mark.bench
@pytest.mark.kafka
@pytest.mark.parametrize(
    "peer", [pytest.param(peer, marks=pytest.mark.nightly if peer in ELSEWHERE else ()) for peer in MODULES]
)
def test_a_peer_gives_what_a_plain_loop_gives(peer: str, loaded: KafkaConfig) -> None:
    if missing := [name for name in NEEDS.get(peer, ()) if importlib.util.find_spec(name) is None]:
        pytest.skip(f"peer {peer!r} needs {', '.join(missing)}")
    records = list(generate(**SIZE))
    place = ["--bootstrap-servers", loaded.bootstrap_servers, "--prefix", loaded.prefix]
    done = subprocess.run(
        [
            *(sys.executable, "-m", f"tests.bench.{MODULES[peer]}", *place),
            *("--records", str(len(records)), "--json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PEER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["peer"], result["records"]) == (peer, len(records))
    assert result["outcomes"] == SIZE["instances"] * SIZE["models"]
    assert result["accuracy"] == plain_accuracy(records)
    assert min(result[key] for key in ("seconds", "cpu_seconds", "peak_rss_mb")) > 0


def plain_accuracy(records: list[Record]) -> dict[str, float]:
    """Each model's share of right predictions, by `stream/model`."""
    labels = {}
    predictions = []
    for record in records:
        message = json.loads(record.value)
        instance = message["stream"], message["instance_id"]
        if record.kind == "labels":
            labels[instance] = message["y_true"]
        elif record.kind == "predictions":
            predictions.append((instance, message["model"], message["y_pred"]))
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for instance, model, y_pred in predictions:
        name = f"{instance[0]}/{model}"
        right[name] += y_pred == labels[instance]
        total[name] += 1
    return {name: right[name] / n for name, n in total.items()}
