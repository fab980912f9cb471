"""Rates of excursions of a random walk (Page-Hinkley, CUSUM), and of ADWIN's cuts by its significance δ.

Consider a walk with steps y - d, where y are the values minus their mean. The walk exceeds its lowest point
so far by more than h about once in C·(e^w - 1 - w) steps, with w = κ·h. κ > 0 is Lundberg's exponent: it
solves E[exp(κ·(S - d·B))] = 1 for the sums S of B values, where B exceeds the range of dependence. For normal
sums, κ is 2·d/σ², where σ² is the long-run variance of a value. So common sums are enough to compute κ, and
there is no need to wait for rare excursions.

A cut separates the last n values from the earlier ones if their means differ by more than

    ε = sqrt(2·σ²·L/m) + 2/3·L/m,  L = ln(2·ln W/δ),  m = n - l + 1

with W values in the window and l the least length of a side (Bifet and Gavaldà 2007). The mean of n values
deviates by ε with a probability of about exp(-n·I(ε)) (Cramér), where I(ε) = max over θ of θ·ε - Λ(θ). For
sums S of B values, B·Λ(θ) is the logarithm of E[exp(θ·(S - E S))]. Over all n and all places where the n
values may end, the number of cuts per value is, up to a factor,

    Σ over n of (n·I)^(3/2)·exp(-n·I)/n,

as for the largest of a random walk's increments (Siegmund and Venkatraman 1995); n grows by factors of √2. Λ
is estimated from common sums, so there is no need to wait for rare cuts. B is short enough for many sums. The
long-run variance V contains the dependence of values beyond B, and I is reduced by the factor var(S)/B over
V. As var(S)/B = V - c/B, V is computed from sums of B and of 2·B values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DetectorConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.adwin import AdwinParameters

#: Values in each sum of a `StepSums`.
STEP = 16

#: Values further apart than a sum's length depend little on each other if the variance of such sums, per
#: value, reaches this share of that of the longest sums. Sums so many times as long contain the rest of the
#: dependence.
_NEAR, _LONGER = 0.9, 4

#: The least number of the longest sums, whose variance is then known to a tenth.
_LEAST_SUMS = 200

#: The long-run variance is the mean over this many of the longest lengths.
_LONGEST = 3

#: Steps of the bisection.
_HALVINGS = 100


class StepSums(NamedTuple):
    """Values as sums of `STEP` of them, in order, and their standard deviation."""

    sums: Floats
    spread: float


def kappa_of(detector: DetectorConfig, walk: StepSums) -> float:
    """Return κ per unit of the detector's threshold, for the direction with more frequent excursions."""
    declared = DETECTORS[detector.detector]
    parameters = declared.complete(detector.params)
    drift = float(parameters[declared.drift])
    unit = walk.spread if declared.standardised else 1.0
    direction = parameters.get("direction", "increase")
    signs = {"increase": (1.0,), "decrease": (-1.0,), "both": (1.0, -1.0)}[str(direction)]
    return min(exponent(sign * walk.sums, drift * unit) for sign in signs) * unit


def variances_of(sums: Floats) -> tuple[list[int], list[float]]:
    """Return the lengths of sums and, for each length, the variance of a sum divided by its length."""
    lengths, variances = [], []
    length, centred_sums = STEP, sums - sums.mean()
    while len(centred_sums) >= _LEAST_SUMS:
        lengths.append(length)
        variances.append(float(centred_sums.var()) / length)
        centred_sums = centred_sums[: len(centred_sums) // 2 * 2].reshape(-1, 2).sum(axis=1)
        length *= 2
    return lengths, variances


def long_run_variance(sums: Floats) -> float:
    """Return the long-run variance of a value, from ordered sums of `STEP` values; 0 if there are too few."""
    _, variances = variances_of(sums)
    return float(np.mean(variances[-_LONGEST:])) if variances else 0.0


def longer(sums: Floats, size: int) -> Floats:
    """Return sums of `size` values minus their mean, (sums,), computed from ordered sums of `STEP` values."""
    whole = size // STEP
    longer_sums: Floats = (sums - sums.mean())[: len(sums) // whole * whole].reshape(-1, whole).sum(axis=1)
    return longer_sums


def log_mean_exp(powers: Floats) -> float:
    """Return ln of the mean of exp(powers), without overflow.

    >>> log_mean_exp(np.array([1000.0, 1000.0]))
    1000.0
    """
    most = float(powers.max())
    return most + math.log(float(np.exp(powers - most).mean()))


def exponent(sums: Floats, drift: float) -> float:
    """Return κ of a walk that drifts down by `drift` per value; `sums` are ordered sums of `STEP` values.

    >>> rng = np.random.default_rng(1)
    >>> sums = rng.normal(0.0, 4.0, 200_000)  # of values with variance 1
    >>> round(exponent(sums, 0.1), 2)  # 2·drift
    0.2
    """
    lengths, variances = variances_of(sums)
    if not lengths or variances[-1] <= 0.0 or drift <= 0.0:
        return 0.0
    long_run = float(np.mean(variances[-_LONGEST:]))
    long_enough = next(size for size, variance in zip(lengths, variances) if variance >= _NEAR * long_run)
    # At this length κ times the standard deviation of a sum is 1. Shorter sums would make the mean below
    # flat, and in longer ones a few sums would dominate it.
    wanted = max(_LONGER * long_enough, long_run / (4.0 * drift * drift))
    size = max((length for length in lengths if length <= wanted), default=lengths[0])
    drifting_sums = longer(sums, size) - drift * size
    low, high = 0.0, 8.0 * drift / long_run
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = log_mean_exp(middle * drifting_sums) < 0.0
        low, high = (middle, high) if below else (low, middle)
    return high


#: Sums are long enough if their variance per value reaches this share of the largest such variance. Only
#: lengths with at least so many sums count for the largest, whose variance is then known to 3%.
_NEAR_ALL, _SUMS = 0.85, 2_000

#: Values of θ in units of 1 over the standard deviation of a sum: a geometric grid, used with both signs.
_THETAS = np.geomspace(1e-4, 6.0, 200)

#: Lengths n.
_LENGTHS = 2.0 ** np.arange(4.5, 40.0, 0.5)

#: -ln of the factor by which the sum above is too large: 3.5 to 4.2 for independent and for Markov-dependent
#: errors. The factor only affects the width of windows, of which only the logarithm is used.
_FACTOR = 3.8

#: The width of windows is the number of values between two cuts, which itself depends on the width. It is
#: found by this many iterations, from this logarithm.
_ROUNDS, _FIRST = 4, 12.0

#: The lower bound of `n·I`: near 0, cuts are not rare and the approximation fails.
_LEAST = 0.5


class Cuts(NamedTuple):
    """Estimates from a sequence of values, which give the rate of its cuts."""

    thetas: Floats
    logs: Floats  # Λ(θ)
    beyond: float  # the factor of n·I: var(S)/B over V
    variance: float  # σ²
    least: int  # l
    clock: int  # values between two tests

    def rarity(self, u: float) -> float:
        """Return -ln of the sum above, at δ = exp(-u)."""
        rarity, log_width = 0.0, _FIRST
        for _ in range(_ROUNDS):
            rarity = self._rarity(u, log_width)
            log_width = max(rarity + _FACTOR, math.log(2.0 * _LENGTHS[0]))
        return rarity

    def form(self, kappa: float, u: float) -> tuple[float, float]:
        """Return κ times the rarity, and its derivative by κ."""
        rarity = self.rarity(u)
        return kappa * rarity, rarity

    def _rarity(self, u: float, log_width: float) -> float:
        """Return the rarity in windows of a width whose logarithm is given."""
        n = _LENGTHS[np.log(2.0 * _LENGTHS) <= log_width + 1e-9]
        level = u + math.log(2.0 * log_width)
        m = np.maximum(n - self.least + 1.0, 1.0)
        off = np.sqrt(2.0 * self.variance * level / m) + 2.0 / 3.0 * level / m
        logs = []
        for deviation in (off, -off):
            rate = (deviation[:, None] * self.thetas - self.logs).max(axis=1)
            power = np.maximum(self.beyond * n * rate, _LEAST)
            logs.append(1.5 * np.log(power) - power - np.log(np.maximum(n, self.clock)))
        most = float(np.max(logs))
        return -(most + math.log(float(np.exp(np.array(logs) - most).sum())))


def cuts_of(settings: AdwinParameters, walk: StepSums) -> Cuts | None:
    """Return the estimates from a walk's values; None if there are too few of them or they don't vary."""
    lengths, variances = variances_of(walk.sums)
    if len(lengths) < 2 or variances[-1] <= 0.0:
        return None
    sure_variances = [
        variance for size, variance in zip(lengths, variances) if len(walk.sums) * STEP >= _SUMS * size
    ]
    enough = _NEAR_ALL * max(sure_variances, default=variances[0])
    index = next(
        i for i, variance in enumerate(variances[:-1]) if variance >= enough or i == len(variances) - 2
    )
    block_sums = longer(walk.sums, lengths[index])
    thetas = np.concatenate((-_THETAS, _THETAS)) / float(block_sums.std())
    logs = np.array([log_mean_exp(theta * block_sums) / lengths[index] for theta in thetas.tolist()])
    long_run = max(2.0 * variances[index + 1] - variances[index], 0.5 * variances[index])
    return Cuts(
        thetas, logs, variances[index] / long_run, walk.spread**2,
        settings.min_window_length, settings.clock,
    )  # fmt: skip
