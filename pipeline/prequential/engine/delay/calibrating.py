"""What estimates of a model's periods need of its data: shares of labels by stratum and age, and deviations.

A period deviates from the past in concept, delays and inputs. The unit of each deviation is the standard
deviation that independent predictions would give by chance. Its usual size, with all dependence, follows from
previous periods (`records`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner
from prequential.engine.delay.expected import BUCKETS, SLOTS
from prequential.engine.delay.following import PeriodPlaces, bucket_of

#: Ages within a slot at which shares of labels are computed.
_AGES = 4

#: The smallest share whose inverse is the weight of a label.
_LEAST_SHARE = 0.02

#: Columns of the estimates of a period next to its matrix; the last three are from `deviate`.
LABELLED, EXPECTED, WAITING, WEIGHT, SCALE, CONCEPT, DELAYS, INPUTS = range(8)
COLUMNS = 8

#: Columns of `Scratch.events`, for models with a class that is known at the horizon alone: predictions that
#: should have their label by now, how many more labels than calibrated there will be, and the variance of
#: that.
SEEN, OFF, DOUBT = range(3)


class PeriodEstimates(NamedTuple):
    """Estimates of n periods, in order of time."""

    cells: Floats  # (n, J, K): predictions of class j that have, or will have, the label k
    #: (n, 8): labelled, those that have or will have a label, waiting, weight, scale, and deviations.
    about: Floats
    coming: Floats  # (n, J, B): pending predictions of a stratum that will have a label


class ModelCounters(NamedTuple):
    """The counters of a model, and the sizes that give their places; times in ms."""

    faded: Floats  # counters of all models, of which its own begin …
    at: int  # … here
    levels: int  # where its levels begin
    squares: int  # where squares of weights begin; 0: labels aren't sampled
    predicted: int  # J
    labels: int  # K
    bins: int  # B
    horizon: int  # of labels
    clock: int
    closing: bool  # whether periods are final, and the levels learn from them
    closes: bool  # whether a class is known at the horizon alone …
    last: int  # … its place; -1: it has none


class OpenPeriods(NamedTuple):
    """The periods that are estimated."""

    counts: Ints32  # of all periods, of which those of one begin …
    weights: Any  # … the same as floats of four bytes
    block: Ints  # … here, by period
    start: Ints  # ms, by period
    end: Ints


class CalibrationScratch(NamedTuple):
    """Arrays for intermediate results."""

    shares: Floats  # (J, B, K): of labels
    lost: Floats  # (J, B): of predictions that will never get one
    arrived: Floats  # (SLOTS, J, K): of labels that have come by a slot's age
    mean: Floats  # (J, K): levels, as they move from period to period
    variance: Floats
    #: (J, K, 2): means of 1/F and of (1 - F)/F² of the labels that have come; where they are sampled of 1/F².
    weights: Floats
    row: Floats  # (K,)
    events: Floats  # (K, 3): see `SEEN`
    sums: Floats  # (J, K, BUCKETS + 1): of labels by delay
    all_sums: Floats  # (BUCKETS + 1,)


def new_scratch(j: int, k: int, b: int) -> CalibrationScratch:
    """Arrays for models with J predicted classes, K labels and B bins."""
    shapes = (
        (j, b, k), (j, b), (SLOTS, j, k), (j, k), (j, k), (j, k, 2), (k,), (k, 3), (j, k, BUCKETS + 1),
        (BUCKETS + 1,),
    )  # fmt: skip
    return CalibrationScratch(*map(np.zeros, shapes))


class PeriodLook(NamedTuple):
    """A period that is estimated: what its loops read, and where they put results."""

    model: ModelCounters
    whole: Ints32  # counts of all periods …
    weights: Any  # … the same as floats of four bytes
    at: PeriodPlaces  # of the period's own
    scratch: CalibrationScratch
    result: PeriodEstimates
    i: int  # its row in `result`


@inner
def calibrate(model: ModelCounters, scratch: CalibrationScratch) -> None:
    """Compute the shares of labels, and of predictions without one, by stratum.

    Each stratum gets one pseudo-observation with the shares of its class. Sampled labels count with their
    effective sample size (Σw)²/Σw² (Kish 1965).
    """
    faded, at, _, squares, predicted, labels, bins, _, _, _, _, _ = model
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
        worth = 1.0
        if squares:
            squared = 0.0
            for b in range(bins):
                squared += faded[squares + j * bins + b]
            worth = total / squared if squared > 0.0 else 0.0
        lost = without / (without + total * worth + 1.0)
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
            scratch.lost[j, b] = (gone + lost) / (gone + n * worth_here + 1.0)


@inner
def add_up(model: ModelCounters, scratch: CalibrationScratch) -> None:
    """Compute cumulative sums of labels by delay, from the shortest on: of each (j, k), and of all."""
    faded, predicted, labels = model.faded, model.predicted, model.labels
    delays = model.at + predicted * model.bins * (labels + 1)
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
def share_arrived(
    model: ModelCounters, newest: float, oldest: float, edges: Floats, scratch: CalibrationScratch, slot: int
) -> None:  # fmt: skip
    """Compute F for a slot: the share of the labels of (j, k) that has come by its ages."""
    predicted, labels = model.predicted, model.labels
    for j in range(predicted):
        for k in range(labels):
            scratch.arrived[slot, j, k] = 0.0
    for part in range(_AGES):
        age = (newest + (oldest - newest) * (part + 0.5) / _AGES) / model.horizon
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
                if k == model.last:
                    continue
                sums = scratch.sums[j, k]
                arrived = sums[a] + within * (sums[a + 1] - sums[a])
                scratch.arrived[slot, j, k] += (arrived + of_all) / (sums[BUCKETS] + 1.0) / _AGES


@inner
def weigh(one: PeriodLook, j: int, k: int) -> float:
    """Return how many labels k of predictions of class j have come; put their mean weights in scratch."""
    scratch, sampled = one.scratch, one.model.squares != 0
    count = inverse = doubt = 0.0
    for slot in range(SLOTS):
        arrived = float(one.whole[one.at.slot_met + (j * SLOTS + slot) * one.model.labels + k])
        share = min(1.0, max(_LEAST_SHARE, scratch.arrived[slot, j, k]))
        count += arrived
        inverse += arrived / share
        doubt += arrived * (1.0 if sampled else 1.0 - share) / (share * share)
    scratch.weights[j, k, 0] = inverse / count if count > 0.0 else 0.0
    scratch.weights[j, k, 1] = doubt / count if count > 0.0 else 0.0
    return count


#: Strata with fewer expected predictions are merged into one; it counts as having at least this many
#: (Cochran 1954).
_FEW = 5.0

#: The smallest variance of a number of labels for which the deviation of delays is computed.
_LEAST_VARIANCE = 1e-9


@inner
def deviate(one: PeriodLook) -> None:
    """Put the deviations of a period in delays and inputs; the correction gives the one in concept."""
    about = one.result.about
    about[one.i, DELAYS] = _delays(one)
    about[one.i, INPUTS] = _inputs(one.model, one.whole, one.at.made)


@inner
def _delays(one: PeriodLook) -> float:
    """Labels so far, less the labels expected by the predictions' ages, in standard deviations."""
    model, whole, _, at, scratch, _, _ = one
    predicted, labels, bins = model.predicted, model.labels, model.bins
    off = variance = 0.0
    for j in range(predicted):
        made = 0.0
        for k in range(labels):
            scratch.row[k] = 0.0
        for b in range(bins):
            here = float(whole[at.made + j * bins + b])
            made += here
            for k in range(labels):
                off += whole[at.met + (j * bins + b) * labels + k]
                scratch.row[k] += here * (1.0 - scratch.lost[j, b]) * scratch.shares[j, b, k]
        if made <= 0.0:
            continue
        for slot in range(SLOTS):
            share = 0.0
            for k in range(labels):
                share += scratch.row[k] / made * min(1.0, scratch.arrived[slot, j, k])
            here = float(whole[at.slot_made + j * SLOTS + slot])
            off -= here * share
            variance += here * share * (1.0 - share)
    return off / math.sqrt(variance) if variance > _LEAST_VARIANCE else math.nan


@inner
def _inputs(model: ModelCounters, whole: Ints32, made: int) -> float:
    """Compare the strata of the predictions with the past: √(2χ²) - √(2f - 1) with f degrees of freedom.

    The result is about standard normal if nothing has changed (Fisher 1922).
    """
    predicted, labels, bins = model.predicted, model.labels, model.bins
    expired = model.at + predicted * bins * labels
    n = past = strata = squares = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        n += whole[made + stratum]
        if before > 0.0 or whole[made + stratum]:
            past += before + 0.5
    if n <= 0.0:
        return math.nan
    rare = off = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        if before > 0.0 or whole[made + stratum]:
            here = n * (before + 0.5) / past
            if here < _FEW:
                rare += here
                off += whole[made + stratum] - here
            else:
                strata += 1.0
                squares += (whole[made + stratum] - here) * (whole[made + stratum] - here) / here
    if rare > 0.0:
        strata += 1.0
        squares += off * off / max(rare, _FEW)
    if strata < 2.0:
        return math.nan
    return math.sqrt(2.0 * squares) - math.sqrt(2.0 * strata - 3.0)


@inner
def _before(model: ModelCounters, expired: int, stratum: int, labels: int) -> float:
    """Past predictions of a stratum, with and without labels; weighted sampled labels stand for all."""
    count = 0.0 if model.squares else model.faded[expired + stratum]
    for k in range(labels):
        count += model.faded[model.at + stratum * labels + k]
    return count
