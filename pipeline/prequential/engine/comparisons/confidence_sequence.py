"""A verdict under repeated looks: a confidence sequence for the mean difference of two losses.

See Robbins: Statistical methods related to the law of the iterated logarithm, Annals of Mathematical
Statistics 41, 1970.

Suppose that at each outcome where the models differ, either one is wrong with probability 1/2, whatever came
before. Let s be the sum of differences, and v the number of differences that aren't 0. Then exp(λ·s - λ²·v/2)
is a supermartingale for each λ. So is its mixture over λ with a normal density of variance 1/ρ. The sum is

    beyond the bound:   s² >= (v + ρ)·(ln((v + ρ)/ρ) + 2·ln(1/α))

at any time with probability at most α (Ville), for both signs together.

A confidence sequence has one interval for each number of outcomes. With probability 1 - level, all of these
intervals at once contain their targets. See Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric,
nonasymptotic confidence sequences, Annals of Statistics 49, 2021, also proposition 5 on the bound; and Choe
and Ramdas: Comparing sequential forecasters, 2022. The target is the mean difference over the whole run so
far. This target moves with the stream, so a decided verdict can become undecided again. Intervals aren't
intersected with earlier ones.

*Order.* Outcomes count in the order of their predictions' time, one cohort after another, once the cohort's
labels have come (see `engine.delay.cohorts`).

*Bound.* For 0/1 loss, s = Σ d_i and v = Σ d_i² are compared with Robbins' normal mixture (see
`squared_radius`). Differences of other losses are bounded, |d_i| <= b, but may be skewed. Their sums
s = Σ d_i/b and v = Σ d_i²/b² are compared with the bound of
`engine.detectors.confidence_sequence`, for each sign at half the level.

*Dependence.* Outcomes that depend on each other count as f times fewer: s/f and v/f. The factor f follows
from the variances of sums over blocks of outcomes (see `engine.detectors.confidence_sequence`). No theorem
covers this part. It holds where f captures the dependence, that is for dependence over less than a sixth of
the run. Small differences take many outcomes in any case. Until several batches have come, an effect that the
outcomes of a batch share also resembles a small difference. So f is enlarged from `FROM` outcomes on, and
reaches the full factor 1 + `SLACK` at twice as many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.comparisons import A_BETTER, B_BETTER, UNDECIDED
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner, kernel, records
from prequential.engine.compiled.mathematics import log
from prequential.engine.delay.cohorts import Closed, PendingCohorts, Position, add_outcome, begin
from prequential.engine.detectors import confidence_sequence as bound
from prequential.engine.detectors.confidence_sequence import RHO, Blocks, add_block, inflation
from prequential.engine.tables.scores import LARGEST_BRIER, LARGEST_LOG_LOSS

#: ρ. Gaps of 5, 2 and 1 points take 1.5, 1.6 and 1.5 times as many outcomes as with a mixture that assumes
#: independence (`docs/understand/validation.md`). There, exactly one model is wrong in 18% of the outcomes.
#: A smaller ρ finds large gaps sooner, but is wrong more often where outcomes depend on earlier ones.
MIXTURE_RHO = 40.0


@inner
def squared_radius(v: float, needed: float) -> float:
    """The value of s² at the bound, by v and `needed`, which is 1/α.

    >>> round(squared_radius(50.0, 20.0) ** 0.5, 4)
    24.7...
    """
    return (v + MIXTURE_RHO) * (log((v + MIXTURE_RHO) / MIXTURE_RHO) + 2.0 * log(needed))


#: The largest difference of two losses of one outcome, by loss; those that aren't here have no bound.
LARGEST: dict[str, float] = {
    "error": 1.0,
    "brier": LARGEST_BRIER,
    # Valid, but an interval as wide as losses of 34 ask for.
    "log_loss": LARGEST_LOG_LOSS,
}

#: With fewer outcomes there is no verdict: they cannot show their dependence either.
FEWEST = 100

#: By how much f is enlarged when there are many outcomes. Gaps of 1 and 2 points then take 1.5 and 1.6 times
#: as many outcomes as with a mixture that assumes independence. Larger gaps are found as soon as without it
#: (`docs/understand/validation.md`).
SLACK, FROM = 0.4, 1_000

#: The verdict is computed again after this many outcomes that count.
STRIDE = 8


class Sequences(NamedTuple):
    """By pair, segment, stage and loss: the sequence so far. A row without a bound never decides anything."""

    n: Ints  # outcomes of both
    counted: Ints  # outcomes that count; of them …
    total: Floats  # … Σ d_i/b
    variance: Floats  # … v = Σ (d_i/b)²
    # When the verdict was made last:
    judged: Ints  # outcomes that counted
    judged_total: Floats
    judged_variance: Floats
    inflation: Floats  # f; 0: not known
    verdict: Bytes
    since: Ints  # the outcome at which the present verdict began; 0 while undecided
    largest: Floats  # b; 0: not known, or exceeded
    signs: Bytes  # whether differences are those of 0/1 loss
    needed: Floats  # 1/level of 0/1 loss; N of others


def new_table(rows: int) -> Sequences:
    """So many sequences, none begun, without a bound (see `declare`)."""
    return records(Sequences, rows)


def level_of(compare_level: float, rank: int) -> float:
    """Return the level of the k-th pair that begins, α/(k(k+1)): the sum over all k is α.

    >>> [round(level_of(0.6, rank), 3) for rank in (1, 2, 3)]
    [0.3, 0.1, 0.05]
    """
    return compare_level / (rank * (rank + 1))


@kernel
def declare(table: Sequences, row: int, largest: float, level: float, signs: bool) -> bool:
    """Set the largest possible difference of the row's losses (0: no bound), and the row's level.

    `signs`: the differences are those of 0/1 loss. The verdict is computed again at once, since the level may
    have changed; returns whether the verdict changed. Only an empty row takes the bound.
    """
    if table.n[row] == 0:
        table.largest[row] = largest
        table.signs[row] = signs
    table.needed[row] = 1.0 / level if signs else bound.needed_for(level / 2.0)
    return _judge(table, row)


@inner
def step(
    table: Sequences, pending: PendingCohorts, blocks: Blocks, row: int, difference: float, at: Position,
    closed: Closed,
) -> int:  # fmt: skip
    """Take the row's next difference, loss of A less loss of B; returns how many more cohorts count now.

    These cohorts are put into `closed`; `at` is the place of the prediction (see `pending.add`). A difference
    beyond the declared bound removes the interval and the verdict for good.
    """
    if table.n[row] == 0:
        begin(pending, row, at)
    table.n[row] += 1
    if not (table.largest[row] > 0.0 and abs(difference) <= table.largest[row]):
        table.largest[row] = 0.0
        table.verdict[row], table.since[row] = UNDECIDED, 0
        return 0
    count = add_outcome(pending, row, at, difference / table.largest[row], closed)
    for i in range(count):
        table.counted[row] += closed.n[i]
        table.total[row] += closed.total[i]
        table.variance[row] += closed.squares[i]
        add_block(blocks, row, closed.n[i], closed.total[i], closed.squares[i])
    if table.counted[row] // STRIDE != table.judged[row] // STRIDE:
        table.judged[row] = table.counted[row]
        table.judged_total[row], table.judged_variance[row] = table.total[row], table.variance[row]
        n = table.counted[row]
        larger = 1.0 + SLACK * min(max(n / FROM - 1.0, 0.0), 1.0)
        table.inflation[row] = larger * inflation(blocks, row, n)
        _judge(table, row)
    return count


@inner
def _judge(table: Sequences, row: int) -> bool:
    """Compute the verdict as of now; returns whether it has changed."""
    verdict = UNDECIDED
    f = table.inflation[row]
    if table.largest[row] > 0.0 and table.judged[row] >= FEWEST and f > 0.0:
        total, variance = table.judged_total[row] / f, table.judged_variance[row] / f
        verdict = verdict_of(total, variance, table.needed[row], table.signs[row] > 0)
    changed = verdict != table.verdict[row]
    if changed:
        table.verdict[row] = verdict
        table.since[row] = table.n[row] if verdict != UNDECIDED else 0
    return changed


@inner
def verdict_of(total: float, variance: float, needed: float, signs: bool) -> int:
    """Who is better, by Σ d_i/b, Σ (d_i/b)² (both divided by f) and `needed`, without searching for a root.

    >>> [verdict_of(total, 40.0, 20.0, True) for total in (-30.0, 20.0, 30.0)]
    [1, 0, 2]
    """
    if signs:
        decided = total * total >= squared_radius(variance, needed)
    else:
        decided = bound.beyond(abs(total), variance, needed, RHO)
    if not decided:
        return UNDECIDED
    return B_BETTER if total > 0.0 else A_BETTER


@inner
def radius(variance: float, needed: float, signs: bool) -> float:
    """The |Σ d_i|/b where `verdict_of` changes."""
    if signs:
        return math.sqrt(squared_radius(variance, needed))
    return bound.radius(variance, needed, RHO)


@kernel
def interval(table: Sequences, row: int) -> tuple[bool, float, float, float]:
    """Whether the row has an interval, its ends in the losses' own unit, within [-b, b], and n/f.

    The interval excludes 0 exactly if there is a verdict. n/f is the effective sample size when the verdict
    was last computed.
    """
    largest, n = table.largest[row], table.judged[row]
    if not largest > 0.0:
        return False, 0.0, 0.0, 0.0
    f = table.inflation[row]
    if not f > 0.0:
        return True, -largest, largest, 0.0
    if n < FEWEST:
        return True, -largest, largest, n / f
    total, needed, signs = table.judged_total[row], table.needed[row], table.signs[row] > 0
    wide = f * radius(table.judged_variance[row] / f, needed, signs)
    low, high = max(-largest, (total - wide) / n * largest), min(largest, (total + wide) / n * largest)
    if table.verdict[row] == UNDECIDED:
        # Both end within rounding of 0 at the very outcome before a verdict.
        low, high = min(low, 0.0), max(high, 0.0)
    return True, low, high, n / f
