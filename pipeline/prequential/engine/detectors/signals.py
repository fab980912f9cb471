"""Signals, which detectors watch: a value for each outcome (`docs/reference/detectors.md`).

For the i-th of the rows, a signal writes `values[i]`, and into `fed[i]` whether the detector gets the value.
A revision feeds no value, and doesn't change earlier ones.

The signal `error` is the outcome's own loss. The errors of estimators are means of these losses; each has a
value after each outcome. A ratio is the ratio of two such errors.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.estimators.declaration import NO_OUTCOME, Additions
from prequential.engine.estimators.measuring import MeasuredValues
from prequential.engine.estimators.sums import RIGHT
from prequential.engine.measures.declaration import DEFINED
from prequential.engine.measures.losses import ABSOLUTE, ERROR
from prequential.engine.measures.losses import own_loss as loss_of
from prequential.engine.measures.per_class import Positives
from prequential.engine.measures.registry import worse
from prequential.engine.tables.outcomes import OUTCOME, SCORED, Log

#: The first outcomes of a sequence, whose median gives the scale of its losses to about 12%.
SCALE_OUTCOMES = 100

#: The largest ratio; larger ones count as this, since detectors add values up.
LARGEST = 1e200


@kernel
def error(log: Log, rows: Ints32, loss: int, values: Floats, fed: Bytes) -> None:
    """The signal `error`: the outcome's own loss, for each of `rows` of the log.

    `loss` is `ERROR`, `ABSOLUTE` or `SQUARED` of `engine.measures.losses`. It writes `values`, (n,)
    float64, and `fed`, (n,) uint8, which is 1 for outcomes. Revisions have the value 0 and aren't fed.
    """
    for i in range(len(rows)):
        row = rows[i]
        fed[i] = log.kind[row] == OUTCOME
        if not fed[i]:
            values[i] = 0.0
        elif loss == ERROR:
            values[i] = 1.0 if log.label[row] != log.prediction[row] else 0.0
        elif loss == ABSOLUTE:
            values[i] = abs(log.error[row])
        else:
            values[i] = log.error[row] * log.error[row]


@kernel
def errors(log: Log, rows: Ints32, binary: bool, losses: Floats, outcome: Bytes, into: Additions) -> None:
    """Write the additions to sums from the losses that `error` wrote; `binary`: losses are 0 and 1."""
    for i in range(len(rows)):
        into.sequence[i] = NO_OUTCOME
        if outcome[i]:
            into.sequence[i], into.t1[i] = log.sequence[rows[i]], log.t1[rows[i]]
            into.flags[i] = SCORED
            if not binary:
                into.values[i, 0] = losses[i]
            elif losses[i] == 0.0:
                into.flags[i] = SCORED | RIGHT


@kernel
def mean(read: Floats, outcome: Bytes, values: Floats) -> None:
    """Write an estimator's error after each outcome, from the sum and the weight of its losses."""
    for i in range(len(outcome)):
        if outcome[i]:
            values[i] = read[i, 0] / read[i, 1]


@kernel
def own_loss(log: Log, rows: Ints32, measure: int, positives: Positives, values: Floats, fed: Bytes) -> None:
    """`brier`, `recall`, …: the loss of the outcome itself that the measure is the mean of, or 1 less it.

    Fed where the outcome counts for the measure: with probabilities; with a label (recall, specificity) or a
    prediction (precision) of the class in question.
    """
    for i in range(len(rows)):
        row = rows[i]
        values[i] = 0.0
        fed[i] = 0
        if log.kind[row] != OUTCOME:
            continue
        value, counts = loss_of(measure, log, row, positives, positives.owner[log.sequence[row]])
        if counts:
            values[i], fed[i] = value, 1


class ScaledError(NamedTuple):
    """By sequence: the usual size of its losses."""

    reference: Floats  # (sequences, `SCALE_OUTCOMES`): its first outcomes' losses above 0, in ascending order
    above: Ints  # number of these losses
    n: Ints  # outcomes seen
    scale: Floats  # their median, after `SCALE_OUTCOMES` outcomes; 0: none of these was above 0


class Ratio(NamedTuple):
    """By sequence: outcomes seen."""

    n: Ints


@inner
def _note(table: ScaledError, q: int, loss: float) -> None:
    """Insert a loss above 0 of one of the first outcomes of sequence `q` in ascending order."""
    table.n[q] += 1
    reference, count = table.reference[q], table.above[q]
    if loss > 0.0:
        slot = count
        while slot > 0 and reference[slot - 1] > loss:
            reference[slot] = reference[slot - 1]
            slot -= 1
        reference[slot] = loss
        count += 1
        table.above[q] = count
    if table.n[q] == SCALE_OUTCOMES and count > 0:
        table.scale[q] = 0.5 * (reference[(count - 1) // 2] + reference[count // 2])


@kernel
def scaled_error(
    table: ScaledError, log: Log, rows: Ints32, losses: Floats, outcome: Bytes, values: Floats, fed: Bytes
) -> None:
    """`scaled_error`: x/(x + s) of a loss x, from 0 to 1 and 1/2 where x = s; `losses`, `outcome` as `error`.

    s is the median of the losses above 0 among the sequence's first `SCALE_OUTCOMES` outcomes, which are
    not fed. If all of them were 0, s is 0.
    """
    for i in range(len(rows)):
        fed[i] = 0
        if outcome[i]:
            q = log.sequence[rows[i]]
            if table.n[q] < SCALE_OUTCOMES:
                _note(table, q, losses[i])
            else:
                table.n[q] += 1
                fed[i] = 1
                values[i] = losses[i] / (losses[i] + table.scale[q]) if losses[i] > 0.0 else 0.0


@kernel
def ratio(
    table: Ratio, log: Log, rows: Ints32, short: Floats, long: Floats, outcome: Bytes, min_outcomes: int,
    values: Floats, fed: Bytes,
) -> None:  # fmt: skip
    """`SHORT/LONG`: short-term over long-term error (2013 paper, section 5.3, Algorithm 4).

    It is fed once the long-term error is above 0 and `min_outcomes` outcomes have been seen.
    """
    for i in range(len(rows)):
        fed[i] = 0
        if outcome[i]:
            q = log.sequence[rows[i]]
            table.n[q] += 1
            if long[i] > 0.0 and table.n[q] >= min_outcomes:
                values[i] = min(short[i] / long[i], LARGEST)
                fed[i] = 1


# ESTIMATOR:MEASURE: a separate estimator, and its measure after each outcome


@kernel
def feed(measured: MeasuredValues, measure: int, outcome: Bytes, values: Floats, fed: Bytes) -> None:
    """Write a measure (a column) where it has a value, turned so that it grows when the model gets worse."""
    for i in range(len(outcome)):
        fed[i] = 0
        if outcome[i] and measured.reasons[i, measure] == DEFINED:
            values[i], fed[i] = worse(measure, measured.values[i, measure]), 1
