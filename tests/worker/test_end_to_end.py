"""Two workers on Apache Kafka: everything evaluated once, and seen from outside as it should be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from comparison import assert_as_replayed, assert_as_the_oracle_says
from conftest import fresh_cluster
from dashboard import DEPLOY, dashboard_queries
from manifests import RULES
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import DEAD_LETTERS, INPUTS
from processes import (
    HANGS,
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    outputs,
    prequential,
    read_topic,
    repeated,
    write_config,
)
from prometheus_server import ask, prometheus_of
from workload import HORIZON, SETTLE, UNUSABLE, Feeder, Sender, records, unusable

from tests.brokers import Broker

#: Small windows and thresholds: some thousand records are to make many messages and alarms. (No sum
#: of errors comes to rest on these thresholds, so rounding decides nothing.)
DEFAULTS: dict[str, Any] = {
    "estimators": ["all", "window:100", "fading:0.99"],
    "label_horizon": HORIZON,
    "settle": SETTLE,
    # Nothing is published between a replay and what it is compared with.
    "emit": {"outcomes": 20, "every": "1s", "idle": "1h"},
    "detectors": [
        {"detector": "page-hinkley", "signal": "error", "delta": 0.005, "lambda": 5.0371},
        {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.1, "lambda": 10.0371},
    ],
}

STREAMS = 8

#: The stream, model and estimator that the dashboard is asked to show.
SHOWN = {"stream": "s-1", "model": ".+", "stage": "final", "estimator": "window:100"}

#: What somebody who opens the dashboard must see of a stream that is evaluated: these metrics have
#: values from the first messages on, whatever the stream is like.
IMPORTANT = re.compile(
    r"prequential_(accuracy|kappa|outcomes_total|newest_outcome_timestamp_seconds|lag_records"
    r"|records_total|waiting_predictions|label_latency_seconds_bucket|shards|build_info)\b"
)


@dataclass
class Scene:
    """Two workers that have processed everything, and a Prometheus that watches them."""

    kafka: KafkaConfig
    config: Path
    workers: tuple[WorkerProcess, WorkerProcess]


@pytest.fixture(scope="module")
def scene(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Half of the records are there when the workers start, the other half comes later."""
    folder = tmp_path_factory.mktemp("scene")
    cluster = fresh_cluster(kafka, 4)
    # What is found by a measure opens an incident at once.
    detectors = [*DEFAULTS["detectors"], {"detector": "harm", "bound": 0.05}]
    config = write_config(
        folder, cluster, defaults={**DEFAULTS, "detectors": detectors}, worker={"snapshot_every": "1s"},
    )  # fmt: skip
    sender = Sender(cluster)
    everything = list(records(1, 3_000, STREAMS))
    half = len(everything) // 2
    sender.send(everything[:half])
    sender.send(unusable(STREAMS))
    sender.flush()
    with WorkerProcess(config) as one, WorkerProcess(config) as other:
        await_ready(one, other)
        eventually("both have shards", lambda: one.shards() and other.shards())
        sender.send(everything[half:])
        sender.flush()
        await_published(cluster, one, other)
        yield Scene(cluster, config, (one, other))


class TestOutputs:
    def test_the_workers_share_the_shards(self, scene: Scene) -> None:
        one, other = (worker.shards() for worker in scene.workers)
        assert len(one) == len(other) == 2
        assert one | other == {0, 1, 2, 3}

    def test_the_workload_is_spread_over_the_shards(self, scene: Scene) -> None:
        used = {m.partition() for m in read_topic(scene.kafka, "labels") if m.key() is not None}
        assert len(used) >= 3

    @pytest.mark.parametrize(("topic", "least"), [("metrics", 200), ("drift-alarms", 20), ("incidents", 0)])
    def test_each_message_is_there_once(self, scene: Scene, topic: str, least: int) -> None:
        """How many there are depends on the order in which records came; there may be no incident."""
        messages = outputs(scene.kafka, topic)
        assert len(messages) >= least
        assert repeated(messages) == {}

    def test_messages_lie_where_their_stream_does_with_its_key(self, scene: Scene) -> None:
        places = {m.key(): m.partition() for m in read_topic(scene.kafka, "labels") if usable(m)}
        for topic in ("metrics", "drift-alarms", "incidents"):
            for message in read_topic(scene.kafka, topic):
                stream = json.loads(message.value())["stream"].encode()
                assert message.key() == stream
                assert message.partition() == places[stream]

    def test_they_are_what_the_oracle_says(self, scene: Scene) -> None:
        assert_as_the_oracle_says(scene.kafka, scene.config)

    def test_they_are_what_the_replay_says(self, scene: Scene) -> None:
        assert_as_replayed(scene.kafka, scene.config)

    def test_detectors_of_the_past_raise_the_alarms_of_the_workers(self, scene: Scene) -> None:
        done = prequential(
            "detectors", "--from-topics", "--config", scene.config, "--json", cwd=scene.config.parent
        )
        assert done.returncode == 0, done.stderr
        past = json.loads(done.stdout)["past"]
        found = [alarm for one in past["sequences"] for alarm in one["alarms"]]
        published = outputs(scene.kafka, "drift-alarms")
        assert {alarm["id"]: alarm for alarm in found} == {alarm["id"]: alarm for alarm in published}
        assert len(found) == len(published)

    def test_dead_letters_are_the_originals_with_reason_and_origin(self, scene: Scene) -> None:
        expected = {
            (name.encode(), b"%d" % message.partition(), b"%d" % message.offset()): message
            for topic in INPUTS
            for name in [scene.kafka.topic(topic)]
            for message in read_topic(scene.kafka, topic)
            if not usable(message)
        }
        letters = read_topic(scene.kafka, DEAD_LETTERS)
        assert len(letters) == len(expected) == 2 * len(UNUSABLE)
        for letter in letters:
            headers = letter.headers()
            assert [name for name, _ in headers] == ["error", "topic", "partition", "offset"]
            reason, *origin = (value for _, value in headers)
            original = expected.pop(tuple(origin))
            assert (letter.key(), letter.value()) == (original.key(), original.value())
            (hint,) = {hint for _, value, hint in UNUSABLE.values() if value == letter.value()}
            assert re.search(hint, reason.decode()), reason
            assert "\n" not in reason.decode()
        assert expected == {}

    def test_a_reader_of_the_counts_finds_every_kind_of_trouble(self, scene: Scene) -> None:
        """Guards the workload: a test of nothing would pass too."""
        counts = [message["counts"] for message in outputs(scene.kafka, "metrics")]
        for name in ("late", "expired", "duplicate", "late_label", "unmatched_label", "revisions"):
            assert max(count[name] for count in counts) > 1, name

    def test_workers_leave_nothing_in_their_folder(self, scene: Scene) -> None:
        assert [path for w in scene.workers for path in w.folder.iterdir()] == []


def usable(message: Any) -> bool:
    return message.value() not in {value for _, value, _ in UNUSABLE.values()}


class TestExporter:
    def test_promtool_finds_no_fault(self, scene: Scene) -> None:
        if shutil.which("promtool") is None:
            pytest.skip("promtool, a part of Prometheus, is not installed")
        for worker in scene.workers:
            _, text = worker.get("/metrics")
            done = subprocess.run(
                ["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                timeout=HANGS, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

    def test_counters_add_up(self, scene: Scene) -> None:
        found = [worker.metrics() for worker in scene.workers]

        def total(name: str, **labels: str) -> float:
            return sum(
                value
                for metrics in found
                for about, value in metrics[name].items()
                if labels.items() <= dict(about).items()
            )

        prefix = scene.kafka.prefix
        for topic in INPUTS:
            there = read_topic(scene.kafka, topic)
            bad = sum(not usable(message) for message in there)
            # Counted since a worker took the shard; before that it was the other worker's.
            assert 0 < total("prequential_records_total", topic=prefix + topic) <= len(there)
            assert total("prequential_dead_letters_total", topic=prefix + topic) == bad
        last = {(m["stream"], m["model"]): m["outcomes"] for m in outputs(scene.kafka, "metrics")}
        for (stream, model), outcomes in last.items():
            about = {"stream": stream, "model": model, "stage": "final"}
            # Messages follow at the next record after `emit.every`, and here none comes.
            assert outcomes <= total("prequential_outcomes_total", **about) < outcomes + 20
        assert total("prequential_shards", state="running") == 4
        # Series are of the main stage unless more are asked for.
        alarms = sum(alarm["stage"] == "final" for alarm in outputs(scene.kafka, "drift-alarms"))
        assert total("prequential_drift_alarms_total") == total(
            "prequential_drift_alarms_total", stage="final"
        )
        assert total("prequential_drift_alarms_total") == alarms > 0

        def lag() -> float:
            found[:] = [worker.metrics() for worker in scene.workers]
            return total("prequential_lag_records")

        eventually("no lag", lambda: lag() == 0)

    def test_other_paths(self, scene: Scene) -> None:
        worker = scene.workers[0]
        assert worker.get("/live") == (200, "alive\n")
        assert worker.get("/ready")[1].count(": running\n") == 2
        assert worker.get("/metrics?x=1")[0] == 200
        assert worker.get("/nowhere")[0] == 404


@pytest.fixture(scope="module")
def prometheus(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has scraped both workers some times."""
    ports = [worker.port for worker in scene.workers]
    with prometheus_of(ports, tmp_path_factory.mktemp("prometheus")) as address:
        yield address


class TestPrometheus:
    def test_every_query_of_the_dashboard_is_answered(self, prometheus: str) -> None:
        # Some ask only for what is amiss: "… > 0" has no answer where nothing is. Nor have those about
        # segments, which these streams haven't. And for a moment none has one, if a scrape took too long.
        amiss = re.compile(r'[<>] *[\d.]+$|segment!=""')
        queries = [query for query in dashboard_queries(**SHOWN) if IMPORTANT.search(query)]
        for query in [one for one in queries if not amiss.search(one)]:
            eventually(query, lambda query=query: ask(prometheus, query) != [])

    @pytest.mark.parametrize("asks", [*RULES, "the dashboard"])
    def test_what_is_asked_for_is_at_every_workers_endpoint(self, scene: Scene, asks: str) -> None:
        """By its name, whether it has a value yet or not."""
        if asks in RULES:
            queries = [(DEPLOY / "prometheus" / asks).read_text("utf-8")]
        else:
            queries = dashboard_queries(**SHOWN)
        # What follows $externalLabels is no series.
        found = re.findall(r"(?<![:\w.])prequential_\w+(?![:\w])", "\n".join(queries))
        asked = {re.sub("_(bucket|sum|count)$", "", name) for name in found if not name.endswith("_")}
        # Other commands have their own endpoints, and the page an address that Prometheus is told.
        elsewhere = re.compile("prequential_(ingest_|notify_|archive_|dashboard$)")
        asked = {name for name in asked if not elsewhere.match(name)}
        for worker in scene.workers:
            _, text = worker.get("/metrics")
            there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
            assert asked - there == set()

    def test_every_rule_can_be_evaluated(self, prometheus: str) -> None:
        """Of the series of two workers: matching them has no ambiguity."""

        def rules() -> list[dict[str, Any]]:
            with urlopen(f"{prometheus}/api/v1/rules", timeout=HANGS) as response:
                groups = json.load(response)["data"]["groups"]
            return [rule for group in groups for rule in group["rules"]]

        eventually("all are evaluated", lambda: all(rule["health"] != "unknown" for rule in rules()))
        assert {rule["name"]: rule.get("lastError") for rule in rules() if rule["health"] != "ok"} == {}
        assert len(rules()) > 20

    def test_the_dashboard_asks_for_what_is_important(self) -> None:
        asked = {found[0] for q in dashboard_queries(**SHOWN) for found in IMPORTANT.finditer(q)}
        assert len(asked) >= 8, asked

    def test_the_dashboard_shows_what_the_topic_says(self, scene: Scene, prometheus: str) -> None:
        last = {(m["stream"], m["model"]) for m in outputs(scene.kafka, "metrics")}

        def found() -> set[tuple[str, str]]:
            rows = ask(prometheus, 'sum by (stream, model) (prequential_outcomes_total{stage="final"})')
            return {(row["metric"]["stream"], row["metric"]["model"]) for row in rows}

        eventually("they are the topic's", lambda: found() == last)


class TestLife:
    def test_told_to_stop_it_stops_and_a_successor_goes_on(
        self, cluster: KafkaConfig, tmp_path: Path
    ) -> None:
        config = write_config(tmp_path, cluster, defaults=DEFAULTS)
        sender = Sender(cluster)
        everything = list(records(2, 1_000, STREAMS))
        half = len(everything) // 2
        for part, known in ((everything[:half], "no snapshot"), (everything[half:], "snapshot 1")):
            sender.send(part)
            sender.flush()
            with WorkerProcess(config) as worker:
                await_published(cluster, worker)
                await_ready(worker)
                assert worker.stop() == 0, worker.log
            starts = re.findall(r"shard \d: (no snapshot|snapshot \d+)", worker.log)
            assert len(starts) == 4, worker.log
            assert set(starts) <= {known, "no snapshot"}  # a shard without records writes none
            assert starts.count(known) >= 3
            # It stopped with a snapshot of everything, so nothing of the journal is to be followed.
            assert worker.log.count("; 0 journal entries to follow") == 4
        assert repeated(outputs(cluster, "metrics")) == {}
        assert_as_replayed(cluster, config)
        assert_as_the_oracle_says(cluster, config)

    def test_told_to_stop_while_it_recovers(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        config = write_config(tmp_path, cluster)
        with WorkerProcess(config) as worker:
            # Its next step is to take them over, which needs several answers of the broker.
            eventually("it has got shards", lambda: "shards of this worker" in worker.log)
            assert worker.stop() == 0, worker.log

    def test_a_second_signal_ends_it_at_once(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        with WorkerProcess(write_config(tmp_path, cluster)) as worker:
            await_ready(worker)
            worker.terminate()
            worker.terminate()
            assert worker.wait() in (0, 1)

    def test_joining_and_leaving(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        """In the middle of a stream a third worker joins, then one of the first two leaves."""
        config = write_config(tmp_path, cluster, defaults=DEFAULTS)
        with (
            Feeder(cluster, records(3, 10**9, STREAMS), rate=500) as feeder,
            WorkerProcess(config) as first,
            WorkerProcess(config) as second,
            WorkerProcess(config) as third,
        ):
            workers = (first, second, third)
            eventually("all have shards", lambda: all(worker.shards() for worker in workers))
            await_ready(*workers)
            held = [worker.shards() for worker in workers]
            assert sorted(shard for shards in held for shard in shards) == [0, 1, 2, 3]
            assert first.stop() == 0, first.log
            eventually("the others share", lambda: len(second.shards() | third.shards()) == 4)
            await_ready(second, third)
            feeder.stop()
            await_published(cluster, second, third)
            assert not second.shards() & third.shards()
            assert (second.stop(), third.stop()) == (0, 0)  # their last outputs are out
        assert_as_replayed(cluster, config)
