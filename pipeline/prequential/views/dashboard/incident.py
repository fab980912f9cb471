"""Return one incident, or the list of all, as the page's JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.events import alarm_line, events_of, incident_of
from prequential.views.dashboard.history import History, Past, newest_point
from prequential.views.dashboard.incidents import began
from prequential.views.dashboard.overview import incident_line
from prequential.views.watching.messages import Notice
from prequential.views.watching.ranking import Ranking
from prequential.views.watching.state import ModelKey
from prequential.views.wording.explaining import evidence
from prequential.views.wording.incidents import cause_name, level
from prequential.views.wording.measures import COMPARED
from prequential.views.wording.neighbours import changed_with, unchanged
from prequential.views.wording.status import cause_sentence, finding, noise_sentence

#: The largest number of earlier incidents that are listed: the newest.
_EARLIER = 100


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
    before = [alarm for alarm in past.alarms if alarm.outcome < first and alarm.id not in ids]
    model = history.models.get(key)
    sequence = Ranking(history).row(model).sequence if model is not None else None
    sequence = None if sequence is None else sequence._replace(stage=one.stage)
    series = None if sequence is None else past.series.get(sequence)
    newest = None if model is None or sequence is None else history.reading(model.sequences.get(sequence))
    events = events_of(history, key)
    together = changed_with(one, history.incidents.all())
    earlier = [
        other
        for other in history.incidents.of_model(one.stream, one.model, one.partition)
        if other.id != one.id and began(other) <= began(one)
    ]
    place = one.stream, one.partition
    models = {known.model for known in history.models if (known.stream, known.partition) == place}
    return {
        **incident_line(one),
        "others_changed": [incident_line(other) for other in together],
        "others_unchanged": unchanged(one, together, models),
        "revision": one.revision,
        "opened": one.opened,
        "change_point": one.change_point,
        "recovered": one.recovered if one.recovered is not msgspec.UNSET else None,
        "agreed": one.agreed if one.agreed is not msgspec.UNSET else None,
        "graded": one.graded if one.graded is not msgspec.UNSET else None,
        "finding": finding(one),
        "sentence": cause_sentence(one, list(dict.fromkeys(other.model for other in together))),
        "outcomes": [one.before.get("n"), one.after.get("n")],
        "at_former_class_ratio": level(one.after.get("at_former_class_ratio"), one),
        "causes": [
            {"share": cause.get("share"), "cause": cause["cause"], "words": cause_name(cause),
             "evidence": evidence(cause, untimed=bool(one.untimed))}
            for cause in one.causes
        ],
        "baselines": one.baselines,
        "signals": one.signals,
        "alarms": [alarm_line(alarm) for alarm in its_alarms[::-1]],
        "noise": _noise(before),
        "alarm_count": one.alarm_count,
        "noisy": noise_sentence(one),
        "incidents_before": [incident_line(other) for other in earlier[:_EARLIER]],
        "incidents_before_total": len(earlier),
        "examples": one.examples,
        "estimator": sequence.estimator if sequence is not None else None,
        "series": {one.stage: courses.course(one.stage, series, newest_point(newest))},
        "measure": next((name for name in (one.loss, *COMPARED) if series and name in series.names), None),
        "bands": events.bands,
        "marks": events.marks,
    }


def incident_list(history: History) -> dict[str, Any]:
    """Return all incidents that are kept, the open ones first, and the number of all."""
    known = history.incidents.all()
    return {
        "incidents": [incident_line(one) for one in known],
        "total": len(known) + history.incidents.dropped,
    }


def _noise(alarms: Iterable[Notice]) -> list[dict[str, Any]]:
    """Count alarms by detector, signal and stage, in descending order."""
    counts: dict[tuple[str, str, str], int] = {}
    for alarm in alarms:
        watch = alarm.detector, alarm.signal, alarm.stage
        counts[watch] = counts.get(watch, 0) + 1
    return [
        {"detector": detector, "signal": signal, "stage": stage, "count": count}
        for (detector, signal, stage), count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]


