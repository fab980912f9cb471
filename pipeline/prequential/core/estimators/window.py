"""The last W outcomes of a sequence count, all the same (2013 paper, section 3.2.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.core.estimators.all_history import copy_cells, note_known, recoded
from prequential.core.tables.outcomes import REVISION, Log, cell_of


class Window(NamedTuple):
    """By sequence: how many of the last W outcomes are in each joint cell, and the cells of these."""

    cells: Ints  # (sequences, cells), 4·k² of them with room for k classes
    ring: Ints32  # (sequences, W), the m-th outcome that it has seen at (m - 1) mod W
    n: Ints  # outcomes seen, in the window or before it
    known: Ints  # the last of them of which baselines had a label to predict by, from 1; 0: none had
    began: Ints  # outcomes that the sequence had before: their revisions don't reach it


def new_table(rows: int, cells: int, size: int) -> Window:
    """Empty windows of `size` outcomes."""
    return Window(
        np.zeros((rows, cells), np.int64),
        np.zeros((rows, size), np.int32),
        *(np.zeros(rows, np.int64) for _ in range(3)),
    )


@inner
def add(table: Window, q: int, cell: int) -> None:
    """Sequence `q` has an outcome in `cell`; the oldest one leaves a full window."""
    n, size = table.n[q], table.ring.shape[1]
    place = n % size
    if n >= size:
        table.cells[q, table.ring[q, place]] -= 1
    table.ring[q, place] = cell
    table.cells[q, cell] += 1
    table.n[q] = n + 1


@kernel
def update(table: Window, log: Log, rows: Ints32, capacity: int) -> None:
    """Take over `rows` of the log; `capacity` is the room for classes."""
    size = table.ring.shape[1]
    for row in rows:
        q = log.sequence[row]
        before = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
        if log.kind[row] != REVISION:
            add(table, q, before)
            note_known(table, q, log.known[row])
            continue
        seen_before = log.number[row] - table.began[q] - 1
        if seen_before >= max(0, table.n[q] - size):
            now = cell_of(log.revised[row], log.prediction[row], log.bits[row], capacity)
            table.ring[q, seen_before % size] = now
            table.cells[q, before] -= 1
            table.cells[q, now] += 1


@inner
def knows(table: Window, q: int) -> bool:
    """Whether baselines had a label to predict by at any outcome in memory."""
    return table.known[q] > max(0, table.n[q] - table.ring.shape[1])


@kernel
def read(table: Window, q: int, cells: Floats) -> None:
    """Write the counts of sequence `q` into `cells`."""
    for cell in range(table.cells.shape[1]):
        cells[cell] = table.cells[q, cell]


@kernel
def copy_rows(
    old: Window, rows: Ints, new: Window, new_rows: Ints, capacity: int, new_capacity: int
) -> None:
    """Copy sequences, row by row, to a table with the same W and room for as many classes or more."""
    size = old.ring.shape[1]
    for i in range(len(rows)):
        q, new_q = rows[i], new_rows[i]
        copy_cells(old.cells, q, new.cells, new_q, capacity, new_capacity)
        new.ring[new_q, :] = 0
        for place in range(min(size, old.n[q])):
            new.ring[new_q, place] = recoded(old.ring[q, place], capacity, new_capacity)
        new.n[new_q], new.known[new_q], new.began[new_q] = old.n[q], old.known[q], old.began[q]
