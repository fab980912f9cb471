"""Page-Hinkley test for a change of a signal's mean (2013 paper, section 5.1)."""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner
from prequential.engine.detectors import declaration
from prequential.engine.detectors.budgets import WIDTH, loop_with_budget, threshold_of
from prequential.engine.detectors.declaration import Detector, Parameter


class PageHinkley(NamedTuple):
    """By sequence: the test since its last alarm."""

    t: Ints  # T, values seen
    total: Floats  # x_1 + … + x_T
    m: Floats  # m_T
    lowest: Floats  # M_T
    m_down: Floats  # m_T of the test for a decrease
    highest: Floats  # M_T of the test for a decrease
    alarms: Ints  # raised so far
    # With a budget of false alarms (`engine.detectors.budgets`):
    threshold: Floats  # in force; 0: the configured one
    losses: Floats  # (sequences, `WIDTH`): sums over pairs and clusters of losses
    last: Floats  # the last loss
    begun: Bytes  # whether there was one


class PageHinkleyParameters(NamedTuple):
    """Parameters of the test."""

    drift: float  # δ
    threshold: float  # λ
    min_outcomes: int
    direction: int
    apart: float = 0.0  # ms between false alarms of a stream, which set the threshold; 0: it is as configured
    kind: int = 0  # the kind of signal, see `budgets`
    cluster: int = 0  # configured length of clusters, ms; 0: several lengths


@inner
def step(table: PageHinkley, settings: PageHinkleyParameters, q: int, x: float) -> tuple[bool, float]:
    """Feed sequence `q` the value x_T; returns whether there is an alarm, and the statistic.

    The mean is x̄_T = (x_1 + … + x_T)/T, and m_T = m_{T-1} + x_T - x̄_T - δ. The minimum is `M_T =
    min(M_{T-1}, m_T)`, with m_0 = M_0 = 0. There is an alarm when m_T - M_T > λ and T >= `min_outcomes`; then
    T is 0 again. For a decrease, m_T = m_{T-1} + x_T - x̄_T + δ, `M_T = max(M_{T-1}, m_T)`, and the condition
    is M_T - m_T > λ.
    """
    t = table.t[q] + 1
    total = table.total[q] + x
    off = x - total / t
    statistic = 0.0
    m = lowest = m_down = highest = 0.0
    if settings.direction != declaration.DECREASE:
        m = table.m[q] + (off - settings.drift)
        lowest = min(table.lowest[q], m)
        statistic = m - lowest
    if settings.direction != declaration.INCREASE:
        m_down = table.m_down[q] + (off + settings.drift)
        highest = max(table.highest[q], m_down)
        statistic = max(statistic, highest - m_down)
    raised = statistic > threshold_of(table, settings, q) and t >= settings.min_outcomes
    if raised:
        table.alarms[q] += 1
        t, total, m, lowest, m_down, highest = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    table.t[q], table.total[q], table.m[q], table.lowest[q] = t, total, m, lowest
    table.m_down[q], table.highest[q] = m_down, highest
    return raised, statistic


DETECTOR = Detector(
    (
        Parameter("delta", 0.005, "magnitude of changes that are allowed (δ)"),
        Parameter("lambda", 50.0, "threshold of the statistic (λ)", above=True, rarer=1),
        Parameter(
            "min_outcomes",
            declaration.MIN_OUTCOMES,
            "values to be seen before an alarm",
            1,
            1 << 40,
            always=False,
        ),
        Parameter(
            "direction", "increase", "of a change of the mean", among=declaration.DIRECTIONS, always=False
        ),
    ),
    PageHinkleyParameters,
    PageHinkley,
    loop_with_budget("page-hinkley", step, standardised=False),
    drift="delta",
    widths=lambda settings: {"losses": WIDTH},
)
