"""What a decision takes: how many more outcomes, if the difference and its spread stay as they are so far.

All sums grow by the same factor; the bounds of `confidence_sequence` and `clusters` are evaluated for them.
There is an estimate only if the mean difference is at least `LEAST_Z` of its standard errors, or if the
models could become `equivalent`. A smaller difference could as well be 0. The estimate describes one future
of many: by chance a decision comes sooner or later.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.comparisons import UNDECIDED, clusters
from prequential.engine.comparisons.clusters import ClusterSums
from prequential.engine.comparisons.confidence_sequence import FEWEST, MOST, Sequences, enlarged, radius
from prequential.engine.compiled.kernel import inner

#: Standard errors that the difference must be away from 0. With 2, the number of clusters at which a verdict
#: came was estimated within a factor of 2 in 70% to 83% of streams at a quarter of it, in all at half of it.
LEAST_Z = 2.0

#: Growth of the search, and the largest factor: beyond it, "not in the foreseeable future" says as much.
_STEP, _MOST_GROWTH = 1.02, 1_000.0


class Forecast(NamedTuple):
    """More outcomes and more clusters that a decision takes; 0 outcomes: there is no estimate."""

    outcomes: float
    clusters: float


@inner
def forecast(table: Sequences, sums: ClusterSums, row: int) -> Forecast:
    """Return what the row's decision takes; nothing for a decided row."""
    none = Forecast(0.0, 0.0)
    if table.verdict[row] != UNDECIDED or not 0.0 < table.largest[row] <= MOST:
        return none
    if table.clustered[row]:
        if sums.clusters[row] < clusters.FEWEST_CLUSTERS or not sums.largest[row] > 0.0:
            return none
        growth = _growth_by_clusters(table, sums, row)
        more = growth - 1.0
        return Forecast(more * sums.n[row], more * sums.clusters[row]) if growth > 0.0 else none
    if table.judged[row] < FEWEST or not table.inflation[row] > 0.0:
        return none
    growth = _growth_alone(table, row)
    return Forecast((growth - 1.0) * table.judged[row], 0.0) if growth > 0.0 else none


@inner
def _decides(mean: float, low_wide: float, high_wide: float, margin: float, is_clear: bool) -> bool:
    """Whether an interval that reaches so far below and above the mean difference decides."""
    low, high = mean - low_wide, mean + high_wide
    if margin > 0.0 and -margin <= low and high <= margin:
        return True
    return is_clear and (low > 0.0 or high < 0.0)


@inner
def _growth_alone(table: Sequences, row: int) -> float:
    """The factor by which outcomes without clusters grow; 0: unknown."""
    n, total, variance = table.judged[row], table.judged_total[row], table.judged_variance[row]
    f, largest, needed = table.inflation[row], table.judged_largest[row], table.needed[row]
    if not variance > 0.0:
        return 0.0
    mean = total / n
    is_clear = total * total >= LEAST_Z * LEAST_Z * f * variance
    growth = _STEP
    while growth <= _MOST_GROWTH:
        later = f * enlarged(growth * n) / enlarged(n)
        wide = later * radius(growth * variance / later, needed, largest) / (growth * n)
        if _decides(mean, wide, wide, table.margin[row], is_clear):
            return growth
        growth *= _STEP
    return 0.0


@inner
def _growth_by_clusters(table: Sequences, sums: ClusterSums, row: int) -> float:
    """The factor by which clusters grow; 0: unknown."""
    spread, factor = clusters.spread_of(sums, row), clusters.dependence(sums, row)
    n, total, count = float(sums.n[row]), sums.total[row], sums.clusters[row]
    mean = total / n
    is_clear = total * total >= LEAST_Z * LEAST_Z * factor * max(spread, sums.variance[row])
    growth = _STEP
    while growth <= _MOST_GROWTH:
        ratio = factor * clusters.bound_of_ratio(math.ceil(growth * count), table.needed[row])
        ends = clusters.ends_of_sums(
            growth * n, growth * total, growth * sums.squares[row], growth * sums.cross[row],
            growth * sums.sizes[row], ratio,
        )  # fmt: skip
        wide = radius(growth * sums.variance[row], table.needed[row], sums.largest[row]) / (growth * n)
        below, above = max(mean - ends.low, wide), max(ends.high - mean, wide)
        if ends.known and _decides(mean, below, above, table.margin[row], is_clear):
            return growth
        growth *= _STEP
    return 0.0
