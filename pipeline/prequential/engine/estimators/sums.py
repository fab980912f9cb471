"""Payloads that are sums: of losses, or of scores next to an estimator's counts.

All sums are added in the order of the outcomes, so splitting a sequence into calls changes no bit. Memories
in which all outcomes count the same have exact sums: an outcome can be removed, and can come back.

A vector of losses has one more place for their number, or weight. A vector of scores has `scores.SIZE`
places. For regression, it also has the labels' spread Σ(y - ȳ)², with their mean ȳ in memory. A spread that
fades is updated around the present mean, since a difference of large sums would have no correct digit.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.exact_sums import add_exactly
from prequential.engine.compiled.kernel import Floats, Ints32, inlined, inner, kernel
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import Additions, Payload
from prequential.engine.estimators.residuals import add_residual, fade_residuals
from prequential.engine.measures import costs
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import OUTCOME, REVISION, UNREVISED, Log
from prequential.engine.tables.scores import ERROR, LABELS, MEAN, REST, SPREAD, VALUE
from prequential.engine.tables.store import NO_CLASS

#: Flags of an outcome in `Additions`, in addition to those in the log's column `scored`: bits that this
#: column has for regression only. Losses have `outcomes.SCORED`; losses of 0 and 1 have `RIGHT` for 0.
RIGHT, IS_POSITIVE = 4, 8

#: The kept numbers of an outcome with probabilities, or with a weight. If configured, the last one is the
#: share of orders in which the label is among the first k. (For regression see `scores.numbers_of`.)
LOG_LOSS, BRIER, CONFIDENCE, POSITIVE, OF_LABEL, TIED = range(6)
#: A spread below this share of the sum of squares is a rounding error: the true spread is 0.
_NOISE = 1e-30

#: The payloads of sums; `losses` gives further ones.
ONE_RIGHT_OR_WRONG = Payload(declaration.RIGHT_OR_WRONG, 2)
OF_CLASSES = Payload(declaration.CLASS_SCORES, scores.SIZE, OF_LABEL + 1, scores.RESTS)
OF_NUMBERS = Payload(declaration.NUMBER_SCORES, SPREAD + 1, VALUE + 1, scores.RESTS_OF_NUMBERS)


def losses(count: int) -> Payload:
    """The payload of `count` losses of each outcome: their sums, followed by their number or weight."""
    return Payload(declaration.LOSSES, count + 1, count)


#: Costs by value: an outcome adds its cost, and 1 if it has a value, at the places of `measures.costs`.
OF_COSTS = losses(costs.SUMS - 1)._replace(rests=scores.RESTS_OF_COSTS)

#: Times of predictions (ms), of which windows keep each; they are never summed.
OF_TIMES = losses(1)


# The additions of outcomes


@inlined
def _place_of(log: Log, row: int) -> int:
    """What a row of the log does to sums, as `Additions.number` has it; 0: it is a new outcome."""
    if log.kind[row] == UNREVISED:
        return -np.int64(log.number[row])
    return np.int64(log.number[row]) if log.kind[row] == REVISION else 0


@inlined
def _has_label(log: Log, row: int) -> bool:
    """Whether the outcome of a row has a label now: it isn't withdrawn."""
    return (log.revised[row] if log.kind[row] == REVISION else log.label[row]) != NO_CLASS


@kernel
def scores_of(log: Log, rows: Ints32, numbers: bool, into: Additions) -> None:
    """Write the scores of these rows of the log."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i] = declaration.NO_OUTCOME
        flags, number = np.int64(log.scored[row]), _place_of(log, row)
        if number and not (flags and _has_label(log, row)):
            continue
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], number
        if flags and numbers:
            kept = scores.numbers_of(log, row)
            for k in range(into.values.shape[1]):
                into.values[i, k] = kept[k]
        elif flags:
            into.values[i, LOG_LOSS], into.values[i, BRIER] = log.log_loss[row], log.brier[row]
            into.values[i, CONFIDENCE] = log.confidence[row]
            into.values[i, POSITIVE] = log.positive[row]
            into.values[i, OF_LABEL] = log.weight[row]
            if flags & outcomes.RANKED and into.values.shape[1] > TIED:
                into.values[i, TIED] = log.width[row]
            label = log.revised[row] if number > 0 else log.label[row]
            if label == log.prediction[row]:
                flags |= RIGHT
            if log.is_positive[row]:
                flags |= IS_POSITIVE
        into.flags[i] = flags


@kernel
def costs_of(log: Log, rows: Ints32, positives: Positives, into: Additions) -> None:
    """Write the costs by value of these rows of the log."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i] = declaration.NO_OUTCOME
        number = _place_of(log, row)
        if number and not _has_label(log, row):
            continue
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], number
        of_label = positives.costs[positives.first[positives.owner[log.sequence[row]]] :]
        label = np.int64(log.revised[row] if number > 0 else log.label[row])
        into.values[i, costs.COST] = into.values[i, costs.VALUED] = 0.0  # a repeated call's buffers
        if log.valued[row]:
            into.values[i, costs.COST] = of_label[label, np.int64(log.prediction[row])] * log.stake[row]
            into.values[i, costs.VALUED] = 1.0
        into.flags[i] = outcomes.SCORED


@kernel
def times_of(log: Log, rows: Ints32, into: Additions) -> None:
    """Write the prediction times of new outcomes among these rows of the log."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i] = log.sequence[row] if log.kind[row] == OUTCOME else declaration.NO_OUTCOME
        into.values[i, 0], into.flags[i] = log.ts[row], outcomes.SCORED


def additions(rows: int, payload: Payload) -> Additions:
    """Arrays for the additions of rows to sums of this payload; `values` is (rows, payload.kept) zeros."""
    return Additions(
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.uint8),
        np.zeros((rows, payload.kept)), np.zeros(rows, np.int64),
    )  # fmt: skip


@inner
def _add_label(sums: Floats, y: float, decay: float) -> None:
    """Add the next label, by the recursion of Welford (1962) with weights that fade.

    W = 1 + D·W; ȳ' = ȳ + (y - ȳ)/W; M = D·M + (y - ȳ)·(y - ȳ') with the decay D since the last label. The
    mean ȳ is the sum of two floats, of which the second is below the last digit of the first: numbers may
    hardly differ and be far from 0.
    """
    sums[LABELS] = 1.0 + decay * sums[LABELS]
    apart = y - sums[MEAN] - sums[REST]
    step = sums[REST] + apart / sums[LABELS]
    mean = sums[MEAN] + step
    sums[REST] = step - (mean - sums[MEAN])
    sums[MEAN] = mean
    sums[SPREAD] = decay * sums[SPREAD] + apart * (y - mean - sums[REST])


@inner
def _spread_of(sums: Floats) -> float:
    """The labels' spread; 0 if all are equal to the last digit."""
    noise = _NOISE * sums[LABELS] * sums[MEAN] * sums[MEAN]
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
    for index in range(scores.SIZE):
        sums[index] *= decay
    if not is_any(sums):
        for index in range(scores.SIZE):
            sums[index] = 0.0


# The operations of memories


@inlined
def copied(source: Floats, target: Floats) -> None:
    """Write one vector into another."""
    for i in range(len(source)):
        target[i] = source[i]


@inlined
def add(kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, sign: float) -> float:
    """Add an outcome with these flags, not 0, to sums, or remove it; returns what was lost, usually 0.

    `rests` and `sign` are those of `scores.add_probabilities`. For regression, the label isn't added.
    """
    lost = 0.0
    if kind == declaration.LOSSES:
        for i in range(len(values)):
            add_exactly(sums, rests, i, sign * values[i])
        sums[len(values)] += sign
    elif kind == declaration.RIGHT_OR_WRONG:
        if not flags & RIGHT:
            sums[0] += sign
        sums[1] += sign
    elif kind == declaration.NUMBER_SCORES:
        lost = scores.add_number(sums, rests, sign, flags, values)
    elif kind == declaration.RESIDUALS:
        add_residual(sums, values[ERROR], values[VALUE])
    else:
        share = values[TIED] if len(values) > TIED else 0.0
        scores.add_probabilities(
            sums, rests, sign, flags, flags & RIGHT != 0, values[LOG_LOSS], values[BRIER],
            values[CONFIDENCE], values[OF_LABEL], share,
        )  # fmt: skip
    return lost


@inlined
def add_with_label(kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, sign: float) -> float:
    """As `add`, but also adds or removes the label for regression, for exact sums."""
    lost = add(kind, sums, rests, flags, values, sign)
    if kind == declaration.NUMBER_SCORES:
        lost += scores.add_label(sums, rests, sign, values[VALUE])
    return lost


@inlined
def fold(kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, decay: float) -> None:
    """Compute S = x + decay·S, for an outcome with these flags, not 0; `rests` is empty."""
    if decay != 1.0:
        if kind in (declaration.CLASS_SCORES, declaration.NUMBER_SCORES):
            _fade(sums, decay)
        elif kind == declaration.RESIDUALS:
            fade_residuals(sums, decay)
        else:
            for index in range(len(sums)):
                sums[index] *= decay
    add(kind, sums, rests, flags, values, 1.0)
    if kind == declaration.NUMBER_SCORES:
        _add_label(sums, values[VALUE], decay)


@inner
def finish(kind: int, sums: Floats, decay: float) -> None:
    """Let sums decay for a reading; for regression, the last one becomes the labels' spread Σw(y - ȳ)²."""
    if kind in (declaration.CLASS_SCORES, declaration.NUMBER_SCORES):
        _fade(sums, decay)
        if kind == declaration.NUMBER_SCORES:
            sums[SPREAD] = _spread_of(sums) * decay
    elif kind == declaration.RESIDUALS:
        fade_residuals(sums, decay)
    else:
        for index in range(len(sums)):
            sums[index] *= decay
