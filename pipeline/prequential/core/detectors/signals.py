"""What detectors watch: a value for each outcome (`docs/semantics.md`).

A signal writes `values[i]`, and whether it is fed to the detector into `fed[i]`, for the i-th of the rows. A
revision feeds nothing: signals keep what they saw.

`error` is the outcome's own loss, and what the errors of estimators are made of; each of those has a value
after each outcome. A ratio is made of the values of two of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.core.compiled.kernel import (
    Bytes,
    Floats,
    Ints,
    Ints32,
    allocating,
    inner,
    inner_allocating,
    kernel,
    zeros,
)
from prequential.core.estimators import all_history, fading, measuring, sums, window
from prequential.core.estimators.all_history import AllHistory
from prequential.core.estimators.fading import Fading
from prequential.core.estimators.measuring import Measured
from prequential.core.estimators.sums import AllSums, FadedSums, WindowSums
from prequential.core.estimators.window import Window
from prequential.core.measures import DEFINED, INDEX, LESS_IS_BETTER, NAMES, NO_POSITIVE
from prequential.core.measures.positive import Positives
from prequential.core.tables.outcomes import OUTCOME, SCORED, Log, cell_of
from prequential.core.tables.streams import ONE, TRUE

#: Losses of an outcome: of classes 0 or 1, whether it was wrong; of numbers |e| or e², e = prediction -
#: label.
WRONG, ABSOLUTE, SQUARED = range(3)

#: First outcomes of a sequence that say how large its losses are: their median is then known to some 12 %.
REFERENCE = 100

#: A ratio beyond it is taken for this: detectors add values up.
LARGEST = 1e200

#: Measures (columns) of which less is better: these are signals as they are; and those that are made of sums.
_LOSSES = tuple(INDEX[name] for name in LESS_IS_BETTER if name != "bias")
_OF_SUMS = frozenset(
    ("log_loss", "brier", "ece", "mae", "mse", "rmse", "r2", "bias", "auc", "ipw_accuracy", "ipw_n")
)
_MAE, _MSE, _BRIER, _LOG_LOSS, _PRECISION, _SPECIFICITY = (
    INDEX[name] for name in ("mae", "mse", "brier", "log_loss", "precision", "specificity")
)
_AUC, _BIAS, _MEASURES = INDEX["auc"], INDEX["bias"], len(NAMES)


@kernel
def error(log: Log, rows: Ints32, loss: int, values: Floats, fed: Bytes) -> None:
    """`error`: the outcome's own loss."""
    for i in range(len(rows)):
        row = rows[i]
        fed[i] = log.kind[row] == OUTCOME
        if not fed[i]:
            values[i] = 0.0
        elif loss == WRONG:
            values[i] = 1.0 if log.label[row] != log.prediction[row] else 0.0
        elif loss == ABSOLUTE:
            values[i] = abs(log.error[row])
        else:
            values[i] = log.error[row] * log.error[row]


@inner
def _is_positive(positives: Positives, sequence: int, code: int) -> bool:
    """Whether a class is the configured positive one; where none is, whether it is `true` or `1`."""
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    return positives.sort[positives.first[stream] + code] in (TRUE, ONE)


@kernel
def own_loss(
    log: Log, rows: Ints32, measure: int, positives: Positives, values: Floats, fed: Bytes
) -> None:
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
        if measure == _MAE:
            values[i], fed[i] = abs(log.error[row]), 1
        elif measure == _MSE:
            values[i], fed[i] = log.error[row] * log.error[row], 1
        elif measure in (_BRIER, _LOG_LOSS):
            fed[i] = log.scored[row] & SCORED
            if fed[i]:
                values[i] = log.brier[row] if measure == _BRIER else log.log_loss[row]
        else:
            label = _is_positive(positives, log.sequence[row], log.label[row])
            prediction = _is_positive(positives, log.sequence[row], log.prediction[row])
            fed[i] = prediction if measure == _PRECISION else label != (measure == _SPECIFICITY)
            if fed[i]:
                values[i] = 1.0 if label != prediction else 0.0


class AllError(NamedTuple):
    """By sequence: the losses of all its outcomes."""

    total: Floats
    n: Ints


class WindowError(NamedTuple):
    """By sequence: the losses of its last W outcomes."""

    ring: npt.NDArray[np.generic]  # (sequences, W), the m-th at (m - 1) mod W: float64, of 0 and 1 uint8
    wrong: Ints  # of 0 and 1: their sum
    n: Ints  # outcomes seen, in the window or before it


class FadingError(NamedTuple):
    """By sequence: S = x + A·S and N = 1 + A·N at each outcome of loss x."""

    total: Floats  # S
    n: Floats  # N


class ScaledError(NamedTuple):
    """By sequence: the usual size of its losses."""

    reference: Floats  # (sequences, `REFERENCE`): losses above 0 of its first outcomes, the smallest first
    above: Ints  # how many they are
    n: Ints  # outcomes seen
    scale: Floats  # their median, when there are `REFERENCE` outcomes; 0: none of these was above 0


class Ratio(NamedTuple):
    """By sequence: outcomes seen."""

    n: Ints


def new_all_error(rows: int) -> AllError:
    """No losses."""
    return AllError(np.zeros(rows), np.zeros(rows, np.int64))


def new_window_error(rows: int, size: int, loss: int) -> WindowError:
    """Empty windows of `size` outcomes."""
    ring: npt.NDArray[np.generic] = np.zeros((rows, size), np.uint8 if loss == WRONG else np.float64)
    return WindowError(ring, np.zeros(rows, np.int64), np.zeros(rows, np.int64))


def new_fading_error(rows: int) -> FadingError:
    """No losses."""
    return FadingError(np.zeros(rows), np.zeros(rows))


def new_scaled_error(rows: int) -> ScaledError:
    """No losses."""
    return zeros(ScaledError, rows, reference=REFERENCE)


def new_ratio(rows: int) -> Ratio:
    """No outcomes."""
    return Ratio(np.zeros(rows, np.int64))


@kernel
def all_error(
    table: AllError, log: Log, rows: Ints32, losses: Floats, fed: Bytes, values: Floats
) -> None:
    """`all`: the mean loss of all outcomes so far, after each; `losses` and `fed` are those of `error`."""
    for i in range(len(rows)):
        if fed[i]:
            q = log.sequence[rows[i]]
            table.total[q] += losses[i]
            table.n[q] += 1
            values[i] = table.total[q] / table.n[q]


@kernel
def window_error(
    table: WindowError, log: Log, rows: Ints32, losses: Floats, fed: Bytes, loss: int, values: Floats
) -> None:
    """`window:W`: the mean loss of the last W outcomes, after each; `losses` and `fed` are those of `error`.

    Sums of 0 and 1 lose what leaves the window. Those of numbers would drift: they are added up anew from the
    oldest to the newest, so that they are a function of what is in the window.
    """
    size = table.ring.shape[1]
    for i in range(len(rows)):
        if not fed[i]:
            continue
        q = log.sequence[rows[i]]
        place = table.n[q] % size
        if loss == WRONG:
            if table.n[q] >= size:
                table.wrong[q] -= np.int64(table.ring[q, place])
            table.wrong[q] += np.int64(losses[i])
        table.ring[q, place] = losses[i]
        table.n[q] += 1
        n = min(size, table.n[q])
        total = float(table.wrong[q])
        if loss != WRONG:
            first = (table.n[q] - n) % size  # the oldest
            for place in range(first, min(size, first + n)):
                total += table.ring[q, place]
            for place in range(first + n - size):
                total += table.ring[q, place]
        values[i] = total / n


@kernel
def fading_error(
    table: FadingError, log: Log, rows: Ints32, losses: Floats, fed: Bytes, factor: float, values: Floats
) -> None:
    """`fading:A`: the faded error S/N after each outcome (2013 paper, eq. 1)."""
    for i in range(len(rows)):
        if fed[i]:
            q = log.sequence[rows[i]]
            table.total[q] = losses[i] + factor * table.total[q]
            table.n[q] = 1.0 + factor * table.n[q]
            values[i] = table.total[q] / table.n[q]


@inner
def _note(table: ScaledError, q: int, loss: float) -> None:
    """One of the first outcomes of sequence `q`: a loss above 0 goes to its place by size."""
    table.n[q] += 1
    reference, count = table.reference[q], table.above[q]
    if loss > 0.0:
        place = count
        while place > 0 and reference[place - 1] > loss:
            reference[place] = reference[place - 1]
            place -= 1
        reference[place] = loss
        count += 1
        table.above[q] = count
    if table.n[q] == REFERENCE and count > 0:
        table.scale[q] = 0.5 * (reference[(count - 1) // 2] + reference[count // 2])


@kernel
def scaled_error(
    table: ScaledError, log: Log, rows: Ints32, losses: Floats, outcome: Bytes, values: Floats, fed: Bytes
) -> None:
    """`scaled_error`: x/(x + s) of a loss x, from 0 to 1 and 1/2 where x = s; `losses`, `outcome` as `error`.

    s is the median of the losses above 0 among the sequence's first `REFERENCE` outcomes; none of these is
    fed. Where all were 0, so is s.
    """
    for i in range(len(rows)):
        fed[i] = 0
        if outcome[i]:
            q = log.sequence[rows[i]]
            if table.n[q] < REFERENCE:
                _note(table, q, losses[i])
            else:
                table.n[q] += 1
                fed[i] = 1
                values[i] = losses[i] / (losses[i] + table.scale[q]) if losses[i] > 0.0 else 0.0


@kernel
def ratio(
    table: Ratio,
    log: Log,
    rows: Ints32,
    short: Floats,
    long: Floats,
    outcome: Bytes,
    min_outcomes: int,
    values: Floats,
    fed: Bytes,
) -> None:
    """`SHORT/LONG`: short-term over long-term error (2013 paper, section 5.3, Algorithm 4).

    Of the errors of two estimators where `outcome` is 1 (what `error` writes into `fed`). It is fed once the
    long-term error is above 0 and `min_outcomes` outcomes have been seen.
    """
    for i in range(len(rows)):
        fed[i] = 0
        if outcome[i]:
            q = log.sequence[rows[i]]
            table.n[q] += 1
            if long[i] > 0.0 and table.n[q] >= min_outcomes:
                values[i] = min(short[i] / long[i], LARGEST)
                fed[i] = 1


# ESTIMATOR:MEASURE: an estimator of its own, and the measure of it after each outcome


def is_of_sums(measure: str) -> bool:
    """Whether a measure is made of sums of scores, and not of joint cells alone."""
    return measure in _OF_SUMS


@inner
def _worse(measure: int, value: float) -> float:
    """A measure's value, turned so that it grows when the model gets worse."""
    if measure == _BIAS:
        return abs(value)
    for loss in _LOSSES:
        if measure == loss:
            return value
    return 1.0 - value


@inner_allocating
def _room() -> tuple[Ints, Measured]:
    """Room for the number of one sequence, and for its measures."""
    return np.zeros(1, np.int64), Measured(
        np.zeros(1), np.zeros((1, _MEASURES)), np.zeros((1, _MEASURES), np.int64)
    )


@inner
def _feed(found: Measured, measure: int, i: int, values: Floats, fed: Bytes) -> None:
    """The i-th row's value, where the measure is defined."""
    if found.reasons[0, measure] == DEFINED:
        values[i], fed[i] = _worse(measure, found.values[0, measure]), 1


@allocating
def measure_all(
    table: AllHistory,
    scored: AllSums,
    log: Log,
    rows: Ints32,
    capacity: int,
    positives: Positives,
    numbers: bool,
    summed: bool,
    measure: int,
    values: Floats,
    fed: Bytes,
) -> None:
    """`all:MEASURE`: what grows when the model gets worse; fed where the measure (a column) is defined.

    `scored` is kept and used if the measure is of sums (`summed`).
    """
    one, found = _room()
    for i in range(len(rows)):
        row = rows[i]
        fed[i] = 0
        if log.kind[row] == OUTCOME:
            q = log.sequence[row]
            cell = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
            all_history.add(table, q, cell)
            all_history.note_known(table, q, log.known[row])
            if summed:
                sums.add_all(scored, q, sums.score_of(log, row), numbers)
            one[0] = q
            measuring.measure_all(
                table, scored, one, capacity, positives, numbers, False, summed, found
            )
            _feed(found, measure, i, values, fed)


@allocating
def measure_window(
    table: Window,
    scored: WindowSums,
    log: Log,
    rows: Ints32,
    capacity: int,
    positives: Positives,
    numbers: bool,
    summed: bool,
    measure: int,
    values: Floats,
    fed: Bytes,
) -> None:
    """`window:W:MEASURE`: as `measure_all`."""
    one, found = _room()
    for i in range(len(rows)):
        row = rows[i]
        fed[i] = 0
        if log.kind[row] == OUTCOME:
            q = log.sequence[row]
            cell = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
            window.add(table, q, cell)
            all_history.note_known(table, q, log.known[row])
            if summed:
                sums.add_window(scored, q, sums.score_of(log, row), numbers)
            one[0] = q
            measuring.measure_window(
                table, scored, one, capacity, positives, numbers, False, summed, measure == _AUC, found
            )
            _feed(found, measure, i, values, fed)


@allocating
def measure_fading(
    table: Fading,
    scored: FadedSums,
    log: Log,
    rows: Ints32,
    capacity: int,
    positives: Positives,
    numbers: bool,
    summed: bool,
    measure: int,
    factor: float,
    values: Floats,
    fed: Bytes,
) -> None:
    """`fading:A:MEASURE`: as `measure_all`."""
    one, found = _room()
    for i in range(len(rows)):
        row = rows[i]
        fed[i] = 0
        if log.kind[row] == OUTCOME:
            q = log.sequence[row]
            cell = cell_of(log.label[row], log.prediction[row], log.bits[row], capacity)
            fading.add(table, q, cell, factor)
            all_history.note_known(table, q, log.known[row])
            if summed:
                sums.add_faded(scored, q, sums.score_of(log, row), numbers, factor)
            one[0] = q
            measuring.measure_fading(
                table, scored, one, capacity, positives, numbers, False, summed, factor, found
            )
            _feed(found, measure, i, values, fed)
