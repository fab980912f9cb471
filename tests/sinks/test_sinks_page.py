"""The programs of `deploy/sinks/`, and what `docs/do/notify-webhook.md` shows."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from prequential.configfile.reading.reader import load_config
from prequential.runtime.notifying.posting import headers, key_of
from prequential.topics.avro import avro_schema
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.encoding import encode
from prequential.topics.outputs import Alarm, Metrics
from prequential.topics.producer import RecordProducer

from tests.created_topics import create_topics
from tests.ingest.registry_server import RegistryServer
from tests.registries import MARKS, apicurio
from tests.skipping import or_skip
from tests.worker.processes import eventually, read_topic

ROOT = Path(__file__).parents[2]
SINKS = ROOT / "deploy" / "sinks"
PAGE = ROOT / "docs" / "do" / "notify-webhook.md"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    """The blocks of the page, without their indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [dedent(text) for _, text in found]


ALARM = Alarm(
    "f0", "fraud", 0, "nb", None, "final", "page-hinkley", "error", 9, "8", 9000, 50.3, 50.0,
    {"delta": 0.005, "two-sided": False},
)  # fmt: skip


def message(n: int, **measures: float) -> bytes:
    return encode(
        Metrics(f"id-{n}", "elec2", 0, "nb", None, "final", "all", n, n, 1000 * n, measures, {}, {}, "5e0c")
    )


@pytest.fixture(params=["small server", pytest.param("Apicurio", marks=MARKS)])
def registry(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of one."""
    with or_skip(), apicurio() if request.param == "Apicurio" else RegistryServer() as found:
        yield found.url


@pytest.mark.nightly
def test_avro_has_each_message_once_although_its_program_is_killed(
    cluster: KafkaConfig, registry: str
) -> None:
    names = "metrics", "comparisons", "drift-alarms", "incidents"
    topics = [NewTopic(cluster.topic(f"{name}-avro"), 2, 1) for name in names]
    create_topics(connect(cluster), topics)
    client = SchemaRegistryClient({"url": registry})
    read = AvroDeserializer(client)
    command = [sys.executable, SINKS / "to_avro.py", cluster.bootstrap_servers, registry, cluster.prefix]

    def written(name: str) -> list[dict[str, Any]]:
        topic = cluster.topic(f"{name}-avro")
        context = SerializationContext(topic, MessageField.VALUE)
        found = [(one.key(), read(one.value(), context)) for one in read_topic(cluster, f"{name}-avro")]
        assert {key for key, _ in found} <= {b"elec2", b"fraud"}
        return [value for _, value in found]

    for first in (0, 300):
        with RecordProducer(cluster) as producer:
            for n in range(first, first + 300):
                producer.send("metrics", b"elec2", message(n, accuracy=n / 7))
            producer.send("drift-alarms", b"fraud", encode(ALARM))
        with subprocess.Popen(command) as process:
            try:
                eventually("some are there", lambda first=first: len(written("metrics")) > first)  # type: ignore[misc]
                if first:
                    eventually("all are there", lambda: len(written("metrics")) == 600)
                    eventually("alarms are there", lambda: len(written("drift-alarms")) == 2)
            finally:
                process.kill()
    assert written("drift-alarms")[0]["params"] == {"delta": 0.005, "two-sided": False}
    found = sorted(written("metrics"), key=lambda one: int(one["outcomes"]))
    assert [(one["id"], one["measures"]["accuracy"]) for one in found] == [
        (f"id-{n}", n / 7) for n in range(600)
    ]
    assert found[5]["ts"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=timezone.utc)
    assert set(client.get_subjects()) == {f"{cluster.prefix}{one}-avro-value" for one in names[:3:2]}


@pytest.mark.parametrize("registry", [pytest.param("Apicurio", marks=MARKS)], indirect=True)
def test_a_field_that_may_be_missing_is_compatible_both_ways(registry: str) -> None:
    """As the page says of later versions, by the rules of a registry."""
    client = SchemaRegistryClient({"url": registry})
    for name in ("metrics", "comparisons", "drift-alarms", "incidents"):
        schema, subject = avro_schema(name), f"{name}-value"

        def register(*more: Any, schema: Any = schema, subject: str = subject) -> int:
            later = {**schema, "fields": [*schema["fields"], *more]}
            return client.register_schema(subject, Schema(json.dumps(later), "AVRO"))

        first = register()
        client.set_compatibility(subject, level="FULL")
        assert register({"name": "later", "type": ["null", "string"], "default": None}) > first
        with pytest.raises(SchemaRegistryError, match=r"(?i)incompatible"):
            register({"name": "later", "type": "string"})


def test_the_sink_has_each_value_once_although_it_is_killed(cluster: KafkaConfig, tmp_path: Path) -> None:
    where = [cluster.bootstrap_servers, tmp_path / "db", cluster.prefix]
    command = [sys.executable, SINKS / "sink.py", *where]

    def rows() -> list[Any]:
        with closing(sqlite3.connect(f"file:{tmp_path / 'db'}?mode=ro", uri=True)) as database:
            return database.execute("SELECT id, measure, value, segment FROM metrics ORDER BY id").fetchall()

    def written(*ids: int) -> bool:
        try:
            return [row[0] for row in rows()] == [f"id-{n}" for n in ids]
        except sqlite3.OperationalError:  # the program has not made the file or the table yet
            return False

    for first, last in ((0, 3), (2, 5)):
        with RecordProducer(cluster) as producer:
            for n in range(first, last):
                producer.send("metrics", b"elec2", message(n, accuracy=n / 10))
        with subprocess.Popen(command) as process:
            try:
                eventually("it has written them", lambda last=last: written(*range(last)))  # type: ignore[misc]
            finally:
                process.kill()
    assert rows()[3] == ("id-3", "accuracy", 0.3, None)


def test_the_check_of_signatures() -> None:
    [program] = [one for one in blocks("python") if "is_ours" in one]
    names: dict[str, Any] = {}
    exec(program, names)
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"id":"9ad1"}'
    sent = headers("9ad1-1", int(time.time()), body, key_of(secret))
    assert names["is_ours"](sent, body, secret)
    assert not names["is_ours"](sent, body + b" ", secret)
    old = headers("9ad1-1", int(time.time()) - 3600, body, key_of(secret))
    assert not names["is_ours"](old, body, secret)


def test_the_configuration(tmp_path: Path) -> None:
    [text] = blocks("yaml")
    (tmp_path / "notify.yaml").write_text(text)
    config = load_config(str(tmp_path / "notify.yaml")).notify
    assert (config.url, config.updates, config.severity) == ("env:WEBHOOK_URL", True, 0.2)
