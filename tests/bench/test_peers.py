"""The peers do the job that they are timed at: each publishes what the worker publishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from prequential.configuration.settings.streams import StreamConfig
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, METRICS

from tests.bench import figures, peer_streams
from tests.bench.cases import ARROW, BATCHES, CASES, PEERS, PLAIN, QUIET, SCORED, UUID
from tests.bench.messages import GAP_MS, START_MS, Record, batched, generate, load, specs
from tests.bench.published import Published, difference, published
from tests.brokers import SHORT_LIVED
from tests.nightly import scaled
from tests.oracle_measures import FURTHER, Kind, measures
from tests.skipping import or_skip

ROOT = Path(__file__).parents[2]

#: Size of the runs that are compared; three streams, so that several partitions are in use, and more outcomes
#: in each than make messages due.
SIZE = {"instances": 3_300, "models": 2, "streams": 3, "classes": 3}

#: Seconds after which a peer hangs: the worker may have its loops to compile.
PEER_SECONDS = 120

MODULES = {"prequential": "prequential_worker", "streams": "peer_streams", "loop": "peer_loop"}


def test_the_same_arguments_give_the_same_messages() -> None:
    assert list(generate(**SIZE)) == list(generate(**SIZE))
    assert list(generate(**SIZE)) != list(generate(**SIZE, seed=2))


@pytest.mark.parametrize("case", [PLAIN, UUID, SCORED])
def test_what_belongs_to_an_instance_does_not_depend_on_how_many_follow(case: str) -> None:
    assert set(generate(100, streams=3, case=case)) < set(generate(500, streams=3, case=case))


@pytest.mark.parametrize("case", CASES)
def test_messages_come_in_order_of_time_and_labels_after_their_predictions(case: str) -> None:
    records = list(generate(**SIZE, case=case))
    assert [record.ts for record in records] == sorted(record.ts for record in records)
    assert Counter(record.kind for record in records) == {
        "instances": SIZE["instances"],
        "predictions": SIZE["instances"] * (CASES[case].models or SIZE["models"]) * CASES[case].predictions,
        "labels": SIZE["instances"],
    }
    predicted: dict[str, int] = {}
    for record in records:
        instance_id = json.loads(record.value)["instance_id"]
        if record.kind == "predictions":
            predicted[instance_id] = record.ts
        elif record.kind == "labels":
            assert record.ts >= predicted[instance_id] + GAP_MS


@pytest.mark.parametrize("case", [UUID, SCORED])
def test_ids_and_spaces_are_those_of_applications(case: str) -> None:
    for record in generate(5, case=case):
        message = json.loads(record.value)
        assert record.value == json.dumps(message).encode()
        assert [len(part) for part in message["instance_id"].split("-")] == [8, 4, 4, 4, 12]


def test_a_million_predictions_wait() -> None:
    about = CASES[UUID]
    assert 2 * about.rate * about.label_ms[0] / 1_000 == pytest.approx(1_000_000)


def test_figures_are_the_oracles() -> None:
    random = Random(2)
    for _ in range(scaled(300, 3_000)):
        classes, right = random.choice([("0", "1"), ("a", "b", "c"), ("true", "false")]), random.random()
        faded: dict[figures.Kind, float] = {}
        growth = 1.0
        for _ in range(random.randint(1, 12)):
            y_true = random.choice(classes)
            y_pred = y_true if random.random() < right else random.choice(classes)
            growth /= 0.999
            kind = y_true, y_pred, random.random() < right, random.random() < right
            faded[kind] = faded.get(kind, 0.0) + growth
        (said,) = figures.messages("s", 0, "m", 1, 1, True, [("faded", faded, growth)])
        values, undefined = measures({Kind(*kind): weight / growth for kind, weight in faded.items()})
        for name in FURTHER:
            values.pop(name, None)
            undefined.pop(name, None)
        assert said["measures"] == pytest.approx(values, rel=1e-9, abs=1e-7)
        assert said["undefined"] == figures.NEVER | undefined


# ---- peers at work


@pytest.fixture(scope="module")
def loaded(kafka: Any, request: pytest.FixtureRequest) -> tuple[str, KafkaConfig, list[Record]]:
    """A case, and a cluster with its messages in topics that nobody else uses."""
    case = request.param
    cluster = KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.")
    create(cluster, specs(cluster))
    records = list(generate(**SIZE, case=case))
    topics = {kind: cluster.topic(kind) for kind in INPUTS}
    load(cluster.bootstrap_servers, topics, batched(records, case))
    return case, cluster, records


@pytest.fixture(scope="module")
def by_worker(loaded: tuple[str, KafkaConfig, list[Record]]) -> Published:
    """What the worker publishes."""
    (result,) = shown("prequential", *loaded)
    assert result["snapshots"] == 0
    _, cluster, _ = loaded
    return published(cluster, cluster.topic(METRICS))


#: The hard case, in which time makes messages due as well as numbers of outcomes; batches; at night also the
#: easy one.
COMPARED = [SCORED, BATCHES, ARROW, pytest.param(PLAIN, marks=pytest.mark.nightly)]


@pytest.mark.bench
@pytest.mark.parametrize("loaded", COMPARED, indirect=True, scope="module")
@pytest.mark.parametrize("peer", ["loop", pytest.param("streams", marks=pytest.mark.nightly)])
def test_a_peer_publishes_what_the_worker_publishes(
    peer: str, loaded: tuple[str, KafkaConfig, list[Record]], by_worker: Published
) -> None:
    _, cluster, _ = loaded
    results = shown(peer, *loaded)
    assert [result["peer"] for result in results] == (
        ["streams-cold", "streams"] if peer == "streams" else [peer]
    )
    for result in results:
        assert difference(published(cluster, result["outputs"]).figures, by_worker.figures) is None


def shown(peer: str, case: str, cluster: KafkaConfig, records: list[Record]) -> list[dict[str, Any]]:
    """What a peer prints; it knows each outcome and accuracy."""
    results = run_peer(peer, case, cluster, records)
    for result in results:
        assert (result["case"], result["records"]) == (case, len(records))
        assert result["outcomes"] == SIZE["instances"] * SIZE["models"]
        assert result["accuracy"] == plain_accuracy(records)
        assert min(result[key] for key in ("seconds", "cpu_seconds", "peak_rss_mb")) > 0
    return results


def run_peer(
    peer: str, case: str, cluster: KafkaConfig, records: list[Record], *options: str
) -> list[dict[str, Any]]:
    """What a peer prints; skipped where this machine can't have it."""
    if peer == "streams":
        with or_skip():
            peer_streams.classpath()
    done = subprocess.run(
        [
            *(sys.executable, "-m", f"tests.bench.{MODULES[peer]}"),
            *("--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix),
            *("--records", str(len(records)), "--case", case, "--json", *options),
        ],
        cwd=ROOT,
        env={**os.environ, "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)},
        capture_output=True,
        text=True,
        timeout=PEER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.bench
@pytest.mark.nightly
def test_kafka_streams_goes_on_after_a_restart(kafka: Any) -> None:
    cluster = KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.")
    create(cluster, specs(cluster))
    # One of its runs is enough, as in real time. Time makes messages due in both halves.
    records = list(generate(**SIZE, case=QUIET, start=START_MS + 8_500))
    for half in (records[: len(records) // 2], records[len(records) // 2 :]):
        load(cluster.bootstrap_servers, {kind: cluster.topic(kind) for kind in INPUTS}, half)
        run_peer("streams", QUIET, cluster, half, "--group", "again")
    run_peer("prequential", QUIET, cluster, records)
    expected = published(cluster, cluster.topic(METRICS)).figures
    found = published(cluster, f"{cluster.prefix}again-metrics")
    assert difference(found.figures, expected) is None
    assert found.messages == len(expected)


def test_the_cases_of_peers_are_what_they_can_evaluate() -> None:
    for name in PEERS:
        about = CASES[name]
        assert (about.predictions, about.models, about.numbers) == (1, None, False)
        assert about.config == StreamConfig()


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
