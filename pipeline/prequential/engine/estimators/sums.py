"""Payloads that are sums: of losses, or of scores next to an estimator's counts.

All sums are added in the order of the outcomes, so splitting a sequence into calls changes no bit. Memories
in which all outcomes count the same have exact sums: an outcome can be removed, and can come back.

A vector of losses has one more place for their number, or weight. A vector of scores has `scores.SIZE`
places. For regression, it also has the labels' spread Σ(y - ȳ)², with their mean ȳ in memory. A spread that
fades is updated around the present mean, since a difference of large sums would have no correct digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.exact_sums import add_exactly
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inlined, inner, kernel
from prequential.engine.compiled.repeated import Run, run
from prequential.engine.estimators import histograms
from prequential.engine.estimators.declaration import (
    CLASS_SCORES,
    COUNTS,
    LOSSES,
    NO_CELL,
    NO_OUTCOME,
    NUMBER_SCORES,
    RESIDUALS,
    RIGHT_OR_WRONG,
    WITHDRAWN,
    Additions,
    CountCodes,
    Payload,
)
from prequential.engine.estimators.indexes import ALL_CELLS, CellNumbers
from prequential.engine.estimators.residuals import add_residual, fade_residuals
from prequential.engine.measures import costs
from prequential.engine.measures.positive import Positives
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import KEY_CAPACITY, REVISION, UNREVISED, Log, cell_of
from prequential.engine.tables.scores import ERROR, LABELS, MEAN, REST, SPREAD, VALUE
from prequential.engine.tables.store import NO_CLASS
from prequential.topics.errors import existing

#: Flags of an outcome in `Additions`, in addition to those in the log's column `scored`. Losses have
#: `outcomes.SCORED`; losses of 0 and 1 have `RIGHT` for 0.
RIGHT, IS_POSITIVE = 4, 8

#: The kept numbers of an outcome with probabilities, or with a weight. If configured, the last one is the
#: share of orders in which the label is among the first k. (For regression see `scores.numbers_of`.)
LOG_LOSS, BRIER, CONFIDENCE, POSITIVE, OF_LABEL, TIED = range(6)
#: A spread below this share of the sum of squares is a rounding error: the true spread is 0.
_NOISE = 1e-30

#: The payloads of sums; `losses` gives further ones.
ONE_RIGHT_OR_WRONG = Payload(RIGHT_OR_WRONG, 2)
OF_CLASSES = Payload(CLASS_SCORES, scores.SIZE, OF_LABEL + 1, scores.RESTS)
OF_TIES = Payload(CLASS_SCORES, scores.SIZE, TIED + 1, scores.RESTS)
OF_NUMBERS = Payload(NUMBER_SCORES, SPREAD + 1, VALUE + 1, scores.RESTS_OF_NUMBERS)


def losses(count: int) -> Payload:
    """The payload of `count` losses of each outcome: their sums, followed by their number or weight."""
    return Payload(LOSSES, count + 1, count)


#: Costs by value: an outcome adds its cost, and 1 if it has a value, at the places of `measures.costs`.
OF_COSTS = losses(costs.SUMS - 1)._replace(rests=scores.RESTS_OF_COSTS)


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
        into.sequence[i] = NO_OUTCOME
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
        into.sequence[i] = NO_OUTCOME
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
def add(kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, sign: float) -> float:
    """Add an outcome with these flags, not 0, to sums, or remove it; returns what was lost, usually 0.

    `rests` and `sign` are those of `scores.add_probabilities`. For regression, the label isn't added.
    """
    lost = 0.0
    if kind == LOSSES:
        for i in range(len(values)):
            add_exactly(sums, rests, i, sign * values[i])
        sums[len(values)] += sign
    elif kind == RIGHT_OR_WRONG:
        if not flags & RIGHT:
            sums[0] += sign
        sums[1] += sign
    elif kind == NUMBER_SCORES:
        lost = scores.add_number(sums, rests, sign, flags, values)
    elif kind == RESIDUALS:
        add_residual(sums, values[ERROR], values[VALUE])
    else:
        share = values[TIED] if len(values) > TIED else 0.0
        scores.add_probabilities(
            sums, rests, sign, flags, flags & RIGHT != 0, values[LOG_LOSS], values[BRIER],
            values[CONFIDENCE], values[OF_LABEL], share,
        )  # fmt: skip
    return lost


@inlined
def add_with_label(
    kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, sign: float
) -> float:
    """As `add`, but also adds or removes the label for regression, for exact sums."""
    lost = add(kind, sums, rests, flags, values, sign)
    if kind == NUMBER_SCORES:
        lost += scores.add_label(sums, rests, sign, values[VALUE])
    return lost


@inlined
def fold(kind: int, sums: Floats, rests: Floats, flags: int, values: Floats, decay: float) -> None:
    """Compute S = x + decay·S, for an outcome with these flags, not 0; `rests` is empty."""
    if decay != 1.0:
        if kind in (CLASS_SCORES, NUMBER_SCORES):
            _fade(sums, decay)
        elif kind == RESIDUALS:
            fade_residuals(sums, decay)
        else:
            for place in range(len(sums)):
                sums[place] *= decay
    add(kind, sums, rests, flags, values, 1.0)
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


class LogRows:
    """Rows of the log for sequences of one plan; each payload is computed when it is first needed.

    `capacity` is the room for classes; `numbers`: the task is regression. `run` calls each loop that reads
    the rows. `positives` has the costs of outcomes, for estimators of costs by value. `extended`: how many
    values more than usual are kept of each outcome (`measures.reading.extends_scores`). `joint`: the numbers
    of the estimators' joint cells.
    """

    def __init__(
        self, log: Log, rows: Ints32, capacity: int, numbers: bool, run: Run = run,
        positives: Positives | None = None, extended: int = 0, joint: CellNumbers = ALL_CELLS,
    ) -> None:  # fmt: skip
        self.log, self.rows = log, rows
        self.numbers, self.run = numbers, run
        self._capacity, self._positives, self._extended = capacity, positives, extended
        self._joint = joint
        #: By sign, if details need them: pairs of neighbours.
        self.pairs: Sequence[CountCodes] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def cells(self) -> CountCodes:
        """The joint cells to which the rows add 1, or between which they move an outcome."""
        into = _new_codes(len(self.rows))
        capacity = KEY_CAPACITY if self._joint.places else self._capacity
        self.run(joint_codes, self.log, self.rows, capacity, into)
        if self._joint.places:
            self._joint.number(into)
        return into

    @cached_property
    def histogram(self) -> CountCodes:
        """The counts of a histogram of scores that the rows change."""
        into = _new_codes(len(self.rows))
        self.run(histograms.histogram_codes, self.log, self.rows, into)
        return into

    @cached_property
    def scores(self) -> Additions:
        """The additions of the rows to sums of scores; `flags` is 0 for rows without scores."""
        into = additions(len(self.rows), payload_of_scores(self.numbers, self._extended))
        self.run(scores_of, self.log, self.rows, self.numbers, into)
        return into

    @cached_property
    def costs(self) -> Additions:
        """The additions of the rows to sums of costs by value."""
        positives = existing(self._positives, "the positive class of each stream")
        into = additions(len(self.rows), OF_COSTS)
        self.run(costs_of, self.log, self.rows, positives, into)
        return into


def payload_of_cells(capacity: int, joint: CellNumbers) -> Payload:
    """The payload of joint cells: by label, prediction, and which baselines were right."""
    return Payload(COUNTS, joint.places or 4 * capacity * capacity)


def payload_of_scores(numbers: bool, extended: int = 0) -> Payload:
    """The payload of scores for a task, with so many values of each outcome more than usual."""
    usual = OF_NUMBERS if numbers else OF_CLASSES
    return usual._replace(kept=usual.kept + extended)


@kernel
def joint_codes(log: Log, rows: Ints32, capacity: int, into: CountCodes) -> None:
    """Write the joint cell of each row of the log, with room for `capacity` classes."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], log.number[row]
        label, prediction, bits = log.label[row], log.prediction[row], log.bits[row]
        into.cell[i] = cell_of(label, prediction, bits, capacity) if label != NO_CLASS else WITHDRAWN
        into.revised[i], into.known[i] = NO_CELL, log.known[row]
        if log.kind[row] == UNREVISED:
            into.cell[i] = NO_CELL
        elif log.kind[row] == REVISION:
            label = log.revised[row]
            into.revised[i] = cell_of(label, prediction, bits, capacity) if label != NO_CLASS else WITHDRAWN


def _new_codes(rows: int) -> CountCodes:
    return CountCodes(
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int32),
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.uint8),
    )  # fmt: skip


def unrevised(sequence: Ints32, t1: Ints, cell: npt.NDArray[np.int32]) -> CountCodes:
    """Codes of counts without revisions and baselines, from three columns of (n,)."""
    rows = len(cell)
    return CountCodes(
        sequence, t1, cell, np.full(rows, NO_CELL, np.int32), np.zeros(rows, np.int64),
        np.zeros(rows, np.uint8),
    )  # fmt: skip


def places(capacity: int, new_capacity: int) -> Ints:
    """The places of joint cells in a table with room for more classes, by their places in a smaller one.

    >>> places(1, 2), places(2, 4)[[4, 8]]
    (array([0, 1, 2, 3]), array([ 4, 16]))
    """
    numbers = np.arange(4 * new_capacity * new_capacity).reshape(new_capacity, new_capacity, 4)
    return numbers[:capacity, :capacity].ravel()
