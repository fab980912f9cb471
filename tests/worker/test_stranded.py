"""How it is seen that a client has lost its brokers for good, though these are there.

That workers replace such clients: `tests/simulation`.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from prequential.demo.broker import pick_port
from prequential.topics import clients
from prequential.topics.clients import KafkaConfig, is_stranded


def test_a_client_that_has_a_broker_is_not_stranded(cluster: KafkaConfig) -> None:
    topic = cluster.topic("instances")
    assert not is_stranded(Producer(cluster.client()), topic)
    assert not is_stranded(Consumer(cluster.client(**{"group.id": "g"})), topic)


def test_a_client_without_a_broker_is_stranded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_RECONNECT_SECONDS", 0.2)
    nobody = KafkaConfig(f"127.0.0.1:{pick_port()}")
    assert is_stranded(Producer(nobody.client(log_level=0)), "instances")
