"""The model of Kafka against Kafka itself: the same scripts give the same answers."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers import Broker
from tests.created_topics import create_topics
from tests.nightly import scaled
from tests.simulation import clients
from tests.simulation.broker import Cluster
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.scripts import PARTITIONS, Library, Run, real, script_of, strategy_of


def on_the_model(seed: int, name: str) -> list[object]:
    """What the model answers to a script."""
    loop = SimulatedLoop(seed)
    cluster, network = Cluster(loop), Network(loop)
    cluster.create(name, PARTITIONS, {})
    clients.surroundings.append(clients.Surroundings(cluster, network))
    library = Library(clients.Producer, clients.Consumer, {}, loop.block, loop.time)
    run = Run(library, name, strategy_of(seed))
    ends: list[object] = []

    def main() -> None:
        try:
            ends.append(run.run(script_of(seed)))
        except Exception as error:
            ends.append(error)

    try:
        Process(loop, "script").start_thread(main)
        assert loop.run_until(lambda: bool(ends), loop.time() + 3_600)
    finally:
        clients.surroundings.pop()
    if isinstance(ends[0], Exception):
        raise ends[0]
    return run.answers


def on_kafka(broker: Broker, seed: int, name: str) -> list[object]:
    """What Kafka answers to a script."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    create_topics(admin, [NewTopic(name, PARTITIONS)])
    return Run(real(broker.bootstrap_servers), name, strategy_of(seed)).run(script_of(seed))


@pytest.mark.parametrize("seed", range(20))
def test_a_script_has_the_same_answers_in_any_order_of_events(seed: int) -> None:
    assert on_the_model(seed, "topic") == on_the_model(seed, "topic")


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(scaled(3, 40)))
def test_kafka_answers_as_the_model_does(kafka: Broker, seed: int) -> None:
    name = f"model-{uuid4().hex[:8]}"
    for expected, answer in zip(on_kafka(kafka, seed, name), on_the_model(seed, name), strict=True):
        assert answer == expected
