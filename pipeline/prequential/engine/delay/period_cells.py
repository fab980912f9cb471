"""Joint cells of periods: the number of outcomes in each and, with costs by value, the sum of their values.

A revision moves both. Cells have values instead of costs, so that changed costs apply to all outcomes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.exact_sums import add_exactly, nearest
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.pool import Pool
from prequential.engine.tables.outcomes import cell_of
from prequential.engine.tables.scores import RESTS_OF_COSTS

#: Columns of a cell's stakes: the sum of its outcomes' values, and the number of outcomes with a value.
STAKE, VALUED = range(2)


class Cells(NamedTuple):
    """By joint cell: rows of a pool, whose owners are periods and whose keys are cells, packed."""

    counts: Ints
    stakes: Floats  # (cells, 2), see `STAKE`; (cells, 0) until costs of a model are by value
    rests: Floats  # (cells, 1, rests) of sums of values (`exact_sums`); (cells, 0, rests) until then


def with_stakes(cells: Cells) -> Cells:
    """The cells with room for stakes."""
    if cells.stakes.shape[1]:
        return cells
    rows = len(cells.counts)
    return cells._replace(stakes=np.zeros((rows, 2)), rests=np.zeros((rows, 1, RESTS_OF_COSTS)))


@inner
def clear_stakes(cells: Cells, cell: int) -> None:
    """Set the sum and the number of a cell's values to 0."""
    cells.stakes[cell, STAKE] = cells.stakes[cell, VALUED] = 0.0
    for rest in range(cells.rests.shape[2]):
        cells.rests[cell, STAKE, rest] = 0.0


@inner
def add_stake(cells: Cells, cell: int, value: float) -> None:
    """Add an outcome's value to a cell."""
    add_exactly(cells.stakes[cell], cells.rests[cell], STAKE, value)
    cells.stakes[cell, VALUED] += 1.0


@inner
def take_stake(cells: Cells, cell: int, value: float) -> None:
    """Remove an outcome's value from a cell, if it has not been set to 0 since it was added."""
    if cells.stakes[cell, VALUED] > 1.0:
        add_exactly(cells.stakes[cell], cells.rests[cell], STAKE, -value)
        cells.stakes[cell, VALUED] -= 1.0
    else:
        clear_stakes(cells, cell)


def counts_of(pool: Pool, cells: Cells, first: int, count: int, capacity: int) -> Floats:
    """Joint counts of `count` cells from row `first` on: (4·k²,) float64 with capacity for k classes."""
    counts = np.zeros(4 * capacity * capacity)
    put_counts(pool.key, pool.next, cells.counts, first, count, capacity, counts)
    return counts


def stakes_of(pool: Pool, cells: Cells, first: int, count: int, capacity: int) -> Floats:
    """The stakes of these cells, by label·k + prediction: (k², 2) float64, columns as `Cells.stakes`."""
    stakes, rests = np.zeros((capacity * capacity, 2)), np.zeros((capacity * capacity, 1, RESTS_OF_COSTS))
    if cells.stakes.shape[1]:
        put_stakes(pool.key, pool.next, cells, first, count, capacity, stakes, rests)
    return stakes


@kernel
def put_counts(
    key: Ints, following: Ints32, count: Ints, row: int, cells: int, capacity: int, counts: Floats
) -> None:
    """Put this number of cells from a row on into `counts`. The list may go on with free cells."""
    for _ in range(cells):
        cell = key[row]
        counts[cell_of(cell >> 18, (cell >> 2) & 0xFFFF, cell & 3, capacity)] += count[row]
        row = np.int64(following[row])


@kernel
def put_stakes(
    key: Ints, following: Ints32, of: Cells, row: int, cells: int, capacity: int, into: Floats,
    rests: Floats,
) -> None:  # fmt: skip
    """Put the stakes of the cells, summed over all bits, into `into`: (k², 2).

    `rests` is (k², 1, rests) of zeros, as is `into`.
    """
    for _ in range(cells):
        cell = key[row]
        place = (cell >> 18) * capacity + ((cell >> 2) & 0xFFFF)
        add_exactly(into[place], rests[place], STAKE, of.stakes[row, STAKE])
        for rest in range(of.rests.shape[2]):
            add_exactly(into[place], rests[place], STAKE, of.rests[row, STAKE, rest])
        into[place, VALUED] += of.stakes[row, VALUED]
        row = np.int64(following[row])
    for place in range(len(into)):
        into[place, STAKE] = nearest(into[place], rests[place], STAKE)
