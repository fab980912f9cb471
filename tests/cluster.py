"""Apache Kafka of several nodes on this machine's Java, behind a proxy (`tests.proxy`).

Each node is broker and controller. Clients get to a node through a port of the proxy, which the node
advertises to them; nodes talk to each other directly. The proxy reads Kafka's requests, so that where clients
speak TLS there can be none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prequential.demo.broker import pick_port
from prequential.topics.clients import KafkaConfig

from tests.brokers import JavaBroker
from tests.kafka_jars import KAFKA, java_program, kafka_jars
from tests.proxy import Proxy

#: Properties of a node of several, beyond `tests.brokers.SINGLE_NODE`: everything is there three times, and a
#: node that is killed is soon known to be gone.
_REPLICATED: Mapping[str, str] = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # Milliseconds (defaults 9,000 and 2,000): how soon the controller notices that a broker is gone.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Milliseconds (default 30,000) after which a replica that doesn't follow is out of sync.
    "replica.lag.time.max.ms": "5000",
    # Milliseconds (default 6,000) that a node which is told to shut down waits for another controller.
    "controlled.shutdown.retry.backoff.ms": "500",
}


class _Node(JavaBroker):
    heap = ("-Xms128m", "-Xmx384m")


class Cluster:
    """`count` nodes (1, or 3 with everything replicated), to be used in a `with` statement.

    `bootstrap_servers` are the proxy's ports, `ports` the same as numbers, one for each node; not `proxied`,
    they are the nodes' own.
    """

    restartable = True
    kind = "java"

    def __init__(
        self, count: int, properties: Mapping[str, str] | None = None, *, proxied: bool = True
    ) -> None:
        java_program()
        kafka_jars()
        behind = " behind a proxy" if proxied else ""
        self.name = f"Apache Kafka {KAFKA} (Java, {count} node{'s' if count > 1 else ''}{behind})"
        picked: set[int] = set()
        while len(picked) < 4 * count:
            picked.add(pick_port())
        numbers = list(picked)
        places = [tuple(numbers[i : i + 3]) for i in range(0, 3 * count, 3)]
        self.ports = numbers[3 * count :] if proxied else [place[0] for place in places]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        voters = ",".join(f"{n}@127.0.0.1:{place[2]}" for n, place in enumerate(places, 1))
        self.nodes: list[JavaBroker] = []
        try:
            for number, (place, port) in enumerate(zip(places, self.ports), 1):
                own = {
                    "node.id": str(number),
                    "controller.quorum.voters": voters,
                    "advertised.listeners": f"CLIENT://127.0.0.1:{port},INTERNAL://127.0.0.1:{place[1]}",
                }
                more = _REPLICATED if count > 1 else {}
                settings = {**more, **(properties or {}), **own}
                self.nodes.append(_Node(settings, (place[0], place[1], place[2])))
            for node in self.nodes:
                node.start()
            if proxied:
                self.proxy = Proxy({port: ("127.0.0.1", place[0]) for port, place in zip(self.ports, places)})
            for node in self.nodes:
                node.await_ready()
        except BaseException:
            self.stop()
            raise

    def config(self, **fields: Any) -> KafkaConfig:
        """A configuration of this project's clients for this cluster."""
        more = {"replication": 3} if len(self.nodes) > 1 else {}
        return KafkaConfig(self.bootstrap_servers, **{**more, **fields})

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all nodes and the proxy, and remove the data."""
        if hasattr(self, "proxy"):
            self.proxy.stop()
        for node in self.nodes:
            node.kill()
            node.stop()
