"""Measures for regression, and for labels that aren't a fair sample, from sums (see `engine.tables.scores`).

They need at least one outcome: the caller handles sequences without any.

If an instance gets a label with the known probability π (its propensity), an outcome stands for 1/π
instances.

>>> from prequential.engine.tables.scores import sums_of
>>> of_two = {scores.ABSOLUTE_ERRORS: 5, scores.SQUARED_ERRORS: 8, scores.BIAS: -3}
>>> two = sums_of({scores.SCORED: 2, **of_two})
>>> {measure.__name__: measure(two)[0] for measure in (mae, mse, rmse, bias)}
{'mae': 2.5, 'mse': 4.0, 'rmse': 2.0, 'bias': -1.5}
>>> r2(two, 16.0), r2(two, 0.0), pinball(two, 0.75)
((0.5, 0), (0.0, 8), (1.625, 0))
>>> mape(sums_of({scores.SCORED: 3, scores.RELATIVE: 2, scores.RELATIVE_ERRORS: 0.5}))
(0.25, 0)
>>> mape(sums_of({scores.SCORED: 3}))
(0.0, 8)
>>> intervals = sums_of({scores.INTERVALS: 4, scores.COVERED: 3, scores.WIDTHS: 6})
>>> interval_coverage(intervals), interval_width(intervals)
((0.75, 0), (1.5, 0))
>>> mase(sums_of({scores.SEASONAL: 2, scores.SEASONAL_ABSOLUTE: 1, scores.BASELINE_ABSOLUTE: 2}))
(0.5, 0)
>>> rmsse(sums_of({scores.SEASONAL: 2, scores.SEASONAL_SQUARED: 1, scores.BASELINE_SQUARED: 4}))
(0.5, 0)
>>> wis(sums_of({scores.QUANTILE_SETS: 2, scores.INTERVAL_SCORES: 3}))
(1.5, 0)
>>> weighted_mae(sums_of({scores.WEIGHTS: 2, scores.WEIGHTED_ERRORS: 3}))
(1.5, 0)
>>> hit_rate_at_tolerance(sums_of({scores.TOLERATED: 8, scores.HITS: 6}))
(0.75, 0)
>>> ipw_accuracy(sums_of({scores.WEIGHT: 8, scores.WEIGHT_RIGHT: 2}))
(0.25, 0)
>>> ipw_n(sums_of({scores.WEIGHT: 4, scores.WEIGHT_SQUARED: 8}))  # π = 0.5, twice
(2.0, 0)
"""

from __future__ import annotations

import math
from typing import Any

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures.declaration import (
    DEFINED,
    INTERVALS,
    LESS,
    NEARER,
    NO_PROPENSITY,
    NO_SETTING,
    NUMBERS,
    PROPENSITIES,
    QUANTILE_SETS,
    QUANTILES,
    REGRESSION,
    RELATIVES,
    SEASONS,
    SPREAD,
    ZERO_DENOMINATOR,
    Input,
    Loss,
    Result,
    detail,
    measure,
)
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import Log

#: f(sums): sums of errors with the weights of predictions.
WEIGHTS = Input("weights of predictions", REGRESSION, "sums", (ZERO_DENOMINATOR,), True, scores.OF_WEIGHTS)

#: f(sums): sums of errors within the tolerance.
HITS = Input("hits", REGRESSION, "sums", (NO_SETTING,), True, scores.OF_TOLERANCE, ("hit_tolerance",))


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
    if size < scores.LEAST_LABEL:
        return 0.0, False
    return abs(log.error[row]) / size, True


@measure(NUMBERS, "mean of abs(e)", low=0, better=LESS, loss=Loss("mae", function=own_absolute))
def mae(sums: Floats) -> Result:
    """Mean absolute error."""
    return sums[scores.ABSOLUTE_ERRORS] / sums[scores.SCORED], DEFINED


@measure(NUMBERS, "mean of e²", low=0, better=LESS, loss=Loss("mse", function=own_square))
def mse(sums: Floats) -> Result:
    """Mean squared error."""
    return sums[scores.SQUARED_ERRORS] / sums[scores.SCORED], DEFINED


@measure(NUMBERS, "sqrt(`mse`)", low=0, better=LESS, loss=Loss("mse", root=True))
def rmse(sums: Floats) -> Result:
    """Root of the mean squared error."""
    return math.sqrt(sums[scores.SQUARED_ERRORS] / sums[scores.SCORED]), DEFINED


@measure(
    SPREAD, "1 - Σe²/Σ(y - ȳ)², ȳ the mean of the labels in memory", high=1, undefined=(ZERO_DENOMINATOR,),
)  # fmt: skip
def r2(sums: Floats, spread: float) -> Result:
    """Coefficient of determination."""
    if not spread > 0.0:
        return 0.0, ZERO_DENOMINATOR
    value = 1.0 - sums[scores.SQUARED_ERRORS] / spread
    if not math.isfinite(value):  # the spread is negligible next to the errors
        return 0.0, ZERO_DENOMINATOR
    return value, DEFINED


@measure(NUMBERS, "mean of e = prediction - y", better=NEARER)
def bias(sums: Floats) -> Result:
    """Mean of prediction minus label.

    It is above 0 where too much is predicted.
    """
    return sums[scores.BIAS] / sums[scores.SCORED], DEFINED


@measure(
    RELATIVES, "mean of abs(e)/abs(y) where y isn't 0", low=0, better=LESS, undefined=(ZERO_DENOMINATOR,),
    loss=Loss("mape", function=own_relative),
)  # fmt: skip
def mape(sums: Floats) -> Result:
    """Mean absolute error relative to the label, where that isn't 0."""
    if sums[scores.RELATIVE] < scores.NO_WEIGHT:
        return 0.0, ZERO_DENOMINATOR
    return sums[scores.RELATIVE_ERRORS] / sums[scores.RELATIVE], DEFINED


@inner
def own_pinball(log: Log, row: int, quantile: float) -> tuple[float, bool]:
    """The pinball loss of an outcome; without a quantile it doesn't count."""
    error = log.error[row]
    return (1.0 - quantile) * error if error > 0.0 else -quantile * error, quantile > 0.0


@measure(
    QUANTILES, "mean of max(q·(y - prediction), (q - 1)·(y - prediction)), q = `quantile`",
    "Koenker and Bassett 1978", low=0, better=LESS, loss=Loss("pinball", function=own_pinball),
)  # fmt: skip
def pinball(sums: Floats, quantile: float) -> Result:
    """Mean pinball loss of predictions of a quantile.

    The sums of errors above and below 0 are (Σ|e| ± Σe)/2.
    """
    over = max(0.0, sums[scores.ABSOLUTE_ERRORS] + sums[scores.BIAS])
    under = max(0.0, sums[scores.ABSOLUTE_ERRORS] - sums[scores.BIAS])
    return 0.5 * ((1.0 - quantile) * over + quantile * under) / sums[scores.SCORED], DEFINED


@inner
def own_outside(log: Log, row: int) -> tuple[float, bool]:
    """Whether the label is outside of the interval, and whether there is one."""
    has_interval = log.scored[row] & outcomes.INTERVAL != 0
    return 1.0 if has_interval and log.scored[row] & outcomes.COVERED == 0 else 0.0, has_interval


@inner
def own_width(log: Log, row: int) -> tuple[float, bool]:
    """The width of an outcome's interval, and whether there is one."""
    has_interval = log.scored[row] & outcomes.INTERVAL != 0
    return log.width[row] if has_interval else 0.0, has_interval


@measure(
    INTERVALS, "share of intervals with `y_lower` <= y <= `y_upper`", low=0, high=1,
    loss=Loss("interval_coverage", 1.0, one_less=True, function=own_outside),
)  # fmt: skip
def interval_coverage(sums: Floats) -> Result:
    """Share of predicted intervals that the label is in."""
    return sums[scores.COVERED] / sums[scores.INTERVALS], DEFINED


@measure(
    INTERVALS, "mean of `y_upper` - `y_lower`", low=0, better=LESS,
    loss=Loss("interval_width", function=own_width),
)  # fmt: skip
def interval_width(sums: Floats) -> Result:
    """Mean width of predicted intervals."""
    return sums[scores.WIDTHS] / sums[scores.INTERVALS], DEFINED


@measure(
    SEASONS, "Σabs(e)/Σabs(b - y), b the seasonal baseline", "after Hyndman and Koehler 2006", low=0,
    better=LESS, undefined=(ZERO_DENOMINATOR,),
)  # fmt: skip
def mase(sums: Floats) -> Result:
    """Absolute error relative to that of the seasonal baseline.

    The scale is that of the same outcomes. Hyndman and Koehler scale by the errors of a season's lag in the
    data that a model was trained with.

    References
    ----------
    Hyndman, Koehler: International Journal of Forecasting 22, 2006, pages 679-688.
    """
    if not sums[scores.BASELINE_ABSOLUTE] > 0.0:
        return 0.0, ZERO_DENOMINATOR
    return sums[scores.SEASONAL_ABSOLUTE] / sums[scores.BASELINE_ABSOLUTE], DEFINED


@measure(
    SEASONS, "sqrt(Σe²/Σ(b - y)²), b the seasonal baseline", "after Makridakis et al. 2022", low=0,
    better=LESS, undefined=(ZERO_DENOMINATOR,),
)  # fmt: skip
def rmsse(sums: Floats) -> Result:
    """Root of the squared error relative to that of the seasonal baseline.

    References
    ----------
    Makridakis, Spiliotis, Assimakopoulos: M5 accuracy competition: results, findings, and conclusions,
    International Journal of Forecasting 38, 2022.
    """
    if not sums[scores.BASELINE_SQUARED] > 0.0:
        return 0.0, ZERO_DENOMINATOR
    return math.sqrt(sums[scores.SEASONAL_SQUARED] / sums[scores.BASELINE_SQUARED]), DEFINED


@inner
def own_interval_score(log: Log, row: int) -> tuple[float, bool]:
    """The weighted interval score of an outcome, and whether it has quantiles."""
    has_quantiles = log.scored[row] & outcomes.OF_QUANTILES != 0
    return log.log_loss[row] if has_quantiles else 0.0, has_quantiles


@measure(
    QUANTILE_SETS, "mean of 2/Q·Σ_q max(q·(y - h_q), (q - 1)·(y - h_q)) over the Q levels of `quantiles`",
    "Bracher et al. 2021, eq. 2", low=0, better=LESS, loss=Loss("wis", function=own_interval_score),
)  # fmt: skip
def wis(sums: Floats) -> Result:
    """Mean weighted interval score of predicted quantiles.

    It is twice their mean pinball loss. It equals equation 2 if the levels are the median and the bounds of
    central intervals. Any levels will do.

    References
    ----------
    Bracher, Ray, Gneiting, Reich: Evaluating epidemic forecasts in an interval format, PLOS Computational
    Biology 17, 2021.
    """
    return sums[scores.INTERVAL_SCORES] / sums[scores.QUANTILE_SETS], DEFINED


@measure(WEIGHTS, "Σw·abs(e)/Σw, w = `weight`", low=0, better=LESS)
def weighted_mae(sums: Floats) -> Result:
    """Mean absolute error, weighted by the predictions' weight.

    Weights are 1 by default. An estimator that forgets multiplies w by its own weight of the outcome.
    """
    return sums[scores.WEIGHTED_ERRORS] / sums[scores.WEIGHTS], DEFINED


@measure(HITS, "share of outcomes with abs(e) <= `hit_tolerance`", low=0, high=1)
def hit_rate_at_tolerance(sums: Floats) -> Result:
    """Share of errors within the tolerance.

    An error that equals the tolerance is within it.
    """
    return sums[scores.HITS] / sums[scores.TOLERATED], DEFINED


@detail(scores.OF_TOLERANCE)
def hits(sums: Floats) -> dict[str, Any]:
    """Shares of outcomes that are hits by the sign of the error, and the number or weight of all outcomes.

    >>> from prequential.engine.tables.scores import sums_of
    >>> hits(sums_of({scores.TOLERATED: 8, scores.HITS: 5, scores.HITS_ABOVE: 3, scores.HITS_BELOW: 1}))
    {'n': 8.0, 'above': 0.375, 'exact': 0.125, 'below': 0.125}
    """
    n, above, below = (
        float(sums[place]) for place in (scores.TOLERATED, scores.HITS_ABOVE, scores.HITS_BELOW)
    )
    exact = float(sums[scores.HITS]) - above - below
    return {"n": n, "above": above / n, "exact": exact / n, "below": below / n}


@measure(PROPENSITIES, "Σ [right]/π / Σ 1/π", "Hájek 1971", low=0, high=1)
def ipw_accuracy(sums: Floats) -> Result:
    """Accuracy, outcomes weighted with the inverse of their label's propensity.

    Only outcomes whose instance has π count.
    """
    if sums[scores.WEIGHT] < scores.NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    return sums[scores.WEIGHT_RIGHT] / sums[scores.WEIGHT], DEFINED


@measure(PROPENSITIES, "(Σ 1/π)²/Σ 1/π²: the effective number of outcomes", "Kish 1965", low=0, quality=False)
def ipw_n(sums: Floats) -> Result:
    """Effective number of outcomes behind the weighted accuracy.

    If all propensities are equal, it is the number of outcomes. It fades with the estimator, as `n` does.
    """
    if sums[scores.WEIGHT] < scores.NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    # The square of a faded sum may be too small for a float, so don't use it; w >= 1, so Σ w² >= Σ w.
    return sums[scores.WEIGHT] * (sums[scores.WEIGHT] / sums[scores.WEIGHT_SQUARED]), DEFINED
