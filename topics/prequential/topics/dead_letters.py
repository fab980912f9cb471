"""Dead letters: the original record, byte for byte, with the reason and its origin in headers.

A record that is a row of a message with several has the message's key, and its own text as the value.

And as JSON lines, in which a person can repair them: UTF-8 as text, anything else in base64, so that nothing
of them is lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import msgspec
from confluent_kafka import Message
from prequential.topics import foreign_json

#: Names of the headers.
_ERROR, _TOPIC, _PARTITION, _OFFSET, _ROW = "error", "topic", "partition", "offset", "row"

#: A field of a JSON line that holds bytes which are no text.
_BASE64 = "base64"

#: Digits of the largest number of 64 bits: Kafka has no larger one.
_MOST_DIGITS = 19

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_encode = msgspec.json.Encoder().encode
_decode_any = foreign_json.reader()


class Letter(NamedTuple):
    """A dead letter; `topic` (with prefix), `partition` and `offset` say where the original stands.

    What its headers don't say, because somebody else wrote it, is empty or -1.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    #: When it was written, in epoch ms.
    written: int
    #: Which record of its message it is, counted from 0; None if the message is one record.
    row: int | None = None


class Base64(msgspec.Struct):
    """Bytes that are no text.

    Attributes
    ----------
    base64
        They, by RFC 4648, section 4.
    """

    base64: str


class DeadLetterLine(msgspec.Struct, omit_defaults=True):
    """A dead letter as a JSON object, a line each, as `prequential dead-letters --json` writes them.

    In the topic itself key and value are those of the original record, byte for byte, and `error`, `topic`,
    `partition`, `offset` and `row` are headers.

    Attributes
    ----------
    error
        Why it can't be used, in one sentence.
    topic
        Where the original stands: its topic, with the prefix.
    partition
        Its partition; -1: nobody has said it.
    offset
        Its offset; -1: nobody has said it.
    written
        When the dead letter was written, RFC 3339.
    key
        The original's key.
    value
        The original's value.
    row
        Which record of its message it is, counted from 0; absent if the message is one record.
    """

    error: str
    topic: str
    partition: int
    offset: int
    written: str
    key: str | Base64 | None
    value: str | Base64 | None
    row: int | None = None


def headers_of(
    reason: str, topic: str, partition: int, offset: int, row: int | None = None
) -> list[tuple[str, bytes]]:
    """The headers of a dead letter: the reason; topic (with prefix), partition and offset of the original.

    And its row, if its message has several records.

    >>> headers_of("the record has no value", "eu.labels", 3, 17)[1:]
    [('topic', b'eu.labels'), ('partition', b'3'), ('offset', b'17')]
    >>> headers_of("expected `object`, got `int`", "eu.labels", 3, 17, 0)[-1]
    ('row', b'0')
    """
    headers = [
        (_ERROR, reason.encode()),
        (_TOPIC, topic.encode()),
        (_PARTITION, b"%d" % partition),
        (_OFFSET, b"%d" % offset),
    ]
    return headers if row is None else [*headers, (_ROW, b"%d" % row)]


def from_message(message: Message) -> Letter:
    """The dead letter in a record of the dead letters' topic.

    Headers that are missing or no number are "" or -1.
    """
    origin = origin_of(message.headers() or ())
    place = origin.topic, origin.partition, origin.offset, origin.reason
    return Letter(*place, message.key(), message.value(), message.timestamp()[1], origin.row)


class LetterOrigin(NamedTuple):
    """The headers of a dead letter: where the original is, and why it can't be used."""

    topic: str
    partition: int
    offset: int
    reason: str
    row: int | None = None


def origin_of(pairs: Iterable[tuple[str, bytes | None]]) -> LetterOrigin:
    """The headers of a dead letter; those that are missing or no number are "" or -1.

    >>> origin_of([("topic", b"labels"), ("offset", b"17"), ("partition", b"x")])
    LetterOrigin(topic='labels', partition=-1, offset=17, reason='', row=None)
    """
    headers = {name: value or b"" for name, value in pairs}

    def text(name: str) -> str:
        return headers.get(name, b"").decode(errors="replace")

    def number(name: str) -> int:
        digits = text(name)
        return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else -1

    row = number(_ROW)
    origin = text(_TOPIC), number(_PARTITION), number(_OFFSET), text(_ERROR)
    return LetterOrigin(*origin, row if row >= 0 else None)


def to_line(letter: Letter) -> bytes:
    r"""A dead letter as a JSON object in UTF-8, without a newline: headers, time, key and value.

    Key and value are strings where they are UTF-8, else `{"base64": …}`; `written` is RFC 3339.

    >>> print(to_line(Letter("labels", 3, 17, "not UTF-8: …", b"elec2", b"\xff", 0)).decode())
    {"error":"not UTF-8: …","topic":"labels",...,"key":"elec2","value":{"base64":"/w=="}}
    """
    return _encode(
        DeadLetterLine(
            letter.reason, letter.topic, letter.partition, letter.offset, clock(letter.written),
            _as_json(letter.key), _as_json(letter.value), letter.row,
        )
    )  # fmt: skip


class _Line(msgspec.Struct):
    """What matters of a line when it is put back."""

    topic: str
    value: msgspec.Raw


_decode_line = foreign_json.reader(_Line)


def from_line(line: bytes) -> tuple[str, bytes]:
    r"""Topic (with prefix) and value of a repaired record: of a line as `to_line` writes them.

    The value may also be the record's JSON object itself. Raises ValueError for anything else.

    >>> from_line(b'{"topic": "labels", "value": "{\\"stream\\": \\"s\\"}"}')
    ('labels', b'{"stream": "s"}')
    >>> from_line(b'{"topic": "labels", "value": {"stream": "s"}}')
    ('labels', b'{"stream": "s"}')
    """
    try:
        read = _decode_line(line)
        value = _decode_any(bytes(read.value))
    except foreign_json.Unreadable as error:
        raise ValueError(f"expected a JSON object with `topic` and `value` ({error})") from error
    if isinstance(value, str):
        return read.topic, value.encode()
    if isinstance(value, dict):
        if list(value) != [_BASE64]:
            return read.topic, bytes(read.value)
        try:
            return read.topic, base64.b64decode(value[_BASE64], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"expected base64 in `value` ({error})") from error
    raise ValueError("expected the record in `value`: a string, an object, or base64 in an object")


def clock(ts: int) -> str:
    """Epoch milliseconds as RFC 3339; as a number outside of the years 1 to 9999.

    >>> clock(1_700_000_000_123), clock(0), clock(10**18)
    ('2023-11-14T22:13:20.123Z', '1970-01-01T00:00:00Z', '1000000000000000000')
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=ts)
    except OverflowError:
        return str(ts)
    return moment.isoformat(timespec="milliseconds" if ts % 1000 else "seconds").replace("+00:00", "Z")


def _as_json(content: bytes | None) -> str | Base64 | None:
    """Text where it is text, otherwise base64."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Base64(base64.b64encode(content).decode())
