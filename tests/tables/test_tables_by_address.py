"""Tables that loops get as the address of their arrays: what loops read and write is what Python sees."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.errors import NumbaNotImplementedError
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, as_records, inner, records
from prequential.engine.compiled.tables_by_address import TablesByAddress

pytestmark = pytest.mark.skipif(not hasattr(inner(lambda: None), "py_func"), reason="loops are plain Python")


def own(table: Any) -> Any:
    """The class as if the package had it: tables of other packages stay numba's own."""
    table.__module__ = "prequential.example"
    return table


@own
class Columns(NamedTuple):
    whole: Ints
    narrow: Ints32
    wide: Floats  # (rows, width)
    flags: Bytes


class Row(NamedTuple):
    number: Ints
    kind: Bytes


@own
class Together(NamedTuple):
    first: Columns
    rows: Row
    second: Columns


def columns(rows: int, offset: int) -> Columns:
    return Columns(
        np.arange(rows) + offset, np.arange(rows, dtype=np.int32), np.arange(2.0 * rows).reshape(rows, 2),
        np.zeros(rows, dtype=np.uint8),
    )  # fmt: skip


def together(rows: int = 5) -> Together:
    table = records(Row, rows, packed=True)
    table.number[:] = np.arange(rows)
    return Together(columns(rows, 100), table, columns(rows, 200))


def step(tables: Any, other: Any, i: int) -> int:
    first, rows, second = tables
    first.whole[i] += 1
    second.wide[i, 1] = first.wide[i, 0] + 0.5
    second.flags[i] = rows.kind[i] + 1
    rows.number[i] = second.whole[i] + other.narrow[i] + len(second.narrow)
    total = first.whole[i] + rows.number[i] + np.int64(tables.second.wide.shape[1])
    return int(total)


def run(tables: Any, other: Any, step: Any) -> int:
    total = 0
    for i in range(len(tables.rows)):
        total += step(tables, tables.second if i % 2 else other, i)
    return total


@pytest.mark.parametrize("counts_references", [True, False])
def test_a_loop_reads_and_writes_nested_tables_as_python_does(counts_references: bool) -> None:
    options: dict[str, Any] = {"_nrt": counts_references, "error_model": "numpy"}
    inner_loop = numba.njit(**options)(step)

    @numba.njit(**options)
    def loop(tables: Any, other: Any) -> int:
        total = 0
        for i in range(len(tables.rows)):
            total += inner_loop(tables, tables.second if i % 2 else other, i)
        return total

    compiled, plain = together(), together()
    assert loop(compiled, compiled.first) == run(plain, plain.first, step)
    for got, expected in zip(compiled, plain):
        parts = zip(got, expected) if isinstance(got, Columns) else [(got, expected)]
        for column, same in parts:
            np.testing.assert_array_equal(column, same)
    assert isinstance(loop.signatures[0][0], TablesByAddress)


def test_views_with_gaps_are_read_by_their_strides() -> None:
    whole = columns(10, 0)
    gaps = Columns(*(column[::2] for column in whole))

    @numba.njit(_nrt=False)
    def loop(table: Any) -> float:
        total = 0.0
        for i in range(len(table.whole)):
            table.flags[i] = 7
            total += table.whole[i] + table.narrow[i] + table.wide[i, 0] + table.wide[i, 1]
        return total

    assert loop(gaps) == sum(gaps.whole) + sum(gaps.narrow) + gaps.wide.sum()
    assert whole.flags.tolist() == [7, 0] * 5


def test_references_are_counted_back() -> None:
    tables = together()
    arrays = [*tables.first, tables.rows, *tables.second]
    before = [sys.getrefcount(array) for array in arrays]

    @numba.njit
    def loop(tables: Any, which: int) -> Any:
        copied = np.empty(len(tables.first.whole))
        copied[:] = tables.first.whole
        return tables.first.wide if which else copied.reshape(-1, 1)

    assert loop(tables, 1)[1, 1] == 3.0
    assert loop(tables, 0)[1, 0] == 101.0
    for _ in range(100):
        loop(tables, 1)
    assert [sys.getrefcount(array) for array in arrays] == before


@pytest.mark.parametrize("counts_references", [True, False])
def test_a_loop_returns_no_table(counts_references: bool) -> None:
    @numba.njit(_nrt=counts_references)
    def loop(tables: Any) -> Any:
        return tables.second

    with pytest.raises(NumbaNotImplementedError, match="changes tables in place"):
        loop(together())


def test_something_else_than_an_array_is_refused() -> None:
    @numba.njit(_nrt=False)
    def loop(table: Any) -> int:
        return len(table.whole)

    table = columns(3, 0)
    assert loop(table) == 3
    entry = loop.overloads[loop.signatures[0]].entry_point
    with pytest.raises(TypeError, match="expected Columns of arrays"):
        entry(table._replace(wide="text"))


def test_tuples_of_others_keep_their_types() -> None:
    class Theirs(NamedTuple):
        first: Ints
        second: Floats

    assert type(numba.typeof(Theirs(np.zeros(1, np.int64), np.zeros(1)))) is types.NamedTuple
    assert type(numba.typeof((np.zeros(1, np.int64), np.zeros(1)))) is types.Tuple
    assert isinstance(numba.typeof(columns(1, 0)), TablesByAddress)
    assert type(numba.typeof(as_records(np.zeros(1, [("number", "<i8")])))) is types.Array
