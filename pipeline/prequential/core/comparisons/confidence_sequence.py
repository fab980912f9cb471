"""A verdict that may be looked at all the time: a confidence sequence for the mean difference of two losses.

An interval for each number of outcomes, such that with probability 1 - level all of them at once contain the
mean that they are about (Choe and Ramdas: Comparing sequential forecasters, 2022, theorem 2; Howard, Ramdas,
McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49,
2021, theorem 4). Nothing is assumed but that differences are bounded, |d_i| <= b: neither that outcomes are
independent nor that they are distributed alike.

What it is about: Δ_n = (E[d_1] + … + E[d_n])/n, each expectation given all outcomes before. It moves with the
streams, and what is decided can become undecided again. So intervals aren't intersected with earlier ones,
as they might be if there were one Δ.

The bound is that of `prequential.core.confidence_sequence`, with s = |Σ d_i|/b and v = Σ d_i²/b² (for 0/1
loss s = |n01 - n10|, v = n01 + n10). Two of these, one for each sign, share the level: α = level/2.

Differences are measured from 0, not from their mean so far as in the papers' examples. The theorem lets any
forecast of d_i stand there; with this one the boundary's scale is b instead of 2b.

*Runs.* Δ_n is about expectations given the past. If one model's errors come in runs, the past says who is the
better one for now, Δ_n isn't 0, and a verdict is right about it though in the long run neither is better. So
that verdicts are right about the long run, too, outcomes count as f times fewer, by the correlation of
neighbouring differences (those of 0 left out).
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.core import confidence_sequence as bound
from prequential.core.comparisons import A_BETTER, B_BETTER, UNDECIDED
from prequential.core.confidence_sequence import RHO
from prequential.core.kernel import Bytes, Floats, Ints, inner, kernel, records
from prequential.core.mathematics import log
from prequential.core.scores import CLIP

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
    return bound.needed_for(level / 2.0)


@kernel
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
    return bound.inflation(
        table.total[row], table.variance[row], table.neighbours[row], table.changes[row], table.moved[row]
    )


@inner
def verdict_of(total: float, variance: float, needed: float) -> int:
    """Who is better, by Σ d_i/b, Σ (d_i/b)² (both divided by f) and N; no root is searched for.

    >>> needed = needed_for(0.05)
    >>> [verdict_of(total, 40.0, needed) for total in (-30.0, 20.0, 30.0)]
    [1, 0, 2]
    """
    if not bound.beyond(abs(total), variance, needed, RHO):
        return UNDECIDED
    return B_BETTER if total > 0.0 else A_BETTER


@inner
def radius(variance: float, needed: float) -> float:
    """The |Σ d_i|/b where `verdict_of` changes.

    >>> round(radius(50.0, needed_for(0.05)), 6)  # of 1,000 outcomes with 50 that one model has wrong
    24.57978
    """
    return bound.radius(variance, needed, RHO)


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
