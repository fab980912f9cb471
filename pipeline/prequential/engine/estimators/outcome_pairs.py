"""Pairs of neighbouring outcomes, a payload of estimators, and the autocorrelation of errors.

A *sign* is one property of an outcome. If it has k kinds, a pair of neighbours has the code k·(previous
outcome) + (this outcome). Like joint cells, pairs are a payload of an estimator: for each sign, it has one
count for each code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, allocating, inner, kernel
from prequential.engine.estimators import declaration
from prequential.engine.measures.per_class import Positives, may_be_positive
from prequential.engine.tables.logs import Alarms
from prequential.engine.tables.outcomes import OUTCOME, Log

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
