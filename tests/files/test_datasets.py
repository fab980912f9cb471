"""The data that the package brings."""

from __future__ import annotations

import pytest
from prequential import evaluate
from prequential.datasets import flights


def test_flights_are_what_their_page_counts() -> None:
    predictions, labels = flights(days=None)
    assert len(predictions) == 2 * 14_886
    assert 0 < len(predictions) // 2 - len(labels) < 1_000  # cancelled flights have no label
    assert {row["model"] for row in predictions} == {"daily", "monthly"}
    late = sum(row["y_true"] == "late" for row in labels) / len(labels)
    assert late == pytest.approx(0.175, abs=0.001)
    times = {row["instance_id"]: row["ts"] for row in predictions}
    assert all(row["ts"] > times[row["instance_id"]] for row in labels)
    for rows in (predictions, labels):
        assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)


def test_the_default_does_not_wait_for_the_compiler() -> None:
    predictions, labels = flights()
    assert 4_000 < len(predictions) + len(labels) <= 5_000
    assert flights(days=40) == (predictions, labels)
    assert {row["instance_id"] for row in labels} <= {row["instance_id"] for row in predictions}


def test_accuracy_is_that_of_a_plain_loop() -> None:
    predictions, labels = flights(days=10)
    truth = {row["instance_id"]: row["y_true"] for row in labels}
    result = evaluate(predictions, labels, stream="flights", estimators=["all"])
    for model, accuracy in result.measures("accuracy", estimator="all").items():
        right = [
            row["y_pred"] == truth[row["instance_id"]]
            for row in predictions if row["model"] == model and row["instance_id"] in truth
        ]  # fmt: skip
        assert accuracy == sum(right) / len(right)


def test_days_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="days is 0: expected at least 1, or None for all"):
        flights(days=0)
