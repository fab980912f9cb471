"""The correction of calibration by labels: how it changes between periods, and how it is applied.

With `label_at_horizon`, instances without a label by the horizon get that class. So labels that come earlier
are of the other classes only. If N predictions of class j will have the label k, about N·F labels have come
by now. For these classes, the correction is the excess of labels over their expected number. The class at the
horizon gets the opposite of the sum of these corrections.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Floats, Ints32, inner
from prequential.engine.delay.calibrating import (
    CONCEPT,
    DOUBT,
    EXPECTED,
    LABELLED,
    OFF,
    SCALE,
    SEEN,
    WAITING,
    WEIGHT,
    CalibrationScratch,
    ModelCounters,
    OpenPeriods,
    PeriodEstimates,
    weigh,
)
from prequential.engine.delay.expected import LEVEL, SLOTS
from prequential.engine.delay.following import PeriodPlaces

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
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, cells: Floats, i: int, j: int, coming: float,
    excess: float, calibrated: Floats,
) -> None:  # fmt: skip
    """Distribute the expected labels over classes: by the estimate's excess over the labels so far.

    If there is no excess, they are distributed by calibration. Then add the labels so far.
    """
    total, labels, bins = 0.0, model.labels, model.bins
    for k in range(labels):
        total += calibrated[k]
    for k in range(labels):
        if excess > 0.0:
            cells[i, j, k] *= coming / excess
        else:
            cells[i, j, k] = coming * calibrated[k] / total if total > 0.0 else 0.0
    for k in range(labels):
        for b in range(bins):
            cells[i, j, k] += whole[at.met + (j * bins + b) * labels + k]


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


@inner
def correct_events(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int, j: int,
) -> None:  # fmt: skip
    """For predictions of class j, put the correction, its variance and its number of predictions, by label.

    The labels so far are a binomial share F of all that will come. So the estimate of the total number has
    the variance n·m·(1 - F)/F.
    """
    labels, bins = model.labels, model.bins
    seen = off = doubt = 0.0
    for k in range(labels):
        n = share = expected = came = 0.0
        for slot in range(SLOTS):
            place = j * SLOTS + slot
            here = float(whole[at.slot_made + place]) - float(whole[at.slot_expired + place])
            n += here
            share += here * min(1.0, scratch.arrived[slot, j, k])
        for b in range(bins):
            here = result.coming[i, j, b]
            for y in range(labels):
                here += whole[at.met + (j * bins + b) * labels + y]
            expected += here * scratch.shares[j, b, k]
            came += whole[at.met + (j * bins + b) * labels + k]
        scratch.events[k, SEEN] = scratch.events[k, OFF] = scratch.events[k, DOUBT] = 0.0
        if model.closing and model.last < 0:  # right and wrong: they are distinguished at the end
            share = n
        elif model.predicted < labels:
            continue
        if k != model.last and share > 0.0:
            scratch.events[k, SEEN] = share
            scratch.events[k, OFF] = came * (n / share) - expected
            scratch.events[k, DOUBT] = expected * (n / share - 1.0)
            seen = max(seen, share)
            off += scratch.events[k, OFF]
            doubt += scratch.events[k, DOUBT]
    if model.last >= 0:
        scratch.events[model.last, SEEN] = seen
        scratch.events[model.last, OFF] = -off
        scratch.events[model.last, DOUBT] = doubt


@inner
def expect_sampled(
    model: ModelCounters, periods: OpenPeriods, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int,
) -> None:  # fmt: skip
    """Estimate one period with sampled labels; the estimate is for all of its predictions.

    A label stands for 1/π predictions and, relative to the others of its class, for 1/F of those of its age.
    The estimate of a final period uses only its own labels, and its scale is the standard error.
    """
    faded, predicted, labels = model.faded, model.predicted, model.labels
    about, cells = result.about, result.cells
    labelled = _count_sampled(model, periods.counts, at, scratch, result, i)
    n = about[i, EXPECTED]
    if n <= 0.0:
        return
    weight = variance = gap = by_chance = 0.0
    for j in range(predicted):
        of_class, coming, total = _sum_sampled_class(model, periods, at, scratch, result, i, j)
        each = of_class / total if total > 0.0 else 0.0
        excess = 0.0
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated, delta, doubt, chance, labelled_here = _compare_sampled(
                model, periods, at, scratch, result, i, j, k, each
            )
            doubt *= coming / of_class if of_class > 0.0 else 0.0
            known = labelled >= FEW and total > 0.0
            if not known:
                delta, doubt = 0.0, 1.0
            elif k == (j if predicted == labels else labels - 1):
                gap += delta
                by_chance += doubt + chance
            if model.closing:
                if known:
                    learn(faded, level, delta, doubt, chance, True)
                    variance += doubt / labels
                value = calibrated + delta
            else:
                noise = faded[level + NOISE]
                mean, believed, off = believe(scratch, j, k, noise, delta, doubt, chance, known)
                value = calibrated + mean + believed * off
                weight += believed * of_class / (n * labels)
                variance += believed * doubt / labels
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
        spread_over(model, periods.counts, at, cells, i, j, coming, excess, scratch.row)
    about[i, WEIGHT], about[i, SCALE] = weight, math.sqrt(variance + LEAST_VARIANCE)
    about[i, CONCEPT] = gap / math.sqrt(by_chance) if by_chance > 0.0 else math.nan


@inner
def _sum_sampled_class(
    model: ModelCounters, periods: OpenPeriods, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int, j: int,
) -> tuple[float, float, float]:  # fmt: skip
    """The predictions of class j, those without a label, and the sum of the weights of the labels."""
    coming = has = total = 0.0
    for b in range(model.bins):
        coming += result.coming[i, j, b]
        for k in range(model.labels):
            place = (j * model.bins + b) * model.labels + k
            has += periods.counts[at.met + place]
            total += periods.weights[at.weights + place] * scratch.weights[j, k, 0]
    return coming + has, coming, total


@inner
def _compare_sampled(
    model: ModelCounters, periods: OpenPeriods, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int, j: int, k: int, each: float,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """As `_compare` in `expecting`, with `each` prediction's part of the class for a weight of 1."""
    labels, n = model.labels, result.about[i, EXPECTED]
    calibrated = delta = doubt = chance = labelled = 0.0
    for b in range(model.bins):
        m, here = scratch.shares[j, b, k], result.coming[i, j, b]
        cell = (j * model.bins + b) * labels
        for y in range(labels):
            here += periods.counts[at.met + cell + y]
            off = (1.0 if y == k else 0.0) - m
            delta += periods.weights[at.weights + cell + y] * scratch.weights[j, y, 0] * each * off
            squares = periods.weights[at.squares + cell + y]
            # Not off²: it would make periods with fewer errors than usual seem more certain.
            doubt += squares * scratch.weights[j, y, 1] * each * each * m * (1.0 - m)
        labelled += periods.counts[at.met + cell + k]
        calibrated += here * m
        chance += here * m * (1.0 - m)
    return calibrated / n, delta / n, doubt / (n * n), chance / (n * n), labelled


@inner
def _count_sampled(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int,
) -> float:  # fmt: skip
    """As `_count` in `expecting`, but for all predictions, as if a label was requested for each."""
    labels, bins = model.labels, model.bins
    labelled = without = 0.0
    for j in range(model.predicted):
        for k in range(labels):
            labelled += weigh(whole, at.slot_met, labels, j, k, True, scratch)
        for b in range(bins):
            come = float(whole[at.made + j * bins + b])
            for k in range(labels):
                come -= whole[at.met + (j * bins + b) * labels + k]
            result.coming[i, j, b] = max(0.0, come)
            without += result.coming[i, j, b]
    result.about[i, LABELLED], result.about[i, WAITING] = labelled, without
    result.about[i, EXPECTED] = labelled + without
    return labelled
