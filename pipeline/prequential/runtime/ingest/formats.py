"""Decode the bytes of source records to values in which paths can be followed.

A decoder takes the messages of a batch and returns their content. Only the parts of JSON that a mapping's
paths need are decoded, because request logs have many more fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple, Optional

import msgspec
from confluent_kafka import Message
from prequential.mapping.translation import pick
from prequential.topics.decoding import is_deep
from prequential.topics.messages import MAX_NESTING

#: The frame of Schema Registry: a zero byte, then the ID of the schema in 32 bits, big-endian.
MAGIC, FRAME_BYTES = 0, 5

Keys = tuple[str, ...]

#: Headers in which serialisers may write a schema's ID instead of in the frame, and the setting that changes
#: it.
_ID_HEADERS = {
    "__value_schema_id": "`value.schema.id.serializer` with the class `PrefixSchemaIdSerializer`",
    "__key_schema_id": "`key.schema.id.serializer` with the class `PrefixSchemaIdSerializer`",
    "apicurio.": "`apicurio.registry.headers.enabled=false`",
}

_decode_any = msgspec.json.Decoder().decode

#: Exceptions that decoding invalid bytes as JSON may raise.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Getter(NamedTuple):
    """The steps of a path in a value of a known shape: attributes, and below them names and places."""

    attributes: Callable[[Any], Any]
    below: Keys


class Content:
    """The values of a batch (None: no value), and by place the `reasons` why records couldn't be read.

    >>> Content([{"a": {"b": 1}}, None]).column(("a", "b"))
    [1, None]
    """

    def __init__(
        self,
        values: list[Any],
        reasons: Mapping[int, str] | None = None,
        getters: Mapping[Keys, Getter] | None = None,
    ) -> None:
        self.values = values
        self.reasons = reasons or {}
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


class Unreadable(ValueError):
    """A record can't be decoded; the message is one sentence."""


def each(messages: Sequence[Message], decode: Callable[[Message], Any]) -> Content:
    """Decode messages one by one; `decode` raises Unreadable for one that it can't read."""
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for place, message in enumerate(messages):
        try:
            values.append(decode(message))
        except Unreadable as error:
            values.append(None)
            reasons[place] = str(error)
    return Content(values, reasons)


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
        shape = _shape(paths)
        self._decode = msgspec.json.Decoder(shape).decode
        self._getters = {} if shape is Any else {keys: _getter(shape, keys) for keys in paths}

    def __call__(self, messages: Sequence[Message]) -> Content:
        """Return the values of a batch."""
        decode = self._decode
        try:
            contents: Iterable[Any] = map(self._bytes, messages)
            if self._framed:
                contents = map(_behind_frame, contents)
            return Content(list(map(decode, contents)), None, self._getters)
        except (*_UNREADABLE, Unreadable, TypeError):  # TypeError: no value
            return each(messages, self._one)

    def _one(self, message: Message) -> Any:
        content = self._bytes(message)
        if content is None:
            return None
        if not self._framed:
            return read_json(content)
        with named_header(message):
            return read_json(_behind_frame(content))


@contextmanager
def named_header(message: Message) -> Iterator[None]:
    """Improve the message of an Unreadable if the record has its schema's ID in a header."""
    try:
        yield
    except Unreadable as error:
        for header, _ in message.headers() or ():
            for start, fix in _ID_HEADERS.items():
                if header.startswith(start):
                    found = f"the schema's id is in the header {header!r}: expected it before the content"
                    raise Unreadable(f"{found}; set {fix} in the program that writes the records") from error
        raise


def read_json(content: bytes) -> Any:
    """Decode a complete JSON text. Raises Unreadable.

    >>> read_json(b"{")
    Traceback (most recent call last):
    ...
    prequential.runtime.ingest.formats.Unreadable: input data was truncated
    """
    if is_deep(content):
        raise Unreadable(f"JSON is nested too deeply: at most {MAX_NESTING} levels are allowed")
    try:
        return _decode_any(content)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8: byte {error.object[error.start]:#04x} can't be decoded") from None
    except msgspec.MsgspecError as error:
        text = " ".join(str(error).split())
        raise Unreadable(text[:1].lower() + text[1:] if text.startswith("Input") else text) from None


def schema_id(content: bytes) -> int:
    """Return the schema ID in the frame of Schema Registry. Raises Unreadable if there is no frame.

    >>> schema_id(bytes([0, 0, 0, 1, 2]))
    258
    >>> schema_id(b"{}")
    Traceback (most recent call last):
    ...
    prequential.runtime.ingest.formats.Unreadable: it isn't Schema Registry's: ..., found b'{}'
    """
    if len(content) < FRAME_BYTES or content[0] != MAGIC:
        raise Unreadable(
            "it isn't Schema Registry's: expected a zero byte and a schema's id before the content, found "
            f"{bytes(content[:FRAME_BYTES])!r}"
        )
    return int.from_bytes(content[1:FRAME_BYTES], "big")


def _behind_frame(content: bytes) -> bytes:
    schema_id(content)
    return content[FRAME_BYTES:]


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
    names = {f"f{place}": key for place, key in enumerate(tree)}
    fields = [(name, Optional[_type(tree[key])], None) for name, key in names.items()]  # noqa: UP045
    return msgspec.defstruct("Shape", fields, rename=names, gc=False)


def _getter(shape: Any, keys: Keys) -> Getter:
    """Return the steps of a path in values of a shape."""
    names = []
    for place, key in enumerate(keys):
        fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
        names.append(fields[key].name)
        below = [one for one in getattr(fields[key].type, "__args__", ()) if _is_struct(one)]
        if not below:
            return Getter(attrgetter(".".join(names)), keys[place + 1 :])
        [shape] = below
    return Getter(attrgetter(".".join(names)), ())


def _is_struct(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, msgspec.Struct)
