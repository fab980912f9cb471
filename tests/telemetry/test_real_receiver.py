"""A worker, `ingest` and `notify` on Apache Kafka, and a real OpenTelemetry Collector behind them."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.producer import RecordProducer
from prometheus_client.parser import text_string_to_metric_families
from pushed import PushServer, attributes_of, push_server, samples_of_request
from real_collector import collector

from tests.created_topics import create_topics
from tests.worker.processes import WorkerProcess, await_published, await_ready, eventually, write_config

#: Series that change while nothing happens, or with each scrape.
_MOVING = ("_seconds_bucket", "_seconds_sum", "_seconds_count", "scrape", "waiting_seconds", "age_seconds")

SETTINGS = {"cluster": "off", "estimators": ["all", "window:100"], "stages": ["final"], "label_horizon": "1h"}


def send(cluster: KafkaConfig) -> None:
    """Two models, of which `bad` is worse throughout, and `good` from the middle on."""
    chance = random.Random(1)
    with RecordProducer(cluster) as producer:
        for number in range(1_600):
            for model, right in (("good", 0.97 if number < 900 else 0.55), ("bad", 0.5)):
                predicted = "a" if chance.random() < right else "b"
                value = {"stream": "s", "model": model, "instance_id": number, "y_pred": predicted}
                producer.send("predictions", b"s", json.dumps({**value, "ts": number * 1_000}).encode())
            label = {"stream": "s", "instance_id": number, "y_true": "a", "ts": number * 1_000 + 500}
            producer.send("labels", b"s", json.dumps(label).encode())


def scraped(worker: WorkerProcess) -> dict[Any, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(worker.get("/metrics")[1])
        for sample in family.samples if not any(part in sample.name for part in _MOVING)
    }  # fmt: skip


def newest(server: PushServer) -> dict[Any, float]:
    """The last value of each sample that arrived."""
    found: dict[Any, float] = {}
    for request in server.metrics:
        found |= samples_of_request(request)
    return {key: value for key, value in found.items() if not any(part in key[0] for part in _MOVING)}


@pytest.mark.nightly
def test_a_worker_s_metrics_incidents_and_verdicts_pass_the_collector(
    cluster: KafkaConfig, tmp_path: Path
) -> None:
    with push_server() as server, collector(tmp_path, server.address) as address:
        _worker_pushes(cluster, tmp_path, server, address)


def test_a_worker_s_metrics_incidents_and_verdicts_are_pushed(cluster: KafkaConfig, tmp_path: Path) -> None:
    with push_server() as server:
        _worker_pushes(cluster, tmp_path, server, server.address)


def _worker_pushes(cluster: KafkaConfig, tmp_path: Path, server: PushServer, address: str) -> None:
    send(cluster)
    config = write_config(tmp_path, cluster, defaults=SETTINGS, otlp={"endpoint": address, "every": "1s"})
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert "otlp: pushing metrics, incidents, verdicts" in worker.log
        eventually("what is pushed is what a scrape shows", lambda: newest(server) == scraped(worker), 60)
        assert ("prequential_accuracy", "good") in {
            (name, dict(labels).get("model")) for name, labels in newest(server)
        }
        eventually("an incident and a verdict arrive", lambda: {
            record.event_name for record in server.records()
        } == {"prequential.incident", "prequential.verdict"}, 60)  # fmt: skip
        assert worker.stop() == 0, worker.log
    events = [(record.event_name, attributes_of(record.attributes)) for record in server.records()]
    incident = next(attributes for name, attributes in events if name == "prequential.incident")
    assert (incident["prequential.model"], incident["prequential.stream"]) == ("good", "s")
    verdict = next(attributes for name, attributes in events if name == "prequential.verdict")
    assert {verdict["prequential.model"], verdict["prequential.against"]} == {"good", "bad"}
    assert verdict["prequential.verdict.former"] == "undecided"
    ids = [attributes["prequential.message.id"] for _, attributes in events]
    revisions = [attributes.get("prequential.incident.revision") for _, attributes in events]
    assert len(set(zip(ids, revisions))) == len(ids), "none twice"


def test_a_worker_with_a_receiver_that_is_down_works_as_ever(cluster: KafkaConfig, tmp_path: Path) -> None:
    send(cluster)
    otlp = {"endpoint": "http://127.0.0.1:9", "every": "1s"}
    with WorkerProcess(write_config(tmp_path, cluster, defaults=SETTINGS, otlp=otlp)) as worker:
        await_ready(worker)
        await_published(cluster, worker)

        def failures() -> float:
            samples = worker.metrics()["prequential_otlp_failures_total"]
            return min(samples.values())

        eventually("failures are counted", lambda: failures() > 0)
        began = time.monotonic()
        assert worker.stop() == 0, worker.log
        assert time.monotonic() - began < 60
        assert worker.log.count("can't be pushed to http://127.0.0.1:9") == 2
        assert "Traceback" not in worker.log


@pytest.mark.parametrize("command", ["ingest", "notify", "archive"])
def test_the_other_processes_push_what_they_serve(command: str, cluster: KafkaConfig, tmp_path: Path) -> None:
    class Process(WorkerProcess):
        pass

    Process.command = command
    source = {"as": "labels", "stream": {"const": "s"}, "instance_id": "value.id", "y_true": "value.truth"}
    sections: dict[str, Any] = {"notify": {"url": "http://127.0.0.1:9/hook"}}
    if command == "ingest":
        name = cluster.topic("scores")
        create_topics(connect(cluster), [NewTopic(name, 2, 1)])
        sections = {"ingest": {name: source}}
    options = ("--to", str(tmp_path / "archive")) if command == "archive" else ()
    with push_server() as server:
        otlp = {"endpoint": server.address, "every": "1s"}
        with Process(write_config(tmp_path, cluster, otlp=otlp, **sections), *options) as process:
            eventually("it is ready", process.ready)
            eventually("the same as in a scrape", lambda: newest(server) == scraped(process), 60)
            assert (f"prequential_{command}_build_info") in {name for name, _ in newest(server)}
            assert process.stop() == 0, process.log
        [resource] = server.metrics[0].resource_metrics
        assert attributes_of(resource.resource.attributes)["service.name"] == f"prequential-{command}"
