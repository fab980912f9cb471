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
        one = {"name": name, "type": field.form.type, "doc": described["properties"][name]["description"]}
        fields.append(one if field.default is msgspec.UNSET else {**one, "default": field.default})
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
    found = {}
    for name, field in fields.items():
        if name in message:
            found[name] = field.form.value(message[name])
        elif field.default is not msgspec.UNSET:
            found[name] = field.default
        else:
            raise ValueError(f"a message of {topic} lacks the field {name!r}")
    return found


@cache
def _fields(topic: str) -> dict[str, _Field]:
    if topic == DEAD_LETTERS:
        raise UsageError(f"no Avro schema for {topic}: its records are the original ones")
    schema(topic)  # or it says that there is none
    struct, found = STRUCTS[topic], {}
    hints = get_type_hints(struct)
    for one in msgspec.structs.fields(struct):
        form = _form(hints[one.name])
        default: Any = msgspec.UNSET
        if one.name == _TIME:
            form = form._replace(type={"type": form.type, "logicalType": "timestamp-millis"})
        if isinstance(form.type, list) and form.type[0] == "null":
            default = None
        elif not one.required:
            made = one.default_factory() if one.default is msgspec.NODEFAULT else one.default
            default = form.value(made)
        found[one.name] = _Field(form, default)
    return found


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
            lambda value: {key: below.value(one) for key, one in value.items()},
        )
    if origin is dict:
        return _Form("string", _text)
    if origin in (list, tuple):
        below = _form(inner[0])
        return _Form(
            {"type": "array", "items": below.type}, lambda value: [below.value(one) for one in value]
        )
    raise TypeError(f"no Avro of {hint}")


def _union(parts: set[Any]) -> _Form:
    is_null = not parts.isdisjoint({NoneType, msgspec.UnsetType})
    parts -= {NoneType, msgspec.UnsetType}
    if float in parts:
        parts.discard(int)
    forms = [_form(one) for one in sorted(parts, key=list(_PLAIN).index)] if len(parts) > 1 else []
    one = _Form([form.type for form in forms], _itself) if forms else _form(parts.pop())
    if not is_null:
        return one
    types = one.type if isinstance(one.type, list) else [one.type]
    return _Form(["null", *types], lambda value: None if value is None else one.value(value))


def _itself(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
