"""McNemar's test with a sign, on outcomes that just one of two models has right (2013 paper, section 4.1)."""

from __future__ import annotations

from prequential.engine.comparisons import DEFINED, NO_DISCORDANT
from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.normal import both_tails, density
from prequential.engine.measures.declaration import Result

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
