"""One model, one pair of models, one incident: all that is known of it, as what is sent to the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import msgspec
from prequential.core.measures.registry import LESS_IS_BETTER, LOSSES, MEASURES, NAMES, NOT_QUALITY
from prequential.dashboard.history import History, PairKey, Past
from prequential.dashboard.incidents import began
from prequential.dashboard.overview import incident_line, silent_line
from prequential.dashboard.series import Series
from prequential.settings.stages import shown_order
from prequential.topics.outputs import Incident
from prequential.watching.expected import expected_lines
from prequential.watching.messages import Notice
from prequential.watching.ranking import Ranking, measures_shown
from prequential.watching.state import Model, ModelKey, Sequence, coverage_of
from prequential.wording.comparing import contradicted, standing
from prequential.wording.expected import ASSUMPTION
from prequential.wording.incidents import cause_in_words
from prequential.wording.measures import COMPARED
from prequential.wording.neighbours import changed_with, unchanged
from prequential.wording.stages import stage_in_words

#: The name of the course of what became of predictions: no stage has it.
COVERAGE = "@coverage"

#: … and that of periods.
PERIODS = "@periods"

#: Stages whose courses are drawn into one another, and segments in a table: more can't be told apart.
_STAGES, _SEGMENTS = 6, 200

#: Marks on the time axis of each kind, and alarms in a list: the newest.
_MARKS, _ALARMS = 100, 100

#: Intervals that hold for one look, with this probability (see `docs/measures.md`).
_LEVEL = 0.95


class Absent(Exception):
    """Nothing is known of what was asked for; its text is a sentence."""


def model_page(
    history: History,
    key: ModelKey,
    estimator: str | None = None,
    segment: str | None = None,
    courses: Courses | None = None,
    now: int | None = None,
) -> dict[str, Any]:
    """A model: its courses in one estimator, by stages, and everything that is known of it now.

    `estimator` None, or one that there isn't any more: the one that the overview shows. `now` is epoch ms,
    None for files.
    Raises Absent for a model that isn't known.
    """
    courses = courses or Courses(history)
    model = history.models.get(key)
    if model is None:
        raise Absent(f"no message of model {key.model!r} on stream {key.stream!r} was seen")
    past = history.past.get(key, Past())
    row = Ranking(history).row(model)
    known_estimators = sorted({one.estimator for one in model.sequences})
    absent = None if estimator in (None, *known_estimators) else estimator
    if estimator is None or (absent is not None and row.sequence is not None):
        estimator = row.sequence.estimator if row.sequence is not None else "all"
    stages = _stages(one.stage for one in model.sequences if one.estimator == estimator)
    chosen = {stage: Sequence(segment, stage, estimator) for stage in stages}
    readings = {stage: history.reading(model.sequences.get(one)) for stage, one in chosen.items()}
    known = {name for one in readings.values() if one is not None for name in one.measures}
    objective = history.config.stream(key.stream).objective
    reading = row.reading
    return {
        "stream": key.stream,
        "model": key.model,
        "partition": key.partition,
        "split": key.stream in history.split,
        "heard": model.time,
        "untimed": model.untimed,
        "silent": None if (silence := history.silence(model, now)) is None else silent_line(silence),
        "ts": reading.ts if reading else None,
        "version": reading.model_version if reading else None,
        "version_since": reading.version_since if reading else None,
        "estimator": estimator,
        "segment": segment,
        # What was asked for, and has no messages, or has ended.
        "absent_estimator": absent,
        "estimators": known_estimators,
        "segments": sorted({one.segment for one in model.sequences if one.segment is not None})[:_SEGMENTS],
        "stages": stages,
        "same": {stage: list(one.same) for stage, one in readings.items() if one is not None and one.same},
        "measures": [name for name in measures_shown(known, None) if name in known],
        "not_quality": [name for name in NOT_QUALITY if name in known],
        "less_is_better": [name for name in LESS_IS_BETTER if name in known],
        "references": _references(known),
        "beside": _beside(known),
        "level": _LEVEL,
        "objective": dict(objective.bounds) if objective else {},
        "series": {
            stage: courses.course(stage, past.series.get(one))
            for stage, one in chosen.items()
            if readings[stage] is not None
        },
        "now": _now(history, model),
        "undefined": {stage: one.undefined for stage, one in readings.items() if one is not None},
        "counts": reading.counts if reading else {},
        "coverage": coverage_of(model),
        "coverage_series": courses.course(COVERAGE, past.coverage),
        "period_series": courses.course(PERIODS, past.periods),
        "before_labels": {"lines": expected_lines(model), "assumption": ASSUMPTION},
        "marks": _marks(history, key, past),
        "alarms": [_alarm(one) for one in list(past.alarms)[-_ALARMS:][::-1]],
        "incidents": [
            incident_line(one) for one in history.incidents.of_model(key.stream, key.model, key.partition)
        ],
        "pairs": _pairs(history, key),
        "segment_rows": _segment_rows(history, model, row.sequence),
    }


class Courses:
    """Courses as they are sent: whoever asks again through the same object gets what is new."""

    def __init__(self, history: History) -> None:
        self._history = history
        #: By name: which series it was, how often points had gone from it, and how many were sent.
        self._sent: dict[str, tuple[Series, int, int]] = {}

    def course(self, name: str, series: Series | None) -> dict[str, Any]:
        """The points of a course, column by column, from number `from` on: those before it were sent.

        `t` is epoch ms, `outcomes` the sequence's by then, `values` numbers by name.
        """
        if series is None:
            return {"from": 0, "t": [], "outcomes": [], "values": {}}
        self._history.within(series)
        sent, generation, start = self._sent.get(name, (None, 0, 0))
        if sent is not series or generation != series.generation:
            start = 0
        self._sent[name] = series, series.generation, series.size
        return {
            "from": start,
            "t": series.times(start),
            "outcomes": series.outcomes(start),
            "values": {value: series.values(value, start) for value in series.names},
        }


def pair_page(history: History, about: PairKey, courses: Courses | None = None) -> dict[str, Any]:
    """Two models: the difference of their losses over time, with the verdict, as it is sent in JSON.

    Of `about` the estimator doesn't matter. Raises Absent if not known.
    """
    courses = courses or Courses(history)
    pairs = [
        pair
        for pair in history.pairs(about.stream, about.partition)
        if (pair.model, pair.against, pair.segment, pair.loss)
        == (about.model, about.against, about.segment, about.loss)
        and about.stage in (pair.stage, *pair.same)
    ]
    if not pairs:
        raise Absent(f"no comparison of {about.model!r} with {about.against!r} on {about.stream!r} was seen")
    [pair] = pairs
    about = about._replace(stage=pair.stage)
    rows = [
        one for one in history.comparisons(about.stream, about.partition) if one[:7] == about[:7]
    ]  # of each estimator
    return {
        **about._asdict(),
        "same": pair.same,
        "split": about.stream in history.split,
        "estimators": [one.estimator for one in rows],
        "outcomes": pair.outcomes,
        "ts": pair.ts,
        "untimed": pair.untimed,
        "difference": pair.difference,
        "interval": pair.interval,
        "level": pair.level,
        "verdict": pair.verdict,
        "since": pair.since,
        "latest": pair.latest,
        "recent": pair.recent,
        "contradicted": contradicted(pair),
        "sentence": standing(pair),
        "series": {one.estimator: courses.course(one.estimator, history.pair_series[one]) for one in rows},
        "others": [
            _pair_line(one)
            for one in history.pairs(about.stream, about.partition)
            if {one.model, one.against} & {about.model, about.against}
        ],
        "marks": [
            {**mark, "text": f"{name}: {mark['text']}"}
            for name in dict.fromkeys((about.model, about.against))
            for key in [ModelKey(about.stream, name, about.partition)]
            for mark in _marks(history, key, history.past.get(key, Past()))
            if mark["kind"] != "alarm"
        ],
    }


def incident_page(history: History, identifier: str, courses: Courses | None = None) -> dict[str, Any]:
    """An incident, in the order in which somebody asks who was woken up. Raises Absent if not known."""
    courses = courses or Courses(history)
    one = history.incidents.find(identifier)
    if one is None:
        raise Absent(f"no incident {identifier!r} was seen")
    key = ModelKey(one.stream, one.model, one.partition)
    past = history.past.get(key, Past())
    its_alarms = set(one.alarms)
    first = one.change_point["outcome"]
    before = [alarm for alarm in past.alarms if alarm.outcome < first and alarm.id not in its_alarms]
    model = history.models.get(key)
    sequence = Ranking(history).row(model).sequence if model is not None else None
    series = past.series.get(sequence._replace(stage=one.stage)) if sequence is not None else None
    together = changed_with(one, history.incidents.all())
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
        "before": one.before,
        "after": one.after,
        "causes": [{**cause, "words": cause_in_words(cause)} for cause in one.causes],
        "baselines": one.baselines,
        "signals": one.signals,
        "alarms": [_alarm(alarm) for alarm in past.alarms if alarm.id in its_alarms][::-1],
        "noise": _noise(before),
        "alarm_count": one.alarm_count,
        "former_alarms": one.former_alarms,
        "incidents_before": [
            incident_line(other)
            for other in history.incidents.of_model(one.stream, one.model, one.partition)
            if other.id != one.id and began(other) <= began(one)
        ][:_ALARMS],
        "examples": one.examples,
        "estimator": sequence.estimator if sequence is not None else None,
        "series": {one.stage: courses.course(one.stage, series)},
        "measure": next((name for name in COMPARED if series and name in series.names), None),
        "marks": _marks(history, key, past),
    }


def incident_list(history: History) -> list[dict[str, Any]]:
    """All incidents that are kept, the open ones first."""
    return [incident_line(one) for one in history.incidents.all()]


def _stages(names: Iterable[str]) -> list[str]:
    """Stages as they are told apart: `final` first, then `initial`, then ages; bins where there is room."""
    return sorted(set(names), key=shown_order)[:_STAGES]


def _references(known: Set[str]) -> dict[str, dict[str, Any]]:
    """By measure: the value that is no better than a reference, and words for it."""
    return {
        one.name: {"y": 0, "text": f"0: no better than {one.reference.name}"}
        for one in MEASURES.values()
        if one.name in known and one.quality and one.reference is not None
    }


def _beside(known: Set[str]) -> dict[str, list[dict[str, Any]]]:
    """By measure that is the share of what is right, or 1 less it: baselines' accuracies, to draw beside."""
    baselines = [
        (one.name, one.reference)
        for one in MEASURES.values()
        if one.name in known and not one.quality and one.reference is not None and one.needs_label
    ]
    return {
        name: [
            {"measure": measure, "name": line.name, "short": line.short, "one_less": not loss.one_less}
            for measure, line in baselines
        ]
        for name, loss in LOSSES.items()
        if name in known and loss.signal == "error"
    }


def _now(history: History, model: Model) -> list[dict[str, Any]]:
    """The newest values of each stage and estimator of the stream as a whole."""
    rows = []
    for sequence, newest in sorted(model.sequences.items(), key=lambda one: one[0][1:]):
        reading = history.reading(newest)
        if sequence.segment is None and reading is not None:
            rows.append({
                "stage": stage_in_words(sequence.stage, reading.same),
                "estimator": sequence.estimator,
                "n": reading.n,
                "outcomes": reading.outcomes,
                "started_empty": reading.started_empty,
                "values": _in_order(reading.measures),
                "intervals": reading.intervals,
            })  # fmt: skip
    return rows


def _segment_rows(history: History, model: Model, shown: Sequence | None) -> list[dict[str, Any]]:
    if shown is None:
        return []
    rows = []
    for sequence, newest in model.sequences.items():
        reading = history.reading(newest)
        if sequence.segment is not None and sequence[1:] == shown[1:] and reading is not None:
            rows.append({
                "segment": sequence.segment, "n": reading.n, "outcomes": reading.outcomes,
                "values": _in_order(reading.measures),
            })  # fmt: skip
    return sorted(rows, key=lambda row: str(row["segment"]))[:_SEGMENTS]


def _in_order(measures: Mapping[str, float]) -> dict[str, float]:
    known = [name for name in NAMES if name in measures]
    return {name: measures[name] for name in [*known, *(measures.keys() - set(known))]}


def _marks(history: History, key: ModelKey, past: Past) -> list[dict[str, Any]]:
    """What happened to a model, on the axes of its courses: time (epoch ms) and outcomes."""
    marks: list[dict[str, Any]] = [
        {"kind": "version", "t": one.ts, "outcome": one.since, "text": f"version {one.name}"}
        for one in list(past.versions)[-_MARKS:]
        if one.since > 1  # the first one was there from the start
    ]
    for alarm in list(past.alarms)[-_MARKS:]:
        where = "" if alarm.segment is None else f" {alarm.segment}"
        marks.append({
            "kind": "alarm", "t": alarm.ts, "outcome": alarm.outcome, "stage": alarm.stage,
            "segment": alarm.segment,
            "text": f"{alarm.detector} on {alarm.signal}, {alarm.stage}{where}",
        })  # fmt: skip
    for one in history.incidents.of_model(key.stream, key.model, key.partition)[:_MARKS]:
        marks += _incident_marks(one)
    return sorted(marks, key=lambda mark: (mark["t"], mark["outcome"]))


def _incident_marks(one: Incident) -> Iterable[dict[str, Any]]:
    places = [(one.change_point, "incident begins")]
    if one.recovered is not msgspec.UNSET:
        places.append((one.recovered, "recovered"))
    for place, text in places:
        yield {
            "kind": "incident", "t": place["ts"], "outcome": place["outcome"], "text": text, "id": one.id,
            "stage": one.stage,
        }  # fmt: skip


def _alarm(alarm: Notice) -> dict[str, Any]:
    return {
        "id": alarm.id, "ts": None if alarm.untimed else alarm.ts,
        "stage": stage_in_words(alarm.stage, alarm.same),
        "segment": alarm.segment,
        "detector": alarm.detector, "signal": alarm.signal, "outcome": alarm.outcome,
        "instance_id": alarm.instance_id, "statistic": alarm.statistic, "threshold": alarm.threshold,
    }  # fmt: skip


def _noise(alarms: Iterable[Notice]) -> list[dict[str, Any]]:
    """Alarms by detector, signal and stage, the most first."""
    counts: dict[tuple[str, str, str], int] = {}
    for alarm in alarms:
        watch = alarm.detector, alarm.signal, alarm.stage
        counts[watch] = counts.get(watch, 0) + 1
    return [
        {"detector": detector, "signal": signal, "stage": stage, "count": count}
        for (detector, signal, stage), count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]


def _pairs(history: History, key: ModelKey) -> list[dict[str, Any]]:
    return [
        _pair_line(pair)
        for pair in history.pairs(key.stream, key.partition)
        if key.model in (pair.model, pair.against)
    ]


def _pair_line(pair: Any) -> dict[str, Any]:
    return {
        "stream": pair.stream, "partition": pair.partition, "model": pair.model, "against": pair.against,
        "segment": pair.segment, "stage": pair.stage, "same": pair.same, "loss": pair.loss,
        "verdict": pair.verdict, "contradicted": contradicted(pair), "sentence": standing(pair),
    }  # fmt: skip
