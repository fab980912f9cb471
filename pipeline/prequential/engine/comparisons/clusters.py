"""A verdict by clusters: which model is better, if outcomes of one cluster depend on each other in any way.

The outcomes of a cluster, such as a day, are one observation: S_k, the sum of their n_k differences. Suppose
that B is better by μ. Then the X_k = S_k - μ·n_k have expectation 0, whatever depends on what within a
cluster. For independent normal X_1 … X_K with one unknown variance, and each ρ,

    E_K = sqrt(ρ/(K + ρ))·((K + ρ)·V/((K + ρ)·V - S²))^(K/2),   S = Σ X_k,   V = Σ X_k²

is an e-process: it ever exceeds 1/α with probability at most α (Lai: On confidence sequences, Annals of
Statistics 4, 1976; Wang and Ramdas: Anytime-valid t-tests and confidence sequences for Gaussian means with
unknown variance, Sequential Analysis 44, 2025). So it is exact for few clusters. For many clusters it becomes
the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central
limit theory and asymptotic confidence sequences, Annals of Statistics 52, 2024), which needs neither a
distribution nor a bound of the losses. Beyond the bound:

    S² >= g·V,   g = (K + ρ)·(1 - (α²·ρ/(K + ρ))^(1/K))

Both sides are quadratic in μ, so the interval is the part between two roots. Its centre is near the ratio
Σ S_k/Σ n_k: clusters count by their outcomes. Unequal sizes and heavy tails make the bound safer: then a
single cluster is a large part of V.

*Neighbouring clusters* that depend on each other count as fewer. g is multiplied by (1 + r)/(1 - r), where r
is the correlation of neighbours plus `CORRECTION`/K, the bias of its estimate, between 0 and
`MOST_CORRELATION`.

*Rare differences.* Sums of a few ±1 are not normal. So the sum must also be beyond the bound for independent
outcomes (see `confidence_sequence`), and the interval contains both intervals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Floats, Ints, inner, zeros
from prequential.engine.compiled.mathematics import exp, log
from prequential.engine.delay.cohorts import Closed
from prequential.engine.detectors.confidence_sequence import MOST_CORRELATION

#: ρ: at levels of 0.05 to 0.0017 the bound at 300 clusters is 1.8 to 2.2 times that of a fixed number of
#: clusters at 95%. A larger ρ gains 0.1 there, but then 8 clusters can't decide at small levels.
RHO = 1.0

#: With fewer clusters there is no verdict. Of days, these are a whole week and one more.
FEWEST_CLUSTERS = 8

#: The estimated correlation of neighbours is too small by about this part of 1/K. Without it, clusters of
#: correlation 0.3 had false verdicts in 6% to 11% of streams at level 5%, with it in 3% to 6%.
CORRECTION = 2.0

#: A variance below this part of the sum of squares is a rounding error.
_ROUNDING = 1e-9


class ClusterSums(NamedTuple):
    """By sequence: sums over the clusters that are over, of which S_k is the sum of n_k differences."""

    newest: Ints  # number of the cluster that isn't over; 0: there is none
    open_n: Ints  # its outcomes so far, their sum and that of their squares
    open_total: Floats
    open_squares: Floats
    clusters: Ints  # K
    n: Ints  # Σ n_k
    total: Floats  # Σ S_k
    variance: Floats  # Σ of the squares of all differences
    squares: Floats  # Σ S_k²
    cross: Floats  # Σ S_k·n_k
    sizes: Floats  # Σ n_k²
    last_n: Ints  # of the latest cluster that is over
    last_total: Floats
    next_squares: Floats  # Σ S_k·S_(k-1)
    next_cross: Floats  # Σ S_k·n_(k-1) + n_k·S_(k-1)
    next_sizes: Floats  # Σ n_k·n_(k-1)
    largest: Floats  # the largest difference when the latest cluster was over


class ClusterEnds(NamedTuple):
    """The ends of an interval; without one, `known` is False."""

    known: bool
    low: float
    high: float


def new_cluster_sums(rows: int) -> ClusterSums:
    """Return rows without clusters."""
    return zeros(ClusterSums, rows)


@inner
def add_cohort(sums: ClusterSums, row: int, cohorts: Closed, i: int, over: Closed, count: int) -> int:
    """Add the i-th of these cohorts to its cluster; returns how many clusters are over, `count` before.

    The cluster that a later one ends is entered in `over`. A cohort of an earlier cluster is added to the
    present one.
    """
    if cohorts.cluster[i] > sums.newest[row]:
        if sums.open_n[row] > 0:
            over.n[count], over.total[count] = sums.open_n[row], sums.open_total[row]
            over.squares[count] = sums.open_squares[row]
            over.cluster[count] = sums.newest[row]
            _end_cluster(sums, row)
            count += 1
        sums.newest[row] = cohorts.cluster[i]
    sums.open_n[row] += cohorts.n[i]
    sums.open_total[row] += cohorts.total[i]
    sums.open_squares[row] += cohorts.squares[i]
    return count


@inner
def add_outcome(sums: ClusterSums, row: int, cluster: int, difference: float) -> None:
    """Add one difference to its cluster, or to the present one if its own is over.

    It doesn't note the largest difference.
    """
    if cluster > sums.newest[row]:
        if sums.open_n[row] > 0:
            _end_cluster(sums, row)
        sums.newest[row] = cluster
    sums.open_n[row] += 1
    sums.open_total[row] += difference
    sums.open_squares[row] += difference * difference


@inner
def _end_cluster(sums: ClusterSums, row: int) -> None:
    """Count the open cluster."""
    n, total = sums.open_n[row], sums.open_total[row]
    if sums.clusters[row] > 0:
        sums.next_squares[row] += total * sums.last_total[row]
        sums.next_cross[row] += total * sums.last_n[row] + n * sums.last_total[row]
        sums.next_sizes[row] += float(n) * sums.last_n[row]
    sums.last_n[row], sums.last_total[row] = n, total
    sums.clusters[row] += 1
    sums.n[row] += n
    sums.total[row] += total
    sums.variance[row] += sums.open_squares[row]
    sums.squares[row] += total * total
    sums.cross[row] += total * n
    sums.sizes[row] += float(n) * n
    sums.open_n[row] = 0
    sums.open_total[row] = sums.open_squares[row] = 0.0


@inner
def bound_of_ratio(clusters: int, needed: float) -> float:
    """Return g, the S²/V of the bound, for so many clusters; `needed` is 1/α. S²/V is at most `clusters`.

    >>> round(bound_of_ratio(8, 40.0), 4), round(bound_of_ratio(300, 40.0), 4)
    (6.2808, 12.8463)
    """
    k = float(clusters)
    return (k + RHO) * (1.0 - exp(-(log((k + RHO) / RHO) + 2.0 * log(needed)) / k))


@inner
def spread_of(sums: ClusterSums, row: int) -> float:
    """Return Σ (S_k - m·n_k)², with the mean difference m; 0 where it is a rounding error."""
    mean = sums.total[row] / sums.n[row]
    spread = sums.squares[row] - 2.0 * mean * sums.cross[row] + mean * mean * sums.sizes[row]
    return spread if spread > _ROUNDING * sums.squares[row] else 0.0


@inner
def dependence(sums: ClusterSums, row: int) -> float:
    """Return the factor (1 + r)/(1 - r) >= 1 for the correlation of neighbouring clusters."""
    spread = spread_of(sums, row)
    if not spread > 0.0:
        return 1.0
    mean = sums.total[row] / sums.n[row]
    together = sums.next_squares[row] - mean * sums.next_cross[row] + mean * mean * sums.next_sizes[row]
    r = min(max(together / spread + CORRECTION / sums.clusters[row], 0.0), MOST_CORRELATION)
    return (1.0 + r) / (1.0 - r)


@inner
def is_beyond(clusters: int, total: float, squares: float, factor: float, needed: float) -> bool:
    """Return whether sums of clusters, of this total and sum of squares, exclude a difference of 0."""
    if clusters < FEWEST_CLUSTERS:
        return False
    ratio = factor * bound_of_ratio(clusters, needed)
    return ratio < clusters and total * total >= ratio * squares


@inner
def ends(sums: ClusterSums, row: int, needed: float) -> ClusterEnds:
    """Return the interval by clusters."""
    clusters = sums.clusters[row]
    if clusters < FEWEST_CLUSTERS:
        return ClusterEnds(False, 0.0, 0.0)
    ratio = dependence(sums, row) * bound_of_ratio(clusters, needed)
    return ends_of_sums(
        float(sums.n[row]), sums.total[row], sums.squares[row], sums.cross[row], sums.sizes[row], ratio
    )


@inner
def ends_of_sums(
    n: float, total: float, squares: float, cross: float, sizes: float, ratio: float
) -> ClusterEnds:  # fmt: skip
    """Return the interval of the sums of `ClusterSums`, where S²/V is at most `ratio`."""
    a = n * n - ratio * sizes
    if not a > 0.0:
        return ClusterEnds(False, 0.0, 0.0)
    b, c = total * n - ratio * cross, total * total - ratio * squares
    root = math.sqrt(max(b * b - a * c, 0.0))
    return ClusterEnds(True, (b - root) / a, (b + root) / a)


@inner
def effective_size(sums: ClusterSums, row: int) -> float:
    """Return how many independent outcomes the row's outcomes count as, by the variance between clusters."""
    n, clusters = sums.n[row], sums.clusters[row]
    if clusters < FEWEST_CLUSTERS:
        return 0.0
    alone = sums.variance[row] - sums.total[row] * sums.total[row] / n
    if not alone > 0.0:
        return float(n)
    between = dependence(sums, row) * spread_of(sums, row) * clusters / (clusters - 1)
    return n / max(1.0, between / alone)


def needed_clusters(level: float) -> int:
    """Return the least number of clusters that can decide at a level in (0, 1).

    >>> [needed_clusters(level) for level in (0.025, 0.05 / 30, 1e-4)]
    [8, 8, 10]
    """
    clusters = FEWEST_CLUSTERS
    while bound_of_ratio(clusters, 1.0 / level) >= clusters:
        clusters += 1
    return clusters
