"""Return one incident, or the list of all, as the page's JSON; and events for charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from prequential.topics.outputs import Incident
from prequential.views.dashboard import overview
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.history import OPEN, History, Past, began, newest_point
from prequential.views.dashboard.incident_levels import as_json, levels_over_time, parts_of
from prequential.views.watching.messages import Notice
from prequential.views.watching.ranking import Ranking
from prequential.views.watching.state import ModelKey
from prequential.views.wording import explaining, measures, status

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
    known = history.incidents.of_model(*key)
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
    marks += [
        {"kind": "alarm", "t": one.ts, "outcome": one.outcome, "stage": one.stage, "segment": one.segment,
         "text": " ".join(filter(None, (f"{one.detector} on {one.signal}, {one.stage}", one.segment)))}
        for one in alone
    ]
    return PageEvents(
        [band(one, numbers[one.id]) for one in incidents][::-1],
        sorted(marks, key=lambda mark: (mark["t"], mark["outcome"])),
        [{**overview.incident_line(one), "number": numbers[one.id], "alarm_count": one.alarm_count,
          "alarms": alarms_of[one.id][::-1]}
         for one in sorted(incidents, key=lambda one: one.status != OPEN)],
        [alarm_line(one) for one in alone[::-1]], totals,
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
    name = status.cause_name(one.causes[0]) if one.causes else one.status
    return {
        "id": one.id, "number": number,
        "name": name if one.segment is None or one.segment in name else f"{name} in {one.segment}",
        "model": one.model, "status": one.status, "better": one.severity < 0,
        "t": list(status.span_of(one, "ts")), "outcome": list(status.span_of(one, "outcome")),
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
    one = history.incidents.find(identifier)
    if one is None:
        raise Absent(f"no incident {identifier!r} was seen")
    key = ModelKey(one.stream, one.model, one.partition)
    past = history.past.get(key, Past())
    its_alarms = [alarm for alarm in past.alarms if incident_of(alarm, [one]) is not None]
    ids = {alarm.id for alarm in its_alarms}
    first = one.change_point["outcome"]
    earlier_alarms = Counter(
        (alarm.detector, alarm.signal, alarm.stage) for alarm in past.alarms
        if alarm.outcome < first and alarm.id not in ids
    )
    model = history.models.get(key)
    sequence = Ranking(history).row(model).sequence if model is not None else None
    sequence = None if sequence is None else sequence._replace(stage=one.stage)
    series = None if sequence is None else past.series.get(sequence)
    newest = None if model is None or sequence is None else history.reading(model.sequences.get(sequence))
    levels = levels_over_time(one, series, newest_point(newest))
    parts = parts_of(history, one, None if sequence is None else sequence.estimator)
    events = events_of(history, key)
    together = status.changed_with(one, history.incidents.all())
    earlier = [
        other for other in history.incidents.of_model(*key)
        if other.id != one.id and began(other) <= began(one)
    ]
    place = one.stream, one.partition
    models = {known.model for known in history.models if (known.stream, known.partition) == place}
    return {
        **overview.incident_line(one),
        "others_changed": [overview.incident_line(other) for other in together],
        "others_unchanged": status.unchanged(one, together, models),
        "revision": one.revision, "opened": one.opened, "change_point": one.change_point,
        "recovered": one.recovered if one.recovered is not msgspec.UNSET else None,
        "present": status.present_in_words(one), "size": status.size_in_words(one),
        "graded": one.graded if one.graded is not msgspec.UNSET else None,
        "finding": status.finding(one, levels.latest, is_back=levels.is_back),
        "next": status.next_step(one), "scale": status.severity_in_words(one.severity),
        **as_json(one, levels, parts),
        "sentence": status.cause_sentence(one, list(dict.fromkeys(other.model for other in together))),
        "outcomes": [one.before.get("n"), one.after.get("n")],
        "at_former_class_ratio": status.level(one.after.get("at_former_class_ratio"), one),
        "causes": [_cause(cause, untimed=bool(one.untimed)) for cause in one.causes],
        "baselines": one.baselines, "signals": one.signals,
        "alarms": [alarm_line(alarm) for alarm in its_alarms[::-1]],
        "noise": [
            {"detector": detector, "signal": signal, "stage": stage, "count": count}
            for (detector, signal, stage), count
            in sorted(earlier_alarms.items(), key=lambda one: (-one[1], one[0]))
        ],
        "alarm_count": one.alarm_count, "noisy": status.noise_sentence(one),
        "incidents_before": [overview.incident_line(other) for other in earlier[:_MOST]],
        "incidents_before_total": len(earlier), "examples": one.examples,
        "estimator": sequence.estimator if sequence is not None else None,
        "series": {one.stage: courses.course(one.stage, series, newest_point(newest))},
        "measure": next(
            (name for name in (one.loss, *measures.COMPARED) if series and name in series.names), None
        ),
        "bands": events.bands, "marks": events.marks,
    }


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
    return explaining.evidence_details(cause, untimed=untimed).lstrip(":;, ")


def incident_list(history: History) -> dict[str, Any]:
    """Return all incidents that are kept, the open ones first, and the number of all."""
    known = history.incidents.all()
    return {
        "incidents": [overview.incident_line(one) for one in known],
        "total": len(known) + history.incidents.dropped,
    }
