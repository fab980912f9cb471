"""Page-Hinkley test for an increase of a signal's mean (2013 paper, section 5.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.detectors.declaration import Alarms, Detector, Parameter, raise_alarm
from prequential.core.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.core.outcomes import Log


class PageHinkley(NamedTuple):
    """By sequence: the test since its last alarm."""

    t: Ints  # T, values seen
    total: Floats  # x_1 + … + x_T
    m: Floats  # m_T
    lowest: Floats  # M_T
    alarms: Ints  # raised so far


class Settings(NamedTuple):
    """Parameters of the test."""

    delta: float  # δ, magnitude of changes that are allowed
    threshold: float  # λ
    min_outcomes: int


def new_table(rows: int) -> PageHinkley:
    """Tests of so many sequences, none begun."""
    return PageHinkley(
        np.zeros(rows, np.int64), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows, np.int64)
    )


@inner
def step(table: PageHinkley, settings: Settings, q: int, x: float) -> tuple[bool, float]:
    """Feed sequence `q` the value x_T: whether there is an alarm, and the statistic.

    x̄_T = (x_1 + … + x_T)/T, m_T = m_{T-1} + x_T - x̄_T - δ, M_T = min(M_{T-1}, m_T), m_0 = M_0 = 0; an alarm
    when m_T - M_T > λ and T >= `min_outcomes`, after which T is 0 again.
    """
    t = table.t[q] + 1
    total = table.total[q] + x
    m = table.m[q] + (x - total / t - settings.delta)
    lowest = min(table.lowest[q], m)
    statistic = m - lowest
    raised = statistic > settings.threshold and t >= settings.min_outcomes
    if raised:
        table.alarms[q] += 1
        t, total, m, lowest = 0, 0.0, 0.0, 0.0
    table.t[q], table.total[q], table.m[q], table.lowest[q] = t, total, m, lowest
    return raised, statistic


@kernel
def run(
    table: PageHinkley,
    settings: Settings,
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
            raised, statistic = step(table, settings, log.sequence[rows[i]], values[i])
            if raised:
                raise_alarm(alarms, i, detector, statistic)


DETECTOR = Detector(
    (
        Parameter("delta", 0.005, 0.0),
        Parameter("lambda", 50.0, 0.0, above=True),
        Parameter("min_outcomes", 30, 1),
    ),
    Settings,
    new_table,
    run,
)
