"""The correction of calibration by labels: how it changes between periods, and how it is applied."""

from __future__ import annotations

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.delay.calibrating import CalibrationScratch
from prequential.engine.delay.expected import LEVEL

#: With fewer labels there is no correction.
FEW = 5.0

#: A correction that is off by more than this many squared deviations has moved: the level counts less at
#: once.
_SURPRISE = 9.0

#: How fast the level's noise is learned from final periods, and the smallest noise.
_LEARNING, _LEAST_NOISE = 0.05, 1e-7

#: With sampled labels, the noise is at least this share of a final correction's doubt, so that a period has a
#: weight of at least 0.2 (0.2²/0.8). Only moves beyond `_DOUBTED` times the doubt count as noise.
_LEAST_OF_DOUBT, _DOUBTED = 0.05, 1.25

#: Variance that is left when no prediction is pending.
LEAST_VARIANCE = 1e-7

#: Columns of a level.
MEAN, VARIANCE, NOISE, LAST = range(LEVEL)


@inner
def spread_over(
    cells: Floats, i: int, j: int, labels: int, coming: float, excess: float, calibrated: Floats
) -> None:
    """Distribute the expected labels over classes: by the estimate's excess over the labels so far.

    If there is no excess, they are distributed by calibration.
    """
    total = 0.0
    for k in range(labels):
        total += calibrated[k]
    for k in range(labels):
        if excess > 0.0:
            cells[i, j, k] *= coming / excess
        else:
            cells[i, j, k] = coming * calibrated[k] / total if total > 0.0 else 0.0


@inner
def believe(
    scratch: CalibrationScratch,
    j: int,
    k: int,
    noise: float,
    delta: float,
    doubt: float,
    chance: float,
    known: bool,
) -> tuple[float, float, float]:
    """Move the level by a period's correction; `known`: whether there are enough labels.

    Returns the level before, the share of the correction's deviation from it that counts, and the deviation.
    """
    mean, spread = scratch.mean[j, k], scratch.variance[j, k] + noise
    off = delta - mean
    surprised = known and off * off > _SURPRISE * (spread + doubt + chance)
    wide = spread + off * off if surprised else spread
    believed = (wide + chance) / (wide + chance + doubt)
    if surprised:
        spread += off * off - (spread + doubt + chance)
    gain = spread / (spread + doubt + chance)
    scratch.mean[j, k] = mean + gain * off
    scratch.variance[j, k] = spread * (1.0 - gain)
    return mean, believed, off


@inner
def learn(
    faded: Floats, level: int, delta: float, doubt: float, chance: float, sampled: bool
) -> None:
    """Move the level by a final period's correction, and learn how much corrections move between periods.

    With sampled labels, a correction also moves by its own doubt.
    """
    off, spread = delta - faded[level + MEAN], faded[level + VARIANCE] + faded[level + NOISE]
    if off * off > _SURPRISE * (spread + doubt + chance):
        spread += off * off - (spread + doubt + chance)
    gain = spread / (spread + doubt + chance)
    faded[level + MEAN] += gain * off
    faded[level + VARIANCE] = spread * (1.0 - gain)
    last = faded[level + LAST]
    if last == last:
        moved = (delta - last) * (delta - last) / 2.0 - chance
        if sampled:
            noise = (1.0 - _LEARNING) * faded[level + NOISE] + _LEARNING * (moved - _DOUBTED * doubt)
            faded[level + NOISE] = max(noise, _LEAST_OF_DOUBT * doubt + _LEAST_NOISE)
        else:
            moved = max(moved, _LEAST_NOISE)
            faded[level + NOISE] = (1.0 - _LEARNING) * faded[level + NOISE] + _LEARNING * moved
    faded[level + LAST] = delta
