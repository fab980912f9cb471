"""Topics in Avro become the inputs, by a process of `ingest` and the registry that has their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS
from registry_server import RegistryServer

from tests.ingest.ingesting import IngestProcess, create_sources, produce, write_config
from tests.worker.processes import eventually, read_topic

RECORDS = 300

SCORE = {
    "type": "record", "name": "Score", "fields": [
        {"name": "id", "type": "long"},
        {"name": "model", "type": {"type": "enum", "name": "Model", "symbols": ["nb", "tree"]}},
        {"name": "score", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
CHANGE = {
    "type": "record", "name": "Envelope", "fields": [
        {"name": "op", "type": "string"},
        {"name": "after", "type": ["null", {
            "type": "record", "name": "Row", "fields": [{"name": "fraud", "type": "boolean"}]}]},
    ],
}  # fmt: skip

#: What a score and a change of the labels' table become.
OF_SCORES = {
    "as": ["instances", "predictions"], "format": "avro", "stream": {"const": "fraud"},
    "instance_id": "value.id", "model": "value.model",
    "y_pred": {"path": "value.score", "threshold": 0.5, "above": "true", "below": "false"},
    "y_proba": {"true": "value.score"}, "ts": "value.at",
}  # fmt: skip
OF_LABELS = {
    "as": "labels", "format": "avro", "stream": {"const": "fraud"}, "instance_id": "key.id",
    "y_true": "value.after.fraud",
}  # fmt: skip

START = 1_700_000_000_000


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


class Avro:
    """Writes a topic's keys or values with one schema, as confluent-kafka does."""

    def __init__(self, registry: RegistryServer, schema: dict[str, Any], topic: str, field: str) -> None:
        self._write = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))
        self._context = SerializationContext(topic, field)

    def __call__(self, value: dict[str, Any]) -> bytes:
        written = self._write(value, self._context)
        assert isinstance(written, bytes)
        return written


def test_topics_in_avro_become_the_inputs(
    cluster: KafkaConfig, registry: RegistryServer, tmp_path: Path
) -> None:
    topics = create_sources(cluster, scores=3, labels=2)
    score = Avro(registry, SCORE, topics["scores"], MessageField.VALUE)
    key = Avro(registry, KEY, topics["labels"], MessageField.KEY)
    change = Avro(registry, CHANGE, topics["labels"], MessageField.VALUE)
    rows: list[dict[str, Any]] = [
        {"id": n, "model": ("nb", "tree")[n % 2], "score": n / RECORDS, "at": START + n}
        for n in range(RECORDS)
    ]
    produce(cluster, topics["scores"], ((b"%d" % row["id"], score(row)) for row in rows))
    changes = [(key({"id": n}), change({"op": "c", "after": {"fraud": n % 3 == 0}})) for n in range(RECORDS)]
    gone = [(key({"id": 0}), change({"op": "d", "after": None})), (key({"id": 0}), None)]
    produce(cluster, topics["labels"], [*changes, *gone])
    ingest = {topics["scores"]: OF_SCORES, topics["labels"]: OF_LABELS}
    config = write_config(tmp_path, cluster, ingest, kafka={"schema_registry": {"url": registry.url}})

    with IngestProcess(config) as process:

        def finished() -> bool:
            assert process.status is None, process.log
            return sum(len(read_topic(cluster, name)) for name in INPUTS) >= 3 * RECORDS + len(gone)

        eventually("all is written", finished)
        assert process.stop() == 0, process.log
    found = {name: [json.loads(one.value()) for one in read_topic(cluster, name)] for name in INPUTS}
    # The deletion, and the tombstone after it, withdraw a label: the key names its instance.
    withdrawn = [one for one in found["labels"] if one["y_true"] is None]
    assert [one["instance_id"] for one in withdrawn] == ["0", "0"]
    found["labels"] = [one for one in found["labels"] if one["y_true"] is not None]
    by_id = {name: {one["instance_id"]: one for one in of} for name, of in found.items()}
    assert [len(of) for of in found.values()] == [len(of) for of in by_id.values()] == [RECORDS] * 3
    for n, row in enumerate(rows):
        instance = {"stream": "fraud", "instance_id": str(n), "ts": row["at"]}
        assert by_id["instances"][str(n)] == instance
        assert by_id["predictions"][str(n)] == instance | {
            "model": row["model"], "y_pred": "true" if row["score"] >= 0.5 else "false",
            "y_proba": {"true": row["score"], "false": pytest.approx(1 - row["score"])},
        }  # fmt: skip
        label = by_id["labels"][str(n)]
        assert (label["stream"], label["y_true"]) == ("fraud", n % 3 == 0)
    assert not read_topic(cluster, "dead-letters")
    # Schemas are asked for once, not for each record.
    assert sum(count for path, count in registry.asked.items() if path.startswith("/schemas/ids/")) <= 6
