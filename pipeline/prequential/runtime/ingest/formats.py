"""Decode the bytes of source records to values in which paths can be followed.

A decoder takes the messages of a batch and returns their content. Only the parts of JSON that a mapping's
paths need are decoded, because request logs have many more fields.

CloudEvents 1.0 over Kafka have two modes, as KServe's payload logger sends them through Knative. In both,
paths address the event in the same form: its attributes (`value.id`, `value.type`,
`value.inferenceservicename`) and its content (`value.data`). A request of KServe has the type
`org.kubeflow.serving.inference.request`; its response has the type `….response` and the same ID.
(https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple, Optional
from uuid import UUID

import msgspec
from confluent_kafka import Message
from prequential.mapping.evaluations import RecordPart, content_of, event_of, events, parted, read_json
from prequential.mapping.rows import pick
from prequential.topics.foreign_json import FAILURES, Unreadable, check_text

#: The frame of Schema Registry: a zero byte, then the ID of the schema in 32 bits, big-endian.
MAGIC, FRAME_BYTES = 0, 5

Keys = tuple[str, ...]

#: Headers in which Confluent's `HeaderSchemaIdSerializer` writes a schema's GUID instead of in the frame: a
#: one and 16 bytes. It, and what follows for Protobuf, replaces the frame of the content.
#: (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html)
VALUE_ID, KEY_ID = "__value_schema_id", "__key_schema_id"
_MAGIC_OF_GUID, _GUID_END = 1, 17

#: The prefix of other headers with a schema's ID, and the setting that changes it.
_OTHER_IDS, _FIX = "apicurio.", "`apicurio.registry.headers.enabled=false`"


class Getter(NamedTuple):
    """The steps of a path in a value of a known shape: attributes, and below them names and places."""

    attributes: Callable[[Any], Any]
    below: Keys


class Content:
    """The values of a batch (None: no value), and by place the `reasons` why records couldn't be read.

    A record may have several values, such as the events of a batch. Then `records` has the place of each
    value's record. `names` has the name of each in reasons, None for a value that is its whole record.

    >>> Content([{"a": {"b": 1}}, None]).column(("a", "b"))
    [1, None]
    """

    def __init__(
        self, values: list[Any], reasons: Mapping[int, str] | None = None,
        getters: Mapping[Keys, Getter] | None = None, records: Sequence[int] | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:  # fmt: skip
        self.values = values
        self.reasons = reasons or {}
        self.records, self.names = records, names
        self._getters = getters or {}

    def column(self, keys: Keys) -> list[Any]:
        """Return from every value what it has at these keys; None if it has nothing there."""
        getter = self._getters.get(keys)
        if getter is None:
            return pick(self.values, keys)
        try:
            values = list(map(getter.attributes, self.values))
        except AttributeError:  # of None
            values = [_reached(getter.attributes, value) for value in self.values]
        return pick(values, getter.below) if getter.below else values


#: A function that decodes a batch.
Decode = Callable[[Sequence[Message]], Content]


def each(messages: Sequence[Message], decode: Callable[[Message], Any]) -> Content:
    """Decode messages one by one; `decode` raises Unreadable for one that it can't read."""
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for index, message in enumerate(messages):
        try:
            values.append(decode(message))
        except Unreadable as error:
            values.append(None)
            reasons[index] = str(error)
    return Content(values, reasons)


def with_parts(content: Content, parts: Callable[[Any], list[RecordPart] | None]) -> Content:
    """Return content in which some values are replaced by their parts; None: a value has no parts.

    `parts` raises Unreadable for a value that isn't what its format demands.
    """
    of_batch = parted(content.values, content.reasons, lambda value: None if value is None else parts(value))
    return Content(of_batch.values, of_batch.reasons, None, of_batch.record_indices, of_batch.names)


class Json:
    """Decodes JSON values, and in objects only the parts on these paths (the keys below the value).

    If a value's shape is not the one that the paths expect, the whole batch is decoded in full. Following the
    paths then shows what is missing. With `framed`, the JSON follows Schema Registry's frame (`json_schema`).
    The JSON isn't validated against its schema: the producer does that, and the mapping checks the fields
    that it needs.
    """

    def __init__(self, paths: Iterable[Keys], *, framed: bool = False, of_keys: bool = False) -> None:
        paths = list(paths)
        self._framed = framed
        self._bytes: Callable[[Message], bytes | None] = Message.key if of_keys else Message.value
        self._header = KEY_ID if of_keys else VALUE_ID
        shape = _shape(paths)
        self._decode = msgspec.json.Decoder(shape).decode
        self._getters = {} if shape is Any else {keys: _getter(shape, keys) for keys in paths}

    def __call__(self, messages: Sequence[Message]) -> Content:
        """Return the values of a batch."""
        decode = self._decode
        try:
            contents: list[Any] = list(map(self._behind_frame if self._framed else self._bytes, messages))
            for content in contents:
                check_text(content)
            return Content(list(map(decode, contents)), None, self._getters)
        except FAILURES:  # also where a record has no value
            return each(messages, self._one)

    def _one(self, message: Message) -> Any:
        content = self._bytes(message)
        if content is None:
            return None
        if not self._framed:
            return read_json(content)
        with named_header(message):
            return read_json(self._behind_frame(message) or b"")

    def _behind_frame(self, message: Message) -> bytes | None:
        content = self._bytes(message)
        return None if content is None else framed(message, content, self._header).payload


@contextmanager
def named_header(message: Message) -> Iterator[None]:
    """Improve the message of an Unreadable if the record has its schema's ID in a header."""
    try:
        yield
    except Unreadable as error:
        for header, _ in message.headers() or ():
            if header.startswith(_OTHER_IDS):
                finding = f"the schema's id is in the header {header!r}: expected it before the content"
                raise Unreadable(f"{finding}; set {_FIX} in the program that writes the records") from error
        raise


class Frame(NamedTuple):
    """The ID or GUID of a record's schema, and the bytes that follow it."""

    schema: int | str
    payload: bytes


def framed(message: Message, content: bytes, header: str) -> Frame:
    """Return the schema and the payload of a record, by this header if it has one, else by the frame.

    Raises Unreadable if there is neither.
    """
    for name, value in reversed(message.headers() or ()):
        if name == header and value is not None:
            return _by_header(name, value, content)
    return _by_frame(content)


def _by_header(name: str, value: bytes, content: bytes) -> Frame:
    """Return the frame of a record by the value of its header.

    >>> _by_header("__value_schema_id", bytes([1, *range(16)]), b"{}")
    Frame(schema='00010203-0405-0607-0809-0a0b0c0d0e0f', payload=b'{}')
    """
    if len(value) >= _GUID_END and value[0] == _MAGIC_OF_GUID:
        return Frame(str(UUID(bytes=value[1:_GUID_END])), value[_GUID_END:] + content)
    if len(value) >= FRAME_BYTES and value[0] == MAGIC:
        return Frame(int.from_bytes(value[1:FRAME_BYTES], "big"), value[FRAME_BYTES:] + content)
    raise Unreadable(f"the header {name!r} is {value[:_GUID_END]!r}: expected a one and a GUID of 16 bytes")


def _by_frame(content: bytes) -> Frame:
    """Return the frame of Schema Registry that begins a record. Raises Unreadable if there is none.

    >>> _by_frame(bytes([0, 0, 0, 1, 2]))
    Frame(schema=258, payload=b'')
    >>> _by_frame(b"{}")
    Traceback (most recent call last):
    ...
    prequential.topics.foreign_json.Unreadable: it isn't Schema Registry's: ..., found b'{}'
    """
    if len(content) < FRAME_BYTES or content[0] != MAGIC:
        raise Unreadable(
            "it isn't Schema Registry's: expected a zero byte and a schema's id before the content, found "
            f"{bytes(content[:FRAME_BYTES])!r}"
        )
    return Frame(int.from_bytes(content[1:FRAME_BYTES], "big"), content[FRAME_BYTES:])


def _reached(attributes: Callable[[Any], Any], value: Any) -> Any:
    try:
        return attributes(value)
    except AttributeError:
        return None


def _shape(paths: Iterable[Keys]) -> Any:
    """Return a type for msgspec that decodes only these paths: objects with just the keys in the paths.

    A numeric key may be a place in a list, so everything below it is decoded.
    """
    tree: dict[str, Any] = {}
    for keys in paths:
        node = tree
        for key in keys:
            node = node.setdefault(key, {})
        node[""] = {}  # something ends here: all below it is needed
    return _type(tree)


def _type(tree: dict[str, Any]) -> Any:
    if "" in tree or not tree or any(key.isdigit() for key in tree):
        return Any
    names = {f"f{index}": key for index, key in enumerate(tree)}
    fields = [(name, Optional[_type(tree[key])], None) for name, key in names.items()]  # noqa: UP045
    return msgspec.defstruct("Shape", fields, rename=names, gc=False)


def _getter(shape: Any, keys: Keys) -> Getter:
    """Return the steps of a path in values of a shape."""
    names = []
    for index, key in enumerate(keys):
        fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
        names.append(fields[key].name)
        args = getattr(fields[key].type, "__args__", ())
        below = [
            argument
            for argument in args
            if isinstance(argument, type) and issubclass(argument, msgspec.Struct)
        ]
        if not below:
            return Getter(attrgetter(".".join(names)), keys[index + 1 :])
        [shape] = below
    return Getter(attrgetter(".".join(names)), ())


#: The prefix of headers with attributes in binary mode, and the header with the content type.
_ATTRIBUTE, _CONTENT_TYPE = "ce_", "content-type"

#: Prefixes of the content type: for one event in structured mode, and for a batch of events.
_STRUCTURED, _BATCHED = "application/cloudevents", "application/cloudevents-batch"

#: Endings of content types that are JSON: `application/json`, or a type with a suffix.
_JSON = ("json", "+json")


def decode(messages: Sequence[Message]) -> Content:
    """Return the events of a batch; None for a record without value and attributes (a tombstone)."""
    content = each(messages, _event)
    if any(type(value) is EventBatch for value in content.values):
        return with_parts(content, _events)
    return content


class EventBatch(list[Any]):
    """The elements of a batch of events in one record (`application/cloudevents-batch+json`)."""


def _events(value: Any) -> list[RecordPart] | None:
    """Return the events of a batch; None for an event outside of a batch."""
    return events(value) if type(value) is EventBatch else None


def _event(message: Message) -> dict[str, Any] | EventBatch | None:
    headers = _headers(message)
    content: bytes | None = message.value()
    kind = headers.get(_CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if kind.startswith(_BATCHED):
        return None if content is None else _batch(content, kind)
    if kind.startswith(_STRUCTURED):
        if content is None:
            return None
        if not kind.endswith(_JSON):
            raise Unreadable(f"content-type is {kind!r}: expected application/cloudevents+json")
        return event_of(read_json(content))
    attributes = {
        name[len(_ATTRIBUTE) :]: text for name, text in headers.items() if name.startswith(_ATTRIBUTE)
    }
    if content is None and not attributes:
        return None
    if "id" not in attributes or "type" not in attributes:
        raise Unreadable(
            "it is no CloudEvent: expected headers ce_id and ce_type, or content-type "
            "application/cloudevents+json"
        )
    if kind:
        attributes["datacontenttype"] = kind
    return {**attributes, "data": content_of(content, kind)}


def _batch(content: bytes, kind: str) -> EventBatch:
    if not kind.endswith(_JSON):
        raise Unreadable(f"content-type is {kind!r}: expected application/cloudevents-batch+json")
    events = read_json(content)
    if not isinstance(events, list):
        raise Unreadable("it is no batch of CloudEvents: expected a JSON array of events")
    return EventBatch(events)


def _headers(message: Message) -> dict[str, str]:
    """Return headers by lower-case name, as text."""
    return {
        name.lower(): (content or b"").decode("utf-8", "replace") for name, content in message.headers() or ()
    }
