"""A measure is a declaration: whatever else knows measures learns of it from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prequential.engine.measures.declaration import DEFINED, MATRIX, measure
from prequential.engine.measures.registry import NAMES


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says in which two more are declared, without the compiler."""
    here = Path(__file__).parent
    paths = [*sys.path, str(here.parents[1]), str(here.parent), str(here)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(here / "declared_elsewhere.py"), str(tmp_path_factory.mktemp("declared"))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_is_no_measure_here() -> None:
    assert not {"advantage", "half_mse"} & set(NAMES)


@pytest.mark.slow
def test_messages(said: dict[str, Any]) -> None:
    # Labels alternate: the persistent baseline is always wrong. The last 20 have 15 errors, of size 2.
    assert said["messages"]["c"] == {"accuracy": 25 / 40, "advantage": 25 / 40}
    assert said["messages"]["n"] == {"half_mse": 15 * 2 / 40}


@pytest.mark.slow
def test_signals_and_objectives(said: dict[str, Any]) -> None:
    assert ["c", "page-hinkley", "window:4:advantage"] in said["alarms"]
    assert ["n", "page-hinkley", "half_mse"] in said["alarms"]
    of_harm = [line for line in said["exported"] if 'detector="harm"' in line]
    assert len(of_harm) == 1
    assert 'stream="n"' in of_harm[0]
    assert 'signal="half_mse"' in of_harm[0]


def test_configuration(said: dict[str, Any]) -> None:
    assert said["complaint"].endswith(
        "weighted_f1, micro_precision, micro_recall, micro_f1, hamming_loss, jaccard, cost, cost_total, "
        "log_loss, brier, ece, top_k_accuracy, auc, pr_auc, mae, mse, rmse, r2, bias, mape, pinball, "
        "interval_coverage, interval_width, mase, rmsse, wis, weighted_mae, hit_rate_at_tolerance, "
        "ipw_accuracy, ipw_n, advantage, half_mse"
    )


def test_series_and_their_help(said: dict[str, Any]) -> None:
    assert "# HELP prequential_half_mse Half of the mean squared error" in said["exported"]
    series = next(line for line in said["exported"] if line.startswith("prequential_advantage{"))
    assert float(series.split()[-1]) == 0.625
    bounds = [line for line in said["exported"] if line.startswith("prequential_objective_margin{")]
    assert len(bounds) == 2


def test_dashboard(said: dict[str, Any]) -> None:
    assert said["page"] == {
        "measures": ["accuracy", "advantage"], "less_is_better": [], "not_quality": [],
        "references": {
            "advantage": {
                "y": 0, "text": "0: no better than repeating the latest label", "short": "repeat latest"
            }
        },
    }  # fmt: skip
    assert said["columns"][0] == "advantage"
    assert sorted(said["missed"]) == ["advantage", "half_mse"]


def test_docs(said: dict[str, Any]) -> None:
    line = r"|`advantage`\*|(c - c_per)/n|-1 … 1|more|`no_label_known`|the test|"
    assert line in said["docs"].splitlines()


def test_a_name_that_another_has() -> None:
    def kappa(totals: Any) -> tuple[float, int]:
        return np.nan, DEFINED

    with pytest.raises(ValueError, match="measure 'kappa' is declared twice"):
        measure(MATRIX, "")(kappa)
