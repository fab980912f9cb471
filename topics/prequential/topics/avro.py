"""Messages of the output topics in Avro: schemas made of the structs that they are written by, and values.

What has no fixed fields (such as `coverage`, or a cause of an incident) is text in Avro, the JSON of it: so
nothing is lost, and a field that comes to it later needs no other schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from prequential.topics.errors import UsageError
from prequential.topics.schemas import STRUCTS, schema
from prequential.topics.specs import DEAD_LETTERS

_NAMESPACE = "prequential"

#: The field that is a time; where records have none it counts rows, which are milliseconds then.
_TIME = "ts"

#: Avro's types of plain values, in the order in which a union has them: a boolean is no number.
_PLAIN: Mapping[Any, str] = {bool: "boolean", int: "long", float: "double", str: "string"}


class _Form(NamedTuple):
    """How values of a type stand in Avro: its schema, and what makes a value of what JSON has."""

    type: Any
    value: Callable[[Any], Any]


class _Field(NamedTuple):
    """A field of a struct; `default` is in Avro's form, UNSET where there is none."""

    form: _Form
    default: Any


def avro_schema(topic: str) -> dict[str, Any]:
    """The Avro schema of a topic's messages.

    A field that isn't in all messages has a default. So where a later version adds such a field, its messages
    can be read by this schema, and messages of this version by the later one (Schema Registry's FULL
    compatibility). `ts` is a `timestamp-millis`.

    Parameters
    ----------
    topic
        One of `STRUCTS` but dead letters, without the prefix.

    Returns
    -------
    dict
        JSON data: a record `prequential.Metrics` (`Comparison`, `Alarm`, `Incident`) with a `doc` of each
        field.

    Raises
    ------
    UsageError
        If there is no such topic, or its records are no such messages: dead letters are the originals.

    Examples
    --------
    >>> fields = {one["name"]: one for one in avro_schema("metrics")["fields"]}
    >>> fields["outcomes"]["type"], fields["measures"]["type"], fields["model_version"]["default"]
    ('long', {'type': 'map', 'values': 'double'}, None)
    """
    described, fields = schema(topic), []
    for name, field in _fields(topic).items():
        entry = {"name": name, "type": field.form.type, "doc": described["properties"][name]["description"]}
        fields.append(entry if field.default is msgspec.UNSET else {**entry, "default": field.default})
    return {
        "type": "record", "name": STRUCTS[topic].__name__, "namespace": _NAMESPACE,
        "doc": described["description"], "fields": fields,
    }  # fmt: skip


def avro_value(topic: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """A message, as its JSON was read, as Avro's writers take it (`avro_schema`).

    Parameters
    ----------
    topic
        As in `avro_schema`.
    message
        An object of the topic's JSON.

    Returns
    -------
    dict
        All of the schema's fields, null where the message doesn't say one.

    Raises
    ------
    UsageError
        As `avro_schema`.
    ValueError
        For a field that the schema doesn't know, as it would be lost, or one that is missing.

    Examples
    --------
    >>> avro_value("drift-alarms", {"id": "f0", "later": 1})
    Traceback (most recent call last):
    ...
    ValueError: a message of drift-alarms has the field 'later', which this version doesn't know: ...
    """
    fields = _fields(topic)
    if unknown := message.keys() - fields.keys():
        raise ValueError(
            f"a message of {topic} has the field {min(unknown)!r}, which this version doesn't know: expected "
            f"{', '.join(fields)}; a later version of prequential may know it"
        )
    record = {}
    for name, field in fields.items():
        if name in message:
            record[name] = field.form.value(message[name])
        elif field.default is not msgspec.UNSET:
            record[name] = field.default
        else:
            raise ValueError(f"a message of {topic} lacks the field {name!r}")
    return record


@cache
def _fields(topic: str) -> dict[str, _Field]:
    if topic == DEAD_LETTERS:
        raise UsageError(f"no Avro schema for {topic}: its records are the original ones")
    schema(topic)  # or it says that there is none
    struct, fields_by_name = STRUCTS[topic], {}
    hints = get_type_hints(struct)
    for struct_field in msgspec.structs.fields(struct):
        form = _form(hints[struct_field.name])
        default: Any = msgspec.UNSET
        if struct_field.name == _TIME:
            form = form._replace(type={"type": form.type, "logicalType": "timestamp-millis"})
        if isinstance(form.type, list) and form.type[0] == "null":
            default = None
        elif not struct_field.required:
            default_value = (
                struct_field.default_factory()
                if struct_field.default is msgspec.NODEFAULT
                else struct_field.default
            )
            default = form.value(default_value)
        fields_by_name[struct_field.name] = _Field(form, default)
    return fields_by_name


def _form(hint: Any) -> _Form:
    """How values of a type stand in Avro; raises TypeError for one of which it isn't known."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union(set(inner))
    if hint in _PLAIN:
        return _Form(_PLAIN[hint], float if hint is float else _itself)
    if origin is dict and inner[1] is not Any:
        below = _form(inner[1])
        return _Form(
            {"type": "map", "values": below.type},
            lambda value: {key: below.value(entry) for key, entry in value.items()},
        )
    if origin is dict:
        return _Form("string", _text)
    if origin in (list, tuple):
        below = _form(inner[0])
        return _Form(
            {"type": "array", "items": below.type}, lambda value: [below.value(entry) for entry in value]
        )
    raise TypeError(f"no Avro of {hint}")


def _union(parts: set[Any]) -> _Form:
    is_null = not parts.isdisjoint({NoneType, msgspec.UnsetType})
    parts -= {NoneType, msgspec.UnsetType}
    if float in parts:
        parts.discard(int)
    forms = [_form(part) for part in sorted(parts, key=list(_PLAIN).index)] if len(parts) > 1 else []
    union_form = _Form([form.type for form in forms], _itself) if forms else _form(parts.pop())
    if not is_null:
        return union_form
    types = union_form.type if isinstance(union_form.type, list) else [union_form.type]
    return _Form(["null", *types], lambda value: None if value is None else union_form.value(value))


def _itself(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
