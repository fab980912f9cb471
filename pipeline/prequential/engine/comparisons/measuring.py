"""From memories of joint outcomes to statistics: the difference of mean losses, Q, McNemar's M."""

from __future__ import annotations

import math

from prequential.engine.comparisons import DEFINED, EMPTY, NO_DISCORDANT, ZERO_LOSS
from prequential.engine.comparisons.clusters import ClusterSums
from prequential.engine.comparisons.confidence_sequence import Sequences, interval
from prequential.engine.comparisons.forecast import forecast
from prequential.engine.compiled.kernel import Floats, Ints, inner, kernel
from prequential.engine.compiled.mathematics import both_tails, density, log
from prequential.engine.measures.declaration import Result
from prequential.engine.tables.scores import NO_WEIGHT


@inner
def q(loss_a: float, loss_b: float) -> Result:
    """Q = ln(S_A/S_B) of two sums of losses >= 0 in the same memory: all history, a window, or faded.

    Positive: A lost more, B is better. Q(B, A) = -Q(A, B), to the last bit. Q has no value (`zero_loss`)
    while either sum is 0, or while fading has made one sum negligible compared with the other.

    >>> q(4.0, 2.0), q(2.0, 4.0), q(3.0, 0.0)
    ((0.6931471805599453, 0), (-0.6931471805599453, 0), (0.0, 1))
    """
    larger, smaller = max(loss_a, loss_b), min(loss_a, loss_b)
    if smaller <= 0.0 or smaller < NO_WEIGHT * larger:
        return 0.0, ZERO_LOSS
    ratio = larger / smaller
    size = log(ratio) if ratio < math.inf else log(larger) - log(smaller)
    return (size if loss_a >= loss_b else -size), DEFINED


#: From this many discordant outcomes on, χ²(1) is accurate enough; below, the binomial distribution is used.
ENOUGH = 25


@inner
def signed(n01: float, n10: float) -> Result:
    """M = sign(n01 - n10)·(n01 - n10)²/(n01 + n10), counts or faded sums: n01 = A wrong and B right.

    Positive: B is better. Under no difference counts of independent outcomes have |M| ~ χ²(1) in the limit;
    faded sums only roughly so. It has no value (`no_discordant`) while n01 + n10 = 0.

    >>> signed(80.0, 49.0), signed(49.0, 80.0), signed(0.0, 0.0)
    ((7.449612403100775, 0), (-7.449612403100775, 0), (0.0, 2))
    """
    discordant = n01 + n10
    if discordant <= 0.0:
        return 0.0, NO_DISCORDANT
    more = n01 - n10
    return more * abs(more) / discordant, DEFINED


@inner
def p_value(n01: int, n10: int) -> Result:
    """The exact two-sided p value of counts, n01 + n10 < 25: both tails of the binomial with 1/2.

    2·Σ_{k <= min} C(n, k)/2^n, at most 1: whole numbers divided by a power of two, so nothing is rounded.

    >>> p_value(1, 5), p_value(3, 3), p_value(0, 0)
    ((0.21875, 0), (1.0, 0), (0.0, 2))
    """
    n, fewer = n01 + n10, min(n01, n10)
    if n == 0:
        return 0.0, NO_DISCORDANT
    choices = ways = 1  # C(n, k), and their sum up to there
    for k in range(fewer):
        choices = choices * (n - k) // (k + 1)
        ways += choices
    return min(1.0, ways / (1 << (n - 1))), DEFINED


def threshold(level: float) -> float:
    """The quantile of χ²(1) that |M| exceeds with probability `level` in (0, 1) if there is no difference.

    z² with 2·(1 - Φ(z)) = level, by Newton's method from 0, from where it comes up: the tail is convex.

    >>> threshold(0.01), threshold(0.05)
    (6.63489660102..., 3.84145882069...)
    """
    z = 0.0
    while True:
        above = z + (both_tails(z) - level) / (2 * density(z))
        if not above > z:
            return z * z
        z = above


#: Columns of statistics. The last is the exact p value, which few whole numbers have.
DIFFERENCE, Q, MCNEMAR, N01, N10, P_VALUE = range(6)
NAMES = ("difference", "q", "mcnemar", "n01", "n10", "mcnemar_p")

#: In place of a reason: this statistic doesn't exist here, and messages omit it.
ABSENT = -1


@kernel
def from_counts(cells: Floats, whole: bool, values: Floats, reasons: Ints) -> None:
    """Statistics of cells 2·(A is wrong) + (B is wrong), each row's; `whole`: they are counts, not faded."""
    for i in range(len(cells)):
        n10, n01, both = cells[i, 1], cells[i, 2], cells[i, 3]
        n = cells[i, 0] + n10 + n01 + both
        if n > 0.0:
            values[i, DIFFERENCE] = (n01 - n10) / n
        else:
            reasons[i, DIFFERENCE] = EMPTY
        values[i, Q], reasons[i, Q] = q(n01 + both, n10 + both)
        values[i, MCNEMAR], reasons[i, MCNEMAR] = signed(n01, n10)
        values[i, N01], values[i, N10] = n01, n10
        reasons[i, P_VALUE] = ABSENT
        if whole and n01 + n10 < ENOUGH:
            value, reason = p_value(int(n01), int(n10))
            values[i, P_VALUE] = value
            reasons[i, P_VALUE] = ABSENT if reason == NO_DISCORDANT else DEFINED


@kernel
def from_sums(sums: Floats, values: Floats, reasons: Ints) -> None:
    """Statistics of the sums of A's and of B's losses and of how many outcomes these are of, each row's."""
    for i in range(len(sums)):
        if sums[i, 2] > 0.0:
            values[i, DIFFERENCE] = (sums[i, 0] - sums[i, 1]) / sums[i, 2]
        else:
            reasons[i, DIFFERENCE] = EMPTY
        values[i, Q], reasons[i, Q] = q(sums[i, 0], sums[i, 1])
        for column in (MCNEMAR, N01, N10, P_VALUE):
            reasons[i, column] = ABSENT


@kernel
def intervals(table: Sequences, sums: ClusterSums, rows: Ints, bounds: Floats) -> None:
    """By sequence: whether there is an interval (1 or 0), its ends, effective sample size, a `Forecast`."""
    for i in range(len(rows)):
        of_row = interval(table, sums, rows[i])
        bounds[i, 0], bounds[i, 1] = 1.0 if of_row.known else 0.0, of_row.low
        bounds[i, 2], bounds[i, 3] = of_row.high, of_row.effective
        more = forecast(table, sums, rows[i])
        bounds[i, 4], bounds[i, 5] = more.outcomes, more.clusters
