"""Avro with Schema Registry's frame, which fastavro reads with the writer's schema."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from prequential.mapping.evaluations import Unreadable
from prequential.runtime.ingest.registry import Read, SchemaRegistry

#: Exceptions that reading invalid bytes may raise.
_UNREADABLE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, StopIteration,
    struct.error,
)  # fmt: skip

#: Attributes of a schema that hold schemas.
_SCHEMAS_BELOW = ("type", "fields", "items", "values")


def reader(registry: SchemaRegistry, number: int | str) -> Read:
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
        for one in schema:
            yield from _types_in(one)
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
    except (SchemaParseException, UnknownType, ValueError, KeyError) as error:
        raise Unreadable(f"schema {number} can't be used: {_one_line(error)}") from error
    return parsed, named


def _referred(registry: SchemaRegistry, schema: Any) -> list[str]:
    """Return the schemas that one refers to, in the order in which they depend on each other."""
    texts = []
    for reference in schema.references or ():
        other = registry.referred(reference.subject, reference.version)
        texts += [text for text in (*_referred(registry, other), other.schema_str) if text not in texts]
    return texts


def _plain(schema: Any) -> Any:
    """Return a schema in which UUIDs are strings, as the IDs of records are."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if (key, one) != ("logicalType", "uuid")}
    return {key: _plain(one) if key in _SCHEMAS_BELOW else one for key, one in kept.items()}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
