"""`top_k_accuracy`: whether the label is one of the most probable classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import give
from oracle_cases import lab, pred
from prequential.configuration.settings.streams import TOP_K, StreamConfig
from sklearn.metrics import top_k_accuracy_score
from test_costs_by_value import said_of, shard_of, successor_of

STREAM = StreamConfig(
    measures=("accuracy", "top_k_accuracy"), estimators=("all", "window:40", "fading:0.5"), detectors=(),
    compare="off", emit_outcomes=None, emit_every=None, top_k=2,
)  # fmt: skip


def outcome(number: int, y: str, proba: dict[str, float] | None) -> list[Any]:
    best = max(proba, key=lambda name: proba[name]) if proba else "a"
    given = {} if proba is None else {"y_proba": proba}
    return [pred(number, 2 * number, best, **given), lab(number, 2 * number + 1, y)]


def found(*outcomes: tuple[str, dict[str, float] | None], k: int = 2, estimator: str = "all") -> Any:
    records = [row for i, one in enumerate(outcomes) for row in outcome(i, *one)]
    said = said_of(shard_of(*records, config=replace(STREAM, top_k=k)))[estimator]
    return said.measures.get("top_k_accuracy", said.undefined.get("top_k_accuracy"))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_it_is_scikit_learns_where_no_two_probabilities_are_equal(k: int) -> None:
    rng = np.random.default_rng(k)
    names, y = "abcdefg", rng.integers(0, 7, 150)
    p = rng.dirichlet(np.ones(7), 150)
    outcomes = [(names[i], dict(zip(names, row))) for i, row in zip(y.tolist(), p.tolist())]
    for estimator, last in (("all", 150), ("window:40", 40)):
        theirs = top_k_accuracy_score(y[-last:], p[-last:], k=k, labels=range(7))
        assert found(*outcomes, k=k, estimator=estimator) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("estimator", ["all", "window:40", "fading:0.5"])
def test_equal_probabilities_count_as_the_mean_over_all_their_orders(estimator: str) -> None:
    even = {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}
    assert [found((y, even), estimator=estimator) for y in "abcde"] == [0.5] * 4 + [0.0]  # there is no e
    assert found(*[("a", even)] * 50, estimator=estimator) == 0.5  # ten leave the window
    assert found(("d", {"d": 0.1, "a": 0.5, "b": 0.1}), k=2, estimator=estimator) == 0.5
    assert found(("a", {"d": 0.1, "a": 0.5, "b": 0.1}), k=2, estimator=estimator) == 1.0
    assert found(("d", dict.fromkeys("dab", 0.0) | {"c": 1.0}), k=3, estimator=estimator) == 2 / 3
    assert found(("d", {"d": 0.25, "a": 0.75}), ("d", even), ("a", even), k=1, estimator="all") == 0.5 / 3


def test_ties_in_periods() -> None:
    records = [row for i in range(8) for row in outcome(i, "abcd"[i % 4], dict.fromkeys("abcd", 0.25))]
    said = said_of(shard_of(*records, config=replace(STREAM, period=86_400_000)), stage="period")
    assert [one.measures["top_k_accuracy"] for one in said.values()] == [0.5]


def test_another_k_counts_from_now_on() -> None:
    records = [row for i in range(4) for row in outcome(i, "b", {"a": 0.75, "b": 0.25})]
    shard = shard_of(*records, config=STREAM)
    for config, expected in ((STREAM, 1.0), (replace(STREAM, top_k=1), "no_probabilities")):
        for one in said_of(successor_of(shard, config)).values():
            assert one.measures.get("top_k_accuracy", one.undefined.get("top_k_accuracy")) == expected
            assert one.measures["accuracy"] == 0.0


@pytest.mark.parametrize("label", [None, "a"])
def test_a_label_from_before_another_k_takes_nothing_out(label: str | None) -> None:
    proba = {"a": 0.75, "b": 0.25}
    records = [row for i in range(4) for row in outcome(i, "b", proba)]
    shard = successor_of(shard_of(*records, config=STREAM), replace(STREAM, top_k=1))
    give(shard, *outcome(5, "a", proba), lab(2, 20, label), *outcome(6, "b", proba))
    assert said_of(shard)["all"].measures["top_k_accuracy"] == 0.5


def test_settings_that_nobody_changed_leave_digests_as_they_were() -> None:
    assert StreamConfig(top_k=TOP_K).digest == StreamConfig().digest
    assert StreamConfig(quantile=None).digest == StreamConfig().digest
    others = StreamConfig(top_k=3), StreamConfig(quantile=0.9)
    assert len({one.digest for one in (StreamConfig(), *others)}) == 3
