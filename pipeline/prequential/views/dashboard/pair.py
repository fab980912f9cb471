"""Return the comparison of two models as the page's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prequential.engine.measures.registry import LESS_IS_BETTER, NAMES, NOT_QUALITY
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.history import History, PairKey
from prequential.views.dashboard.incident import events_of
from prequential.views.dashboard.overview import silent_line
from prequential.views.dashboard.promotion import Promotion
from prequential.views.dashboard.status import better_now
from prequential.views.watching.ranking import Ranking, is_baseline, measures_shown
from prequential.views.watching.state import ModelKey, SequenceName, coverage_of, expected_lines
from prequential.views.wording.comparing import (
    A_LEADS,
    B_LEADS,
    WHOLE,
    Pair,
    contradicted,
    leader_name,
    promotion_reason,
    standing,
)

#: Measures of the calibration of probabilities.
_CALIBRATION = ("log_loss", "brier", "ece")

#: The largest number of other measures that are shown.
_MEASURES = 8


def pair_page(
    history: History, about: PairKey, courses: Courses | None = None, now: int | None = None
) -> dict[str, Any]:
    """Return the page of two models as JSON: the difference of their losses over time, and the verdict.

    The page also shows whether one may replace the other, the verdicts by segment and loss, and each model's
    measures, coverage and expected values. `now` is in epoch ms, None for files. The estimator of `about` is
    ignored. Raises Absent for an unknown comparison.
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
    promotions = list(_promotions(history, about))
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
        "series": {
            one.estimator: courses.course(
                one.estimator, history.pair_series[one], history.pair_newest.get(one)
            )
            for one in rows
        },
        "champion": history.config.stream(about.stream).champion,
        "promotions": promotions,
        "question": _question(pair, promotions),
        "segments": [_standing(one) for one in _alike(history, about, "loss") if one.segment is not None],
        "losses": [_standing(one) for one in _alike(history, about, "segment") if one.loss != about.loss],
        "calibration": _CALIBRATION,
        "less_is_better": list(LESS_IS_BETTER),
        "not_quality": list(NOT_QUALITY),
        "models": [_side(history, about, name, now) for name in dict.fromkeys((about.model, about.against))],
        "others": [
            one for one in pair_lines(history, about.stream, about.partition, about.model, about.against)
            if {one["model"], one["against"]} != {about.model, about.against}
            or about.stage not in (one["stage"], *one["same"])
        ],
        **_events(history, about),
    }  # fmt: skip


def _promotions(history: History, about: PairKey) -> Iterator[dict[str, Any]]:
    """Yield whether a model may replace the other, as in `report --promote`, but never for a champion."""
    champion = history.config.stream(about.stream).champion
    names = (about.model, about.against)
    if about.model == about.against or any(map(is_baseline, names)):
        return
    for challenger, other in (names[::-1], names):
        if champion in names and challenger == champion:
            continue
        key = ModelKey(about.stream, challenger, about.partition)
        answers = list(Promotion(challenger, other).of_stream(history, key))
        yield {
            "model": challenger, "champion": other, "allowed": not any(one.failed for one in answers),
            "answers": [one._asdict() for one in answers],
        }  # fmt: skip


def _question(pair: Pair, promotions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the question that the page answers: whether the model that is ahead may replace the other.

    A champion is never the challenger. Returns None for a pair with a baseline.
    """
    if not promotions:
        return None
    latest = pair.difference if pair.latest is None else pair.latest.difference
    ahead = better_now(pair) or (pair.model if (latest or 0.0) < 0 else pair.against)
    one = min(promotions, key=lambda one: (not one["allowed"], one["model"] != ahead))
    failed = [answer["sentence"] for answer in one["answers"] if answer["failed"]]
    recent = None if pair.recent is None else pair.recent.verdict
    known = {A_LEADS: pair.model, B_LEADS: pair.against}.get(recent or "")
    answer = "Yes" if one["allowed"] else "No" if known == one["champion"] else "Not yet"
    reason = promotion_reason(pair, one["model"], known, failed)
    return {"challenger": one["model"], "champion": one["champion"], "answer": answer, "reason": reason}


def _alike(history: History, about: PairKey, field: str) -> list[Pair]:
    """Return the comparisons of the same two models with the same stage and the same `field`."""
    return [
        one for one in history.pairs(about.stream, about.partition)
        if (one.model, one.against) == (about.model, about.against)
        and about.stage in (one.stage, *one.same) and getattr(one, field) == getattr(about, field)
    ]  # fmt: skip


def _standing(pair: Pair) -> dict[str, Any]:
    """Return a comparison by segment or loss, with the better model now and over the whole run."""
    return {
        **_pair_line(pair), "difference": pair.difference, "interval": pair.interval,
        "outcomes": pair.outcomes, "now": better_now(pair), "whole": leader_name(pair),
    }  # fmt: skip


def _side(history: History, about: PairKey, name: str, now: int | None) -> dict[str, Any]:
    """Return one model's measures, now and over the whole run, its coverage and its expected values."""
    key = ModelKey(about.stream, name, about.partition)
    model = history.models.get(key)
    if model is None:
        return {"model": name, "latest": None, "whole": None, "coverage": {}, "expected": [], "silent": None}
    row = Ranking(history).row(model)
    estimator = None if row.sequence is None else row.sequence.estimator
    memories = {"latest": estimator, "whole": WHOLE if estimator != WHOLE else None}
    sides: dict[str, Any] = {}
    for side, memory in memories.items():
        sequence = SequenceName(about.segment, about.stage, memory or "")
        reading = None if memory is None else history.reading(model.sequences.get(sequence))
        values = {} if reading is None else reading.measures
        # `error` is 1 minus accuracy, which is already listed.
        names = frozenset(values) - ({"error"} if "accuracy" in values else set())
        known = measures_shown(names, None) if names else []
        shown = [*[one for one in known if one not in _CALIBRATION][:_MEASURES], *_CALIBRATION]
        sides[side] = None if reading is None else {
            "estimator": memory, "n": reading.n,
            "values": {one: values[one] for one in sorted(shown, key=NAMES.index) if one in values},
        }  # fmt: skip
    silence = history.silence(model, now)
    return {
        "model": name, **sides, "coverage": coverage_of(model), "expected": expected_lines(model),
        "silent": None if silence is None else silent_line(silence),
    }  # fmt: skip


def _events(history: History, about: PairKey) -> dict[str, Any]:
    """Return the incidents and versions of both models, each with its model's name."""
    names = dict.fromkeys((about.model, about.against))
    both = {name: events_of(history, ModelKey(about.stream, name, about.partition)) for name in names}
    return {
        "bands": [
            {**one, "name": f"{name}: {one['name']}"} for name, its in both.items() for one in its.bands
        ],
        "marks": [
            {**mark, "text": f"{name}: {mark['text']}"}
            for name, its in both.items() for mark in its.marks if mark["kind"] != "alarm"
        ],
    }  # fmt: skip


def pair_lines(history: History, stream: str, partition: int, *models: str) -> list[dict[str, Any]]:
    """Return the pairs of a stream that include one of these models."""
    return [
        _pair_line(pair) for pair in history.pairs(stream, partition)
        if not {pair.model, pair.against}.isdisjoint(models)
    ]  # fmt: skip


def _pair_line(pair: Pair) -> dict[str, Any]:
    return {
        "stream": pair.stream, "partition": pair.partition, "model": pair.model, "against": pair.against,
        "segment": pair.segment, "stage": pair.stage, "same": pair.same, "loss": pair.loss,
        "verdict": pair.verdict, "contradicted": contradicted(pair), "sentence": standing(pair),
    }  # fmt: skip
