"""Estimates of periods before their labels were there: their errors, and how unusual a deviation is.

A *maturity* is the time since a period's end, as a share of the horizon. Before its end, the share of the
period that has passed counts. Both make its *stage*. The first estimate at each stage is kept until the
period is final. Then it is graded: its error is |estimate - final|/scale. Intervals follow
from the last 50 of these errors, by conformal prediction (Vovk, Gammerman and Shafer 2005): a quantile of
them times the scale. The quantile's level follows the coverage (adaptive conformal inference: Gibbs and
Candès 2021), but has a lower bound for intervals that have been too wide.

The tables have the mean and variance of about the last 50 periods, by model, signal and maturity. They
include all dependence between predictions and labels. A signal is the deviation less this mean, in standard
deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Floats, Ints, kernel

#: Lower bounds of maturities in 28ths of the horizon after the period's end.
MATURITIES = (0, 1, 2, 6, 14)
_PARTS = 28

#: Lower bounds of stages before a period's end, in eighths of it. Stages at maturities follow.
_PASSED, _EIGHTHS = (0, 1, 4, 7), 8
BEFORE_END = len(_PASSED)
STAGES = BEFORE_END + len(MATURITIES)

#: Columns of an estimate: its value, its scale, half its interval's width, the two naive estimates, and the
#: weight of the labels' correction in it.
_ESTIMATE, _SCALE, _HALF, _LABELLED_SO_FAR, _LAST_FINAL, _WEIGHT = range(6)
_COLUMNS = 6

#: The number of final periods that an interval uses, and the fewest that give one.
FINALS, LEAST = 50, 20

#: Coverage of intervals, the step of their level, and the level's bounds. Without a lower bound, the level
#: would fall in quiet periods. After a change, intervals would then be too narrow until final periods raise
#: the level, a horizon later.
LEVEL = 0.9
_STEP, _LOWEST, _HIGHEST = 0.05, 0.85, 1.0

#: The largest rounding error of a level.
_ROUNDING = 1e-9

#: If a final value is an estimate, its difference from a kept one has at least this share of the variance.
_LEAST_APART = 0.01

#: The largest number of four bytes.
_LARGEST = float(np.finfo(np.float32).max)

#: Later than every clock.
NEVER = 1 << 62

#: While there are too few final periods, intervals are graded but not published. Half their width in scales
#: is 1.3 times that of a normal distribution.
_FIRST_HALF = 1.645 * 1.3


#: The naive answers, in the order of their errors.
_NAIVE = "labelled_so_far", "last_final"


class ReportedEstimates(NamedTuple):
    """By period and measure: rows of a pool, whose owners are periods and whose keys are measures."""

    what: Any  # (rows, stages, 6), of four bytes; NaN: there was no estimate


class MaturityRecords(NamedTuple):
    """By model and measure: rows of a pool, whose owners are models and whose keys are measures."""

    scores: Any  # (rows, stages, FINALS), of four bytes: |estimate - final|/scale, negative: not covered
    finals: Ints  # (rows, stages): number of graded estimates
    level: Floats  # (rows, stages): of the quantile
    errors: Floats  # (rows, stages, 3): mean |x - final| of estimate, labelled so far, last final …
    counts: Ints  # … and the number of values in each mean
    last: Floats  # the value of the last final period; NaN: there is none


class MaturityRecord(NamedTuple):
    """The record of estimates at a stage; errors are means, NaN without any."""

    finals: int
    coverage: float
    mean_error: float
    labelled_so_far: float
    last_final: float
    lost_to: str | None  # the naive answer whose mean error is smallest, and smaller than the estimate's


class Grades(NamedTuple):
    """The intervals of estimates, and the records that they are based on."""

    halves: Floats  # (n,): half the width of each interval
    is_based: npt.NDArray[np.bool_]  # (n,): whether there are enough final periods for a record
    records: list[MaturityRecord]  # of those estimates that have one, in their order


#: The estimates of a value without any.
NO_GRADES: Any = np.full((STAGES, _COLUMNS), np.nan, dtype=np.float32)


def new_reported_estimates(rows: int) -> ReportedEstimates:
    """Return rows without estimates."""
    return ReportedEstimates(np.zeros((rows, STAGES, _COLUMNS), dtype=np.float32))


def new_records(rows: int) -> MaturityRecords:
    """Return rows without grades."""
    shape = (rows, STAGES)
    return MaturityRecords(
        np.zeros((*shape, FINALS), dtype=np.float32), np.zeros(shape, dtype=np.int64), np.zeros(shape),
        np.zeros((*shape, 3)), np.zeros((*shape, 3), dtype=np.int64), np.zeros(rows),
    )  # fmt: skip


def maturity_of(clock: Any, end: Any, horizon: Any) -> Any:
    """The maturity of periods by their end; -1: the period hasn't ended.

    Times are numbers of ms, or (n,) int64 of them.

    >>> [maturity_of(clock, 1_000, 2_800) for clock in (999, 1_000, 1_150, 9_999)]
    [-1, 0, 1, 4]
    >>> maturity_of(np.array([999, 1_150]), 1_000, 2_800)
    array([-1,  1])
    """
    age = (clock - end) * _PARTS
    return sum(age >= part * horizon for part in MATURITIES) - 1


def stage_of(clock: Any, start: Any, end: Any, horizon: Any) -> Any:
    """The stage of periods: by the share of them that has passed, then by maturity.

    Times are numbers of ms, or (n,) int64 of them.

    >>> [stage_of(clock, 0, 1_000, 2_800) for clock in (0, 125, 500, 999, 1_000, 1_150)]
    [0, 1, 2, 3, 4, 5]
    """
    passed = (clock - start) * _EIGHTHS
    before = sum(passed >= part * (end - start) for part in _PASSED[1:])
    maturity = maturity_of(clock, end, horizon)
    return before + (maturity >= 0) * (BEFORE_END + maturity - before)


def share_of(maturity: int) -> float | None:
    """Where a maturity begins, as a share of the horizon after the period's end; None: before the end.

    >>> share_of(-1), share_of(0), share_of(4)
    (None, 0.0, 0.5)
    """
    return None if maturity < 0 else MATURITIES[maturity] / _PARTS


def next_maturity(clock: Any, end: Any, horizon: Any) -> Ints:
    """The clocks at which periods have their next maturity, (n,) int64 or one; `NEVER`: none.

    >>> [int(next_maturity(clock, 1_000, 2_800)) for clock in (999, 1_000, 9_999)] == [1_000, 1_100, NEVER]
    True
    """
    after: Any = np.int64(NEVER)
    for part in reversed(MATURITIES):
        begin = end + -(-part * horizon // _PARTS)
        after = np.where(clock < begin, begin, after)
    return cast(Ints, after)


# ---- one value


def begin(records: MaturityRecords, rows: Any) -> None:
    """Reset a row, or (n,) of them: they have no grades. Changes only `records`."""
    # Rows without finals have no scores: memory of theirs that nobody has written to takes no space.
    former = np.atleast_1d(rows)
    records.scores[former[records.finals[former].any(axis=1)]] = 0.0
    records.finals[rows] = records.counts[rows] = 0
    records.errors[rows], records.level[rows], records.last[rows] = 0.0, LEVEL, np.nan


@kernel
def ratio_of(records: MaturityRecords, row: int, stage: int, room: Floats) -> float:
    """Half the width of an interval in scales, from the errors at a stage; NaN: there are too few of them.

    It is the ⌈(n + 1)·level⌉-th smallest of n errors, or the largest. If errors are exchangeable, the next
    one is at most that with this probability. `room` has space for `FINALS` numbers.
    """
    finals = min(FINALS, records.finals[row, stage])
    if finals < LEAST:
        return math.nan
    for i in range(finals):
        score, slot = abs(float(records.scores[row, stage, i])), i
        while slot and room[slot - 1] > score:
            room[slot] = room[slot - 1]
            slot -= 1
        room[slot] = score
    level = min(1.0, records.level[row, stage])
    return room[min(finals, math.ceil((finals + 1) * level - _ROUNDING)) - 1]


@kernel
def put_ratios(records: MaturityRecords, rows: Ints, stages: Ints, room: Floats, into: Floats) -> None:
    """Write `ratio_of` of each row at its stage."""
    for i in range(len(rows)):
        into[i] = ratio_of(records, rows[i], stages[i], room)


def graded(
    records: MaturityRecords, rows: Ints, stages: Ints, scales: Floats, lacks_labels: npt.NDArray[np.bool_]
) -> Grades:
    """The intervals of estimates, and the records that they are based on.

    All parameters are (n,). `lacks_labels`: whether labels haven't come that the estimates of the record had.
    Then the record's errors are too small, and the interval is at least as wide as before there was a record.
    """
    halves, is_based = _halves(records, rows, stages, scales, lacks_labels)
    based = np.flatnonzero(is_based)
    own_records = list(_maturity_records(records, rows[based], stages[based])) if len(based) else []
    return Grades(halves, is_based, own_records)


def latest_halves(
    records: MaturityRecords, rows: Ints, stages: Ints, scales: Floats, lacks_labels: npt.NDArray[np.bool_]
) -> Floats:
    """Half the widths of intervals, (n,), by the latest maturities up to these stages with enough finals.

    NaN: there is none. Other parameters are as for `graded`.
    """
    places = np.arange(STAGES)
    usable = (records.finals[rows] >= LEAST) & (places >= BEFORE_END) & (places <= stages[:, None])
    latest = STAGES - 1 - usable[:, ::-1].argmax(axis=1)
    halves = np.full(len(rows), np.nan)
    [based] = usable.any(axis=1).nonzero()
    halves[based], _ = _halves(records, rows[based], latest[based], scales[based], lacks_labels[based])
    return halves


def _halves(
    records: MaturityRecords, rows: Ints, stages: Ints, scales: Floats, lacks_labels: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Half the widths of intervals, (n,), and whether there are enough finals for each."""
    halves, is_based = _FIRST_HALF * scales, records.finals[rows, stages] >= LEAST
    if is_based.any():
        ratios = np.empty(len(rows))
        put_ratios(records, rows, stages, np.empty(FINALS), ratios)
        ratios = np.where(lacks_labels & (ratios < _FIRST_HALF), _FIRST_HALF, ratios)
        is_based = ~np.isnan(ratios)
        halves[is_based] = ratios[is_based] * scales[is_based]
    return halves, is_based


def _maturity_records(records: MaturityRecords, rows: Ints, stages: Ints) -> Iterator[MaturityRecord]:
    """The records of rows at their stages, of which each has enough finals."""
    finals = np.minimum(FINALS, records.finals[rows, stages])
    is_covered = ~np.signbit(records.scores[rows, stages]) & (np.arange(FINALS) < finals[:, None])
    covered, counts = is_covered.sum(axis=1).tolist(), records.counts[rows, stages].tolist()
    means = np.where(records.counts[rows, stages] > 0, records.errors[rows, stages], np.nan).tolist()
    for count, own_covered, errors, own_counts in zip(finals.tolist(), covered, means, counts):
        mean_error, labelled_so_far, last_final = errors
        lost_to = _lost_to(errors, own_counts)
        yield MaturityRecord(count, own_covered / count, mean_error, labelled_so_far, last_final, lost_to)


def _lost_to(errors: list[float], counts: list[int]) -> str | None:
    """The naive answer with the smallest mean error over at least `LEAST` finals, if it is the best one."""
    naive = [(error, name) for error, name, count in zip(errors[1:], _NAIVE, counts[1:]) if count >= LEAST]
    error, name = min(naive, default=(math.inf, None))
    return name if error < errors[0] else None


def say(
    reported: ReportedEstimates, rows: Any, stages: Any, estimates: Any, scales: Any, halves: Any,
    labelled_so_far: Any, last_finals: Any, weights: Any,
) -> None:  # fmt: skip
    """Keep the first estimates of periods at stages: numbers, or (n,) of them.

    An estimate with numbers too large for four bytes is not kept, and therefore not graded.
    """
    columns = np.array([estimates, scales, halves, labelled_so_far, last_finals, weights]).T
    naive = columns[..., _LABELLED_SO_FAR : _LAST_FINAL + 1]
    naive[~(np.abs(naive) <= _LARGEST)] = np.nan
    kept = ~(np.abs(columns[..., :_LABELLED_SO_FAR]) > _LARGEST).any(axis=-1)
    rows, stages = np.broadcast_arrays(rows, stages)
    reported.what[rows[kept], stages[kept]] = columns[kept]


def grade(records: MaturityRecords, row: int, estimates: Any, final: float, variance: float = 0.0) -> None:
    """Grade the estimates `estimates` (stages, 6) of a period by its final value.

    `variance` is the variance of a final value that is itself an estimate. An earlier estimate shares its
    random error in proportion to the weight λ of the labels. So their difference has the variance scale² + (1
    - 2λ)·variance.
    """
    for stage, estimate_row in enumerate(estimates.tolist()):
        estimate, scale, half = estimate_row[:_LABELLED_SO_FAR]
        if estimate != estimate:
            continue
        if variance > 0.0:
            apart = scale * scale + (1.0 - 2.0 * estimate_row[_WEIGHT]) * variance
            wider = max(apart, _LEAST_APART * scale * scale) ** 0.5 / scale
            scale, half = scale * wider, half * wider
        error = abs(estimate - final)
        covered = error <= half
        finals = int(records.finals[row, stage])
        score = min(error / scale, _LARGEST)
        records.scores[row, stage, finals % FINALS] = score if covered else -score
        records.finals[row, stage] = finals + 1
        level = float(records.level[row, stage]) + _STEP * (LEVEL - covered)
        records.level[row, stage] = min(_HIGHEST, max(_LOWEST, level))
        for index, value in enumerate((estimate, estimate_row[_LABELLED_SO_FAR], estimate_row[_LAST_FINAL])):
            if value == value:
                count = int(records.counts[row, stage, index]) + 1
                records.counts[row, stage, index] = count
                mean = float(records.errors[row, stage, index])
                records.errors[row, stage, index] = mean + (abs(value - final) - mean) / min(count, FINALS)
    records.last[row] = final


#: The signals, in the order of the deviations (`calibrating.CONCEPT` …).
SIGNALS = ("concept", "delays", "inputs")

#: Periods that count, and the fewest that give a signal.
MEMORY, LEAST_PERIODS = 50, 20

#: The smallest standard deviation, in standard deviations by chance alone.
_LEAST_DEVIATION = 0.5

#: Larger signals count as this one when they update mean and variance.
UNUSUAL = 4.0


class Usual(NamedTuple):
    """By model and signal: rows of a pool, whose owners are models and whose keys are signals."""

    seen: Ints  # (rows, maturities)
    mean: Floats  # …
    variance: Floats  # …


def new_usual(rows: int) -> Usual:
    """Return rows without past periods."""
    shape = rows, len(MATURITIES)
    return Usual(np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))


def see(usual: Usual, row: int, maturity: int, value: float) -> float | None:
    """How unusual a period's deviation is, in standard deviations; None: there are too few earlier periods.

    The period counts from now on. Changes only `usual`.

    >>> one = new_usual(1)
    >>> [see(one, 0, 0, float(x % 2)) for x in range(20)][-1]
    >>> round(see(one, 0, 0, 2.5), 2)  # mean 0.5, of 20 values
    3.8
    """
    count = int(usual.seen[row, maturity])
    mean, variance = float(usual.mean[row, maturity]), float(usual.variance[row, maturity])
    standardised = None
    off = value - mean
    if count >= LEAST_PERIODS:
        n = min(count, MEMORY)
        # The variance of one value, and of the mean of n values.
        deviation = max(variance * (n + 1) / (n - 1), _LEAST_DEVIATION**2) ** 0.5
        standardised = off / deviation
        off = min(UNUSUAL * deviation, max(-UNUSUAL * deviation, off))
    share = 1.0 / min(count + 1, MEMORY)
    usual.seen[row, maturity] = count + 1
    usual.mean[row, maturity] = mean + share * off
    usual.variance[row, maturity] = (1.0 - share) * (variance + share * off * off)
    return standardised
