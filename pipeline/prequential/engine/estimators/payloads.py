"""Payloads of estimators that aren't sums: histograms of scores, residuals, and neighbouring outcomes.

Outcomes without a score also count, so that time passes equally in all payloads of an estimator.

It is an adaptive histogram after Ben-Haim and Tom-Tov (2010, algorithm 1). An outcome begins a bin at its
prediction; if there are too many bins, two neighbours are merged. In the paper they are the two nearest
neighbours. Here they are the two with the smallest product of distance and total weight. So most bins are
where most predictions are. The histogram works for any unit and needs no configuration. Up to `BINS`
different predictions have a bin each, and then sums are exact.

A bin has the weight of its outcomes, their mean prediction, and the sums of their labels and of
|prediction - label|. Weights and sums fade; means don't. Revisions have no effect here.

References
----------
Ben-Haim, Tom-Tov: A streaming parallel decision tree algorithm, Journal of Machine Learning Research 11,
2010.

A *sign* is one property of an outcome. If it has k kinds, a pair of neighbours has the code k·(previous
outcome) + (this outcome). Like joint cells, pairs are a payload of an estimator: for each sign, it has one
count for each code.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, allocating, inner, kernel
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import CountCodes, Memory, Payload
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import Positives, may_be_positive
from prequential.engine.measures.probabilistic import Ranks
from prequential.engine.measures.registry import OF_RANKS
from prequential.engine.measures.table import put_ranks, refuse_ranks
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.logs import Alarms
from prequential.engine.tables.outcomes import OUTCOME, REVISION, UNREVISED, Log
from prequential.engine.tables.scores import NO_WEIGHT
from prequential.engine.tables.store import NO_CLASS

#: The detail that puts histograms into messages.
SCORES = "scores"

OF_SCORES = Payload(declaration.COUNTS, scores.SCORE_WIDTH)

#: The smallest number or weight of outcomes of each class for measures of ranks from bins.
_LEAST = 30.0


def keeps_histogram(memory: Memory, measures: Collection[str], details: Collection[str]) -> bool:
    """Whether an estimator of this memory keeps a histogram, for these measures and details.

    A window ranks its own scores (`Memory.rank`), so it needs no histogram for measures.

    >>> from prequential.engine.estimators import MEMORIES
    >>> [keeps_histogram(MEMORIES[name], ["auc"], []) for name in ("all", "window")]
    [True, False]
    >>> keeps_histogram(MEMORIES["window"], [], ["scores"]), keeps_histogram(MEMORIES["all"], ["ece"], [])
    (True, False)
    """
    return SCORES in details or (memory.rank is None and not set(OF_RANKS).isdisjoint(measures))


@kernel
def histogram_codes(log: Log, rows: Ints32, into: CountCodes) -> None:
    """Write the place in a histogram's counts of each of `rows` of the log.

    Rows before a revision remove an outcome with a score; the revision brings it back.
    """
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], log.number[row]
        into.cell[i] = into.revised[i] = declaration.NO_CELL
        into.known[i] = 0
        kind, scored = log.kind[row], np.int64(log.scored[row])
        if not scored & outcomes.SCORED:
            cell = scores.WITHOUT_SCORE
        elif scored & outcomes.NO_POSITIVE:
            cell = scores.WITHOUT_POSITIVE
        else:
            first = scores.POSITIVES if log.is_positive[row] else scores.NEGATIVES
            cell = first + scores.score_bin(log.positive[row])
        if kind == OUTCOME:
            into.cell[i] = cell
        elif not scored & outcomes.SCORED:
            continue
        elif kind == UNREVISED and log.label[row] != NO_CLASS:
            into.cell[i], into.revised[i] = cell, declaration.WITHDRAWN
        elif kind == REVISION and log.revised[row] != NO_CLASS:
            into.cell[i], into.revised[i] = declaration.WITHDRAWN, cell


@kernel
def rank_bins(cells: Floats, positives: Ints, of_these: Bytes, values: Floats, reasons: Ints) -> None:
    """Compute measures of ranks from histograms, (n, SCORE_WIDTH): the scores in a bin count as equal.

    `positives`: the code of each positive class, or NO_POSITIVE, for which no measure is written. `of_these`:
    whether to compute each one. `values`, `reasons`: (n, measures).
    """
    for i in range(len(cells)):
        if positives[i] == NO_POSITIVE or not of_these[i]:
            continue
        if cells[i, scores.WITHOUT_POSITIVE] > 0.0:
            refuse_ranks(values[i], reasons[i])
            continue
        scored = False
        for index in range(2 * scores.SCORE_BINS):
            scored |= cells[i, index] > 0.0
        if scored:
            positive = cells[i, scores.POSITIVES : scores.POSITIVES + scores.SCORE_BINS]
            negative = cells[i, scores.NEGATIVES : scores.NEGATIVES + scores.SCORE_BINS]
            put_ranks(Ranks(positive, negative, scores.SCORE_BINS, _LEAST), values[i], reasons[i])


def as_message(cells: Floats, whole: bool) -> dict[str, Any] | None:
    """A histogram, (SCORE_WIDTH,), for messages: bins with outcomes, from 0, and their counts by class.

    None if there are no scores, or if labels don't determine the positive class. If `whole`, counts are
    integers.

    >>> cells = np.zeros(scores.SCORE_WIDTH)
    >>> cells[[scores.NEGATIVES + 7, scores.POSITIVES + 7, scores.POSITIVES + 9]] = 3, 1, 2
    >>> as_message(cells, True)
    {'bins': [7, 9], 'negatives': [3, 0], 'positives': [1, 2]}
    """
    negatives = cells[scores.NEGATIVES : scores.NEGATIVES + scores.SCORE_BINS]
    positives = cells[scores.POSITIVES : scores.POSITIVES + scores.SCORE_BINS]
    bins = np.flatnonzero(negatives + positives)
    if not len(bins) or cells[scores.WITHOUT_POSITIVE]:
        return None
    kind = np.int64 if whole else np.float64
    return {
        "bins": bins.tolist(), "negatives": negatives[bins].astype(kind).tolist(),
        "positives": positives[bins].astype(kind).tolist(),
    }  # fmt: skip


#: The detail that puts deciles of predictions into messages.
DETAIL = "residuals"

#: The largest number of bins: about six per decile, so that its bounds are off by 1 or 2% of all predictions.
BINS = 64

#: In a vector of sums: the number of bins in use, then their columns; with room for one more bin before
#: merging.
_USED, _FIRST = 0, 1
WEIGHT, MEAN, LABELS, ERRORS, COLUMNS = range(5)

#: Predictions closer to each other than this, as a share of their size plus the label's, count as equal: a
#: prediction is computed as error + label, whose last digits are inexact.
_SAME = 1e-12

#: The payload; of each outcome, a window keeps the same numbers as for `sums.OF_NUMBERS`.
OF_RESIDUALS = Payload(declaration.RESIDUALS, _FIRST + COLUMNS * (BINS + 1), 2)


@inner
def add_residual(sums: Floats, error: float, label: float) -> None:
    """Add an outcome whose prediction is error + label."""
    x, used = label + error, int(sums[_USED])
    low, high = 0, used  # the first bin that isn't below
    while low < high:
        middle = (low + high) // 2
        if sums[_FIRST + COLUMNS * middle + MEAN] < x:
            low = middle + 1
        else:
            high = middle
    near = _SAME * (abs(x) + abs(label))
    for bin_number in range(max(0, low - 1), min(used, low + 1)):
        offset = _FIRST + COLUMNS * bin_number
        if abs(sums[offset + MEAN] - x) <= near:
            sums[offset + WEIGHT] += 1.0
            sums[offset + LABELS] += label
            sums[offset + ERRORS] += abs(error)
            return
    offset = _FIRST + COLUMNS * low
    for i in range(_FIRST + COLUMNS * used - 1, offset - 1, -1):
        sums[i + COLUMNS] = sums[i]
    sums[offset + WEIGHT], sums[offset + MEAN], sums[offset + LABELS], sums[offset + ERRORS] = (
        1.0,
        x,
        label,
        abs(error),
    )
    if used < BINS:
        sums[_USED] = used + 1
    else:
        _merge(sums)


@inner
def _merge(sums: Floats) -> None:
    """Merge two neighbours if there is one bin too many."""
    best, least = 0, -1.0
    for bin_number in range(BINS):
        offset = _FIRST + COLUMNS * bin_number
        apart = sums[offset + COLUMNS + MEAN] - sums[offset + MEAN]
        loss = (sums[offset + WEIGHT] + sums[offset + COLUMNS + WEIGHT]) * apart
        if least < 0.0 or loss < least:
            best, least = bin_number, loss
    offset = _FIRST + COLUMNS * best
    weight = sums[offset + WEIGHT] + sums[offset + COLUMNS + WEIGHT]
    apart = sums[offset + COLUMNS + MEAN] - sums[offset + MEAN]
    sums[offset + MEAN] += apart * (sums[offset + COLUMNS + WEIGHT] / weight)
    sums[offset + WEIGHT] = weight
    sums[offset + LABELS] += sums[offset + COLUMNS + LABELS]
    sums[offset + ERRORS] += sums[offset + COLUMNS + ERRORS]
    _drop(sums, best + 1, BINS + 1)


@inner
def _drop(sums: Floats, bin_number: int, used: int) -> None:
    """Remove one of `used` bins."""
    for i in range(_FIRST + COLUMNS * bin_number, _FIRST + COLUMNS * (used - 1)):
        sums[i] = sums[i + COLUMNS]
    for i in range(_FIRST + COLUMNS * (used - 1), _FIRST + COLUMNS * used):
        sums[i] = 0.0


@inner
def fade_residuals(sums: Floats, decay: float) -> None:
    """Multiply weights and sums by a decay; remove bins without a weight."""
    if decay == 1.0:
        return
    for bin_number in range(int(sums[_USED]) - 1, -1, -1):
        offset = _FIRST + COLUMNS * bin_number
        sums[offset + WEIGHT] *= decay
        sums[offset + LABELS] *= decay
        sums[offset + ERRORS] *= decay
        if sums[offset + WEIGHT] < NO_WEIGHT:
            _drop(sums, bin_number, int(sums[_USED]))
            sums[_USED] -= 1.0


def bins_of(sums: Floats) -> Floats:
    """The bins that are in use, by their mean prediction: (bins, `COLUMNS`)."""
    used = int(sums[_USED])
    return sums[_FIRST : _FIRST + COLUMNS * used].reshape(used, COLUMNS)


#: The signs: the model is wrong; the persistent baseline is right; the majority baseline is right; the cell
#: of the binary matrix, 2·(positive label) + (positive prediction).
WRONG, PERSISTENT, MAJORITY, CELL = range(4)

#: The number of codes of pairs by sign, which is the number of cells in an estimator's tables.
CODES = (4, 4, 4, 16)

#: The code of a first outcome or of a revision, which end no pair.
NO_PAIR = declaration.NO_CELL


class LastSigns(NamedTuple):
    """By sequence: the signs of the last outcome."""

    signs: Bytes  # 0: none yet, else 32 + 16·wrong + 8·persistent + 4·majority + cell


@kernel
def codes_of(
    last: LastSigns, log: Log, rows: Ints32, positives: Positives, codes: npt.NDArray[np.int32]
) -> None:
    """Write the code of the pair that each of `rows` of the log ends into codes[sign, i], (signs, n) int32.

    `NO_PAIR` for rows that aren't outcomes and for a sequence's first one. `last` is updated.
    """
    for i in range(len(rows)):
        row = rows[i]
        for sign in range(len(CODES)):
            codes[sign, i] = NO_PAIR
        if log.kind[row] != OUTCOME:
            continue
        q, label, prediction = log.sequence[row], log.label[row], log.prediction[row]
        bits = np.int64(log.bits[row])
        wrong = 1 if label != prediction else 0
        cell = 2 * may_be_positive(positives, q, label) + may_be_positive(positives, q, prediction)
        before = np.int64(last.signs[q])
        if before:
            codes[WRONG, i] = 2 * (before >> 4 & 1) + wrong
            codes[PERSISTENT, i] = 2 * (before >> 3 & 1) + (bits >> 1)
            codes[MAJORITY, i] = 2 * (before >> 2 & 1) + (bits & 1)
            codes[CELL, i] = 4 * (before & 3) + cell
        last.signs[q] = 32 + 16 * wrong + 4 * bits + cell


class ErrorPairs(NamedTuple):
    """By sequence, over all its outcomes: pairs of consecutive errors."""

    counts: Ints  # (sequences, 4): right and right, then wrong; wrong and right, then wrong
    last: Bytes  # 0: no outcome yet, 1: it was right, 2: wrong


@inner
def autocorrelation(both_right: float, worse: float, better: float, both_wrong: float) -> float:
    """Correlation of neighbours (φ of a 2×2 table) from counts or weights of 00, 01, 10, 11.

    NaN if the first or the second of them never varies.

    >>> autocorrelation(40.0, 10.0, 10.0, 40.0), autocorrelation(100.0, 0.0, 0.0, 0.0)
    (0.6, nan)
    """
    first, second = better + both_wrong, worse + both_wrong
    n = both_right + worse + better + both_wrong
    spread = first * (n - first) * second * (n - second)
    if spread <= 0:
        return np.nan
    return (n * both_wrong - first * second) / math.sqrt(spread)


@allocating
def follow(table: ErrorPairs, log: Log, rows: Ints32, alarms: Alarms) -> None:
    """Follow the errors of `rows` of the log, and set the autocorrelation of errors in their alarms.

    The autocorrelation of lag 1 uses the outcomes from the sequence's first one to the alarm's. A test for
    drift assumes that it is 0 (2015 paper, proposition 8).
    """
    autocorrelations = np.empty(len(rows))
    raised = np.zeros(len(rows), np.uint8)
    for alarm in range(alarms.raised[0]):
        raised[alarms.position[alarm]] = 1
    for i in range(len(rows)):
        row = rows[i]
        if log.kind[row] != OUTCOME:
            continue
        q = log.sequence[row]
        wrong = 1 if log.label[row] != log.prediction[row] else 0
        before = np.int64(table.last[q])
        if before:
            table.counts[q, 2 * (before - 1) + wrong] += 1
        table.last[q] = 1 + wrong
        if raised[i]:
            counts = table.counts[q]
            autocorrelations[i] = autocorrelation(
                float(counts[0]), float(counts[1]), float(counts[2]), float(counts[3])
            )
    for alarm in range(alarms.raised[0]):
        alarms.autocorrelation[alarm] = autocorrelations[alarms.position[alarm]]
