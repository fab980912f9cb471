"""Thresholds for a given number of outcomes between false alarms, from statistics of a sequence's losses.

For Page-Hinkley and CUSUM on an outcome's own loss, the statistic is the excursion of a random walk above its
lowest point so far. The walk drifts down by d at each value. The statistic exceeds h once in

    A(h) = (e^w - 1 - w)/(κ·d),  w = κ·(h + b)

values (Siegmund, Sequential Analysis, 1985, chapter 2). κ > 0 is Lundberg's exponent, and b is the overshoot
beyond the bounds. Losses of 0 and 1 are modelled as a Markov chain of two states (Žliobaitė et al. 2015,
section 4). The largest eigenvalue of its matrix, tilted by κ, is 1, and v is its eigenvector. With the error
rate e and the autocorrelation r, the overshoot is `b = ln(v_1/v_0)/κ + (1 + e)/3·sqrt((1 + r)/(1 - r))`. The
second term is a fit to simulations, near 1/3 if errors are rare. Other losses are modelled as normal, with
the long-run variance σ² = s²·(1 + r)/(1 - r). For these, κ = 2·d/σ² and b = 1.17·s·sqrt((1 + r)/(1 - r)).

For Page-Hinkley on the default ratio there is a table from simulations, `RATIO`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.compiled.mathematics import exp
from prequential.engine.compiled.mathematics import log as ln

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
RATIO = np.array(
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
    thresholds = spread * np.array([np.interp(spread, SPREADS, column) for column in RATIO.T])
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
    place = (surely - _FIRST_LOG) / _LOG_STEP
    column = int(min(max(place, 0.0), RATIO.shape[1] - 2.0))
    part = max(place - column, 0.0)
    lower = RATIO[row, column] + part * (RATIO[row, column + 1] - RATIO[row, column])
    upper = RATIO[row + 1, column] + part * (RATIO[row + 1, column + 1] - RATIO[row + 1, column])
    return max(_LEAST, spread * (lower + share * (upper - lower)))


@inner
def highest_ratio_threshold(apart: float) -> float:
    """λ of the default ratio while next to no errors are known: that of the table's last row."""
    place = max((ln(max(apart, 1.0)) - _FIRST_LOG) / _LOG_STEP, 0.0)
    column = int(min(place, RATIO.shape[1] - 2.0))
    row = RATIO[len(SPREADS) - 1]
    return SPREADS[-1] * (row[column] + (place - column) * (row[column + 1] - row[column]))
