"""The explanation of an incident, in the order in which an engineer on call needs the facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from prequential.configuration.settings.stages import PERIOD
from prequential.topics.dead_letters import clock
from prequential.topics.errors import WorkError, printable
from prequential.topics.foreign_json import Unreadable, converted, reader
from prequential.topics.marks import IncidentMark, IncidentMarks
from prequential.topics.outputs import Alarm, Incident, Metrics
from prequential.views.wording import expected, measures, status

#: Incidents that are named if the requested one does not exist.
_NAMED = 5

#: Columns of a line's title.
_TITLE = 14

#: Hex digits of an incident's id that identify it.
_ID = re.compile("[0-9a-f]{4,32}")

#: Kind of a message, by a field that no other kind has.
_SORTS: dict[str, Any] = {"mark": IncidentMark, "revision": Incident, "detector": Alarm, "estimator": Metrics}


_fields_of = reader(dict[str, Any])


class _Period(msgspec.Struct):
    """The fields of `period` that are printed."""

    start: int
    end: int
    labelled_share: float


class _PeriodRecord(msgspec.Struct):
    finals: int
    mean_error: float | None = None
    coverage: float | None = None
    labelled_so_far: float | None = None
    last_final: float | None = None
    lost_to: str | None = None


class _Estimate(msgspec.Struct):
    value: float
    interval: tuple[float, float] | None = None
    record: _PeriodRecord | None = None


class _Expected(msgspec.Struct):
    """The fields of `expected` that are printed."""

    measures: dict[str, _Estimate]
    maturity: float | None = None


class ExplainingMessages:
    """Messages that explain: all incidents and alarms, and the newest metrics of each sequence.

    `periods` has by stream and model the newest whole period that is estimated.
    """

    def __init__(self) -> None:
        self.incidents = status.NewestIncidents()
        self.marks = IncidentMarks()
        self.alarms: dict[str, Alarm] = {}
        self.metrics: dict[tuple[str, str, str], Metrics] = {}
        self.periods: dict[tuple[str, str], expected.ExpectedPeriod] = {}
        self.unreadable = 0

    def add(self, value: bytes) -> None:
        """Store a message of any kind; ignore comparisons and dead letters."""
        try:
            fields = _fields_of(value)
            sort = next((sort for name, sort in _SORTS.items() if name in fields), None)
            if sort is None or "against" in fields:
                return
            self.put(converted(fields, sort))
        except Unreadable:
            self.unreadable += 1

    def put(self, message: object) -> None:
        """Store a decoded message; ignore one that explains nothing."""
        if isinstance(message, Incident):
            self.incidents.add(message)
        elif isinstance(message, Alarm):
            self.alarms[message.id] = message
        elif isinstance(message, IncidentMark):
            self.marks.add(message)
        elif isinstance(message, Metrics) and message.segment is None and message.stage != PERIOD:
            key = message.stream, message.model, f"{message.stage} {message.estimator}"
            self.metrics[key] = message
        elif isinstance(message, Metrics) and message.segment is None:
            self._put_period(message)

    def _put_period(self, message: Metrics) -> None:
        """Store a message about a whole period that is estimated, if it is the newest one of its model."""
        if not isinstance(message.period, dict) or not isinstance(message.expected, dict):
            return
        period, estimates = converted(message.period, _Period), converted(message.expected, _Expected)
        if estimates.maturity is None:
            return
        key = message.stream, message.model
        if key not in self.periods or self.periods[key].start <= period.start:
            whole = expected.expected_period(
                period.start, period.end, period.labelled_share, message.measures,
                message.expected["measures"],
            )  # fmt: skip
            if whole is not None:
                self.periods[key] = whole

    def newest(self) -> list[Incident]:
        """Return the newest message about each incident, in the order in which they opened."""
        return sorted(
            self.incidents, key=lambda incident: (incident.opened["ts"], incident.stream, incident.model)
        )

    def by_id(self, wanted: str) -> Incident:
        """Return the incident whose id begins so; raise WorkError if there is none, or are several."""
        matches = [
            incident for incident in self.newest() if _ID.fullmatch(wanted) and incident.id.startswith(wanted)
        ]
        if len(matches) != 1:
            why = f"{len(matches)} incidents' ids begin so" if matches else "there is no such incident"
            raise WorkError(f"{wanted!r}: {why}; {_named(matches or self.newest())}")
        return matches[0]

    def incident_at(self, stream: str, model: str, ts: int) -> Incident:
        """Return the incident of a model that was open at a label time (ms); raise WorkError without one."""
        of_model = [
            incident for incident in self.newest() if (incident.stream, incident.model) == (stream, model)
        ]
        matches = [
            incident
            for incident in of_model
            if incident.change_point["ts"] <= ts and (incident.status != "closed" or ts <= incident.ts)
        ]
        if not matches:
            raise WorkError(
                f"{stream}/{model} had no incident at {clock(ts)}; {_named(of_model or self.newest())}"
            )
        return matches[-1]


def _named(incidents: list[Incident]) -> str:
    if not incidents:
        return "no incident is known"
    newest = []
    for incident in incidents:
        point = incident.change_point
        began = f"outcome {point['outcome']:,}" if incident.untimed else clock(point["ts"])
        newest.append(f"{incident.id[:8]} {status.subject_of(incident)} since {began}")
    more = f" and {len(newest) - _NAMED} before" if len(newest) > _NAMED else ""
    return f"known: {', '.join(newest[: -_NAMED - 1 : -1])}{more}"


def explain(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    """Yield an explanation as lines of text under headings.

    They show since when the model is worse, by how much, what changed, and other models and baselines.
    """
    yield f"incident {incident.id}: {status.subject_of(incident)}, {incident.stage}, {incident.status}"
    yield from _titled("marked", _marked(messages, incident))
    yield from _titled("since", _since(incident))
    yield from _titled("how bad", _how_bad(messages, incident))
    yield from _titled("expected", _expected(messages, incident))
    causes = (_named_evidence(cause, untimed=bool(incident.untimed)) for cause in incident.causes)
    yield from _titled("what changed", (*causes, *_compared(incident)))
    incidents = messages.newest()
    models = {
        other_incident.model for other_incident in incidents if other_incident.stream == incident.stream
    }
    models |= {model for stream, model, _ in messages.metrics if stream == incident.stream}
    yield from _titled("other models", status.in_words(incident, incidents, models))
    yield from _titled("baselines", _baselines(incident))
    yield from _titled("noise", [status.noise_sentence(incident)])
    yield from _titled("inspect", [", ".join(map(printable, incident.examples)) or "no example is known"])
    yield from _titled("next", [status.next_step(incident)])
    yield from _titled("alarms", _alarms(messages, incident))


def _expected(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    """Yield what the model's newest whole period is expected to be, and which answer has been best so far."""
    period = messages.periods.get((incident.stream, incident.model))
    yield from expected.in_words(period, None, untimed=bool(incident.untimed))


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{title:<{_TITLE}}{line}"
        title = ""


#: Grades in words, with what became of such incidents on the real streams of `docs/understand/validation.md`.
_GRADES = {
    "possible": "possible: about half of such changes have passed within three days",
    "lasting": "lasting: later clusters have confirmed it",
}


def _marked(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    """Yield what a person has marked the incident as, and how many marked incidents were real."""
    mark = messages.marks.newest(incident.id)
    if mark is not None:
        note = f": {printable(mark.note)}" if mark.note else ""
        yield f"{mark.mark} by {printable(mark.by)}, {clock(mark.ts)}{note}"
        real, marked = messages.marks.precision()
        yield f"{real} of {marked} marked incidents are real"


def _since(incident: Incident) -> Iterator[str]:
    point, opened = incident.change_point, incident.opened
    yield f"outcome {point['outcome']:,}{_labels_of(incident, point)}"
    if not incident.untimed:
        since = point["prediction_ts"] // 1000 * 1000
        yield f"predictions made from about {clock(since)} on"
    later = opened["outcome"] - point["outcome"]
    yield f"noticed {later:,} outcomes later{_labels_of(incident, opened)}"


def _labels_of(incident: Incident, point: dict[str, int]) -> str:
    return "" if incident.untimed else f", labels of {clock(point['ts'])}"


def _how_bad(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    before, after = (_level(side, incident) for side in (incident.before, incident.after))
    yield f"{status.size_in_words(incident)} (expected to last)"
    if present := status.present_in_words(incident):
        yield present
    if isinstance(incident.grade, str):
        yield _GRADES.get(incident.grade, printable(incident.grade))
    yield (
        f"{status.level_name(incident)} {before} → {after}, severity {incident.severity:.2f} "
        "(0.2 is small, 0.8 is large)"
    )
    if incident.recovered is not msgspec.UNSET:
        back = incident.recovered
        moment_text = "" if incident.untimed else f", {clock(back['ts'])}"
        yield f"back within its earlier interval since outcome {back['outcome']:,}{moment_text}"
    for (stream, model, sequence), reading in sorted(messages.metrics.items()):
        if (stream, model) == (incident.stream, incident.model) and sequence.startswith(f"{incident.stage} "):
            name = next((name for name in measures.COMPARED if name in reading.measures), None)
            if name is not None:
                moment_text = f"outcome {reading.outcomes:,}" if reading.untimed else clock(reading.ts)
                value = reading.measures[name]
                shown = f"{100 * value:.1f}%" if name == "accuracy" else f"{value:.4g}"
                yield f"{name} now, {reading.estimator}: {shown} ({moment_text})"


def _level(side: dict[str, Any], incident: Incident) -> str:
    """Return a level with its interval: a share that is right, or else a mean loss."""
    ends = sorted(status.level(end, incident) or 0.0 for end in side["interval"])
    mean = status.level(side["level"], incident)
    low, value, high = (_shown(loss, incident) for loss in (ends[0], mean, ends[1]))
    return f"{value} ({low} to {high}, {side['n']:,} outcomes)"


def _shown(value: float | None, incident: Incident) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if status.is_share(incident) else f"{value:.3g}"


def evidence(cause: dict[str, Any], *, untimed: bool = False) -> str:
    """Return a cause, and the change behind it.

    >>> evidence({"cause": "class_ratio", "share": 0.9, "class": "b", "before": 0.1, "after": 0.5})
    'more of class b: 10% → 50% (90%), errors within classes unchanged'
    >>> evidence({"cause": "selection", "share": 0.8, "segment": "region=eu", "before": 0.7, "after": 0.2})
    'which predictions get labels (80%): of segment region=eu from 70% to 20%'
    >>> evidence({"cause": "segment", "share": 0.9, "segment": "region=us", "before": 0.2, "after": 0.7})
    'segment region=us (90%): from 20% to 70%'
    >>> evidence({"cause": "inputs", "share": 0.9, "confidence": {"before": 0.95, "after": 0.8}})
    'other inputs (90%): mean confidence from 95% to 80%'
    >>> evidence({"cause": "concept", "share": 0.6, "since": {"outcome": 2501, "ts": 0}})
    'concept (60%), since outcome 2,501, labels of 1970-01-01T00:00:00Z'
    """
    return f"{status.cause_in_words(cause)}{evidence_details(cause, untimed=untimed)}"


def evidence_details(cause: dict[str, Any], *, untimed: bool = False) -> str:
    """Return the change behind a cause, without its name and its share; "" if nothing more is known.

    >>> evidence_details({"cause": "segment", "segment": "region=us", "before": 0.2, "after": 0.7})
    ': from 20% to 70%'
    """
    sentence = ""
    if cause["cause"] != "class_ratio" and "before" in cause and "after" in cause:
        subject = "".join(
            f"of {kind} {printable(str(cause[kind]))} "
            for kind in ("class", "segment")
            if kind in cause and f"{kind}_share" not in cause and cause["cause"] != kind
        )
        sentence += f": {subject}from {100 * cause['before']:.0f}% to {100 * cause['after']:.0f}%"
    if "confidence" in cause:
        sure = cause["confidence"]
        sentence += f": mean confidence from {100 * sure['before']:.0f}% to {100 * sure['after']:.0f}%"
    if "other_models" in cause:
        other_models = cause["other_models"]
        sentence += f"; of {other_models['models']} other models {other_models['worse']} got worse at once"
    if "since" in cause:
        sentence += f", since outcome {cause['since']['outcome']:,}"
        sentence += "" if untimed else f", labels of {clock(cause['since']['ts'])}"
    for name in ("segment", "class"):
        if f"{name}_share" in cause:
            sentence += f"; {100 * cause[f'{name}_share']:.0f}% of it in {name} {printable(str(cause[name]))}"
    return sentence


def _named_evidence(cause: dict[str, Any], *, untimed: bool) -> str:
    """Return a cause under the name that it has in messages and in the documentation.

    >>> _named_evidence({"cause": "inputs", "share": 0.9}, untimed=False)
    'inputs: other inputs (90%)'
    >>> _named_evidence({"cause": "concept", "share": 0.6}, untimed=False)
    'concept (60%)'
    """
    details = evidence(cause, untimed=untimed)
    return details if details.startswith(f"{cause['cause']} (") else f"{cause['cause']}: {details}"


def _compared(incident: Incident) -> Iterator[str]:
    """Yield the outcomes that were compared, and how."""
    compared = incident.compared
    if compared is msgspec.UNSET:
        return
    (a, b), (c, d) = compared["before"], compared["after"]
    by = ", ".join(printable(name.replace("_", " ")) for name in compared["by"])
    yield f"compared, in whole clusters: outcomes {a:,} to {b:,} with {c:,} to {d:,}, by {by}"
    concept = any(cause["cause"] == "concept" for cause in incident.causes)
    if concept and "label" in compared["by"] and "confidence" not in compared["by"]:
        yield "without y_proba harder inputs look like concept drift"


def _baselines(incident: Incident) -> Iterator[str]:
    for name, levels in incident.baselines.items():
        before, after = (f"{100 * levels[side]:.0f}%" for side in ("before", "after"))
        yield f"{name} baseline right in {before} before, {after} after"
    ratio = incident.after.get("at_former_class_ratio")
    if ratio is not None:
        shown = _shown(status.level(ratio, incident), incident)
        yield f"at the earlier class distribution the model's {status.level_name(incident)} would be {shown}"
    if not incident.baselines and ratio is None:
        yield "none are known"


def _alarms(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    yield f"{incident.alarm_count:,}"
    for name in incident.alarms:
        alarm = messages.alarms.get(name)
        if alarm is not None:
            segment = f" {printable(alarm.segment)}" if alarm.segment else ""
            time_text = "" if alarm.untimed else f"{clock(alarm.ts)} "
            yield time_text + (expected.of_period(alarm) or (
                f"{alarm.stage}{segment} {alarm.detector} on {printable(alarm.signal)} at "
                f"outcome {alarm.outcome:,}: statistic {alarm.statistic:.4g}, threshold {alarm.threshold:g}"
            ))  # fmt: skip
    for signal in incident.signals:
        if signal["level"] == "warning":
            segment = f" {printable(signal['segment'])}" if signal["segment"] else ""
            yield (
                f"warning: {signal['stage']}{segment} {signal['detector']} on {printable(signal['signal'])} "
                f"at outcome {signal['outcome']:,}"
            )
