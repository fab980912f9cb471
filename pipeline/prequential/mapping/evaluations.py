"""Formats of programs that collect ratings of judges and people: what their records contain, and mappings.

A judge is a model, and its rating a prediction. People's ratings are labels. The stream is the name of what
is rated, such as `correctness`. Each format has a function that returns the ratings of a record, and a
mapping for each kind, which the fields of a section override.

- OpenTelemetry: `gen_ai.evaluation.result` events in logs exported as OTLP JSON
  (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-events.md)
- MLflow: assessments, as `Assessment.to_dictionary` and the REST API return them, also within traces
- Langfuse: scores, as `/api/public/scores` returns them
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prequential.mapping.model import FORMATS
from prequential.topics import foreign_json
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.foreign_json import Unreadable

_decode_any = foreign_json.reader()

#: Endings of content types that are JSON: `application/json`, or a type with a suffix.
_JSON = ("json", "+json")


class RecordPart(NamedTuple):
    """One of the values of a record: what it is called in reasons, and the value or why there is none."""

    name: str | None
    value: Any
    reason: str | None = None


class PartedValues(NamedTuple):
    """The values of a batch of records, and for each value its record, its name in reasons, and its reason.

    A value that is its whole record has no name. `reasons` are by place among the values.
    """

    values: list[Any]
    record_indices: list[int]
    names: list[str | None]
    reasons: dict[int, str]


def parted(
    records: Iterable[Any], reasons: Mapping[int, str], parts: Callable[[Any], list[RecordPart] | None]
) -> PartedValues:
    """Return the parts of records, in their order; a record with a reason, or without parts, stays whole.

    `parts` returns None for a record without parts, and raises Unreadable for one that isn't what its format
    demands.

    >>> def of_list(record):
    ...     return [RecordPart("a", value) for value in record] if isinstance(record, list) else None
    >>> parted([[1, 2], 7], {}, of_list)
    PartedValues(values=[1, 2, 7], record_indices=[0, 0, 1], names=['a', 'a', None], reasons={})
    """
    of_batch = PartedValues([], [], [], {})
    for record_index, record in enumerate(records):
        reason, record_parts = reasons.get(record_index), None
        try:
            record_parts = None if reason is not None else parts(record)
        except Unreadable as error:
            record, reason = None, str(error)
        for part in [RecordPart(None, record, reason)] if record_parts is None else record_parts:
            if part.reason is not None:
                of_batch.reasons[len(of_batch.values)] = part.reason
            of_batch.values.append(part.value)
            of_batch.record_indices.append(record_index)
            of_batch.names.append(part.name)
    return of_batch


def read_json(content: bytes) -> Any:
    """Decode a complete JSON text. Raises Unreadable.

    >>> read_json(b"{")
    Traceback (most recent call last):
    ...
    prequential.topics.foreign_json.Unreadable: input data was truncated
    """
    return _decode_any(content)


def events(value: Any) -> list[RecordPart]:
    """Return the CloudEvents of a batch in JSON, each with its place from 0, or a single event.

    >>> event = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1"}
    >>> [(one.name, one.reason) for one in events([event, 7])]
    [('event 0', None), ('event 1', 'it is no CloudEvent: expected a JSON object with id and type')]
    """
    if not isinstance(value, list):
        return [RecordPart(None, event_of(value))]
    parts = []
    for index, element in enumerate(value):
        event, reason = None, None
        try:
            event = event_of(element)
        except Unreadable as error:
            reason = str(error)
        parts.append(RecordPart(f"event {index}", event, reason))
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
    attributes = {name: attribute for name, attribute in event.items() if name != "data_base64"}
    return {**attributes, "data": content_of(data, kind)}


def content_of(content: bytes | None, kind: str) -> Any:
    """Return an event's content as parsed JSON if its type is JSON or missing, else as bytes."""
    if content is None or (kind and not kind.endswith(_JSON)):
        return content
    return read_json(content)


_RESULT = "gen_ai.evaluation.result"


class RatingFormat(NamedTuple):
    """A format whose records may have several parts."""

    parts: Callable[[Any], list[RecordPart]]
    #: The mapping for each kind of records; empty: there is none, and a section maps its fields.
    sections: Mapping[int, Mapping[str, Any]] = {}
    #: An example of the condition that a section for labels needs, if the format does not tell people from
    #: judges.
    condition: str | None = None


def otel_parts(record: Any) -> list[RecordPart]:
    """Return the evaluation results in a request of OTLP's logs, or in one log record.

    An attribute is a field of `attributes`. `evaluated` is the span that the event belongs to, or else the
    ID of the response; a span of zeros is none. `timeUnixNano` is the time of observation where the time of
    the event is unknown, which is 0. Other log records are left out.

    >>> log = {"eventName": "gen_ai.evaluation.result", "spanId": "a1", "attributes": [
    ...     {"key": "gen_ai.evaluation.name", "value": {"stringValue": "Relevance"}}]}
    >>> request = {"resourceLogs": [{"scopeLogs": [{"scope": {"name": "judge"}, "logRecords": [log]}]}]}
    >>> [part.value["evaluated"] for part in otel_parts(request)]
    ['a1']
    """
    if not isinstance(record, Mapping) or not ("resourceLogs" in record or "attributes" in record):
        raise Unreadable("it is no log of OTLP: expected a JSON object with resourceLogs or attributes")
    parts = []
    for number, log in enumerate(_logs(record)):
        reason, flat = None, None
        try:
            flat = _flat(log)
        except (AttributeError, TypeError, KeyError, ValueError):
            reason = "it is no log record of OTLP: expected attributes with key and value"
        if reason is not None or (flat is not None and flat["eventName"] == _RESULT):
            parts.append(RecordPart(f"log {number}", flat, reason))
    return parts


def _logs(record: Mapping[str, Any]) -> Iterator[Any]:
    if "resourceLogs" not in record:
        yield record
        return
    for of_resource in _list(record, "resourceLogs"):
        resource = of_resource.get("resource") or {}
        for of_scope in _list(of_resource, "scopeLogs"):
            for log in _list(of_scope, "logRecords"):
                if not isinstance(log, Mapping):
                    raise Unreadable("it is no log of OTLP: expected objects in logRecords")
                yield {**log, "scope": of_scope.get("scope") or {}, "resource": resource}


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    elements = value.get(name) or []
    if not isinstance(elements, list) or not all(isinstance(element, Mapping) for element in elements):
        raise Unreadable(f"it is no log of OTLP: expected an array of objects in {name}")
    return elements


def _flat(log: Mapping[str, Any]) -> dict[str, Any]:
    attributes = _attributes(log.get("attributes"))
    flat = {
        **log, "attributes": attributes, "eventName": log.get("eventName") or attributes.get("event.name"),
        "evaluated": _span(log.get("spanId")) or attributes.get("gen_ai.response.id"),
        "timeUnixNano": next((log[name] for name in _TIMES if log.get(name) not in _NO_TIME), None),
    }  # fmt: skip
    for name in ("scope", "resource"):
        part = log.get(name) or {}
        flat[name] = {"version": None, **part, "attributes": _attributes(part.get("attributes"))}
    return flat


#: The times of a log record, in order of preference, and the values that stand for an unknown time.
_TIMES, _NO_TIME = ("timeUnixNano", "observedTimeUnixNano"), (None, "", "0", 0)


def _span(span: Any) -> Any:
    """Return the ID of a span; None for zeros, which are no ID.

    >>> _span("00000000000000A1"), _span("0000000000000000")
    ('00000000000000a1', None)
    """
    if not isinstance(span, str):
        return span
    return span.lower() if span.strip("0") else None


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _any_value(pair.get("value") or {}) for pair in pairs or ()}


def _any_value(value: Mapping[str, Any]) -> Any:
    """Return a value of OTLP as plain JSON; 64-bit integers are text there.

    >>> _any_value({"intValue": "7"}), _any_value({"arrayValue": {"values": [{"boolValue": True}]}})
    (7, [True])
    """
    for kind, content in value.items():
        if kind == "intValue":
            return int(content)
        if kind == "arrayValue":
            return [_any_value(below) for below in content.get("values") or ()]
        if kind == "kvlistValue":
            return _attributes(content.get("values"))
        return content
    return None


def mlflow_parts(record: Any) -> list[RecordPart]:
    """Return the assessments in a trace, in a response of the REST API, or the record as an assessment.

    `evaluated` is the trace, with the span if the assessment is about a span. `rating` is the feedback's
    value, or the expectation's.

    >>> people = {"assessment_name": "c", "trace_id": "t", "expectation": {"value": "yes"}}
    >>> [(part.value["evaluated"], part.value["rating"]) for part in mlflow_parts(people)]
    [('t', 'yes')]
    """
    return [
        part if part.value is None else part._replace(value=_assessment(part.value))
        for part in _assessments(record)
    ]


def _assessment(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assessment with what is evaluated, and its rating."""
    trace, span = record.get("trace_id"), record.get("span_id")
    rating = None
    for kind in ("feedback", "expectation"):
        details = record.get(kind)
        if rating is None and isinstance(details, Mapping):
            rating = details.get("value")
            serialized = details.get("serialized_value")
            if rating is None and isinstance(serialized, Mapping):
                rating = serialized.get("value")
    return {**record, "evaluated": f"{trace}|{span}" if trace and span else trace, "rating": rating}


def _assessments(record: Any) -> list[RecordPart]:
    if isinstance(record, Mapping):
        info = record.get("info") or record.get("trace_info")
        assessments = (info if isinstance(info, Mapping) else record).get("assessments")
        if assessments is None and isinstance(record.get("assessment"), Mapping):
            return [RecordPart(None, record["assessment"])]
        if assessments is None and "assessment_name" in record:
            return [RecordPart(None, record)]
        if assessments is None and info is not None:
            return []
        record = assessments
    if not isinstance(record, list):
        raise Unreadable("it is no assessment of MLflow: expected assessment_name, or a trace's assessments")
    return _elements(record, "assessment", "assessment_name")


def langfuse_parts(record: Any) -> list[RecordPart]:
    """Return the scores of a page of the API or of an array, or the record as a score.

    `evaluated` is the observation that the score is about, or else the trace, or else the session.

    >>> score = {"name": "c", "traceId": "t", "observationId": "o"}
    >>> [part.value["evaluated"] for part in langfuse_parts(score)]
    ['o']
    """
    return [
        part if part.value is None else part._replace(value=_score(part.value)) for part in _scores(record)
    ]


def _score(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score with what is evaluated."""
    ids = (record.get(name) for name in ("observationId", "traceId", "sessionId"))
    return {**record, "evaluated": next(filter(None, ids), None)}


def _scores(record: Any) -> list[RecordPart]:
    if isinstance(record, Mapping):
        if "data" not in record:
            return [RecordPart(None, record)] if "name" in record else _no_scores()
        record = record["data"]
    return _elements(record, "score", "name") if isinstance(record, list) else _no_scores()


def _no_scores() -> list[RecordPart]:
    raise Unreadable("it is no score of Langfuse: expected a name and a value, or a page with data")


def _elements(records: list[Any], element_kind: str, name: str) -> list[RecordPart]:
    return [
        RecordPart(f"{element_kind} {index}", element) if isinstance(element, Mapping) and name in element
        else RecordPart(f"{element_kind} {index}", None, f"expected an object with {name}")
        for index, element in enumerate(records)
    ]  # fmt: skip


_OTEL = {
    "stream": 'value.attributes."gen_ai.evaluation.name"', "instance_id": "value.evaluated",
    "ts": {"path": "value.timeUnixNano", "unit": "ns"},
}  # fmt: skip
_LABEL = 'value.attributes."gen_ai.evaluation.score.label"'
_MLFLOW = {
    "stream": "value.assessment_name", "instance_id": "value.evaluated",
    "ts": {"path": "value.create_time", "unit": "rfc3339"},
}  # fmt: skip
_LANGFUSE = {
    "stream": "value.name", "instance_id": "value.evaluated",
    "ts": {"path": "value.timestamp", "unit": "rfc3339"},
}  # fmt: skip

#: Formats by name.
RATING_FORMATS = {
    "otel-evaluations": RatingFormat(
        otel_parts, {
            PREDICTIONS: {
                **_OTEL, "model": "value.scope.name", "model_version": "value.scope.version",
                "y_pred": _LABEL,
            },
            LABELS: {**_OTEL, "y_true": _LABEL},
        }, "scope.name = review",
    ),
    "mlflow-assessments": RatingFormat(
        mlflow_parts, {
            PREDICTIONS: {
                **_MLFLOW, "model": "value.source.source_id", "y_pred": "value.feedback.value",
                "when": ["value.source.source_type = LLM_JUDGE", "value.feedback"],
            },
            LABELS: {
                **_MLFLOW, "y_true": "value.rating", "withdrawn": "value.valid = false",
                "when": ["value.source.source_type = HUMAN", "value.rating"],
            },
        },
    ),
    "langfuse-scores": RatingFormat(
        langfuse_parts, {
            PREDICTIONS: {
                **_LANGFUSE, "model": "value.source", "y_pred": "value.stringValue",
                "when": "value.source = EVAL",
            },
            LABELS: {**_LANGFUSE, "y_true": "value.stringValue", "when": "value.source = ANNOTATION"},
        },
    ),
}  # fmt: skip

#: All formats whose records may have several parts, by name.
FORMATS_WITH_PARTS = {"cloudevents": RatingFormat(events), **RATING_FORMATS}

#: All formats of files.
FILE_FORMATS = (*FORMATS, *FORMATS_WITH_PARTS)
