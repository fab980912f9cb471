"""Thresholds by a budget of false alarms, from a sequence's own losses (docs/reference/detectors.md).

For Page-Hinkley and CUSUM on an outcome's own loss, the statistic is the excursion of a random walk above its
lowest point so far. The walk drifts down by d at each value. The statistic exceeds h once in

    A(h) = (e^w - 1 - w)/(κ·d),  w = κ·(h + b)

values (Siegmund, Sequential Analysis, 1985, chapter 2). κ > 0 is Lundberg's exponent, and b is the overshoot
beyond the bounds. Losses of 0 and 1 are modelled as a Markov chain of two states (Žliobaitė et al. 2015,
section 4). The largest eigenvalue of its matrix, tilted by κ, is 1, and v is its eigenvector. With the error
rate e and the autocorrelation r, the overshoot is `b = ln(v_1/v_0)/κ + (1 + e)/3·sqrt((1 + r)/(1 - r))`. The
second term is a fit to simulations, near 1/3 if errors are rare. Other losses are modelled as normal, with
the long-run variance σ² = s²·(1 + r)/(1 - r). For these, κ = 2·d/σ² and b = 1.17·s·sqrt((1 + r)/(1 - r)).

For Page-Hinkley on the default ratio there is a table from simulations, `RATIOS`.

A sequence has sums over pairs of neighbouring losses: over all pairs, and over those since the detector's
latest alarm. At certain outcomes (`due`), the threshold is computed again from them. The number of
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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints32, inner, kernel, named
from prequential.engine.compiled.mathematics import exp
from prequential.engine.compiled.mathematics import log as ln
from prequential.engine.detectors.declaration import DECREASE, INCREASE
from prequential.engine.tables.logs import Alarms, raise_alarm
from prequential.engine.tables.outcomes import Log

#: Halvings of an interval, for more digits than estimates have.
_HALVINGS = 40

#: Steps of w = ln(A·κ·d + 1 + w), each with a tenth of the error of the one before.
_STEPS = 12

#: The overshoot of a normal walk beyond both bounds, in standard deviations (Siegmund 1985, section 10.2).
_BEYOND = 1.166

#: The largest exponent: walks with larger ones can hardly rise at all.
_STEEPEST = 500.0

#: Relative variance of κ, times w, up to which a past is long enough; there it makes thresholds higher by a
#: sixth.
_UNSURE = 0.25

#: The smallest exponent: below it, e^w - 1 - w has too few digits.
_FLATTEST = 1e-3

#: The smallest threshold: one loss of 1 more than usual.
_LEAST = 1.0

#: c of the rows below, c² = long-run variance of the losses over their squared mean; ln(outcomes between
#: alarms) at the first column, and from one to the next.
SPREADS = np.array([1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 9.0, 13.0, 20.0, 30.0])
_FIRST_LOG, _LOG_STEP = 8.0, 2.0

#: Page-Hinkley's λ on `fading:0.997/fading:0.9994` with δ = 0.1, in units of c
#: (`python -m tests.evidence.ratio_thresholds`).
RATIOS = np.array(
    [
        [0.0, 0.3, 0.5, 0.8, 1.1, 3.1, 5.3, 7.6, 10.1, 12.7, 15.4, 18.1],
        [0.0, 0.9, 2.6, 6.5, 11.3, 16.4, 21.7, 27.1, 32.6, 37.8, 42.7, 47.4],
        [0.0, 2.7, 8.3, 14.9, 21.7, 28.5, 35.2, 41.6, 47.5, 53.2, 58.3, 63.1],
        [0.0, 8.4, 18.6, 28.4, 37.9, 47.1, 56.2, 64.7, 72.4, 79.4, 85.7, 91.4],
        [1.6, 15.7, 29.6, 42.4, 54.3, 64.8, 74.2, 82.5, 90.2, 96.8, 102.7, 108.1],
        [2.4, 22.7, 39.4, 53.3, 65.0, 75.6, 85.1, 93.6, 101.4, 108.2, 114.4, 120.0],
        [2.1, 28.4, 47.4, 62.2, 75.0, 86.1, 95.6, 104.1, 111.9, 119.0, 125.4, 131.0],
        [0.0, 35.1, 57.7, 75.0, 91.1, 104.7, 115.0, 123.4, 130.1, 136.0, 141.3, 145.9],
        [0.0, 42.4, 67.3, 86.5, 102.7, 115.8, 125.1, 133.2, 139.4, 144.7, 149.1, 153.3],
        [0.0, 47.5, 72.0, 86.1, 96.5, 105.1, 112.5, 119.0, 124.9, 130.7, 136.1, 141.6],
    ]
)


class Losses(NamedTuple):
    """Statistics of a sequence's losses."""

    mean: float
    variance: float
    #: The correlation of neighbours.
    correlation: float
    #: Squared relative standard errors: of the long-run variance, and of c (of losses of 0 and 1).
    unsure: float
    unsure_spread: float
    #: For losses of 0 and 1: how often wrong follows right, and right follows wrong; else 0.
    worse: float
    better: float


@inner
def losses_of(pairs: Floats, binary: bool) -> tuple[bool, Losses]:
    """Statistics from sums over pairs of neighbours (`engine.detectors.budgets`).

    Also returns whether there are enough pairs, with enough variance.
    """
    n, before, after, squares, both = pairs[0], pairs[1], pairs[2], pairs[3], pairs[4]
    nothing = Losses(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if n < 2.0:
        return False, nothing
    mean = after / n
    variance = squares / n - mean * mean
    if mean <= 0.0 or variance <= 1e-12 * mean * mean:
        return False, nothing
    if binary:
        right = n - before
        worse, better = after - both, before - both
        if right <= 0.0 or before <= 0.0 or worse <= 0.0 or better <= 0.0:
            return False, nothing
        a, b = worse / right, better / before
        if a + b >= 2.0:
            return False, nothing
        # Both are shares of independent trials: the variances of ln σ² and of ln c² by the delta method.
        e = a / (a + b)
        of_a, of_b = a * (1.0 - a) / right, b * (1.0 - b) / before
        common = 1.0 / (2.0 - a - b)
        by_a, by_b = 1.0 / a - common - 3.0 / (a + b), 1.0 / b - common - 3.0 / (a + b)
        unsure = by_a * by_a * of_a + by_b * by_b * of_b
        by_a, by_b = -1.0 / a - common - 1.0 / (a + b), 1.0 / b - common - 1.0 / (a + b)
        of_spread = 0.25 * (by_a * by_a * of_a + by_b * by_b * of_b)
        return True, Losses(e, e * (1.0 - e), 1.0 - a - b, unsure, of_spread, a, b)
    correlation = (both / n - (before / n) * mean) / variance
    if not -0.999 < correlation < 0.999:
        return False, nothing
    steady = 1.0 - correlation * correlation
    unsure = (2.0 * (1.0 + correlation * correlation) + 4.0) / (steady * n)
    return True, Losses(mean, variance, correlation, unsure, 0.0, 0.0, 0.0)


@inner
def _is_below(a: float, b: float, e: float, drift: float, kappa: float) -> bool:
    """Whether the tilted matrix's largest eigenvalue is below 1."""
    down, up = exp(-kappa * (e + drift)), exp(kappa * (1.0 - e - drift))
    first, second = 1.0 - (1.0 - a) * down, 1.0 - (1.0 - b) * up
    return first > 0.0 and second > 0.0 and first * second > a * b * down * up


@inner
def exponent(a: float, b: float, drift: float) -> tuple[float, float]:
    """κ and b of a chain that goes from 0 to 1 with probability a, and back with b.

    >>> [round(one, 3) for one in exponent(0.1, 0.9, 0.1)]  # independent errors, one in ten
    [1.509, 0.367]
    """
    e = a / (a + b)
    r = 1.0 - a - b
    long = (1.0 + r) / (1.0 - r)
    low, high = 0.0, 2.0 * drift / (e * (1.0 - e) * long)
    while high < _STEEPEST and _is_below(a, b, e, drift, high):
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _is_below(a, b, e, drift, middle):
            low = middle
        else:
            high = middle
    kappa = 0.5 * (low + high)
    down, up = exp(-kappa * (e + drift)), exp(kappa * (1.0 - e - drift))
    beyond = ln((1.0 - (1.0 - a) * down) / (a * up)) / kappa
    return kappa, beyond + (1.0 + e) / 3.0 * math.sqrt(long)


@inner
def _run_length(kappa: float, drift: float, beyond: float, threshold: float) -> float:
    """A(h)."""
    w = min(max(kappa * (threshold + beyond), _FLATTEST), _STEEPEST)
    return (exp(w) - 1.0 - w) / (kappa * drift)


@inner
def _excursion(kappa: float, drift: float, beyond: float, apart: float) -> float:
    """The h of A(h) = `apart`, which must be several times 1/(κ·d)."""
    w = wanted = ln(1.0 + apart * kappa * drift)
    for _ in range(_STEPS):
        w = ln(exp(wanted) + w)
    return w / kappa - beyond


@inner
def excursion_threshold(
    losses: Losses, by_clusters: float, drift: float, up: bool, down: bool, apart: float
) -> float:
    """Threshold for `apart` values between alarms, of losses that may rise, fall, or both; 0: it isn't known.

    `by_clusters` is how many times as large the long-run variance is as by neighbours: κ is divided by it,
    and b grows with its root.

    κ is uncertain, and rates are averages over its distribution. If w = κ·(h + b) is normal with relative
    variance u, E[e^-w] is e^-(w - u·w²/2). So the threshold is higher.
    """
    if losses.worse > 0.0:
        kappa_up, beyond_up = exponent(losses.worse, losses.better, drift)
        kappa_down, beyond_down = exponent(losses.better, losses.worse, drift)
    else:
        long = (1.0 + losses.correlation) / (1.0 - losses.correlation)
        kappa_up = kappa_down = 2.0 * drift / (losses.variance * long)
        beyond_up = beyond_down = _BEYOND * math.sqrt(losses.variance * long)
    kappa_up, kappa_down = kappa_up / by_clusters, kappa_down / by_clusters
    beyond_up, beyond_down = beyond_up * math.sqrt(by_clusters), beyond_down * math.sqrt(by_clusters)
    high_up = _excursion(kappa_up, drift, beyond_up, 2.0 * apart) if up else 0.0
    high_down = _excursion(kappa_down, drift, beyond_down, 2.0 * apart) if down else 0.0
    low, high = 0.0, max(high_up, high_down, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rate = 1.0 / _run_length(kappa_up, drift, beyond_up, middle) if up else 0.0
        rate += 1.0 / _run_length(kappa_down, drift, beyond_down, middle) if down else 0.0
        if rate * apart > 1.0:
            low = middle
        else:
            high = middle
    steeper = down and (not up or high_down > high_up)
    kappa, beyond = (kappa_down, beyond_down) if steeper else (kappa_up, beyond_up)
    w = kappa * (high + beyond)
    if losses.unsure * w > _UNSURE:
        return 0.0
    surely = 2.0 * w / (1.0 + math.sqrt(1.0 - 2.0 * losses.unsure * w))
    return max(_LEAST, surely / kappa - beyond)


def ratio_log(spread: float, threshold: float) -> float:
    """ln(outcomes between false alarms) of a λ on the default ratio: `ratio_threshold` the other way.

    `spread` is c, the losses' long-run standard deviation over their mean (see `SPREADS`). Beyond the table's
    last column along a line.

    >>> ratio_log(2.0, 40.0)
    15.5
    """
    thresholds = spread * np.array([np.interp(spread, SPREADS, column) for column in RATIOS.T])
    logs = _FIRST_LOG + _LOG_STEP * np.arange(len(thresholds))
    beyond = max(0.0, threshold - thresholds[-1]) / (thresholds[-1] - thresholds[-2])
    return float(np.interp(threshold, thresholds, logs) + _LOG_STEP * beyond)


@inner
def ratio_threshold(losses: Losses, by_clusters: float, apart: float) -> float:
    """λ of the default ratio for `apart` values between alarms, by the table; 0: it isn't known.

    `by_clusters` is how many times as large the long-run variance is as by neighbours.

    Between and beyond the table's columns along lines; below its first row as there, and along a line beyond
    its last one.
    """
    long = (1.0 + losses.correlation) / (1.0 - losses.correlation)
    spread = math.sqrt(losses.variance * long * by_clusters) / losses.mean
    wanted = ln(apart)
    if wanted <= 0.0 or losses.unsure_spread * wanted > _UNSURE:
        return 0.0
    surely = 2.0 * wanted / (1.0 + math.sqrt(1.0 - 2.0 * losses.unsure_spread * wanted))
    row = 0
    while row < len(SPREADS) - 2 and spread > SPREADS[row + 1]:
        row += 1
    share = max(0.0, (spread - SPREADS[row]) / (SPREADS[row + 1] - SPREADS[row]))
    position = (surely - _FIRST_LOG) / _LOG_STEP
    column = int(min(max(position, 0.0), RATIOS.shape[1] - 2.0))
    part = max(position - column, 0.0)
    lower = RATIOS[row, column] + part * (RATIOS[row, column + 1] - RATIOS[row, column])
    upper = RATIOS[row + 1, column] + part * (RATIOS[row + 1, column + 1] - RATIOS[row + 1, column])
    return max(_LEAST, spread * (lower + share * (upper - lower)))


@inner
def highest_ratio_threshold(apart: float) -> float:
    """λ of the default ratio while next to no errors are known: that of the table's last row."""
    position = max((ln(max(apart, 1.0)) - _FIRST_LOG) / _LOG_STEP, 0.0)
    column = int(min(position, RATIOS.shape[1] - 2.0))
    row = RATIOS[len(SPREADS) - 1]
    return SPREADS[-1] * (row[column] + (position - column) * (row[column + 1] - row[column]))


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


@inner
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
def variance_of_clusters(sums: Floats) -> float:
    """The long-run variance of losses, the largest by any length of clusters; 0: too few clusters."""
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
def threshold_for(
    sums: Floats, variance: float, kind: int, drift: float, standardised: bool, up: bool, down: bool,
    apart: float,
) -> float:  # fmt: skip
    """Threshold for `apart` outcomes between alarms from one set of sums; 0: the sums don't suffice.

    `variance` is the long-run variance by clusters, 0 if it isn't known.
    """
    is_known, losses = losses_of(sums, kind != BOUNDED)
    if not is_known:
        return 0.0
    by_pairs = losses.variance * (1.0 + losses.correlation) / (1.0 - losses.correlation)
    ratio = max(1.0, variance / by_pairs)
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
        latest = threshold_for(sums[SUMS:CLUSTERS], variance, kind, drift, standardised, up, down, apart)
        threshold = max(threshold, latest)
    return threshold


@inner
def threshold_of(table: Any, settings: Any, q: int) -> float:
    """The threshold of sequence `q` of a detector that may have a budget."""
    return table.threshold[q] if settings.apart > 0.0 and table.threshold[q] > 0.0 else settings.threshold


@inner
def _learn(
    table: Any, settings: Any, log: Log, row: int, value: float, raised: bool, standardised: bool
) -> None:
    """Add the loss behind a value to its sequence's sums; set the threshold again where that is due."""
    q, loss = log.sequence[row], value
    if settings.kind == RATIO:
        loss = 1.0 if log.label[row] != log.prediction[row] else 0.0
    follow(table.losses, table.last, table.begun, q, loss, raised, log.clock[row], settings.cluster)
    if log.gap[row] > 0.0:
        table.threshold[q] = calibrated(
            table.losses[q], settings.kind, settings.drift, standardised, settings.direction != DECREASE,
            settings.direction != INCREASE, settings.apart / log.gap[row], table.threshold[q],
        )  # fmt: skip


def loop_with_budget(
    name: str, step: Callable[..., tuple[bool, float]], standardised: bool
) -> Callable[..., None]:
    """`run` of a detector that may have a budget of false alarms, from `step(table, settings, q, value)`.

    The step, compiled for loops (`inner`), returns whether there is an alarm, and the statistic. `table` has
    the columns `threshold`, `losses`, `last` and `begun`; `settings` has `drift`, its tolerated change,
    `threshold`, `direction`, and what `Watch` sets for a budget.
    """

    def run(
        table: Any, settings: Any, log: Log, rows: Ints32, values: Floats, fed: Bytes, detector: int,
        alarms: Alarms,
    ) -> None:  # fmt: skip
        for i in range(len(rows)):
            if fed[i]:
                row = rows[i]
                q = log.sequence[row]
                raised, statistic = step(table, settings, q, values[i])
                if raised:
                    raise_alarm(alarms, i, detector, statistic, threshold_of(table, settings, q))
                if settings.apart > 0.0:
                    _learn(table, settings, log, row, values[i], raised, standardised)

    return kernel(named(run, name))
