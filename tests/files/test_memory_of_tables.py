"""Tables in memory are read some rows at a time; and a bar says how far it is, where somebody sees it."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from prequential.evaluation import evaluate
from prequential.evaluation.inputs import rows_of
from prequential.mapping.model import MappingOrigin, Path
from prequential.mapping.parsing import same_names
from prequential.offline.tables.source import TableSource
from prequential.runtime import compilation
from prequential.topics.decoding import LABELS
from prequential.topics.outputs import Metrics
from rich.console import Console

ROWS = 100_000


def frame(rows: int = ROWS) -> pd.DataFrame:
    """Rows that take 24 bytes each."""
    y = np.random.default_rng(1).integers(0, 2, rows)
    return pd.DataFrame({"y_pred": y.astype(str).astype(object), "y_true": y, "more": 0.5 * y})


@pytest.mark.parametrize("form", ["pandas", "numbered", "arrow"])
def test_a_table_is_not_made_anew_as_a_whole(form: str) -> None:
    """Arrow has next to nothing while it is read."""
    table = rows_of("labels", pa.Table.from_pandas(frame()) if form == "arrow" else frame())
    if form == "numbered":
        table = table.numbered("instance_id")  # type: ignore[attr-defined]
        table.select([Path("value", ("instance_id",), "instance_id")])
    before, most, values = pa.total_allocated_bytes(), 0, 0
    for rows in table.batches():
        most = max(most, pa.total_allocated_bytes() - before)
        values += len(rows)
    assert values == ROWS
    assert most < ROWS * 24 / 4
    if form == "numbered":
        numbers = [own.column(Path("value", ("instance_id",), "")) for own in table.batches()]
        assert [number for own in numbers for number in own] == list(range(ROWS))


def test_records_without_times_that_are_rows_take_no_memory() -> None:
    table = rows_of("labels", frame().assign(stream="s", instance_id="i"))
    origin = MappingOrigin("files.labels")
    tracemalloc.start()
    try:
        mapping = same_names(LABELS, list(table.columns or ()), origin)
        source = TableSource(LABELS, table, [mapping], lambda stream: False)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(source) == ROWS
    assert held < ROWS
    source.delay(7)
    assert source.span == (7, ROWS + 6)
    assert next(source.batches()).times[:2].tolist() == [7, 8]


@pytest.mark.parametrize("some", ["all", "some", "one piece"])
def test_times_of_some_rows(some: str) -> None:
    """A record without a time has that of the record before it, also across batches."""
    times = np.arange(30_000) // 7 + 1_700_000_000_000
    known = {"all": times > 0, "some": times % 3 == 0, "one piece": np.arange(30_000) >= 25_000}[some]
    given = [int(time) if is_known else None for time, is_known in zip(times, known)]
    table = pl.DataFrame({"y_pred": ["a"] * 30_000, "ts": given})
    labels = table.with_columns(y_true=pl.col("y_pred"))
    result = evaluate(table, labels, estimators=["all"], emit={"outcomes": 1000, "every": None})
    filled = pd.Series(times).where(known).ffill().bfill().astype(int)
    found = [one.ts for one in result.messages if isinstance(one, Metrics)]
    assert found[:30] == filled[999::1000].tolist()


@pytest.mark.parametrize(("terminal", "wanted"), [(True, True), (True, False), (False, True)])
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool, wanted: bool) -> None:
    out = io.StringIO()

    def console(stderr: bool) -> Console:
        assert stderr
        return Console(file=out, force_terminal=terminal, force_jupyter=False)

    monkeypatch.setattr(compilation, "Console", console)
    table = frame(500)
    evaluate(table, table, progress=wanted)
    said = out.getvalue()
    assert ("evaluating" in said and "reading labels" in said) == (terminal and wanted)
    assert bool(said) == (terminal and wanted)
