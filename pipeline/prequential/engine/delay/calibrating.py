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
from prequential.engine.compiled.mathematics import exp
from prequential.engine.delay.expected import BUCKETS, EDGES, SLOTS
from prequential.engine.delay.following import MEMORY, MEMORY_OF_DELAYS, PeriodPlaces, bucket_of

#: The largest age before the horizon, as a share of it.
_LAST_AGE = math.nextafter(1.0, 0.0)

#: Variance that is left when no prediction is pending.
LEAST_VARIANCE = 1e-7

#: The largest factor by which labels count that could be seen for a short time only.
_LARGEST_FACTOR = 20.0

#: Columns of the summary of a period's estimates; three are deviations. The last ones are the evidence about
#: the pace of labels (see `engine.delay.paces`), how many labels should have come by now, the scale of
#: shares of labels, and the part of squared scales that is by chance. Then, of the class with fewest labels,
#: the expected number of labels and of those to come.
(
    LABELLED, EXPECTED, WAITING, WEIGHT, SCALE, CONCEPT, DELAYS, INPUTS, PACE_TOTAL, PACE_DUE, PACE_CHANCE,
    DUE_BY_NOW, SCALE_OF_LABELS, BY_CHANCE, RARER, RARER_COMING,
) = range(16)  # fmt: skip
COLUMNS = 16


class PeriodEstimates(NamedTuple):
    """Estimates of n periods, in order of time."""

    cells: Floats  # (n, J, K): predictions of class j that have, or will have, the label k
    #: (n, COLUMNS): labelled, those that have or will have a label, waiting, weight, scale, …
    summary: Floats
    coming: Floats  # (n, J, B, K): pending predictions of a stratum that will have a label, by label


class ModelCounters(NamedTuple):
    """The counters of a model, and the sizes that give their places; times in ms."""

    faded: Floats  # counters of all models, of which its own begin …
    start: int  # … here
    levels: int  # where its levels begin
    squares: int  # where squares of weights begin; 0: labels aren't sampled
    predicted: int  # J
    labels: int  # K
    bins: int  # B
    horizon: int  # of labels
    clock: int
    age: float  # since its first prediction
    outcomes: float  # labels that it has got
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
    weights: Floats  # (J, K, 2): means of 1/F and of 1/F² of sampled labels that have come
    row: Floats  # (K,)
    sums: Floats  # (J, K, BUCKETS + 1): of labels by delay
    areas: Floats  # (J, K, BUCKETS + 1): below these sums
    factors: Floats  # (J, K): how many labels one counts as, since late ones could be seen for a shorter time
    tilts: Floats  # (5, K): see `engine.delay.censoring`
    slots: Floats  # (2, SLOTS): predictions of a class that didn't expire, and those that wait
    strata: Floats  # (2, B): the same by stratum


def new_scratch(j: int, k: int, b: int) -> CalibrationScratch:
    """Arrays for models with J predicted classes, K labels and B bins."""
    shapes = (
        (j, b, k), (j, b), (SLOTS, j, k), (j, k), (j, k), (j, k, 2), (k,), (j, k, BUCKETS + 1),
        (j, k, BUCKETS + 1), (j, k), (5, k), (2, SLOTS), (2, b),
    )  # fmt: skip
    return CalibrationScratch(*map(np.zeros, shapes))


class PeriodLook(NamedTuple):
    """A period that is estimated: what its loops read, and where they put results."""

    model: ModelCounters
    whole: Ints32  # counts of all periods …
    weights: Any  # … the same as floats of four bytes
    places: PeriodPlaces  # of the period's own
    scratch: CalibrationScratch
    result: PeriodEstimates
    i: int  # its row in `result`
    pace: float  # the share of due labels that has come in periods like it: see `engine.delay.paces`


@inner
def calibrate(model: ModelCounters, scratch: CalibrationScratch) -> None:
    """Compute the shares of labels, and of predictions without one, by stratum.

    Each stratum gets one pseudo-observation with the shares of its class. Sampled labels count with their
    effective sample size (Σw)²/Σw² (Kish 1965). `add_up` has computed the labels' factors.
    """
    faded, start, squares = model.faded, model.start, model.squares
    predicted, labels, bins = model.predicted, model.labels, model.bins
    expired = start + predicted * bins * labels
    for j in range(predicted):
        total = without = 0.0
        for k in range(labels):
            scratch.row[k] = 0.0
        for b in range(bins):
            without += faded[expired + j * bins + b]
            for k in range(labels):
                scratch.row[k] += faded[start + (j * bins + b) * labels + k] * scratch.factors[j, k]
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
            cell = start + (j * bins + b) * labels
            n = 0.0
            for k in range(labels):
                n += faded[cell + k] * scratch.factors[j, k]
            worth_here = 1.0
            if squares:
                squared = faded[squares + j * bins + b]
                worth_here = n / squared if squared > 0.0 else 0.0
            for k in range(labels):
                of_class = (scratch.row[k] * worth + 1.0 / labels) / (total * worth + 1.0)
                here = faded[cell + k] * scratch.factors[j, k] * worth_here
                scratch.shares[j, b, k] = (here + of_class) / (n * worth_here + 1.0)
            gone = faded[expired + j * bins + b]
            scratch.lost[j, b] = (gone + lost) / (gone + n * worth_here + 1.0)


@inner
def add_up(model: ModelCounters, scratch: CalibrationScratch) -> None:
    """Compute cumulative sums of labels by delay, from the shortest on, and the labels' factors.

    A label with the delay d can be seen only if its prediction is older than d. So early in a model's life,
    labels with long delays are too few. Each counts as often as its delay has had less time.
    """
    faded, predicted, labels = model.faded, model.predicted, model.labels
    delays = model.start + predicted * model.bins * (labels + 1)
    for j in range(predicted):
        for k in range(labels):
            scratch.factors[j, k] = scratch.sums[j, k, 0] = scratch.areas[j, k, 0] = 0.0
    for a in range(BUCKETS):
        delay = 0.5 * (EDGES[a] + EDGES[a + 1]) * model.horizon
        of_delays, of_labels = _factor(model, delay, MEMORY_OF_DELAYS), _factor(model, delay, MEMORY)
        for j in range(predicted):
            for k in range(labels):
                here = faded[delays + (j * labels + k) * BUCKETS + a]
                before, width = scratch.sums[j, k, a], EDGES[a + 1] - EDGES[a]
                scratch.sums[j, k, a + 1] = before + here * of_delays
                area = 0.5 * width * (before + scratch.sums[j, k, a + 1])
                scratch.areas[j, k, a + 1] = scratch.areas[j, k, a] + area
                scratch.factors[j, k] += here * of_labels
    for j in range(predicted):
        for k in range(labels):
            count = 0.0
            for a in range(BUCKETS):
                count += faded[delays + (j * labels + k) * BUCKETS + a]
            is_known = count > 0.0 and model.squares == 0
            scratch.factors[j, k] = scratch.factors[j, k] / count if is_known else 1.0


@inner
def _factor(model: ModelCounters, delay: float, memory: int) -> float:
    """How much longer the shortest delay could be seen than this one, with counts that fade."""
    if model.age <= delay or model.outcomes <= 0.0:
        return _LARGEST_FACTOR
    remembered = model.outcomes / (model.age * memory)  # 1 / ms
    seen = 1.0 - exp(-(model.age - delay) * remembered)
    if seen <= 0.0:
        return _LARGEST_FACTOR
    return min(_LARGEST_FACTOR, (1.0 - exp(-model.age * remembered)) / seen)


@inner
def share_arrived(
    model: ModelCounters, newest: float, oldest: float, scratch: CalibrationScratch, slot: int
) -> None:  # fmt: skip
    """Compute F for a slot: the mean over its ages of the share of the labels of (j, k) that has come.

    There is one pseudo-observation: a label whose delay may be any share of the horizon.
    """
    young, old = newest / model.horizon, oldest / model.horizon
    a, b = bucket_of(EDGES, min(young, _LAST_AGE)), bucket_of(EDGES, min(old, _LAST_AGE))
    for j in range(model.predicted):
        for k in range(model.labels):
            if old <= young:
                scratch.arrived[slot, j, k] = 1.0 if young >= 1.0 else 0.0
                continue
            area = max(0.0, old - 1.0) - max(0.0, young - 1.0)
            if k != model.last:
                sums, areas = scratch.sums[j, k], scratch.areas[j, k]
                below = _area(sums, areas, b, min(1.0, old)) - _area(sums, areas, a, min(1.0, young))
                area += below / (sums[BUCKETS] + 1.0)
            scratch.arrived[slot, j, k] = area / (old - young)


@inner
def _area(sums: Floats, areas: Floats, a: int, age: float) -> float:
    """The area below the cumulative sums up to an age in bucket a, with the pseudo-observation."""
    within = age - EDGES[a]
    here = sums[a] + within / (EDGES[a + 1] - EDGES[a]) * (sums[a + 1] - sums[a])
    return areas[a] + 0.5 * within * (sums[a] + here) + 0.5 * age * age


#: Strata with fewer expected predictions are merged into one; it counts as having at least this many
#: (Cochran 1954).
_FEW = 5.0

#: The smallest variance of a number of labels for which the deviation of delays is computed.
_LEAST_OF_DELAYS = 1e-9


@inner
def deviate(look: PeriodLook) -> None:
    """Put the deviations of a period in delays and inputs; the correction gives the one in concept."""
    summary = look.result.summary
    summary[look.i, DELAYS] = _delays(look)
    summary[look.i, INPUTS] = _inputs(look.model, look.whole, look.places.made)


@inner
def _delays(look: PeriodLook) -> float:
    """Labels so far, less the labels expected by the predictions' ages, in standard deviations."""
    model, whole, places, scratch = look.model, look.whole, look.places, look.scratch
    predicted, labels, bins = model.predicted, model.labels, model.bins
    off = variance = 0.0
    for j in range(predicted):
        predictions = 0.0
        for k in range(labels):
            scratch.row[k] = 0.0
        for b in range(bins):
            here = float(whole[places.made + j * bins + b])
            predictions += here
            for k in range(labels):
                off += whole[places.met + (j * bins + b) * labels + k]
                scratch.row[k] += here * (1.0 - scratch.lost[j, b]) * scratch.shares[j, b, k]
        if predictions <= 0.0:
            continue
        for slot in range(SLOTS):
            share = 0.0
            for k in range(labels):
                share += scratch.row[k] / predictions * min(1.0, scratch.arrived[slot, j, k])
            here = float(whole[places.slot_made + j * SLOTS + slot])
            off -= here * share
            variance += here * share * (1.0 - share)
    return off / math.sqrt(variance) if variance > _LEAST_OF_DELAYS else math.nan


@inner
def _inputs(model: ModelCounters, whole: Ints32, first: int) -> float:
    """Compare the strata of the predictions with the past: √(2χ²) - √(2f - 1) with f degrees of freedom.

    The result is about standard normal if nothing has changed (Fisher 1922).
    """
    predicted, labels, bins = model.predicted, model.labels, model.bins
    expired = model.start + predicted * bins * labels
    n = past = strata = squares = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        n += whole[first + stratum]
        if before > 0.0 or whole[first + stratum]:
            past += before + 0.5
    if n <= 0.0:
        return math.nan
    rare = off = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        if before > 0.0 or whole[first + stratum]:
            here = n * (before + 0.5) / past
            if here < _FEW:
                rare += here
                off += whole[first + stratum] - here
            else:
                strata += 1.0
                squares += (whole[first + stratum] - here) * (whole[first + stratum] - here) / here
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
        count += model.faded[model.start + stratum * labels + k]
    return count
