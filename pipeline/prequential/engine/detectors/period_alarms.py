"""Alarms of periods before their labels are there: unusual signals, and objectives that will be missed.

A period can raise one alarm for each signal and for each measure of the objective, when it first reaches a
maturity. Such alarms have no detector's table: `engine.delay.usual` learns the usual deviations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prequential.configuration.settings.streams import PeriodAlarmConfig
from prequential.engine.delay.usual import SIGNALS
from prequential.engine.measures.registry import INDEX

#: Names of the detectors in alarms: a signal is unusual; the objective will be missed.
UNUSUAL, MISS = "unusual-period", "objective"


class PeriodAlarm(NamedTuple):
    """The content of a period's alarm."""

    detector: str
    signal: str  # … or the measure
    statistic: float  # standard deviations, with their sign; or the probability of missing the objective
    threshold: float


def alarms_of(
    config: PeriodAlarmConfig, signals: Mapping[str, float | None], measures: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[int, PeriodAlarm]]:
    """The alarms of a period, each with its bit in the column that records raised alarms.

    Parameters
    ----------
    config
        The thresholds.
    signals
        How unusual the period is, in standard deviations; None: not known.
    measures
        The estimates, by measure: `miss` is the probability that its objective will be missed.

    Examples
    --------
    >>> expected = {"accuracy": {"miss": 0.97}, "kappa": {}}
    >>> for _, alarm in alarms_of(PeriodAlarmConfig(), {"concept": -5.5, "inputs": None}, expected):
    ...     print(*alarm)
    unusual-period concept -5.5 4.0
    objective accuracy 0.97 0.95
    """
    for bit, name in enumerate(SIGNALS):
        value, threshold = signals.get(name), getattr(config, name)
        if value is not None and threshold is not None and abs(value) > threshold:
            yield bit, PeriodAlarm(UNUSUAL, name, value, threshold)
    for name, said in measures.items():
        if config.miss is not None and said.get("miss", 0.0) >= config.miss:
            yield len(SIGNALS) + INDEX[name], PeriodAlarm(MISS, name, said["miss"], config.miss)
