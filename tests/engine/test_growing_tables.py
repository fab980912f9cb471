"""Tables that grow keep their rows, and have zeros after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.compiled.kernel import Ints, as_records, grown


@given(
    rows=st.integers(1, 30_000),
    width=st.integers(0, 9),
    written=st.lists(st.tuples(st.integers(0, 29_999), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=9),
)
def test_what_has_grown_is_as_it_was(rows: int, width: int, written: list[tuple[int, int]]) -> None:
    column: Ints = np.zeros((rows, width), dtype=np.int64)
    for place, value in written:
        column[place % rows] = value
    wide = grown(column, rows + 1)
    assert len(wide) > rows
    assert (wide[:rows] == column).all()
    assert not wide[rows:].any()
    wide[:] = 1  # it can be written to


@pytest.mark.parametrize("rows", [3, 100_000])
def test_records_and_columns_that_are_not_contiguous(rows: int) -> None:
    dtype = np.dtype((np.record, [("number", "<i8"), ("kind", "u1"), ("share", "<f8")]))
    table: Any = as_records(np.zeros(rows, dtype))
    table.number[:], table.share[-1] = np.arange(rows), -0.0  # which is no zero byte by byte
    wide = grown(table, rows + 1)
    assert (wide.number[:rows] == table.number).all()
    assert np.signbit(wide.share[rows - 1])
