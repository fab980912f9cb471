"""Withdrawn labels: it is as if they had never come, but for what keeps its past."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers import World, assert_cuts_change_no_bit, catch_up, metrics_of
from oracle import Record
from oracle_cases import inst, lab, pred, tick
from prequential.topics.outputs import Metrics
from test_shard_against_oracle import assert_same, world_from

from tests.nightly import scaled

#: Measures by baselines, which keep the labels that they saw.
_BY_BASELINES = {"p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"}


def last(*records: Record, **changed: Any) -> Metrics:
    """The last message of estimator `all`, which the oracle has also."""
    world = world_from(records, **changed)
    outputs = catch_up(world).outputs
    assert_same(world, outputs)
    return [one for one in metrics_of(outputs) if one.estimator == "all"][-1]


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


def history(seed: int, count: int) -> tuple[list[Record], list[Record]]:
    """Records with labels, overrides and withdrawals in any order; and those without all that was undone."""
    rng = random.Random(seed)
    records: list[Record] = []
    clean: list[Record] = []
    for number in range(count):
        made = pred(number, 10 * number, rng.choice("abc"), value=rng.choice([1, 2, 5]))
        records.append(made)
        clean.append(made)
        first = 10 * number + rng.randrange(1, 100)
        said = [rng.choice("abc") for _ in range(rng.choice([1, 1, 2, 3]))]
        if number < count - 30:  # so that windows are full again
            said = [None if place and rng.random() < 0.5 else y for place, y in enumerate(said)]
        labels = [lab(number, first + 40 * place, y, value=3) for place, y in enumerate(said)]
        if rng.random() < 0.3:
            labels.append(labels[-1])
        records += labels
        if said[-1] is not None:
            clean.append(lab(number, first, said[-1], value=3))
    return records, clean


@pytest.mark.parametrize("seed", range(scaled(3, 12)))
def test_it_is_as_if_they_had_never_come(seed: int) -> None:
    """Matrices, costs and periods, bit for bit, but for what baselines saw."""
    settings = {
        "estimators": ["all", "window:1000", "window:25"], "settle": "20m", "label_horizon": "20m",
        "details": ["confusion"], "costs": {"a": {"b": 1, "c": 2.5}, "c": {"a": 4}}, "cost_per_value": True,
        "measures": ["accuracy", "kappa", "mcc", "macro_f1", "cost", "cost_total", "p_per"],
        "period": "200ms", "emit": {"outcomes": None, "every": "100ms"}, "detectors": [],
    }  # fmt: skip
    found: list[dict[tuple[str, str], Any]] = []
    for records in history(seed, 120):
        topics = world_from([*records, tick(10_000)], **settings)
        newest: dict[tuple[str, str], Any] = {}
        for one in metrics_of(catch_up(topics).outputs):
            measures = {name: value for name, value in one.measures.items() if name not in _BY_BASELINES}
            period: Any = one.period
            labelled = period["labelled"] if one.stage == "period" else None
            newest[one.stage, one.estimator] = one.n, measures, one.confusion, labelled
        found.append(newest)
    assert found[0].keys() >= {("final", "all"), ("final", "window:25")}
    assert ("period", "period:1970-01-01T00:00:00.000Z") in found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(2))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    records, _ = history(seed, 60)
    rng = random.Random(seed)
    further = {"segments": ["arm"], "stages": ["initial", "final", "bins", "after:20ms"], "bins": 2}
    for _, obj, _ in records:
        if "y_pred" in obj:
            obj["segments"] = {"arm": rng.choice("xy")}
    settings = {"settle": "1h", "label_horizon": "1h", "period": "1h", "emit": {"outcomes": 7, "every": "3m"}}
    world = world_from(records, **settings, **further)
    assert_cuts_change_no_bit(World(world.settings, world.topics), seed)
