"""Names of periods: a day by its date, a week by its Monday, a month and a quarter by theirs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: Months of a quarter, and days of a week.
_QUARTER, _WEEK = 3, 7


def period_name(start: int, end: int, zone: str = "UTC", *, untimed: bool = False) -> str:
    """Return what people call a period (epoch ms) in its zone; other lengths have their beginning and end.

    `untimed`: its ends are rows.

    >>> day = 86_400_000
    >>> july = 1_372_636_800_000
    >>> period_name(july, july + day), period_name(july, july + 7 * day), period_name(july, july + 31 * day)
    ('1 Jul 2013', 'week of 1 Jul 2013', 'July 2013')
    >>> period_name(july, july + 92 * day), period_name(july, july + 3_600_000)
    ('3rd quarter of 2013', '1 Jul 2013 00:00 to 01:00')
    >>> new_york = 1_388_466_000_000  # 31 December, 05:00 in UTC
    >>> period_name(new_york, new_york + day, "America/New_York")
    '31 Dec 2013'
    >>> period_name(0, 500, untimed=True)
    'rows 0 to 499'
    """
    if untimed:
        return f"rows {start:,} to {end - 1:,}"
    try:
        first, last = (_moment(ms, zone) for ms in (start, end))
    except (OverflowError, ValueError, OSError):
        return f"{start} to {end}"
    if not any((first.hour, first.minute, first.second, last.hour, last.minute, last.second)):
        name = _of_days(first, last)
        if name is not None:
            return name
    form = "%H:%M:%S" if first.second or last.second else "%H:%M"
    until = f"{last:{form}}" if first.date() == last.date() else f"{_date(last)} {last:{form}}"
    return f"{_date(first)} {first:{form}} to {until}{'' if zone == 'UTC' else f' ({zone})'}"


def _of_days(first: datetime, last: datetime) -> str | None:
    """Return the name of a day, a week, a month or a quarter; None of another number of days."""
    days = (last.date() - first.date()).days
    if days == 1:
        return _date(first)
    if days == _WEEK and first.weekday() == 0:
        return f"week of {_date(first)}"
    months = 12 * (last.year - first.year) + last.month - first.month
    if first.day == last.day == 1:
        if months == 1:
            return f"{first:%B %Y}"
        if months == _QUARTER and first.month % _QUARTER == 1:
            return f"{('1st', '2nd', '3rd', '4th')[first.month // _QUARTER]} quarter of {first.year}"
    return f"{_date(first)} to {_date(last - timedelta(days=1))}"


def _moment(ms: int, zone: str) -> datetime:
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment if zone == "UTC" else moment.astimezone(ZoneInfo(zone))


def _date(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"
