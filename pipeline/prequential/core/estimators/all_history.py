"""Every outcome of a sequence counts the same (2013 paper, section 3.2: the prequential error)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.core.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.core.tables.outcomes import REVISION, Log, cell_of


class AllHistory(NamedTuple):
    """By sequence: how many outcomes are in each joint cell."""

    cells: Ints  # (sequences, cells), 4·k² of them with room for k classes
    n: Ints  # outcomes seen
    known: Ints  # the last of them of which baselines had a label to predict by, from 1; 0: none had
    began: Ints  # outcomes that the sequence had before: their revisions don't reach it


def new_table(rows: int, cells: int) -> AllHistory:
    """Empty counts of so many sequences and cells."""
    return AllHistory(np.zeros((rows, cells), np.int64), *(np.zeros(rows, np.int64) for _ in range(3)))


@inner
def add(table: AllHistory, q: int, cell: int) -> None:
    """Sequence `q` has an outcome in `cell`."""
    table.cells[q, cell] += 1
    table.n[q] += 1


@inner
def note_known(table: Any, q: int, known: int) -> None:
    """Whether baselines had a label to predict by at the outcome that was just added, of any estimator."""
    if known:
        table.known[q] = table.n[q]


@kernel
def update(table: AllHistory, log: Log, rows: Ints32, capacity: int) -> None:
    """Take over `rows` of the log; `capacity` is the room for classes."""
    for row in rows:
        q = log.sequence[row]
        before = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
        if log.kind[row] != REVISION:
            add(table, q, before)
            note_known(table, q, log.known[row])
        elif log.number[row] > table.began[q]:
            table.cells[q, before] -= 1
            table.cells[q, cell_of(log.revised[row], log.prediction[row], log.bits[row], capacity)] += 1


@inner
def knows(table: AllHistory, q: int) -> bool:
    """Whether baselines had a label to predict by at any outcome in memory."""
    return table.known[q] > 0


@kernel
def read(table: AllHistory, q: int, cells: Floats) -> None:
    """Write the counts of sequence `q` into `cells`."""
    for cell in range(table.cells.shape[1]):
        cells[cell] = table.cells[q, cell]


@inner
def recoded(cell: int, capacity: int, new_capacity: int) -> int:
    """The joint cell of the same label, prediction and baselines where there is room for other classes."""
    pair, bits = cell >> 2, cell & 3
    return cell_of(pair // capacity, pair % capacity, bits, new_capacity)


@inner
def copy_cells(
    old: npt.NDArray[np.generic],
    q: int,
    new: npt.NDArray[np.generic],
    new_q: int,
    capacity: int,
    new_capacity: int,
) -> None:
    """Copy what row `q` of `old` has by cell to row `new_q` of `new`, with room for no fewer classes."""
    new[new_q, :] = 0
    for cell in range(old.shape[1]):
        new[new_q, recoded(cell, capacity, new_capacity)] = old[q, cell]


@kernel
def copy_rows(
    old: AllHistory, rows: Ints, new: AllHistory, new_rows: Ints, capacity: int, new_capacity: int
) -> None:
    """Copy sequences, row by row, to a table with room for as many classes or more."""
    for i in range(len(rows)):
        q, new_q = rows[i], new_rows[i]
        copy_cells(old.cells, q, new.cells, new_q, capacity, new_capacity)
        new.n[new_q], new.known[new_q], new.began[new_q] = old.n[q], old.known[q], old.began[q]
