"""CUSUM of standardised values, self-starting (Page 1954; Hawkins 1987, https://doi.org/10.2307/2348827).

MOA's CUSUM of deviations from the running mean is the same as the Page-Hinkley test. Here a value is compared
with all earlier values in units of their standard deviation, so one threshold fits every signal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.engine.detectors.budgets import WIDTH, learn
from prequential.engine.detectors.declaration import (
    DECREASE,
    DIRECTIONS,
    INCREASE,
    MIN_OUTCOMES,
    Detector,
    Parameter,
    bounded,
)
from prequential.engine.tables.logs import Alarms, raise_alarm
from prequential.engine.tables.outcomes import Log

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

    k: float
    h: float
    min_outcomes: int
    direction: int
    apart: float = 0.0  # ms between false alarms of a stream, which set the threshold; 0: it is as configured
    kind: int = 0  # the kind of signal, see `budgets`
    cluster: int = 0  # configured length of clusters, ms; 0: several lengths


def new_table(rows: int, settings: CusumParameters) -> Cusum:
    """Tests of sequences without values."""
    return zeros(Cusum, rows, losses=WIDTH)


@inner
def threshold_of(table: Cusum, settings: CusumParameters, q: int) -> float:
    """h of sequence `q`."""
    return table.threshold[q] if settings.apart > 0.0 and table.threshold[q] > 0.0 else settings.h


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
        if settings.direction != DECREASE:
            table.up[q] = max(0.0, table.up[q] + z - settings.k)
        if settings.direction != INCREASE:
            table.down[q] = max(0.0, table.down[q] - z - settings.k)
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


@kernel
def run(
    table: Cusum,
    settings: CusumParameters,
    log: Log,
    rows: Ints32,
    values: Floats,
    fed: Bytes,
    detector: int,
    alarms: Alarms,
) -> None:
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    for i in range(len(rows)):
        if fed[i]:
            row = rows[i]
            q = log.sequence[row]
            raised, statistic = step(table, settings, q, values[i])
            if raised:
                raise_alarm(alarms, i, detector, statistic, threshold_of(table, settings, q))
            if settings.apart > 0.0:
                learn(table, settings, log, row, values[i], raised, settings.k, True)


DETECTOR = Detector(
    (
        Parameter("k", 0.1, "standard deviations that a value may be off"),
        Parameter("h", 60.0, "threshold of the sum, in standard deviations", above=True, rarer=1),
        Parameter("min_outcomes", MIN_OUTCOMES, "values before the first comparison", 2, 1 << 40),
        Parameter("direction", "increase", "of a change of the mean", among=DIRECTIONS),
    ),
    CusumParameters,
    new_table,
    run,
    drift="k",
    standardised=True,
)
