"""Sums of scores over all history, a window, or faded: beside an estimator's joint counts.

A vector of sums has `scores.SIZE` places. All are sums in the order of the outcomes, one after the other, so
cutting a sequence into calls changes no bit. Labels that are revised change no score.

Of numbers (`numbers`: the task is regression) there is also the labels' spread, Σ(y - ȳ)² with ȳ their mean
in memory: it is updated around the present mean, since a difference of large sums would have no correct
digit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.core.compiled.mathematics import power
from prequential.core.tables import outcomes, scores
from prequential.core.tables.outcomes import OUTCOME, Log

#: What is held of the labels' spread: their weight, their mean in two floats, and the spread.
_WEIGHT, _MEAN, _REST, _SPREAD = range(4)

#: A spread of this share of the sum of squares is what rounding leaves of 0.
_NOISE = 1e-30

#: In the ring of a window, of an outcome, beside what the log says in `scored`.
_RIGHT, _IS_POSITIVE = 4, 8

#: Columns of that ring, with probabilities …
_LOG_LOSS, _BRIER, _CONFIDENCE, _POSITIVE, _OF_LABEL = range(5)
#: … and with numbers.
_ERROR, _VALUE = range(2)


class Score(NamedTuple):
    """What is scored of one outcome, as in the log.

    Taken out of the log before it is passed on: to hand a table to a function costs a count of references for
    each of its columns, and the log has many.
    """

    flags: int
    right: bool
    is_positive: bool
    log_loss: float
    brier: float
    confidence: float
    positive: float
    weight: float
    error: float
    value: float


class AllSums(NamedTuple):
    """By sequence: sums over all of it."""

    sums: Floats  # (sequences, scores.SIZE)
    labels: Floats  # (sequences, 4)


class WindowSums(NamedTuple):
    """By sequence: what is scored of the last W outcomes; summed up when read, so that nothing drifts."""

    flags: Bytes  # (sequences, W), the m-th outcome that it has seen at (m - 1) mod W
    values: Floats  # (sequences, W, 5 of probabilities or 2 of numbers)
    n: Ints  # outcomes seen, in the window or before it


class FadedSums(NamedTuple):
    """By sequence: S = x + A·S at each outcome, scored or not, as of the last one that was scored.

    Decay is lazy as in `prequential.core.estimators.fading`, but of the vector as a whole.
    """

    sums: Floats  # (sequences, scores.SIZE)
    labels: Floats  # (sequences, 4)
    touched: Ints  # the number of that outcome
    n: Ints  # outcomes seen


def new_all(rows: int) -> AllSums:
    """Sums of nothing."""
    return AllSums(np.zeros((rows, scores.SIZE)), np.zeros((rows, 4)))


def new_window(rows: int, size: int, numbers: bool) -> WindowSums:
    """Empty windows of `size` outcomes."""
    width = _VALUE + 1 if numbers else _OF_LABEL + 1
    return WindowSums(
        np.zeros((rows, size), np.uint8), np.zeros((rows, size, width)), np.zeros(rows, np.int64)
    )


def new_faded(rows: int) -> FadedSums:
    """Sums of nothing."""
    of_rows = np.zeros(rows, np.int64)
    return FadedSums(np.zeros((rows, scores.SIZE)), np.zeros((rows, 4)), of_rows, of_rows.copy())


@inner
def _add_class(
    sums: Floats, flags: int, right: bool, log_loss: float, brier: float, confidence: float, weight: float
) -> None:
    """What an outcome with probabilities, or with a weight w = 1/propensity of its label, adds to sums."""
    if flags & outcomes.SCORED:
        place = scores.bin_of(confidence)
        sums[scores.SCORED] += 1.0
        sums[scores.LOG_LOSS] += log_loss
        sums[scores.BRIER] += brier
        sums[scores.IN_BIN + place] += 1.0
        sums[scores.CONFIDENCE + place] += confidence
        if right:
            sums[scores.RIGHT + place] += 1.0
    if flags & outcomes.WEIGHTED:
        sums[scores.WEIGHT] += weight
        sums[scores.WEIGHT_SQUARED] += weight * weight
        if right:
            sums[scores.WEIGHT_RIGHT] += weight


@inner
def _add_number(sums: Floats, error: float) -> None:
    """What a predicted number adds to sums."""
    sums[scores.SCORED] += 1.0
    sums[scores.ABSOLUTE] += abs(error)
    sums[scores.SQUARED] += error * error
    sums[scores.BIAS] += error


@inner
def score_of(log: Log, row: int) -> Score:
    """What is scored of the outcome in a row of the log."""
    return Score(
        np.int64(log.scored[row]), log.label[row] == log.prediction[row], log.is_positive[row] != 0,
        log.log_loss[row], log.brier[row], log.confidence[row], log.positive[row], log.weight[row],
        log.error[row], log.value[row],
    )  # fmt: skip


@inner
def _add_score(sums: Floats, one: Score, numbers: bool) -> None:
    """What an outcome adds to sums."""
    if numbers:
        _add_number(sums, one.error)
    else:
        _add_class(sums, one.flags, one.right, one.log_loss, one.brier, one.confidence, one.weight)


@inner
def _add_label(of: Floats, y: float, decay: float) -> None:
    """The next label, by the recursion of Welford (1962) with weights that fade.

    W = 1 + D·W; ȳ' = ȳ + (y - ȳ)/W; M = D·M + (y - ȳ)·(y - ȳ') with the decay D since the last label. The
    mean ȳ is two floats, the second what the first has no digits for: numbers may hardly differ and be far
    from 0.
    """
    of[_WEIGHT] = 1.0 + decay * of[_WEIGHT]
    apart = y - of[_MEAN] - of[_REST]
    rest = of[_REST] + apart / of[_WEIGHT]
    mean = of[_MEAN] + rest
    of[_REST] = rest - (mean - of[_MEAN])
    of[_MEAN] = mean
    of[_SPREAD] = decay * of[_SPREAD] + apart * (y - mean - of[_REST])


@inner
def _spread_of(of: Floats) -> float:
    """The labels' spread, 0 where all are the same as far as digits tell."""
    noise = _NOISE * of[_WEIGHT] * of[_MEAN] * of[_MEAN]
    return of[_SPREAD] if of[_SPREAD] > noise else 0.0


@inner
def _copy(source: Floats, target: Floats) -> None:
    for i in range(len(source)):
        target[i] = source[i]


@inner
def _any(sums: Floats) -> bool:
    """Whether sums are of anything."""
    return max(sums[scores.SCORED], sums[scores.WEIGHT]) >= scores.NOTHING


# All history


@inner
def add_all(table: AllSums, q: int, one: Score, numbers: bool) -> None:
    """Sequence `q` has an outcome that is scored so."""
    if one.flags:
        _add_score(table.sums[q], one, numbers)
        if numbers:
            _add_label(table.labels[q], one.value, 1.0)


@kernel
def update_all(table: AllSums, log: Log, rows: Ints32, numbers: bool) -> None:
    """Take over the outcomes of `rows` of the log."""
    for row in rows:
        if log.kind[row] == OUTCOME:
            add_all(table, log.sequence[row], score_of(log, row), numbers)


@inner
def read_all(table: AllSums, q: int, sums: Floats) -> bool:
    """Write the sums of sequence `q` into `sums`: whether they are of anything."""
    _copy(table.sums[q], sums)
    return _any(sums)


@inner
def spread_all(table: AllSums, q: int) -> float:
    """Σ(y - ȳ)² of the labels."""
    return _spread_of(table.labels[q])


# Windows


@inner
def add_window(table: WindowSums, q: int, one: Score, numbers: bool) -> None:
    """Sequence `q` has an outcome that is scored so; the oldest one leaves a full window."""
    place = table.n[q] % table.flags.shape[1]
    table.n[q] += 1
    flags = one.flags
    if flags:
        values = table.values[q, place]
        if numbers:
            values[_ERROR], values[_VALUE] = one.error, one.value
        else:
            values[_LOG_LOSS], values[_BRIER] = one.log_loss, one.brier
            values[_CONFIDENCE], values[_POSITIVE] = one.confidence, one.positive
            values[_OF_LABEL] = one.weight
            if one.right:
                flags |= _RIGHT
            if one.is_positive:
                flags |= _IS_POSITIVE
    table.flags[q, place] = flags


@kernel
def update_window(table: WindowSums, log: Log, rows: Ints32, numbers: bool) -> None:
    """Take over the outcomes of `rows` of the log."""
    for row in rows:
        if log.kind[row] == OUTCOME:
            add_window(table, log.sequence[row], score_of(log, row), numbers)


@inner
def _span(table: WindowSums, q: int) -> tuple[int, int]:
    """The outcomes in the window from the oldest to the newest: numbers first … last - 1, from 0."""
    return max(0, table.n[q] - table.flags.shape[1]), table.n[q]


@inner
def read_window(table: WindowSums, q: int, numbers: bool, sums: Floats) -> bool:
    """Write the sums of sequence `q` into `sums`, from the oldest on: whether they are of anything."""
    sums[:] = 0.0
    size = table.flags.shape[1]
    first, last = _span(table, q)
    for m in range(first, last):
        place = m % size
        flags, values = table.flags[q, place], table.values
        if numbers:
            if flags:
                _add_number(sums, values[q, place, _ERROR])
        else:
            _add_class(
                sums, flags, (flags & _RIGHT) != 0, values[q, place, _LOG_LOSS], values[q, place, _BRIER],
                values[q, place, _CONFIDENCE], values[q, place, _OF_LABEL],
            )  # fmt: skip
    return _any(sums)


@inner
def spread_window(table: WindowSums, q: int) -> float:
    """Σ(y - ȳ)² of the labels (numbers) in the window."""
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, total, least, most = 0, 0.0, np.inf, -np.inf
    for m in range(first, last):
        if table.flags[q, m % size]:
            y = table.values[q, m % size, _VALUE]
            n, total, least, most = n + 1, total + y, min(least, y), max(most, y)
    if n == 0 or least == most:
        return 0.0
    mean, spread = total / n, 0.0
    for m in range(first, last):
        if table.flags[q, m % size]:
            apart = table.values[q, m % size, _VALUE] - mean
            spread += apart * apart
    return spread


@inner
def sides(table: WindowSums, q: int, p: Floats, is_positive: Bytes) -> int:
    """Write p of the positive class of the window's scored outcomes, and whether that was the label.

    From the oldest on, there is room for W. Returns how many they are; -1 if their labels, as they were when
    these were scored, don't say one class that is positive.
    """
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, said = 0, 0
    for m in range(first, last):
        flags = table.flags[q, m % size]
        if flags & outcomes.SCORED:
            which = flags & (outcomes.NO_POSITIVE | outcomes.POSITIVE_IS_ONE)
            if which & outcomes.NO_POSITIVE or (n and which != said):
                return -1
            said = which
            p[n] = table.values[q, m % size, _POSITIVE]
            is_positive[n] = (flags & _IS_POSITIVE) != 0
            n += 1
    return n


# Fading


@inner
def add_faded(table: FadedSums, q: int, one: Score, numbers: bool, factor: float) -> None:
    """Sequence `q` has an outcome that is scored so."""
    n = table.n[q] + 1
    table.n[q] = n
    if one.flags:
        sums = table.sums[q]
        decay = power(factor, n - table.touched[q])
        table.touched[q] = n
        _fade(sums, decay)
        _add_score(sums, one, numbers)
        if numbers:
            _add_label(table.labels[q], one.value, decay)


@inner
def _fade(sums: Floats, decay: float) -> None:
    """Multiply sums by A^gap; all are 0 where no outcome has a weight.

    A sum by itself may be small: errors have the scale of their labels.
    """
    for place in range(len(sums)):
        sums[place] *= decay
    if not _any(sums):
        sums[:] = 0.0


@kernel
def update_faded(table: FadedSums, log: Log, rows: Ints32, numbers: bool, factor: float) -> None:
    """Take over the outcomes of `rows` of the log."""
    for row in rows:
        if log.kind[row] == OUTCOME:
            add_faded(table, log.sequence[row], score_of(log, row), numbers, factor)


@inner
def read_faded(table: FadedSums, q: int, factor: float, sums: Floats) -> bool:
    """Write the present sums of sequence `q` into `sums`: whether they are of anything."""
    _copy(table.sums[q], sums)
    _fade(sums, power(factor, table.n[q] - table.touched[q]))
    return _any(sums)


@inner
def spread_faded(table: FadedSums, q: int, factor: float) -> float:
    """Σw(y - ȳ)² of the labels with their weights w."""
    return _spread_of(table.labels[q]) * power(factor, table.n[q] - table.touched[q])
