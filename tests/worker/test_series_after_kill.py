"""`/metrics` of a worker that is killed, and of its successor: all series of streams are the same."""

from __future__ import annotations

import random
import time
from pathlib import Path

from conftest import fresh_cluster
from prequential.configuration.settings.http_server import SERIES
from prequential.engine.measures.registry import NAMES
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer
from processes import WorkerProcess, await_published, await_ready, eventually, write_config
from test_everything_on import STREAM

from tests.brokers import Broker

#: Samples by name and labels.
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

#: Counters of the process, by topic and partition, and what depends on when it has asked.
_OF_PROCESS = {"prequential_records_total", "prequential_lag_records"}

#: Everything, with labels of all predictions, so that periods have estimates.
DEFAULTS = STREAM | {
    "measures": [name for name in NAMES if not name.startswith("ipw")], "period": "500ms",
    "label_horizon": "2s", "settle": "1s", "emit": {"outcomes": 50, "every": "100ms", "idle": "1h"},
    "disparity": {"segments": ["arm"]},
}  # fmt: skip

#: Instances, seconds from one to the next, and after how many more the label of one comes.
_INSTANCES, _PAUSE, _LATER = 500, 0.02, 40


def feed(cluster: KafkaConfig) -> None:
    """Two models that get worse halfway; some labels come late, the last ones and every tenth never."""
    rng, truths = random.Random(3), list[str]()
    with StreamProducer(cluster) as producer:
        for number in range(_INSTANCES):
            truths.append(rng.choice(["UP", "DOWN"]))
            for model, error in (("old", 0.1 + 0.4 * (2 * number > _INSTANCES)), ("new", 0.2)):
                guess = truths[-1] if rng.random() > error else {"UP": "DOWN", "DOWN": "UP"}[truths[-1]]
                producer.prediction(
                    "s", model, number, guess, y_proba={guess: rng.uniform(0.5, 1)},
                    segments={"arm": rng.choice("AB")}, model_version=number // 200,
                )  # fmt: skip
            if number >= _LATER and number % 10:
                producer.label("s", number - _LATER, truths[number - _LATER])
            producer.flush()
            time.sleep(_PAUSE)


def of_shards(worker: WorkerProcess) -> Samples:
    """The series about streams, and about partitions of the inputs."""
    return {
        (name, labels): value for name, samples in worker.metrics().items()
        for labels, value in samples.items()
        if name not in _OF_PROCESS and not {"stream", "partition"}.isdisjoint(dict(labels))
    }  # fmt: skip


def test_a_successor_shows_what_its_predecessor_has_shown(kafka: Broker, tmp_path: Path) -> None:
    cluster = fresh_cluster(kafka, 1)
    config = write_config(
        tmp_path, cluster, defaults=DEFAULTS,
        worker={"snapshot_every": "1s", "commit_every": "100ms", "session_timeout": "6s"},
        http={"stages": "all", "estimators": "all", "series": list(SERIES), "measures": list(NAMES)},
    )  # fmt: skip
    shown: list[Samples] = []
    with WorkerProcess(config) as worker:
        await_ready(worker)
        feed(cluster)
        await_published(cluster, worker)
        size = ("prequential_snapshot_bytes", frozenset({("partition", "0")}))
        eventually("a snapshot", lambda: of_shards(worker)[size])
        shown.append(of_shards(worker))
        worker.kill()
    with WorkerProcess(config) as worker:
        await_ready(worker)
        shown.append(of_shards(worker))
    before, after = shown
    assert before.pop(size) > 0
    assert after.pop(size) > 0  # of a newer one, if that was under way
    names = {name.removeprefix("prequential_") for name, _ in before}
    assert {
        "expected", "expected_book", "waiting_expected_labels", "newest_label_timestamp_seconds",
        "newest_prediction_timestamp_seconds", "disparity_verdict", "comparison_verdict",
    } <= names  # fmt: skip
    assert {key: (before.get(key), after.get(key)) for key in before | after} == {
        key: (value, value) for key, value in before.items()
    }
