"""What a period's confusion matrix will be when its labels are there (`docs/semantics.md`, expected values).

Calibration says it by what labels such predictions had (CBPE is this term alone), the labels that have come
correct it, each weighted with the inverse share of its like that has come by its age (nowcasting: Lawless
1994). Where labels are sampled with known propensities they count by the inverse of these, too, and what is
expected is of all predictions: the difference estimator of survey sampling (Särndal, Swensson and Wretman
1992, 6.3), whose mean over a stream is that of prediction-powered inference (Angelopoulos et al. 2023).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.core.delay.expected import (
    BUCKETS,
    EDGES,
    LEVEL,
    SLOTS,
    Expected,
    shape_of,
)
from prequential.core.delay.following import bucket_of

#: Ages within a slot at which shares of labels are looked at.
_AGES = 4

#: The least share of labels that one is weighted with the inverse of.
_LEAST_SHARE = 0.02

#: With fewer labels there is no correction.
FEW = 5.0

#: A correction that is off by so many deviations, squared, has moved: the level is believed less at once.
_SURPRISE = 9.0

#: How fast the level's noise is learned from finals, and the least of it.
_LEARNING, _LEAST_NOISE = 0.05, 1e-7

#: Variance that is left where nothing waits.
_LEAST_VARIANCE = 1e-7

#: Columns of what is said of a period beside its matrix.
LABELLED, EXPECTED, WAITING, WEIGHT, SCALE = range(5)
_COLUMNS = 5

#: Columns of a level.
_MEAN, _VARIANCE, _NOISE, _LAST = range(LEVEL)


class Look(NamedTuple):
    """What is expected of periods (n of them, in order of time)."""

    cells: Floats  # (n, J, K): predictions of class j that have, or will have, the label k
    about: Floats  # (n, 5): labelled, those that have or will have a label, waiting, weight, scale
    coming: Floats  # (n, J, B): those of a stratum that wait and will have a label


class _Model(NamedTuple):
    """What is known of the model: its counters and the sizes by which they are found; times in ms."""

    faded: Floats  # counters of all models, of which its own begin …
    at: int  # … here
    levels: int  # where its levels begin
    squares: int  # where squares of weights begin; 0: labels aren't sampled
    predicted: int  # J
    labels: int  # K
    bins: int  # B
    width: int  # of a period
    horizon: int  # of labels
    clock: int
    closing: bool  # whether periods are final, and the levels learn from them


class _Periods(NamedTuple):
    """The periods that are looked at."""

    counts: Ints32  # of all periods, of which those of one begin …
    weights: Any  # … the same as floats of four bytes
    block: Ints  # … here, by period
    number: Ints  # ts // width, by period


class _Scratch(NamedTuple):
    """Room for what is computed on the way."""

    shares: Floats  # (J, B, K): of labels
    lost: Floats  # (J, B): of predictions that will never get one
    arrived: Floats  # (SLOTS, J, K): of labels that have come by a slot's age
    mean: Floats  # (J, K): levels, as they move from period to period
    variance: Floats
    #: (J, K, 2): means of 1/F and of (1 - F)/F² of the labels that have come; where they are sampled of 1/F².
    weights: Floats
    row: Floats  # (K,)
    sums: Floats  # (J, K, BUCKETS + 1): of labels by delay
    all_sums: Floats  # (BUCKETS + 1,)


def look(expected: Expected, model: int, rows: Ints32, clock: int, *, closing: bool = False) -> Look:
    """What is expected of these periods of a model (rows, in order of time).

    With `closing` they are final, and the level of the correction learns from them.
    """
    j, k, b, losses, sampled = shape_of(expected.models, model)
    n = len(rows)
    result = Look(np.zeros((n, j, k)), np.zeros((n, _COLUMNS)), np.zeros((n, j, b)))
    scratch = _Scratch(
        np.zeros((j, b, k)), np.zeros((j, b)), np.zeros((SLOTS, j, k)), np.zeros((j, k)), np.zeros((j, k)),
        np.zeros((j, k, 2)), np.zeros(k), np.zeros((j, k, BUCKETS + 1)), np.zeros(BUCKETS + 1),
    )  # fmt: skip
    models, at = expected.models, int(expected.models.block[model])
    levels = at + j * b * (k + 1) + j * k * BUCKETS
    about = _Model(
        expected.of_models.counts, at, levels, levels + j * k * LEVEL if sampled else 0, j, k, b,
        int(models.width[model]), int(models.horizon[model]), clock, closing,
    )  # fmt: skip
    counts = expected.of_periods.counts
    periods = _Periods(
        counts, counts.view(np.float32), expected.periods.block[rows], expected.pool.key[rows]
    )
    _look(about, periods, EDGES, scratch, result)
    return result


@kernel
def _look(
    model: _Model, periods: _Periods, edges: Floats, scratch: _Scratch, result: Look
) -> None:
    faded, predicted, labels, width = model.faded, model.predicted, model.labels, model.width
    _calibrate(faded, model.at, model.squares, predicted, labels, model.bins, scratch)
    _add_up(faded, model.at + predicted * model.bins * (labels + 1), predicted, labels, scratch)
    for j in range(predicted):
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            scratch.mean[j, k], scratch.variance[j, k] = faded[level + _MEAN], faded[level + _VARIANCE]
    for i in range(len(periods.block)):
        start = periods.number[i] * width
        for slot in range(SLOTS):
            newest = max(0.0, float(model.clock - start - width * (slot + 1) // SLOTS))
            oldest = max(0.0, float(model.clock - start - width * slot // SLOTS))
            _share_arrived(predicted, labels, newest, oldest, model.horizon, edges, scratch, slot)
        if model.squares:
            _expect_sampled(model, periods, periods.block[i], scratch, result, i)
        else:
            _expect(model, periods.counts, periods.block[i], scratch, result, i)


@inner
def _calibrate(
    faded: Floats, at: int, squares: int, predicted: int, labels: int, bins: int, scratch: _Scratch
) -> None:
    """Shares of labels, and of predictions without one, by stratum, with one more like its class.

    Sampled labels count as many as their weights are worth: (Σw)²/Σw² (Kish 1965).
    """
    expired = at + predicted * bins * labels
    for j in range(predicted):
        total = without = 0.0
        for k in range(labels):
            scratch.row[k] = 0.0
        for b in range(bins):
            without += faded[expired + j * bins + b]
            for k in range(labels):
                scratch.row[k] += faded[at + (j * bins + b) * labels + k]
        for k in range(labels):
            total += scratch.row[k]
        lost = without / (without + total + 1.0)
        worth = 1.0
        if squares:
            squared = 0.0
            for b in range(bins):
                squared += faded[squares + j * bins + b]
            worth = total / squared if squared > 0.0 else 0.0
        for b in range(bins):
            place = at + (j * bins + b) * labels
            n = 0.0
            for k in range(labels):
                n += faded[place + k]
            worth_here = 1.0
            if squares:
                squared = faded[squares + j * bins + b]
                worth_here = n / squared if squared > 0.0 else 0.0
            for k in range(labels):
                of_class = (scratch.row[k] * worth + 1.0 / labels) / (total * worth + 1.0)
                scratch.shares[j, b, k] = (faded[place + k] * worth_here + of_class) / (n * worth_here + 1.0)
            gone = faded[expired + j * bins + b]
            scratch.lost[j, b] = (gone + lost) / (gone + n + 1.0)


@inner
def _add_up(faded: Floats, delays: int, predicted: int, labels: int, scratch: _Scratch) -> None:
    """Labels by delay, from the shortest on: of each (j, k), and of all."""
    for a in range(BUCKETS + 1):
        scratch.all_sums[a] = 0.0
    for j in range(predicted):
        for k in range(labels):
            total = 0.0
            for a in range(BUCKETS):
                total += faded[delays + (j * labels + k) * BUCKETS + a]
                scratch.sums[j, k, a + 1] = total
                scratch.all_sums[a + 1] += total


@inner
def _share_arrived(
    predicted: int, labels: int, newest: float, oldest: float, horizon: int, edges: Floats,
    scratch: _Scratch, slot: int,
) -> None:  # fmt: skip
    """F: of the labels of (j, k) the share that has come by the ages of a slot."""
    for j in range(predicted):
        for k in range(labels):
            scratch.arrived[slot, j, k] = 0.0
    for part in range(_AGES):
        age = (newest + (oldest - newest) * (part + 0.5) / _AGES) / horizon
        if age >= 1.0:
            for j in range(predicted):
                for k in range(labels):
                    scratch.arrived[slot, j, k] += 1.0 / _AGES
            continue
        a = bucket_of(edges, age)
        within = (age - edges[a]) / (edges[a + 1] - edges[a])
        arrived = scratch.all_sums[a] + within * (scratch.all_sums[a + 1] - scratch.all_sums[a])
        of_all = (arrived + age) / (scratch.all_sums[BUCKETS] + 1.0)
        for j in range(predicted):
            for k in range(labels):
                sums = scratch.sums[j, k]
                arrived = sums[a] + within * (sums[a + 1] - sums[a])
                scratch.arrived[slot, j, k] += (arrived + of_all) / (sums[BUCKETS] + 1.0) / _AGES


@inner
def _expect(
    model: _Model, whole: Ints32, block: int, scratch: _Scratch, result: Look, i: int
) -> None:
    """One period, whose counts begin at `block` of those of all periods."""
    faded, predicted, labels, bins = model.faded, model.predicted, model.labels, model.bins
    about, cells = result.about, result.cells
    labelled = _count(whole, block, predicted, labels, bins, scratch, result, i)
    met = block + predicted * bins
    n = about[i, EXPECTED]
    if n <= 0.0:
        return
    waiting = about[i, WAITING]
    weight = variance = 0.0
    for j in range(predicted):
        of_class = coming = excess = 0.0
        for b in range(bins):
            coming += result.coming[i, j, b]
            of_class += result.coming[i, j, b]
            for k in range(labels):
                of_class += whole[met + (j * bins + b) * labels + k]
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated = delta = doubt = chance = labelled_here = 0.0
            for b in range(bins):
                m, here = scratch.shares[j, b, k], result.coming[i, j, b]
                for y in range(labels):
                    count = float(whole[met + (j * bins + b) * labels + y])
                    here += count
                    off = (1.0 if y == k else 0.0) - m
                    delta += count * scratch.weights[j, y, 0] * off
                    doubt += count * scratch.weights[j, y, 1] * off * off
                labelled_here += whole[met + (j * bins + b) * labels + k]
                calibrated += here * m
                chance += here * m * (1.0 - m)
            calibrated, delta = calibrated / n, delta / n
            doubt, chance = doubt / (n * n), chance / (n * n)
            if waiting <= 0.0:
                doubt = 0.0
            elif labelled < FEW:
                delta, doubt = 0.0, 1.0
            else:
                doubt += chance / labelled
            if model.closing:
                if labelled >= FEW:
                    _learn(faded, level, delta, doubt, chance, False)
                continue
            mean, spread = scratch.mean[j, k], scratch.variance[j, k] + faded[level + _NOISE]
            off = delta - mean
            surprised = off * off > _SURPRISE * (spread + doubt + chance)
            wide = spread + off * off if surprised else spread
            believed = (wide + chance) / (wide + chance + doubt)
            value = calibrated + mean + believed * off
            weight += believed * of_class / (n * labels)
            variance += believed * doubt / labels
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
            if surprised:
                spread += off * off - (spread + doubt + chance)
            gain = spread / (spread + doubt + chance)
            scratch.mean[j, k] = mean + gain * off
            scratch.variance[j, k] = spread * (1.0 - gain)
        if not model.closing:
            _spread(cells, i, j, labels, coming, excess, scratch.row)
            for k in range(labels):
                for b in range(bins):
                    cells[i, j, k] += whole[met + (j * bins + b) * labels + k]
    about[i, WEIGHT], about[i, SCALE] = weight, math.sqrt(variance + _LEAST_VARIANCE)


@inner
def _expect_sampled(
    model: _Model, periods: _Periods, block: int, scratch: _Scratch, result: Look, i: int
) -> None:
    """One period whose labels are a sample: what is expected is of all of its predictions.

    A label stands for 1/π, and for 1/F of those as old, relative to the others of its class. Of a final
    period the estimate is that of its own labels alone, and the scale is how far it may be off by chance.
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
    weight = variance = 0.0
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
            calibrated = delta = doubt = least = chance = labelled_here = 0.0
            for b in range(bins):
                m, here = scratch.shares[j, b, k], result.coming[i, j, b]
                for y in range(labels):
                    place = (j * bins + b) * labels + y
                    here += whole[met + place]
                    off = (1.0 if y == k else 0.0) - m
                    delta += periods.weights[weighted + place] * scratch.weights[j, y, 0] * each * off
                    squares = periods.weights[weighted + predicted * bins * labels + place]
                    squared = squares * scratch.weights[j, y, 1] * each * each
                    doubt += squared * off * off
                    least += squared * m * (1.0 - m)
                labelled_here += whole[met + (j * bins + b) * labels + k]
                calibrated += here * m
                chance += here * m * (1.0 - m)
            calibrated, delta, chance = calibrated / n, delta / n, chance / (n * n)
            # Few labels that are all right don't say that there is no doubt.
            doubt = max(doubt, least) / (n * n) * (coming / of_class if of_class > 0.0 else 0.0)
            known = labelled >= FEW and total > 0.0
            if not known:
                delta, doubt = 0.0, 1.0
            if model.closing:
                if known:
                    _learn(faded, level, delta, doubt, chance, True)
                    variance += doubt / labels
                value = calibrated + delta
            else:
                mean, spread = scratch.mean[j, k], scratch.variance[j, k] + faded[level + _NOISE]
                off = delta - mean
                surprised = known and off * off > _SURPRISE * (spread + doubt + chance)
                wide = spread + off * off if surprised else spread
                believed = (wide + chance) / (wide + chance + doubt)
                value = calibrated + mean + believed * off
                weight += believed * of_class / (n * labels)
                variance += believed * doubt / labels
                if surprised:
                    spread += off * off - (spread + doubt + chance)
                gain = spread / (spread + doubt + chance)
                scratch.mean[j, k] = mean + gain * off
                scratch.variance[j, k] = spread * (1.0 - gain)
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
        _spread(cells, i, j, labels, coming, excess, scratch.row)
        for k in range(labels):
            for b in range(bins):
                cells[i, j, k] += whole[met + (j * bins + b) * labels + k]
    about[i, WEIGHT], about[i, SCALE] = weight, math.sqrt(variance + _LEAST_VARIANCE)


@inner
def _count_sampled(
    whole: Ints32, block: int, predicted: int, labels: int, bins: int, scratch: _Scratch, result: Look, i: int
) -> float:
    """As `_count`: all predictions are expected to have a label as they would if everyone was asked for."""
    met, slots_met = block + predicted * bins, block + predicted * bins * (labels + 2) + predicted * SLOTS
    labelled = without = 0.0
    for j in range(predicted):
        for k in range(labels):
            count = inverse = squared = 0.0
            for slot in range(SLOTS):
                arrived = float(whole[slots_met + (j * SLOTS + slot) * labels + k])
                share = min(1.0, max(_LEAST_SHARE, scratch.arrived[slot, j, k]))
                count += arrived
                inverse += arrived / share
                squared += arrived / (share * share)
            scratch.weights[j, k, 0] = inverse / count if count > 0.0 else 0.0
            scratch.weights[j, k, 1] = squared / count if count > 0.0 else 0.0
            labelled += count
        for b in range(bins):
            come = float(whole[block + j * bins + b])
            for k in range(labels):
                come -= whole[met + (j * bins + b) * labels + k]
            result.coming[i, j, b] = max(0.0, come)
            without += result.coming[i, j, b]
    result.about[i, LABELLED], result.about[i, WAITING] = labelled, without
    result.about[i, EXPECTED] = labelled + without
    return labelled


@inner
def _count(
    whole: Ints32, block: int, predicted: int, labels: int, bins: int, scratch: _Scratch, result: Look, i: int
) -> float:
    """What has come and what will come of a period, and weights of what has come; returns the former."""
    met, gone = block + predicted * bins, block + predicted * bins * (labels + 1)
    by_slot = block + predicted * bins * (labels + 2)
    slots_met, slots_gone = by_slot + predicted * SLOTS, by_slot + predicted * SLOTS * (labels + 1)
    labelled = waiting = expected = 0.0
    for j in range(predicted):
        for k in range(labels):
            count = inverse = doubt = 0.0
            for slot in range(SLOTS):
                arrived = float(whole[slots_met + (j * SLOTS + slot) * labels + k])
                share = min(1.0, max(_LEAST_SHARE, scratch.arrived[slot, j, k]))
                count += arrived
                inverse += arrived / share
                doubt += arrived * (1.0 - share) / (share * share)
            scratch.weights[j, k, 0] = inverse / count if count > 0.0 else 0.0
            scratch.weights[j, k, 1] = doubt / count if count > 0.0 else 0.0
            labelled += count
        of_class = 0.0
        for slot in range(SLOTS):
            of_class += _waiting(whole, by_slot, slots_met, slots_gone, j * SLOTS + slot, labels)
        for b in range(bins):
            stratum = j * bins + b
            wait = _waiting(whole, block, met, gone, stratum, labels)
            come = 0.0
            if wait > 0.0 and of_class > 0.0:
                for slot in range(SLOTS):
                    there = _waiting(whole, by_slot, slots_met, slots_gone, j * SLOTS + slot, labels)
                    later = 0.0
                    for k in range(labels):
                        later += scratch.shares[j, b, k] * (1.0 - scratch.arrived[slot, j, k])
                    later *= 1.0 - scratch.lost[j, b]
                    if later > 0.0:
                        come += there / of_class * (later / (later + scratch.lost[j, b]))
                waiting += wait
            result.coming[i, j, b] = wait * come
            expected += wait * come
    result.about[i, LABELLED], result.about[i, WAITING] = labelled, waiting
    result.about[i, EXPECTED] = labelled + expected
    return labelled


@inner
def _waiting(whole: Ints32, made: int, met: int, gone: int, place: int, labels: int) -> float:
    """Predictions of a stratum or slot that wait."""
    count = np.int64(whole[made + place]) - np.int64(whole[gone + place])
    for k in range(labels):
        count -= np.int64(whole[met + place * labels + k])
    return float(max(0, count))


@inner
def _spread(
    cells: Floats, i: int, j: int, labels: int, coming: float, excess: float, calibrated: Floats
) -> None:
    """What will come goes to labels as the estimate goes beyond what has come, else by calibration."""
    total = 0.0
    for k in range(labels):
        total += calibrated[k]
    for k in range(labels):
        if excess > 0.0:
            cells[i, j, k] *= coming / excess
        else:
            cells[i, j, k] = coming * calibrated[k] / total if total > 0.0 else 0.0


@inner
def _learn(
    faded: Floats, level: int, delta: float, doubt: float, chance: float, sampled: bool
) -> None:
    """A final period's correction moves the level, and says how much such corrections move.

    That of a sample moves by its own doubt, too.
    """
    off, spread = delta - faded[level + _MEAN], faded[level + _VARIANCE] + faded[level + _NOISE]
    if off * off > _SURPRISE * (spread + doubt + chance):
        spread += off * off - (spread + doubt + chance)
    gain = spread / (spread + doubt + chance)
    faded[level + _MEAN] += gain * off
    faded[level + _VARIANCE] = spread * (1.0 - gain)
    last = faded[level + _LAST]
    if last == last:
        moved = (delta - last) * (delta - last) / 2.0 - chance
        if sampled:
            noise = (1.0 - _LEARNING) * faded[level + _NOISE] + _LEARNING * (moved - doubt)
            faded[level + _NOISE] = max(noise, _LEAST_NOISE)
        else:
            moved = max(moved, _LEAST_NOISE)
            faded[level + _NOISE] = (1.0 - _LEARNING) * faded[level + _NOISE] + _LEARNING * moved
    faded[level + _LAST] = delta
