"""The broker is away for longer than every session lasts: the worker waits, and loses nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from comparison import assert_as_replayed
from conftest import fresh_cluster
from processes import WorkerProcess, await_published, await_ready, outputs, repeated, write_config
from workload import Sender, records

from tests.brokers import JavaBroker, launch
from tests.skipping import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

#: Three times the session timeout of a worker.
OUTAGE_SECONDS = 30.0


def test_a_broker_that_is_away_for_30_seconds(tmp_path: Path) -> None:
    with or_skip():
        broker = launch("java")
    assert isinstance(broker, JavaBroker)
    with broker:
        cluster = fresh_cluster(broker, 4)
        config = write_config(tmp_path, cluster)
        everything = list(records(7, 1_000, 8))
        half = len(everything) // 2
        sender = Sender(cluster)
        sender.send(everything[:half])
        sender.flush()
        with WorkerProcess(config) as worker:
            await_ready(worker)
            await_published(cluster, worker)
            broker.shut_down()
            time.sleep(OUTAGE_SECONDS)
            assert worker.status is None, worker.log
            assert worker.get("/live")[0] == 200
            assert 0 < worker.log.count("WARNING") < 100, worker.log  # it says so, and not all the time
            assert worker.log.count("\n") < 150, worker.log
            broker.start_up()
            sender.send(everything[half:])
            sender.flush()
            await_published(cluster, worker, seconds=180)
            await_ready(worker)
            assert worker.stop() == 0, worker.log
        assert repeated(outputs(cluster, "metrics")) == {}
        assert_as_replayed(cluster, config)
