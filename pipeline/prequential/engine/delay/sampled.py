"""Estimates of periods whose labels are sampled with known propensities π.

Calibration estimates the matrix from the labels of similar predictions. The period's own labels correct it,
each with the weight 1/(π·F), F the share of labels of its kind that have come by its age. This is the
difference estimator of survey sampling (Särndal, Swensson and Wretman 1992, 6.3). Its mean over a stream is
that of prediction-powered inference (Angelopoulos et al. 2023). The estimate is for all predictions. That of
a final period uses only its own labels, and its scale is the standard error.

The correction is a share of the period's predictions, by predicted class and label. A random walk over
periods limits it.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.delay import calibrating
from prequential.engine.delay.calibrating import PeriodLook
from prequential.engine.delay.expected import LEVEL, SLOTS
from prequential.engine.delay.levels import DRIFT, LAST, MEAN, VARIANCE

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

#: The smallest share whose inverse is the weight of a label.
_LEAST_SHARE = 0.02


@inner
def expect(look: PeriodLook) -> None:
    """Estimate one period."""
    model, scratch, i = look.model, look.scratch, look.i
    summary, cells = look.result.summary, look.result.cells
    predicted, labels = model.predicted, model.labels
    labelled = _count(look)
    n = summary[i, calibrating.EXPECTED]
    if n <= 0.0:
        return
    weight = variance = gap = by_chance = 0.0
    for j in range(predicted):
        of_class, coming, total = _sum_class(look, j)
        per_weight = of_class / total if total > 0.0 else 0.0
        excess = 0.0
        is_known = labelled >= FEW and total > 0.0
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated, delta, doubt, chance, labelled_here = _compare(look, j, k, per_weight)
            doubt *= coming / of_class if of_class > 0.0 else 0.0
            if not is_known:
                delta, doubt = 0.0, 1.0
            elif k == (j if predicted == labels else labels - 1):
                gap += delta
                by_chance += doubt + chance
            if model.closing:
                if is_known:
                    _learn(model.faded, level, delta, doubt, chance)
                variance += doubt / labels if is_known else 0.0
                value = calibrated + delta
            else:
                mean, believed, off = _believe(look, j, k, delta, doubt, chance, is_known)
                value = calibrated + mean + believed * off
                weight += believed * of_class / (n * labels)
                variance += believed * doubt / labels
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
        _spread_over(look, j, coming, excess)
    summary[i, calibrating.WEIGHT] = weight
    summary[i, calibrating.SCALE] = math.sqrt(variance + calibrating.LEAST_VARIANCE)
    summary[i, calibrating.CONCEPT] = gap / math.sqrt(by_chance) if by_chance > 0.0 else math.nan


@inner
def _count(look: PeriodLook) -> float:
    """Count labels so far, and predictions without one; returns the labels, whose weights go to scratch."""
    model, whole, places, result, i = look.model, look.whole, look.places, look.result, look.i
    labels, bins = model.labels, model.bins
    labelled = without = 0.0
    for j in range(model.predicted):
        for k in range(labels):
            labelled += _weigh(look, j, k)
        for b in range(bins):
            come = float(whole[places.made + j * bins + b])
            for k in range(labels):
                come -= whole[places.met + (j * bins + b) * labels + k]
            without += max(0.0, come)
            for k in range(labels):
                result.coming[i, j, b, k] = max(0.0, come) * look.scratch.shares[j, b, k]
    result.summary[i, calibrating.LABELLED], result.summary[i, calibrating.WAITING] = labelled, without
    result.summary[i, calibrating.EXPECTED] = labelled + without
    return labelled


@inner
def _weigh(look: PeriodLook, j: int, k: int) -> float:
    """Return how many labels k of predictions of class j have come; put their mean weights in scratch."""
    scratch = look.scratch
    count = inverse = doubt = 0.0
    for slot in range(SLOTS):
        arrived = float(look.whole[look.places.slot_met + (j * SLOTS + slot) * look.model.labels + k])
        share = min(1.0, max(_LEAST_SHARE, scratch.arrived[slot, j, k]))
        count += arrived
        inverse += arrived / share
        doubt += arrived / (share * share)
    scratch.weights[j, k, 0] = inverse / count if count > 0.0 else 0.0
    scratch.weights[j, k, 1] = doubt / count if count > 0.0 else 0.0
    return count


@inner
def _sum_class(look: PeriodLook, j: int) -> tuple[float, float, float]:
    """The predictions of class j, those without a label, and the labels' weights."""
    model, whole, places, scratch = look.model, look.whole, look.places, look.scratch
    without = has = total = 0.0
    for b in range(model.bins):
        without += _without(look, j, b)
        for k in range(model.labels):
            cell = (j * model.bins + b) * model.labels + k
            has += whole[places.met + cell]
            total += look.weights[places.weights + cell] * scratch.weights[j, k, 0]
    return without + has, without, total


@inner
def _without(look: PeriodLook, j: int, b: int) -> float:
    """Predictions of a stratum without a label."""
    stratum, labels = j * look.model.bins + b, look.model.labels
    count = float(look.whole[look.places.made + stratum])
    for k in range(labels):
        count -= look.whole[look.places.met + stratum * labels + k]
    return max(0.0, count)


@inner
def _compare(look: PeriodLook, j: int, k: int, per_weight: float) -> tuple[float, float, float, float, float]:
    """Compare the labels k of predictions of class j with calibration.

    A weight of 1 stands for `per_weight` of the class's predictions. Returns as shares of the period's
    predictions: the calibrated number of labels, how many more there are, the variances of that and of the
    number of labels itself. Then the number of labels so far.
    """
    model, whole, weights, scratch = look.model, look.whole, look.weights, look.scratch
    labels, n = model.labels, look.result.summary[look.i, calibrating.EXPECTED]
    calibrated = delta = doubt = chance = labelled = 0.0
    for b in range(model.bins):
        m, here = scratch.shares[j, b, k], _without(look, j, b)
        cell = (j * model.bins + b) * labels
        for y in range(labels):
            here += float(whole[look.places.met + cell + y])
            off = (1.0 if y == k else 0.0) - m
            delta += weights[look.places.weights + cell + y] * scratch.weights[j, y, 0] * per_weight * off
            squares = weights[look.places.squares + cell + y]
            # Not off²: it would make periods with fewer errors than usual seem more certain.
            doubt += squares * scratch.weights[j, y, 1] * per_weight * per_weight * m * (1.0 - m)
        labelled += whole[look.places.met + cell + k]
        calibrated += here * m
        chance += here * m * (1.0 - m)
    return calibrated / n, delta / n, doubt / (n * n), chance / (n * n), labelled


@inner
def _spread_over(look: PeriodLook, j: int, coming: float, excess: float) -> None:
    """Distribute the expected labels over classes: by the estimate's excess over the labels so far.

    If there is no excess, they are distributed by calibration. Then add the labels so far.
    """
    model, whole, places, i = look.model, look.whole, look.places, look.i
    cells, calibrated, total = look.result.cells, look.scratch.row, 0.0
    labels, bins = model.labels, model.bins
    for k in range(labels):
        total += calibrated[k]
    for k in range(labels):
        if excess > 0.0:
            cells[i, j, k] *= coming / excess
        else:
            cells[i, j, k] = coming * calibrated[k] / total if total > 0.0 else 0.0
    for k in range(labels):
        for b in range(bins):
            cells[i, j, k] += whole[places.met + (j * bins + b) * labels + k]


@inner
def _believe(
    look: PeriodLook, j: int, k: int, delta: float, doubt: float, chance: float, is_known: bool
) -> tuple[float, float, float]:
    """Move the level by a period's correction; `is_known`: whether there are enough labels.

    Returns the level before, the share of the correction's deviation from it that counts, and the deviation.
    """
    model, scratch = look.model, look.scratch
    noise = model.faded[model.levels + (j * model.labels + k) * LEVEL + DRIFT]
    mean, spread = scratch.mean[j, k], scratch.variance[j, k] + noise
    off = delta - mean
    surprised = is_known and off * off > _SURPRISE * (spread + doubt + chance)
    wide = spread + off * off if surprised else spread
    believed = (wide + chance) / (wide + chance + doubt)
    if surprised:
        spread += off * off - (spread + doubt + chance)
    gain = spread / (spread + doubt + chance)
    scratch.mean[j, k] = mean + gain * off
    scratch.variance[j, k] = spread * (1.0 - gain)
    return mean, believed, off


@inner
def _learn(faded: Floats, level: int, delta: float, doubt: float, chance: float) -> None:
    """Move the level by a final period's correction, and learn how much corrections move between periods.

    A correction also moves by its own doubt.
    """
    off, spread = delta - faded[level + MEAN], faded[level + VARIANCE] + faded[level + DRIFT]
    if off * off > _SURPRISE * (spread + doubt + chance):
        spread += off * off - (spread + doubt + chance)
    gain = spread / (spread + doubt + chance)
    faded[level + MEAN] += gain * off
    faded[level + VARIANCE] = spread * (1.0 - gain)
    last = faded[level + LAST]
    if last == last:
        moved = (delta - last) * (delta - last) / 2.0 - chance
        noise = (1.0 - _LEARNING) * faded[level + DRIFT] + _LEARNING * (moved - _DOUBTED * doubt)
        faded[level + DRIFT] = max(noise, _LEAST_OF_DOUBT * doubt + _LEAST_NOISE)
    faded[level + LAST] = delta
