"""The parts of records that contain several, such as the events of a batch; each part is read as a record."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import msgspec
from prequential.topics.decoding import is_deep
from prequential.topics.messages import MAX_NESTING

_decode_any = msgspec.json.Decoder().decode

#: Endings of content types that are JSON: `application/json`, or a type with a suffix.
_JSON = ("json", "+json")


class Unreadable(ValueError):
    """A record can't be decoded; the message is one sentence."""


class RecordPart(NamedTuple):
    """One of the values of a record: what it is called in reasons, and the value or why there is none."""

    name: str | None
    value: Any
    reason: str | None = None


def read_json(content: bytes) -> Any:
    """Decode a complete JSON text. Raises Unreadable.

    >>> read_json(b"{")
    Traceback (most recent call last):
    ...
    prequential.mapping.parts.Unreadable: input data was truncated
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


def events(value: Any) -> list[RecordPart]:
    """Return the CloudEvents of a batch in JSON, each with its place from 0, or a single event.

    >>> event = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1"}
    >>> [(one.name, one.reason) for one in events([event, 7])]
    [('event 0', None), ('event 1', 'it is no CloudEvent: expected a JSON object with id and type')]
    """
    if not isinstance(value, list):
        return [RecordPart(None, event_of(value))]
    parts = []
    for place, one in enumerate(value):
        event, reason = None, None
        try:
            event = event_of(one)
        except Unreadable as error:
            reason = str(error)
        parts.append(RecordPart(f"event {place}", event, reason))
    return parts


def event_of(event: Any) -> dict[str, Any]:
    """Return an event of JSON with its data decoded. Raises Unreadable."""
    if not isinstance(event, dict) or "id" not in event or "type" not in event:
        raise Unreadable("it is no CloudEvent: expected a JSON object with id and type")
    if "data_base64" not in event:
        return event
    try:
        data = base64.b64decode(event["data_base64"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Unreadable("data_base64: expected base64") from None
    kind = str(event.get("datacontenttype", "")).partition(";")[0].strip()
    others = {name: one for name, one in event.items() if name != "data_base64"}
    return {**others, "data": content_of(data, kind)}


def content_of(content: bytes | None, kind: str) -> Any:
    """Return an event's content as parsed JSON if its type is JSON or missing, else as bytes."""
    if content is None or (kind and not kind.endswith(_JSON)):
        return content
    return read_json(content)
