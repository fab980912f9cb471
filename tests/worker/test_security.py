"""TLS, SASL and least privilege, against an Apache Kafka that asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from prequential.topics.admin import check, create
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.specs import INPUTS, topic_specs
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    outputs,
    prequential,
    write_config,
)
from workload import Sender, records

from tests.brokers import READY_SECONDS, Broker, launch
from tests.nightly import few
from tests.secured.pki import Pki, make_pki
from tests.skipping import or_skip

pytestmark = pytest.mark.kafka

SECRET = "open-sesame-4711"

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)

#: What a worker may do, as docs/reference/topics.md has it: resource, name, operations.
WORKER_ACLS = (
    (ResourceType.TOPIC, INPUTS, ("READ", "DESCRIBE")),
    (ResourceType.TOPIC, ("prequential-journal", "prequential-snapshots"), ("READ", "WRITE", "DESCRIBE")),
    (
        ResourceType.TOPIC,
        ("metrics", "comparisons", "drift-alarms", "incidents", "dead-letters"),
        ("WRITE", "DESCRIBE"),
    ),
)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def guarded(pki: Pki) -> Iterator[Broker]:
    """A broker that wants TLS and SASL, and lets users do only what they may."""
    listener = "listener.name.client"
    users = {"admin": SECRET, "alice": SECRET}
    with or_skip():
        broker = launch(
            "kafka",
            {
                "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                **pki.broker_properties(listener),
                f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
                f"{listener}.plain.sasl.jaas.config": PLAIN
                + "".join(f' user_{user}="{password}"' for user, password in users.items())
                + ";",
                f"{listener}.scram-sha-256.sasl.jaas.config": SCRAM,
                f"{listener}.oauthbearer.sasl.jaas.config": OAUTH,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin;User:ANONYMOUS;User:scram;User:oauth",
            },
        )
    with broker:
        admin = config(broker, pki, **{"sasl.username": "admin", "sasl.password": SECRET})
        connect(admin, timeout=READY_SECONDS)  # the first handshake takes its time
        yield broker


def config(broker: Broker, pki: Pki, **security: str) -> KafkaConfig:
    common = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(pki.ca), "sasl.mechanism": "PLAIN"}
    return KafkaConfig(
        broker.bootstrap_servers, prefix=f"t{uuid4().hex[:8]}.", security={**common, **security}
    )


@pytest.fixture
def admin(guarded: Broker, pki: Pki) -> KafkaConfig:
    """Topics, seen by somebody who may do everything."""
    kafka = config(guarded, pki, **{"sasl.username": "admin", "sasl.password": SECRET})
    create(kafka, topic_specs(kafka))
    return kafka


def evaluates(kafka: KafkaConfig, admin: KafkaConfig, folder: Path) -> str:
    """A worker does its work and never shows the secret; returns its log."""
    sender = Sender(admin)
    sender.send(list(records(5, 300, 8)))
    sender.flush()
    path = write_config(folder, kafka, defaults={"emit": {"outcomes": 10}})
    with WorkerProcess(path) as worker:
        await_ready(worker)
        await_published(admin, worker)
        metrics = worker.get("/metrics")[1]
        assert worker.stop() == 0, worker.log
        assert SECRET not in worker.log
        assert SECRET not in metrics
    assert outputs(admin, "metrics")
    return worker.log


def test_plain_with_the_password_in_the_environment_and_least_privilege(
    guarded: Broker, pki: Pki, admin: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    security = {**admin.security, "sasl.username": "alice", "sasl.password": "env:KAFKA_PASSWORD"}
    alice = replace(admin, security=security)
    group = f"{admin.prefix}group-{admin.prefix}"
    bindings = [
        acl(kind, admin.topic(name), operation)
        for kind, names, operations in WORKER_ACLS
        for name in names
        for operation in operations
    ]
    bindings += [acl(ResourceType.GROUP, group, operation) for operation in ("READ", "DESCRIBE")]
    bindings += [acl(ResourceType.GROUP, name, "DESCRIBE") for name in (f"{group}-fetch", "prequential-read")]
    bindings += [
        acl(ResourceType.TRANSACTIONAL_ID, f"{group}-shard-", operation, ResourcePatternType.PREFIXED)
        for operation in ("WRITE", "DESCRIBE")
    ]
    client = AdminClient(admin.client())
    for done in client.create_acls(bindings).values():
        done.result()
    # She may not see the topics' settings: whose times records carry shows all the same.
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    labels = ConfigResource(ResourceType.TOPIC, admin.topic("labels"), incremental_configs=[entry])
    client.incremental_alter_configs([labels])[labels].result()
    eventually("the broker shows it", lambda: check(admin, topic_specs(admin)).errors)
    log = evaluates(alice, admin, tmp_path)
    said = re.findall(r"records of topic '(\S+)' carry their producers' times", log)
    assert said == [admin.topic("labels")]
    # More partitions ask for Alter besides.
    every = [spec.name for spec in topic_specs(admin)]
    more = [acl(ResourceType.TOPIC, name, operation) for name in every for operation in ("DESCRIBE", "ALTER")]
    for done in client.create_acls(more).values():
        done.result()
    path = write_config(tmp_path, alice)
    grown = prequential("topics", "grow", "--config", path, "--partitions", "8", cwd=tmp_path)
    assert grown.returncode == 0, grown.stdout + grown.stderr
    assert SECRET not in grown.stdout + grown.stderr


def acl(
    kind: ResourceType, name: str, operation: str, pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:  # fmt: skip
    return AclBinding(
        kind, name, pattern, "User:alice", "*", AclOperation[operation], AclPermissionType.ALLOW
    )


def test_scram_with_the_password_in_a_file(admin: KafkaConfig, tmp_path: Path) -> None:
    credential = UserScramCredentialUpsertion(
        "scram", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), SECRET.encode()
    )
    client = AdminClient(admin.client())
    for done in client.alter_user_scram_credentials([credential]).values():
        done.result()
    (tmp_path / "password").write_text(f"{SECRET}\n")
    security = {
        **admin.security,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "scram",
        "sasl.password": f"file:{tmp_path / 'password'}",
    }
    evaluates(replace(admin, security=security), admin, tmp_path)


def test_oauthbearer(admin: KafkaConfig, tmp_path: Path) -> None:
    security = {key: value for key, value in admin.security.items() if "sasl." not in key} | {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=oauth",
    }
    evaluates(replace(admin, security=security), admin, tmp_path)


WRONG: Mapping[str, Mapping[str, str]] = {
    "password": {"sasl.password": "guessed"},
    "authority": {"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"},
    "protocol": {"security.protocol": "PLAINTEXT"},
}


@pytest.mark.parametrize("wrong", few(WRONG))
def test_what_is_wrong_is_one_sentence_without_the_secret(
    admin: KafkaConfig, wrong: str, tmp_path: Path
) -> None:
    security = {**admin.security, **WRONG[wrong]}
    path = write_config(tmp_path, replace(admin, security=security))
    done = prequential("worker", "--config", path, cwd=tmp_path)
    assert done.returncode in (1, 2)
    # Whatever is wrong, loops that no cache holds are compiled before a broker is asked.
    said = [line for line in done.stderr.splitlines() if "the engine's loops" not in line]
    assert len(said) == 1
    assert said[0].startswith("prequential: ")
    assert SECRET not in done.stderr
    assert "guessed" not in done.stderr


def test_the_endpoint_only_answers(admin: KafkaConfig, tmp_path: Path) -> None:
    """Nothing but reading, and nothing of Faust's own pages."""
    with WorkerProcess(write_config(tmp_path, admin)) as worker:
        await_ready(worker)
        assert worker.get("/")[0] == 404
        assert worker.get("/table")[0] == 404
        with pytest.raises(OSError, match=r"501|405"):
            urlopen(f"http://127.0.0.1:{worker.port}/metrics", data=b"x", timeout=10)
