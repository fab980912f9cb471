"""CUSUM of standardised values, self-starting (Page 1954; Hawkins 1987, https://doi.org/10.2307/2348827).

MOA's CUSUM of deviations from the running mean is the same as the Page-Hinkley test. Here a value is compared
with all earlier values in units of their standard deviation, so one threshold fits every signal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.detectors import declaration
from prequential.engine.detectors.budgets import WIDTH, loop_with_budget, threshold_of
from prequential.engine.detectors.declaration import Detector, Parameter, bounded

#: The largest deviation, in standard deviations, that one value counts as: an outlier alone is no change.
_MOST = 10.0

#: Standard deviations below this share of the mean are rounding errors.
_ROUNDING = 1e-12


class Cusum(NamedTuple):
    """By sequence: values since the last alarm, and the sums."""

    n: Ints  # values
    mean: Floats  # of them
    squares: Floats  # sum of their squared deviations from it
    up: Floats  # sum for an increase
    down: Floats  # sum for a decrease
    alarms: Ints  # raised so far
    # With a budget of false alarms (`engine.detectors.budgets`):
    threshold: Floats  # in force; 0: the configured one
    losses: Floats  # (sequences, `WIDTH`): sums over pairs and clusters of losses
    last: Floats  # the last loss
    begun: Bytes  # whether there was one


class CusumParameters(NamedTuple):
    """Parameters."""

    drift: float  # k
    threshold: float  # h
    min_outcomes: int
    direction: int
    apart: float = 0.0  # ms between false alarms of a stream, which set the threshold; 0: it is as configured
    kind: int = 0  # the kind of signal, see `budgets`
    cluster: int = 0  # configured length of clusters, ms; 0: several lengths


@inner
def _off(table: Cusum, q: int, x: float) -> float:
    """A value's deviation from the mean of the n before it, over its standard deviation s·sqrt((n + 1)/n)."""
    n = table.n[q]
    spread = math.sqrt(table.squares[q] / (n - 1) * (n + 1) / n) if n > 1 else 0.0
    if spread <= _ROUNDING * abs(table.mean[q]):  # the values have not varied yet
        return 0.0
    return min(max((x - table.mean[q]) / spread, -_MOST), _MOST)


@inner
def step(table: Cusum, settings: CusumParameters, q: int, x: float) -> tuple[bool, float]:
    """Feed sequence `q` a value; returns whether there is an alarm, and the statistic.

    z is the value's deviation in standard deviations, at most 10 up or down. The sum S = max(0, S + z - k)
    raises an alarm when S > h. For a decrease, S = max(0, S - z - k). The first `min_outcomes` values are not
    compared.
    """
    value = bounded(x)
    statistic = 0.0
    if table.n[q] >= settings.min_outcomes:
        z = _off(table, q, value)
        if settings.direction != declaration.DECREASE:
            table.up[q] = max(0.0, table.up[q] + z - settings.drift)
        if settings.direction != declaration.INCREASE:
            table.down[q] = max(0.0, table.down[q] - z - settings.drift)
        statistic = max(table.up[q], table.down[q])
    if statistic > threshold_of(table, settings, q):
        table.alarms[q] += 1
        table.n[q] = 0
        table.mean[q] = table.squares[q] = table.up[q] = table.down[q] = 0.0
        return True, statistic
    n = table.n[q] + 1
    off = value - table.mean[q]
    mean = table.mean[q] + off / n
    table.squares[q] += off * (value - mean)
    table.n[q], table.mean[q] = n, mean
    return False, statistic


DETECTOR = Detector(
    (
        Parameter("k", 0.1, "standard deviations that a value may be off"),
        Parameter("h", 60.0, "threshold of the sum, in standard deviations", above=True, rarer=1),
        Parameter("min_outcomes", declaration.MIN_OUTCOMES, "values before the first comparison", 2, 1 << 40),
        Parameter("direction", "increase", "of a change of the mean", among=declaration.DIRECTIONS),
    ),
    CusumParameters,
    Cusum,
    loop_with_budget("cusum", step, standardised=True),
    drift="k",
    standardised=True,
    widths=lambda settings: {"losses": WIDTH},
)
