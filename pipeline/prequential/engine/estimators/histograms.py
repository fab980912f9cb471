"""Histograms of scores as a payload of estimators: counts by class, positive or not, and bin of the score.

Outcomes without a score also count, so that time passes equally in all payloads of an estimator.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, kernel
from prequential.engine.estimators.declaration import COUNTS, NO_CELL, WITHDRAWN, CountCodes, Memory, Payload
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.ranking import Ranks
from prequential.engine.measures.registry import OF_RANKS
from prequential.engine.measures.table import put_ranks, refuse_ranks
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import OUTCOME, REVISION, UNREVISED, Log
from prequential.engine.tables.score_bins import (
    BINS,
    NEGATIVES,
    POSITIVES,
    WIDTH,
    WITHOUT_POSITIVE,
    WITHOUT_SCORE,
    score_bin,
)
from prequential.engine.tables.store import NO_CLASS

#: The detail that puts histograms into messages.
SCORES = "scores"

OF_SCORES = Payload(COUNTS, WIDTH)

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
        into.cell[i] = into.revised[i] = NO_CELL
        into.known[i] = 0
        kind, scored = log.kind[row], np.int64(log.scored[row])
        if not scored & outcomes.SCORED:
            cell = WITHOUT_SCORE
        elif scored & outcomes.NO_POSITIVE:
            cell = WITHOUT_POSITIVE
        else:
            cell = score_bin(log.positive[row]) + (POSITIVES if log.is_positive[row] else NEGATIVES)
        if kind == OUTCOME:
            into.cell[i] = cell
        elif not scored & outcomes.SCORED:
            continue
        elif kind == UNREVISED and log.label[row] != NO_CLASS:
            into.cell[i], into.revised[i] = cell, WITHDRAWN
        elif kind == REVISION and log.revised[row] != NO_CLASS:
            into.cell[i], into.revised[i] = WITHDRAWN, cell


@kernel
def rank_bins(cells: Floats, positives: Ints, of_these: Bytes, values: Floats, reasons: Ints) -> None:
    """Compute measures of ranks from histograms with scores, (n, WIDTH): the scores in a bin count as equal.

    `positives`: the code of each positive class, or NO_POSITIVE, for which no measure is written. `of_these`:
    whether to compute each one. `values`, `reasons`: (n, measures).
    """
    for i in range(len(cells)):
        if positives[i] == NO_POSITIVE or not of_these[i]:
            continue
        if cells[i, WITHOUT_POSITIVE] > 0.0:
            refuse_ranks(values[i], reasons[i])
            continue
        scored = False
        for place in range(2 * BINS):
            scored |= cells[i, place] > 0.0
        if scored:
            negatives = cells[i, NEGATIVES : NEGATIVES + BINS]
            ranks = Ranks(cells[i, POSITIVES : POSITIVES + BINS], negatives, BINS, _LEAST)
            put_ranks(ranks, values[i], reasons[i])


def as_message(cells: Floats, whole: bool) -> dict[str, Any] | None:
    """A histogram, (WIDTH,), for messages: bins with outcomes, numbered from 0, and their counts by class.

    None if there are no scores, or if labels don't determine the positive class. If `whole`, counts are
    integers.

    >>> cells = np.zeros(WIDTH)
    >>> cells[[NEGATIVES + 7, POSITIVES + 7, POSITIVES + 9]] = 3, 1, 2
    >>> as_message(cells, True)
    {'bins': [7, 9], 'negatives': [3, 0], 'positives': [1, 2]}
    """
    negatives, positives = cells[NEGATIVES : NEGATIVES + BINS], cells[POSITIVES : POSITIVES + BINS]
    bins = np.flatnonzero(negatives + positives)
    if not len(bins) or cells[WITHOUT_POSITIVE]:
        return None
    kind = np.int64 if whole else np.float64
    return {
        "bins": bins.tolist(), "negatives": negatives[bins].astype(kind).tolist(),
        "positives": positives[bins].astype(kind).tolist(),
    }  # fmt: skip
