"""Estimates of periods with sampled labels (see `expecting`)."""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Ints32, inner
from prequential.engine.delay.calibrating import (
    CONCEPT,
    EXPECTED,
    LABELLED,
    SCALE,
    WAITING,
    WEIGHT,
    CalibrationScratch,
    ModelCounters,
    OpenPeriods,
    PeriodEstimates,
    weigh,
)
from prequential.engine.delay.correcting import (
    FEW,
    LEAST_VARIANCE,
    NOISE,
    believe,
    learn,
    spread_over,
)
from prequential.engine.delay.expected import LEVEL, SLOTS


@inner
def expect_sampled(
    model: ModelCounters,
    periods: OpenPeriods,
    block: int,
    scratch: CalibrationScratch,
    result: PeriodEstimates,
    i: int,
) -> None:
    """Estimate one period with sampled labels; the estimate is for all of its predictions.

    A label stands for 1/π predictions and, relative to the others of its class, for 1/F of those of its age.
    The estimate of a final period uses only its own labels, and its scale is the standard error.
    """
    faded, whole, predicted, labels, bins = (
        model.faded, periods.counts, model.predicted, model.labels, model.bins
    )  # fmt: skip
    about, cells = result.about, result.cells
    labelled = _count_sampled(whole, block, predicted, labels, bins, scratch, result, i)
    met, weighted = block + predicted * bins, block + predicted * (bins + SLOTS) * (labels + 2)
    n = about[i, EXPECTED]
    if n <= 0.0:
        return
    weight = variance = gap = by_chance = 0.0
    for j in range(predicted):
        of_class = coming = has = total = excess = 0.0
        for b in range(bins):
            coming += result.coming[i, j, b]
            for k in range(labels):
                place = (j * bins + b) * labels + k
                has += whole[met + place]
                total += periods.weights[weighted + place] * scratch.weights[j, k, 0]
        of_class = coming + has
        each = of_class / total if total > 0.0 else 0.0
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated = delta = doubt = chance = labelled_here = 0.0
            for b in range(bins):
                m, here = scratch.shares[j, b, k], result.coming[i, j, b]
                for y in range(labels):
                    place = (j * bins + b) * labels + y
                    here += whole[met + place]
                    off = (1.0 if y == k else 0.0) - m
                    delta += periods.weights[weighted + place] * scratch.weights[j, y, 0] * each * off
                    squares = periods.weights[weighted + predicted * bins * labels + place]
                    # Not off²: it would make periods with fewer errors than usual seem more certain.
                    doubt += squares * scratch.weights[j, y, 1] * each * each * m * (1.0 - m)
                labelled_here += whole[met + (j * bins + b) * labels + k]
                calibrated += here * m
                chance += here * m * (1.0 - m)
            calibrated, delta, chance = calibrated / n, delta / n, chance / (n * n)
            doubt = doubt / (n * n) * (coming / of_class if of_class > 0.0 else 0.0)
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
        spread_over(cells, i, j, labels, coming, excess, scratch.row)
        for k in range(labels):
            for b in range(bins):
                cells[i, j, k] += whole[met + (j * bins + b) * labels + k]
    about[i, WEIGHT], about[i, SCALE] = weight, math.sqrt(variance + LEAST_VARIANCE)
    about[i, CONCEPT] = gap / math.sqrt(by_chance) if by_chance > 0.0 else math.nan


@inner
def _count_sampled(
    whole: Ints32,
    block: int,
    predicted: int,
    labels: int,
    bins: int,
    scratch: CalibrationScratch,
    result: PeriodEstimates,
    i: int,
) -> float:
    """As `_count` in `expecting`, but for all predictions, as if a label was requested for each."""
    met, slots_met = block + predicted * bins, block + predicted * bins * (labels + 2) + predicted * SLOTS
    labelled = without = 0.0
    for j in range(predicted):
        for k in range(labels):
            labelled += weigh(whole, slots_met, labels, j, k, True, scratch)
        for b in range(bins):
            come = float(whole[block + j * bins + b])
            for k in range(labels):
                come -= whole[met + (j * bins + b) * labels + k]
            result.coming[i, j, b] = max(0.0, come)
            without += result.coming[i, j, b]
    result.about[i, LABELLED], result.about[i, WAITING] = labelled, without
    result.about[i, EXPECTED] = labelled + without
    return labelled
