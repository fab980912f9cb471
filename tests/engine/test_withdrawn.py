"""Withdrawn labels: it is as if they had never come, but for what keeps its past."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers import World, assert_cuts_change_no_bit, by_topic, catch_up, live, metrics_of
from oracle import Record
from oracle_cases import inst, lab, pred, tick
from prequential.topics.outputs import Metrics, Output
from test_shard_against_oracle import assert_same, world_from

from tests.nightly import scaled

#: Measures by baselines, which keep the labels that they saw.
_BY_BASELINES = {"p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"}


def last(*records: Record, **changed: Any) -> Metrics:
    """The last message of estimator `all` about the model m, which the oracle has also."""
    world = world_from(records, **changed)
    outputs = catch_up(world).outputs
    assert_same(world, outputs)
    return [one for one in metrics_of(outputs) if (one.model, one.estimator) == ("m", "all")][-1]


def told(one: Metrics) -> tuple[int, float, float | None, dict[str, int]]:
    """Outcomes, n, accuracy, and counts that aren't 0."""
    counts = {name: count for name, count in one.counts.items() if count}
    return one.outcomes, one.n, one.measures.get("accuracy"), counts


TWO = (pred(1, 0, "a"), pred(2, 1, "a"), lab(1, 5, "a"), lab(2, 6, "b"))


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ([lab(2, 7, None)], (2, 1, 1.0, {"withdrawn": 1})),
        ([lab(2, 7, None), lab(2, 8, None)], (2, 1, 1.0, {"withdrawn": 1, "duplicate": 1})),
        ([lab(2, 7, None), lab(2, 8, "a")], (2, 2, 1.0, {"withdrawn": 1, "revisions": 1})),
        ([lab(2, 7, None), lab(2, 8, "b")], (2, 2, 0.5, {"withdrawn": 1, "revisions": 1})),
        ([lab(2, 7, "a"), lab(2, 8, None)], (2, 1, 1.0, {"withdrawn": 1, "revisions": 1})),
        ([lab(1, 7, None), lab(2, 8, None)], (2, 0, None, {"withdrawn": 2})),
        ([lab(3, 7, None)], (2, 2, 0.5, {"duplicate": 1})),
        ([tick(107), lab(2, 107, None)], (2, 2, 0.5, {"after_settle": 1})),
        ([lab(2, 7, None), tick(900), lab(2, 901, "a")], (2, 2, 1.0, {"withdrawn": 1, "revisions": 1})),
        ([lab(2, 7, None), tick(1002), lab(2, 1003, "a")], (2, 1, 1.0, {"withdrawn": 1, "after_settle": 1})),
        ([lab(2, 7, None), pred(2, 2, "b", at=8, model="n")], (2, 1, 1.0, {"withdrawn": 1})),
        ([lab(2, 7, None), pred(2, 1, "a", at=8)], (2, 1, 1.0, {"withdrawn": 1, "duplicate": 1})),
    ],
)  # fmt: skip
def test_outcomes_of_a_settled_instance(further: list[Record], expected: Any) -> None:
    assert told(last(*TWO, *further)) == expected


def test_a_label_that_waits_is_forgotten() -> None:
    waiting = lab(3, 7, "b"), lab(3, 8, None)
    assert told(last(*TWO, *waiting, tick(2_000))) == (2, 2, 0.5, {"withdrawn": 1})
    after = pred(3, 3, "a", at=9), lab(3, 10, "a")
    assert told(last(*TWO, *waiting, *after)) == (3, 3, 2 / 3, {"withdrawn": 1})


def test_an_instance_waits_again_until_the_horizon() -> None:
    waiting = inst(3, 2, at=2), lab(3, 7, "b"), lab(3, 8, None), pred(3, 3, "a", at=9)
    assert told(last(*TWO[:2], waiting[0], *TWO[2:], *waiting[1:], tick(1_003))) == (
        2, 2, 0.5, {"withdrawn": 1, "expired": 1}
    )  # fmt: skip


def test_the_class_of_the_horizon_is_withdrawn_and_not_given_again() -> None:
    records = pred(1, 0, "no"), pred(2, 500, "no"), tick(1_001), lab(1, 1_002, None), tick(9_000)
    found = last(*records, label_at_horizon="no")
    assert told(found) == (2, 1, 1.0, {"withdrawn": 1, "at_horizon": 2})


def test_a_window_keeps_the_place_until_it_leaves() -> None:
    records: list[Record] = []
    for number in range(6):
        records += [pred(number, 10 * number, "a"), lab(number, 10 * number + 1, "ab"[number % 2])]
        records += [lab(number, 10 * number + 2, None)] if number == 3 else []
    found = [one for one in metrics_of(catch_up(world_from(records)).outputs) if one.estimator == "window:2"]
    assert [(one.outcomes, one.n) for one in found][3:6] == [(4, 2), (5, 1), (6, 2)]


#: By task: what is evaluated, with all that is summed up.
_TASKS: dict[str, dict[str, Any]] = {
    "classification": {
        "positive_class": "a", "costs": {"a": {"b": 1, "c": 2.7}, "c": {"a": 0.1}}, "cost_per_value": True,
        "measures": [
            "accuracy", "kappa", "mcc", "macro_f1", "cost", "cost_total", "p_per", "log_loss", "brier", "ece",
            "auc", "pr_auc", "top_k_accuracy", "ipw_accuracy",
        ],
        "details": ["confusion", "scores"], "top_k": 1,
    },
    "regression": {
        "measures": [
            "mae", "mse", "rmse", "r2", "bias", "mape", "interval_coverage", "interval_width", "wis",
            "weighted_mae", "hit_rate_at_tolerance",
        ],
        "hit_tolerance": 1.0,
    },
}  # fmt: skip


def _target(rng: random.Random, task: str) -> Any:
    return rng.choice("abc") if task == "classification" else rng.choice([0.1, 1e6, rng.gauss(5, 2)])


def _prediction(rng: random.Random, task: str, number: int, ts: int, at: int, model: str) -> Record:
    y = _target(rng, task)
    more: dict[str, Any] = {"model": model, "segments": {"arm": rng.choice("xy")}}
    if task == "regression":
        more |= {"y_lower": y - 1, "y_upper": y + rng.random()}
        more["quantiles"] = {"0.3": y - 1, "0.9": y + rng.random()}
        more["weight"] = rng.choice([None, 0, 0.3, 7])
    elif rng.random() < 0.9:
        given = [rng.random() for _ in "abc"]
        more["y_proba"] = {name: p / sum(given) for name, p in zip("abc", given)}
        more["value"] = rng.choice([1, 0.3, 5])
    return pred(number, ts, y, at=at, **more)


def history(seed: int, count: int, task: str) -> tuple[list[Record], list[Record]]:
    """Records with labels, overrides and withdrawals in any order; and those without all that was undone.

    The last 30 instances keep their labels, so that windows are full again.
    """
    rng = random.Random(seed)
    records: list[Record] = []
    clean: list[Record] = []
    for number in range(count):
        start = 10 * number
        first = start + rng.randrange(1, 100)
        said = [_target(rng, task) for _ in range(rng.choice([1, 1, 2, 3, 4]))]
        if number < 3:  # the codes of classes are in order of their coming
            said = [("abc"[number] if task == "classification" else said[0])]
        withdrawn = number < count - 30 and rng.random() < 0.4
        if withdrawn:
            said = [None if place and rng.random() < 0.5 else y for place, y in enumerate(said)]
        made = [inst(number, start, label_propensity=rng.choice([0.3, 0.5]))]
        made += [_prediction(rng, task, number, start, start, model) for model in "mn"]
        if rng.random() < 0.4:
            made.append(_prediction(rng, task, number, start + 5, start + 5, "m"))
        if not withdrawn and rng.random() < 0.3:  # a third model's prediction comes after the label
            made.append(_prediction(rng, task, number, start, first + 60, "o"))
        ats = [first, *sorted(first + rng.randrange(1, 400) for _ in said[1:])]
        values = {"value": rng.choice([3, 0.7])} if task == "classification" else {}
        labels = [lab(number, first, y, at=at, **values) for y, at in zip(said, ats)]
        if rng.random() < 0.3:
            labels.append(labels[-1])
        records += [*made, *labels]
        if said[-1] is None:
            clean += made
        else:
            clean += [*made, lab(number, first, said[-1], at=first, **values)]
    return records, clean


def _world(records: list[Record], task: str) -> World:
    """A world whose instances are remembered to its end."""
    topics = by_topic(sorted([*records, tick(10_000)], key=lambda one: one[2]))
    settings = {
        "task": task, "estimators": ["all", "window:1000", "window:8"], "settle": "20m",
        "label_horizon": "20m", "period": "200ms", "emit": {"outcomes": None, "every": "100ms"},
        "detectors": [], "segments": ["arm"], "stages": ["initial", "final", "bins", "after:3ms"], "bins": 2,
        **_TASKS[task],
    }  # fmt: skip
    return World({"defaults": settings}, topics)


def _newest(outputs: list[Output]) -> dict[tuple[Any, ...], Any]:
    """The last values of each sequence and estimator, and of each period."""
    newest: dict[tuple[Any, ...], Any] = {}
    for one in metrics_of(outputs):
        measures = {name: value for name, value in one.measures.items() if name not in _BY_BASELINES}
        undefined = {name: why for name, why in one.undefined.items() if name not in _BY_BASELINES}
        period: Any = one.period
        labelled = period["labelled"] if one.stage == "period" else None
        key = one.stream, one.model, one.segment, one.stage, one.estimator
        newest[key] = one.n, measures, undefined, one.confusion, one.scores, labelled
    return newest


@pytest.mark.parametrize("task", list(_TASKS))
@pytest.mark.parametrize("seed", range(scaled(2, 12)))
def test_it_is_as_if_they_had_never_come(seed: int, task: str) -> None:
    """All measures of `all`, windows and periods, bit for bit, but for what baselines saw."""
    dirty, clean = (_world(records, task) for records in history(seed, 90, task))
    found = _newest(catch_up(dirty).outputs)
    assert found == _newest(catch_up(clean).outputs)
    keys = {(model, stage, estimator) for _, model, _, stage, estimator in found}
    assert keys >= {("o", "final", "all"), ("m", "initial", "window:8"), ("n", "bin:2", "window:1000")}
    assert ("m", "period", "period:1970-01-01T00:00:00.000Z") in keys
    assert found == _newest(live(dirty, random.Random(seed), takeovers=True).outputs)


@pytest.mark.parametrize("seed", range(2))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    for task in _TASKS:
        assert_cuts_change_no_bit(_world(history(seed, 50, task)[0], task), seed)
