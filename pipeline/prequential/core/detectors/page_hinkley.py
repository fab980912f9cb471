"""Page-Hinkley test for a change of a signal's mean (2013 paper, section 5.1)."""

from __future__ import annotations

from typing import NamedTuple

from prequential.core.detectors.declaration import MIN_OUTCOMES, Alarms, Detector, Parameter, raise_alarm
from prequential.core.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.core.outcomes import Log

#: Directions of a change, in the order in which they are declared.
INCREASE, DECREASE, BOTH = range(3)
DIRECTIONS = ("increase", "decrease", "both")


class PageHinkley(NamedTuple):
    """By sequence: the test since its last alarm."""

    t: Ints  # T, values seen
    total: Floats  # x_1 + … + x_T
    m: Floats  # m_T
    lowest: Floats  # M_T
    m_down: Floats  # m_T of the test for a decrease
    highest: Floats  # M_T of the test for a decrease
    alarms: Ints  # raised so far


class Settings(NamedTuple):
    """Parameters of the test."""

    delta: float  # δ
    threshold: float  # λ
    min_outcomes: int
    direction: int


def new_table(rows: int, settings: Settings) -> PageHinkley:
    """Tests of so many sequences, none begun."""
    return zeros(PageHinkley, rows)


@inner
def step(table: PageHinkley, settings: Settings, q: int, x: float) -> tuple[bool, float]:
    """Feed sequence `q` the value x_T: whether there is an alarm, and the statistic.

    x̄_T = (x_1 + … + x_T)/T, m_T = m_{T-1} + x_T - x̄_T - δ, M_T = min(M_{T-1}, m_T), m_0 = M_0 = 0; an alarm
    when m_T - M_T > λ and T >= `min_outcomes`, after which T is 0 again. Of a decrease:
    m_T = m_{T-1} + x_T - x̄_T + δ, M_T = max(M_{T-1}, m_T), and M_T - m_T > λ.
    """
    t = table.t[q] + 1
    total = table.total[q] + x
    off = x - total / t
    statistic = 0.0
    m = lowest = m_down = highest = 0.0
    if settings.direction != DECREASE:
        m = table.m[q] + (off - settings.delta)
        lowest = min(table.lowest[q], m)
        statistic = m - lowest
    if settings.direction != INCREASE:
        m_down = table.m_down[q] + (off + settings.delta)
        highest = max(table.highest[q], m_down)
        statistic = max(statistic, highest - m_down)
    raised = statistic > settings.threshold and t >= settings.min_outcomes
    if raised:
        table.alarms[q] += 1
        t, total, m, lowest, m_down, highest = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    table.t[q], table.total[q], table.m[q], table.lowest[q] = t, total, m, lowest
    table.m_down[q], table.highest[q] = m_down, highest
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
                raise_alarm(alarms, i, detector, statistic, settings.threshold)


DETECTOR = Detector(
    (
        Parameter("delta", 0.005, "magnitude of changes that are allowed (δ)"),
        Parameter("lambda", 50.0, "threshold of the statistic (λ)", above=True, rarer=1),
        Parameter(
            "min_outcomes", MIN_OUTCOMES, "values to be seen before an alarm", 1, 1 << 40, always=False
        ),
        Parameter("direction", "increase", "of a change of the mean", among=DIRECTIONS, always=False),
    ),
    Settings,
    new_table,
    run,
    drift="delta",
)
