"""Thresholds by a budget of false alarms, from a sequence's own losses (docs/reference/detectors.md).

A sequence has sums over pairs of neighbouring losses: over all pairs, and over those since the detector's
latest alarm. At certain outcomes (`due`), `run_lengths` computes the threshold again from them. The number of
outcomes between false alarms follows from the budget and from the stream's pace. The threshold depends on the
sequence and on the log, not on batches.

Pairs of neighbours don't show that the level differs from hour to hour or from day to day. So there are also
sums over clusters of losses: of a minute, an hour and a day, or of the configured length (`cluster`). The
clusters have the means x_k, and n outcomes each in the mean. d1 is the mean of (x_k - x_{k-1})², and d2 that
of (x_k - x_{k-2})². Then r = d2/d1 - 1 is the correlation of neighbouring clusters, and the long-run variance
of the losses is

    n·d1/2·(1 + r)/(1 - r)².

Differences are used because one lasting change adds only to one of them (two for d2). The relative standard
error is about 3/sqrt(K) for K independent clusters. So the variance is divided by 1 + `SURENESS`/sqrt(K):
chance alone hardly raises it above that by pairs. The largest of these variances decides.
"""

from __future__ import annotations

import math
from typing import Any

from prequential.engine.compiled.kernel import Bytes, Floats, inlined, inner
from prequential.engine.detectors.declaration import DECREASE, INCREASE
from prequential.engine.detectors.run_lengths import (
    Losses,
    excursion_threshold,
    highest_ratio_threshold,
    losses_of,
    ratio_threshold,
)
from prequential.engine.tables.outcomes import Log

#: Sums over pairs: their number, the earlier losses, the later losses, the squares of these, the products.
#: They are for all pairs, then for those since the latest alarm.
SUMS = 5

#: Lengths of clusters, ms, where none is configured.
LENGTHS = (60_000, 3_600_000, 86_400_000)

#: Columns of a length, behind the sums over pairs. Of the newest cluster: its number, outcomes, sum of
#: losses; the means of the two before it. Of closed clusters: their number, outcomes, Σ (x_k - x_{k-1})² and
#: Σ (x_k - x_{k-2})².
#: The last one is the length itself, ms: with another configured length, all begins again.
KEY, ENTRIES, LOSS, BEFORE, EARLIER, CLOSED, CLOSED_ENTRIES, FIRST, SECOND, LENGTH = range(10)
PER_LENGTH = 10
CLUSTERS = 2 * SUMS
WIDTH = CLUSTERS + len(LENGTHS) * PER_LENGTH

#: Clusters with fewer outcomes are passed over; with fewer clusters, their variance isn't used.
LEAST_ENTRIES, LEAST_CLUSTERS = 8, 20

#: Twice the relative standard error of a variance by one cluster.
SURENESS = 6.0

#: The largest correlation of neighbouring clusters that is made good for.
MOST_CORRELATION = 0.8

#: Kinds of signals whose threshold can be set: an outcome's own loss, which is 0 or 1 or another one; the
#: ratio of two errors for classification.
NO_LOSS, BINARY, BOUNDED, RATIO = range(4)

#: With fewer pairs since an alarm, their sums aren't used.
_SOME = 1000.0


@inlined
def due(number: int) -> bool:
    """Whether a sequence's thresholds are set at its outcome of this number (from 1): 256, 512, each 1024th.

    That is often enough to follow the data, and rare enough to cost only nanoseconds per outcome.

    >>> [number for number in (1, 256, 512, 768, 1024, 2048) if due(number)]
    [256, 512, 1024, 2048]
    """
    return number & 1023 == 0 or number == 256 or number == 512


@inner
def _add(sums: Floats, first: int, before: float, loss: float) -> None:
    sums[first] += 1.0
    sums[first + 1] += before
    sums[first + 2] += loss
    sums[first + 3] += loss * loss
    sums[first + 4] += before * loss


@inner
def _close(sums: Floats, first: int) -> None:
    """Close the newest cluster, whose columns begin at `first`."""
    entries = sums[first + ENTRIES]
    if entries >= LEAST_ENTRIES:
        x, closed = sums[first + LOSS] / entries, sums[first + CLOSED]
        if closed >= 1.0:
            sums[first + FIRST] += (x - sums[first + BEFORE]) * (x - sums[first + BEFORE])
        if closed >= 2.0:
            sums[first + SECOND] += (x - sums[first + EARLIER]) * (x - sums[first + EARLIER])
        sums[first + EARLIER] = sums[first + BEFORE]
        sums[first + BEFORE] = x
        sums[first + CLOSED] += 1.0
        sums[first + CLOSED_ENTRIES] += entries
    sums[first + ENTRIES] = sums[first + LOSS] = 0.0


@inner
def follow(
    sums: Floats, last: Floats, begun: Bytes, q: int, loss: float, raised: bool, clock: int, cluster: int
) -> None:
    """Add a loss of sequence `q`; after an alarm, the sums over pairs since the latest alarm begin again.

    `clock` is the stream's (ms), `cluster` the configured length of clusters (ms); 0: each of `LENGTHS`.
    """
    if begun[q]:
        _add(sums[q], 0, last[q], loss)
        _add(sums[q], SUMS, last[q], loss)
    if raised:
        sums[q, SUMS:CLUSTERS] = 0.0
    for k in range(len(LENGTHS)):
        first, length = CLUSTERS + k * PER_LENGTH, LENGTHS[k]
        if cluster:
            length = 0 if k else cluster
        if sums[q, first + LENGTH] != length:
            sums[q, first : first + PER_LENGTH] = 0.0
            sums[q, first + LENGTH] = length
        if length == 0:
            continue
        key = float(clock // length)
        if sums[q, first + KEY] != key:
            _close(sums[q], first)
            sums[q, first + KEY] = key
        sums[q, first + ENTRIES] += 1.0
        sums[q, first + LOSS] += loss
    last[q] = loss
    begun[q] = 1


@inner
def loss_of(log: Log, row: int, kind: int, value: float) -> float:
    """The loss behind a signal's value."""
    if kind == RATIO:
        return 1.0 if log.label[row] != log.prediction[row] else 0.0
    return value


@inner
def variance_of_clusters(sums: Floats) -> float:
    """Return the long-run variance of losses, the largest by any length of clusters; 0: too few clusters."""
    largest = 0.0
    for k in range(len(LENGTHS)):
        first = CLUSTERS + k * PER_LENGTH
        closed = sums[first + CLOSED]
        if closed < LEAST_CLUSTERS or sums[first + FIRST] <= 0.0:
            continue
        d1, d2 = sums[first + FIRST] / (closed - 1.0), sums[first + SECOND] / (closed - 2.0)
        r = min(MOST_CORRELATION, max(0.0, d2 / d1 - 1.0))
        variance = sums[first + CLOSED_ENTRIES] / closed * 0.5 * d1 * (1.0 + r) / ((1.0 - r) * (1.0 - r))
        largest = max(largest, variance / (1.0 + SURENESS / math.sqrt(closed)))
    return largest


@inner
def by_clusters(losses: Losses, variance: float) -> float:
    """Return the long-run variance by clusters over that by pairs, at least 1."""
    by_pairs = losses.variance * (1.0 + losses.correlation) / (1.0 - losses.correlation)
    return max(1.0, variance / by_pairs)


@inner
def threshold_for(
    sums: Floats, variance: float, kind: int, drift: float, standardised: bool, up: bool, down: bool,
    apart: float,
) -> float:  # fmt: skip
    """Threshold for `apart` outcomes between alarms from one set of sums; 0: the sums don't suffice.

    `variance` is the long-run variance by clusters, 0 if it isn't known.
    """
    known, losses = losses_of(sums, kind != BOUNDED)
    if not known:
        return 0.0
    ratio = by_clusters(losses, variance)
    if kind == RATIO:
        return ratio_threshold(losses, ratio, apart)
    unit = math.sqrt(losses.variance) if standardised else 1.0
    return excursion_threshold(losses, ratio, drift * unit, up, down, apart) / unit


@inner
def calibrated(
    sums: Floats, kind: int, drift: float, standardised: bool, up: bool, down: bool, apart: float,
    before: float,
) -> float:  # fmt: skip
    """The threshold of a sequence with these sums from now on, `before` until now (0: the configured one).

    It follows from all losses. After an alarm, it is at least the threshold for the losses since then. The
    alarm may have been for a real change, and losses of a model that has become worse vary more.
    """
    variance = variance_of_clusters(sums)
    threshold = threshold_for(sums[:SUMS], variance, kind, drift, standardised, up, down, apart)
    if threshold == 0.0:
        # A ratio varies more if there are fewer errors.
        return max(before, highest_ratio_threshold(apart)) if kind == RATIO else before
    if _SOME <= sums[SUMS] < sums[0]:
        latest = threshold_for(
            sums[SUMS:CLUSTERS], variance, kind, drift, standardised, up, down, apart
        )
        threshold = max(threshold, latest)
    return threshold


@inner
def learn(
    table: Any, settings: Any, log: Log, row: int, value: float, raised: bool, drift: float,
    standardised: bool,
) -> None:  # fmt: skip
    """Add the loss behind a value to its sequence's sums; set the threshold again where that is due.

    `table` and `settings` are those of a detector with a budget, `drift` is its tolerated change.
    """
    q = log.sequence[row]
    loss = loss_of(log, row, settings.kind, value)
    follow(table.losses, table.last, table.begun, q, loss, raised, log.clock[row], settings.cluster)
    if log.gap[row] > 0.0:
        table.threshold[q] = calibrated(
            table.losses[q], settings.kind, drift, standardised, settings.direction != DECREASE,
            settings.direction != INCREASE, settings.apart / log.gap[row], table.threshold[q],
        )  # fmt: skip
