"""`prequential verify` on Apache Kafka: what two workers published, and what somebody changed afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from conftest import fresh_cluster
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, METRICS
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    prequential,
    read_topic,
    write_config,
)
from test_origin import make_anew
from workload import HORIZON, SETTLE, Record, Sender, records

from tests.brokers import Broker

#: Messages by outcomes, by time and by silence, comparisons, and some alarms.
DEFAULTS: dict[str, Any] = {
    "estimators": ["all", "window:50"], "label_horizon": HORIZON, "settle": SETTLE,
    "emit": {"outcomes": 20, "every": "1s", "idle": "1s"},
    "detectors": [{"detector": "page-hinkley", "signal": "error", "delta": 0.005, "lambda": 3.0371}],
}  # fmt: skip


@dataclass
class Published:
    """A cluster whose workers have stopped, and the messages of its output topics."""

    kafka: KafkaConfig
    config: Path
    messages: dict[str, list[Message]]

    def verify(self) -> subprocess.CompletedProcess[str]:
        return prequential("verify", "--config", self.config, cwd=self.config.parent)

    def publish_anew(self, topic: str, changed: Callable[[Message], Sequence[bytes]]) -> None:
        """Put other messages in place of a topic's: `changed` has the values of each."""
        make_anew(self.kafka, topic)
        producer = Producer(self.kafka.client())
        for message in self.messages[topic]:
            for value in changed(message):
                producer.produce(self.kafka.topic(topic), value, message.key(), message.partition())
        assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def published(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Two workers in turn; the second one is killed after it has published the messages of a silence."""
    cluster = fresh_cluster(kafka, 2)
    config = write_config(tmp_path_factory.mktemp("published"), cluster, defaults=DEFAULTS)
    everything = list(records(3, 400, 4))
    half, waiting = len(everything) // 2, [Record("predictions", b"s-1", _waiting(n)) for n in range(9)]
    for sent in (everything[:half], [*everything[half:], *waiting]):
        sender = Sender(cluster)
        sender.send(sent)
        sender.flush()
        with WorkerProcess(config) as worker:
            await_ready(worker)
            await_published(cluster, worker)
            counted = sum(record in waiting for record in sent)
            eventually("what made no outcome is published", lambda: _newest_waiting(cluster) >= counted)  # noqa: B023
            assert counted or worker.stop() == 0, worker.log
    topics = (METRICS, COMPARISONS, DRIFT_ALARMS)
    return Published(cluster, config, {topic: read_topic(cluster, topic) for topic in topics})


def _waiting(number: int) -> bytes:
    """A prediction that never gets a label."""
    said = {"stream": "s-1", "model": "waits", "instance_id": f"waits-{number}", "y_pred": "a"}
    return json.dumps(said).encode()


def _newest_waiting(cluster: KafkaConfig) -> int:
    """How many predictions of the model `waits` the newest message about it has."""
    read = [json.loads(message.value()) for message in read_topic(cluster, METRICS)]
    return max((one["counts"]["waiting"] for one in read if one["model"] == "waits"), default=0)


def test_what_workers_published_is_what_is_recomputed(published: Published) -> None:
    done = published.verify()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == ""
    count = sum(map(len, published.messages.values()))
    last = done.stderr.splitlines()[-1]
    assert last.endswith("recomputed, 0 differences"), done.stderr
    assert int(last.removeprefix("prequential: ").split()[0].replace(",", "")) >= count > 100


def _in_the_middle(messages: Sequence[Message]) -> Message:
    """A message which others of its partition follow."""
    of_first = [message for message in messages if message.partition() == messages[0].partition()]
    return of_first[len(of_first) // 2]


def test_a_changed_value_is_listed_by_id_and_field(published: Published) -> None:
    target = _in_the_middle(published.messages[METRICS])
    told = json.loads(target.value())
    told["counts"]["late"] += 1
    told["n"] += 1

    def changed(message: Message) -> Sequence[bytes]:
        return [json.dumps(told).encode() if message is target else message.value()]

    published.publish_anew(METRICS, changed)
    done = published.verify()
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"metrics {told['id']} ({told['stream']}, ") for line in lines)
    assert f": n: published {told['n']}, recomputed {told['n'] - 1}" in lines[0]
    late = told["counts"]["late"]
    assert f": counts.late: published {late}, recomputed {late - 1}" in lines[1]
    assert done.stderr.splitlines()[-1].endswith("2 differences")


def test_a_message_that_is_gone_and_one_that_nobody_made_are_listed(published: Published) -> None:
    target = _in_the_middle(published.messages[METRICS])
    gone = json.loads(target.value())
    invented = target.value().replace(gone["id"].encode(), b"0" * len(gone["id"]))

    def changed(message: Message) -> Sequence[bytes]:
        return [invented] if message is target else [message.value()]

    published.publish_anew(METRICS, changed)
    done = published.verify()
    assert done.returncode == 1, done.stderr
    assert sorted((line.split()[1], line.rpartition(": ")[2]) for line in done.stdout.splitlines()) == sorted(
        [(gone["id"], "only recomputed"), ("0" * len(gone["id"]), "only published")]
    )


def test_other_topics_are_verified_too(published: Published) -> None:
    """An alarm is published twice with two statistics; comparisons lack one message."""
    published.publish_anew(METRICS, lambda message: [message.value()])
    alarm, pair = (_in_the_middle(published.messages[topic]) for topic in (DRIFT_ALARMS, COMPARISONS))
    told = json.loads(alarm.value())
    twice = json.dumps({**told, "statistic": -1.0}).encode()
    published.publish_anew(
        DRIFT_ALARMS, lambda message: [message.value(), twice] if message is alarm else [message.value()]
    )
    published.publish_anew(COMPARISONS, lambda message: [] if message is pair else [message.value()])
    done = published.verify()
    assert done.returncode == 1, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[:2] for line in lines] == [
        ["comparisons", json.loads(pair.value())["id"]], ["drift-alarms", told["id"]],
    ]  # fmt: skip
    assert lines[0].endswith(": only recomputed")
    assert ": statistic: published " in lines[1]
