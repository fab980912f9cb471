"""A worker that takes over under another configuration says in one line what became of what was evaluated."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import fresh_cluster
from prequential.configuration.settings.model import Config
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer
from prequential.topics.specs import METRICS
from prequential.views.state.history import History
from prequential.views.watching.tail import Tail
from processes import WorkerProcess, await_ready, eventually, write_config

from tests.brokers import Broker

START = 1_700_000_000_000

BEFORE = {"estimators": ["all", "window:10"], "detectors": [], "emit": {"outcomes": 10}}

#: Predictions of two models with their labels.
INSTANCES = 50


def configurations(cluster: KafkaConfig) -> dict[str, Any]:
    """What the dashboard's page says, which has another configuration than either worker."""
    history = History(Config(cluster))
    with closing(Tail(cluster, [METRICS], from_beginning=True)) as tail:
        for record in tail.to_end():
            history.update(*record)
    return history.configurations.page()


def test_one_line_in_the_log_and_at_ready(kafka: Broker, tmp_path: Path) -> None:
    cluster = fresh_cluster(kafka, 1)
    config = write_config(tmp_path, cluster, defaults=BEFORE)
    with StreamProducer(cluster) as producer:
        for i in range(INSTANCES):
            for model in ("nb", "tree"):
                producer.prediction("scores", model, i, "a", ts=START + i)
            producer.label("scores", i, "a", ts=START + i + 1)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        eventually(
            "all outcomes",
            lambda: set(worker.metrics().get("prequential_outcomes_total", {}).values()) == {INSTANCES},
        )
        assert "the configuration has changed" not in worker.log + worker.get("/ready")[1]
        assert worker.stop() == 0
    changed = {
        "estimators": ["all", "fading:0.9"], "detectors": [], "stages": ["final"], "label_horizon": "1d",
        "emit": {"outcomes": 1},
    }  # fmt: skip
    config = write_config(tmp_path, cluster, defaults=changed)
    said = (
        "shard 0: the configuration has changed since the snapshot: "
        "begun empty: estimator fading:0.9 (2), comparison by error: estimator fading:0.9 (1); "
        "ended: estimator window:10 (2), stage initial (2); "
        "kept: estimator all (2), stage final (2), comparison by error (1)"
    )
    with WorkerProcess(config) as worker:
        await_ready(worker)
        assert said in worker.get("/ready")[1].splitlines()
        assert worker.get("/ready")[0] == 200
        assert worker.log.count("the configuration has changed") == 1
        assert said in worker.log
        with StreamProducer(cluster) as producer:
            for model in ("nb", "tree"):
                producer.prediction("scores", model, INSTANCES, "a", ts=START + INSTANCES)
            producer.label("scores", INSTANCES, "a", ts=START + INSTANCES + 1)
        eventually("what differs", lambda: "label_horizon" in str(configurations(cluster)["changes"]))
    [change] = configurations(cluster)["changes"]
    assert {one["key"]: one["values"] for one in change["keys"]} == {
        "estimators": ["without window:10", "with fading:0.9"], "label_horizon": ["7d -> 1d"],
        "stages": ["without initial"],
    }  # fmt: skip
