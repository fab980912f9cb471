"""A verdict that may be looked at all the time: a confidence sequence for the mean difference of two losses.

An interval for each number of outcomes, such that with probability 1 - level all of them at once contain the
mean that they are about (Choe and Ramdas: Comparing sequential forecasters, 2022, theorem 2; Howard, Ramdas,
McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49,
2021, theorem 4). Nothing is assumed but that differences are bounded, |d_i| <= b: neither that outcomes are
independent nor that they are distributed alike.

What it is about: Δ_n = (E[d_1] + … + E[d_n])/n, each expectation given all outcomes before. It moves with the
streams, and what is decided can become undecided again. So intervals aren't intersected with earlier ones,
as they might be if there were one Δ.

With s = |Σ d_i|/b and v = Σ d_i²/b² (the intrinsic time; for 0/1 loss s = |n01 - n10|, v = n01 + n10),
exp(λ·Σ(d_i - E[d_i])/b - (-ln(1 - λ) - λ)·v) is a supermartingale for each λ in [0, 1) (Fan, Grama, Liu
2015). So is its mixture over λ with a gamma density of parameter ρ cut off at 1 (Howard and others,
proposition 9, c = 1):

    M(s, v) = Γ(a)·P(a, x)·x^-a·e^x/C,   a = v + ρ,   x = a + s,   C so that M(0, 0) = 1

with P the regularised lower incomplete gamma function. M exceeds 1/α at any time with probability at most α
(Ville). We have 1 - P(a, x) <= x^a·e^-x/(Γ(a)·(x - a + 1)) for a >= 1, as (1 + w)^(a - 1) <= e^((a - 1)·w)
under the integral; which leaves logarithms only, and errs to the safe side, by less than 1e-4 of the width up
to a level of 0.05:

    outside:   G(s, v) >= ln(N + 1/(s + 1)),   G = ln Γ(a) - a·ln x + x,   N = C/α

Two of these, one for each sign, share the level: α = level/2.

Differences are measured from 0, not from their mean so far as in the papers' examples. The theorem lets any
forecast of d_i stand there; with this one the boundary's scale is b instead of 2b.

*Runs.* Δ_n is about expectations given the past. If one model's errors come in runs, the past says who is the
better one for now, Δ_n isn't 0, and a verdict is right about it though in the long run neither is better. So
that verdicts are right about the long run, too, outcomes count as f = (1 + r)/(1 - r) times fewer, with s/f
and v/f, r being the correlation of neighbouring differences (those of 0 left out: m are there). It is taken
about their mean as far as that is known, about 0 before: the less, the fewer changes of sign c there were.

    r = (Σ d_j·d_(j-1) - w·(Σ d_j)²/m)/(Σ d_j² - w·(Σ d_j)²/m) within 0 … 0.9,   w = max(0, 1 - 5/c)

Whatever f >= 1 is, it makes intervals wider only, so the theorem's word holds as before; that about the long
run holds as far as r tells (`docs/papers.md` has simulations).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.core.comparisons import A_BETTER, B_BETTER, UNDECIDED
from prequential.core.kernel import Bytes, Floats, Ints, inner, kernel, records
from prequential.core.mathematics import log
from prequential.core.scores import CLIP

#: ρ: the interval is tightest at an intrinsic time of some 60 (at level 0.05) to 100 (at 0.005); for 0/1 loss
#: that is 60 to 100 outcomes on which just one model is right, 1,000 to 2,000 where that is every twentieth.
#: Twice or half as much costs 1 % of the width there. A whole number: Γ and P have simple values.
RHO = 8.0

#: C = P(ρ, ρ)·Γ(ρ)·e^ρ·ρ^-ρ for that ρ.
_C = 0.48987461654486122755

#: The largest correlation r that is taken away, f = 19. Without any limit a model that is better wherever
#: they differ would never be found so, as it is one long run; so it takes 298 such outcomes, at level 0.05.
_MOST_CORRELATION = 0.9

#: So many changes of sign tell nothing yet of a mean other than 0; were it fewer, models that take turns in
#: being the better one would be told apart too often.
_FEW_CHANGES = 5.0

#: ln(2π)/2
_HALF_LN_2PI = 0.91893853320467274178

#: Newton's steps for a bound; they converge to the last digits in 4 to 6.
_STEPS = 50

#: The largest difference of two losses of one outcome, by loss; those that aren't here have no bound.
LARGEST: dict[str, float] = {
    "error": 1.0,
    # Probabilities that sum to 1.001 are accepted: 1² + 1.001².
    "brier": 2.002001,
    # -ln of the clip: valid, but an interval as wide as losses of 34 ask for.
    "log_loss": -log(CLIP),
}


class Sequences(NamedTuple):
    """By pair, segment, stage and loss: the sequence so far. A row without a bound never decides anything."""

    n: Ints  # outcomes of both
    total: Floats  # Σ d_i/b
    variance: Floats  # v = Σ (d_i/b)²
    moved: Ints  # m, differences that aren't 0; of these …
    previous: Floats  # … the latest, /b
    neighbours: Floats  # … Σ d_j·d_(j-1)/b²
    changes: Ints  # … c, those of another sign than the one before
    verdict: Bytes
    since: Ints  # the outcome at which the present verdict began; 0 while undecided
    largest: Floats  # b; 0: not known, or exceeded
    needed: Floats  # N


def new_table(rows: int) -> Sequences:
    """So many sequences, none begun, without a bound (see `declare`)."""
    return records(Sequences, rows)


@inner
def needed_for(level: float) -> float:
    """N for a two-sided level in (0, 1): of all sequences without a difference, so many are ever decided.

    Of several pairs each has its part: level/pairs.

    >>> needed_for(0.05)
    19.594984661794...
    """
    return _C / (level / 2.0)


@inner
def declare(table: Sequences, row: int, largest: float, level: float) -> bool:
    """Say how large differences of the row's losses can be (0: no bound), and its level.

    The level may become another one, as pairs come and go; the verdict is then by that, at once: whether it
    is another one now. The bound is that of the row's beginning.
    """
    if table.n[row] == 0:
        table.largest[row] = largest
    table.needed[row] = needed_for(level)
    return _judge(table, row)


@inner
def step(table: Sequences, row: int, difference: float) -> bool:
    """Take the row's next difference, loss of A less loss of B: whether the verdict is another one now.

    A difference beyond the declared bound takes the interval and the verdict away for good.
    """
    table.n[row] += 1
    if difference == 0.0:  # as most are, of 0/1 loss: nothing moves
        return False
    largest = table.largest[row]
    if abs(difference) <= largest:
        d = difference / largest
        neighbours = d * table.previous[row]
        table.total[row] += d
        table.variance[row] += d * d
        table.moved[row] += 1
        table.previous[row] = d
        table.neighbours[row] += neighbours
        table.changes[row] += neighbours < 0.0
    else:
        table.largest[row] = 0.0
    return _judge(table, row)


@inner
def _judge(table: Sequences, row: int) -> bool:
    """Note the verdict as it is after the row's newest outcome: whether it is another one than before."""
    verdict = UNDECIDED
    if table.largest[row] > 0.0:
        f = inflation(table, row)
        verdict = verdict_of(table.total[row] / f, table.variance[row] / f, table.needed[row])
    changed = verdict != table.verdict[row]
    if changed:
        table.verdict[row] = verdict
        table.since[row] = table.n[row] if verdict != UNDECIDED else 0
    return changed


@inner
def inflation(table: Sequences, row: int) -> float:
    """f = (1 + r)/(1 - r) >= 1: so many outcomes of the row are worth an independent one."""
    if table.neighbours[row] <= 0.0:
        return 1.0
    of_mean = 0.0
    if table.changes[row] > _FEW_CHANGES:
        known = 1.0 - _FEW_CHANGES / table.changes[row]
        of_mean = known * (table.total[row] * table.total[row] / table.moved[row])
    r = (table.neighbours[row] - of_mean) / (table.variance[row] - of_mean)
    r = min(max(r, 0.0), _MOST_CORRELATION)
    return (1.0 + r) / (1.0 - r)


@inner
def verdict_of(total: float, variance: float, needed: float) -> int:
    """Who is better, by Σ d_i/b, Σ (d_i/b)² (both divided by f) and N; no root is searched for.

    >>> needed = needed_for(0.05)
    >>> [verdict_of(total, 40.0, needed) for total in (-30.0, 20.0, 30.0)]
    [1, 0, 2]
    """
    s = abs(total)
    a = variance + RHO
    if _at_zero(a) + (s - a * _log_of_one_plus(s / a)) < log(needed + 1.0 / (s + 1.0)):
        return UNDECIDED
    return B_BETTER if total > 0.0 else A_BETTER


@inner
def radius(variance: float, needed: float) -> float:
    """Where `verdict_of` changes: the s with G(s, v) = ln(N + 1/(s + 1)), by Newton's method from above.

    It starts where a bound of G is as large, s - a·ln(1 + s/a) >= s²/(2a + 4s/3), and comes down, since G is
    convex.

    >>> round(radius(50.0, needed_for(0.05)), 6)  # of 1,000 outcomes with 50 that one model has wrong
    24.57978
    """
    a = variance + RHO
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


@kernel
def interval(table: Sequences, row: int) -> tuple[bool, float, float]:
    """Whether the row has an interval, and its ends, in the losses' own unit, within [-b, b].

    It excludes 0 just if there is a verdict.
    """
    largest, n = table.largest[row], table.n[row]
    if not largest > 0.0:
        return False, 0.0, 0.0
    if n == 0:
        return True, -largest, largest
    total, needed = table.total[row], table.needed[row]
    f = inflation(table, row)
    wide = f * radius(table.variance[row] / f, needed)
    low, high = max(-largest, (total - wide) / n * largest), min(largest, (total + wide) / n * largest)
    if verdict_of(total / f, table.variance[row] / f, needed) == UNDECIDED:
        # Both end within rounding of 0 at the very outcome before a verdict.
        low, high = min(low, 0.0), max(high, 0.0)
    return True, low, high


@inner
def _at_zero(a: float) -> float:
    """ln Γ(a) - a·ln a + a for a >= ρ, by Stirling's series, cut off where it is short of it (by 6e-12)."""
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
