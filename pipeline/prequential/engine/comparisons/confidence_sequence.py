"""A verdict under repeated looks: a confidence sequence for the mean difference of two losses.

Outcomes of streams with times count by cluster, by default by day (see `comparisons.clusters`). This module
has the bound for outcomes without clusters. With clusters its verdict is only provisional: it holds for the
time seen.

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

*Bound.* s = Σ d_i/b and v = Σ d_i²/b² are compared with Robbins' normal mixture (see `squared_radius`),
where b is the largest difference so far: 1 for 0/1 loss. So no loss needs a bound. But a loss that is seldom
and large shows only once it was seen.

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

from prequential.engine.comparisons import A_BETTER, B_BETTER, EQUIVALENT, UNDECIDED, clusters
from prequential.engine.comparisons.clusters import ClusterSums
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner, kernel, records
from prequential.engine.compiled.mathematics import log
from prequential.engine.delay.cohorts import Closed, PendingCohorts, Position, add_outcome, begin
from prequential.engine.detectors.confidence_sequence import Blocks, add_block, inflation

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


#: With fewer outcomes there is no verdict: they cannot show their dependence either.
FEWEST = 100

#: By how much f is enlarged when there are many outcomes. Gaps of 1 and 2 points then take 1.5 and 1.6 times
#: as many outcomes as with a mixture that assumes independence. Larger gaps are found as soon as without it
#: (`docs/understand/validation.md`).
SLACK, FROM = 0.4, 1_000

#: The verdict is computed again after this many outcomes that count.
STRIDE = 8


#: A sequence with a larger difference has no interval and no verdict: squares would lose their digits.
MOST = 1e100


class Sequences(NamedTuple):
    """By pair, segment, stage and loss: the sequence so far."""

    n: Ints  # outcomes of both
    counted: Ints  # outcomes that count; of them …
    total: Floats  # … Σ d_i
    variance: Floats  # … Σ d_i²
    largest: Floats  # b; above `MOST`: a difference was
    # When the verdict without clusters was made last:
    judged: Ints  # outcomes that counted
    judged_total: Floats
    judged_variance: Floats
    judged_largest: Floats
    inflation: Floats  # f; 0: not known
    alone: Bytes  # the verdict without clusters
    clustered: Bytes  # whether the newest outcome has a cluster, so that the verdict is by clusters
    verdict: Bytes
    since: Ints  # the outcome at which the present verdict began; 0 while undecided
    signs: Bytes  # whether differences are those of 0/1 loss
    needed: Floats  # 1/level
    margin: Floats  # models are equivalent if the interval is within it; 0: never


class Bounds(NamedTuple):
    """An interval in the losses' own unit; without one, `known` is False."""

    known: bool
    low: float
    high: float
    effective: float  # effective sample size when the verdict was last computed


class WholeRun(NamedTuple):
    """The tables of verdicts over the whole run."""

    sequences: Sequences
    sums: ClusterSums
    pending: PendingCohorts
    blocks: Blocks
    closed: Closed  # not by sequence: for a step to write the cohorts to that count now …
    over: Closed  # … and the clusters that are over now


def new_table(rows: int) -> Sequences:
    """So many sequences, none begun (see `declare`)."""
    return records(Sequences, rows)


def level_of(compare_level: float, rank: int) -> float:
    """Return the level of the k-th pair that begins, α/(k(k+1)): the sum over all k is α.

    >>> [round(level_of(0.6, rank), 3) for rank in (1, 2, 3)]
    [0.3, 0.1, 0.05]
    """
    return compare_level / (rank * (rank + 1))


@kernel
def declare(
    table: Sequences, sums: ClusterSums, rows: Ints, level: float, margin: float, signs: bool
) -> int:  # fmt: skip
    """Set the level and margin of rows; `signs`: their differences are those of 0/1 loss.

    The verdicts are computed again at once, since both may have changed; returns how many have changed.
    """
    changed = 0
    for row in rows:
        if table.n[row] == 0:
            table.signs[row] = signs
            table.largest[row] = 1.0 if signs else 0.0
        table.needed[row], table.margin[row] = 1.0 / level, margin
        changed += _judge(table, sums, row)
    return changed


@inner
def step(pair: WholeRun, row: int, difference: float, position: Position) -> int:
    """Take the row's next difference, loss of A less loss of B; returns how many more observations count now.

    Without clusters these are cohorts, in `closed`; with clusters they are the clusters that are over, in
    `over`. `position` is the place of the prediction (see `cohorts.add_outcome`).
    """
    table, sums, closed = pair.sequences, pair.sums, pair.closed
    if table.n[row] == 0:
        begin(pair.pending, row, position)
    table.n[row] += 1
    if not abs(difference) <= MOST or table.largest[row] > MOST:
        table.largest[row] = math.inf
        table.verdict[row], table.alone[row], table.since[row] = UNDECIDED, UNDECIDED, 0
        return 0
    table.largest[row] = max(table.largest[row], abs(difference))
    table.clustered[row] = position.cluster > 0
    count = add_outcome(pair.pending, row, position, difference, closed)
    over = 0
    for i in range(count):
        table.counted[row] += closed.n[i]
        table.total[row] += closed.total[i]
        table.variance[row] += closed.squares[i]
        add_block(pair.blocks, row, closed.n[i], closed.total[i], closed.squares[i])
        if closed.cluster[i] > 0:
            over = clusters.add_cohort(sums, row, closed, i, pair.over, over)
    if over > 0:
        sums.largest[row] = table.largest[row]
    is_due = table.counted[row] // STRIDE != table.judged[row] // STRIDE
    if is_due:
        table.judged[row], table.judged_largest[row] = table.counted[row], table.largest[row]
        table.judged_total[row], table.judged_variance[row] = table.total[row], table.variance[row]
        n = table.counted[row]
        table.inflation[row] = enlarged(n) * inflation(pair.blocks, row, n)
    if is_due or over > 0:
        _judge(table, sums, row)
    return over if position.cluster > 0 else count


@inner
def enlarged(n: float) -> float:
    """Return the factor by which f of so many outcomes is enlarged."""
    return 1.0 + SLACK * min(max(n / FROM - 1.0, 0.0), 1.0)


@inner
def _judge(table: Sequences, sums: ClusterSums, row: int) -> bool:
    """Compute the verdict as of now; returns whether it has changed."""
    table.alone[row] = _alone(table, row)
    verdict = table.alone[row]
    if table.clustered[row]:
        verdict = _by_clusters(table, sums, row)
    if table.margin[row] > 0.0:
        bounds = interval(table, sums, row)
        if bounds.known and -table.margin[row] <= bounds.low and bounds.high <= table.margin[row]:
            verdict = EQUIVALENT
    changed = verdict != table.verdict[row]
    if changed:
        table.verdict[row] = verdict
        table.since[row] = table.n[row] if verdict != UNDECIDED else 0
    return changed


@inner
def _alone(table: Sequences, row: int) -> int:
    """The verdict without clusters."""
    f, largest = table.inflation[row], table.judged_largest[row]
    if table.judged[row] < FEWEST or not f > 0.0 or not 0.0 < table.largest[row] <= MOST:
        return UNDECIDED
    return verdict_of(table.judged_total[row] / f, table.judged_variance[row] / f, table.needed[row], largest)


@inner
def _by_clusters(table: Sequences, sums: ClusterSums, row: int) -> int:
    """The verdict by clusters."""
    if sums.clusters[row] < clusters.FEWEST_CLUSTERS or not 0.0 < table.largest[row] <= MOST:
        return UNDECIDED
    factor, needed = clusters.dependence(sums, row), table.needed[row]
    if not clusters.is_beyond(sums.clusters[row], sums.total[row], sums.squares[row], factor, needed):
        return UNDECIDED
    ratio = factor * clusters.bound_of_ratio(sums.clusters[row], needed)
    if not float(sums.n[row]) * sums.n[row] > ratio * sums.sizes[row]:
        return UNDECIDED  # clusters differ so much in size that there is no interval
    return verdict_of(sums.total[row], sums.variance[row], needed, sums.largest[row])


@inner
def verdict_of(total: float, variance: float, needed: float, largest: float) -> int:
    """Who is better, by Σ d_i, Σ d_i² (both divided by f), `needed` and b, without a root.

    >>> [verdict_of(total, 40.0, 20.0, 1.0) for total in (-30.0, 20.0, 30.0)]
    [1, 0, 2]
    """
    if not largest > 0.0:
        return UNDECIDED
    s = total / largest
    if not s * s >= squared_radius(variance / (largest * largest), needed):
        return UNDECIDED
    return B_BETTER if total > 0.0 else A_BETTER


@inner
def radius(variance: float, needed: float, largest: float) -> float:
    """The |Σ d_i| where `verdict_of` changes."""
    return largest * math.sqrt(squared_radius(variance / (largest * largest), needed))


@inner
def interval(table: Sequences, sums: ClusterSums, row: int) -> Bounds:
    """The row's interval in the losses' own unit, and its effective sample size.

    The interval excludes 0 exactly if a model is better. It is within [-1, 1] for 0/1 loss. Other losses have
    none as long as nothing is known.
    """
    signs = table.signs[row] > 0
    unknown, widest = Bounds(signs, -1.0, 1.0, 0.0), 1.0 if signs else math.inf
    if not table.largest[row] <= MOST:
        return Bounds(False, 0.0, 0.0, 0.0)
    better = table.alone[row]
    if table.clustered[row]:
        better = _by_clusters(table, sums, row)
        is_known, low, high = clusters.ends(sums, row, table.needed[row])
        if not is_known or not sums.largest[row] > 0.0:
            return unknown
        n, effective = sums.n[row], clusters.effective_size(sums, row)
        mean = sums.total[row] / n
        wide = radius(sums.variance[row], table.needed[row], sums.largest[row]) / n
        low, high = min(low, mean - wide), max(high, mean + wide)
    else:
        n, f, largest = table.judged[row], table.inflation[row], table.judged_largest[row]
        if not f > 0.0 or not largest > 0.0:
            return unknown
        effective = n / f
        if n < FEWEST:
            return Bounds(signs, -1.0, 1.0, effective)
        mean = table.judged_total[row] / n
        wide = f * radius(table.judged_variance[row] / f, table.needed[row], largest) / n
        low, high = mean - wide, mean + wide
    low, high = max(-widest, low), min(widest, high)
    if better == UNDECIDED:
        # Both end within rounding of 0 at the very outcome before a verdict.
        low, high = min(low, 0.0), max(high, 0.0)
    return Bounds(True, low, high, effective)
