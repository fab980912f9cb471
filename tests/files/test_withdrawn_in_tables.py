"""A row of labels without a label withdraws the earlier label of its instance, in every form of tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prequential import evaluate
from prequential.evaluation import Result
from prequential.topics.errors import WorkError
from test_ids_and_times import WAYS, Rows

#: Three predictions; the label of `b` is wrong, and withdrawn later.
PREDICTIONS: Rows = [
    {"instance_id": name, "y_pred": "yes", "ts": 1_000 * place} for place, name in enumerate("abc", 1)
]
LABELS: Rows = [
    {"instance_id": "a", "y_true": "yes", "ts": 10_000}, {"instance_id": "b", "y_true": "no", "ts": 11_000},
    {"instance_id": "b", "y_true": None, "ts": 12_000}, {"instance_id": "c", "y_true": "no", "ts": 13_000},
]  # fmt: skip


def counted(result: Result) -> tuple[float, int, int]:
    """The accuracy of all outcomes that have a label, their number, and the withdrawals."""
    last = result.metrics.to_pandas().query("estimator == 'all' and stage == 'final'").iloc[-1]
    return float(last["accuracy"]), int(last["n"]), int(last["counts_withdrawn"])


@pytest.mark.parametrize("way", WAYS)
def test_a_null_label_withdraws_the_label_before_it(way: str, tmp_path: Path) -> None:
    predictions, labels = WAYS[way](PREDICTIONS, tmp_path / "p"), WAYS[way](LABELS, tmp_path / "l")
    found = evaluate(predictions, labels, label_horizon="1h", settle="1h")
    assert counted(found) == (0.5, 2, 1)
    assert found.dead_letters == []


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA, pd.NaT], ids=repr)
def test_every_missing_value_of_pandas_is_null(missing: Any) -> None:
    labels = pd.DataFrame(LABELS)
    labels.loc[labels.y_true.isna(), "y_true"] = missing
    found = evaluate(pd.DataFrame(PREDICTIONS), labels, label_horizon="1h", settle="1h")
    assert counted(found) == (0.5, 2, 1)


def test_of_one_table_a_row_without_a_label_has_none_yet() -> None:
    rows = [{**row, "y_true": "yes" if place else None} for place, row in enumerate(PREDICTIONS)]
    assert evaluate(rows, rows).measures("accuracy", estimator="all") == {"model": 1.0}


def test_with_row_numbers_as_ids_a_null_label_has_not_come_yet() -> None:
    labels = [{"y_true": one} for one in (1, None, 2)]
    assert evaluate([{"y_pred": 1}] * 3, labels).measures("accuracy") == {"model": 0.5}
    with pytest.raises(WorkError, match="nothing was evaluated: there are no labels"):
        evaluate([{"y_pred": 1}], [{"y_true": None}])
