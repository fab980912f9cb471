"""Make the body of a request: the message itself, a message for Slack, or a CloudEvent."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from prequential.configuration.settings.model import CLOUDEVENTS, SLACK
from prequential.topics.dead_letters import clock
from prequential.topics.errors import printable
from prequential.topics.outputs import Alarm, Incident
from prequential.topics.specs import DRIFT_ALARMS, INCIDENTS
from prequential.views.wording.incidents import sentence, subject_of

_encode = msgspec.json.Encoder().encode
_decoders: dict[str, Any] = {
    INCIDENTS: msgspec.json.Decoder(Incident).decode,
    DRIFT_ALARMS: msgspec.json.Decoder(Alarm).decode,
}

#: Characters that Slack reads as the beginning of a link, a mention or an entity.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Body(NamedTuple):
    """The body of a request, with its type."""

    content_type: str
    content: bytes


def read(topic: str, value: bytes) -> Incident | Alarm:
    """Decode the message of a record; the topic is given without its prefix.

    Raises msgspec.MsgspecError or UnicodeDecodeError if the record is no message.
    """
    message: Incident | Alarm = _decoders[topic](value)
    return message


def identifier(message: Incident | Alarm) -> str:
    """Return the unique, constant name of a message; an incident's name includes its revision."""
    return f"{message.id}-{message.revision}" if isinstance(message, Incident) else message.id


def body(form: str, message: Incident | Alarm, value: bytes, topic: str) -> Body:
    """Return the request's body for a message, given its record's value and topic (with the prefix)."""
    if form == SLACK:
        return Body("application/json", _encode({"text": in_words(message).translate(_SLACK)}))
    if form == CLOUDEVENTS:
        return Body("application/cloudevents+json", _encode(event(message, value, topic)))
    return Body("application/json", value)


def event(message: Incident | Alarm, value: bytes, topic: str) -> dict[str, Any]:
    """Return the message as a structured CloudEvent 1.0, without a time if its records had none."""
    about = f"incident.{message.status}" if isinstance(message, Incident) else "drift-alarm"
    found = {
        "specversion": "1.0",
        "id": identifier(message),
        "source": f"/prequential/{quote(topic, safe='')}",
        "type": f"prequential.{about}",
        "subject": f"{message.stream}/{message.model}",
        "datacontenttype": "application/json",
    }
    if message.untimed is not True:
        found["time"] = clock(message.ts)
    return {**found, "data": msgspec.Raw(value)}


def in_words(message: Incident | Alarm) -> str:
    """Return a message as one line of text."""
    if isinstance(message, Incident):
        return sentence(message)
    return (
        f"{subject_of(message)} {message.stage}: {message.detector} on {printable(message.signal)}, outcome "
        f"{message.outcome:,}; statistic {message.statistic:.3g}, threshold {message.threshold:.3g}"
    )
