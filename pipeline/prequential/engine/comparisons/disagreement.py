"""How often two models predict differently, and what that says of their accuracies before any label comes.

Where two models predict the same class, both are right or both are wrong. So |acc A - acc B| <= p, where p is
the share of instances on which they differ. Of each model, the prediction of an instance that was processed
first counts. An instance counts when both models have one, with or without a label.

An upper bound of p holds at all numbers of instances at once with probability 1 - α (see `at_most`).

*Independent instances.* Let x of n instances be different. For each p, the mixture of likelihood ratios over
a Beta(1/2, 1/2) density is a martingale with expectation 1 (Robbins: Statistical methods related to the law
of the iterated logarithm, Annals of Mathematical Statistics 41, 1970):

    M(p) = B(x + 1/2, n - x + 1/2)/(π·p^x·(1 - p)^(n - x))

It ever exceeds 1/α with probability at most α (Ville). The bound is the largest p with M(p) <= 1/α.

*Days.* For streams with times, days are independent, not instances: the bound is also at least that of sums
of whole days (`comparisons.clusters`). Until there are enough days, and for streams without times, x and n
are divided by f. The factor f follows from the variance of sums of neighbours, as for verdicts
(`detectors.confidence_sequence`). That bound holds for the time seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.comparisons import clusters
from prequential.engine.comparisons.clusters import ClusterSums, needed_clusters, new_cluster_sums
from prequential.engine.comparisons.joint import JointPairs
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inner, kernel, records
from prequential.engine.compiled.mathematics import log
from prequential.engine.detectors.confidence_sequence import Blocks, add_block, inflation, new_blocks
from prequential.engine.tables.logs import Encounters
from prequential.engine.tables.rows import RowAllocator, TableAttribute
from prequential.engine.tables.streams import Registry

#: A few different predictions can't show whether they come in runs. So f is at least 1 + `UNSEEN`/(x + 1):
#: without any, it is that of runs of correlation 0.8. Without this factor, such runs (5% different) had a
#: bound that was ever too low in 30% of streams at level 2.5%.
UNSEEN = 9.0

#: Steps of the search for a bound: each halves the interval, so 60 use up the digits.
_STEPS = 60

#: ln π and ln(2π)/2.
_LN_PI, _HALF_LN_2PI = 1.1447298858494001741, 0.91893853320467274178

#: Stirling's series of ln Γ is used from here on; there its error is below 1e-12.
_LARGE = 10.0


class DisagreementCounts(NamedTuple):
    """By pair of models whose predictions are compared."""

    rank: Ints  # k of the k-th such pair of its stream to have an instance that both predicted; 0: none yet
    n: Ints  # instances that both have predicted
    differing: Ints  # … differently
    clustered: Bytes  # whether the newest of these has a cluster
    newest: Ints  # time of the newest: that of its earlier prediction, ms


class DisagreementTables(NamedTuple):
    """All tables by pair of models."""

    counts: DisagreementCounts
    #: Sums of whole days, whose S_k are the instances with different predictions.
    sums: ClusterSums
    #: Sums of neighbouring instances.
    blocks: Blocks


class Disagreements(RowAllocator):
    """Tables by pair of models; row 0 stands for none."""

    def __init__(self, rows: int = 1) -> None:
        super().__init__(rows)
        self.counts: DisagreementCounts = records(DisagreementCounts, 16)
        self.sums, self.blocks = new_cluster_sums(16), new_blocks(16)

    def attributes(self) -> Iterator[tuple[str, TableAttribute]]:
        """All tables, by their names in snapshots."""
        for name in ("counts", "sums", "blocks"):
            yield name, TableAttribute(self, name)

    @property
    def tables(self) -> DisagreementTables:
        """The tables of counts, sums by cluster and blocks together, as loops take them."""
        return DisagreementTables(self.counts, self.sums, self.blocks)


class Disagreement(NamedTuple):
    """How often a pair of models disagrees, and the bound of the difference of their accuracies."""

    n: int
    differing: int
    at_most: float
    #: Clusters that are over; None: instances have none.
    clusters: int | None
    #: The fewest clusters with which the bound holds for other times, too.
    needed: int
    #: Time of the newest instance, ms.
    ts: int = 0

    @property
    def share(self) -> float:
        """The share of instances on which the models predict differently."""
        return self.differing / self.n

    @property
    def is_provisional(self) -> bool:
        """Whether the bound only holds for the days so far, because these are too few."""
        return self.clusters is not None and self.clusters < self.needed


# ---- encounters


@inner
def _row_of(heads: Ints32, pairs: JointPairs, a: int, b: int) -> int:
    """The row of the pair of A with B; 0: its predictions aren't compared."""
    pair = np.int64(heads[a])
    while pair:
        if pairs.b[pair] == b and pairs.disagreement[pair]:
            return np.int64(pairs.disagreement[pair])
        pair = np.int64(pairs.next[pair])
    return 0


@kernel
def find_rows(
    encounters: Encounters, count: int, heads: Ints32, pairs: JointPairs, table: DisagreementCounts
) -> int:
    """Note the pair's row of each of the first `count` encounters; returns how many pairs lack a rank.

    Further predictions of one model are of no pair.
    """
    new = 0
    for i in range(count):
        model, other = np.int64(encounters.model[i]), np.int64(encounters.other[i])
        row = 0
        if model != other:
            row = _row_of(heads, pairs, model, other) or _row_of(heads, pairs, other, model)
        encounters.pair[i] = row
        new += row > 0 and table.rank[row] == 0
    return new


@inner
def _add(tables: DisagreementTables, row: int, encounters: Encounters, i: int, length: int) -> None:
    """Add an encounter to a row; `length`: of a cluster, ms; 0 or less: there are none."""
    table, differs = tables.counts, np.int64(encounters.differs[i])
    table.n[row] += 1
    table.differing[row] += differs
    table.newest[row] = encounters.ts[i]
    add_block(tables.blocks, row, 1, float(differs), float(differs))
    table.clustered[row] = length > 0
    if length > 0:
        clusters.add_outcome(tables.sums, row, 1 + max(encounters.ts[i], 0) // length, float(differs))


@kernel
def add_encounters(
    encounters: Encounters, count: int, registry: Registry, tables: DisagreementTables, day: int
) -> None:  # fmt: skip
    """Add the first `count` encounters to their pairs, and note models that predicted an instance again.

    `day`: length of a cluster where none is configured, ms; 0: records have no times.
    """
    entities, streams = registry.entities, registry.streams
    for i in range(count):
        model, row = encounters.model[i], np.int64(encounters.pair[i])
        if encounters.other[i] == model:
            entities.repeats[model] = 1
        elif row:
            length = streams.cluster[entities.stream[model]] or day
            _add(tables, row, encounters, i, length)


@kernel
def repeat_encounters(
    encounters: Encounters, count: int, row: int, tables: DisagreementTables, length: int
) -> None:
    """Add those among the first `count` encounters that are of this `row` to row 0 of a copy."""
    for i in range(count):
        if encounters.pair[i] == row:
            _add(tables, 0, encounters, i, length)


# ---- the bound


@inner
def _log_gamma(a: float) -> float:
    """ln Γ(a) for a > 0, by Stirling's series at a number of at least `_LARGE`."""
    product = 1.0
    while a < _LARGE:
        product *= a
        a += 1.0
    z = 1.0 / (a * a)
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0)))) / a
    return _HALF_LN_2PI + (a - 0.5) * log(a) - a + series - log(product)


@inner
def upper_bound(n: float, x: float, needed: float) -> float:
    """The largest p with M(p) <= `needed`, which is 1/α, for x of n instances.

    >>> round(upper_bound(100_000.0, 500.0, 40.0), 5), round(upper_bound(1_000.0, 0.0, 40.0), 5)
    (0.00605, 0.00769)
    """
    constant = _log_gamma(x + 0.5) + _log_gamma(n - x + 0.5) - _log_gamma(n + 1.0) - _LN_PI - log(needed)
    low, high = x / n, 1.0
    if low >= 1.0:
        return 1.0
    for _ in range(_STEPS):
        p = 0.5 * (low + high)
        if p <= low or p >= high:
            break
        likelihood = (n - x) * log(1.0 - p)
        if x > 0.0:
            likelihood += x * log(p)
        if constant <= likelihood:
            low = p
        else:
            high = p
    return high


@kernel
def at_most(tables: DisagreementTables, row: int, needed: float, fewest: int) -> float:
    """The bound of a row at the level 1/`needed`; `fewest`: clusters from which on it is by clusters.

    It is 1, which says nothing, while there is no estimate of dependence.
    """
    table, sums = tables.counts, tables.sums
    n, x = float(table.n[row]), float(table.differing[row])
    f = 1.0 + UNSEEN / (x + 1.0)
    if table.clustered[row] and sums.clusters[row] >= fewest:
        ends = clusters.ends(sums, row, needed)
        return min(1.0, max(ends.high, upper_bound(n / f, x / f, needed))) if ends.known else 1.0
    f *= inflation(tables.blocks, row, table.n[row])
    return upper_bound(n / f, x / f, needed) if f > 0.0 else 1.0


def row_of(tables: DisagreementTables, row: int) -> DisagreementTables:
    """Return a copy of a row."""
    only = slice(row, row + 1)
    counts: Any = tables.counts
    sums = ClusterSums(*(column[only].copy() for column in tables.sums))
    blocks = Blocks(*(column[only].copy() for column in tables.blocks))
    return DisagreementTables(counts[only].copy(), sums, blocks)


def disagreement_of(tables: DisagreementTables, row: int, level: float) -> Disagreement | None:
    """Return a pair's disagreement, with a bound at this level; None: there is no instance of both yet."""
    counts = tables.counts
    if not counts.n[row]:
        return None
    fewest = needed_clusters(level)
    bound = at_most(tables, row, 1.0 / level, fewest)
    over = int(tables.sums.clusters[row]) if counts.clustered[row] else None
    n, differing, newest = (int(column[row]) for column in (counts.n, counts.differing, counts.newest))
    return Disagreement(n, differing, float(bound), over, fewest, newest)


def as_message(disagreement: Disagreement, *, first_only: bool, unit: str) -> dict[str, Any]:
    """Return the field `disagreement` of a message.

    `first_only`: the message is about the models' first predictions, which the bound is about; `unit` names
    clusters.

    >>> as_message(Disagreement(1000, 5, 0.0125, 2, 8), first_only=True, unit="days")
    {'share': 0.005, 'at_most': 0.0125, 'n': 1000, 'provisional': {'days': 2, 'needed': 8}}
    """
    fields: dict[str, Any] = {
        "share": disagreement.share, "at_most": disagreement.at_most if first_only else None,
        "n": disagreement.n,
    }  # fmt: skip
    if first_only and disagreement.is_provisional:
        fields["provisional"] = {unit: disagreement.clusters, "needed": disagreement.needed}
    return fields
