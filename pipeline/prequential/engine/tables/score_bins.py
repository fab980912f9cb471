"""Histograms of the positive class's scores: 200 bins, the same for all streams, and what an outcome adds to.

Bins are narrow where most scores are: near 0 and near 1 by ratio, in between also by difference. From 0.0001
to 0.5 there are 90, the k-th of them from where

    50·p + 65·(1 + ln(p/(1 - p))/ln 9999) = k,

so of width 0.013 around 0.5, and of 15% of the score where scores are small. Below lie ten, whose edges are
`_TINY`; above 0.5 everything is the mirror's, 1 - p.
"""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner

#: Bins, and those of them from 0.0001 to 0.5.
BINS = 200
_MIDDLE = 90

#: Edges of the bins that are wide: some models are all but sure of each answer, as naive Bayes is.
_TINY = (1e-15, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 3.16228e-6, 1e-5, 3.16228e-5, 1e-4)

#: Bins by difference, of 0.02, and those by ratio, that 0.0001 to 0.5 would have without the others.
_BY_DIFFERENCE, _BY_RATIO = 50.0, 65.0
_RANGE = math.log(9999.0)

#: Halvings that leave nothing of an edge's digits open.
_HALVINGS = 60


def _edge(k: int) -> float:
    """The lower edge of the k-th bin of the middle, to six digits: the same with any C library."""
    low, high = _TINY[-1], 0.5
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        place = _BY_DIFFERENCE * p + _BY_RATIO * (1 + math.log(p / (1 - p)) / _RANGE)
        low, high = (p, high) if place < k else (low, p)
    return float(f"{low:.6g}")


def _edges() -> Floats:
    lower = [*_TINY, *(_edge(k) for k in range(1, _MIDDLE))]
    return np.array([*lower, 0.5, *(1.0 - edge for edge in reversed(lower))])


#: Where bins begin, but the first one, which does at 0: (199,), rising. An edge is of the bin above.
EDGES: Floats = _edges()

#: Places in the counts of a histogram: bins of the scores of negatives, and of positives; outcomes whose
#: labels don't determine the positive class; outcomes without a score.
NEGATIVES, POSITIVES, WITHOUT_POSITIVE, WITHOUT_SCORE = 0, BINS, 2 * BINS, 2 * BINS + 1
WIDTH = 2 * BINS + 2


@inner
def score_bin(p: float) -> int:
    """The bin of a score p, 0 … `BINS` - 1: how many of `EDGES` aren't above it.

    >>> score_bin(0.0), score_bin(1e-4), score_bin(0.4999), score_bin(0.5), score_bin(1.0)
    (0, 10, 99, 100, 199)
    """
    low, high = 0, BINS - 1
    while low < high:
        middle = (low + high) >> 1
        if EDGES[middle] <= p:
            low = middle + 1
        else:
            high = middle
    return low
