"""The way from records to messages on the embedded broker, which the demo stands on.

Workers here are stopped, never killed: the embedded broker's groups wait for the dead.
"""

from __future__ import annotations

from pathlib import Path

from comparison import assert_as_replayed, assert_as_the_oracle_says
from conftest import fresh_cluster
from processes import WorkerProcess, await_published, await_ready, outputs, read_topic, write_config
from workload import HORIZON, SETTLE, UNUSABLE, Sender, records, unusable

from tests.brokers import Broker

DEFAULTS = {
    "estimators": ["all", "window:100"],
    "label_horizon": HORIZON,
    "settle": SETTLE,
    "emit": {"outcomes": 50, "every": "1s"},
    # No sum of errors comes to rest on this threshold, so rounding decides nothing.
    "detectors": [{"detector": "page-hinkley", "signal": "error", "lambda": 5.0371}],
}


def test_two_workers_one_after_the_other(embedded: Broker, tmp_path: Path) -> None:
    cluster = fresh_cluster(embedded, 2)
    config = write_config(tmp_path, cluster, defaults=DEFAULTS)
    sender = Sender(cluster)
    everything = list(records(4, 1_000))
    half = len(everything) // 2
    for part, start in (
        ([*everything[:half], *unusable(), everything[half]], ": no snapshot"),
        (everything[half + 1 :], ": snapshot 1 "),
    ):
        sender.send(part)
        sender.flush()
        with WorkerProcess(config) as worker:
            await_published(cluster, worker)
            await_ready(worker)
            assert worker.stop() == 0, worker.log
        assert worker.log.count(start) == 2, worker.log
    assert len(outputs(cluster, "metrics")) > 50
    assert len(outputs(cluster, "drift-alarms")) > 5
    assert len(read_topic(cluster, "dead-letters")) == 2 * len(UNUSABLE)
    assert_as_replayed(cluster, config)
    assert_as_the_oracle_says(cluster, config)
