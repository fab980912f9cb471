"""The explanation of an incident, in the order in which an engineer on call needs the facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from prequential.topics.dead_letters import clock
from prequential.topics.errors import WorkError, printable
from prequential.topics.foreign_json import Unreadable
from prequential.topics.outputs import Incident
from prequential.views.state.newest import (
    ModelKey,
    ModelState,
    NewestMessages,
    StreamPartition,
    newest_period,
)
from prequential.views.state.output_records import record_of
from prequential.views.state.readings import Notice
from prequential.views.wording import expected, measures, status
from prequential.views.wording.evidence import named_evidence

#: Incidents that are named if the requested one does not exist.
_NAMED = 5

#: Columns of a line's title.
_TITLE = 14

#: Hex digits of an incident's id that identify it.
_ID = re.compile("[0-9a-f]{4,32}")


class ExplainingMessages(NewestMessages):
    """The newest messages, with all incidents, and all alarms by their ids."""

    def __init__(self) -> None:
        super().__init__(most_incidents=None)
        self.alarms: dict[str, Notice] = {}

    def add(self, value: bytes) -> None:
        """Store a message of any topic; ignore dead letters."""
        try:
            record = record_of(value)
        except Unreadable:
            self.unreadable += 1
            return
        if record is not None:
            self.update(*record)

    def _alarmed(self, model: ModelState, alarm: Notice) -> None:
        self.alarms[alarm.id] = alarm

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
    causes = (named_evidence(cause, untimed=bool(incident.untimed)) for cause in incident.causes)
    yield from _titled("what changed", (*causes, *_compared(incident)))
    incidents = messages.newest()
    stream_partition = StreamPartition(incident.stream, incident.partition)
    models = {key.model for key in messages.models if key.stream_partition == stream_partition}
    yield from _titled("other models", status.in_words(incident, incidents, models))
    yield from _titled("baselines", _baselines(incident))
    yield from _titled("noise", [status.noise_sentence(incident)])
    yield from _titled("inspect", [", ".join(map(printable, incident.examples)) or "no example is known"])
    yield from _titled("next", [status.next_step(incident)])
    yield from _titled("alarms", _alarms(messages, incident))


def _expected(messages: ExplainingMessages, incident: Incident) -> Iterator[str]:
    """Yield what the model's newest whole period is, or is expected to be, and the best answer so far."""
    model = messages.models.get(ModelKey(incident.stream, incident.model, incident.partition))
    yield from expected.in_words(
        None if model is None else newest_period(model), None, untimed=bool(incident.untimed)
    )


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
    model = messages.models.get(ModelKey(incident.stream, incident.model, incident.partition))
    sequences = {} if model is None else model.sequences
    for sequence in sorted(sequences, key=lambda sequence: sequence.estimator):
        if (sequence.segment, sequence.stage) != (None, incident.stage):
            continue
        reading = messages.reading(sequences[sequence])
        name = None if reading is None else measures.main_measure(reading.measures)
        if reading is not None and name is not None:
            moment_text = f"outcome {reading.outcomes:,}" if reading.untimed else clock(reading.ts)
            value = reading.measures[name]
            shown = f"{100 * value:.1f}%" if name == "accuracy" else f"{value:.4g}"
            yield f"{name} now, {sequence.estimator}: {shown} ({moment_text})"


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
