"""Schema Registry: fetch the schemas that records name, and read Avro and Protobuf with its frame.

The reader of a schema's records is made once for each ID or GUID. If the registry can't be reached, the
process ends with an error and commits nothing of the batch, because the record is not at fault. A record is
refused if the registry does not have its schema, or if that schema can't be used.

No code is generated: message classes are made from the descriptors. Paths use the fields' names in the
schema. A field that isn't set has its Protobuf default if it has no presence; otherwise it is absent.
"""

from __future__ import annotations

import base64
import importlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timezone
from io import BytesIO
from time import monotonic
from typing import Any

from confluent_kafka import Message
from prequential.runtime.ingest.formats import KEY_ID, VALUE_ID, Content, Keys, each, framed, named_header
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.foreign_json import Unreadable

#: The default of `kafka.schema_registry.timeout`: seconds that one request may take.
_TIMEOUT_SECONDS = 10

#: Seconds until the client asks again for a schema that the registry didn't have.
_AGAIN_SECONDS = 30.0

_NOT_FOUND = 404

#: Formats whose records name a schema.
_WITH_REGISTRY = ("avro", "protobuf", "json_schema")

#: A function that reads a record from its payload, which is what follows the schema's ID.
Read = Callable[[bytes], Any]


def refuse_without_registry(kafka: KafkaConfig, format: str) -> None:
    """Raise UsageError if a format needs Schema Registry and no address is configured."""
    if format in _WITH_REGISTRY and not kafka.schema_registry.get("url"):
        raise UsageError(
            f"ingest reads {format}, but kafka.schema_registry.url is missing: expected e.g. "
            "http://registry:8081"
        )


class SchemaRegistry:
    """A client of the configured registry; raises UsageError if it can't be made."""

    def __init__(self, kafka: KafkaConfig, format: str) -> None:
        refuse_without_registry(kafka, format)
        settings = {"timeout": _TIMEOUT_SECONDS, **kafka.registry()}
        self.url = settings["url"]
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError as error:
            raise UsageError(
                f"ingest reads {format}, for which {error.name} is missing: pip install 'prequential[ingest]'"
            ) from error
        try:
            self._client = SchemaRegistryClient(settings)
        except (ValueError, TypeError) as error:
            raise UsageError(f"kafka.schema_registry: {error}") from error
        self._refused = SchemaRegistryError

    def schema(self, name: int | str, form: str | None = None) -> Any:
        """Return a schema by its ID or GUID: `schema_str`, `schema_type`, `references`. Raises Unreadable."""

        def question() -> Any:
            if isinstance(name, str):
                return self._client.get_schema_by_guid(name, fmt=form)
            return self._client.get_schema(name, fmt=form)

        return self._asked(f"schema {name}", question)

    def referred(self, subject: str, version: int, form: str | None = None) -> Any:
        """Return the schema of a subject's version, to which another schema refers."""
        version_text = f"version {version} of {subject}"
        return self._asked(version_text, lambda: self._client.get_version(subject, version, fmt=form)).schema

    def _asked(self, subject_text: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._refused as error:
            if error.http_status_code == _NOT_FOUND:
                raise Unreadable(f"Schema Registry at {self.url} has no {subject_text}") from error
            raise WorkError(f"Schema Registry at {self.url} refuses {subject_text}: {error}") from error
        except Exception as error:  # the HTTP client raises various errors
            raise WorkError(
                f"Schema Registry at {self.url} can't be asked for {subject_text}: {error!r}"
            ) from error


class Framed:
    """Reads records by their schema's ID or GUID; `prepare` makes the reader for one."""

    def __init__(
        self, prepare: Callable[[int | str], Read], *, of_keys: bool = False,
        content: Callable[[list[Any], dict[int, str]], Content] = Content,
    ) -> None:  # fmt: skip
        self._prepare, self._make = prepare, content
        self._readers: dict[int | str, Read] = {}
        self._unknown: dict[int | str, tuple[float, str]] = {}
        self._bytes: Callable[[Message], bytes | None] = Message.key if of_keys else Message.value
        self._header = KEY_ID if of_keys else VALUE_ID

    def __call__(self, messages: Sequence[Message]) -> Content:
        """Return the contents of a batch."""
        read = each(messages, self._one)
        return self._make(read.values, dict(read.reasons))

    def _one(self, message: Message) -> Any:
        content = self._bytes(message)
        if content is None:
            return None
        with named_header(message):
            schema, payload = framed(message, content, self._header)
            read = self._readers.get(schema)
            if read is None:
                read = self._readers[schema] = self._prepared(schema)
            return read(payload)

    def _prepared(self, schema: int | str) -> Read:
        since, reason = self._unknown.get(schema, (float("-inf"), ""))
        if monotonic() - since < _AGAIN_SECONDS:
            raise Unreadable(reason)
        try:
            return self._prepare(schema)
        except Unreadable as error:
            self._unknown[schema] = monotonic(), str(error)
            raise


#: Exceptions that reading invalid bytes may raise.
_UNREADABLE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, StopIteration,
    struct.error,
)  # fmt: skip

#: Attributes of a schema that hold schemas.
_SCHEMAS_BELOW = ("type", "fields", "items", "values")


def avro_reader(registry: SchemaRegistry, number: int | str) -> Read:
    """Return a function that reads the records of a schema. Raises Unreadable if the schema can't be used."""
    import fastavro
    import fastavro._read_py as in_python

    schema, named = _parsed(registry, number)
    # The compiled reader takes half the time. But records of a recursive schema may be nested so deeply that
    # they overflow the process's stack; in Python that raises an exception.
    schemaless_reader = (in_python if _is_recursive(named) else fastavro).schemaless_reader

    def read(content: bytes) -> Any:
        try:
            return schemaless_reader(BytesIO(content), schema, None)
        except _UNREADABLE as error:
            raise Unreadable(f"not Avro of schema {number}: {_one_line(error)}") from error
        except RecursionError as error:
            raise Unreadable(f"Avro of schema {number} is nested too deeply") from error

    return read


def _is_recursive(named: Mapping[str, Any]) -> bool:
    """Return whether one of these types contains itself.

    >>> node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    >>> leaf = {"type": "record", "name": "leaf", "fields": [{"name": "n", "type": "long"}]}
    >>> _is_recursive({"node": node}), _is_recursive({"leaf": leaf})
    (True, False)
    """
    below = {name: set(_types_in([schema[key] for key in _SCHEMAS_BELOW if key in schema]))
             for name, schema in named.items()}  # fmt: skip
    while leaves := [name for name, types in below.items() if not types & below.keys()]:
        for name in leaves:
            del below[name]
    return bool(below)


def _types_in(schema: Any) -> Iterator[str]:
    """Yield the names of all types in a parsed schema."""
    if isinstance(schema, str):
        yield schema
    elif isinstance(schema, list):
        for part in schema:
            yield from _types_in(part)
    elif isinstance(schema, dict):
        if "fields" in schema and "name" in schema:
            yield schema["name"]
        yield from _types_in([schema[key] for key in _SCHEMAS_BELOW if key in schema])


def _parsed(registry: SchemaRegistry, number: int | str) -> tuple[Any, dict[str, Any]]:
    """Return a parsed schema, and all its named types."""
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    schema = registry.schema(number)
    if schema.schema_type not in (None, "AVRO"):
        raise Unreadable(f"schema {number} is {schema.schema_type}: expected AVRO")
    named: dict[str, Any] = {}
    try:
        for text in (*_referred(registry, schema), schema.schema_str):
            parsed = parse_schema(_plain(json.loads(text)), named_schemas=named)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(f"schema {number} can't be used: {_one_line(error)}") from error
    return parsed, named


def _referred(registry: SchemaRegistry, schema: Any) -> list[str]:
    """Return the schemas that one refers to, in the order in which they depend on each other."""
    texts = []
    for reference in schema.references or ():
        referred_schema = registry.referred(reference.subject, reference.version)
        texts += [
            text
            for text in (*_referred(registry, referred_schema), referred_schema.schema_str)
            if text not in texts
        ]
    return texts


def _plain(schema: Any) -> Any:
    """Return a schema in which UUIDs are strings, as the IDs of records are."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if (key, part) != ("logicalType", "uuid")}
    return {key: _plain(part) if key in _SCHEMAS_BELOW else part for key, part in kept.items()}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


#: The form of schemas with a file's descriptor instead of its text.
_SERIALIZED = "serialized"

#: Bits of a variable-length integer in each byte.
_BITS, _MORE = 7, 0x80

_TIMESTAMP, _WRAPPERS = "google.protobuf.Timestamp", "google/protobuf/wrappers.proto"


class ProtobufMessages(Content):
    """The messages of a batch."""

    def column(self, keys: Keys) -> list[Any]:
        """Return from every message what it has at these keys."""
        return [None if message is None else follow(message, keys) for message in self.values]


def protobuf_reader(registry: SchemaRegistry, number: int | str) -> Read:
    """Return a function that reads the records of a schema. Raises Unreadable if the schema can't be used."""
    from google.protobuf import descriptor_pool, message, message_factory

    schema = registry.schema(number, _SERIALIZED)
    if schema.schema_type != "PROTOBUF":
        raise Unreadable(f"schema {number} is {schema.schema_type or 'AVRO'}: expected PROTOBUF")
    pool = descriptor_pool.DescriptorPool()
    try:
        file = _add(registry, pool, f"schema-{number}.proto", schema, set())
    except (TypeError, ValueError, KeyError, message.DecodeError) as error:
        raise Unreadable(f"schema {number} can't be used: {' '.join(str(error).split())}") from error
    classes: dict[tuple[int, ...], Any] = {}

    def read(content: bytes) -> Any:
        indexes, start = _indexes(content)
        if indexes not in classes:
            classes[indexes] = message_factory.GetMessageClass(_descriptor(file, indexes, number))
        try:
            return classes[indexes].FromString(content[start:])
        except message.DecodeError as error:
            raise Unreadable(f"not Protobuf of schema {number}: {' '.join(str(error).split())}") from error

    return read


def follow(message: Any, keys: Keys) -> Any:
    """Return what a message has at these keys; None if it has nothing there."""
    reached: Any = message
    field = None
    for key in keys:
        if hasattr(reached, "DESCRIPTOR"):
            field = reached.DESCRIPTOR.fields_by_name.get(key)
            if field is None or (field.has_presence and not reached.HasField(key)):
                return None
            reached = getattr(reached, key)
        elif isinstance(reached, Mapping) or hasattr(reached, "keys"):
            reached = next((value for name, value in reached.items() if str(name) == key), None)
        elif hasattr(reached, "__getitem__") and not isinstance(reached, (str, bytes)) and key.isdigit():
            reached = reached[int(key)] if int(key) < len(reached) else None
        else:
            return None
        if reached is None:
            return None
    return _value(reached, field)


def _value(content: Any, field: Any) -> Any:
    """Return a field's value as plain Python: enumerations by name, messages and maps as dicts."""
    if hasattr(content, "DESCRIPTOR"):
        kind = content.DESCRIPTOR
        if kind.full_name == _TIMESTAMP:
            try:
                return content.ToDatetime(tzinfo=timezone.utc)
            except (ValueError, OverflowError):  # outside of the years 1 to 9999
                return f"seconds: {content.seconds}, nanos: {content.nanos}"
        if kind.file.name == _WRAPPERS:
            return content.value
        return {item.name: follow(content, (item.name,)) for item in kind.fields}
    if hasattr(content, "keys"):
        return {str(key): _value(value, None) for key, value in content.items()}
    if isinstance(content, int) and field is not None and field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(content)
        return enum_value.name if enum_value is not None else content
    if hasattr(content, "append"):
        return [_value(item, field) for item in content]
    return content


def _add(registry: SchemaRegistry, pool: Any, name: str, schema: Any, added: set[str]) -> Any:
    """Add a schema's file to the pool, after the files that it imports; returns its descriptor."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(schema.schema_str))
    file.name = name  # as others import it
    references = {
        reference_of_import.name: reference_of_import for reference_of_import in schema.references or ()
    }
    for imported in file.dependency:
        if imported in added:
            continue
        added.add(imported)
        if imported in references:
            reference_of_import = references[imported]
            imported_schema = registry.referred(
                reference_of_import.subject, reference_of_import.version, _SERIALIZED
            )
            _add(registry, pool, imported, imported_schema, added)
        else:
            _add_known(pool, imported, added)
    return pool.AddSerializedFile(file.SerializeToString()) or pool.FindFileByName(name)


def _add_known(pool: Any, name: str, added: set[str]) -> None:
    """Add a file that comes with Protobuf, or with googleapis-common-protos."""
    if not name.startswith("google/"):
        raise KeyError(f"it imports {name}, which it doesn't refer to")
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        raise KeyError(f"it imports {name}, which isn't known here") from None
    for dependency in module.DESCRIPTOR.dependencies:
        if dependency.name not in added:
            added.add(dependency.name)
            _add_known(pool, dependency.name, added)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _descriptor(file: Any, indexes: tuple[int, ...], number: int | str) -> Any:
    """Return the message type at these indexes: the index of a message in the file, then of nested ones."""
    descriptor = None
    for index in indexes:
        among = list(file.message_types_by_name.values()) if descriptor is None else descriptor.nested_types
        if index >= len(among):
            raise Unreadable(f"schema {number} has no message {'.'.join(map(str, indexes))}")
        descriptor = among[index]
    return descriptor


def _indexes(content: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message type, and the place of the content after them.

    The encoding is a count and as many numbers; a zero stands for the first message type.

    >>> _indexes(bytes([0])), _indexes(bytes([4, 2, 0]))
    (((0,), 1), ((1, 0), 3))
    """
    count, position = _integer(content, 0)
    if count == 0:
        return (0,), position
    indexes = []
    for _ in range(count):
        index, position = _integer(content, position)
        indexes.append(index)
    return tuple(indexes), position


def _integer(content: bytes, position: int) -> tuple[int, int]:
    """Decode a variable-length zigzag integer; returns the value and the place after it."""
    encoded = shift = 0
    while position < len(content):
        byte = content[position]
        position += 1
        encoded |= (byte & ~_MORE) << shift
        shift += _BITS
        if not byte & _MORE:
            number = (encoded >> 1) ^ -(encoded & 1)
            if number >= 0:
                return number, position
            break
    raise Unreadable("not Protobuf of Schema Registry's: expected which message it is before the content")
