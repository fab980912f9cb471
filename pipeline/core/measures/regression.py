"""Measures of predicted numbers, from sums of scores (see `pipeline.core.scores`)."""

from __future__ import annotations

import math

from pipeline.core.arrays import Floats
from pipeline.core.measures.matrix import Undefined
from pipeline.core.scores import ABSOLUTE, LABEL, LABEL_SQUARED, SCORED, SQUARED

#: A variance this small beside the mean square has no correct digit.
_NO_VARIANCE = 1e-14


def mae(sums: Floats) -> float:
    """Mean absolute error."""
    return float(sums[ABSOLUTE] / sums[SCORED])


def mse(sums: Floats) -> float:
    """Mean squared error."""
    return float(sums[SQUARED] / sums[SCORED])


def rmse(sums: Floats) -> float:
    """Root of the mean squared error."""
    return math.sqrt(mse(sums))


def r2(sums: Floats) -> float:
    """1 - Σe²/Σ(y - ȳ)², with ȳ the mean of the labels in memory."""
    n, total, squares = sums[SCORED], sums[LABEL], sums[LABEL_SQUARED]
    spread = squares - total * total / n
    if spread <= _NO_VARIANCE * squares:
        raise Undefined("zero_denominator")
    return float(1 - sums[SQUARED] / spread)
