"""Protobuf with Schema Registry's frame, read with the registry's descriptors (`format=serialized`).

No code is generated: message classes are made from the descriptors. Paths use the fields' names in the
schema. A field that isn't set has its Protobuf default if it has no presence; otherwise it is absent.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping
from datetime import timezone
from typing import Any

from prequential.mapping.evaluations import Unreadable
from prequential.runtime.ingest.formats import Content, Keys
from prequential.runtime.ingest.registry import Read, SchemaRegistry

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


def reader(registry: SchemaRegistry, number: int | str) -> Read:
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


def _value(given: Any, field: Any) -> Any:
    """Return a field's value as plain Python: enumerations by name, messages and maps as dicts."""
    if hasattr(given, "DESCRIPTOR"):
        kind = given.DESCRIPTOR
        if kind.full_name == _TIMESTAMP:
            try:
                return given.ToDatetime(tzinfo=timezone.utc)
            except (ValueError, OverflowError):  # outside of the years 1 to 9999
                return f"seconds: {given.seconds}, nanos: {given.nanos}"
        if kind.file.name == _WRAPPERS:
            return given.value
        return {one.name: follow(given, (one.name,)) for one in kind.fields}
    if hasattr(given, "keys"):
        return {str(key): _value(value, None) for key, value in given.items()}
    if isinstance(given, int) and field is not None and field.enum_type is not None:
        known = field.enum_type.values_by_number.get(given)
        return known.name if known is not None else given
    if hasattr(given, "append"):
        return [_value(one, field) for one in given]
    return given


def _add(registry: SchemaRegistry, pool: Any, name: str, schema: Any, added: set[str]) -> Any:
    """Add a schema's file to the pool, after the files that it imports; returns its descriptor."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(schema.schema_str))
    file.name = name  # as others import it
    references = {one.name: one for one in schema.references or ()}
    for imported in file.dependency:
        if imported in added:
            continue
        added.add(imported)
        if imported in references:
            one = references[imported]
            other = registry.referred(one.subject, one.version, _SERIALIZED)
            _add(registry, pool, imported, other, added)
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
    for other in module.DESCRIPTOR.dependencies:
        if other.name not in added:
            added.add(other.name)
            _add_known(pool, other.name, added)
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
    count, at = _integer(content, 0)
    if count == 0:
        return (0,), at
    indexes = []
    for _ in range(count):
        index, at = _integer(content, at)
        indexes.append(index)
    return tuple(indexes), at


def _integer(content: bytes, at: int) -> tuple[int, int]:
    """Decode a variable-length zigzag integer; returns the value and the place after it."""
    encoded = shift = 0
    while at < len(content):
        byte = content[at]
        at += 1
        encoded |= (byte & ~_MORE) << shift
        shift += _BITS
        if not byte & _MORE:
            number = (encoded >> 1) ^ -(encoded & 1)
            if number >= 0:
                return number, at
            break
    raise Unreadable("not Protobuf of Schema Registry's: expected which message it is before the content")
