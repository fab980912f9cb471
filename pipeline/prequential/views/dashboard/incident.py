"""Return one incident, or the list of all, as the page's JSON; and events for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

import msgspec
from prequential.topics.outputs import Incident
from prequential.views.dashboard import overview
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.incident_levels import as_json, levels_over_time, parts_of
from prequential.views.state.history import History, Past, newest_point
from prequential.views.state.incidents import OPEN, began
from prequential.views.state.newest import ModelKey, StreamPartition
from prequential.views.state.ranking import Ranking
from prequential.views.state.readings import Notice
from prequential.views.wording import evidence, measures, status

#: The largest numbers of a model's versions, alarms without an incident, and incidents, also of those before
#: one: the newest of each.
_MOST = 100


class PageEvents(NamedTuple):
    """The events of a model as the page's JSON."""

    #: Incidents with their beginning and end, their number (from 1, in the order of time) and their name.
    bands: list[dict[str, Any]]
    #: Versions, and alarms that belong to no incident.
    marks: list[dict[str, Any]]
    #: Incidents for the table, open ones first, then the newest, each with its number and its `alarms`.
    incidents: list[dict[str, Any]]
    #: Alarms that belong to no incident, the newest first.
    alarms: list[dict[str, Any]]
    #: The numbers of all incidents and of all alarms that belong to none, listed or not.
    totals: dict[str, int]


def events_of(history: History, key: ModelKey) -> PageEvents:
    """Return the known events of a model."""
    past = history.past.get(key, Past())
    all_incidents = history.incidents.of_model(*key)
    incidents = all_incidents[:_MOST]
    alarms_of: dict[str, list[dict[str, Any]]] = {incident.id: [] for incident in incidents}
    alone: list[Notice] = []
    for alarm in past.alarms:
        incident = incident_of(alarm, incidents)
        if incident is None:
            alone.append(alarm)
        else:
            alarms_of[incident.id].append(alarm_line(alarm))
    raised = sum(past.alarm_counts.values()) - sum(incident.alarm_count for incident in all_incidents)
    totals = {"incidents": len(all_incidents), "alarms": max(raised, len(alone))}
    numbers = {incident.id: len(all_incidents) - index for index, incident in enumerate(incidents)}
    alone = alone[-_MOST:]
    marks = [
        {"kind": "version", "t": version.ts, "outcome": version.since, "text": f"version {version.name}"}
        for version in list(past.versions)[-_MOST:]
        if version.since > 1  # the first version is no change
    ]
    marks += [
        {
            "kind": "alarm",
            "t": incident.ts,
            "outcome": incident.outcome,
            "stage": incident.stage,
            "segment": incident.segment,
            "text": " ".join(
                filter(
                    None, (f"{incident.detector} on {incident.signal}, {incident.stage}", incident.segment)
                )
            ),
        }
        for incident in alone
    ]
    return PageEvents(
        [band(incident, numbers[incident.id]) for incident in incidents][::-1],
        sorted(marks, key=lambda mark: (mark["t"], mark["outcome"])),
        [{**overview.incident_line(incident), "number": numbers[incident.id],
            "alarm_count": incident.alarm_count,
          "alarms": alarms_of[incident.id][::-1]}
         for incident in sorted(incidents, key=lambda incident: incident.status != OPEN)],
        [alarm_line(alarm) for alarm in alone[::-1]], totals,
    )  # fmt: skip


def incident_of(alarm: Notice, incidents: Iterable[Incident]) -> Incident | None:
    """Return the incident to which an alarm belongs; None if there is none.

    An incident lists only its first alarms. If it has more, the alarms during the incident also belong to it.
    """
    for incident in incidents:
        more = incident.alarm_count > len(incident.alarms)
        within = incident.opened["ts"] <= alarm.ts <= incident.ts
        if alarm.id in incident.alarms or (more and within and alarm.stage == incident.stage):
            return incident
    return None


def band(incident: Incident, number: int) -> dict[str, Any]:
    """Return an incident's beginning and end on both axes; an open incident has no end."""
    name = status.cause_name(incident.causes[0]) if incident.causes else incident.status
    return {
        "id": incident.id,
        "number": number,
        "name": name
        if incident.segment is None or incident.segment in name
        else f"{name} in {incident.segment}",
        "model": incident.model,
        "status": incident.status,
        "better": incident.severity < 0,
        "t": list(status.span_of(incident, "ts")),
        "outcome": list(status.span_of(incident, "outcome")),
    }


def alarm_line(alarm: Notice) -> dict[str, Any]:
    """Return an alarm as a row of a table; `ts` is None if the records have no times."""
    return {
        "id": alarm.id, "ts": None if alarm.untimed else alarm.ts,
        "stage": alarm.stage,
        "segment": alarm.segment,
        "detector": alarm.detector, "signal": alarm.signal, "outcome": alarm.outcome,
        "instance_id": alarm.instance_id, "statistic": alarm.statistic, "threshold": alarm.threshold,
    }  # fmt: skip


def incident_page(history: History, identifier: str, courses: Courses | None = None) -> dict[str, Any]:
    """Return an incident, in the order of an on-call engineer's questions. Raises Absent if it is unknown."""
    courses = courses or Courses(history)
    incident = history.incidents.find(identifier)
    if incident is None:
        raise Absent(f"no incident {identifier!r} was seen")
    key = ModelKey(incident.stream, incident.model, incident.partition)
    past = history.past.get(key, Past())
    its_alarms = [alarm for alarm in past.alarms if incident_of(alarm, [incident]) is not None]
    model = history.models.get(key)
    sequence = Ranking(history).row(model).sequence if model is not None else None
    sequence = None if sequence is None else sequence._replace(stage=incident.stage)
    series = None if sequence is None else past.series.get(sequence)
    newest = None if model is None or sequence is None else history.reading(model.sequences.get(sequence))
    levels = levels_over_time(incident, series, newest_point(newest))
    parts = parts_of(history, incident, None if sequence is None else sequence.estimator)
    events = events_of(history, key)
    together = status.changed_with(incident, history.incidents.all())
    earlier = [
        neighbour
        for neighbour in history.incidents.of_model(*key)
        if neighbour.id != incident.id and began(neighbour) <= began(incident)
    ]
    return {
        **overview.incident_line(incident),
        "others_changed": [overview.incident_line(neighbour) for neighbour in together],
        "others_unchanged": status.unchanged(incident, together, _models_beside(history, incident)),
        "revision": incident.revision,
        "opened": incident.opened,
        "change_point": incident.change_point,
        "recovered": incident.recovered if incident.recovered is not msgspec.UNSET else None,
        "present": status.present_in_words(incident),
        "size": status.size_in_words(incident),
        "graded": incident.graded if incident.graded is not msgspec.UNSET else None,
        "finding": status.finding(incident, levels.latest, is_back=levels.is_back),
        "next": status.next_step(incident),
        "scale": status.severity_in_words(incident.severity),
        **as_json(incident, levels, parts),
        "sentence": status.cause_sentence(
            incident, list(dict.fromkeys(neighbour.model for neighbour in together))
        ),
        "outcomes": [incident.before.get("n"), incident.after.get("n")],
        "at_former_class_ratio": status.level(incident.after.get("at_former_class_ratio"), incident),
        "causes": [_cause(cause, untimed=bool(incident.untimed)) for cause in incident.causes],
        "baselines": incident.baselines,
        "signals": incident.signals,
        "alarms": [alarm_line(alarm) for alarm in its_alarms[::-1]],
        "noise": _alarms_before(incident, past.alarms, {alarm.id for alarm in its_alarms}),
        "alarm_count": incident.alarm_count,
        "noisy": status.noise_sentence(incident),
        "incidents_before": [overview.incident_line(former) for former in earlier[:_MOST]],
        "incidents_before_total": len(earlier),
        "examples": incident.examples,
        "estimator": sequence.estimator if sequence is not None else None,
        "series": {incident.stage: courses.course(incident.stage, series, newest_point(newest))},
        "measure": next(
            (name for name in (incident.loss, *measures.COMPARED) if series and name in series.names), None
        ),
        "bands": events.bands,
        "marks": events.marks,
    }


def _models_beside(history: History, incident: Incident) -> set[str]:
    """Return the names of all models of the incident's stream and partition."""
    stream_partition = StreamPartition(incident.stream, incident.partition)
    return {key.model for key in history.models if key.stream_partition == stream_partition}


def _alarms_before(incident: Incident, alarms: Iterable[Notice], own: Set[str]) -> list[dict[str, Any]]:
    """Return how many alarms each detector raised before the incident; `own` are ids of its own alarms."""
    first = incident.change_point["outcome"]
    counts = Counter(
        (alarm.detector, alarm.signal, alarm.stage)
        for alarm in alarms
        if alarm.outcome < first and alarm.id not in own
    )
    by_count = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [
        {"detector": detector, "signal": signal, "stage": stage, "count": count}
        for (detector, signal, stage), count in by_count
    ]


def _cause(cause: dict[str, Any], *, untimed: bool) -> dict[str, Any]:
    """Return a cause of an incident as the page's JSON."""
    share = cause.get("share")
    return {
        "share": share, "percent": f"{100 * (share or 0.0):.0f}%", "cause": cause["cause"],
        "words": status.cause_name(cause), "evidence": _details(cause, untimed=untimed),
    }  # fmt: skip


def _details(cause: dict[str, Any], *, untimed: bool) -> str:
    """Return the change behind a cause; its name and its share stand next to it on the page."""
    if cause["cause"] == "class_ratio":
        return status.cause_in_words(cause) if "class" in cause else ""
    return evidence.evidence_details(cause, untimed=untimed).lstrip(":;, ")


def incident_list(history: History) -> dict[str, Any]:
    """Return all incidents that are kept, the open ones first, and the number of all."""
    incidents = history.incidents.all()
    return {
        "incidents": [overview.incident_line(incident) for incident in incidents],
        "total": len(incidents) + history.incidents.dropped,
    }
