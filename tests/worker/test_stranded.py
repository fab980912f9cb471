"""Clients that have lost their brokers for good, though these are there: the worker replaces them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import processes
import pytest
from comparison import assert_as_replayed, assert_published_once
from confluent_kafka import Consumer, Producer
from prequential.demo.broker import pick_port
from prequential.topics import clients
from prequential.topics.clients import KafkaConfig, is_stranded
from processes import WorkerProcess, await_published, await_ready, eventually, write_config
from workload import Sender, records

from tests.nightly import few

#: The worker that can be struck, see there.
_PROGRAM = (sys.executable, str(Path(__file__).with_name("stranding.py")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("struck", "says"),
    few(
        [
            (signal.SIGUSR2, "shard 0: its client has lost its brokers"),
            (signal.SIGUSR1, "a fetching client has lost its brokers"),
        ]
    ),
)
def test_what_is_stranded_is_replaced(
    struck: signal.Signals, says: str, cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, cluster)
    everything = list(records(5, 1_000, 8))
    half = len(everything) // 2
    sender = Sender(cluster)
    sender.send(everything[:half])
    sender.flush()
    monkeypatch.setattr(processes, "_PROGRAM", _PROGRAM)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        worker.signal(struck)
        sender.send(everything[half:])
        sender.flush()
        eventually("it notices", lambda: says in worker.log)
        await_published(cluster, worker)
        await_ready(worker)
        assert worker.stop() == 0, worker.log
    monkeypatch.undo()
    assert_published_once(cluster)
    assert_as_replayed(cluster, config)


def test_a_client_that_has_a_broker_is_not_stranded(cluster: KafkaConfig) -> None:
    topic = cluster.topic("instances")
    assert not is_stranded(Producer(cluster.client()), topic)
    assert not is_stranded(Consumer(cluster.client(**{"group.id": "g"})), topic)


def test_a_client_without_a_broker_is_stranded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_RECONNECT_SECONDS", 0.2)
    nobody = KafkaConfig(f"127.0.0.1:{pick_port()}")
    assert is_stranded(Producer(nobody.client(log_level=0)), "instances")
