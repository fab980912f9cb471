"""Older outcomes count less and less (2013 paper, section 3.2.1; every outcome decays every cell).

The fading sum of a cell is S = x + A·S at each outcome, x = 1 if the outcome is in the cell and else 0. Decay
is lazy: what is held is S at the outcome that touched the cell last, and S now is that times A^gap. Reading
changes nothing, else the bits would tell when it was read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.core.compiled.mathematics import power
from prequential.core.estimators.all_history import copy_cells, note_known
from prequential.core.tables.outcomes import OUTCOME, Log, cell_of
from prequential.core.tables.scores import NOTHING


class Fading(NamedTuple):
    """By sequence: the weight of each joint cell."""

    weights: Floats  # (sequences, cells), as of the outcome that touched the cell last
    touched: Ints  # (sequences, cells), the number of that outcome
    n: Ints  # outcomes seen; N = 1 + A·N is the sum of weights
    known: Ints  # the last of them of which baselines had a label to predict by, from 1; 0: none had


def new_table(rows: int, cells: int) -> Fading:
    """No weight in so many sequences and cells."""
    return Fading(
        np.zeros((rows, cells)), np.zeros((rows, cells), np.int64),
        *(np.zeros(rows, np.int64) for _ in range(2)),
    )


@inner
def faded(x: float, factor: float, gap: int) -> float:
    """x·A^gap, 0 where that is next to nothing."""
    if x == 0.0:
        return 0.0
    now = x * power(factor, gap)
    return now if abs(now) >= NOTHING else 0.0


@inner
def add(table: Fading, q: int, cell: int, factor: float) -> None:
    """Sequence `q` has an outcome in `cell`."""
    n = table.n[q] + 1
    table.n[q] = n
    table.weights[q, cell] = 1.0 + faded(table.weights[q, cell], factor, n - table.touched[q, cell])
    table.touched[q, cell] = n


@kernel
def update(table: Fading, log: Log, rows: Ints32, capacity: int, factor: float) -> None:
    """Take over the outcomes of `rows` of the log; it keeps what it saw of those whose label is revised."""
    for row in rows:
        if log.kind[row] == OUTCOME:
            cell = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
            add(table, log.sequence[row], cell, factor)
            note_known(table, log.sequence[row], log.known[row])


@inner
def knows(table: Fading, q: int, factor: float) -> bool:
    """Whether baselines had a label to predict by at any outcome in memory, of a weight that is left."""
    return table.known[q] > 0 and faded(1.0, factor, table.n[q] - table.known[q]) > 0.0


@kernel
def read(table: Fading, q: int, factor: float, cells: Floats) -> None:
    """Write the present weights of sequence `q` into `cells`."""
    n = table.n[q]
    for cell in range(table.weights.shape[1]):
        cells[cell] = faded(table.weights[q, cell], factor, n - table.touched[q, cell])


@kernel
def copy_rows(
    old: Fading, rows: Ints, new: Fading, new_rows: Ints, capacity: int, new_capacity: int
) -> None:
    """Copy sequences, row by row, to a table with room for as many classes or more."""
    for i in range(len(rows)):
        q, new_q = rows[i], new_rows[i]
        copy_cells(old.weights, q, new.weights, new_q, capacity, new_capacity)
        copy_cells(old.touched, q, new.touched, new_q, capacity, new_capacity)
        new.n[new_q], new.known[new_q] = old.n[q], old.known[q]
