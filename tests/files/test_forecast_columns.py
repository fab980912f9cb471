"""Quantiles in tables and seasons in settings: what users of `evaluate` and `Evaluator` write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prequential.evaluation import Evaluator, evaluate

ASKED: dict[str, Any] = {
    "task": "regression", "estimators": ["all"], "measures": ["mase", "rmsse", "wis"], "season": "1d",
    "label_horizon": "7d", "stages": ["lead:23h"],
}  # fmt: skip

#: Forecasts of noons, 23.5 hours before; their label moves by 4, then by 2, and errors are 1 and 2.
DAYS = [("2026-03-01", 9.0, 9.0), ("2026-03-02", 12.0, 13.0), ("2026-03-03", 13.0, 15.0)]
MASE = (1 + 2) / (4 + 2)


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    predictions = [
        {"instance_id": day, "y_pred": h, "ts": f"{before}T12:30:00Z"}
        for before, (day, h, _) in zip(("2026-02-28", "2026-03-01", "2026-03-02"), DAYS)
    ]
    labels = [{"instance_id": day, "y_true": y, "ts": f"{day}T12:00:00Z"} for day, _, y in DAYS]
    return predictions, labels


def scored(quantiles: list[dict[str, float]]) -> float:
    """The mean of 2/Q·Σ of the pinball losses."""
    total = 0.0
    for one, (_, _, y) in zip(quantiles, DAYS):
        total += 2 / len(one) * sum(max(float(q) * (y - h), (float(q) - 1) * (y - h)) for q, h in one.items())
    return total / len(quantiles)


SETS = [{"0.1": h - 1, "0.9": h + 1} for _, h, _ in DAYS]


@pytest.mark.parametrize("form", ["objects", "columns", "nested", "csv", "mapped"])
def test_quantiles_in_each_form(form: str, tmp_path: Path) -> None:
    predictions, labels = rows()
    given: Any = [{**one, "quantiles": quantiles} for one, quantiles in zip(predictions, SETS)]
    more: dict[str, Any] = {}
    if form in ("columns", "csv"):
        given = [
            {**one, **{f"quantiles.{level}": value for level, value in quantiles.items()}}
            for one, quantiles in zip(predictions, SETS)
        ]
    if form == "nested":
        given = {name: [one[name] for one in predictions] for name in predictions[0]}
        given["quantiles"] = {level: [one[str(level)] for one in SETS] for level in (0.1, 0.9)}
    if form == "mapped":
        given = [{**one, "low": q["0.1"], "high": q["0.9"]} for one, q in zip(predictions, SETS)]
        more = {"columns": {"quantiles": {0.1: "low", 0.9: "high"}}}
    if form == "csv":
        file = tmp_path / "predictions.csv"
        lines = [",".join(map(str, one.values())) for one in given]
        file.write_text("\n".join([",".join(given[0]), *lines]) + "\n")
        given = file
    result = evaluate(given, labels, **more, **ASKED)
    assert not result.dead_letters
    assert result.measures("wis", stage="lead:23h") == {"model": pytest.approx(scored(SETS), rel=1e-12)}
    assert result.measures("mase", stage="lead:23h") == {"model": pytest.approx(MASE, rel=1e-12)}


def test_a_crossing_is_a_dead_letter() -> None:
    predictions, labels = rows()
    given = [{**one, "quantiles": {0.1: 3.0, 0.9: 2.0}} for one in predictions[:1]] + predictions[1:]
    result = evaluate(given, labels, **ASKED)
    assert "quantile 0.1 is 3.0 and quantile 0.9 is 2.0: expected numbers that don't decrease" in str(
        result.dead_letters[0]
    )


def test_one_record_at_a_time() -> None:
    evaluator = Evaluator(
        task="regression", estimators=["all"], measures=["mase", "wis"], season="10ms", label_horizon="1s"
    )
    for i, (predicted, actual) in enumerate([(9, 9), (12, 13), (13, 15)], 1):
        evaluator.predict(i, predicted, ts=10 * i - 4, quantiles={0.5: predicted})
        evaluator.learn(i, actual, ts=10 * i)
    assert evaluator.get("mase") == MASE
    assert evaluator.get("wis") == 1.0
    with pytest.raises(ValueError, match="quantiles has level 2: expected a number above 0 and below 1"):
        evaluator.predict(9, 1.0, quantiles={2: 1.0})
