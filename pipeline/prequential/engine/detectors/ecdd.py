"""ECDD: a chart of the exponentially weighted error rate (Ross, Adams, Tasoulis and Hand 2012).

https://doi.org/10.1016/j.patrec.2011.08.019.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.detectors.declaration import MIN_OUTCOMES, Detector, Parameter, loop_with_warnings

#: The weight λ of an outcome when it comes: the paper's, for which its limits are made.
_WEIGHT = 0.2

#: Share of the limit from which on there is a warning (section 3.3).
_WARNING = 0.5

#: Numbers of outcomes between false alarms for which there are limits. (The paper's printed polynomial for
#: 1000 gives only 40 to 600.)
_RUN_LENGTHS = (100, 400)


class Ecdd(NamedTuple):
    """By sequence: the chart since the last alarm."""

    n: Ints  # outcomes
    p: Floats  # their error rate
    z: Floats  # their exponentially weighted error rate
    left: Floats  # the factor of the variance, which is small at first: 1 - (1 - λ)^2n
    warning: Bytes  # whether there is one
    alarms: Ints  # raised so far


class EcddParameters(NamedTuple):
    """Parameters."""

    run_length: int
    min_outcomes: int


@inner
def limit(p: float, run_length: int) -> float:
    """L, in standard deviations of z, for an error rate p (Table 1: polynomials fitted to simulations)."""
    p3 = p * p * p
    p5 = p3 * p * p
    p7 = p5 * p * p
    if run_length == 0:
        return 2.76 - 6.23 * p + 18.12 * p3 - 312.45 * p5 + 1002.18 * p7
    return 3.97 - 6.56 * p + 48.73 * p3 - 330.13 * p5 + 848.18 * p7


@inner
def step(table: Ecdd, settings: EcddParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` an error (1) or none (0); returns whether it alarms, the statistic and its bound.

    p is the error rate of all n outcomes, and the statistic is z = (1 - λ)·z + λ·x with z_0 = 0. There is an
    alarm when n >= `min_outcomes` and z > `p + L·sqrt(p(1 - p)·λ/(2 - λ)·(1 - (1 - λ)^2n))`.
    """
    n = table.n[q] + 1
    p = table.p[q] + (x - table.p[q]) / n
    z = (1.0 - _WEIGHT) * table.z[q] + _WEIGHT * x
    factor = 1.0 - (1.0 - _WEIGHT) * (1.0 - _WEIGHT) * (1.0 - table.left[q])
    table.n[q], table.p[q], table.z[q], table.left[q] = n, p, z, factor
    if n < settings.min_outcomes:
        return False, 0.0, 0.0
    spread = math.sqrt(max(0.0, p * (1.0 - p)) * _WEIGHT / (2.0 - _WEIGHT) * factor)
    room = limit(p, settings.run_length) * spread
    raised = z > p + room
    table.warning[q] = z > p + _WARNING * room and not raised
    if raised:
        table.alarms[q] += 1
        table.n[q], table.p[q], table.z[q], table.left[q] = 0, 0.0, 0.0, 0.0
    return raised, z, p + room


DETECTOR = Detector(
    (
        Parameter("average_run_length", 400, "outcomes between false alarms", among=_RUN_LENGTHS),
        Parameter("min_outcomes", MIN_OUTCOMES, "outcomes before the first alarm", 1, 1 << 40),
    ),
    EcddParameters,
    Ecdd,
    loop_with_warnings("ecdd", step),
    binary=True,
)
