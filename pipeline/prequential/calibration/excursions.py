"""How fast excursions of a random walk with a drift downwards become rare: of Page-Hinkley and CUSUM.

A walk of steps y - d, y the values less their mean, exceeds its lowest point so far by more than h once in
C·(e^w - 1 - w) steps or so, w = κ·h. κ > 0 solves E[exp(κ·(S - d·B))] = 1 for the sums S of B values, B
longer than values depend on each other (Lundberg's exponent; for sums that are normal it is 2·d/σ², σ² the
long-run variance of a value). So it is known from sums that are seen all the time, and rare excursions need
not be waited for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats
from prequential.core.detectors import DETECTORS
from prequential.settings.model import DetectorConfig

#: Values in a sum as it is kept.
STEP = 16

#: Where the variance of sums, by value, is this near to that of the longest, values further apart depend
#: little on each other; sums so many times as long have the rest of it.
_NEAR, _LONGER = 0.9, 4

#: Of the longest sums there are so many: their variance is then known to a tenth.
_LEAST_SUMS = 200

#: Sums of so many lengths, the longest ones, say what the long-run variance is.
_LONGEST = 3

#: Halvings of an interval.
_HALVINGS = 100


class Walk(NamedTuple):
    """Values as sums of `STEP` of them, in order, and their standard deviation."""

    sums: Floats
    spread: float


def kappa_of(detector: DetectorConfig, walk: Walk) -> float:
    """κ, by unit of the detector's threshold; in the direction in which excursions are less rare."""
    declared = DETECTORS[detector.detector]
    given = declared.complete(detector.params)
    drift = float(given[declared.drift])
    unit = walk.spread if declared.standardised else 1.0
    direction = given.get("direction", "increase")
    signs = {"increase": (1.0,), "decrease": (-1.0,), "both": (1.0, -1.0)}[str(direction)]
    return min(exponent(sign * walk.sums, drift * unit) for sign in signs) * unit


def variances_of(sums: Floats) -> tuple[list[int], list[float]]:
    """Lengths of sums, and by length the variance of a sum for each of its values."""
    lengths, variances = [], []
    length, some = STEP, sums - sums.mean()
    while len(some) >= _LEAST_SUMS:
        lengths.append(length)
        variances.append(float(some.var()) / length)
        some = some[: len(some) // 2 * 2].reshape(-1, 2).sum(axis=1)
        length *= 2
    return lengths, variances


def long_run_variance(sums: Floats) -> float:
    """Of a value, as sums of many of them vary; `sums` are those of `STEP` values, in order; 0: too few."""
    _, variances = variances_of(sums)
    return float(np.mean(variances[-_LONGEST:])) if variances else 0.0


def longer(sums: Floats, size: int) -> Floats:
    """Deviations of sums of `size` values, of those of `STEP` values, in order."""
    whole = size // STEP
    longer_sums: Floats = (sums - sums.mean())[: len(sums) // whole * whole].reshape(-1, whole).sum(axis=1)
    return longer_sums


def log_mean_exp(powers: Floats) -> float:
    """ln of the mean of exp(powers), whatever they are.

    >>> log_mean_exp(np.array([1000.0, 1000.0]))
    1000.0
    """
    most = float(powers.max())
    return most + math.log(float(np.exp(powers - most).mean()))


def exponent(sums: Floats, drift: float) -> float:
    """κ of a walk that drifts down by so much at a value; `sums` are those of `STEP` values.

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
    # So long that κ times their standard deviation is 1: the mean below is neither flat nor made by a few.
    wanted = max(_LONGER * long_enough, long_run / (4.0 * drift * drift))
    size = max((one for one in lengths if one <= wanted), default=lengths[0])
    some = longer(sums, size) - drift * size
    low, high = 0.0, 8.0 * drift / long_run
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = log_mean_exp(middle * some) < 0.0
        low, high = (middle, high) if below else (low, middle)
    return high
