"""A label that is missing hasn't come yet, whatever stands for it and in whatever form the labels are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from prequential import Evaluator, evaluate
from prequential.cli.main import main
from prequential.evaluation import Result
from prequential.topics.errors import WorkError

PREDICTED = ["a", "b", "a", "b", "a", "b"]

FORMS: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "series": lambda labels: {"predictions": pd.Series(PREDICTED), "labels": pd.Series(labels, dtype=object)},
    "lists": lambda labels: {"predictions": PREDICTED, "labels": labels},
    "array": lambda labels: {"predictions": PREDICTED, "labels": np.array(labels, dtype=object)},
    "frame": lambda labels: {"predictions": pd.DataFrame({"y_pred": PREDICTED, "y_true": labels})},
    "columns": lambda labels: {"predictions": {"y_pred": PREDICTED, "y_true": labels}},
}


@pytest.mark.parametrize("missing", [pd.NA, math.nan, None, np.float64("nan")])
@pytest.mark.parametrize("form", FORMS)
def test_a_missing_label_has_not_come(form: str, missing: object) -> None:
    result = evaluate(
        **FORMS[form](["a", "b", missing, "b", missing, "b"]), estimators=["all"], progress=False
    )
    text = str(result)
    assert "4 labels; used: 8, dropped: 0, pending: 2" in text
    assert "invalid" not in text


TABLES: dict[str, Callable[[dict[str, list[Any]], Path], Any]] = {
    "frame": lambda columns, path: pd.DataFrame(columns),
    "columns": lambda columns, path: columns,
    "polars": lambda columns, path: pl.DataFrame(columns, strict=False),
    "parquet": lambda columns, path: stored(pd.DataFrame(columns), path.with_suffix(".parquet")),
    "csv": lambda columns, path: stored(pd.DataFrame(columns), path.with_suffix(".csv")),
}


def stored(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


def tables_of(form: str, labels: list[Any], folder: Path) -> tuple[Any, Any]:
    ids = list(range(len(labels)))
    predictions = TABLES[form]({"instance_id": ids, "y_pred": [1] * len(ids)}, folder / "predictions")
    return predictions, TABLES[form]({"instance_id": ids, "y_true": labels}, folder / "labels")


def as_evaluator(labels: list[Any], **settings: Any) -> Result:
    evaluator = Evaluator(estimators=["all"], **settings)
    for number, label in enumerate(labels):
        evaluator.predict(number, 1)
        evaluator.learn(number, None if label is None or label != label else label)
    return evaluator.result()


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("form", [*TABLES, "evaluator"])
def test_a_table_of_labels_that_are_mostly_missing(form: str, task: str, tmp_path: Path) -> None:
    """No warning, and a true reason: it was that the labels are known already."""
    labels = [1] * 10 + [None] * 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if form == "evaluator":
            result = as_evaluator(labels, task=task)
        else:
            predictions, of_labels = tables_of(form, labels, tmp_path)
            result = evaluate(predictions, of_labels, estimators=["all"], task=task, progress=False)
    assert result.summary.outcomes[0].outcomes == 10
    [drop] = result.summary.dropped
    assert (drop.code, drop.count, drop.reason) == (
        "null_label", 30, "null, and there was no label to withdraw"
    )  # fmt: skip


@pytest.mark.parametrize("form", [*TABLES, "evaluator"])
def test_labels_that_are_all_missing(form: str, tmp_path: Path) -> None:
    """It was said that no instance_id is in both."""
    labels = [None] * 40
    said = "all 40 labels are null, or were withdrawn by a null one: map y_true to the field with the true"
    if form == "evaluator":
        [finding] = as_evaluator(labels).summary.findings
        assert said in finding.sentence
        return
    predictions, of_labels = tables_of(form, labels, tmp_path)
    with pytest.raises(WorkError, match=said):
        evaluate(predictions, of_labels, progress=False)


def test_null_labels_beside_withdrawals_and_duplicates() -> None:
    rows = [{"instance_id": number, "y_pred": 1, "ts": number} for number in range(10)]
    labels: list[dict[str, Any]] = [
        {"instance_id": number, "y_true": y_true, "ts": 100 + position}
        for position, (number, y_true) in enumerate([
            (0, 1), (0, None), (0, None), (1, 1), (1, 1), (1, 1), (2, None), (2, 1), (3, None), (4, 1)
        ])
    ]  # fmt: skip
    dropped = evaluate(rows, labels, estimators=["all"], settle="1h", progress=False).summary.dropped
    assert {(drop.code, drop.count) for drop in dropped} == {("null_label", 3), ("duplicate", 2)}


CONFIG = """files:
  predictions: {{{fields}}}
  labels: {{stream: {{const: s}}}}
"""


@pytest.mark.parametrize("field", ["stream", "model", "model_version", "instance_id", "segments.k"])
@pytest.mark.parametrize("given", ["1.10", "1.1e+3", ".5"])
def test_a_constant_name_that_yaml_takes_for_a_number(
    field: str, given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A version is refused before anything is read, by `config check` and all commands."""
    names = {"stream": "{const: s}", "model": "{const: m}", field: f"{{const: {given}}}"}
    if field == "segments.k":
        names["segments"] = f"{{k: {names.pop(field)}}}"
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(fields=", ".join(f"{name}: {form}" for name, form in names.items())))
    assert main(["config", "check", str(config)]) == 2
    error = capsys.readouterr().err
    assert "line 2" in error
    assert "quote it, as in '1.10'" in error or (given == "1.1e3" and "expected" in error)


@pytest.mark.parametrize("given", ["[]", "{a: 1}", "null", "2024-05-01", ".nan"])
def test_a_constant_that_no_record_can_have(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(fields=f"stream: {{const: s}}, model: {{const: {given}}}"))
    assert main(["config", "check", str(config)]) == 2
    assert "line 2" in capsys.readouterr().err
