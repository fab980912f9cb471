"""What is posted of a message: itself, as Slack takes it, or as a CloudEvent."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from prequential.settings.notifying import CLOUDEVENTS, SLACK
from prequential.topics.dead_letters import clock
from prequential.topics.outputs import Alarm, Incident
from prequential.topics.reasons import printable
from prequential.topics.specs import DRIFT_ALARMS, INCIDENTS
from prequential.wording.incidents import sentence, subject_of

_encode = msgspec.json.Encoder().encode
_decoders: dict[str, Any] = {
    INCIDENTS: msgspec.json.Decoder(Incident).decode,
    DRIFT_ALARMS: msgspec.json.Decoder(Alarm).decode,
}

#: What Slack takes for the beginning of a link, a mention or an entity.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Body(NamedTuple):
    """What is posted."""

    content_type: str
    content: bytes


def read(topic: str, value: bytes) -> Incident | Alarm:
    """The message of a record of a topic, without the prefix.

    Raises msgspec.MsgspecError or UnicodeDecodeError if it is none.
    """
    message: Incident | Alarm = _decoders[topic](value)
    return message


def identifier(message: Incident | Alarm) -> str:
    """What names this message and no other one, whenever it is sent: of an incident with its revision."""
    return f"{message.id}-{message.revision}" if isinstance(message, Incident) else message.id


def body(form: str, message: Incident | Alarm, value: bytes, topic: str) -> Body:
    """What is posted of a message, whose record's value and topic (with the prefix) are given."""
    if form == SLACK:
        return Body("application/json", _encode({"text": in_words(message).translate(_SLACK)}))
    if form == CLOUDEVENTS:
        return Body("application/cloudevents+json", _encode(event(message, value, topic)))
    return Body("application/json", value)


def event(message: Incident | Alarm, value: bytes, topic: str) -> dict[str, Any]:
    """The message as a CloudEvent 1.0, in structured mode; without a time where its records had none."""
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
    """A message in one line."""
    if isinstance(message, Incident):
        return sentence(message)
    return (
        f"{subject_of(message)} {message.stage}: {message.detector} on {printable(message.signal)}, outcome "
        f"{message.outcome:,}; statistic {message.statistic:.3g}, threshold {message.threshold:.3g}"
    )
