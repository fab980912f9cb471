"""`y_lower` and `y_upper` in tables, and residuals by decile in results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prequential.evaluation import Evaluator, evaluate

ASKED: dict[str, Any] = {
    "task": "regression", "estimators": ["all"], "measures": ["interval_coverage", "interval_width"],
}  # fmt: skip

BOTH = "expected both, or neither"


def test_columns_of_a_csv_file_are_the_bounds(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("instance_id,y_pred,y_true,y_lower,y_upper\n1,2,2.5,1,3\n2,2,9,1.5,2.5\n3,2,2,,\n")
    result = evaluate(file, file, **ASKED)
    assert result.measures("interval_coverage", estimator="all") == {"model": 0.5}
    assert result.measures("interval_width", estimator="all") == {"model": 1.5}


def test_a_record_with_one_bound_is_refused_where_intervals_are_measured_alone() -> None:
    rows = [{"instance_id": i, "y_pred": 1.0, "y_true": 1.0, "y_lower": 0.5} for i in range(2)]
    rows.append({"instance_id": 9, "y_pred": 1.0, "y_true": 2.0, "y_lower": 0, "y_upper": 1})
    rows.append({"instance_id": 10, "y_pred": 1.0, "y_true": 1.0, "y_lower": 0, "y_upper": 1})
    result = evaluate(rows, rows, **ASKED)
    assert result.measures("interval_coverage", estimator="all") == {"model": 0.5}
    assert len(result.dead_letters) == 2
    assert f"y_lower 0.5 stands without y_upper: {BOTH}" in str(result.dead_letters[0])
    ignoring = evaluate(rows, rows, **{**ASKED, "measures": ["mae"]})
    assert ignoring.measures("mae", estimator="all") == {"model": 0.25}


def test_one_record_at_a_time() -> None:
    evaluator = Evaluator(**ASKED)
    for i, bounds in enumerate([{"y_lower": 0, "y_upper": 2}, {}, {"y_lower": 1.5, "y_upper": 2}]):
        evaluator.predict(i, 1.0, **bounds)
        evaluator.learn(i, 1.0)
    assert (evaluator.get("interval_coverage"), evaluator.get("interval_width")) == (0.5, 1.25)
    with pytest.raises(ValueError, match=f"y_upper 2 stands without y_lower: {BOTH}"):
        evaluator.predict(9, 1.0, y_upper=2)


TABLE = {"y_pred": [float(i % 20) for i in range(200)], "y_true": [0.5 * (i % 20) for i in range(200)]}


class TestResiduals:
    def test_by_decile(self) -> None:
        asked = {"task": "regression", "estimators": ["window:100", "all"], "details": ["residuals"]}
        result = evaluate(TABLE, TABLE, **asked)
        for estimator, n in ((None, 20.0), ("window:100", 10.0)):
            deciles = result.residuals(estimator=estimator).deciles
            assert [one.n for one in deciles] == [n] * 10
            assert [one.predicted for one in deciles] == [2 * i + 0.5 for i in range(10)]
            assert [one.bias for one in deciles] == [i + 0.25 for i in range(10)]
        with pytest.raises(ValueError, match="no residuals of estimator 'nothing': expected one of"):
            result.residuals(estimator="nothing")

    def test_without_the_detail_it_says_what_is_needed(self) -> None:
        result = evaluate(TABLE, TABLE, task="regression", estimators=["all"])
        with pytest.raises(ValueError, match=r'there are no residuals: expected details=\["residuals"\]'):
            result.residuals()
