"""`auc` of periods: of their labels, and before these are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prequential.evaluation import evaluate

DAY = 86_400_000


def stream(days: int, each: int, classes: int = 2) -> tuple[Any, Any, Any]:
    """Predictions with scores, labels of which those of class 1 are slower, and both as arrays."""
    rng = np.random.default_rng(1)
    n = days * each
    ts = np.sort(rng.integers(0, days * DAY, n))
    p = 1 / (1 + np.exp(-(rng.normal(0, 1.5, n) - 1.5)))
    y = (rng.random(n) < p).astype(int)
    if classes > 2:
        y = np.where(rng.random(n) < 0.1, 2, y)
    due = ts + (np.minimum(rng.exponential(1, n), 3.9) * np.where(y == 1, 2, 1) * DAY).astype(int)
    predictions = [
        {
            "stream": "s", "model": "m", "instance_id": str(i), "y_pred": str(int(p[i] > 0.5)),
            "y_proba": {"0": 1 - p[i], "1": p[i]}, "ts": int(ts[i]),
        } for i in range(n)
    ]  # fmt: skip
    labels = [
        {"stream": "s", "instance_id": str(i), "y_true": str(y[i]), "ts": int(due[i])}
        for i in range(n) if due[i] < days * DAY
    ]  # fmt: skip
    return predictions, labels, (ts // DAY, p, y)


def periods(predictions: Any, labels: Any, **settings: Any) -> list[Any]:
    given: dict[str, Any] = {
        "period": "1d", "label_horizon": "8d", "positive_class": "1", "estimators": ["all"],
        "measures": ["auc", "pr_auc", "accuracy"], "compare": "off", "stages": ["final"],
    } | settings  # fmt: skip
    result = evaluate(predictions, labels, **given)
    return [message for message in result.all_messages if getattr(message, "stage", None) == "period"]


def area(p: Any, y: Any) -> float:
    positives, negatives = p[y == 1], p[y != 1]
    below = (negatives[:, None] < positives).sum() + 0.5 * (negatives[:, None] == positives).sum()
    return float(below / (len(positives) * len(negatives)))


@pytest.fixture(scope="module")
def told() -> tuple[list[Any], Any]:
    predictions, labels, truth = stream(45, 250)
    return periods(predictions, labels), truth


def test_final_values_are_those_of_the_scores(told: Any) -> None:
    messages, (day, p, y) = told
    finals = {m.period["start"] // DAY: m for m in messages if m.period["status"] == "final"}
    assert len(finals) > 30
    for number, message in finals.items():
        own = day == number
        # A hundredth of the labels may be missing.
        assert message.measures["auc"] == pytest.approx(area(p[own], y[own]), abs=0.008)


def test_it_is_expected_before_the_labels_with_intervals_and_a_record(told: Any) -> None:
    messages, (day, p, y) = told
    errors, naive, covered = [], [], []
    for message in messages:
        if message.period["status"] != "provisional" or message.expected["maturity"] is None:
            continue
        own = day == message.period["start"] // DAY
        expected, truth = message.expected["measures"]["auc"], area(p[own], y[own])
        errors.append(abs(expected["value"] - truth))
        naive.append(abs(message.measures["auc"] - truth) if "auc" in message.measures else 0.5)
        if "interval" in expected:
            covered.append(expected["interval"][0] <= truth <= expected["interval"][1])
            assert expected["record"]["finals"] >= 20
    assert np.mean(errors) < 0.03
    assert np.mean(errors) < 0.6 * np.mean(naive)
    assert len(covered) > 30
    assert np.mean(covered) > 0.75
    book = next(m for m in reversed(messages) if getattr(m, "expected_book", None)).expected_book
    low, high = book["measures"]["auc"]["interval"]
    own = (day >= book["start"] // DAY) & (day < book["end"] // DAY)
    assert low <= area(p[own], y[own]) <= high


def test_without_labels_it_is_that_of_the_past(told: Any) -> None:
    predictions, labels, (_, p, y) = stream(30, 250)
    late = [label for label in labels if label["ts"] < 20 * DAY]
    message = periods(predictions, late)[-1]
    assert message.period["labelled"] == 0
    assert message.undefined["auc"] == "empty"
    assert message.expected["measures"]["auc"]["value"] == pytest.approx(area(p, y), abs=0.04)


def test_three_classes_have_none_before_the_labels() -> None:
    predictions, labels, (day, p, y) = stream(12, 250, 3)
    messages = periods(predictions, labels)
    assert messages[-1].expected["undefined"] == {"auc": "too_many_classes", "pr_auc": "too_many_classes"}
    final = next(m for m in messages if m.period["status"] == "final")
    own = day == final.period["start"] // DAY
    assert final.measures["auc"] == pytest.approx(area(p[own], y[own]), abs=0.008)


def test_final_values_need_no_estimates() -> None:
    predictions, labels, _ = stream(12, 250)
    with_estimates, without = (periods(predictions, labels, expected=wanted) for wanted in (True, False))
    finals = [
        {m.estimator: m.measures for m in messages if m.period["status"] == "final"}
        for messages in (with_estimates, without)
    ]
    assert finals[0] == finals[1] != {}


def test_few_of_a_class_have_no_value() -> None:
    predictions, labels, _ = stream(12, 40)
    message = periods(predictions, labels)[-1]
    assert message.expected["undefined"]["auc"] == "too_few"
