"""The expected confusion matrix of a period once all labels are there.

Calibration estimates it from the labels of similar predictions (CBPE is this term alone). The labels that
have come correct the estimate. Each is weighted with the inverse of the share of labels of its kind that have
come by its age (nowcasting: Lawless 1994).

If labels are sampled with known propensities, the inverse propensity is a further factor of the weight, and
the estimate is for all predictions. This is the difference estimator of survey sampling (Särndal, Swensson
and Wretman 1992, 6.3). Its mean over a stream is that of prediction-powered inference (Angelopoulos et al.
2023). The estimate of a final period uses only its own labels, and its scale is the standard error.

With `label_at_horizon`, instances without a label by the horizon get that class. So labels that come earlier
are of the other classes only. If N predictions of class j will have the label k, about N·F labels have come
by now. For these classes, the correction is the excess of labels over their expected number. The class at the
horizon gets the opposite of the sum of these corrections.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.delay import calibrating, expected
from prequential.engine.delay.calibrating import ModelCounters, OpenPeriods, PeriodEstimates, PeriodLook
from prequential.engine.delay.expected import LEVEL, SLOTS, ExpectedModels, ExpectedTables
from prequential.engine.delay.following import places_of_model, places_of_period

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
_LEAST_VARIANCE = 1e-7

#: Columns of a level.
MEAN, VARIANCE, NOISE, LAST = range(LEVEL)


class _Together(NamedTuple):
    """Models with the same layout, for one loop: see `ModelCounters`."""

    at: Ints
    levels: Ints
    squares: Ints
    horizon: Ints
    clock: Ints
    closes: Bytes
    last: Ints
    ends: Ints  # after the last period of each


class Group(NamedTuple):
    """Estimates of the periods of models with the same layout."""

    places: Ints  # of the models among all requested models
    rows: Ints  # places of their periods among all requested periods …
    ends: Ints  # … and the cumulative number of them by model
    look: PeriodEstimates  # the estimates of these periods


def look_together(
    tables: ExpectedTables, whose: Ints, rows: Ints32, ends: Ints, clocks: Ints, *, closing: bool = False
) -> list[Group]:
    """Estimate periods of models: returns groups, and each of the models is in one of them.

    Parameters
    ----------
    tables
        The tables.
    whose, clocks
        (m,) rows of models, each of them once, and the clock of each one's stream, ms.
    rows, ends
        Rows of their periods, model by model and in order of time, and the cumulative number of rows by
        model.
    closing
        Whether these periods are final; then the levels of the correction learn from them.
    """
    models = tables.models
    alike = np.stack((models.layout[whose], models.bins[whose], models.sampled[whose]), axis=1)
    counts, of = np.diff(ends, prepend=0), np.zeros(len(whose), dtype=np.int64)
    kinds = np.unique(alike, axis=0)
    for number, kind in enumerate(kinds):
        of[(alike == kind).all(axis=1)] = number
    groups = []
    for number in range(len(kinds)):
        places, own = np.flatnonzero(of == number), np.flatnonzero(np.repeat(of, counts) == number)
        up_to = np.cumsum(counts[places])
        found = _look_at(tables, whose[places], rows[own], up_to, clocks[places], closing)
        groups.append(Group(places, own, up_to, found))
    return groups


def _look_at(
    tables: ExpectedTables, whose: Ints, rows: Ints32, ends: Ints, clocks: Ints, closing: bool
) -> PeriodEstimates:
    """Estimate the periods of models with the same layout."""
    models, n = tables.models, len(rows)
    j, k, b, _, sampled = expected.shape_of(models, int(whose[0]))
    result = PeriodEstimates(np.zeros((n, j, k)), np.zeros((n, calibrating.COLUMNS)), np.zeros((n, j, b)))
    blocks: Any = models.block[whose]
    at: Any = places_of_model(blocks, j, k, b)  # by model
    together = _Together(
        blocks, at.levels, at.beyond if sampled else np.zeros_like(blocks),
        models.horizon[whose], clocks, (models.at_horizon[whose] > 0).astype(np.uint8),
        _last(models, whose), ends,
    )  # fmt: skip
    counts = tables.of_periods.counts
    periods = OpenPeriods(
        counts, counts.view(np.float32), tables.periods.block[rows], tables.pool.key[rows],
        expected.ends_of_periods(tables, rows),
    )  # fmt: skip
    scratch = calibrating.new_scratch(j, k, b)
    _look(tables.of_models.counts, together, closing, periods, expected.EDGES, scratch, result)
    return result


def _last(models: ExpectedModels, whose: Ints) -> Ints:
    """The place of the class that is known at the horizon alone; -1: there is none, or it hasn't come yet."""
    known = np.arange(models.codes.shape[1]) < models.classes[whose, None]
    found = known & (models.codes[whose] == models.at_horizon[whose, None] - 1)
    return np.where(found.any(axis=1), found.argmax(axis=1), -1)


@kernel
def _look(
    faded: Floats, together: _Together, closing: bool, periods: OpenPeriods, edges: Floats,
    scratch: calibrating.CalibrationScratch, result: PeriodEstimates,
) -> None:  # fmt: skip
    _, predicted, labels = result.cells.shape
    bins, i = result.coming.shape[2], 0
    for m in range(len(together.ends)):
        if i == together.ends[m]:  # no period: it may have no counters yet
            continue
        model = ModelCounters(
            faded, together.at[m], together.levels[m], together.squares[m], predicted, labels, bins,
            together.horizon[m], together.clock[m], closing, together.closes[m] != 0,
            together.last[m],
        )  # fmt: skip
        calibrating.calibrate(model, scratch)
        calibrating.add_up(model, scratch)
        for j in range(predicted):
            for k in range(labels):
                level = model.levels + (j * labels + k) * LEVEL
                scratch.mean[j, k], scratch.variance[j, k] = faded[level + MEAN], faded[level + VARIANCE]
        while i < together.ends[m]:
            age, length = model.clock - periods.start[i], periods.end[i] - periods.start[i]
            for slot in range(SLOTS):
                newest = max(0.0, float(age - length * (slot + 1) // SLOTS))
                oldest = max(0.0, float(age - length * slot // SLOTS))
                calibrating.share_arrived(model, newest, oldest, edges, scratch, slot)
            at = places_of_period(periods.block[i], predicted, labels, bins)
            one = PeriodLook(model, periods.counts, periods.weights, at, scratch, result, i)
            _expect(one)
            calibrating.deviate(one)
            i += 1


@inner
def _expect(one: PeriodLook) -> None:
    """Estimate one period."""
    model, _, _, _, scratch, result, i = one
    predicted, labels, sampled = model.predicted, model.labels, model.squares != 0
    about, cells = result.about, result.cells
    labelled = _count_sampled(one) if sampled else _count(one)
    n = about[i, calibrating.EXPECTED]
    if n <= 0.0:
        return
    weight = variance = gap = by_chance = 0.0
    for j in range(predicted):
        of_class, coming, total = _sum_class(one, j)
        each = of_class / total if total > 0.0 else 0.0
        if model.closes and not sampled:
            _correct_events(one, j)
        excess = 0.0
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated, delta, doubt, chance, labelled_here = _compare(one, j, k, each)
            if sampled:
                doubt *= coming / of_class if of_class > 0.0 else 0.0
                known = labelled >= FEW and total > 0.0
                if not known:
                    delta, doubt = 0.0, 1.0
            else:
                known, delta, doubt = _doubt_events(one, k, labelled, delta, doubt, chance)
            if known and k == (j if predicted == labels else labels - 1):
                gap += delta
                by_chance += doubt + chance
            if model.closing:
                if known:
                    _learn(model.faded, level, delta, doubt, chance, sampled)
                if not sampled:
                    continue
                variance += doubt / labels if known else 0.0
                value = calibrated + delta
            else:
                mean, believed, off = _believe(one, j, k, delta, doubt, chance, known or not sampled)
                value = calibrated + mean + believed * off
                weight += believed * of_class / (n * labels)
                variance += believed * doubt / labels
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
        if sampled or not model.closing:
            _spread_over(one, j, coming, excess)
    about[i, calibrating.WEIGHT], about[i, calibrating.SCALE] = weight, math.sqrt(variance + _LEAST_VARIANCE)
    about[i, calibrating.CONCEPT] = gap / math.sqrt(by_chance) if by_chance > 0.0 else math.nan


@inner
def _doubt_events(
    one: PeriodLook, k: int, labelled: float, delta: float, doubt: float, chance: float
) -> tuple[bool, float, float]:
    """Whether there are enough labels k for a correction, the correction, and its variance."""
    model, about, events = one.model, one.result.about, one.scratch.events
    n, seen = about[one.i, calibrating.EXPECTED], labelled
    if model.closes:
        seen = events[k, calibrating.SEEN]
        delta, doubt = events[k, calibrating.OFF] / n, events[k, calibrating.DOUBT] / (n * n)
    if about[one.i, calibrating.WAITING] <= 0.0:
        doubt = 0.0
    elif seen < FEW:
        delta, doubt = 0.0, 1.0
    else:
        doubt += chance / seen
    return seen >= FEW, delta, doubt


@inner
def _sum_class(one: PeriodLook, j: int) -> tuple[float, float, float]:
    """The predictions of class j that have or will have a label, those that will, and the labels' weights."""
    model, whole, weights, at, scratch, result, i = one
    of_class = coming = has = total = 0.0
    for b in range(model.bins):
        coming += result.coming[i, j, b]
        of_class += result.coming[i, j, b]
        for k in range(model.labels):
            place = (j * model.bins + b) * model.labels + k
            of_class += whole[at.met + place]
            has += whole[at.met + place]
            if model.squares:
                total += weights[at.weights + place] * scratch.weights[j, k, 0]
    if model.squares:  # this order of addition differs in the last bits, which messages of a sample have
        of_class = coming + has
    return of_class, coming, total


@inner
def _compare(one: PeriodLook, j: int, k: int, each: float) -> tuple[float, float, float, float, float]:
    """Compare the labels k of predictions of class j with calibration.

    If labels are sampled, a weight of 1 stands for `each` of the class's predictions. Returns as shares of
    the period's predictions: the calibrated number of labels, how many more there are, the variances of that
    and of the number of labels itself. Then the number of labels so far.
    """
    model, whole, weights, at, scratch, result, i = one
    labels, n = model.labels, result.about[i, calibrating.EXPECTED]
    calibrated = delta = doubt = chance = labelled = 0.0
    for b in range(model.bins):
        m, here = scratch.shares[j, b, k], result.coming[i, j, b]
        cell = (j * model.bins + b) * labels
        for y in range(labels):
            count = float(whole[at.met + cell + y])
            here += count
            off = (1.0 if y == k else 0.0) - m
            if model.squares:
                delta += weights[at.weights + cell + y] * scratch.weights[j, y, 0] * each * off
                squares = weights[at.squares + cell + y]
                # Not off²: it would make periods with fewer errors than usual seem more certain.
                doubt += squares * scratch.weights[j, y, 1] * each * each * m * (1.0 - m)
            else:
                delta += count * scratch.weights[j, y, 0] * off
                doubt += count * scratch.weights[j, y, 1] * off * off
        labelled += whole[at.met + cell + k]
        calibrated += here * m
        chance += here * m * (1.0 - m)
    return calibrated / n, delta / n, doubt / (n * n), chance / (n * n), labelled


@inner
def _correct_events(one: PeriodLook, j: int) -> None:
    """For predictions of class j, put the correction, its variance and its number of predictions, by label.

    The labels so far are a binomial share F of all that will come. So the estimate of the total number has
    the variance n·m·(1 - F)/F.
    """
    model, whole, _, at, scratch, result, i = one
    labels, bins, events = model.labels, model.bins, scratch.events
    seen = off = doubt = 0.0
    for k in range(labels):
        n = share = coming = came = 0.0
        for slot in range(SLOTS):
            place = j * SLOTS + slot
            here = float(whole[at.slot_made + place]) - float(whole[at.slot_expired + place])
            n += here
            share += here * min(1.0, scratch.arrived[slot, j, k])
        for b in range(bins):
            here = result.coming[i, j, b]
            for y in range(labels):
                here += whole[at.met + (j * bins + b) * labels + y]
            coming += here * scratch.shares[j, b, k]
            came += whole[at.met + (j * bins + b) * labels + k]
        events[k, calibrating.SEEN] = events[k, calibrating.OFF] = events[k, calibrating.DOUBT] = 0.0
        if model.closing and model.last < 0:  # right and wrong: they are distinguished at the end
            share = n
        elif model.predicted < labels:
            continue
        if k != model.last and share > 0.0:
            events[k, calibrating.SEEN] = share
            events[k, calibrating.OFF] = came * (n / share) - coming
            events[k, calibrating.DOUBT] = coming * (n / share - 1.0)
            seen = max(seen, share)
            off += events[k, calibrating.OFF]
            doubt += events[k, calibrating.DOUBT]
    if model.last >= 0:
        events[model.last, calibrating.SEEN] = seen
        events[model.last, calibrating.OFF] = -off
        events[model.last, calibrating.DOUBT] = doubt


@inner
def _spread_over(one: PeriodLook, j: int, coming: float, excess: float) -> None:
    """Distribute the expected labels over classes: by the estimate's excess over the labels so far.

    If there is no excess, they are distributed by calibration. Then add the labels so far.
    """
    model, whole, _, at, scratch, result, i = one
    cells, calibrated, total, labels, bins = result.cells, scratch.row, 0.0, model.labels, model.bins
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
def _believe(
    one: PeriodLook, j: int, k: int, delta: float, doubt: float, chance: float, known: bool
) -> tuple[float, float, float]:
    """Move the level by a period's correction; `known`: whether there are enough labels.

    Returns the level before, the share of the correction's deviation from it that counts, and the deviation.
    """
    model, scratch = one.model, one.scratch
    noise = model.faded[model.levels + (j * model.labels + k) * LEVEL + NOISE]
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
def _learn(faded: Floats, level: int, delta: float, doubt: float, chance: float, sampled: bool) -> None:
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
def _count(one: PeriodLook) -> float:
    """Count the labels of a period so far and estimate those to come; returns the number so far.

    Also computes the weights of the labels so far.
    """
    model, whole, _, at, _, result, i = one
    labelled = waiting = coming = 0.0
    for j in range(model.predicted):
        for k in range(model.labels):
            labelled += calibrating.weigh(one, j, k)
        of_class = 0.0
        for slot in range(SLOTS):
            of_class += _waiting_in_slot(one, j * SLOTS + slot)
        for b in range(model.bins):
            wait = _waiting(whole, at.made, at.met, at.expired, j * model.bins + b, model.labels)
            come = 0.0
            if wait > 0.0 and of_class > 0.0:
                come = _share_to_come(one, j, b, of_class)
                waiting += wait
            result.coming[i, j, b] = wait * come
            coming += wait * come
    result.about[i, calibrating.LABELLED], result.about[i, calibrating.WAITING] = labelled, waiting
    result.about[i, calibrating.EXPECTED] = labelled + coming
    return labelled


@inner
def _count_sampled(one: PeriodLook) -> float:
    """As `_count`, but for all predictions, as if a label was requested for each."""
    model, whole, _, at, _, result, i = one
    labels, bins = model.labels, model.bins
    labelled = without = 0.0
    for j in range(model.predicted):
        for k in range(labels):
            labelled += calibrating.weigh(one, j, k)
        for b in range(bins):
            come = float(whole[at.made + j * bins + b])
            for k in range(labels):
                come -= whole[at.met + (j * bins + b) * labels + k]
            result.coming[i, j, b] = max(0.0, come)
            without += result.coming[i, j, b]
    result.about[i, calibrating.LABELLED], result.about[i, calibrating.WAITING] = labelled, without
    result.about[i, calibrating.EXPECTED] = labelled + without
    return labelled


@inner
def _share_to_come(one: PeriodLook, j: int, b: int, of_class: float) -> float:
    """The share of a stratum's pending predictions that will have a label, by the ages of its class."""
    scratch, come = one.scratch, 0.0
    lost = scratch.lost[j, b]
    for slot in range(SLOTS):
        there = _waiting_in_slot(one, j * SLOTS + slot)
        later = 0.0
        for k in range(one.model.labels):
            later += scratch.shares[j, b, k] * (1.0 - scratch.arrived[slot, j, k])
        later *= 1.0 - lost
        if later > 0.0:
            come += there / of_class * (later / (later + lost))
    return come


@inner
def _waiting_in_slot(one: PeriodLook, place: int) -> float:
    """Pending predictions of a class and slot."""
    at = one.at
    return _waiting(one.whole, at.slot_made, at.slot_met, at.slot_expired, place, one.model.labels)


@inner
def _waiting(whole: Ints32, made: int, met: int, gone: int, place: int, labels: int) -> float:
    """Pending predictions of a stratum or slot."""
    count = np.int64(whole[made + place]) - np.int64(whole[gone + place])
    for k in range(labels):
        count -= np.int64(whole[met + place * labels + k])
    return float(max(0, count))
