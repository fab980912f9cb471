"""The forms of times: units for numbers, forms of text, and time zones."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from prequential.topics import values

#: Units of a time, and the nanoseconds of each. The other forms are text: `rfc3339`, `iso` (as tables write
#: times, with or without an offset), and formats of `strptime`, such as `%Y-%m-%d %H:%M:%S`.
UNITS = {"ms": 1_000_000, "s": 1_000_000_000, "us": 1_000, "ns": 1}
RFC3339, ISO = "rfc3339", "iso"

#: Matches a format of `strptime` whose times contain an offset.
_OFFSET = re.compile(r"(?:%%|[^%]|%[^z%])*%z", re.DOTALL)


def unit(value: Any) -> str:
    """Return a unit or a form of text, as a mapping names it; raises ValueError for anything else."""
    if value not in (*UNITS, RFC3339, ISO) and not (isinstance(value, str) and "%" in value):
        raise ValueError(
            f"{values.quoted(value)}: expected {', '.join(UNITS)}, {RFC3339}, {ISO} or a format such as "
            "'%Y-%m-%d %H:%M:%S'"
        )
    return str(value)


def time_zone(value: Any) -> str:
    """Return the name of a time zone; raises ValueError for anything else, or if no zones are installed."""
    if value == "UTC":
        return "UTC"
    try:
        return ZoneInfo(value).key
    except (ValueError, TypeError, AttributeError, OSError, ZoneInfoNotFoundError):
        pass
    if not available_timezones():
        raise ValueError(
            f"{values.quoted(value)}: this machine has no database of time zones: install the package tzdata "
            "(`pip install tzdata`), or use UTC"
        )
    raise ValueError(
        f"{values.quoted(value)}: expected the name of a time zone, such as UTC or Europe/Berlin"
    )


def why_no_zone(unit: str | None, timezone: str | None) -> str | None:
    """Return why this unit does not go with this time zone, in a sentence; None if it does."""
    if unit is None:
        return None  # a timezone alone is for dates and for text as in `iso`
    reason = None
    if unit in UNITS or unit == RFC3339:
        reason = f"unit {unit} needs no timezone: expected one without a unit, with {ISO} or with a format"
    elif _OFFSET.match(unit) is not None:
        reason = f"unit {values.quoted(unit)} has an offset (%z): expected no timezone next to it"
    if reason is not None:
        return None if timezone is None else reason
    if timezone is None:
        return (
            f"unit {values.quoted(unit)} is for times without a zone: expected timezone next to it, such as "
            "UTC or Europe/Berlin"
        )
    return None
