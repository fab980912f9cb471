"""How much outcomes depend on each other: sums over blocks of 1, 2, 4, … of them, by the time of predictions.

If values are independent, the variance of a block's sum is the sum of the values' variances. If values are
correlated (in runs, batches or phases), the variance of the sum is larger. It grows with the length of the
blocks until the blocks are longer than the correlation. So n values count as n/f independent ones. f is the
largest ratio of variances among the lengths that have at least `LEAST` blocks:

    f = max over j of  c_j·(1 + EXTRA/K_j)·(1 + r_j)/(1 - r_j),     c_j = Σ (B_k - m)²/Σ (x_i - x̄)²

Here B_1 … B_K are the sums of blocks of 2^j values, and m is their mean. r_j >= 0 is the correlation of
neighbouring blocks less its standard error 1/√K_j, at most `MOST_CORRELATION`. It stands for the variance
that longer blocks would show. EXTRA allows for the uncertain variance of the few longest blocks. The method
cannot detect dependence over more than n/`LEAST` values, and no other method can without knowing of it.
(Simulations are in `docs/papers.md`.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Floats, Ints, inner, zeros

#: Lengths of blocks: 1, 2, … 2^15.
LENGTHS = 16

#: The fewest blocks whose variance is estimated.
LEAST = 6

#: The estimated variance of K blocks is multiplied by 1 + EXTRA/K.
EXTRA = 3.0

#: A variance below this part of the sum of squares is a rounding error: all values are equal.
_ROUNDING = 1e-9

#: The largest correlation of neighbouring blocks that the formula corrects for.
MOST_CORRELATION = 0.9


class Blocks(NamedTuple):
    """By sequence and length; a "block of 2^j values" has at least 2^j and fewer than 2^(j+1) values."""

    number: Ints  # (rows, LENGTHS) K
    total: Floats  # (rows, LENGTHS) Σ B
    squares: Floats  # (rows, LENGTHS) Σ B²
    neighbours: Floats  # (rows, LENGTHS) Σ B_k·B_(k-1)
    values: Ints  # (rows, LENGTHS) values in them
    variance: Floats  # (rows, LENGTHS) Σ x² of these
    previous: Floats  # (rows, LENGTHS) the latest B
    half: Floats  # (rows, LENGTHS) the sum of a block that waits for its neighbour …
    half_variance: Floats  # (rows, LENGTHS) … its Σ x² …
    half_values: Ints  # (rows, LENGTHS) … and how many values it has; 0: no block waits


def new_blocks(rows: int) -> Blocks:
    """Return rows without blocks; columns of (rows, LENGTHS)."""
    widths = dict.fromkeys(Blocks._fields, LENGTHS)
    return zeros(Blocks, rows, **widths)


@inner
def length_of(values: int) -> int:
    """Return the largest j with 2^j at most `values`, and at most the j of the longest blocks."""
    j = 0
    while values > 1 and j < LENGTHS - 1:
        values >>= 1
        j += 1
    return j


@inner
def add(blocks: Blocks, row: int, values: int, total: float, variance: float) -> None:
    """Add a block of `values` (1 or more) with the sums Σ x and Σ x² to a row, under its length.

    Neighbouring blocks are also merged into blocks of all larger lengths.
    """
    length = length_of(values)
    for j in range(length):  # a shorter block that waits for a neighbour is merged into this one
        if blocks.half_values[row, j]:
            values += blocks.half_values[row, j]
            total += blocks.half[row, j]
            variance += blocks.half_variance[row, j]
            blocks.half_values[row, j] = 0
    j = length
    while True:
        blocks.number[row, j] += 1
        blocks.total[row, j] += total
        blocks.squares[row, j] += total * total
        blocks.neighbours[row, j] += total * blocks.previous[row, j]
        blocks.previous[row, j] = total
        blocks.values[row, j] += values
        blocks.variance[row, j] += variance
        if j == LENGTHS - 1:
            break
        if not blocks.half_values[row, j]:
            blocks.half[row, j], blocks.half_variance[row, j] = total, variance
            blocks.half_values[row, j] = values
            break
        total += blocks.half[row, j]
        variance += blocks.half_variance[row, j]
        values += blocks.half_values[row, j]
        blocks.half_values[row, j] = 0
        j += 1


@inner
def inflation(blocks: Blocks, row: int, n: int) -> float:
    """Return f >= 1: the row's `n` values count as n/f independent ones; 0: f isn't known yet.

    f is known once some length has at least `LEAST` blocks that contain at least half of the values. The
    module's docstring has the formula.
    """
    most, known = 1.0, 0
    for j in range(LENGTHS):
        count = blocks.number[row, j]
        if count < LEAST:
            continue
        known = max(known, blocks.values[row, j])
        total = blocks.total[row, j]
        of_mean = total * total / count
        of_values = blocks.variance[row, j] - total * total / blocks.values[row, j]
        spread = blocks.squares[row, j] - of_mean
        if not (of_values > _ROUNDING * blocks.variance[row, j] and spread > 0.0):
            continue
        r = (blocks.neighbours[row, j] - of_mean) / spread - 1.0 / math.sqrt(count)
        r = min(max(r, 0.0), MOST_CORRELATION)
        most = max(most, spread / of_values * (1.0 + EXTRA / count) * ((1.0 + r) / (1.0 - r)))
    return most if 2 * known >= n else 0.0


@inner
def local_inflation(blocks: Blocks, row: int, n: int, least: int) -> float:
    """Return f as `inflation` does, from differences of neighbouring blocks, at least `least` of them.

    Use it where the mean may have moved: a single change of the mean hardly affects Σ (B_k - B_(k-1))²/2.
    This sum underestimates the variance if neighbouring blocks are correlated; longer blocks compensate for
    that.
    """
    most, known = 1.0, 0
    for j in range(LENGTHS):
        count = blocks.number[row, j]
        if count < least:
            continue
        known = max(known, blocks.values[row, j])
        total = blocks.total[row, j]
        of_values = blocks.variance[row, j] - total * total / blocks.values[row, j]
        if of_values > _ROUNDING * blocks.variance[row, j]:
            apart = blocks.squares[row, j] - blocks.neighbours[row, j]
            most = max(most, apart / of_values * (1.0 + 2.0 / math.sqrt(count)))
    return most if 2 * known >= n else 0.0


@inner
def clear(blocks: Blocks, row: int) -> None:
    """Empty a row: it has no blocks, of any length."""
    for j in range(LENGTHS):
        blocks.number[row, j] = blocks.values[row, j] = blocks.half_values[row, j] = 0
        blocks.total[row, j] = blocks.squares[row, j] = blocks.neighbours[row, j] = 0.0
        blocks.variance[row, j] = blocks.previous[row, j] = 0.0
        blocks.half[row, j] = blocks.half_variance[row, j] = 0.0
