"""Measures of predicted numbers, from sums of scores (see `prequential.core.tables.scores`).

Of outcomes that there are: the caller says where there are none.
"""

from __future__ import annotations

import math

from prequential.core.compiled.kernel import Floats, inner
from prequential.core.measures.declaration import (
    DEFINED,
    LESS,
    NEARER,
    NUMBERS,
    RELATIVES,
    SPREAD,
    ZERO_DENOMINATOR,
    Loss,
    Result,
    measure,
)
from prequential.core.tables.outcomes import Log
from prequential.core.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    LEAST_LABEL,
    NO_WEIGHT,
    RELATIVE,
    RELATIVE_ERRORS,
    SCORED,
    SQUARED_ERRORS,
)


@inner
def own_absolute(log: Log, row: int) -> tuple[float, bool]:
    """|e| of an outcome."""
    return abs(log.error[row]), True


@inner
def own_square(log: Log, row: int) -> tuple[float, bool]:
    """e² of an outcome."""
    return log.error[row] * log.error[row], True


@inner
def own_relative(log: Log, row: int) -> tuple[float, bool]:
    """|e|/|y| of an outcome; one whose label is 0 doesn't count."""
    size = abs(log.value[row])
    if size < LEAST_LABEL:
        return 0.0, False
    return abs(log.error[row]) / size, True


@measure(
    NUMBERS, "mean of abs(e)", low=0, better=LESS, loss=Loss("mae", function=own_absolute),
    help="Mean absolute error",
)  # fmt: skip
@inner
def mae(sums: Floats) -> Result:
    """Mean absolute error, of e = prediction - label.

    >>> from prequential.core.tables.scores import sums_of
    >>> mae(sums_of({SCORED: 2, ABSOLUTE_ERRORS: 3}))
    (1.5, 0)
    """
    return sums[ABSOLUTE_ERRORS] / sums[SCORED], DEFINED


@measure(
    NUMBERS, "mean of e²", low=0, better=LESS, loss=Loss("mse", function=own_square),
    help="Mean squared error",
)  # fmt: skip
@inner
def mse(sums: Floats) -> Result:
    """Mean squared error.

    >>> from prequential.core.tables.scores import sums_of
    >>> mse(sums_of({SCORED: 2, SQUARED_ERRORS: 5}))
    (2.5, 0)
    """
    return sums[SQUARED_ERRORS] / sums[SCORED], DEFINED


@measure(
    NUMBERS, "sqrt(`mse`)", low=0, better=LESS, loss=Loss("mse", root=True),
    help="Root of the mean squared error",
)  # fmt: skip
@inner
def rmse(sums: Floats) -> Result:
    """Root of the mean squared error.

    >>> from prequential.core.tables.scores import sums_of
    >>> rmse(sums_of({SCORED: 2, SQUARED_ERRORS: 8}))
    (2.0, 0)
    """
    return math.sqrt(sums[SQUARED_ERRORS] / sums[SCORED]), DEFINED


@measure(
    SPREAD, "1 - Σe²/Σ(y - ȳ)², ȳ the mean of the labels in memory", high=1, undefined=(ZERO_DENOMINATOR,),
    help="Coefficient of determination",
)  # fmt: skip
@inner
def r2(sums: Floats, spread: float) -> Result:
    """1 - Σe²/Σ(y - ȳ)², with ȳ the mean of the labels in memory; `spread` is Σ(y - ȳ)².

    >>> from prequential.core.tables.scores import sums_of
    >>> r2(sums_of({SCORED: 2, SQUARED_ERRORS: 1}), 2.0), r2(sums_of({SCORED: 2, SQUARED_ERRORS: 1}), 0.0)
    ((0.5, 0), (0.0, 8))
    """
    if not spread > 0.0:
        return 0.0, ZERO_DENOMINATOR
    value = 1.0 - sums[SQUARED_ERRORS] / spread
    if not math.isfinite(value):  # the spread is nothing beside the errors
        return 0.0, ZERO_DENOMINATOR
    return value, DEFINED


@measure(NUMBERS, "mean of e = prediction - y", better=NEARER, help="Mean of prediction minus label")
@inner
def bias(sums: Floats) -> Result:
    """Mean of prediction - label: above 0 where too much is predicted.

    >>> from prequential.core.tables.scores import sums_of
    >>> bias(sums_of({SCORED: 2, BIAS: -1}))
    (-0.5, 0)
    """
    return sums[BIAS] / sums[SCORED], DEFINED


@measure(
    RELATIVES, "mean of abs(e)/abs(y) where y isn't 0", low=0, better=LESS, undefined=(ZERO_DENOMINATOR,),
    loss=Loss("mape", function=own_relative),
    help="Mean absolute error relative to the label, where that isn't 0",
)  # fmt: skip
@inner
def mape(sums: Floats) -> Result:
    """Mean absolute percentage error, a share: mean of |e|/|y| over the outcomes with a label y that isn't 0.

    >>> from prequential.core.tables.scores import sums_of
    >>> mape(sums_of({SCORED: 3, RELATIVE: 2, RELATIVE_ERRORS: 0.5})), mape(sums_of({SCORED: 3}))
    ((0.25, 0), (0.0, 8))
    """
    if sums[RELATIVE] < NO_WEIGHT:
        return 0.0, ZERO_DENOMINATOR
    return sums[RELATIVE_ERRORS] / sums[RELATIVE], DEFINED
