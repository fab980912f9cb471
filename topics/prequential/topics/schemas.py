"""JSON Schema of what stands in the output topics, made of the structs that it is written by."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from prequential.topics import specs
from prequential.topics.dead_letters import Base64, DeadLetterLine
from prequential.topics.disparities import Disparity
from prequential.topics.errors import UsageError
from prequential.topics.outputs import COMMON_FIELDS, Alarm, Comparison, Incident, Metrics

#: What a message of each topic is, without the prefix. Of dead letters, which are the originals byte for
#: byte, the form in which they are shown.
STRUCTS: Mapping[str, type[msgspec.Struct]] = MappingProxyType({
    specs.METRICS: Metrics, specs.COMPARISONS: Comparison, specs.DISPARITIES: Disparity,
    specs.DRIFT_ALARMS: Alarm, specs.INCIDENTS: Incident, specs.DEAD_LETTERS: DeadLetterLine,
})  # fmt: skip

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(topic: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a topic's messages.

    Fields may be added by later versions, so unknown ones are allowed. Titles and descriptions are those of
    the structs' docstrings.

    Parameters
    ----------
    topic
        One of `STRUCTS`, without the prefix.

    Returns
    -------
    dict
        JSON data: `$schema`, `title`, `description`, `type`, `properties`, `required`, perhaps `$defs`.

    Raises
    ------
    UsageError
        If there is no such topic.

    Examples
    --------
    >>> found = schema("drift-alarms")
    >>> found["title"], found["properties"]["outcome"]["type"], "same" in found["required"]
    ('drift-alarms', 'integer', False)
    >>> found["properties"]["instance_id"]["description"]
    'Instance of this outcome.'
    >>> schema("alarms")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: no schema of topic 'alarms': expected metrics, comparisons, ...
    """
    struct = STRUCTS.get(topic)
    if struct is None:
        raise UsageError(f"no schema of topic {topic!r}: expected {', '.join(STRUCTS)}")
    generated = msgspec.json.schema(struct)
    definitions = generated["$defs"]
    for described in (struct, Base64):
        if described.__name__ in definitions:
            _describe(definitions[described.__name__], described)
    own = definitions.pop(struct.__name__)
    document = {"$schema": _DIALECT, **own, "title": topic}
    return {**document, "$defs": definitions} if definitions else document


#: Kafka Connect's types of plain values.
_CONNECT: Mapping[Any, str] = {str: "string", int: "int64", float: "double", bool: "boolean"}


def connect_schema(topic: str, measures: Iterable[str]) -> dict[str, Any]:
    """What of a topic's messages fits columns, as a schema of Kafka Connect's JsonConverter.

    Fields of plain values, and `measures` as a struct of these: a sink that flattens it has a column of each.
    Lists and other objects are left out; JsonConverter passes over what its schema doesn't name.

    Parameters
    ----------
    topic
        One of `STRUCTS`, without the prefix.
    measures
        Names of measures, where messages of the topic have such.

    Returns
    -------
    dict
        JSON data: `type`, `optional`, `fields`.

    Raises
    ------
    UsageError
        If there is no such topic, or its records are no such messages: dead letters are the originals.

    Examples
    --------
    >>> found = connect_schema("metrics", ["accuracy"])["fields"]
    >>> [(one["type"], one["optional"]) for one in found if one["field"] in ("segment", "n")]
    [('string', True), ('double', False)]
    >>> [one["fields"] for one in found if one["field"] == "measures"]
    [[{'field': 'accuracy', 'type': 'double', 'optional': True}]]
    """
    if topic == specs.DEAD_LETTERS:
        raise UsageError(f"no schema of Kafka Connect's for {topic}: its records are the original ones")
    schema(topic)  # or it says that there is none
    required = {
        struct_field.name for struct_field in msgspec.structs.fields(STRUCTS[topic]) if struct_field.required
    }
    connect_fields: list[dict[str, Any]] = []
    for name, hint in get_type_hints(STRUCTS[topic]).items():
        parts = set(get_args(hint)) if isinstance(hint, UnionType) or get_origin(hint) is Union else {hint}
        plain = parts - {NoneType, msgspec.UnsetType}
        if name == "measures":
            fields = [{"field": measure, "type": "double", "optional": True} for measure in measures]
            connect_fields.append({"field": name, "type": "struct", "optional": False, "fields": fields})
        elif plain <= set(_CONNECT):
            kind = float if float in plain else min(plain, key=str)
            optional = plain != parts or name not in required
            connect_fields.append({"field": name, "type": _CONNECT[kind], "optional": optional})
    return {"type": "struct", "optional": False, "fields": connect_fields}


def _describe(definition: dict[str, Any], struct: type) -> None:
    """Put the docstring's sentences where they belong: to the whole, and to each field."""
    text, _, attributes = (inspect.getdoc(struct) or "").partition("\n\nAttributes\n----------\n")
    definition["description"] = _in_a_line(text)
    attributes = attributes.partition("\n\nExamples\n--------\n")[0]
    entries = re.findall(r"^(\w+)\n((?: +.*\n?)+)", attributes, re.MULTILINE)
    descriptions = COMMON_FIELDS | dict(entries)
    for name, field in definition["properties"].items():
        field["description"] = _in_a_line(descriptions[name])


def _in_a_line(text: str) -> str:
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))
