"""How fast cuts of ADWIN become rare as its significance δ gets smaller.

A cut tells the last n values from those before if their means differ by more than

    ε = sqrt(2·σ²·L/m) + 2/3·L/m,  L = ln(2·ln W/δ),  m = n - l + 1

with W values in the window and l the least length of a side (Bifet and Gavaldà 2007). The mean of n values
is off by ε with a probability of about exp(-n·I(ε)), I(ε) = max over θ of θ·ε - Λ(θ), where Λ(θ) is the
logarithm of E[exp(θ·(S - E S))] for sums S of B values, by value (Cramér). Of all n, and of all places that
they may end at, so many cuts come of a value (up to a factor):

    Σ over n of (n·I)^(3/2)·exp(-n·I)/n,

as for the largest of a random walk's increments (Siegmund and Venkatraman 1995); n goes up by √2. Λ is known
from sums that are seen all the time, so rare cuts need not be waited for. B is so short that there are many
sums; what values depend on each other beyond that is in their long-run variance V, by which I is smaller:
var(S)/B = V - c/B, so V is found from sums of B and of 2·B values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.calibration.excursions import STEP, Walk, log_mean_exp, longer, variances_of
from prequential.core.compiled.kernel import Floats
from prequential.core.detectors.adwin import Settings

#: Where the variance of sums, by value, is this near to the largest of those that there are so many of (it is
#: then known to 3%), they are long enough.
_NEAR, _SUMS = 0.85, 2_000

#: θ by standard deviations of a sum: geometric from the first to the last, on both sides.
_THETAS = np.geomspace(1e-4, 6.0, 200)

#: Lengths n.
_LENGTHS = 2.0 ** np.arange(4.5, 40.0, 0.5)

#: -ln of the factor that the sum above is too large by: of independent and of Markov-dependent errors from
#: 3.5 to 4.2. It only matters for the width of windows, whose logarithm counts.
_FACTOR = 3.8

#: Times that the width of windows, some values between two cuts, is found from what it makes of cuts; and the
#: logarithm that it begins with.
_ROUNDS, _FIRST = 4, 12.0

#: `n·I` counts as so much at least: where it is near 0 nothing is rare.
_LEAST = 0.5


class Cuts(NamedTuple):
    """What is known of values."""

    thetas: Floats
    logs: Floats  # Λ(θ)
    beyond: float  # what n·I is to be multiplied by: var(S)/B over V
    variance: float  # σ²
    least: int  # l
    clock: int  # values from one look to the next

    def rarity(self, u: float) -> float:
        """-ln of the sum above, at δ = exp(-u)."""
        rarity, log_width = 0.0, _FIRST
        for _ in range(_ROUNDS):
            rarity = self._rarity(u, log_width)
            log_width = max(rarity + _FACTOR, math.log(2.0 * _LENGTHS[0]))
        return rarity

    def form(self, kappa: float, u: float) -> tuple[float, float]:
        """κ times the rarity, and its derivative by κ."""
        rarity = self.rarity(u)
        return kappa * rarity, rarity

    def _rarity(self, u: float, log_width: float) -> float:
        """… in windows of a width whose logarithm is given."""
        n = _LENGTHS[np.log(2.0 * _LENGTHS) <= log_width + 1e-9]
        level = u + math.log(2.0 * log_width)
        m = np.maximum(n - self.least + 1.0, 1.0)
        off = np.sqrt(2.0 * self.variance * level / m) + 2.0 / 3.0 * level / m
        logs = []
        for one in (off, -off):
            rate = (one[:, None] * self.thetas - self.logs).max(axis=1)
            power = np.maximum(self.beyond * n * rate, _LEAST)
            logs.append(1.5 * np.log(power) - power - np.log(np.maximum(n, self.clock)))
        most = float(np.max(logs))
        return -(most + math.log(float(np.exp(np.array(logs) - most).sum())))


def cuts_of(settings: Settings, walk: Walk) -> Cuts | None:
    """Of values; None if they say too little, as there are few of them or they don't vary."""
    lengths, variances = variances_of(walk.sums)
    if len(lengths) < 2 or variances[-1] <= 0.0:
        return None
    known = [one for size, one in zip(lengths, variances) if len(walk.sums) * STEP >= _SUMS * size]
    enough = _NEAR * max(known, default=variances[0])
    at = next(i for i, one in enumerate(variances[:-1]) if one >= enough or i == len(variances) - 2)
    some = longer(walk.sums, lengths[at])
    thetas = np.concatenate((-_THETAS, _THETAS)) / float(some.std())
    logs = np.array([log_mean_exp(theta * some) / lengths[at] for theta in thetas.tolist()])
    long_run = max(2.0 * variances[at + 1] - variances[at], 0.5 * variances[at])
    return Cuts(
        thetas, logs, variances[at] / long_run, walk.spread**2,
        settings.min_window_length, settings.clock,
    )  # fmt: skip
