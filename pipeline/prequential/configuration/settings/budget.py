"""A budget of false alarms, such as `1 per 30d`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from prequential.configuration.settings.durations import duration, exact_duration
from prequential.topics.errors import UsageError

#: Where neither a command nor a stream's settings say another one.
DEFAULT_BUDGET = "1 per 30d"

_BUDGET = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s+(?:per|in)\s+(\S+)\s*")


class Budget(NamedTuple):
    """So many false alarms of a stream in a period (ms)."""

    alarms: float
    period: int

    @property
    def rate(self) -> float:
        """False alarms per millisecond that the budget allows."""
        return self.alarms / self.period

    def __str__(self) -> str:
        """As a configuration would have it, exactly: `parse_budget` of it is this budget again."""
        return f"{Decimal(repr(self.alarms)):f}".removesuffix(".0") + f" per {exact_duration(self.period)}"


def parse_budget(text: str) -> Budget:
    """The budget of `NUMBER per DURATION`; raises UsageError quoting it.

    >>> parse_budget("1 per 30d"), str(parse_budget("0.5 per 12h"))
    (Budget(alarms=1.0, period=2592000000), '0.5 per 12h')
    >>> parse_budget("one a month")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: budget 'one a month': expected alarms per duration, e.g. 1 per 30d
    """
    match = _BUDGET.fullmatch(text)
    try:
        alarms, period = (float(match[1]), duration(match[2])) if match else (0.0, 0)
    except ValueError as error:
        raise UsageError(f"budget {text!r}: {error}") from error
    if alarms <= 0 or period <= 0:
        raise UsageError(f"budget {text!r}: expected alarms per duration, e.g. 1 per 30d")
    return Budget(alarms, period)
