"""Return the page of one model as JSON: its headline values, curves, calibration of probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
from prequential.configuration.settings.stages import shown_order
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.details import curves
from prequential.engine.measures import registry
from prequential.views.dashboard.courses import COVERAGE, PERIODS, Absent, Courses, looks_of
from prequential.views.dashboard.incident import events_of
from prequential.views.dashboard.overview import silent_line
from prequential.views.dashboard.pair import pair_lines
from prequential.views.state import ranking
from prequential.views.state.best import best_sentences
from prequential.views.state.history import History, Past, newest_coverage, newest_point
from prequential.views.state.newest import (
    ModelKey,
    ModelState,
    SequenceName,
    coverage_of,
    expected_lines,
    newest_period,
)
from prequential.views.state.readings import Reading
from prequential.views.state.statuses import Statuses, Verdicts, pending, story
from prequential.views.state.thresholds import histogram, threshold_of, with_area
from prequential.views.wording import comparing, status
from prequential.views.wording.expected import ASSUMPTION, NO_INTERVAL, lost_to_in_words
from prequential.views.wording.measures import baseline_references, stage_in_words
from prequential.views.wording.periods import period_name

#: Significant digits of drawn values.
_DIGITS = 5

#: The current threshold: a model for two classes predicts the more probable one.
PRESENT = 0.5


def costs_of(settings: StreamConfig) -> curves.Costs | None:
    """Return a stream's configured costs; None if a histogram of scores does not determine them."""
    if settings.cost_per_value:
        return None
    return curves.configured_costs(settings.costs, settings.positive_class)


def curves_of(score_histogram: curves.Histogram, costs: curves.Costs | None = None) -> dict[str, Any]:
    """Return the curves of a histogram: reliability, and by threshold recall, precision and more.

    Returns
    -------
    dict
        `positives` and `negatives` are the numbers of outcomes with a score. `reliability` contains rows of
        mean score, share of positives and outcomes. `thresholds` are in descending order, with `recall`,
        `precision` and `false_positive_rate`, each None if it is undefined. `present` is the place of the
        current threshold among them. `costs` contains the mean cost at each threshold (`mean`) and the fields
        of `BestThreshold`; it is None without costs.
    """
    curve_points = curves.points(score_histogram)
    diagram = curves.reliability(score_histogram)
    return {
        "costs": None
        if costs is None
        else _costs_at([point.threshold for point in curve_points], score_histogram, costs),
        "positives": float(sum(score_histogram.positives.tolist())),
        "negatives": float(sum(score_histogram.negatives.tolist())),
        "ece": cut(diagram.ece),
        "reliability": [
            [cut(bin_.mean_score), cut(bin_.share_positive), cut(bin_.outcomes)] for bin_ in diagram.bins
        ],
        "thresholds": [cut(point.threshold) for point in curve_points],
        "recall": [cut(point.recall) for point in curve_points],
        "precision": [cut(point.precision) for point in curve_points],
        "false_positive_rate": [cut(point.false_positive_rate) for point in curve_points],
        # Thresholds of equal results are listed once, by the highest of them.
        "present": max(index for index, point in enumerate(curve_points) if point.threshold >= PRESENT),
    }


def _costs_at(
    thresholds: list[float], score_histogram: curves.Histogram, costs: curves.Costs
) -> dict[str, Any]:
    """Return the mean cost at these thresholds, and the best threshold."""
    threshold_indices, best = (
        np.searchsorted(curves.THRESHOLDS, thresholds),
        curves.best_threshold(score_histogram, costs, PRESENT),
    )
    best_values = {
        name: [cut(end) for end in value] if isinstance(value, tuple) else cut(value)
        for name, value in best._asdict().items()
        if name != "better_since"  # the dashboard keeps no earlier histograms
    }
    return {
        "mean": [
            cut(value) for value in curves.mean_costs(score_histogram, costs)[threshold_indices].tolist()
        ],
        **best_values,
    }


def cut(value: float | None) -> float | None:
    """Round a number to the digits that are drawn."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


#: The number of measures with a card in any case, and those that come behind the first one if they have a
#: value: of the positive class, or else means over classes.
_MEASURES = 3
_HEADLINES = (
    ("precision", "macro_precision"), ("recall", "macro_recall"), ("f1", "macro_f1"), ("auc", "auc"),
)  # fmt: skip


def cards_of(
    model: ModelState, reading: Reading | None, whole: Reading | None = None, zone: str = "UTC"
) -> list[dict[str, Any]]:
    """Return the headline values of a reading, then the expected value and the label latency, as JSON.

    `whole` is the reading over the whole run, whose values stand beside the latest ones; `zone` is that of
    periods.
    """
    cards = [*_measures(reading, whole)] if reading is not None else []
    trust = trust_of(model, reading)
    for card in cards:
        card["trust"] = trust
    return [*cards, *_expected(model, zone), *_latency(model)]


def trust_of(model: ModelState, reading: Reading | None) -> dict[str, Any]:
    """Return what a headline value rests on: share labelled, newest label (epoch ms), pending predictions."""
    coverage: dict[str, Any] = coverage_of(model)
    labelled = coverage.get("labelled") or {}
    return {
        "labelled": labelled.get("horizon"), "waiting": pending(model),
        "newest": None if reading is None or model.untimed else reading.ts,
    }  # fmt: skip


def _measures(reading: Reading, whole: Reading | None) -> Iterator[dict[str, Any]]:
    values = with_area(reading)
    of_all = {} if whole is None or whole.n == reading.n else with_area(whole)
    for name in _headlines(values):
        less = name in registry.LESS_IS_BETTER
        rows: list[dict[str, Any]] = []
        if name in of_all:
            rows.append(
                {"name": "whole run", "value": of_all[name], "difference": values[name] - of_all[name]}
            )
        rows += [
            {"name": "reference", "value": comparison.reference, "difference": comparison.difference}
            for comparison in comparing.referred(reading.reference)
            if comparison.measure == name
        ]
        rows += status.references(values, name)
        yield {
            "kind": "measure", "name": name, "value": values[name], "n": reading.n,
            "interval": reading.intervals.get(name),
            "rows": [
                {**row, "worse": row["difference"] > 0 if less else row["difference"] < 0} for row in rows
            ],
        }  # fmt: skip


def _headlines(values: Mapping[str, float]) -> list[str]:
    """Return the measures with a card: the main one, those of classes, then the others."""
    declared = registry.MEASURES
    quality_names = {name for name in values if name in declared and declared[name].quality}
    shown = ranking.measures_shown(quality_names, None) if quality_names else []
    if {"accuracy", "error"} <= quality_names:
        shown = [name for name in shown if name != "error"]
    of_classes = [next((name for name in names if name in quality_names), None) for names in _HEADLINES]
    return list(dict.fromkeys(
        [*shown[:1], *(name for name in of_classes if name is not None), *shown[1:_MEASURES]]
    ))  # fmt: skip


def _expected(model: ModelState, zone: str) -> Iterator[dict[str, Any]]:
    """Yield the expected value of the newest whole period, or its final value."""
    period = newest_period(model)
    if period is None:
        return
    is_final = period.final is not None
    value = period.final if is_final else period.expected
    if value is not None:
        yield {
            "kind": "expected", "name": period.measure, "value": value, "interval": period.interval,
            "final": is_final, "start": period.start, "end": period.end, "labelled": period.labelled_share,
            "so_far": None if is_final else period.labelled_so_far,
            "period": period_name(period.start, period.end, zone, untimed=model.untimed),
            "no_interval": NO_INTERVAL, "lost_to": lost_to_in_words(period.lost_to),
        }  # fmt: skip


def _latency(model: ModelState) -> Iterator[dict[str, Any]]:
    coverage: dict[str, Any] = coverage_of(model)
    latency = coverage.get("recent_label_latency_ms") or coverage.get("label_latency_ms") or {}
    if "p50" in latency:
        yield {
            "kind": "latency", "value": latency["p50"], "p90": latency.get("p90"),
            "labelled": (coverage.get("labelled") or {}).get("horizon"), "waiting": coverage.get("waiting"),
        }  # fmt: skip


#: The largest numbers of stages in one chart, and of segments in a table: a reader cannot distinguish more.
_STAGES, _SEGMENTS = 6, 200

#: The level of intervals that are valid for one look (see `docs/reference/measures.md`).
_LEVEL = 0.95


def _stages_of(model: ModelState, estimator: str) -> list[str]:
    """Return the stages that are shown: `final`, `initial`, ages, then bins if there is room."""
    stages = {sequence.stage for sequence in model.sequences if sequence.estimator == estimator}
    return sorted(stages, key=shown_order)[:_STAGES]


def _segments_of(model: ModelState) -> list[str]:
    """Return the segments that can be chosen."""
    segments = {sequence.segment for sequence in model.sequences if sequence.segment is not None}
    return sorted(segments)[:_SEGMENTS]


def _by_stage(
    readings: Mapping[str, Reading], past: Past, chosen: Mapping[str, SequenceName], courses: Courses
) -> dict[str, dict[str, Any]]:
    """Return what a model's page shows of each stage: the same stages, its course, and what is undefined."""
    return {
        "same": {stage: list(reading.same) for stage, reading in readings.items() if reading.same},
        "series": {
            stage: courses.course(stage, past.series.get(chosen[stage]), newest_point(reading))
            for stage, reading in readings.items()
        },
        "undefined": {stage: reading.undefined for stage, reading in readings.items()},
    }


def model_page(
    history: History,
    key: ModelKey,
    estimator: str | None = None,
    segment: str | None = None,
    courses: Courses | None = None,
    now: int | None = None,
) -> dict[str, Any]:
    """Return a model's page: its courses by stage for one estimator, and its current state.

    If `estimator` is None or no longer exists, the page shows the estimator of the overview. `now` is in
    epoch ms, None for files. Raises Absent for an unknown model.
    """
    courses = courses or Courses(history)
    model = history.models.get(key)
    if model is None:
        raise Absent(f"no message of model {key.model!r} on stream {key.stream!r} was seen")
    past = history.past.get(key, Past())
    row = ranking.Ranking(history).row(model)
    known_estimators = sorted({sequence.estimator for sequence in model.sequences})
    # The requested estimator, if it has no messages or has ended.
    absent = None if estimator in (None, *known_estimators) else estimator
    if estimator is None or (absent is not None and row.sequence is not None):
        estimator = row.sequence.estimator if row.sequence is not None else "all"
    stages = _stages_of(model, estimator)
    chosen = {stage: SequenceName(segment, stage, estimator) for stage in stages}
    readings = {stage: history.reading(model.sequences.get(name)) for stage, name in chosen.items()}
    readings_by_stage = {
        stage: stage_reading for stage, stage_reading in readings.items() if stage_reading is not None
    }
    measure_names = {name for stage_reading in readings_by_stage.values() for name in stage_reading.measures}
    settings = history.config.stream(key.stream)
    objective, zone = settings.objective, settings.period_zone
    events = events_of(history, key)
    silence = history.silence(model, now)
    known_status = Statuses(history, Verdicts(history), now is not None).as_json(
        row, now or history.newest_ts
    )
    tables = _tables(history, model, row.sequence, segment, stages)
    return {
        **key._asdict(),
        "split": key.stream in history.split,
        "heard": model.time,
        "untimed": model.untimed,
        "silent": None if silence is None else silent_line(silence),
        "status": known_status,
        "better": Verdicts(history).better_than(key),
        "story": story(history, row, known_status),
        "cards": cards_of(
            model, readings[stages[0]] if stages else None, _whole(history, model, segment, stages), zone
        ),
        "look": looks_of(history.models, key.stream_partition).get(key.model, 0),
        "since_start": past.first or None,
        **_newest(row.reading),
        "estimator": estimator,
        "segment": segment,
        "absent_estimator": absent,
        "estimators": known_estimators,
        "segments": _segments_of(model),
        "stages": stages,
        **_by_stage(readings_by_stage, past, chosen, courses),
        **_about_measures(measure_names),
        "objective": dict(objective.bounds) if objective else {},
        "coverage": coverage_of(model),
        "coverage_series": courses.course(COVERAGE, past.coverage, newest_coverage(past, model)),
        "period_series": courses.course(PERIODS, past.periods),
        "before_labels": {"lines": expected_lines(model, zone), "assumption": ASSUMPTION},
        **events._asdict(),
        "totals": {**events.totals, "segments": len(tables["segment_rows"])},
        **_compared(history, key),
        **tables,
        "segment_rows": tables["segment_rows"][:_SEGMENTS],
    }


def _compared(history: History, key: ModelKey) -> dict[str, Any]:
    """Return a model's pairs, and which of the stream's models may be the best."""
    return {
        "pairs": pair_lines(history, key.stream, key.partition, key.model),
        "best_models": best_sentences(history, key.stream_partition),
    }


def _whole(history: History, model: ModelState, segment: str | None, stages: list[str]) -> Reading | None:
    """Return the reading over the whole run, of the first of these stages."""
    names = [SequenceName(segment, stage, comparing.WHOLE) for stage in stages[:1]]
    return next((history.reading(model.sequences.get(name)) for name in names), None)


def _tables(
    history: History,
    model: ModelState,
    shown: SequenceName | None,
    segment: str | None,
    stages: list[str],
) -> dict[str, Any]:
    """Return the newest values of all sequences and segments, and details of the first stage's estimators."""
    readings = {
        name: reading
        for name, newest in model.sequences.items()
        if (reading := history.reading(newest)) is not None
    }
    names = [name for name in readings if name.segment is None]
    names.sort(key=lambda name: (name.stage, name.estimator))
    whole = {name: readings[name] for name in names}
    memories = [
        (name.estimator, sequence_reading)
        for name, sequence_reading in readings.items()
        if name.segment == segment and name.stage in stages[:1]
    ]
    segment_rows = [
        {
            "segment": name.segment,
            "n": sequence_reading.n,
            "outcomes": sequence_reading.outcomes,
            "values": _in_order(sequence_reading.measures),
        }
        for name, sequence_reading in readings.items()
        if shown is not None and name.segment is not None and name.of_whole == shown.of_whole
    ]
    return {
        "now": [
            {
                "stage": stage_in_words(name.stage, sequence_reading.same),
                "estimator": name.estimator,
                "n": sequence_reading.n,
                "outcomes": sequence_reading.outcomes,
                "started_empty": sequence_reading.started_empty,
                "values": _in_order(sequence_reading.measures),
                "intervals": sequence_reading.intervals,
            }
            for name, sequence_reading in whole.items()
        ],
        "reference_rows": [
            {"estimator": name.estimator, **comparison._asdict(), "differs": comparison.differs}
            for name, sequence_reading in whole.items()
            for comparison in comparing.referred(sequence_reading.reference)
        ],
        "segment_rows": sorted(segment_rows, key=lambda row: str(row["segment"])),
        "probabilities": _probabilities(memories, history.config.stream(model.key.stream)),
        "residuals": {
            name: [[cut(value) for value in decile] for decile in deciles]
            for name, sequence_reading in memories
            if (deciles := curves.deciles_in(sequence_reading.residuals))
        },
        "mistakes": {
            name: {
                "n": sequence_reading.n,
                "confusion": sequence_reading.confusion,
                "per_class": sequence_reading.per_class,
            }
            for name, sequence_reading in memories
            if sequence_reading.confusion or sequence_reading.per_class
        },
    }


def _newest(reading: Reading | None) -> dict[str, Any]:
    return {
        "outcomes": reading.outcomes if reading else None,
        "ts": reading.ts if reading else None,
        "version": reading.model_version if reading else None,
        "version_since": reading.version_since if reading else None,
        "counts": reading.counts if reading else {},
    }


def _about_measures(known_names: Set[str]) -> dict[str, Any]:
    """Return the measures in the order in which they are shown, and how to read their values."""
    return {
        "measures": [name for name in ranking.measures_shown(known_names, None) if name in known_names],
        "not_quality": [name for name in registry.NOT_QUALITY if name in known_names],
        "less_is_better": [name for name in registry.LESS_IS_BETTER if name in known_names],
        # By measure the value that equals its reference, and a text for it.
        "references": {
            reference.name: {
                "y": 0,
                "text": f"0: no better than {reference.reference.name}",
                "short": reference.reference.short,
            }
            for reference in registry.MEASURES.values()
            if reference.name in known_names and reference.quality and reference.reference is not None
        },
        # The baselines' accuracies to draw with a measure, if it is accuracy or 1 minus accuracy.
        "baselines": {
            name: [
                {
                    "measure": reference.measure,
                    "name": reference.line.name,
                    "short": reference.line.short,
                    "one_less": reference.one_less,
                }
                for reference in lines
                if reference.measure in known_names
            ]
            for name in known_names
            if (lines := baseline_references(name))
        },
        "level": _LEVEL,
    }


def _in_order(measures: Mapping[str, float]) -> dict[str, float]:
    names = [*(name for name in registry.NAMES if name in measures), *measures]
    return {name: measures[name] for name in dict.fromkeys(names)}


def _probabilities(memories: list[tuple[str, Reading]], settings: StreamConfig) -> dict[str, dict[str, Any]]:
    """Return curves of the histogram of scores, and measures, for each estimator."""
    curves_by_estimator = {}
    for name, reading in memories:
        score_histogram = histogram(reading.scores) if reading.scores else None
        if score_histogram is not None:
            values = with_area(reading)
            decides = threshold_of(reading, settings)
            curves_by_estimator[name] = {
                "n": reading.n, **curves_of(score_histogram, costs_of(settings)),
                "values": {area: values[area] for area in ("auc", "pr_auc") if area in values},
                "cost": reading.measures.get("cost"),
                "decides": None if decides is None else cut(decides.threshold),
            }  # fmt: skip
    return curves_by_estimator
