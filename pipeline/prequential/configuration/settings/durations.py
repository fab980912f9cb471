"""Durations: integer milliseconds, written as `500ms`, `5m` or `7d`; and budgets such as `1 per 30d`.

Periods also are months and quarters, which have no length of their own: `1mo`, `1q`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from prequential.topics.errors import UsageError

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|w|S|min|H|D|W)")

MINUTE, HOUR, WEEK = _MILLISECONDS["m"], _MILLISECONDS["h"], _MILLISECONDS["w"]

#: A month of a period, in ms: the mean of the Gregorian calendar, 400 years / 4800. A period whose length is
#: a multiple of it is so many months of the calendar; its length serves where only a scale is needed.
MONTH = 2_629_746_000

_MONTHS = {"mo": 1, "q": 3}
_CALENDAR_PERIOD = re.compile(r"([0-9]+)\s*(mo|q)")


def duration(text: str | int) -> int:
    """Return the milliseconds of a duration such as `500ms`, `1s`, `5m`, `2h`, `7d` or `2w`.

    The spellings of pandas (`1D`, `5min`) also work. Raises ValueError, which quotes the text.

    >>> duration("5m"), duration("5min"), duration("1D")
    (300000, 300000, 86400000)
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        if isinstance(text, str) and _CALENDAR_PERIOD.fullmatch(text.strip()):
            raise ValueError(f"{text!r} has no fixed length, as only `period` may have: expected e.g. 30d")
        raise ValueError(f"{text!r} is no duration: expected e.g. 500ms, 1s, 5m, 2h, 7d")
    return int(match[1]) * _MILLISECONDS["m" if match[2] == "min" else match[2].lower()]


def period_length(text: str | int) -> int:
    """Return the milliseconds of a period: of a duration, or of months (`1mo`) or quarters (`1q`).

    Months and quarters get a multiple of `MONTH`. Raises ValueError, which quotes the text.

    >>> period_length("1d"), period_length("1mo") == MONTH, period_length("1q") == 3 * MONTH
    (86400000, True, True)
    >>> period_length("1M")
    Traceback (most recent call last):
    ...
    ValueError: '1M' is no period: expected e.g. 1h, 1d, 1w, 1mo (months) or 1q (quarters)
    """
    match = _CALENDAR_PERIOD.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is not None:
        return int(match[1]) * _MONTHS[match[2]] * MONTH
    try:
        milliseconds = duration(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no period: expected e.g. 1h, 1d, 1w, 1mo (months) or 1q (quarters)"
        ) from None
    if milliseconds and milliseconds % MONTH == 0:
        months = exact_period(milliseconds)
        raise ValueError(f"{text!r} is the mean length of {months}: expected {months}, or another duration")
    return milliseconds


def of_timedelta(delta: timedelta) -> str:
    """Return a `timedelta`, or a pandas `Timedelta`, as a configuration has it.

    Raises ValueError for a fraction of a millisecond.

    >>> of_timedelta(timedelta(days=7)), of_timedelta(timedelta(minutes=90))
    ('7d', '90m')
    """
    milliseconds, rest = divmod(delta, timedelta(milliseconds=1))
    if rest:
        raise ValueError(f"{delta!r}: expected a duration of whole milliseconds")
    return exact_duration(milliseconds)


def exact_duration(milliseconds: int) -> str:
    """A duration in ms as a configuration would have it: a whole number of its largest unit, days at most.

    >>> exact_duration(604_800_000), exact_duration(90_000), exact_duration(1)
    ('7d', '90s', '1ms')
    """
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % _MILLISECONDS[unit] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def exact_period(period: int) -> str:
    """A length of periods (ms) as a configuration would have it: `period_length` of it is this one again.

    >>> exact_period(604_800_000), exact_period(MONTH), exact_period(6 * MONTH)
    ('7d', '1mo', '2q')
    """
    months, rest = divmod(period, MONTH)
    if rest or not months:
        return exact_duration(period)
    return f"{months}mo" if months % 3 else f"{months // 3}q"


def shown_period(period: int, zone: str) -> str:
    """A length of periods (ms), and the time zone that they follow, unless that is UTC.

    >>> shown_period(86_400_000, "UTC"), shown_period(MONTH, "Asia/Tokyo")
    ('1d', '1mo in Asia/Tokyo')
    """
    length = shown_duration(period) if period % MONTH else exact_period(period)
    return length + ("" if zone == "UTC" else f" in {zone}")


def shown_duration(milliseconds: int) -> str:
    """A duration in ms, its two largest units: to the minute from an hour on, to the second from a minute on.

    >>> shown_duration(604_800_000), shown_duration(606_570_000), shown_duration(90_500), shown_duration(250)
    ('7d', '7d 30m', '1m 31s', '250ms')
    >>> shown_duration(3_600_000), shown_duration(1_500), shown_duration(0)
    ('1h', '1s 500ms', '0ms')
    """
    for least, step in ((3_600_000, 60_000), (60_000, 1_000)):
        if milliseconds >= least:
            milliseconds = (milliseconds + step // 2) // step * step
            break
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, milliseconds = divmod(milliseconds, _MILLISECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0ms"


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
