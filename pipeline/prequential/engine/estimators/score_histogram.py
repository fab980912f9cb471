"""Histograms of scores, a payload of estimators, and the measures of ranks from their bins.

Outcomes without a score also count, so that time passes equally in all payloads of an estimator.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import CountCodes, Memory, Payload
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.probabilistic import Ranks
from prequential.engine.measures.registry import OF_RANKS
from prequential.engine.measures.table import put_ranks, refuse_ranks
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import OUTCOME, REVISION, UNREVISED, Log
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
        rank_histogram(cells[i], values[i], reasons[i])


@inner
def rank_histogram(cells: Floats, values: Floats, reasons: Ints) -> None:
    """Compute measures of ranks from one histogram, (SCORE_WIDTH,), if it has scores."""
    if cells[scores.WITHOUT_POSITIVE] > 0.0:
        refuse_ranks(values, reasons)
        return
    scored = False
    for index in range(2 * scores.SCORE_BINS):
        scored |= cells[index] > 0.0
    if scored:
        positive = cells[scores.POSITIVES : scores.POSITIVES + scores.SCORE_BINS]
        negative = cells[scores.NEGATIVES : scores.NEGATIVES + scores.SCORE_BINS]
        put_ranks(Ranks(positive, negative, scores.SCORE_BINS, _LEAST), values, reasons)
