"""Measures of predicted numbers, from sums of scores (see `pipeline.core.scores`)."""

from __future__ import annotations

import math

from pipeline.core.measures.matrix import Undefined
from pipeline.core.scores import ABSOLUTE, BIAS, SCORED, SQUARED
from pipeline.core.sums import Sums


def _mean(sums: Sums, place: int) -> float:
    added = sums.sums
    return float(added[place] / added[SCORED])


def mae(sums: Sums) -> float:
    """Mean absolute error."""
    return _mean(sums, ABSOLUTE)


def mse(sums: Sums) -> float:
    """Mean squared error."""
    return _mean(sums, SQUARED)


def rmse(sums: Sums) -> float:
    """Root of the mean squared error."""
    return math.sqrt(mse(sums))


def bias(sums: Sums) -> float:
    """Mean of prediction - label: above 0 where too much is predicted."""
    return _mean(sums, BIAS)


def r2(sums: Sums) -> float:
    """1 - Σe²/Σ(y - ȳ)², with ȳ the mean of the labels in memory."""
    spread = sums.spread
    if not spread:
        raise Undefined("zero_denominator")
    return 1 - float(sums.sums[SQUARED]) / spread
