"""Return the events of a model for its charts: incidents with their alarms, other alarms, versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from prequential.topics.outputs import Incident
from prequential.views.dashboard.history import History, Past
from prequential.views.dashboard.incidents import OPEN
from prequential.views.dashboard.overview import incident_line
from prequential.views.watching.messages import Notice
from prequential.views.watching.state import ModelKey
from prequential.views.wording.incidents import cause_name, span_of
from prequential.views.wording.stages import stage_in_words

#: The largest numbers of a model's versions, alarms without an incident, and incidents: the newest of each.
_MOST = 100


class PageEvents(NamedTuple):
    """The events of a model as the page's JSON.

    Attributes
    ----------
    bands
        Incidents with their beginning and end, their number (from 1, in the order of time) and their name.
    marks
        Versions, and alarms that belong to no incident.
    incidents
        Incidents for the table, open ones first, then the newest, each with its number and its `alarms`.
    alarms
        Alarms that belong to no incident, the newest first.
    totals
        The numbers of all incidents and of all alarms that belong to none, listed or not.
    """

    bands: list[dict[str, Any]]
    marks: list[dict[str, Any]]
    incidents: list[dict[str, Any]]
    alarms: list[dict[str, Any]]
    totals: dict[str, int]


def events_of(history: History, key: ModelKey) -> PageEvents:
    """Return the known events of a model."""
    past = history.past.get(key, Past())
    known = history.incidents.of_model(key.stream, key.model, key.partition)
    incidents = known[:_MOST]
    alarms_of: dict[str, list[dict[str, Any]]] = {one.id: [] for one in incidents}
    alone: list[Notice] = []
    for alarm in past.alarms:
        one = incident_of(alarm, incidents)
        if one is None:
            alone.append(alarm)
        else:
            alarms_of[one.id].append(alarm_line(alarm))
    raised = sum(past.alarm_counts.values()) - sum(one.alarm_count for one in known)
    totals = {"incidents": len(known), "alarms": max(raised, len(alone))}
    numbers = {one.id: len(known) - place for place, one in enumerate(incidents)}
    alone = alone[-_MOST:]
    marks = [
        {"kind": "version", "t": one.ts, "outcome": one.since, "text": f"version {one.name}"}
        for one in list(past.versions)[-_MOST:]
        if one.since > 1  # the first version is no change
    ]
    marks += map(_mark, alone)
    return PageEvents(
        [band(one, numbers[one.id]) for one in incidents][::-1],
        sorted(marks, key=lambda mark: (mark["t"], mark["outcome"])),
        [
            {**incident_line(one), "number": numbers[one.id], "alarm_count": one.alarm_count,
             "alarms": alarms_of[one.id][::-1]}
            for one in sorted(incidents, key=lambda one: one.status != OPEN)
        ],
        [alarm_line(one) for one in alone[::-1]],
        totals,
    )  # fmt: skip


def incident_of(alarm: Notice, incidents: Iterable[Incident]) -> Incident | None:
    """Return the incident to which an alarm belongs; None if there is none.

    An incident lists only its first alarms. If it has more, the alarms during the incident also belong to it.
    """
    for one in incidents:
        more = one.alarm_count > len(one.alarms)
        within = one.opened["ts"] <= alarm.ts <= one.ts
        if alarm.id in one.alarms or (more and within and alarm.stage == one.stage):
            return one
    return None


def band(one: Incident, number: int) -> dict[str, Any]:
    """Return an incident's beginning and end on both axes; an open incident has no end."""
    name = cause_name(one.causes[0]) if one.causes else one.status
    return {
        "id": one.id,
        "number": number,
        "name": name if one.segment is None or one.segment in name else f"{name} in {one.segment}",
        "model": one.model,
        "status": one.status,
        "better": one.severity < 0,
        "t": list(span_of(one, "ts")),
        "outcome": list(span_of(one, "outcome")),
    }


def alarm_line(alarm: Notice) -> dict[str, Any]:
    """Return an alarm as a row of a table; `ts` is None if the records have no times."""
    return {
        "id": alarm.id, "ts": None if alarm.untimed else alarm.ts,
        "stage": stage_in_words(alarm.stage, alarm.same),
        "segment": alarm.segment,
        "detector": alarm.detector, "signal": alarm.signal, "outcome": alarm.outcome,
        "instance_id": alarm.instance_id, "statistic": alarm.statistic, "threshold": alarm.threshold,
    }  # fmt: skip


def _mark(alarm: Notice) -> dict[str, Any]:
    where = "" if alarm.segment is None else f" {alarm.segment}"
    return {
        "kind": "alarm", "t": alarm.ts, "outcome": alarm.outcome, "stage": alarm.stage,
        "segment": alarm.segment, "text": f"{alarm.detector} on {alarm.signal}, {alarm.stage}{where}",
    }  # fmt: skip
