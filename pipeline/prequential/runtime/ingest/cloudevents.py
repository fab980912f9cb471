"""CloudEvents 1.0 over Kafka, as KServe's payload logger sends them through Knative, in both of their modes.

In both modes, paths address the event in the same form: its attributes (`value.id`, `value.type`,
`value.inferenceservicename`) and its content (`value.data`). A request of KServe has the type
`org.kubeflow.serving.inference.request`; its response has the type `….response` and the same ID.
(https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message
from prequential.mapping.parts import RecordPart, Unreadable, content_of, event_of, events, read_json
from prequential.runtime.ingest.formats import Content, each, with_parts

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
    return {**attributes, "data": content_of(content, kind)}


def _structured(content: bytes, kind: str) -> dict[str, Any]:
    if not kind.endswith(_JSON):
        raise Unreadable(f"content-type is {kind!r}: expected application/cloudevents+json")
    return event_of(read_json(content))


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
        name.lower(): (content or b"").decode("utf-8", "replace")
        for name, content in message.headers() or ()
    }
