"""Measures of predicted numbers, from sums of scores (see `prequential.core.scores`)."""

from __future__ import annotations

import math

from prequential.core.measures.matrix import Undefined
from prequential.core.scores import ABSOLUTE, BIAS, SCORED, SQUARED
from prequential.core.sums import Sums


def _mean(sums: Sums, place: int) -> float:
    added = sums.sums
    return float(added[place] / added[SCORED])


def mae(sums: Sums) -> float:
    """Mean absolute error.

    >>> from prequential.core.scores import score_number
    >>> from prequential.core.sums import AllSums
    >>> mae(AllSums.of(score_number(3, 1), score_number(1, 2), numbers=True))
    1.5
    """
    return _mean(sums, ABSOLUTE)


def mse(sums: Sums) -> float:
    """Mean squared error.

    >>> from prequential.core.scores import score_number
    >>> from prequential.core.sums import AllSums
    >>> mse(AllSums.of(score_number(3, 1), score_number(1, 2), numbers=True))
    2.5
    """
    return _mean(sums, SQUARED)


def rmse(sums: Sums) -> float:
    """Root of the mean squared error.

    >>> from prequential.core.scores import score_number
    >>> from prequential.core.sums import AllSums
    >>> rmse(AllSums.of(score_number(3, 1), score_number(1, 3), numbers=True))
    2.0
    """
    return math.sqrt(mse(sums))


def bias(sums: Sums) -> float:
    """Mean of prediction - label: above 0 where too much is predicted.

    >>> from prequential.core.scores import score_number
    >>> from prequential.core.sums import AllSums
    >>> bias(AllSums.of(score_number(3, 1), score_number(1, 2), numbers=True))
    -0.5
    """
    return _mean(sums, BIAS)


def r2(sums: Sums) -> float:
    """1 - Σe²/Σ(y - ȳ)², with ȳ the mean of the labels in memory.

    >>> from prequential.core.scores import score_number
    >>> from prequential.core.sums import AllSums
    >>> r2(AllSums.of(score_number(3, 2), score_number(1, 1), numbers=True))
    0.5
    """
    spread = sums.spread
    if not spread:
        raise Undefined("zero_denominator")
    value = 1 - float(sums.sums[SQUARED]) / spread
    if not math.isfinite(value):  # the spread is nothing beside the errors
        raise Undefined("zero_denominator")
    return value
