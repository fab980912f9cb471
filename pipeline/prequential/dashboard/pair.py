"""Two models: how they compare, as what is sent to the page."""

from __future__ import annotations

from typing import Any

from prequential.dashboard.courses import Absent, Courses
from prequential.dashboard.events import events_of
from prequential.dashboard.history import History, PairKey
from prequential.watching.state import ModelKey
from prequential.wording.comparing import Pair, contradicted, standing


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
        "others": pair_lines(history, about.stream, about.partition, about.model, about.against),
        **_events(history, about),
    }


def _events(history: History, about: PairKey) -> dict[str, Any]:
    """Incidents and versions of both, each with its model's name."""
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
    """Pairs of a stream with one of these models."""
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
