"""`value` in tables: what is at stake where costs are by it, and a column like any other elsewhere."""

from __future__ import annotations

from pathlib import Path

from prequential.evaluation import Evaluator, evaluate

COSTS = {"fraud": {"ok": 1.0}, "ok": {"fraud": 0.5}}


def test_a_column_of_a_csv_file_is_what_is_at_stake(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("instance_id,y_pred,y_true,value\n1,ok,fraud,249.5\n2,fraud,ok,10\n3,ok,fraud,\n")
    result = evaluate(
        file, file, estimators=["all"], measures=["cost", "cost_total"], costs=COSTS, cost_per_value=True
    )
    assert result.measures("cost_total", estimator="all") == {"model": 254.5}
    assert result.measures("cost", estimator="all") == {"model": 127.25}


def test_the_column_may_have_another_name_in_each_table() -> None:
    predictions = [{"instance_id": i, "y_pred": "ok", "amount": 10.0} for i in range(2)]
    labels = [{"instance_id": 0, "y_true": "fraud", "lost": 3.0}, {"instance_id": 1, "y_true": "fraud"}]
    result = evaluate(
        predictions, labels, estimators=["all"], measures=["cost_total"], costs=COSTS, cost_per_value=True,
        columns={
            "predictions": {"stream": {"const": "s"}, "model": {"const": "m"}, "value": "amount"},
            "labels": {"stream": {"const": "s"}, "value": "lost"},
        },
    )  # fmt: skip
    assert result.measures("cost_total", estimator="all") == {"m": 13.0}


def test_text_is_ignored_where_costs_are_not_by_value_and_refused_where_they_are() -> None:
    rows = [{"instance_id": i, "y_pred": "ok", "y_true": "fraud", "value": "high"} for i in range(2)]
    asked = {"estimators": ["all"], "measures": ["cost"], "costs": COSTS}
    assert evaluate(rows, rows, **asked).measures("cost", estimator="all") == {"model": 1.0}
    good = [{**rows[0], "instance_id": i, "value": 4} for i in (9, 10)]
    result = evaluate(rows + good, rows + good, cost_per_value=True, **asked)
    assert result.measures("cost", estimator="all") == {"model": 4.0}
    assert "value is 'high': expected a number from 0 to 1e+100" in str(result.dead_letters[0])
    assert len(result.dead_letters) == 4, "two predictions and two labels"


def test_one_record_at_a_time() -> None:
    evaluator = Evaluator(
        estimators=["all"], measures=["cost", "cost_total"], costs=COSTS, cost_per_value=True
    )
    for i, (value, of_label) in enumerate([(10.0, None), (10.0, 4.0), (None, None)]):
        evaluator.predict(i, "ok", value=value)
        evaluator.learn(i, "fraud", value=of_label)
    assert (evaluator.get("cost"), evaluator.get("cost_total")) == (7.0, 14.0)
