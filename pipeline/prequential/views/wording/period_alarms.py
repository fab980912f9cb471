"""Alarms of periods in words."""

from __future__ import annotations

from typing import Protocol

from prequential.configuration.settings.stages import PERIOD
from prequential.engine.detectors.period_alarms import MISS
from prequential.topics.reasons import printable


class AlarmFields(Protocol):
    """The fields of an alarm that are needed."""

    stage: str
    detector: str
    signal: str
    statistic: float


def of_period(alarm: AlarmFields) -> str | None:
    """Return an alarm of a period in words; None if the alarm is about outcomes.

    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(stage="period", detector="objective", signal="accuracy", statistic=0.971)
    >>> of_period(one)
    'accuracy of a period will miss its objective when the labels come: 97%'
    >>> one.detector, one.signal, one.statistic = "unusual-period", "concept", -5.2
    >>> of_period(one)
    'concept of a period unusual: -5.2 standard deviations'
    """
    if alarm.stage != PERIOD:
        return None
    name = printable(alarm.signal)
    if alarm.detector == MISS:
        chance = f"{100 * alarm.statistic:.0f}%"
        return f"{name} of a period will miss its objective when the labels come: {chance}"
    return f"{name} of a period unusual: {alarm.statistic:+.1f} standard deviations"
