"""Apache Kafka that wants TLS and SCRAM of everybody, and lets users do only what they may."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from prequential.topics.clients import KafkaConfig, connect

from tests.brokers import READY_SECONDS
from tests.cluster import Cluster
from tests.created_topics import create_topics
from tests.secured.acls import Acl, all_of, grant, set_passwords
from tests.secured.pki import Pki, make_pki
from tests.worker.processes import eventually

#: Who may do everything.
ADMIN = "admin"

_LISTENER = "listener.name.client"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Secured:
    """A cluster with users. `folder` has its certificates, and a password's file for each user."""

    def __init__(self, cluster: Cluster, pki: Pki, folder: Path, prefix: str) -> None:
        self.cluster, self.pki, self._prefix = cluster, pki, prefix
        self._passwords = folder / "passwords"
        self._passwords.mkdir()
        #: By user.
        self.passwords: dict[str, str] = {}
        self._inside = AdminClient({"bootstrap.servers": cluster.nodes[0].internal})
        self.add_user(ADMIN, ())
        self.admin = self.client_of(ADMIN)
        self._outside = connect(self.admin, timeout=READY_SECONDS)  # the first handshake takes its time

    @property
    def replication(self) -> int:
        """Replicas that each partition has."""
        return len(self.cluster.nodes)

    def add_user(self, user: str, acls: Iterable[Acl]) -> None:
        """A user who may do that and nothing else, once a broker knows both."""
        self.passwords[user] = f"pw-{secrets.token_hex(12)}"
        self.password_file(user).write_text(self.passwords[user] + "\n")
        set_passwords(self._inside, {user: self.passwords[user]})
        bindings = {acl.binding(user) for acl in acls}
        if bindings:
            grant(self._inside, bindings)

        def known() -> bool:
            there = self._inside.describe_acls(all_of(user)).result()
            return bindings == set(there) and connect(self.client_of(user)) is not None

        eventually(f"{user} is known", known)

    def password_file(self, user: str) -> Path:
        """Where a user's password is."""
        return self._passwords / user

    def client_of(self, user: str) -> KafkaConfig:
        """A configuration of this project's clients for one of the users."""
        return KafkaConfig(
            self.cluster.bootstrap_servers, prefix=self._prefix, replication=self.replication,
            security={
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(self.pki.ca),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": f"file:{self.password_file(user)}",
            },
        )  # fmt: skip

    @property
    def inside(self) -> AdminClient:
        """A client that may do everything."""
        return self._inside

    def create(self, topics: Iterable[Mapping[str, Any]]) -> None:
        """Make topics, as specifications of Strimzi's KafkaTopic say."""
        new = [
            NewTopic(
                one["topicName"], one["partitions"], min(one["replicas"], self.replication),
                config={
                    key: value
                    for key, value in one.get("config", {}).items()
                    if key != "min.insync.replicas" or self.replication >= one["replicas"]
                },
            )
            for one in topics
        ]  # fmt: skip
        create_topics(self._outside, new)


@contextmanager
def secured(folder: Path, nodes: int, prefix: str = "") -> Iterator[Secured]:
    """Such a cluster of so many nodes; `folder` is empty."""
    pki = make_pki(folder)
    properties = {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **pki.broker_properties(_LISTENER),
        f"{_LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{_LISTENER}.scram-sha-512.sasl.jaas.config": _SCRAM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Nodes talk to each other without a name.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }
    with Cluster(nodes, properties, proxied=False) as cluster:
        yield Secured(cluster, pki, folder, prefix)
