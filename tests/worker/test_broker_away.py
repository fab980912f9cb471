"""The broker goes away while a worker starts, or recovers: it waits then, as a running one does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import processes
import pytest
from comparison import assert_as_replayed, assert_published_once
from conftest import fresh_cluster
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from processes import WorkerProcess, await_published, await_ready, eventually, write_config
from workload import Sender, records

from tests.brokers import JavaBroker, launch
from tests.nightly import few
from tests.skipping import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.nightly]

#: The worker whose broker is struck, see there.
_PROGRAM = (sys.executable, str(Path(__file__).with_name("recovering.py")))

#: What it says meanwhile, every second.
WAITING = "waiting for the broker"


@pytest.fixture(scope="module")
def broker() -> Iterator[JavaBroker]:
    """A broker of our own, since it is struck."""
    with or_skip():
        launched = launch("java")
    assert isinstance(launched, JavaBroker)
    with launched:
        yield launched


def topics(broker: JavaBroker) -> KafkaConfig:
    """Two partitions of each; a broker that has been away takes a moment to be its own controller again."""
    found: list[KafkaConfig] = []

    def made() -> bool:
        with suppress(WorkError):
            found.append(fresh_cluster(broker, 2))
        return bool(found)

    eventually("topics can be made", made)
    return found[0]


def send(cluster: KafkaConfig, half: int) -> None:
    """Half of the workload."""
    everything = list(records(7, 400, 4))
    sender = Sender(cluster)
    sender.send(everything[: len(everything) // 2] if half == 0 else everything[len(everything) // 2 :])
    sender.flush()


def worker_that_strikes(
    broker: JavaBroker, number: signal.Signals, path: Path, patch: pytest.MonkeyPatch, at: str
) -> WorkerProcess:
    """A worker whose broker is struck when it is about to do this."""
    with patch.context() as here:
        here.setattr(processes, "_PROGRAM", _PROGRAM)
        here.setenv("STRIKE_GROUP", str(broker.group))
        here.setenv("STRIKE_SIGNAL", str(int(number)))
        here.setenv("STRIKE_AT", at)
        return WorkerProcess(path)


def struck(
    broker: JavaBroker, number: signal.Signals, path: Path, patch: pytest.MonkeyPatch
) -> WorkerProcess:
    """A worker that finds its broker so when it begins to read; it has said several times that it waits."""
    group = broker.group
    worker = worker_that_strikes(broker, number, path, patch, "read_known")

    def waits() -> bool:
        assert worker.status is None, worker.log
        return worker.log.count(WAITING) > 10  # of two shards, and beyond the first clients' patience

    try:
        eventually("it waits", waits)
        eventually("it lives", lambda: worker.get("/live")[0] == 200)
        eventually("it says so", lambda: WAITING in worker.get("/ready")[1])
        assert worker.get("/ready")[0] == 503
    except BaseException:
        worker.kill()
        os.killpg(group, signal.SIGCONT)
        raise
    return worker


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGSTOP], keep=0))
def test_a_recovering_worker_waits_for_a_broker(
    number: signal.Signals, broker: JavaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = topics(broker)
    path = write_config(tmp_path, cluster)
    send(cluster, 0)
    with WorkerProcess(path) as worker:
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    with struck(broker, number, path, monkeypatch) as worker:
        if number == signal.SIGSTOP:
            os.killpg(broker.group, signal.SIGCONT)
        else:
            broker.kill()
            broker.start_up()
        await_ready(worker)
        assert WAITING not in worker.get("/ready")[1]
        send(cluster, 1)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    assert_published_once(cluster)
    assert_as_replayed(cluster, path)


def test_one_that_waits_is_told_to_stop(
    broker: JavaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(tmp_path, topics(broker))
    try:
        with struck(broker, signal.SIGSTOP, path, monkeypatch) as worker:
            assert worker.stop() == 0, worker.log
    finally:
        os.killpg(broker.group, signal.SIGCONT)


def test_one_that_looks_at_the_topics_is_told_to_stop(
    broker: JavaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it asks has half a minute to be answered: nobody waits for that."""
    path = write_config(tmp_path, topics(broker))
    try:
        with worker_that_strikes(broker, signal.SIGSTOP, path, monkeypatch, "_check_topics") as worker:
            eventually("it looks", lambda: "struck" in worker.log)
            assert worker.stop(seconds=20.0) == 0, worker.log
    finally:
        os.killpg(broker.group, signal.SIGCONT)
