"""Measures of predicted numbers, from sums of scores (see `prequential.core.tables.scores`).

Of outcomes that there are: the caller says where there are none.
"""

from __future__ import annotations

import math

from prequential.core.compiled.kernel import Floats, inner
from prequential.core.measures import DEFINED, ZERO_DENOMINATOR, Result
from prequential.core.tables.scores import ABSOLUTE, BIAS, SCORED, SQUARED


@inner
def mae(sums: Floats) -> Result:
    """Mean absolute error, of e = prediction - label.

    >>> from prequential.core.tables.scores import sums_of
    >>> mae(sums_of({SCORED: 2, ABSOLUTE: 3}))
    (1.5, 0)
    """
    return sums[ABSOLUTE] / sums[SCORED], DEFINED


@inner
def mse(sums: Floats) -> Result:
    """Mean squared error.

    >>> from prequential.core.tables.scores import sums_of
    >>> mse(sums_of({SCORED: 2, SQUARED: 5}))
    (2.5, 0)
    """
    return sums[SQUARED] / sums[SCORED], DEFINED


@inner
def rmse(sums: Floats) -> Result:
    """Root of the mean squared error.

    >>> from prequential.core.tables.scores import sums_of
    >>> rmse(sums_of({SCORED: 2, SQUARED: 8}))
    (2.0, 0)
    """
    return math.sqrt(sums[SQUARED] / sums[SCORED]), DEFINED


@inner
def bias(sums: Floats) -> Result:
    """Mean of prediction - label: above 0 where too much is predicted.

    >>> from prequential.core.tables.scores import sums_of
    >>> bias(sums_of({SCORED: 2, BIAS: -1}))
    (-0.5, 0)
    """
    return sums[BIAS] / sums[SCORED], DEFINED


@inner
def r2(sums: Floats, spread: float) -> Result:
    """1 - Σe²/Σ(y - ȳ)², with ȳ the mean of the labels in memory; `spread` is Σ(y - ȳ)².

    >>> from prequential.core.tables.scores import sums_of
    >>> r2(sums_of({SCORED: 2, SQUARED: 1}), 2.0), r2(sums_of({SCORED: 2, SQUARED: 1}), 0.0)
    ((0.5, 0), (0.0, 8))
    """
    if not spread > 0.0:
        return 0.0, ZERO_DENOMINATOR
    value = 1.0 - sums[SQUARED] / spread
    if not math.isfinite(value):  # the spread is nothing beside the errors
        return 0.0, ZERO_DENOMINATOR
    return value, DEFINED
