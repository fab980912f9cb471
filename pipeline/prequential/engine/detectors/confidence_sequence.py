"""A bound of a sum that holds at all times at once, and how much the outcomes in it depend on each other.

Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals
of Statistics 49, 2021, theorem 4. The only assumption is x_i >= -1: the x_i needn't be independent or
identically distributed. Expectations are conditional on all earlier values.

Let s = Σ x_i and v = Σ x_i² (the intrinsic time). Then exp(λ·Σ(x_i - E[x_i]) - (-ln(1 - λ) - λ)·v) is a
supermartingale for each λ in [0, 1) (Fan, Grama, Liu 2015). So is its mixture over λ with a gamma density of
parameter ρ cut off at 1 (Howard and others, proposition 9, c = 1). If E[x_1] + … + E[x_n] <= 0, it is at
least

    M(s, v) = Γ(a)·P(a, x)·x^-a·e^x/C,   a = v + ρ,   x = a + s,   C so that M(0, 0) = 1

with P the regularised lower incomplete gamma function. The probability that M ever exceeds 1/α is at most α
(Ville). For a >= 1 we have 1 - P(a, x) <= x^a·e^-x/(Γ(a)·(x - a + 1)), since (1 + w)^(a - 1) <= e^((a - 1)·w)
under the integral. With this bound of P, only logarithms remain. The error is on the safe side, and less than
1e-4 of the width up to a level of 0.05:

    beyond the bound:   G(s, v) >= ln(N + 1/(s + 1)),   G = ln Γ(a) - a·ln x + x,   N = C/α

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
from prequential.engine.compiled.mathematics import exp, log

#: ρ: the bound is tightest at an intrinsic time of about 60 (at a two-sided level of 0.05) to 100 (at 0.005).
#: For the difference of 0/1 losses, that is 60 to 100 outcomes on which exactly one model is right. If these
#: are every twentieth outcome, it is 1,000 to 2,000 outcomes. Doubling or halving ρ costs 1% of the width
#: there. For an integer, Γ and P have simple values.
RHO = 8.0

#: C = P(ρ, ρ)·Γ(ρ)·e^ρ·ρ^-ρ for that ρ.
_C = 0.48987461654486122755

#: A safety factor for a constant that is too small by at most half as much, 5e-5.
_SAFE = 1.0001

#: sqrt(2π)
_ROOT_2PI = 2.50662827463100050242

#: ln(2π)/2
_HALF_LN_2PI = 0.91893853320467274178

#: Newton's steps for a bound; they converge to the last digits in 4 to 6.
_STEPS = 50


@inner
def needed_for(alpha: float) -> float:
    """N for a one-sided level α in (0, 1): at most a share α of sums of expectation 0 ever exceeds the bound.

    >>> needed_for(0.025)
    19.594984661794...
    """
    return _C / alpha


@inner
def needed_with(rho: float, alpha: float) -> float:
    """N for another ρ >= 8, by P(ρ, ρ) ≈ 1/2 + 1/(3·sqrt(2πρ)), which is too small by at most 5e-5.

    >>> needed_with(8.0, 0.025) / needed_for(0.025) - 1
    5...e-05
    """
    return _SAFE * (0.5 + 1.0 / (3.0 * _ROOT_2PI * math.sqrt(rho))) * exp(_at_zero(rho)) / alpha


@inner
def beyond(s: float, variance: float, needed: float, rho: float) -> bool:
    """Whether s = Σ x_i >= 0 is beyond the bound at v = Σ x_i² (`variance`), without solving for the bound.

    `needed` is N, from `needed_for`. The module's docstring has the bound and its source.

    >>> beyond(20.0, 40.0, needed_for(0.025), RHO), beyond(30.0, 40.0, needed_for(0.025), RHO)
    (False, True)
    """
    a = variance + rho
    return _at_zero(a) + (s - a * _log_of_one_plus(s / a)) >= log(needed + 1.0 / (s + 1.0))


@inner
def radius(variance: float, needed: float, rho: float) -> float:
    """Where `beyond` changes: the s with G(s, v) = ln(N + 1/(s + 1)), by Newton's method from above.

    The unit is that of the sum s; divided by n, it is the half-width of an interval of the mean. The search
    starts where the lower bound s²/(2a + 4s/3) of s - a·ln(1 + s/a) reaches the value. It descends, since G
    is convex.

    >>> round(radius(50.0, needed_for(0.025), RHO), 6)  # of 1,000 outcomes with 50 that one model has wrong
    24.57978
    """
    a = variance + rho
    start = _at_zero(a)
    y = (log(needed + 1.0) - start) / a
    s = a * (2.0 / 3.0 * y + math.sqrt(4.0 / 9.0 * y * y + 2.0 * y))
    for _ in range(_STEPS):
        allowed = needed + 1.0 / (s + 1.0)
        excess = start + (s - a * _log_of_one_plus(s / a)) - log(allowed)
        slope = s / (a + s) + 1.0 / (allowed * (s + 1.0) * (s + 1.0))
        below = s - excess / slope
        if not below < s:
            break
        s = below
    return s


@inner
def _at_zero(a: float) -> float:
    """ln Γ(a) - a·ln a + a for a >= ρ, by Stirling's series, cut off so that it is too small (by 6e-12)."""
    z = 1.0 / (a * a)
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0)))) / a
    return _HALF_LN_2PI - 0.5 * log(a) + series


@inner
def _log_of_one_plus(x: float) -> float:
    """ln(1 + x) for x >= 0, with the digits of small x that 1 + x loses.

    >>> _log_of_one_plus(1e-18), _log_of_one_plus(1.0)
    (1e-18, 0.6931471805599453)
    """
    w = 1.0 + x
    return x if w == 1.0 else log(w) * (x / (w - 1.0))


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
def add_block(blocks: Blocks, row: int, values: int, total: float, variance: float) -> None:
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
    most, covered = 1.0, 0
    for j in range(LENGTHS):
        count = blocks.number[row, j]
        if count < LEAST:
            continue
        covered = max(covered, blocks.values[row, j])
        total = blocks.total[row, j]
        of_mean = total * total / count
        of_values = blocks.variance[row, j] - total * total / blocks.values[row, j]
        spread = blocks.squares[row, j] - of_mean
        if not (of_values > _ROUNDING * blocks.variance[row, j] and spread > 0.0):
            continue
        r = (blocks.neighbours[row, j] - of_mean) / spread - 1.0 / math.sqrt(count)
        r = min(max(r, 0.0), MOST_CORRELATION)
        most = max(most, spread / of_values * (1.0 + EXTRA / count) * ((1.0 + r) / (1.0 - r)))
    return most if 2 * covered >= n else 0.0


@inner
def local_inflation(blocks: Blocks, row: int, n: int, least: int) -> float:
    """Return f as `inflation` does, from differences of neighbouring blocks, at least `least` of them.

    Use it where the mean may have moved: a single change of the mean hardly affects Σ (B_k - B_(k-1))²/2.
    This sum underestimates the variance if neighbouring blocks are correlated; longer blocks compensate for
    that.
    """
    most, covered = 1.0, 0
    for j in range(LENGTHS):
        count = blocks.number[row, j]
        if count < least:
            continue
        covered = max(covered, blocks.values[row, j])
        total = blocks.total[row, j]
        of_values = blocks.variance[row, j] - total * total / blocks.values[row, j]
        if of_values > _ROUNDING * blocks.variance[row, j]:
            apart = blocks.squares[row, j] - blocks.neighbours[row, j]
            most = max(most, apart / of_values * (1.0 + 2.0 / math.sqrt(count)))
    return most if 2 * covered >= n else 0.0


@inner
def clear(blocks: Blocks, row: int) -> None:
    """Empty a row: it has no blocks, of any length."""
    for j in range(LENGTHS):
        blocks.number[row, j] = blocks.values[row, j] = blocks.half_values[row, j] = 0
        blocks.total[row, j] = blocks.squares[row, j] = blocks.neighbours[row, j] = 0.0
        blocks.variance[row, j] = blocks.previous[row, j] = 0.0
        blocks.half[row, j] = blocks.half_variance[row, j] = 0.0
