"""From the bytes of source records to values in which paths can be followed.

A decoder takes the messages of a batch and gives a value for each; where one can't be read, `reasons` says why
and the value is None. Only what a mapping's paths ask for is decoded of JSON: a request log has many more fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional, TypedDict

import msgspec
from confluent_kafka import Message

#: What a batch is decoded with.
Decode = Callable[[Sequence[Message]], "Decoded"]

#: How Schema Registry's records begin: a zero byte and the id of the schema in 32 bits, big-endian.
MAGIC, FRAME_BYTES = 0, 5

_decode_any = msgspec.json.Decoder().decode

#: What decoding foreign bytes as JSON may raise.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Decoded(NamedTuple):
    """The values of a batch, and why those that are None for want of sense can't be read."""

    values: list[Any]
    reasons: dict[int, str]


class Unreadable(ValueError):
    """A record that can't be decoded: the message is one sentence."""


def each(messages: Sequence[Message], decode: Callable[[Message], Any]) -> Decoded:
    """Decode one by one; `decode` raises Unreadable for what it can't read."""
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for place, message in enumerate(messages):
        try:
            values.append(decode(message))
        except Unreadable as error:
            values.append(None)
            reasons[place] = str(error)
    return Decoded(values, reasons)


class Json:
    """Values that are JSON; of objects only what lies on these paths (`keys` below the value) is decoded.

    With `framed` the JSON stands behind Schema Registry's frame (`json_schema`). It isn't validated against its
    schema: who wrote it has done that, and the mapping says what it needs.
    """

    def __init__(self, paths: Iterable[Sequence[str]], *, framed: bool = False) -> None:
        self._start = FRAME_BYTES if framed else 0
        self._decode = msgspec.json.Decoder(shape(paths)).decode

    def __call__(self, messages: Sequence[Message]) -> Decoded:
        """The values of a batch."""
        decode = self._decode
        try:
            if not self._start:
                return Decoded([decode(message.value()) for message in messages], {})
        except (*UNREADABLE, TypeError):  # TypeError: no value
            pass
        return each(messages, self._one)

    def _one(self, message: Message) -> Any:
        content = message.value()
        if content is None:
            return None
        if self._start:
            schema_id(content)
            content = content[self._start :]
        try:
            return self._decode(content)
        except msgspec.ValidationError:
            return read_json(content)  # something is of another form than paths expect: they will tell
        except UNREADABLE:
            return read_json(content)


def read_json(content: bytes) -> Any:
    """All of a JSON text. Raises Unreadable."""
    try:
        return _decode_any(content)
    except RecursionError:
        raise Unreadable("JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8: byte {error.object[error.start]:#04x} can't be decoded") from None
    except msgspec.MsgspecError as error:
        text = " ".join(str(error).split())
        raise Unreadable(text[:1].lower() + text[1:] if text.startswith("Input") else text) from None


def schema_id(content: bytes) -> int:
    """The id of the schema of a value of Schema Registry's. Raises Unreadable.

    >>> schema_id(bytes([0, 0, 0, 1, 2]) + b"…")
    258
    >>> schema_id(b"{}")
    Traceback (most recent call last):
    ...
    prequential.ingest.formats.Unreadable: the value isn't Schema Registry's: expected a zero byte and the id of a \
schema before it, found b'{}'
    """
    if len(content) < FRAME_BYTES or content[0] != MAGIC:
        raise Unreadable(
            "the value isn't Schema Registry's: expected a zero byte and the id of a schema before it, found "
            f"{bytes(content[:FRAME_BYTES])!r}"
        )
    return int.from_bytes(content[1:FRAME_BYTES], "big")


def shape(paths: Iterable[Sequence[str]]) -> Any:
    """The type of what lies on these paths, for msgspec: objects with the keys that are asked for, and no others.

    A key that is a number may be a place in a list, so all is decoded from there on.

    >>> msgspec.json.decode(b'{"a": {"b": 1, "c": 2}, "d": [3, 4], "e": 5}', type=shape([("a", "b"), ("d", "1")]))
    {'a': {'b': 1}, 'd': [3, 4]}
    """
    tree: dict[str, Any] = {}
    for keys in paths:
        node = tree
        for key in keys:
            node = node.setdefault(key, {})
        node[""] = {}  # something ends here: all below it is needed
    return _type(tree)


def _type(tree: dict[str, Any]) -> Any:
    if "" in tree or any(key.isdigit() for key in tree) or not tree:
        return Any
    return Optional[TypedDict("Shape", {key: _type(below) for key, below in tree.items()}, total=False)]  # type: ignore[operator]  # noqa: E501, UP045
