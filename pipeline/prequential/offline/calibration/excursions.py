"""The rate of excursions of a random walk that drifts downwards, as Page-Hinkley and CUSUM detect them.

Consider a walk with steps y - d, where y are the values minus their mean. The walk exceeds its lowest point
so far by more than h about once in C·(e^w - 1 - w) steps, with w = κ·h. κ > 0 is Lundberg's exponent: it
solves E[exp(κ·(S - d·B))] = 1 for the sums S of B values, where B exceeds the range of dependence. For normal
sums, κ is 2·d/σ², where σ² is the long-run variance of a value. So common sums are enough to compute κ, and
there is no need to wait for rare excursions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DetectorConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors import DETECTORS

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
    given = declared.complete(detector.params)
    drift = float(given[declared.drift])
    unit = walk.spread if declared.standardised else 1.0
    direction = given.get("direction", "increase")
    signs = {"increase": (1.0,), "decrease": (-1.0,), "both": (1.0, -1.0)}[str(direction)]
    return min(exponent(sign * walk.sums, drift * unit) for sign in signs) * unit


def variances_of(sums: Floats) -> tuple[list[int], list[float]]:
    """Return the lengths of sums and, for each length, the variance of a sum divided by its length."""
    lengths, variances = [], []
    length, some = STEP, sums - sums.mean()
    while len(some) >= _LEAST_SUMS:
        lengths.append(length)
        variances.append(float(some.var()) / length)
        some = some[: len(some) // 2 * 2].reshape(-1, 2).sum(axis=1)
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
    long_enough = next(size for size, one in zip(lengths, variances) if one >= _NEAR * long_run)
    # At this length κ times the standard deviation of a sum is 1. Shorter sums would make the mean below
    # flat, and in longer ones a few sums would dominate it.
    wanted = max(_LONGER * long_enough, long_run / (4.0 * drift * drift))
    size = max((one for one in lengths if one <= wanted), default=lengths[0])
    some = longer(sums, size) - drift * size
    low, high = 0.0, 8.0 * drift / long_run
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = log_mean_exp(middle * some) < 0.0
        low, high = (middle, high) if below else (low, middle)
    return high
