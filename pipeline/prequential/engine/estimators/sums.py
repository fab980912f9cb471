"""Payloads that are sums: of losses, or of scores next to an estimator's counts.

All sums are added in the order of the outcomes, so splitting a sequence into calls changes no bit. Revised
labels only change costs by value.

A vector of losses has one more place for their number, or weight. A vector of scores has `scores.SIZE`
places. For regression, it also has the labels' spread Σ(y - ȳ)², with their mean ȳ in memory. The spread is
updated around the present mean, since a difference of large sums would have no correct digit.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints32, inlined, inner, kernel
from prequential.engine.estimators.declaration import (
    CLASS_SCORES,
    LOSSES,
    NO_OUTCOME,
    NUMBER_SCORES,
    RESIDUALS,
    REVISED,
    RIGHT_OR_WRONG,
    Additions,
    Payload,
)
from prequential.engine.estimators.residuals import add_residual, fade_residuals
from prequential.engine.measures import costs
from prequential.engine.measures.positive import Positives
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import OUTCOME, REVISION, Log
from prequential.engine.tables.store import NO_CLASS

#: Flags of an outcome in `Additions`, in addition to those in the log's column `scored`. Losses have
#: `outcomes.SCORED`; losses of 0 and 1 have `RIGHT` for 0.
RIGHT, IS_POSITIVE = 4, 8

#: The kept numbers of an outcome with probabilities, or with a weight. If configured, the last one is the
#: share of orders in which the label is among the first k …
LOG_LOSS, BRIER, CONFIDENCE, POSITIVE, OF_LABEL, TIED = range(6)
#: … and of an outcome for regression, with the width of its interval if predictions have intervals.
ERROR, VALUE, WIDTH = range(3)

#: After the sums for regression: the labels' weight, their mean in two floats, and their spread.
_WEIGHT, MEAN, REST, SPREAD = range(scores.SIZE, scores.SIZE + 4)

#: A spread below this share of the sum of squares is a rounding error: the true spread is 0.
_NOISE = 1e-30

#: The payloads of sums; `losses` gives further ones.
ONE_RIGHT_OR_WRONG = Payload(RIGHT_OR_WRONG, 2)
OF_CLASSES = Payload(CLASS_SCORES, scores.SIZE, OF_LABEL + 1)
OF_TIES = Payload(CLASS_SCORES, scores.SIZE, TIED + 1)
OF_NUMBERS = Payload(NUMBER_SCORES, SPREAD + 1, VALUE + 1)
OF_INTERVALS = Payload(NUMBER_SCORES, SPREAD + 1, WIDTH + 1)


def losses(count: int) -> Payload:
    """The payload of `count` losses of each outcome: their sums, followed by their number or weight."""
    return Payload(LOSSES, count + 1, count)


#: Costs by value: an outcome adds its cost, and 1 if it has a value, at the places of `measures.costs`.
OF_COSTS = losses(costs.SUMS - 1)


# The additions of outcomes


@kernel
def scores_of(log: Log, rows: Ints32, numbers: bool, into: Additions) -> None:
    """Write the scores of these rows of the log."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i] = NO_OUTCOME
        if log.kind[row] != OUTCOME:
            continue
        into.sequence[i], into.t1[i] = log.sequence[row], log.t1[row]
        flags = np.int64(log.scored[row])
        if flags and numbers:
            into.values[i, ERROR], into.values[i, VALUE] = log.error[row], log.value[row]
            if flags & outcomes.INTERVAL:
                into.values[i, WIDTH] = log.width[row]
        elif flags:
            into.values[i, LOG_LOSS], into.values[i, BRIER] = log.log_loss[row], log.brier[row]
            into.values[i, CONFIDENCE] = log.confidence[row]
            into.values[i, POSITIVE] = log.positive[row]
            into.values[i, OF_LABEL] = log.weight[row]
            if flags & outcomes.RANKED and into.values.shape[1] > TIED:
                into.values[i, TIED] = log.width[row]
            if log.label[row] == log.prediction[row]:
                flags |= RIGHT
            if log.is_positive[row]:
                flags |= IS_POSITIVE
        into.flags[i] = flags


@kernel
def costs_of(log: Log, rows: Ints32, positives: Positives, into: Additions) -> None:
    """Write the costs by value of these rows of the log; for revisions, the difference.

    An outcome without a label costs nothing.
    """
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i] = NO_OUTCOME
        kind = log.kind[row]
        if kind != OUTCOME and kind != REVISION:
            continue
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], log.number[row]
        of_label = positives.costs[positives.first[positives.owner[log.sequence[row]]] :]
        label, prediction = np.int64(log.label[row]), np.int64(log.prediction[row])
        cost = count = 0.0
        if kind == REVISION:
            if label != NO_CLASS and log.valued[row] & outcomes.VALUED_BEFORE:
                cost, count = -of_label[label, prediction] * log.stake_before[row], -1.0
            label = np.int64(log.revised[row])
        if label != NO_CLASS and log.valued[row] & outcomes.VALUED:
            cost, count = cost + of_label[label, prediction] * log.stake[row], count + 1.0
        into.values[i, costs.COST], into.values[i, costs.VALUED] = cost, count
        into.flags[i] = REVISED if kind == REVISION else outcomes.SCORED


def additions(rows: int, payload: Payload) -> Additions:
    """Arrays for the additions of rows to sums of this payload; `values` is (rows, payload.kept) zeros."""
    return Additions(
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.uint8),
        np.zeros((rows, payload.kept)), np.empty(rows, np.int64),
    )  # fmt: skip


@inlined
def _add_class(sums: Floats, flags: int, values: Floats) -> None:
    """Add an outcome with probabilities, or with a weight w = 1/propensity of its label."""
    right = flags & RIGHT != 0
    if flags & outcomes.SCORED:
        confidence = values[CONFIDENCE]
        place = scores.bin_of(confidence)
        sums[scores.SCORED] += 1.0
        sums[scores.LOG_LOSS] += values[LOG_LOSS]
        sums[scores.BRIER] += values[BRIER]
        sums[scores.IN_BIN + place] += 1.0
        sums[scores.CONFIDENCE + place] += confidence
        if right:
            sums[scores.RIGHT + place] += 1.0
        if flags & outcomes.RANKED:
            sums[scores.RANKED] += 1.0
            if flags & outcomes.IN_TOP:
                sums[scores.IN_TOP] += 1.0
            elif len(values) > TIED:
                sums[scores.IN_TOP] += values[TIED]
    if flags & outcomes.WEIGHTED:
        weight = values[OF_LABEL]
        sums[scores.WEIGHT] += weight
        sums[scores.WEIGHT_SQUARED] += weight * weight
        if right:
            sums[scores.WEIGHT_RIGHT] += weight


@inner
def _add_label(sums: Floats, y: float, decay: float) -> None:
    """Add the next label, by the recursion of Welford (1962) with weights that fade.

    W = 1 + D·W; ȳ' = ȳ + (y - ȳ)/W; M = D·M + (y - ȳ)·(y - ȳ') with the decay D since the last label. The
    mean ȳ is the sum of two floats, of which the second is below the last digit of the first: numbers may
    hardly differ and be far from 0.
    """
    sums[_WEIGHT] = 1.0 + decay * sums[_WEIGHT]
    apart = y - sums[MEAN] - sums[REST]
    step = sums[REST] + apart / sums[_WEIGHT]
    mean = sums[MEAN] + step
    sums[REST] = step - (mean - sums[MEAN])
    sums[MEAN] = mean
    sums[SPREAD] = decay * sums[SPREAD] + apart * (y - mean - sums[REST])


@inner
def _spread_of(sums: Floats) -> float:
    """The labels' spread; 0 if all are equal to the last digit."""
    noise = _NOISE * sums[_WEIGHT] * sums[MEAN] * sums[MEAN]
    return sums[SPREAD] if sums[SPREAD] > noise else 0.0


@inner
def is_any(sums: Floats) -> bool:
    """Whether sums of scores have any outcome."""
    return max(sums[scores.SCORED], sums[scores.WEIGHT]) >= scores.NO_WEIGHT


@inner
def _fade(sums: Floats, decay: float) -> None:
    """Multiply sums of scores by a decay; set all to 0 if no outcome has a weight.

    The weights decide, not each sum: a sum of errors may be small, since it has the scale of the labels.
    """
    for place in range(scores.SIZE):
        sums[place] *= decay
    if not is_any(sums):
        for place in range(scores.SIZE):
            sums[place] = 0.0


# The operations of memories


@inlined
def copied(source: Floats, target: Floats) -> None:
    """Write one vector into another."""
    for i in range(len(source)):
        target[i] = source[i]


@inlined
def add(kind: int, sums: Floats, flags: int, values: Floats) -> None:
    """Add an outcome with these flags, not 0, to sums, except for its label in regression."""
    if kind == LOSSES:
        for i in range(len(values)):
            sums[i] += values[i]
        sums[len(values)] += 1.0
    elif kind == RIGHT_OR_WRONG:
        if not flags & RIGHT:
            sums[0] += 1.0
        sums[1] += 1.0
    elif kind == NUMBER_SCORES:
        scores.add_number(sums, values[ERROR], values[VALUE])
        if flags & outcomes.INTERVAL:
            scores.add_interval(sums, flags & outcomes.COVERED != 0, values[WIDTH])
    elif kind == RESIDUALS:
        add_residual(sums, values[ERROR], values[VALUE])
    else:
        _add_class(sums, flags, values)


@inlined
def fold(kind: int, sums: Floats, flags: int, values: Floats, decay: float) -> None:
    """Compute S = x + decay·S, for an outcome with these flags, not 0."""
    if decay != 1.0:
        if kind in (CLASS_SCORES, NUMBER_SCORES):
            _fade(sums, decay)
        elif kind == RESIDUALS:
            fade_residuals(sums, decay)
        else:
            for place in range(len(sums)):
                sums[place] *= decay
    add(kind, sums, flags, values)
    if kind == NUMBER_SCORES:
        _add_label(sums, values[VALUE], decay)


@inner
def finish(kind: int, sums: Floats, decay: float) -> None:
    """Let sums decay for a reading; for regression, the last one becomes the labels' spread Σw(y - ȳ)²."""
    if kind in (CLASS_SCORES, NUMBER_SCORES):
        _fade(sums, decay)
        if kind == NUMBER_SCORES:
            sums[SPREAD] = _spread_of(sums) * decay
    elif kind == RESIDUALS:
        fade_residuals(sums, decay)
    else:
        for place in range(len(sums)):
            sums[place] *= decay
