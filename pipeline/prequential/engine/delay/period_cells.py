"""Joint cells of periods: the number of outcomes in each and, with costs by value, the sum of their values.

A revision moves both. Cells have values instead of costs, so that changed costs apply to all outcomes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.pool import Pool
from prequential.engine.tables.outcomes import cell_of

#: Columns of a cell's stakes: the sum of its outcomes' values, and the number of outcomes with a value.
STAKE, VALUED = range(2)


class Cells(NamedTuple):
    """By joint cell: rows of a pool, whose owners are periods and whose keys are cells, packed."""

    counts: Ints
    stakes: Floats  # (cells, 2), see `STAKE`; (cells, 0) until costs of a model are by value


@inner
def add_stake(stakes: Floats, cell: int, value: float) -> None:
    """Add an outcome's value to a cell."""
    stakes[cell, STAKE] += value
    stakes[cell, VALUED] += 1.0


@inner
def take_stake(stakes: Floats, cell: int, value: float) -> None:
    """Remove an outcome's value from a cell; the last one sets it to 0, without a rounding error."""
    if stakes[cell, VALUED] > 1.0:
        stakes[cell, STAKE] -= value
        stakes[cell, VALUED] -= 1.0
    else:
        stakes[cell, STAKE] = stakes[cell, VALUED] = 0.0


def counts_of(pool: Pool, cells: Cells, first: int, count: int, capacity: int) -> Floats:
    """Joint counts of `count` cells from row `first` on: (4·k²,) float64 with capacity for k classes."""
    counts = np.zeros(4 * capacity * capacity)
    put_counts(pool.key, pool.next, cells.counts, first, count, capacity, counts)
    return counts


def stakes_of(pool: Pool, cells: Cells, first: int, count: int, capacity: int) -> Floats:
    """The stakes of these cells, by label·k + prediction: (k², 2) float64, columns as `Cells.stakes`."""
    stakes = np.zeros((capacity * capacity, 2))
    if cells.stakes.shape[1]:
        put_stakes(pool.key, pool.next, cells.stakes, first, count, capacity, stakes)
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
    key: Ints, following: Ints32, stakes: Floats, row: int, cells: int, capacity: int, into: Floats
) -> None:
    """Put the stakes of the cells, summed over all bits, into `into`: (k², 2)."""
    for _ in range(cells):
        cell = key[row]
        place = (cell >> 18) * capacity + ((cell >> 2) & 0xFFFF)
        into[place, STAKE] += stakes[row, STAKE]
        into[place, VALUED] += stakes[row, VALUED]
        row = np.int64(following[row])
