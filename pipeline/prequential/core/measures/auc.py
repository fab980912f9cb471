"""Prequential AUC: how well the scores of a window rank positives before negatives."""

from __future__ import annotations

import numpy as np
from prequential.core.arrays import Floats
from prequential.core.measures.matrix import Undefined


def area(positives: Floats, negatives: Floats) -> float:
    """Share of the pairs (positive, negative) in which the positive has the larger score; ties count half.

    By ranks, O(W log W) for W scores.

    >>> area(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    if not len(positives):
        raise Undefined("no_positives")
    if not len(negatives):
        raise Undefined("no_negatives")
    ordered = np.sort(negatives)
    below = ordered.searchsorted(positives, "left").sum()
    not_above = ordered.searchsorted(positives, "right").sum()
    return int(below + not_above) / (2 * len(positives) * len(negatives))
