"""Measures for regression, and for labels that aren't a fair sample, from sums (see `engine.tables.scores`).

They need at least one outcome: the caller handles sequences without any.

If an instance gets a label with the known probability π (its propensity), an outcome stands for 1/π
instances.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures.declaration import (
    DEFINED,
    INTERVALS,
    LESS,
    NEARER,
    NO_PROPENSITY,
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
    measure,
)
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    LEAST_LABEL,
    NO_WEIGHT,
    RELATIVE,
    RELATIVE_ERRORS,
    SCORED,
    SQUARED_ERRORS,
    WEIGHT,
    WEIGHT_RIGHT,
    WEIGHT_SQUARED,
)

#: f(sums): sums of errors with the weights of predictions.
WEIGHTS = Input("weights of predictions", REGRESSION, "sums", (ZERO_DENOMINATOR,), True, scores.OF_WEIGHTS)


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

    >>> from prequential.engine.tables.scores import sums_of
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

    >>> from prequential.engine.tables.scores import sums_of
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

    >>> from prequential.engine.tables.scores import sums_of
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

    >>> from prequential.engine.tables.scores import sums_of
    >>> r2(sums_of({SCORED: 2, SQUARED_ERRORS: 1}), 2.0), r2(sums_of({SCORED: 2, SQUARED_ERRORS: 1}), 0.0)
    ((0.5, 0), (0.0, 8))
    """
    if not spread > 0.0:
        return 0.0, ZERO_DENOMINATOR
    value = 1.0 - sums[SQUARED_ERRORS] / spread
    if not math.isfinite(value):  # the spread is negligible next to the errors
        return 0.0, ZERO_DENOMINATOR
    return value, DEFINED


@measure(NUMBERS, "mean of e = prediction - y", better=NEARER, help="Mean of prediction minus label")
@inner
def bias(sums: Floats) -> Result:
    """Mean of prediction - label: above 0 where too much is predicted.

    >>> from prequential.engine.tables.scores import sums_of
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

    >>> from prequential.engine.tables.scores import sums_of
    >>> mape(sums_of({SCORED: 3, RELATIVE: 2, RELATIVE_ERRORS: 0.5})), mape(sums_of({SCORED: 3}))
    ((0.25, 0), (0.0, 8))
    """
    if sums[RELATIVE] < NO_WEIGHT:
        return 0.0, ZERO_DENOMINATOR
    return sums[RELATIVE_ERRORS] / sums[RELATIVE], DEFINED


@inner
def own_pinball(log: Log, row: int, quantile: float) -> tuple[float, bool]:
    """The pinball loss of an outcome; without a quantile it doesn't count."""
    error = log.error[row]
    return (1.0 - quantile) * error if error > 0.0 else -quantile * error, quantile > 0.0


@measure(
    QUANTILES, "mean of max(q·(y - prediction), (q - 1)·(y - prediction)), q = `quantile`",
    "Koenker and Bassett 1978", low=0, better=LESS, loss=Loss("pinball", function=own_pinball),
    help="Mean pinball loss of predictions of a quantile",
)  # fmt: skip
@inner
def pinball(sums: Floats, quantile: float) -> Result:
    """Mean of q·(y - h) where the label y is above the prediction h, else of (1 - q)·(h - y).

    The sums of errors above and below 0 are (Σ|e| ± Σe)/2.

    >>> from prequential.engine.tables.scores import sums_of
    >>> pinball(sums_of({SCORED: 2, ABSOLUTE_ERRORS: 5.0, BIAS: -3.0}), 0.75)  # errors 1 and -4
    (1.625, 0)
    """
    over = max(0.0, sums[ABSOLUTE_ERRORS] + sums[BIAS])
    under = max(0.0, sums[ABSOLUTE_ERRORS] - sums[BIAS])
    return 0.5 * ((1.0 - quantile) * over + quantile * under) / sums[SCORED], DEFINED


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
    help="Share of predicted intervals that the label is in",
)  # fmt: skip
@inner
def interval_coverage(sums: Floats) -> Result:
    """Share of the outcomes with an interval whose label is in it, bounds included.

    >>> from prequential.engine.tables.scores import sums_of
    >>> interval_coverage(sums_of({scores.INTERVALS: 4, scores.COVERED: 3}))
    (0.75, 0)
    """
    return sums[scores.COVERED] / sums[scores.INTERVALS], DEFINED


@measure(
    INTERVALS, "mean of `y_upper` - `y_lower`", low=0, better=LESS,
    loss=Loss("interval_width", function=own_width), help="Mean width of predicted intervals",
)  # fmt: skip
@inner
def interval_width(sums: Floats) -> Result:
    """Mean width of the intervals of the outcomes that have one.

    >>> from prequential.engine.tables.scores import sums_of
    >>> interval_width(sums_of({scores.INTERVALS: 4, scores.WIDTHS: 6}))
    (1.5, 0)
    """
    return sums[scores.WIDTHS] / sums[scores.INTERVALS], DEFINED


@measure(
    SEASONS, "Σabs(e)/Σabs(b - y), b the seasonal baseline", "after Hyndman and Koehler 2006", low=0,
    better=LESS, undefined=(ZERO_DENOMINATOR,),
    help="Absolute error relative to that of the seasonal baseline",
)  # fmt: skip
@inner
def mase(sums: Floats) -> Result:
    """Σ|e|/Σ|b - y| over the outcomes with a seasonal baseline b (`engine.join.scoring`).

    The scale is that of the same outcomes. Hyndman and Koehler scale by the errors of a season's lag in the
    data that a model was trained with.

    References
    ----------
    Hyndman, Koehler: International Journal of Forecasting 22, 2006, pages 679-688.

    Examples
    --------
    >>> from prequential.engine.tables.scores import sums_of
    >>> mase(sums_of({scores.SEASONAL: 2, scores.SEASONAL_ABSOLUTE: 1, scores.BASELINE_ABSOLUTE: 2}))
    (0.5, 0)
    """
    if not sums[scores.BASELINE_ABSOLUTE] > 0.0:
        return 0.0, ZERO_DENOMINATOR
    return sums[scores.SEASONAL_ABSOLUTE] / sums[scores.BASELINE_ABSOLUTE], DEFINED


@measure(
    SEASONS, "sqrt(Σe²/Σ(b - y)²), b the seasonal baseline", "after Makridakis et al. 2022", low=0,
    better=LESS, undefined=(ZERO_DENOMINATOR,),
    help="Root of the squared error relative to that of the seasonal baseline",
)  # fmt: skip
@inner
def rmsse(sums: Floats) -> Result:
    """sqrt(Σe²/Σ(b - y)²) over the outcomes with a seasonal baseline b, as `mase`.

    References
    ----------
    Makridakis, Spiliotis, Assimakopoulos: M5 accuracy competition: results, findings, and conclusions,
    International Journal of Forecasting 38, 2022.

    Examples
    --------
    >>> from prequential.engine.tables.scores import sums_of
    >>> rmsse(sums_of({scores.SEASONAL: 2, scores.SEASONAL_SQUARED: 1, scores.BASELINE_SQUARED: 4}))
    (0.5, 0)
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
    help="Mean weighted interval score of predicted quantiles",
)  # fmt: skip
@inner
def wis(sums: Floats) -> Result:
    """Mean weighted interval score of the outcomes with quantiles: twice their mean pinball loss.

    It equals equation 2 if the levels are the median and the bounds of central intervals. Any levels will do.

    References
    ----------
    Bracher, Ray, Gneiting, Reich: Evaluating epidemic forecasts in an interval format, PLOS Computational
    Biology 17, 2021.

    Examples
    --------
    >>> from prequential.engine.tables.scores import sums_of
    >>> wis(sums_of({scores.QUANTILE_SETS: 2, scores.INTERVAL_SCORES: 3}))
    (1.5, 0)
    """
    return sums[scores.INTERVAL_SCORES] / sums[scores.QUANTILE_SETS], DEFINED


@measure(
    WEIGHTS, "Σw·abs(e)/Σw, w = `weight`", low=0, better=LESS,
    help="Mean absolute error, weighted by the predictions' weight",
)  # fmt: skip
@inner
def weighted_mae(sums: Floats) -> Result:
    """Σw·|e|/Σw with the weights w of predictions, which are 1 by default: `mae` if no prediction has one.

    An estimator that forgets multiplies w by its own weight of the outcome.

    >>> from prequential.engine.tables.scores import sums_of
    >>> weighted_mae(sums_of({scores.WEIGHTS: 2, scores.WEIGHTED_ERRORS: 3}))
    (1.5, 0)
    """
    return sums[scores.WEIGHTED_ERRORS] / sums[scores.WEIGHTS], DEFINED


@measure(
    PROPENSITIES, "Σ [right]/π / Σ 1/π", "Hájek 1971", low=0, high=1,
    help="Accuracy, outcomes weighted with the inverse of their label's propensity",
)  # fmt: skip
@inner
def ipw_accuracy(sums: Floats) -> Result:
    """Inverse-propensity-weighted accuracy, Σ [right]/π / Σ 1/π (Hájek's estimator of a mean, 1971).

    Only outcomes whose instance has π count.

    >>> from prequential.engine.tables.scores import sums_of
    >>> ipw_accuracy(sums_of({WEIGHT: 8, WEIGHT_RIGHT: 2}))
    (0.25, 0)
    """
    if sums[WEIGHT] < NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    return sums[WEIGHT_RIGHT] / sums[WEIGHT], DEFINED


@measure(
    PROPENSITIES, "(Σ 1/π)²/Σ 1/π²: the effective number of outcomes", "Kish 1965", low=0, quality=False,
    help="Effective number of outcomes behind the weighted accuracy",
)  # fmt: skip
@inner
def ipw_n(sums: Floats) -> Result:
    """Effective number of outcomes behind `ipw_accuracy`, (Σ w)²/Σ w² with w = 1/π (Kish 1965).

    If all propensities are equal, it is the number of outcomes. It fades with the estimator, as `n` does.

    >>> from prequential.engine.tables.scores import sums_of
    >>> ipw_n(sums_of({WEIGHT: 4, WEIGHT_SQUARED: 8}))  # π = 0.5, twice
    (2.0, 0)
    """
    if sums[WEIGHT] < NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    # The square of a faded sum may be too small for a float, so don't use it; w >= 1, so Σ w² >= Σ w.
    return sums[WEIGHT] * (sums[WEIGHT] / sums[WEIGHT_SQUARED]), DEFINED
