"""Tables that grow: the same as plain copies, and no memory for what is zero."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.core.compiled.kernel import Ints, as_records, grown
from prequential.core.compiled.lazy_zeros import copy_onto_zeros, lazy_zeros, lengthened


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
    target = lazy_zeros((rows,), np.int64)
    copy_onto_zeros(table.number.view(np.ndarray), target)
    assert (target == table.number).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_zeros_take_no_memory() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4_096

    column: Any = lazy_zeros((1 << 23,), np.int64)  # 64 MiB
    column[:1_000] = 1
    before = resident()
    wide = grown(column, (1 << 23) + 1)
    assert resident() - before < 1 << 23
    assert wide[:1_000].all()


@pytest.mark.parametrize("rows", [10, 1 << 14, 1 << 16, 1 << 19])
def test_a_table_goes_on_where_it_is(rows: int) -> None:
    """Large ones: nothing is copied, until it gets large pages, or sixteen times as much is used."""
    column: Any = lazy_zeros((rows, 2), np.int64)
    column[:] = 7
    wide = lengthened(column, 2 * rows)
    assert (wide[:rows] == 7).all()
    assert not wide[rows:].any()
    assert np.shares_memory(wide, column) == (rows >= 1 << 14)
    wide[:] = 8
    widest = lengthened(wide, 40 * rows)
    assert not np.shares_memory(widest, wide)
    assert ((widest[: 2 * rows] == 8).all(), widest[2 * rows :].any()) == (True, False)


def test_what_is_behind_a_part_stays_behind_it() -> None:
    """A shorter view of a table grows to zeros, not to the table's other rows."""
    column: Any = lazy_zeros((1 << 15,), np.int64)
    column[:] = 7
    for part in (column[: 1 << 14], column[1 << 14 :], column[:-1], column[::-1], column[::2]):
        wide = lengthened(part, 1 << 16)
        assert (wide[: len(part)] == 7).all()
        assert not wide[len(part) :].any()
    wide = lengthened(column, 1 << 16)
    wide[:] = 8
    again = lengthened(column, 1 << 16)  # the one before has grown there already
    assert ((again[: 1 << 15] == 8).all(), again[1 << 15 :].any()) == (True, False)


def test_without_so_many_addresses_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of addresses (`ulimit -v`), or a system without `mprotect`."""

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr("mmap.mmap", refused)
    column: Any = lazy_zeros((1 << 15,), np.int64)
    column[:] = 7
    wide = lengthened(column, 1 << 16)
    assert ((wide[: 1 << 15] == 7).all(), wide[1 << 15 :].any()) == (True, False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_mapping_goes_with_its_last_array() -> None:
    def addresses() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * 4_096

    before = addresses()
    column: Any = lazy_zeros((1 << 20,), np.int64)
    wide = lengthened(column, 1 << 21)
    del column
    assert wide[-1] == 0
    assert addresses() > before + (1 << 26)
    del wide
    assert addresses() < before + (1 << 24)
