"""EDDM, early drift detection method: errors come closer to each other (Baena-García et al. 2006).

As river 0.26 has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.detectors.declaration import Detector, Parameter, loop_with_warnings


class Eddm(NamedTuple):
    """By sequence: distances between errors, in outcomes, since the last alarm."""

    n: Ints  # outcomes
    last: Ints  # number of the outcome that was the last error
    errors: Ints  # distances, of which the first is from the beginning
    mean: Floats  # of the distances
    squares: Floats  # sum of their squared deviations from it
    largest: Floats  # largest mean + 2·standard deviation
    warning: Bytes  # whether the ratio to it is below the one for warnings
    alarms: Ints  # raised so far


class EddmParameters(NamedTuple):
    """Parameters."""

    warm_start: int
    alpha: float
    beta: float


@inner
def step(table: Eddm, settings: EddmParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` an error (1) or none (0); returns whether it alarms, the statistic and its bound.

    The statistic is (p' + 2s')/(p'_max + 2s'_max): p' is the mean distance between errors, and s' its
    standard deviation. There is an alarm when it is below β at an error, after more than `warm_start` errors.
    """
    n = table.n[q] + 1
    table.n[q] = n
    if x != 1.0:
        return False, 0.0, settings.beta
    errors = table.errors[q] + 1
    distance = float(n - table.last[q])
    before = table.mean[q]
    mean = before + 1.0 / errors * (distance - before)
    squares = table.squares[q] + (distance - before) * (distance - mean)
    table.errors[q], table.last[q], table.mean[q], table.squares[q] = errors, n, mean, squares
    if n <= settings.warm_start:
        return False, 0.0, settings.beta
    reach = mean + 2.0 * (math.sqrt(max(0.0, squares / (errors - 1))) if errors > 1 else 0.0)
    if reach > table.largest[q]:
        table.largest[q] = reach
        return False, 0.0, settings.beta
    if errors <= settings.warm_start:
        return False, 0.0, settings.beta
    level = reach / table.largest[q]
    raised = level < settings.beta
    table.warning[q] = level < settings.alpha and not raised
    if raised:
        table.alarms[q] += 1
        table.n[q] = table.last[q] = table.errors[q] = 0
        table.mean[q] = table.squares[q] = table.largest[q] = 0.0
    return raised, level, settings.beta


def problem(values: Mapping[str, Any]) -> str:
    """A warning comes before the alarm."""
    if values["alpha"] >= values["beta"]:
        return ""
    return f"alpha {values['alpha']:g} is below beta {values['beta']:g}: expected at least beta"


DETECTOR = Detector(
    (
        Parameter("warm_start", 30, "outcomes, and errors, before the first alarm", 1, 1 << 40),
        Parameter("alpha", 0.95, "ratio below which there is a warning", 0, 1, above=True),
        Parameter("beta", 0.9, "ratio below which there is an alarm", 0, 1, above=True),
    ),
    EddmParameters,
    Eddm,
    loop_with_warnings("eddm", step),
    binary=True,
    problem=problem,
)
