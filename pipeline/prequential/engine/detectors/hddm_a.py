"""HDDM-A: error rates before and after a cut, by Hoeffding's inequality (Frías-Blanco et al. 2015).

As river 0.26 has it (https://doi.org/10.1109/TKDE.2014.2345382).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.compiled.mathematics import log as ln
from prequential.engine.detectors.declaration import Detector, Parameter, loop_with_warnings


class HddmA(NamedTuple):
    """By sequence: means since the last alarm."""

    n: Ints  # outcomes
    mean: Floats  # their error rate
    n_low: Ints  # outcomes up to the cut where the upper bound of the error rate was lowest
    low: Floats  # their error rate
    n_high: Ints  # … and up to the cut where the lower bound was highest
    high: Floats
    warning: Bytes  # whether there is one
    alarms: Ints  # raised so far


class HddmAParameters(NamedTuple):
    """Parameters."""

    drift_confidence: float
    warning_confidence: float
    two_sided_test: bool


@inner
def _radius(n: float, confidence: float) -> float:
    """Hoeffding's bound for the mean of n values in 0 … 1."""
    return math.sqrt(1.0 / (2.0 * n) * ln(1.0 / confidence))


@inner
def _bound(n: float, vector: float, confidence: float) -> float:
    """Hoeffding's bound for the difference between the means of n values and of those up to a cut."""
    return math.sqrt((n - vector) / vector * (1.0 / n) / 2.0 * ln(2.0 / confidence))


@inner
def step(table: HddmA, settings: HddmAParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` an error (1) or none (0); returns whether it alarms, the statistic and its bound.

    z̄ is the mean of all n outcomes. x̄ is the mean of the first m < n, for which x̄ + sqrt(ln(1/α)/2m) was
    smallest. There is an alarm when z̄ - x̄ >= sqrt((n - m)/(m·n)·ln(2/α)/2). The two-sided test also does the
    same for a decrease.
    """
    n = table.n[q] + 1
    mean = table.mean[q] + 1.0 / n * (x - table.mean[q])
    table.n[q], table.mean[q] = n, mean
    drift, warning = settings.drift_confidence, settings.warning_confidence
    radius = _radius(n, drift)
    if n == 1 or table.low[q] + _radius(table.n_low[q], drift) >= mean + radius:
        table.n_low[q], table.low[q] = n, mean
    if n == 1 or table.high[q] - _radius(table.n_high[q], drift) <= mean - radius:
        table.n_high[q], table.high[q] = n, mean
    off, bound, raised, warned = 0.0, 0.0, False, False
    if table.n_low[q] != n:
        off, bound = mean - table.low[q], _bound(n, table.n_low[q], drift)
        raised = off >= bound
        warned = off >= _bound(n, table.n_low[q], warning)
    if settings.two_sided_test and not raised and table.n_high[q] != n:
        off, bound = table.high[q] - mean, _bound(n, table.n_high[q], drift)
        raised = off >= bound
        warned = warned or off >= _bound(n, table.n_high[q], warning)
    table.warning[q] = warned and not raised
    if raised:
        table.alarms[q] += 1
        table.n[q] = table.n_low[q] = table.n_high[q] = 0
        table.mean[q] = table.low[q] = table.high[q] = 0.0
    return raised, off, bound


DETECTOR = Detector(
    (
        Parameter("drift_confidence", 0.001, "significance of an alarm (α)", 0, 1, above=True, below=True),
        Parameter("warning_confidence", 0.005, "significance of a warning", 0, 1, above=True, below=True),
        Parameter("two_sided_test", False, "whether a fall of the error rate is an alarm, too"),
    ),
    HddmAParameters,
    HddmA,
    loop_with_warnings("hddm-a", step),
    binary=True,
)
