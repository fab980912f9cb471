"""`all`: every outcome of a sequence counts the same (2013 paper, section 3.2: the prequential error)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, inlined, inner, zeros
from prequential.engine.estimators import declaration
from prequential.engine.estimators.sums import add_with_label, copied
from prequential.engine.tables import scores


class AllCounts(NamedTuple):
    """By sequence: the number of outcomes in each cell."""

    cells: Ints  # (sequences, cells)
    n: Ints  # outcomes seen
    known: Ints  # those of them in a cell at which baselines had a label to predict from
    began: Ints  # outcomes that the sequence had before: their revisions are ignored


class AllSums(NamedTuple):
    """By sequence: sums over all of its outcomes."""

    sums: Floats  # (sequences, sums)
    rests: Floats  # (sequences, sums, rests), see `engine.compiled.mathematics`
    n: Ints  # outcomes seen
    began: Ints  # as in `AllCounts`


def new_sums(rows: int, payload: declaration.Payload, parameter: float) -> AllSums:
    """Empty sums of sequences."""
    shape = rows, payload.width, payload.rests
    return AllSums(np.zeros(shape[:2]), np.zeros(shape), np.zeros(rows, np.int64), np.zeros(rows, np.int64))


@inner
def add(table: AllCounts, q: int, cell: int, had_label: int, t1: int, parameter: float) -> None:
    """Add an outcome of sequence `q` in `cell`."""
    table.cells[q, cell] += 1
    table.known[q] += had_label
    table.n[q] += 1


@inner
def revise(table: AllCounts, q: int, number: int, cell: int, now: int, had_label: int) -> None:
    """Move an outcome to another cell, take it out or bring it back."""
    if number > table.began[q]:
        if cell != declaration.WITHDRAWN:
            table.cells[q, cell] -= 1
            table.known[q] -= had_label
        if now != declaration.WITHDRAWN:
            table.cells[q, now] += 1
            table.known[q] += had_label


@inlined
def add_sums(
    table: AllSums, kind: int, q: int, t1: int, flags: int, values: Floats, parameter: float
) -> None:
    """Add an outcome of sequence `q`."""
    table.n[q] += 1
    if flags:
        add_with_label(kind, table.sums[q], table.rests[q], flags, values, 1.0)


@inner
def revise_sums(table: AllSums, kind: int, q: int, number: int, flags: int, values: Floats) -> None:
    """Remove an earlier outcome of sequence `q`, or bring it back."""
    if abs(number) > table.began[q]:
        sign = 1.0 if number > 0 else -1.0
        add_with_label(kind, table.sums[q], table.rests[q], flags, values, sign)
        if kind == declaration.LOSSES:
            table.sums[q, len(values)] -= sign  # the number of all outcomes stays


@inner
def read_sums(table: AllSums, kind: int, q: int, parameter: float, sums: Floats) -> None:
    """Write the sums of sequence `q` into `sums`."""
    if table.rests.shape[2]:
        scores.read_exactly(table.sums[q], table.rests[q], sums)
    else:
        copied(table.sums[q], sums)


MEMORY = declaration.Memory(
    "all",
    "all",
    "all",
    declaration.no_parameter,
    lambda parameter: "",
    declaration.count_loops(
        "all",
        lambda rows, payload, _: zeros(AllCounts, rows, cells=payload.width),
        declaration.CountSteps(add, revise, declaration.read_cells, declaration.knows_any),
        by_cell=("cells",),
    ),
    declaration.sum_loops("all", new_sums, declaration.SumSteps(add_sums, revise_sums, read_sums)),
    forgets=False,
    adds_up=True,
)
