"""Formats behind Schema Registry: written by confluent-kafka's own serialisers, read here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from prequential.topics.errors import UsageError, WorkError
from registry_server import RegistryServer
from translating import WRITTEN, become, record, translator

from tests.registries import MARKS, Registry, apicurio
from tests.skipping import or_skip

AnyRegistry = RegistryServer | Registry

CONTEXT = SerializationContext("source", MessageField.VALUE)

SCORE = {
    "type": "record", "name": "Score", "namespace": "shop", "fields": [
        {"name": "request", "type": {"type": "record", "name": "Request", "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}}]}},
        {"name": "model", "type": "string"},
        {"name": "score", "type": "float"},
        {"name": "outcome", "type": [
            "null", {"type": "enum", "name": "Outcome", "symbols": ["FRAUD", "OK"]}]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
UUID = "123e4567-e89b-12d3-a456-426614174000"
SCORED = {
    "request": {"id": UUID}, "model": "nb", "score": 0.75, "outcome": "FRAUD", "amount": Decimal("12.50"),
    "at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc),
}  # fmt: skip
SOURCE = {
    "as": "predictions", "format": "avro", "stream": {"const": "fraud"}, "instance_id": "value.request.id",
    "model": "value.model", "y_pred": "value.outcome", "ts": "value.at",
    "segments": {"family": "value.model"}, "y_proba": {"FRAUD": "value.score", "OK": "1 - value.score"},
}  # fmt: skip
EXPECTED = {
    "stream": "fraud", "model": "nb", "instance_id": UUID, "y_pred": "FRAUD", "ts": 1_700_000_000_000,
    "y_proba": {"FRAUD": 0.75, "OK": 0.25}, "segments": {"family": "nb"},
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture(scope="module")
def other() -> Iterator[Registry]:
    with or_skip(), apicurio() as found:
        yield found


@pytest.fixture(params=["small server", pytest.param("Apicurio", marks=MARKS)])
def any_registry(request: pytest.FixtureRequest) -> Any:
    """What only its URL is asked of: our small server, and at night a registry as others have it."""
    return request.getfixturevalue("other" if request.param == "Apicurio" else "registry")


def client(registry: AnyRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def json_serializer(*arguments: Any, **more: Any) -> Any:
    """Of a schema, for a client of the registry."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer  # takes seconds

    schema, *others = arguments
    return JSONSerializer(json.dumps(schema), *others, **more)


def avro(registry: AnyRegistry, schema: dict[str, Any], value: Any, context: Any = CONTEXT) -> bytes:
    """A value as confluent-kafka's serialiser writes it."""
    written = AvroSerializer(client(registry), json.dumps(schema))(value, context)
    assert isinstance(written, bytes)
    return written


def test_avro(registry: RegistryServer, tmp_path: Path) -> None:
    """Nested records, unions, enumerations and logical types; the schema is asked for once."""
    translate = translator(tmp_path, SOURCE, schema_registry={"url": registry.url})
    content = avro(registry, SCORE, SCORED)
    registry.asked.clear()
    made = become(translate, [record(content), record(None), record(content)])
    assert [one for _, _, one in made] == [EXPECTED, EXPECTED]
    assert become(translate, [record(content)])[0][2] == EXPECTED
    assert registry.asked == {"/schemas/ids/1": 1}


def test_a_schema_changes_in_the_middle(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """Each record is read with the schema that it was written with."""
    fields: Any = SCORE["fields"]
    later = {**SCORE, "fields": [{"name": "region", "type": "string"}, *fields]}
    translate = translator(tmp_path, SOURCE, schema_registry={"url": any_registry.url})
    contents = [avro(any_registry, SCORE, SCORED), avro(any_registry, later, {**SCORED, "region": "EU"})]
    messages = list(map(record, contents))
    assert [one for _, _, one in become(translate, messages)] == [EXPECTED, EXPECTED]


def test_schemas_that_refer_to_others(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """References are asked for, and those of references."""
    inner = {"type": "record", "name": "Id", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
    middle = {"type": "record", "name": "Row", "namespace": "shop", "fields": [
        {"name": "key", "type": "shop.Id"}, {"name": "truth", "type": "boolean"}]}  # fmt: skip
    outer = {"type": "record", "name": "Envelope", "namespace": "shop", "fields": [
        {"name": "before", "type": ["null", "shop.Row"]}, {"name": "after", "type": ["null", "shop.Row"]},
        {"name": "op", "type": "string"}]}  # fmt: skip
    own = client(any_registry)
    own.register_schema("id", Schema(json.dumps(inner), "AVRO"))
    to_id = [SchemaReference("shop.Id", "id", 1)]
    own.register_schema("row", Schema(json.dumps(middle), "AVRO", to_id))
    to_row = [SchemaReference("shop.Row", "row", 1)]
    serializer = AvroSerializer(own, Schema(json.dumps(outer), "AVRO", to_row))
    row = {"key": {"id": 7}, "truth": True}
    events = [{"before": None, "after": row, "op": "c"}, {"before": row, "after": None, "op": "d"}]
    source = {
        "as": "labels", "format": "avro", "stream": {"const": "s"}, "instance_id": "value.after.key.id",
        "y_true": "value.after.truth",
    }  # fmt: skip
    translate = translator(tmp_path, source, schema_registry={"url": any_registry.url})
    messages = [record(serializer(event, CONTEXT)) for event in events] + [record(None)]
    assert [one for _, _, one in become(translate, messages)] == [
        {"stream": "s", "instance_id": "7", "y_true": y_true, "ts": WRITTEN} for y_true in (True, None)
    ]


def test_keys_in_avro(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """As change data capture writes them."""
    schema = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    key = avro(any_registry, schema, {"id": 9}, SerializationContext("source", MessageField.KEY))
    source = {**SOURCE, "instance_id": "key.id"}
    translate = translator(tmp_path, source, schema_registry={"url": any_registry.url})
    content = avro(any_registry, SCORE, SCORED)
    made = become(translate, [record(content, key), record(content, b"9")])
    assert made[0][2]["instance_id"] == "9"
    assert made[1][2].startswith("key: it isn't Schema Registry's")


def test_json_schema_needs_no_registry(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """The frame is passed over; what the schema says its writer has checked."""
    schema = {"title": "Label", "type": "object", "properties": {"id": {"type": "integer"}}}
    content = json_serializer(schema, client(any_registry))({"id": 5, "truth": "UP"}, CONTEXT)
    source = {"as": "labels", "format": "json_schema", "stream": {"const": "s"}, "instance_id": "value.id",
              "y_true": "value.truth"}  # fmt: skip
    made = become(translator(tmp_path, source), [record(content), record({"id": 5})])
    assert made[0][2] == {"stream": "s", "instance_id": "5", "y_true": "UP", "ts": WRITTEN}
    assert made[1][2].startswith("value: it isn't Schema Registry's")


# ---- Protobuf

_FIELD = descriptor_pb2.FieldDescriptorProto


def messages_of() -> dict[str, Any]:
    """Message classes of a schema with all that schemas have, and one that it refers to."""
    common = descriptor_pb2.FileDescriptorProto(name="common.proto", package="shop", syntax="proto3")
    common.message_type.add(name="Request").field.add(name="id", number=1, type=_FIELD.TYPE_STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(name="score.proto", package="shop", syntax="proto3")
    file.dependency.extend(["common.proto", timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name])
    outcome = file.enum_type.add(name="Outcome")
    outcome.value.add(name="OK", number=0)
    outcome.value.add(name="FRAUD", number=1)
    file.message_type.add(name="Other")
    score = file.message_type.add(name="Score")
    fields = [
        ("request", _FIELD.TYPE_MESSAGE, ".shop.Request"), ("score", _FIELD.TYPE_DOUBLE, None),
        ("outcome", _FIELD.TYPE_ENUM, ".shop.Outcome"),
        ("at", _FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        ("country", _FIELD.TYPE_MESSAGE, ".google.protobuf.StringValue"),
    ]  # fmt: skip
    for number, (name, kind, type_name) in enumerate(fields, start=1):
        score.field.add(name=name, number=number, type=kind, type_name=type_name, label=1)
    nested = score.nested_type.add(name="Part")
    nested.field.add(name="of", number=1, type=_FIELD.TYPE_MESSAGE, type_name=".shop.Score", label=1)
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(common.SerializeToString())
    pool.AddSerializedFile(file.SerializeToString())
    names = ("shop.Score", "shop.Score.Part", "shop.Request")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


def protobuf(registry: AnyRegistry, message: Any) -> bytes:
    """A message as confluent-kafka's serialiser writes it."""
    settings = {"use.deprecated.format": False, "skip.known.types": True}
    context = SerializationContext("protobuf", MessageField.VALUE)  # a subject has schemas of one format
    written = ProtobufSerializer(type(message), client(registry), settings)(message, context)
    assert isinstance(written, bytes)
    return written


PROTOBUF = {
    "as": "predictions", "format": "protobuf", "stream": {"const": "fraud"},
    "instance_id": "value.request.id", "model": {"const": "nb"}, "y_pred": "value.outcome", "ts": "value.at",
    "segments": {"country": "value.country"}, "y_proba": {"FRAUD": "value.score", "OK": "1 - value.score"},
}  # fmt: skip


def test_protobuf(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """Imports, enumerations, times and wrappers; unset fields have defaults, or are absent with presence."""
    kinds = messages_of()
    full = kinds["shop.Score"](request={"id": "r"}, score=0.75, outcome=1, at={"seconds": 1_700_000_000},
                               country={"value": "DE"})  # fmt: skip
    bare = kinds["shop.Score"](request={"id": "b"})
    translate = translator(tmp_path, PROTOBUF, schema_registry={"url": any_registry.url})
    messages = [full, bare, kinds["shop.Score"]()]
    made = become(translate, [*(record(protobuf(any_registry, one)) for one in messages), record(None)])
    assert made[0][2] == {
        "stream": "fraud", "model": "nb", "instance_id": "r", "y_pred": "FRAUD", "ts": 1_700_000_000_000,
        "y_proba": {"FRAUD": 0.75, "OK": 0.25}, "segments": {"country": "DE"},
    }  # fmt: skip
    assert made[1][2] == {
        "stream": "fraud", "model": "nb", "instance_id": "b", "y_pred": "OK", "ts": WRITTEN,
        "y_proba": {"FRAUD": 0.0, "OK": 1.0},
    }  # fmt: skip
    assert made[2][2] == "value.request.id is missing"


def test_a_protobuf_time_that_is_none(registry: RegistryServer, tmp_path: Path) -> None:
    """Milliseconds where seconds belong: a dead letter that shows them, and the others are used."""
    score = messages_of()["shop.Score"]
    messages = [
        score(request={"id": "r"}, at={"seconds": seconds}) for seconds in (1_700_000_000_000, 1_700_000_000)
    ]
    translate = translator(tmp_path, PROTOBUF, schema_registry={"url": registry.url})
    right, wrong = become(translate, [record(protobuf(registry, one)) for one in messages])
    assert wrong[2].startswith("value.at is 'seconds: 1700000000000, nanos: 0': expected epoch milliseconds")
    assert right[2]["ts"] == 1_700_000_000_000


IN_HEADERS = {"schema.id.serializer": header_schema_id_serializer}


def with_headers(serializer: Any, value: Any, topic: str) -> Message:
    """A record as a serialiser writes it that puts the schema's GUID into a header."""
    headers: list[tuple[str, bytes]] = []
    content = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
    assert [name for name, _ in headers] == ["__value_schema_id"]
    return record(content, headers=dict(headers))


def test_guids_in_headers(registry: RegistryServer, tmp_path: Path) -> None:
    """Next to records with a prefix, in the same topic; the registry is asked once for each."""
    settings = {"url": registry.url}
    translate = translator(tmp_path, SOURCE, schema_registry=settings)
    serializer = AvroSerializer(client(registry), json.dumps(SCORE), conf=IN_HEADERS)
    by_header = with_headers(serializer, SCORED, "source")
    records = [by_header, record(avro(registry, SCORE, SCORED)), by_header]
    assert [content for _, _, content in become(translate, records)] == [EXPECTED] * 3
    asked = {path: count for path, count in registry.asked.items() if "guids" in path or "ids" in path}
    assert list(asked.values()) == [1, 1]

    message = messages_of()["shop.Score.Part"](of={"request": {"id": "r"}})
    source = {**PROTOBUF, "instance_id": "value.of.request.id", "y_pred": "value.of.outcome"}
    source = {key: one for key, one in source.items() if key not in ("y_proba", "ts", "segments")}
    inner = {**IN_HEADERS, "use.deprecated.format": False, "skip.known.types": True}
    written = with_headers(ProtobufSerializer(type(message), client(registry), inner), message, "protobuf")
    translate = translator(tmp_path, source, schema_registry=settings)
    by_prefix = become(translate, [record(protobuf(registry, message))])
    assert become(translate, [written]) == by_prefix
    assert by_prefix[0][0] == "predictions"

    schema = {"type": "object", "title": "Label", "properties": {"id": {"type": "integer"}}}
    serializer = json_serializer(schema, client(registry), conf=IN_HEADERS)
    label = {"as": "labels", "format": "json_schema", "stream": {"const": "s"}, "instance_id": "value.id",
             "y_true": {"path": "value.paid", "default": False}}  # fmt: skip
    [(topic, _, content)] = become(translator(tmp_path, label), [with_headers(serializer, {"id": 7}, "json")])
    assert (topic, content["instance_id"], content["y_true"]) == ("labels", "7", False)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"\1" + bytes(16), "has no schema 00000000-0000-0000-0000-000000000000"),
        (b"\1" + bytes(3), r"value: the header '__value_schema_id' is b'\x01\x00\x00\x00': expected a one"),
        (b"", "value: the header '__value_schema_id' is b''"),
    ],
)  # fmt: skip
def test_unfit_headers(registry: RegistryServer, tmp_path: Path, header: bytes, reason: str) -> None:
    translate = translator(tmp_path, SOURCE, schema_registry={"url": registry.url})
    content = avro(registry, SCORE, SCORED)[5:]
    unfit = record(content, headers={"__value_schema_id": header})
    (topic, _, first), (_, _, second) = become(translate, [unfit, unfit])
    assert (topic, first) == ("dead-letters", second)
    assert reason in first
    assert registry.asked["/schemas/guids/00000000-0000-0000-0000-000000000000"] <= 1


def test_a_nested_message(any_registry: AnyRegistry, tmp_path: Path) -> None:
    """The record says which message of its schema it is."""
    kinds = messages_of()
    part = kinds["shop.Score.Part"](of={"request": {"id": "r"}})
    source = {**PROTOBUF, "instance_id": "value.of.request.id", "y_pred": "value.of.outcome"}
    source = {key: one for key, one in source.items() if key not in ("y_proba", "ts", "segments")}
    translate = translator(tmp_path, source, schema_registry={"url": any_registry.url})
    [(_, _, made)] = become(translate, [record(protobuf(any_registry, part))])
    assert (made["instance_id"], made["y_pred"]) == ("r", "OK")


# ---- what can go wrong


@pytest.mark.parametrize("source", [SOURCE, PROTOBUF])
def test_unfit_records(registry: RegistryServer, tmp_path: Path, source: dict[str, Any]) -> None:
    """No frame, a schema that isn't there, one of another format, foreign bytes behind the frame."""
    other = PROTOBUF is source
    registry.register("avro", {"schema": json.dumps(SCORE)})
    registry.register("other", {"schema": "", "schemaType": "PROTOBUF"})
    translate = translator(tmp_path, source, schema_registry={"url": registry.url})
    frame = bytes(4)
    wrong = frame + (b"\x01" if other else b"\x02")
    made = become(translate, [record({"id": 1}), record(frame + b"\x09abc"), record(wrong + b"abc")])
    reasons = [reason for _, _, reason in made]
    assert reasons[0].startswith("value: it isn't Schema Registry's: expected a zero byte")
    assert reasons[1] == f"value: Schema Registry at {registry.url} has no schema 9"
    assert reasons[2] == (
        "value: schema 1 is AVRO: expected PROTOBUF"
        if other
        else "value: schema 2 is PROTOBUF: expected AVRO"
    )
    become(translate, [record(frame + b"\x09abc")] * 5)
    assert registry.asked["/schemas/ids/9"] == 1, "what isn't there isn't asked for again and again"


@pytest.mark.parametrize("content", [b"", b"\x02", b"\xff" * 40, b"\x02a" * 3])
def test_foreign_bytes_as_avro(registry: RegistryServer, tmp_path: Path, content: bytes) -> None:
    """They are no fault of ours, and stop nothing."""
    number = registry.register("avro", {"schema": json.dumps(SCORE)})
    translate = translator(tmp_path, SOURCE, schema_registry={"url": registry.url})
    [(topic, _, reason)] = become(translate, [record(number.to_bytes(5, "big") + content)])
    assert topic == "dead-letters"
    assert reason.startswith(f"value: not Avro of schema {number}: ")


def test_a_registry_that_cant_be_asked_ends_the_process(tmp_path: Path) -> None:
    """It is no fault of the record, which must not become a dead letter."""
    with RegistryServer() as server:
        content = avro(server, SCORE, SCORED)
        settings = {"url": server.url, "max.retries": 0}
    with pytest.raises(WorkError, match=r"Schema Registry at http://127.* can't be asked for schema 1: "):
        become(translator(tmp_path, SOURCE, schema_registry=settings), [record(content)])


def test_a_label_that_may_be_null_is_not_known_yet(registry: RegistryServer, tmp_path: Path) -> None:
    """Of a union with null; nothing is written, and it is no dead letter."""
    label = {"as": "labels", "format": "avro", "stream": {"const": "s"}, "instance_id": "value.request.id",
             "y_true": "value.outcome"}  # fmt: skip
    translate = translator(tmp_path, label, schema_registry={"url": registry.url})
    contents = [avro(registry, SCORE, {**SCORED, "outcome": one}) for one in (None, "OK")]
    made = become(translate, list(map(record, contents)))
    assert [(topic, one["y_true"]) for topic, _, one in made] == [("labels", "OK")]
    outcome = translate.apply(list(map(record, contents)))
    assert (outcome.unlabelled, outcome.passed, outcome.reasons) == ({0}, {0: "unlabelled"}, {})


@pytest.mark.parametrize("format", ["avro", "json_schema"])
@pytest.mark.parametrize("header", ["apicurio.value.globalId", "apicurio.value.contentId"])
def test_the_id_of_a_schema_in_a_header_is_named(
    registry: RegistryServer, tmp_path: Path, header: str, format: str
) -> None:
    source = SOURCE | {"format": format}
    translate = translator(tmp_path, source, schema_registry={"url": registry.url})
    content = avro(registry, SCORE, SCORED)[5:]
    by_chance = bytes([0, 0, 0, 3, 3]) + content  # which begins as an id does
    for value in (content, by_chance):
        [(topic, _, reason)] = become(translate, [record(value, headers={header: b"\1" + bytes(16)})])
        assert topic == "dead-letters"
        if value is content or format == "avro":
            assert reason.startswith(
                f"value: the schema's id is in the header {header!r}: expected it before the content; set `"
            )
    [(_, _, reason)] = become(translate, [record(content, headers={"trace": b"1"})])
    assert "in the header" not in reason


def test_credentials_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env:` and `file:` as for Kafka; wrong ones end the process, and no secret is shown."""
    with RegistryServer("me:hush") as server:
        server.register("source-value", {"schema": json.dumps(SCORE)})
        with RegistryServer() as open_one:
            content = avro(open_one, SCORE, SCORED)
        monkeypatch.setenv("REGISTRY", "me:hush")
        settings = {"url": server.url, "basic.auth.user.info": "env:REGISTRY"}
        [(_, _, made)] = become(translator(tmp_path, SOURCE, schema_registry=settings), [record(content)])
        assert made == EXPECTED
        monkeypatch.setenv("REGISTRY", "me:wrong")
        with pytest.raises(WorkError, match="refuses schema 1: Unauthorized") as failed:
            become(translator(tmp_path, SOURCE, schema_registry=settings), [record(content)])
        assert "wrong" not in str(failed.value)
        monkeypatch.delenv("REGISTRY")
        with pytest.raises(UsageError, match="info is 'env:REGISTRY', but the environment variable"):
            translator(tmp_path, SOURCE, schema_registry=settings)


def test_a_registry_that_isnt_configured(tmp_path: Path) -> None:
    """Said at start."""
    with pytest.raises(UsageError, match=r"ingest reads avro, but kafka\.schema_registry\.url is missing"):
        translator(tmp_path, SOURCE)
    with pytest.raises(UsageError, match=r"kafka\.schema_registry: Unrecognized properties: urls"):
        translator(tmp_path, SOURCE, schema_registry={"url": "http://x", "urls": "y"})


@pytest.mark.parametrize("mutual", [False, True])
def test_avro_that_contains_itself(mutual: bool, registry: RegistryServer, tmp_path: Path) -> None:
    """A few kilobytes, nested deeply, would overflow the stack of a compiled reader, and end the process."""
    below: Any = "Node"
    if mutual:
        below = {"type": "record", "name": "Box", "fields": [{"name": "of", "type": "Node"}]}
    node = {"type": "record", "name": "Node", "fields": [
        {"name": "id", "type": "int"}, {"name": "truth", "type": "boolean"},
        {"name": "parent", "type": ["null", below]}]}  # fmt: skip
    source = {
        "as": "labels", "format": "avro", "stream": {"const": "s"}, "y_true": "value.truth",
        "instance_id": "value.parent.of.id" if mutual else "value.parent.id",
    }  # fmt: skip
    translate = translator(tmp_path, source, schema_registry={"url": registry.url})
    number = registry.register("tree", {"schema": json.dumps(node)})
    frame = number.to_bytes(5, "big")
    good = frame + b"\x02\x01\x02" + b"\x0e\x00\x00"
    assert become(translate, [record(good)])[0][2]["instance_id"] == "7"
    for depth in (5_000, 300_000):
        [(topic, _, reason)] = become(translate, [record(frame + b"\x02\x01\x02" * depth + b"\x02\x01\x00")])
        assert (topic, reason) == ("dead-letters", f"value: Avro of schema {number} is nested too deeply")
