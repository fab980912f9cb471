"""The forms of times: units for numbers, forms of text, time zones, and how often each occurs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from prequential.topics import values

#: Units of a time, and the nanoseconds of each. The other forms are text: `rfc3339`, `iso` (as tables write
#: times, with or without an offset), and formats of `strptime`, such as `%Y-%m-%d %H:%M:%S`.
UNITS = {"ms": 1_000_000, "s": 1_000_000_000, "us": 1_000, "ns": 1}
RFC3339, ISO = "rfc3339", "iso"

#: Matches a format of `strptime` whose times contain an offset.
_OFFSET = re.compile(r"(?:%%|[^%]|%[^z%])*%z", re.DOTALL)


#: Forms of dates and times whose digits look like one number, by how many digits that has.
_FORMS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}

#: The years of such dates.
_YEARS = range(1990, 2101)


def calendar_form(values: Sequence[Any]) -> str | None:
    """Return the form of dates that are written as numbers, if all values certainly are such dates.

    >>> calendar_form([20260105, "20260131", 20260201.0]), calendar_form([20260105100000])
    ('%Y%m%d', '%Y%m%d%H%M%S')
    >>> calendar_form([20260131, 20260132]), calendar_form([0, 1_000]), calendar_form([1_700_000_000_000])
    (None, None, None)
    """
    texts = {str(value).removesuffix(".0") for value in values if type(value) in (int, float, str)}
    form = _FORMS.get(len(next(iter(texts), "")))
    if form is None or not all(text.isdecimal() and text.isascii() for text in texts):
        return None
    try:
        years = {datetime.strptime(text, form).year for text in texts}
    except ValueError:
        return None
    return form if all(year in _YEARS for year in years) else None


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


@dataclass
class Clocks:
    """Counts of times by their kind of zone, without times that are numbers since 1970.

    >>> from zoneinfo import ZoneInfo
    >>> clocks = Clocks()
    >>> clocks.note_local(datetime(2026, 10, 25, 2, 30), ZoneInfo("Europe/Berlin"))
    >>> clocks.counts, clocks.examples["twice"]
    ({'named': 1, 'twice': 1}, '2026-10-25 02:30:00')
    """

    #: The number of times by kind: `naive` (no zone, read as UTC), `aware` (with an offset), and `named` (no
    #: zone, read in `zone`). `twice` and `never` count the named times that the zone repeats or skips.
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    zone: str = ""

    def note(self, kind: str, example: Any, count: int = 1) -> None:
        """Count times of one kind, and keep the first example."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples.setdefault(kind, str(example))

    def note_local(self, moment: date, zone: Any = None) -> None:
        """Count a time without an offset, which is read in `zone`, or in UTC without one."""
        if zone is None:
            self.note("naive", moment)
            return
        self.zone = str(zone)
        self.note("named", moment)
        if isinstance(moment, datetime):
            early, late = (zone.utcoffset(moment.replace(tzinfo=None, fold=fold)) for fold in (0, 1))
            if early != late:
                self.note("twice" if early > late else "never", moment)


class TimeColumn(NamedTuple):
    """A column that may contain times, in a file whose records have no `ts`."""

    kind: int
    name: str
    section: str  # of the file's mapping


#: Names that tables often have for the time of an event.
_TIME_NAME = re.compile(
    r"(event|record|request|created|updated|occurred|logged|predicted|prediction|labell?ed|label)?[_ .-]?"
    r"(timestamp|datetime|time|date|ts|at)(_?(ms|s|us|ns|utc))?|\w+_at", re.IGNORECASE,
)  # fmt: skip


def time_names(names: Iterable[str]) -> list[str]:
    """Return the names that a column with the time of an event may have.

    >>> time_names(["id", "timestamp", "paid_at", "eventTime", "event_ts", "y_true", "state", "arr_time"])
    ['timestamp', 'paid_at', 'eventTime', 'event_ts']
    """
    return [name for name in names if _TIME_NAME.fullmatch(name) and name.lower() != "at"]
