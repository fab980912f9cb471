"""Durations: integer milliseconds, written as `500ms`, `5m` or `7d`."""

from __future__ import annotations

import re
from datetime import timedelta

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|w|S|min|H|D|W)")

MINUTE, HOUR, WEEK = _MILLISECONDS["m"], _MILLISECONDS["h"], _MILLISECONDS["w"]


def duration(text: str | int) -> int:
    """Return the milliseconds of a duration such as `500ms`, `1s`, `5m`, `2h`, `7d` or `2w`.

    The spellings of pandas (`1D`, `5min`) also work. Raises ValueError, which quotes the text.

    >>> duration("5m"), duration("5min"), duration("1D")
    (300000, 300000, 86400000)
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no duration: expected e.g. 500ms, 1s, 5m, 2h, 7d")
    return int(match[1]) * _MILLISECONDS["m" if match[2] == "min" else match[2].lower()]


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


def shown_period(period: int, zone: str) -> str:
    """A length of periods (ms), and the time zone that they follow, unless that is UTC.

    >>> shown_period(86_400_000, "UTC"), shown_period(86_400_000, "Asia/Tokyo")
    ('1d', '1d in Asia/Tokyo')
    """
    return shown_duration(period) + ("" if zone == "UTC" else f" in {zone}")


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
