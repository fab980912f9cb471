"""How a model's calibration is corrected: a level that moves from period to period, and its moves.

In a period, the odds of label k against the right label are e^d times those by calibration, for predictions
of class j. d is a *level*, which all periods share, and a deviation of the period itself. The level is a
random walk over periods. Both variances follow from final periods: of their differences from the previous
period, and from the one before that, only the walk's part grows with the distance.

A local level model, filtered as by Kalman (Harvey 1989, Forecasting, Structural Time Series Models, 4.1).
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Floats, inner

#: Columns of a level. Its mean and variance; the variances of a period's step and of a period's own
#: deviation; d of the last two final periods and their variances by chance; weighted sums of squared
#: differences from the previous period and from the one before that, each with its sum of weights.
(
    MEAN, VARIANCE, DRIFT, SPREAD, LAST, LAST_CHANCE, BEFORE, BEFORE_CHANCE, NEAR, NEAR_WEIGHT, FAR,
    FAR_WEIGHT,
) = range(12)  # fmt: skip

#: The variance of a first level (odds change by a quarter), and of steps and deviations before final periods
#: show them.
_VARIANCE, _DRIFT, _SPREAD = 0.05, 0.0005, 0.00175

#: The variance of a difference between two periods, before final periods show it.
_APART = _DRIFT + 2.0 * _SPREAD

#: How far that may be off, as a standard deviation: streams differ by far more than a tenfold in it.
_DOUBT = 0.02

#: The initial values of a level.
FIRST_LEVEL = (0.0, _VARIANCE, _DRIFT, _SPREAD, math.nan, 0.0, math.nan, 0.0, 0.0, 0.0, 0.0, 0.0)

#: … of a model with sampled labels: its correction is a share of predictions, see `engine.delay.sampled`.
FIRST_LEVEL_OF_SAMPLES = (0.0, 1e-4, 1e-5, 0.0, math.nan, 0.0, math.nan, 0.0, 0.0, 0.0, 0.0, 0.0)

#: How fast earlier differences fade, by final period.
_FORGETTING = 0.05

#: Steps have at least this share of a difference's variance: no level stands still.
_LEAST_DRIFT = 0.02

#: The smallest variance of a difference.
_LEAST_APART = 1e-6

#: With less information a final period says nothing of d; and the largest deviation that it can show.
LEAST_INFORMATION, _FARTHEST = 0.5, 3.0


@inner
def learn(faded: Floats, level: int, mean: float, off: float, spread: float, information: float) -> None:
    """Learn from a final period how much d differs between periods.

    `off` is the posterior mean's distance from the prior mean; `spread` the prior variance; `information`
    what the labels have of d alone.
    """
    alone = off * (information + 1.0 / spread) / information
    now, chance = mean + max(-_FARTHEST, min(_FARTHEST, alone)), 1.0 / information
    last, before = faded[level + LAST], faded[level + BEFORE]
    if last == last:
        _add_difference(faded, level + NEAR, now - last, chance + faded[level + LAST_CHANCE])
        if before == before:
            _add_difference(faded, level + FAR, now - before, chance + faded[level + BEFORE_CHANCE])
        near = _moment(faded, level + NEAR, _APART)
        far = _moment(faded, level + FAR, _APART + _DRIFT)
        near = max(_LEAST_APART, near)
        drift = max(_LEAST_DRIFT * near, min(near, far - near))
        faded[level + DRIFT], faded[level + SPREAD] = drift, (near - drift) / 2.0
    faded[level + BEFORE], faded[level + BEFORE_CHANCE] = last, faded[level + LAST_CHANCE]
    faded[level + LAST], faded[level + LAST_CHANCE] = now, chance


@inner
def _moment(faded: Floats, cell: int, first: float) -> float:
    """The mean square of differences beyond chance; without any, the `first` one.

    That one counts less the more the others exceed it.
    """
    total, weight = faded[cell], faded[cell + 1]
    doubt = _DOUBT + (max(0.0, total / weight) if weight > 0.0 else 0.0)
    own = 2.0 / (doubt * doubt)  # a square of mean v has the variance 2·v²
    return (total + own * first) / (weight + own)


@inner
def _add_difference(faded: Floats, cell: int, difference: float, chance: float) -> None:
    """Add what is beyond chance of a squared difference, with the weight of its precision."""
    weight = 1.0 / ((chance + _APART) * (chance + _APART))
    faded[cell] = (1.0 - _FORGETTING) * faded[cell] + weight * (difference * difference - chance)
    faded[cell + 1] = (1.0 - _FORGETTING) * faded[cell + 1] + weight
