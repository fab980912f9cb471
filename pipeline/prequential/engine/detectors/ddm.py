"""DDM, drift detection method: an error rate above its best (Gama, Medas, Castillo and Rodrigues 2004).

As river 0.26 has it (https://doi.org/10.1007/978-3-540-28645-5_29).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.detectors.declaration import Detector, Parameter, loop_with_warnings


class Ddm(NamedTuple):
    """By sequence: the error rate since the last alarm, and at its best."""

    n: Ints  # outcomes
    p: Floats  # error rate
    p_best: Floats  # … when p + s was smallest
    s_best: Floats  # its standard deviation then
    warning: Bytes  # whether p + s is above the threshold for warnings
    alarms: Ints  # raised so far


class DdmParameters(NamedTuple):
    """Parameters."""

    warm_start: int
    warning_threshold: float
    drift_threshold: float


@inner
def step(table: Ddm, settings: DdmParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` an error (1) or none (0): whether there is an alarm, the statistic and its bound.

    With p the error rate of n outcomes and s = sqrt(p(1 - p)/n): an alarm when p + s > p_best + c·s_best,
    with c the `drift_threshold`, and n > `warm_start`.
    """
    n = table.n[q] + 1
    p = table.p[q] + 1.0 / n * (x - table.p[q])
    table.n[q], table.p[q] = n, p
    if n <= settings.warm_start:
        return False, 0.0, 0.0
    s = math.sqrt(max(0.0, p * (1.0 - p) / n))
    if n == settings.warm_start + 1 or p + s <= table.p_best[q] + table.s_best[q]:
        table.p_best[q], table.s_best[q] = p, s
    bound = table.p_best[q] + settings.drift_threshold * table.s_best[q]
    raised = p + s > bound
    table.warning[q] = p + s > table.p_best[q] + settings.warning_threshold * table.s_best[q] and not raised
    if raised:
        table.alarms[q] += 1
        table.n[q], table.p[q], table.p_best[q], table.s_best[q] = 0, 0.0, 0.0, 0.0
    return raised, p + s, bound


DETECTOR = Detector(
    (
        Parameter("warm_start", 30, "outcomes before the first alarm", 1, 1 << 40),
        Parameter("warning_threshold", 2.0, "standard deviations above the best that are a warning"),
        Parameter("drift_threshold", 3.0, "standard deviations above the best that are an alarm"),
    ),
    DdmParameters,
    Ddm,
    loop_with_warnings("ddm", step),
    binary=True,
)
