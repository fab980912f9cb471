"""The probability that a period will miss its objective when the labels come."""

from __future__ import annotations

from prequential.engine.compiled.normal import both_tails
from prequential.engine.measures.declaration import MORE, NEARER, Measure

#: The standard normal quantile of a two-sided interval of 90%.
_QUANTILE = 1.6448536269514722


def miss(one: Measure, bound: float, tolerance: float, value: float, half: float) -> float:
    """Probability that a measure will be worse than its bound and the tolerance.

    Parameters
    ----------
    one
        The measure.
    bound, tolerance
        Bound and tolerance of the objective.
    value, half
        The estimate, and half the width of its 90% interval: they define the normal distribution.

    Returns
    -------
    float
        0 … 1.

    Examples
    --------
    >>> from prequential.engine.measures.registry import MEASURES
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
        return _above((value - low) / deviation)
    above = _above((low - value) / deviation)
    return above + _above((low + value) / deviation) if one.better == NEARER else above


def _above(x: float) -> float:
    """The standard normal distribution's probability above x.

    >>> [round(_above(x), 6) for x in (-40.0, 0.0, 1.644853, 40.0)]
    [1.0, 0.5, 0.05, 0.0]
    """
    return both_tails(x) / 2 if x >= 0.0 else 1.0 - both_tails(-x) / 2
