"""The expected confusion matrix of a period once all labels are there.

Calibration estimates it from the labels of similar predictions (CBPE is this term alone). The labels that
have come correct the estimate. Each is weighted with the inverse of the share of labels of its kind that have
come by its age (nowcasting: Lawless 1994).

If labels are sampled with known propensities, the inverse propensity is a further factor of the weight, and
the estimate is for all predictions. This is the difference estimator of survey sampling (Särndal, Swensson
and Wretman 1992, 6.3). Its mean over a stream is that of prediction-powered inference (Angelopoulos et al.
2023).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.delay.calibrating import (
    COLUMNS,
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
    add_up,
    calibrate,
    deviate,
    share_arrived,
    weigh,
)
from prequential.engine.delay.correcting import (
    FEW,
    LEAST_VARIANCE,
    MEAN,
    NOISE,
    VARIANCE,
    believe,
    correct_events,
    expect_sampled,
    learn,
    spread_over,
)
from prequential.engine.delay.expected import (
    BUCKETS,
    EDGES,
    LEVEL,
    SLOTS,
    ExpectedModels,
    ExpectedTables,
    ends_of_periods,
    shape_of,
)
from prequential.engine.delay.following import PeriodPlaces, places_of_model, places_of_period


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
    expected: ExpectedTables, whose: Ints, rows: Ints32, ends: Ints, clocks: Ints, *, closing: bool = False
) -> list[Group]:
    """Estimate periods of models.

    Parameters
    ----------
    expected
        The tables.
    whose, clocks
        (m,) rows of models, each of them once, and the clock of each one's stream, ms.
    rows, ends
        Rows of their periods, model by model and in order of time, and the cumulative number of rows by
        model.
    closing
        Whether these periods are final; then the levels of the correction learn from them.

    Returns
    -------
    list of Group
        The estimates; each of the models is in one group.
    """
    models = expected.models
    alike = np.stack((models.layout[whose], models.bins[whose], models.sampled[whose]), axis=1)
    counts, of = np.diff(ends, prepend=0), np.zeros(len(whose), dtype=np.int64)
    kinds = np.unique(alike, axis=0)
    for number, kind in enumerate(kinds):
        of[(alike == kind).all(axis=1)] = number
    groups = []
    for number in range(len(kinds)):
        places, own = np.flatnonzero(of == number), np.flatnonzero(np.repeat(of, counts) == number)
        up_to = np.cumsum(counts[places])
        found = _look_at(expected, whose[places], rows[own], up_to, clocks[places], closing)
        groups.append(Group(places, own, up_to, found))
    return groups


def _look_at(
    expected: ExpectedTables, whose: Ints, rows: Ints32, ends: Ints, clocks: Ints, closing: bool
) -> PeriodEstimates:
    """Estimate the periods of models with the same layout."""
    models, n = expected.models, len(rows)
    j, k, b, _, sampled = shape_of(models, int(whose[0]))
    result = PeriodEstimates(np.zeros((n, j, k)), np.zeros((n, COLUMNS)), np.zeros((n, j, b)))
    scratch = CalibrationScratch(
        np.zeros((j, b, k)), np.zeros((j, b)), np.zeros((SLOTS, j, k)), np.zeros((j, k)), np.zeros((j, k)),
        np.zeros((j, k, 2)), np.zeros(k), np.zeros((k, 3)), np.zeros((j, k, BUCKETS + 1)),
        np.zeros(BUCKETS + 1),
    )  # fmt: skip
    blocks: Any = models.block[whose]
    at: Any = places_of_model(blocks, j, k, b)  # by model
    together = _Together(
        blocks, at.levels, at.beyond if sampled else np.zeros_like(blocks),
        models.horizon[whose], clocks, (models.at_horizon[whose] > 0).astype(np.uint8),
        _last(models, whose), ends,
    )  # fmt: skip
    counts = expected.of_periods.counts
    periods = OpenPeriods(
        counts, counts.view(np.float32), expected.periods.block[rows], expected.pool.key[rows],
        ends_of_periods(expected, rows),
    )  # fmt: skip
    _look(expected.of_models.counts, together, closing, periods, EDGES, scratch, result)
    return result


def _last(models: ExpectedModels, whose: Ints) -> Ints:
    """The place of the class that is known at the horizon alone; -1: there is none, or it hasn't come yet."""
    known = np.arange(models.codes.shape[1]) < models.classes[whose, None]
    found = known & (models.codes[whose] == models.at_horizon[whose, None] - 1)
    return np.where(found.any(axis=1), found.argmax(axis=1), -1)


@kernel
def _look(
    faded: Floats, together: _Together, closing: bool, periods: OpenPeriods, edges: Floats,
    scratch: CalibrationScratch, result: PeriodEstimates,
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
        calibrate(faded, model.at, model.squares, predicted, labels, bins, scratch)
        add_up(faded, model.at + predicted * bins * (labels + 1), predicted, labels, scratch)
        for j in range(predicted):
            for k in range(labels):
                level = model.levels + (j * labels + k) * LEVEL
                scratch.mean[j, k], scratch.variance[j, k] = faded[level + MEAN], faded[level + VARIANCE]
        while i < together.ends[m]:
            age, length = model.clock - periods.start[i], periods.end[i] - periods.start[i]
            for slot in range(SLOTS):
                newest = max(0.0, float(age - length * (slot + 1) // SLOTS))
                oldest = max(0.0, float(age - length * slot // SLOTS))
                share_arrived(model, newest, oldest, edges, scratch, slot)
            at = places_of_period(periods.block[i], predicted, labels, bins)
            if model.squares:
                expect_sampled(model, periods, at, scratch, result, i)
            else:
                _expect(model, periods.counts, at, scratch, result, i)
            deviate(model, periods.counts, at, scratch, result, i)
            i += 1


@inner
def _expect(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int,
) -> None:  # fmt: skip
    """Estimate one period, whose counts are at these places."""
    faded, predicted, labels = model.faded, model.predicted, model.labels
    about, cells = result.about, result.cells
    labelled = _count(model, whole, at, scratch, result, i)
    n = about[i, EXPECTED]
    if n <= 0.0:
        return
    weight = variance = gap = by_chance = 0.0
    for j in range(predicted):
        of_class, coming = _sum_class(model, whole, at, result, i, j)
        if model.closes:
            correct_events(model, whole, at, scratch, result, i, j)
        excess = 0.0
        for k in range(labels):
            level = model.levels + (j * labels + k) * LEVEL
            calibrated, delta, doubt, chance, labelled_here = _compare(
                model, whole, at, scratch, result, i, j, k
            )
            seen = labelled
            if model.closes:
                seen = scratch.events[k, SEEN]
                delta, doubt = scratch.events[k, OFF] / n, scratch.events[k, DOUBT] / (n * n)
            if about[i, WAITING] <= 0.0:
                doubt = 0.0
            elif seen < FEW:
                delta, doubt = 0.0, 1.0
            else:
                doubt += chance / seen
            if seen >= FEW and k == (j if predicted == labels else labels - 1):
                gap += delta
                by_chance += doubt + chance
            if model.closing:
                if seen >= FEW:
                    learn(faded, level, delta, doubt, chance, False)
                continue
            mean, believed, off = believe(scratch, j, k, faded[level + NOISE], delta, doubt, chance, True)
            value = calibrated + mean + believed * off
            weight += believed * of_class / (n * labels)
            variance += believed * doubt / labels
            cells[i, j, k] = max(0.0, n * value - labelled_here)
            excess += cells[i, j, k]
            scratch.row[k] = calibrated
        if not model.closing:
            spread_over(model, whole, at, cells, i, j, coming, excess, scratch.row)
    about[i, WEIGHT], about[i, SCALE] = weight, math.sqrt(variance + LEAST_VARIANCE)
    about[i, CONCEPT] = gap / math.sqrt(by_chance) if by_chance > 0.0 else math.nan


@inner
def _sum_class(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, result: PeriodEstimates, i: int, j: int
) -> tuple[float, float]:
    """The predictions of class j that have or will have a label, and those that will have one."""
    of_class = coming = 0.0
    for b in range(model.bins):
        coming += result.coming[i, j, b]
        of_class += result.coming[i, j, b]
        for k in range(model.labels):
            of_class += whole[at.met + (j * model.bins + b) * model.labels + k]
    return of_class, coming


@inner
def _compare(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int, j: int, k: int,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Compare the labels k of predictions of class j with calibration.

    As shares of the period's predictions: the calibrated number of labels, how many more there are, the
    variances of that and of the number of labels itself. Then the number of labels so far.
    """
    labels, n = model.labels, result.about[i, EXPECTED]
    calibrated = delta = doubt = chance = labelled = 0.0
    for b in range(model.bins):
        share, here = scratch.shares[j, b, k], result.coming[i, j, b]
        cell = at.met + (j * model.bins + b) * labels
        for y in range(labels):
            count = float(whole[cell + y])
            here += count
            off = (1.0 if y == k else 0.0) - share
            delta += count * scratch.weights[j, y, 0] * off
            doubt += count * scratch.weights[j, y, 1] * off * off
        labelled += whole[cell + k]
        calibrated += here * share
        chance += here * share * (1.0 - share)
    return calibrated / n, delta / n, doubt / (n * n), chance / (n * n), labelled


@inner
def _count(
    model: ModelCounters, whole: Ints32, at: PeriodPlaces, scratch: CalibrationScratch,
    result: PeriodEstimates, i: int,
) -> float:  # fmt: skip
    """Count the labels of a period so far and estimate those to come; returns the number so far.

    Also computes the weights of the labels so far.
    """
    labels = model.labels
    labelled = waiting = expected = 0.0
    for j in range(model.predicted):
        for k in range(labels):
            labelled += weigh(whole, at.slot_met, labels, j, k, False, scratch)
        of_class = 0.0
        for slot in range(SLOTS):
            of_class += _waiting_in_slot(whole, at, j * SLOTS + slot, labels)
        for b in range(model.bins):
            stratum = j * model.bins + b
            wait = _waiting(whole, at.made, at.met, at.expired, stratum, labels)
            come = 0.0
            if wait > 0.0 and of_class > 0.0:
                come = _share_to_come(whole, at, labels, scratch, j, b, of_class)
                waiting += wait
            result.coming[i, j, b] = wait * come
            expected += wait * come
    result.about[i, LABELLED], result.about[i, WAITING] = labelled, waiting
    result.about[i, EXPECTED] = labelled + expected
    return labelled


@inner
def _share_to_come(
    whole: Ints32, at: PeriodPlaces, labels: int, scratch: CalibrationScratch, j: int, b: int, of_class: float
) -> float:
    """The share of a stratum's pending predictions that will have a label, by the ages of its class."""
    come, lost = 0.0, scratch.lost[j, b]
    for slot in range(SLOTS):
        there = _waiting_in_slot(whole, at, j * SLOTS + slot, labels)
        later = 0.0
        for k in range(labels):
            later += scratch.shares[j, b, k] * (1.0 - scratch.arrived[slot, j, k])
        later *= 1.0 - lost
        if later > 0.0:
            come += there / of_class * (later / (later + lost))
    return come


@inner
def _waiting_in_slot(whole: Ints32, at: PeriodPlaces, place: int, labels: int) -> float:
    """Pending predictions of a class and slot."""
    return _waiting(whole, at.slot_made, at.slot_met, at.slot_expired, place, labels)


@inner
def _waiting(whole: Ints32, made: int, met: int, gone: int, place: int, labels: int) -> float:
    """Pending predictions of a stratum or slot."""
    count = np.int64(whole[made + place]) - np.int64(whole[gone + place])
    for k in range(labels):
        count -= np.int64(whole[met + place * labels + k])
    return float(max(0, count))
