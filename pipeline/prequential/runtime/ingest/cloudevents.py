"""CloudEvents 1.0 over Kafka, as KServe's payload logger sends them through Knative, in both of their modes.

In both modes, paths address the event in the same form: its attributes (`value.id`, `value.type`,
`value.inferenceservicename`) and its content (`value.data`). A request of KServe has the type
`org.kubeflow.serving.inference.request`; its response has the type `….response` and the same ID.
(https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message
from prequential.runtime.ingest.formats import Content, Unreadable, each, read_json

#: The prefix of headers with attributes in binary mode, and the header with the content type.
_ATTRIBUTE, _CONTENT_TYPE = "ce_", "content-type"

#: Prefixes of the content type: for one event in structured mode, and for a batch of events.
_STRUCTURED, _BATCHED = "application/cloudevents", "application/cloudevents-batch"

#: Endings of content types that are JSON: `application/json`, or a type with a suffix.
_JSON = ("json", "+json")


def decode(messages: Sequence[Message]) -> Content:
    """Return the events of a batch; None for a record without value and attributes (a tombstone)."""
    return each(messages, _event)


def _event(message: Message) -> dict[str, Any] | None:
    headers = _headers(message)
    content: bytes | None = message.value()
    kind = headers.get(_CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if kind.startswith(_BATCHED):
        raise Unreadable(f"content-type is {kind!r}: expected single events, not batches of them")
    if kind.startswith(_STRUCTURED):
        return None if content is None else _structured(content, kind)
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
    return {**attributes, "data": _content(content, kind)}


def _structured(content: bytes, kind: str) -> dict[str, Any]:
    if not kind.endswith(_JSON):
        raise Unreadable(f"content-type is {kind!r}: expected application/cloudevents+json")
    event = read_json(content)
    if not isinstance(event, dict) or "id" not in event or "type" not in event:
        raise Unreadable("it is no CloudEvent: expected a JSON object with id and type")
    if "data_base64" in event:
        try:
            data = base64.b64decode(event.pop("data_base64"), validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise Unreadable("data_base64: expected base64") from None
        event["data"] = _content(data, str(event.get("datacontenttype", "")).partition(";")[0].strip())
    return event


def _content(content: bytes | None, kind: str) -> Any:
    """Return the content as parsed JSON if its type is JSON or missing, else as bytes."""
    if content is None or (kind and not kind.endswith(_JSON)):
        return content
    return read_json(content)


def _headers(message: Message) -> dict[str, str]:
    """Return headers by lower-case name, as text."""
    return {
        name.lower(): (content or b"").decode("utf-8", "replace")
        for name, content in message.headers() or ()
    }
