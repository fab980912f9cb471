"""Count the times of a source by their kind of zone, and find columns that may contain times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple


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
