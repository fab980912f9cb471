"""The probability that a period will miss its objective when the labels come."""

from __future__ import annotations

from prequential.core.compiled.mathematics import exp
from prequential.core.measures.declaration import MORE, NEARER, Measure

#: The standard normal quantile of a two-sided interval of 90 %.
_QUANTILE = 1.6448536269514722

#: Coefficients of the normal tail (Hastings 1955, sheet 45; Abramowitz and Stegun 1964, 26.2.17).
_P = 0.2316419
_B = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
_ROOT = 0.3989422804014327  # 1/√(2π)


def miss(one: Measure, bound: float, tolerance: float, value: float, half: float) -> float:
    """Probability that a measure will be worse than its bound and the tolerance.

    Parameters
    ----------
    one
        The measure.
    bound, tolerance
        Of the objective.
    value, half
        What is expected, and half of the width of its interval of 90 %: the normal distribution with these.

    Returns
    -------
    float
        0 … 1.

    Examples
    --------
    >>> from prequential.core.measures.registry import MEASURES
    >>> [round(miss(MEASURES["accuracy"], 0.8, 0.0, value, 0.02), 3) for value in (0.78, 0.8, 0.82)]
    [0.95, 0.5, 0.05]
    >>> [round(miss(MEASURES[name], 0.8, 0.0, 0.82, 0.02), 3) for name in ("error", "bias")]
    [0.95, 0.95]
    """
    allowed = tolerance if one.better == MORE else -tolerance
    low, deviation = bound - allowed, half / _QUANTILE
    if deviation <= 0.0:
        return float(one.margin(value, bound) + tolerance < 0)
    if one.better == MORE:
        return normal_tail((value - low) / deviation)
    above = normal_tail((low - value) / deviation)
    return above + normal_tail((low + value) / deviation) if one.better == NEARER else above


def normal_tail(x: float) -> float:
    """The standard normal distribution's probability above x, within 1e-7; the same bits on every machine.

    >>> [round(normal_tail(x), 6) for x in (-40.0, 0.0, 1.644853, 40.0)]
    [1.0, 0.5, 0.05, 0.0]
    """
    if x < 0.0:
        return 1.0 - normal_tail(-x)
    t, sum_of_powers = 1.0 / (1.0 + _P * x), 0.0
    for coefficient in reversed(_B):
        sum_of_powers = (sum_of_powers + coefficient) * t
    return _ROOT * exp(-0.5 * x * x) * sum_of_powers
