"""Event times: epoch milliseconds from what a message's `ts` holds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
#: More digits than a datetime has would be rounded, and a time must not move into the future.
_BEYOND_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
#: The offset as RFC 3339 has it; msgspec takes `+0100`, too, which only ISO 8601 has.
_OFFSET = re.compile(r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z")
#: A leap second, which neither a datetime nor epoch milliseconds have: it is the second behind it.
_LEAP = re.compile(r"([Tt ][0-9]{2}:[0-9]{2}:)60")
_rfc3339 = msgspec.json.Decoder(datetime)


def milliseconds(ts: str) -> int:
    """Epoch milliseconds of an RFC 3339 string; digits below the millisecond are cut off.

    Raises ValueError, quoting the string, if it is no RFC 3339 time or has no offset.

    >>> milliseconds("1970-01-01T00:00:01.5Z")
    1500
    >>> milliseconds("1970-01-01T01:00:00+01:00")
    0
    >>> milliseconds("2016-12-31T23:59:60Z") - milliseconds("2016-12-31T23:59:59Z")
    1000
    >>> milliseconds("9999-12-31T23:59:60Z")
    253402300800000
    >>> milliseconds("yesterday")
    Traceback (most recent call last):
    ...
    ValueError: ts is 'yesterday': expected epoch milliseconds or an RFC 3339 time with offset
    """
    moment, behind = _moment(ts), 0
    if moment is None:
        moment, behind = _moment(_LEAP.sub(r"\g<1>59", ts)), 1000
    if moment is None or not _OFFSET.search(ts):
        raise ValueError(
            f"ts is {ts[:64]!r}: expected epoch milliseconds or an RFC 3339 time with offset"
        )
    return (moment - _EPOCH) // _MILLISECOND + behind


def _moment(ts: str) -> datetime | None:
    """The time of an ISO 8601 string; None: it is none."""
    try:
        found: datetime = _rfc3339.decode(msgspec.json.encode(_BEYOND_MICROSECONDS.sub(r"\1", ts)))
    except msgspec.ValidationError:
        return None
    return found
