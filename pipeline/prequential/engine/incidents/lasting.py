"""A lasting worsening: clusters whose mean loss is above a model's usual level, for longer than is usual.

The whole rule, which opens an incident, follows it and grades it:

1. Each closed cluster with `LEAST_OUTCOMES` outcomes is one observation, its mean loss x.
2. It is compared with the `MEMORY` usual clusters before it, at least `LEAST_USUAL`.
3. A one-sided CUSUM adds up what exceeds their variation (Page 1954). Its threshold follows from the budget.
4. *Chance*: outcomes, of which those in runs count less, must be worse than before by `CHANCE` deviations.
5. *Hours not seen*: where clusters are shorter than a day, by `UNSEEN` deviations more than hours may differ.
6. Then an incident is open, and `possible`. Its size is shrunk: w clusters keep w/(w + `BRIEF`) of the rise.
7. It is `lasting` when `LASTED` more clusters, and the newest three, are nearer to the new level than to the
   old one, and the rise that is expected to stay is `LEAST_RISE` of the level before.
8. It has recovered when a second CUSUM finds the old level again.
9. A level that worsens further, by a third CUSUM and by the tests of 4 and 5, is another incident.
10. What has lasted for `MEMORY` clusters, or for `LONGEST` without being found, is usual.

The means of usual clusters have the mean m and the variance v. Neighbours go together: with r their lag-1
correlation (plus the bias that it has in short series), m differs from a new level by a standard deviation
of

    d = √(v·(1 + r)/(1 - r)·(1 + 1/K)),  K usual clusters,

and more where a cluster has fewer outcomes than they have in the mean. Losses are at least 0 and skewed, so
x is scored as a gamma variable with mean m and deviation d (Wilson and Hilferty 1931), which gives z. The
CUSUM is

    S = max(0, S + min(z, cap) - ALLOWANCE),

and a worsening is found where S reaches the threshold h. One cluster adds at most h/`LASTING`, so that a
worsening lasts for `LASTING` clusters. Clusters since S was 0 are compared with the ones before them, not
with each other. h is the one at which Gaussian z give one incident in the budget's period (Siegmund 1985,
eq. 2.57), with b = h + 1.166:

    (exp(2·ALLOWANCE·b) - 2·ALLOWANCE·b - 1)/(2·ALLOWANCE²) = clusters of the budget's period.

`engine.incidents.evidence` has the tests of 4 and 5. The constants were chosen on 23 models of eight real
streams and 18 simulated worlds without a change; `docs/understand/validation.md` reports the results there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, inner, kernel, zeros
from prequential.engine.compiled.mathematics import exp, log
from prequential.engine.incidents.evidence import added, is_worse, new_sums

#: What z must exceed so that it counts, in standard deviations.
ALLOWANCE = 0.4

#: Clusters that a worsening lasts for, at least; and within which it is found, or else has become usual.
LASTING, LONGEST = 4, 30

#: Usual clusters without which nothing is found, and most that are compared with.
LEAST_USUAL, MEMORY = 20, 90

#: With fewer outcomes, a cluster's mean is too uncertain, and the cluster is passed over.
LEAST_OUTCOMES = 8

#: The largest correlation of neighbouring clusters that is made good for.
MOST_CORRELATION = 0.8

#: Clusters that an excursion usually lasts for: of a rise that has lasted for w of them, w/(w + BRIEF) stays.
#: On the real streams the three days after an incident then show as much as it says: 1.02 of it.
BRIEF = 10.0

#: Closed clusters after an incident opened that make it lasting, and the newest ones that must agree. On the
#: real streams two of three such incidents are confirmed by the three days that follow, one of two before.
LASTED, NEWEST = 10, 3

#: The smallest rise of a lasting incident, as a share of the level before: nobody needs to be woken up for 23
#: wrong in 100 instead of 22. All incidents that lasted on the real streams have larger rises.
LEAST_RISE = 0.1

#: The smallest threshold, and the one for a recovery.
LEAST_THRESHOLD, RECOVERY = 2.0, 3.0

#: The largest z that counts for a recovery.
_MOST_BACK = 4.0

#: A share of errors nearer to 0 or 1 is too uncertain to scale a deviation by.
_EDGE = 0.02

#: Clusters before the first one with an excess in which the change may lie.
_EARLIER = 4

#: Marks of clusters: usual if nothing is found; usual, and passed over by the CUSUM; of an incident; of a
#: level that is usual no more.
NORMAL, USUAL, UNUSUAL, FORMER = range(4)


#: Sums over usual clusters, in `excess`: means, squares, products of neighbours, outcomes.
_X, _SQUARES, _PRODUCTS, _SIZE = range(4)


class Means(NamedTuple):
    """Closed clusters, the oldest first."""

    n: Floats  # outcomes
    loss: Floats  # Σ of their losses
    squares: Floats  # Σ of the squares of these
    products: Floats  # Σ of each loss times the one before it
    mark: Ints


class Scratch(NamedTuple):
    """Room for what a decision needs; compiled loops don't allocate."""

    means: Means
    usual: Floats  # means of usual clusters, less the first one
    sizes: Floats  # their outcomes
    pending: Ints  # places of clusters since the CUSUM was 0
    sums: Floats  # (4,) over usual clusters
    latencies: Floats  # outcomes by latency


def new_scratch(clusters: int, latencies: int) -> Scratch:
    """Room for so many clusters and columns of latencies."""
    return Scratch(
        zeros(Means, clusters), np.zeros(clusters), np.zeros(clusters), np.zeros(clusters, np.int64),
        np.zeros(4), np.zeros(latencies),
    )  # fmt: skip


class Excess(NamedTuple):
    """What the CUSUM is at the newest cluster."""

    total: float  # S
    start: int  # place of the first cluster of the excess; -1: there is none
    mean: float  # m
    deviation: float  # d
    usual: int  # clusters that are compared with


class Decision(NamedTuple):
    """Whether there is a lasting worsening, and what it rests on."""

    is_lasting: bool
    excess: Excess
    h: float
    days: float  # that clusters span if they are shorter than a day, or else `evidence.WHOLE_DAYS`


class Course(NamedTuple):
    """What became of a level since an incident opened."""

    back: float  # the CUSUM of a recovery
    back_from: int  # place of its first cluster; -1: there is none
    further: float  # the CUSUM of a further worsening
    further_from: int


@kernel
def threshold(clusters: float) -> float:
    """h for a budget of one incident in so many clusters.

    >>> round(threshold(30.0), 2), round(threshold(30.0 * 24 * 60), 2)
    (2.06, 10.75)
    """
    target, exponent = 2 * ALLOWANCE * ALLOWANCE * max(clusters, 1.0), 1.0
    for _ in range(50):  # a fixed point: its slope is 1/(target + exponent + 1)
        exponent = log(target + exponent + 1.0)
    return max(LEAST_THRESHOLD, exponent / (2 * ALLOWANCE) - 1.166)


@inner
def score(x: float, mean: float, deviation: float) -> float:
    """z of a cluster's mean loss, as a gamma variable with this mean and deviation."""
    if mean <= 0.0 or x < 0.0:
        return (x - mean) / deviation
    shape = max((mean / deviation) * (mean / deviation), 0.25)
    cube = exp(log(x / mean) / 3.0) if x > 0.0 else 0.0
    return (cube - (1.0 - 1.0 / (9.0 * shape))) * 3.0 * math.sqrt(shape)


@inner
def _take(
    sums: Floats, usual: Floats, sizes: Floats, count: int, x: float, size: float, offset: float
) -> None:
    """Add a usual cluster as the `count`-th, and leave out the one that is beyond the memory."""
    usual[count], sizes[count] = x - offset, size
    sums[_X] += usual[count]
    sums[_SQUARES] += usual[count] * usual[count]
    sums[_SIZE] += size
    if count:
        sums[_PRODUCTS] += usual[count] * usual[count - 1]
    gone = count - MEMORY
    if gone >= 0:
        sums[_X] -= usual[gone]
        sums[_SQUARES] -= usual[gone] * usual[gone]
        sums[_SIZE] -= sizes[gone]
        sums[_PRODUCTS] -= usual[gone] * usual[gone + 1]


@inner
def _correlation(sums: Floats, usual: Floats, count: int) -> float:
    """r of the usual clusters in memory, with the bias that it has in short series."""
    first = max(0, count - MEMORY)
    compared = count - first
    mean = sums[_X] / compared
    squares = sums[_SQUARES] - compared * mean * mean
    if not squares > 0.0:
        return 1.0 / compared
    ends = usual[first] + usual[count - 1]
    products = sums[_PRODUCTS] - mean * (2.0 * sums[_X] - ends) + (compared - 1) * mean * mean
    r = max(0.0, products / squares)
    return min(MOST_CORRELATION, r + (1.0 + 3.0 * r) / compared)


@inner
def excess(means: Means, stop: int, binary: bool, h: float, scratch: Scratch) -> Excess:
    """The CUSUM over the first `stop` clusters; `binary`: losses are 0 or 1."""
    n, loss, mark = means.n, means.loss, means.mark
    usual, sizes, pending, sums = scratch.usual, scratch.sizes, scratch.pending, scratch.sums
    sums[:] = 0.0
    count = waiting = compared = 0
    total, start, mean, deviation, correlation, offset = 0.0, -1, 0.0, 0.0, 0.0, 0.0
    for i in range(stop):
        if n[i] < LEAST_OUTCOMES or mark[i] >= UNUSUAL:
            continue
        x = loss[i] / n[i]
        if count < LEAST_USUAL or mark[i] == USUAL:
            offset = offset if count else x
            _take(sums, usual, sizes, count, x, n[i], offset)
            count += 1
            continue
        compared = min(count, MEMORY)
        correlation = _correlation(sums, usual, count)
        centre = sums[_X] / compared
        mean, size = offset + centre, sums[_SIZE] / compared
        variance = max(0.0, sums[_SQUARES] - compared * centre * centre) / (compared - 1)
        if binary:  # no error, or nothing but errors, isn't known to be usual: one more of each
            entries = size * compared
            p = (max(mean, 0.0) * entries + 1.0) / (entries + 2.0)
            variance = max(variance, p * (1.0 - p) / size)
        variance *= (1.0 + correlation) / (1.0 - correlation) * (1.0 + 1.0 / compared) * max(1.0, size / n[i])
        deviation = max(math.sqrt(variance), 1e-6 * abs(mean), 1e-300)
        z = min(score(x, mean, deviation), ALLOWANCE + h / LASTING)
        total = max(0.0, total + z - ALLOWANCE)
        if total > 0.0:
            start = i if not waiting else start
            pending[waiting] = i
            waiting += 1
            if waiting <= LONGEST:
                continue
            total, waiting = 0.0, waiting - 1  # this one comes behind them
        for k in range(waiting):
            _take(sums, usual, sizes, count, loss[pending[k]] / n[pending[k]], n[pending[k]], offset)
            count += 1
        _take(sums, usual, sizes, count, x, n[i], offset)
        count += 1
        waiting, start = 0, -1
    return Excess(total, start, mean, deviation, compared)


@inner
def decide(scratch: Scratch, stop: int, binary: bool, clusters: float, days: float) -> Decision:
    """Whether the first `stop` clusters show a lasting worsening that goes on.

    The first `means` of the scratch are the closed clusters. `binary`: whether losses are 0 or 1. `clusters`:
    of their length, in the period of the budget for one incident. `days`: that clusters span if they are
    shorter than a day, or else `evidence.WHOLE_DAYS`.
    """
    h, means = threshold(clusters), scratch.means
    largest = excess(means, stop, binary, h, scratch)
    if largest.start < 0 or largest.usual < LEAST_USUAL or largest.total < h:
        return Decision(False, largest, h, days)
    start = change_place(
        means, largest.start, stop, largest.mean
    )  # S may have begun to rise before the level
    return Decision(is_evident(means, 0, start, stop, UNUSUAL, binary, days), largest, h, days)


@kernel
def is_evident(means: Means, first: int, start: int, stop: int, most: int, binary: bool, days: float) -> bool:
    """Whether the clusters `start` to `stop` - 1 are worse than those from `first` on, by both tests.

    Clusters before `start` count if their mark is below `most`. `days` is that of `Decision`.
    """
    before, since = new_sums(), new_sums()
    for i in range(first, stop):
        if i >= start:
            since = added(since, means.n[i], means.loss[i], means.squares[i], means.products[i])
        elif means.mark[i] < most:
            before = added(before, means.n[i], means.loss[i], means.squares[i], means.products[i])
    return is_worse(before, since, binary, days)


def deviation_at(level: float, before: float, deviation: float, binary: bool) -> float:
    """Return the deviation of a cluster's mean at a worse level; `deviation` is the one at `before`.

    The variance of losses of 0 and 1 is in proportion to p(1 - p), with p no nearer to 0 or 1 than `_EDGE`.
    The deviation of other losses is in proportion to their mean.

    >>> round(deviation_at(0.5, 0.1, 0.3, binary=True), 3), deviation_at(4.0, 2.0, 0.3, binary=False)
    (0.5, 0.6)
    """
    if binary:
        p, usual = (min(max(share, _EDGE), 1.0 - _EDGE) for share in (level, before))
        return deviation * max(1.0, math.sqrt(p * (1.0 - p) / (usual * (1.0 - usual))))
    return deviation * max(1.0, level / before) if before > 0.0 else deviation


@kernel
def course(
    means: Means, first: int, stop: int, before: float, deviation: float, after: float, spread: float,
    h: float,
) -> Course:  # fmt: skip
    """The CUSUMs of a recovery and of a further worsening, over the clusters `first` to `stop` - 1.

    `before` and `after` are the levels of the incident, `deviation` and `spread` those of one cluster there.
    """
    n, loss = means.n, means.loss
    risen = score(after, before, deviation)
    back = further = 0.0
    back_from = further_from = -1
    for i in range(first, stop):
        if n[i] < LEAST_OUTCOMES:
            continue
        z = score(loss[i] / n[i], before, deviation)
        back = max(0.0, back + min(_MOST_BACK, risen / 2.0 - z))
        z = score(loss[i] / n[i], after, spread)
        further = max(0.0, further + min(z, ALLOWANCE + h / LASTING) - ALLOWANCE)
        back_from = -1 if back == 0.0 else i if back_from < 0 else back_from
        further_from = -1 if further == 0.0 else i if further_from < 0 else further_from
    return Course(back, back_from, further, further_from)


@kernel
def change_place(means: Means, start: int, stop: int, before: float) -> int:
    """The cluster with which the level changed: from there on means are nearer to the new level.

    The most likely place of one change among the clusters from `_EARLIER` ones before `start` on. The newest
    ones come after it, since a worsening lasts for `LASTING` clusters.
    """
    n, loss = means.n, means.loss
    cluster, last = start, max(start, stop - LASTING)
    for _ in range(3):  # the new level and its place depend on each other
        total, count = 0.0, 0
        for i in range(cluster, stop):
            if n[i] >= LEAST_OUTCOMES:
                total += loss[i] / n[i]
                count += 1
        if not count:
            return cluster
        middle = (before + total / count) / 2.0
        best, apart = -1e300, 0.0
        for i in range(stop - 1, max(-1, start - 1 - _EARLIER), -1):
            if n[i] >= LEAST_OUTCOMES:
                apart += loss[i] / n[i] - middle
                if apart > best and i <= last:
                    best, cluster = apart, i
    return cluster
