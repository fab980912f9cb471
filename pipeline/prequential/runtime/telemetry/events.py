"""Incidents and verdicts of published messages as events, with attributes whose names stay."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from prequential.topics.foreign_json import reader
from prequential.topics.outputs import Comparison, Incident
from prequential.views.wording.status import sentence

#: Names of the events.
INCIDENT_EVENT, VERDICT_EVENT = "prequential.incident", "prequential.verdict"

#: An incident's status and a verdict while nothing is decided.
_OPEN, _UNDECIDED = "open", "undecided"

#: Verdicts that are remembered, of pairs in a stage and segment; the oldest ones are forgotten first.
_REMEMBERED = 100_000

_decode_incident = reader(Incident)
_decode_comparison = reader(Comparison)


class TelemetryEvent(NamedTuple):
    """An event: its name, its time (ns since 1970), whether it is a warning, its text, its attributes."""

    name: str
    time: int
    is_warning: bool
    text: str
    attributes: dict[str, Any]


def incident_event(value: bytes) -> TelemetryEvent:
    """The event of a message about an incident: a warning while it is open."""
    message = _decode_incident(value)
    attributes = {
        **_common(message), "prequential.incident.revision": message.revision,
        "prequential.incident.status": message.status, "prequential.incident.severity": message.severity,
        "prequential.incident.opened_outcome": message.opened["outcome"],
        "prequential.incident.change_point_outcome": message.change_point["outcome"],
        "prequential.incident.change_point_ts": message.change_point["ts"],
        "prequential.incident.causes": [str(cause["cause"]) for cause in message.causes],
        "prequential.incident.alarms": message.alarm_count,
    }  # fmt: skip
    if message.grade is not msgspec.UNSET:
        attributes["prequential.incident.grade"] = message.grade
    for name, level in (("before", message.before), ("after", message.after)):
        if "level" in level:
            attributes[f"prequential.incident.{name}_level"] = level["level"]
    is_open = message.status == _OPEN
    return TelemetryEvent(INCIDENT_EVENT, _time(message), is_open, sentence(message), attributes)


class VerdictChanges:
    """Finds the messages of pairs whose verdict has begun or ended, or became another one."""

    def __init__(self) -> None:
        self._newest: dict[tuple[object, ...], str] = {}

    def event(self, value: bytes) -> TelemetryEvent | None:
        """Return the event of a comparison; None if its verdict is the one before.

        Of the first message of a pair since the process began, the verdict counts as new if it began with it.
        """
        message = _decode_comparison(value)
        key = (
            message.stream, message.partition, message.model, message.against, message.segment,
            message.stage, message.loss,
        )  # fmt: skip
        begins = _UNDECIDED if message.since == message.outcomes else message.verdict
        former = self._newest.pop(key, begins)
        self._newest[key] = message.verdict
        if len(self._newest) > _REMEMBERED:
            del self._newest[next(iter(self._newest))]
        return None if message.verdict == former else _verdict_event(message, former)


def _verdict_event(message: Comparison, former: str) -> TelemetryEvent:
    attributes = {
        **_common(message), "prequential.against": message.against, "prequential.loss": message.loss,
        "prequential.outcomes": message.outcomes, "prequential.verdict": message.verdict,
        "prequential.verdict.former": former,
    }  # fmt: skip
    if message.since is not None:
        attributes["prequential.verdict.since_outcome"] = message.since
    if message.interval is not None:
        low, high = message.interval
        attributes |= {"prequential.difference.low": low, "prequential.difference.high": high}
    names = f"{message.model} and {message.against}"
    text = f"{message.stream}: the verdict on {names} by {message.loss} is {message.verdict}, it was {former}"
    return TelemetryEvent(VERDICT_EVENT, _time(message), False, text, attributes)


def _common(message: Incident | Comparison) -> dict[str, Any]:
    segment = {} if message.segment is None else {"prequential.segment": message.segment}
    return {
        "prequential.message.id": message.id, "prequential.stream": message.stream,
        "prequential.partition": message.partition, "prequential.model": message.model,
        "prequential.stage": message.stage, **segment,
    }  # fmt: skip


def _time(message: Incident | Comparison) -> int:
    """The label time; 0 where records had none, or beyond what OpenTelemetry can state."""
    time = message.ts * 1_000_000
    return 0 if message.untimed is True or not 0 <= time < 1 << 63 else time
