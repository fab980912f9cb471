"""Periods and intervals of pandas, which Arrow has as numbers and structures: text and times, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from prequential.cli.main import main
from prequential.evaluation import evaluate
from prequential.topics.errors import UsageError

COUNT = 20

#: Classes as pandas has them: each is equal to its text.
CLASSES: dict[str, Any] = {
    "periods": pd.Series(pd.period_range("2026-01", periods=COUNT, freq="M")),
    "intervals": pd.Series(pd.interval_range(0.0, COUNT)), "bins": pd.Series(pd.cut(range(COUNT), 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("sides", ["both", "predictions", "labels"])
def test_they_are_classes_by_their_text(kind: str, sides: str) -> None:
    values, text = CLASSES[kind], CLASSES[kind].astype(str)
    table = pd.DataFrame({"y_pred": values, "y_true": values})
    if sides != "both":
        table["y_true" if sides == "predictions" else "y_pred"] = text
    table.loc[3, "y_pred"] = None
    result = evaluate(table, estimators=["all"], progress=False)
    assert result.summary.outcomes[0].outcomes == COUNT - 1
    assert result.measures("accuracy") == {"model": 1.0}


@pytest.mark.parametrize("in_index", [False, True])
def test_periods_in_ts_are_their_starts(in_index: bool) -> None:
    """They were numbers of days since 1970, read as ms."""
    days = pd.period_range("2026-01-05", periods=COUNT, freq="D")
    table = pd.DataFrame({"instance_id": range(COUNT), "y_pred": "a", "y_true": "a", "ts": days})
    table = table.set_index("ts") if in_index else table
    last = evaluate(table, estimators=["all"], progress=False).messages[-1].ts
    assert last == pd.Timestamp("2026-01-24", tz="UTC").timestamp() * 1_000


def test_periods_in_a_level_of_an_index() -> None:
    days = pd.period_range("2026-01-05", periods=COUNT, freq="D")
    index = pd.MultiIndex.from_arrays([[*range(COUNT)], days], names=["instance_id", "ts"])
    table = pd.DataFrame({"y_pred": "a", "y_true": "a"}, index=index)
    last = evaluate(table, estimators=["all"], progress=False).messages[-1].ts
    assert last == pd.Timestamp("2026-01-24", tz="UTC").timestamp() * 1_000


WAYS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "table": lambda frame, path: pa.table(frame),
    "parquet": lambda frame, path: frame.to_parquet(path) or path,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("column", ["ts", "y_pred"])
def test_arrow_has_only_their_numbers(way: str, column: str, tmp_path: Path) -> None:
    """Without pandas their text isn't known; other columns of this kind are passed over."""
    days = pd.period_range("2026-01-05", periods=COUNT, freq="D")
    frame = pd.DataFrame({"instance_id": range(COUNT), "y_pred": "a", "y_true": "a"})
    unused = WAYS[way](frame.assign(other=days), tmp_path / "unused.parquet")
    assert evaluate(unused, progress=False).measures("accuracy") == {"model": 1.0}
    given = WAYS[way](frame.assign(**{column: days}), tmp_path / "rows.parquet")
    with pytest.raises(UsageError, match=f"the column '{column}' of '.*' has periods of pandas as numbers"):
        evaluate(given, progress=False)
    if way == "parquet":
        assert main(["replay", "--predictions", str(given), "--labels", str(given)]) == 2
