"""`Result.scores`: the histogram of the newest message, its curves, and what is said where there is none."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from prequential.evaluation import evaluate
from sklearn import metrics as sklearn


def rows(n: int, model: str = "m", seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    found = []
    for i in range(n):
        p = rng.betavariate(1, 3)
        found.append({
            "instance_id": f"{model}{i}", "model": model, "y_pred": int(p > 0.5),
            "y_proba": {"1": p, "0": 1 - p}, "y_true": int(rng.random() < p),
        })  # fmt: skip
    return found


def test_scores_are_those_of_the_predictions() -> None:
    table = rows(2000)
    result = evaluate(
        table, table, estimators=["all", "window:500", "fading:0.99"], details=["scores"],
        measures=["auc", "pr_auc", "accuracy"],
    )  # fmt: skip
    y, p = (np.array(column) for column in zip(*((one["y_true"], one["y_proba"]["1"]) for one in table)))
    for estimator, some in (("all", slice(None)), ("window:500", slice(-500, None))):
        scores = result.scores(estimator=estimator)
        assert scores.histogram.positives.sum() == y[some].sum()
        assert scores.histogram.negatives.sum() == (1 - y[some]).sum()
        assert scores.curve[-1].precision == pytest.approx(y[some].mean())
        auc = result.measures("auc", estimator=estimator)["m"]
        assert auc == pytest.approx(sklearn.roc_auc_score(y[some], p[some]), abs=0.002)
    assert result.measures("pr_auc")["m"] == pytest.approx(sklearn.average_precision_score(y, p), abs=0.002)
    # The probabilities are true ones.
    assert result.scores().reliability.ece == pytest.approx(0, abs=0.05)
    best = result.scores().best_threshold(false_positive=1, false_negative=4)
    assert best.interval[0] <= 0.2 <= best.interval[1]
    assert best.gain_interval[0] > 0
    assert result.scores(stage="initial").message.stage == "final"  # the same


def test_the_settings_costs_are_those_of_thresholds() -> None:
    table = rows(500)
    asked = {"estimators": ["all"], "details": ["scores"]}
    costs = {1: {0: 4, 1: -2}, 0: {1: 1}}
    scores = evaluate(table, table, costs=costs, **asked).scores()
    by_hand = scores.best_threshold(false_positive=1, false_negative=4, true_positive=-2)
    assert scores.best_threshold() == by_hand
    assert by_hand.present_interval[0] < by_hand.present_cost < by_hand.present_interval[1]
    # What the decisions cost, which are those of the threshold 0.5.
    result = evaluate(table, table, costs=costs, measures=["cost"], **asked)
    assert by_hand.present_cost == pytest.approx(result.measures("cost", estimator="all")["m"], abs=0.02)
    for settings, why in (
        ({}, "the stream has no costs"),
        ({"costs": costs, "cost_per_value": True}, "costs are by value"),
        ({"costs": {1: {0: 4, 2: 3}}}, "costs must be for two classes"),
    ):
        with pytest.raises(ValueError, match=f"{why}.*expected false_positive and false_negative"):
            evaluate(table, table, **settings, **asked).scores().best_threshold()
    with pytest.raises(ValueError, match="expected both false_positive and false_negative"):
        scores.best_threshold(false_positive=1)


def test_what_there_is_is_said() -> None:
    table = [*rows(20, "m"), *rows(20, "n")]
    result = evaluate(table, table, estimators=["window:9"], details=["scores"])
    assert result.scores("n").message.model == "n"
    with pytest.raises(ValueError, match="several models: expected model to be one of m, n"):
        result.scores()
    with pytest.raises(ValueError, match="no scores of model 'o': expected one of m, n"):
        result.scores("o")
    with pytest.raises(ValueError, match="no scores of estimator 'all': expected one of window:9"):
        result.scores("m", estimator="all")
    with pytest.raises(ValueError, match=r'there are no scores: expected details=\["scores"\]'):
        evaluate(table, table).scores()


def test_no_measure_of_probabilities_is_needed() -> None:
    table = {"y_pred": ["1", "0"], "y_proba": [{"1": 0.9}, {"1": 0.2}], "y_true": ["1", "0"]}
    result = evaluate(table, table, estimators=["all"], measures=["accuracy"], details=["scores"])
    assert sum(result.scores().histogram.positives) == 1


def test_since_when_the_best_threshold_has_been_better() -> None:
    """Until row 3,000 labels are what 0.5 says; then they are as probable as the scores say."""
    table = [{**one, "ts": 1_000 * i} for i, one in enumerate(rows(6_000))]
    for one in table[:3_000]:
        one["y_true"] = one["y_pred"]
    emit = {"outcomes": 100, "every": None}
    asked = {"estimators": ["window:500", "all"], "details": ["scores"], "emit": emit}
    result = evaluate(table, table, costs={1: {0: 4}, 0: {1: 1}}, **asked)
    since = result.scores(estimator="window:500").best_threshold().better_since
    assert since is not None
    assert 3_000 < since.outcome < 4_000
    assert since.outcome % 100 == 0
    assert since.ts == 1_000 * (since.outcome - 1)
    later = result.scores(estimator="all").best_threshold().better_since
    assert later is None or later.outcome > since.outcome
    # The newest one of one's own costs; and where it is the present one.
    scores = result.scores(estimator="window:500")
    best = scores.best_threshold()
    assert scores.best_threshold(false_positive=1, false_negative=4).better_since == since
    assert scores.best_threshold(present=best.threshold).better_since is None
    untimed = [{name: one[name] for name in one if name != "ts"} for one in table]
    some = evaluate(untimed, untimed, costs={1: {0: 4}, 0: {1: 1}}, **asked)
    assert some.scores(estimator="window:500").best_threshold().better_since == (since.outcome, None)


@pytest.mark.parametrize("costs", [(1_000.0, 1.0), (1.0, 1.0), (1.0, 5.0)])
def test_scores_of_exactly_one_reach_a_threshold_of_one(costs: tuple[float, float]) -> None:
    """No threshold up to 1 means no positives then, and the cost that is said is the cost that one has."""
    table = [
        {"y_pred": 1, "y_proba": {"1": 1.0, "0": 0.0}, "y_true": int(number % 10 == 0)}
        for number in range(100)
    ]
    scores = evaluate(table, table, estimators=["all"], details=["scores"]).scores()
    false_positive, false_negative = costs
    best = scores.best_threshold(false_positive=false_positive, false_negative=false_negative)
    positive = best.threshold <= 1.0
    assert best.cost == (90 * false_positive if positive else 10 * false_negative) / 100
    assert positive == (90 * false_positive < 10 * false_negative)
    assert scores.best_threshold(false_positive=1, false_negative=1, present=1.0).present_cost == 0.9
