"""HDDM-W: weighted error rates before and after a cut, by McDiarmid's inequality (Frías-Blanco et al. 2015).

As river 0.26 has it (https://doi.org/10.1109/TKDE.2014.2345382).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.compiled.mathematics import log as ln
from prequential.engine.detectors.declaration import Detector, Parameter, loop_with_warnings

#: The samples: all outcomes; those up to the best cut for a rise and those after it; … for a fall.
ALL, BEFORE_RISE, AFTER_RISE, BEFORE_FALL, AFTER_FALL = range(5)
_SAMPLES = 5


class HddmW(NamedTuple):
    """By sequence: samples since the last alarm."""

    begun: Bytes  # (sequences, 5): whether there is an outcome in it
    mean: Floats  # (sequences, 5): its exponentially weighted mean
    bound: Floats  # (sequences, 5): sum of its squared weights
    lowest: Floats  # upper bound of the mean of all at the cut for a rise
    highest: Floats  # lower bound of it at the cut for a fall
    warning: Bytes  # whether there is one
    alarms: Ints  # raised so far


class HddmWParameters(NamedTuple):
    """Parameters."""

    drift_confidence: float
    warning_confidence: float
    lambda_val: float
    two_sided_test: bool


@inner
def _add(table: HddmW, q: int, sample: int, weight: float, x: float) -> None:
    """Add an outcome to a sample. The sum of squared weights of an empty sample counts as 1."""
    first = not table.begun[q, sample]
    squares = 1.0 if first else table.bound[q, sample]
    table.mean[q, sample] = x if first else weight * x + (1.0 - weight) * table.mean[q, sample]
    table.bound[q, sample] = weight * weight + (1.0 - weight) * (1.0 - weight) * squares
    table.begun[q, sample] = 1


@inner
def _vector(table: HddmW, q: int, before: int) -> None:
    """Move the cut to now: all outcomes are before it, none after it."""
    table.begun[q, before], table.begun[q, before + 1] = 1, 0
    table.mean[q, before], table.bound[q, before] = table.mean[q, ALL], table.bound[q, ALL]


@inner
def _radius(squares: float, confidence: float) -> float:
    """McDiarmid's bound for a mean with this sum of squared weights."""
    return math.sqrt(squares * ln(1.0 / confidence) / 2.0)


@inner
def _compare(
    table: HddmW, settings: HddmWParameters, q: int, before: int, sign: float
) -> tuple[int, float, float]:
    """Whether the mean has risen since a cut: alarm (2), warning (1) or none (0); the rise, and its bound."""
    if not table.begun[q, before + 1]:
        return 0, 0.0, 0.0
    squares = table.bound[q, before] + table.bound[q, before + 1]
    off = sign * (table.mean[q, before + 1] - table.mean[q, before])
    bound = _radius(squares, settings.drift_confidence)
    if off > bound:
        return 2, off, bound
    return int(off > _radius(squares, settings.warning_confidence)), off, bound


@inner
def step(table: HddmW, settings: HddmWParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` an error (1) or none (0): whether there is an alarm, the statistic and its bound.

    An alarm when the mean after the cut is above that before it by more than sqrt(v·ln(1/α)/2), v the sum of
    the squared weights of both. The cut is where the upper bound of the mean of all was smallest. The
    two-sided test does it the other way around, too.
    """
    weight, drift = settings.lambda_val, settings.drift_confidence
    _add(table, q, ALL, weight, x)
    radius = _radius(table.bound[q, ALL], drift)
    upper, lower = table.mean[q, ALL] + radius, table.mean[q, ALL] - radius
    if not table.begun[q, BEFORE_RISE] or upper < table.lowest[q]:
        table.lowest[q] = upper
        _vector(table, q, BEFORE_RISE)
    else:
        _add(table, q, AFTER_RISE, weight, x)
    if not table.begun[q, BEFORE_FALL] or lower > table.highest[q]:
        table.highest[q] = lower
        _vector(table, q, BEFORE_FALL)
    else:
        _add(table, q, AFTER_FALL, weight, x)
    verdict, off, bound = _compare(table, settings, q, BEFORE_RISE, 1.0)
    warned = verdict == 1
    if settings.two_sided_test and verdict < 2:
        verdict, off, bound = _compare(table, settings, q, BEFORE_FALL, -1.0)
        warned = warned or verdict == 1
    raised = verdict == 2
    table.warning[q] = warned and not raised
    if raised:
        table.alarms[q] += 1
        for sample in range(_SAMPLES):
            table.begun[q, sample] = 0
    return raised, off, bound


DETECTOR = Detector(
    (
        Parameter("drift_confidence", 0.001, "significance of an alarm (α)", 0, 1, above=True, below=True),
        Parameter("warning_confidence", 0.005, "significance of a warning", 0, 1, above=True, below=True),
        Parameter("lambda_val", 0.05, "weight of an outcome when it comes", 0, 1, above=True),
        Parameter("two_sided_test", False, "whether a fall of the error rate is an alarm, too"),
    ),
    HddmWParameters,
    HddmW,
    loop_with_warnings("hddm-w", step),
    binary=True,
    widths=lambda settings: dict.fromkeys(("begun", "mean", "bound"), _SAMPLES),
)
