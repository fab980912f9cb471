"""A label that is missing hasn't come yet, whatever stands for it and in whatever form the labels are."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prequential import evaluate
from prequential.cli.main import main

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
