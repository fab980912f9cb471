"""What the times of a source say of their zone: counts, with an example of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any


@dataclass
class Clocks:
    """Times by what they say of their zone; numbers since 1970 aren't among them.

    >>> from zoneinfo import ZoneInfo
    >>> clocks = Clocks()
    >>> clocks.note_local(datetime(2026, 10, 25, 2, 30), ZoneInfo("Europe/Berlin"))
    >>> clocks.counts, clocks.examples["twice"]
    ({'named': 1, 'twice': 1}, '2026-10-25 02:30:00')
    """

    #: How many times are `naive` (no zone, read as UTC), `aware` (they have an offset), `named` (no zone,
    #: read as those of `zone`), and of these such that occur `twice` in the zone, or `never`.
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    zone: str = ""

    def note(self, kind: str, example: Any, count: int = 1) -> None:
        """Count times of a kind; the first example is kept."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples.setdefault(kind, str(example))

    def note_local(self, moment: date, zone: Any = None) -> None:
        """Count a time without a zone of its own, which is read as that of `zone`, or as UTC."""
        if zone is None:
            self.note("naive", moment)
            return
        self.zone = str(zone)
        self.note("named", moment)
        if isinstance(moment, datetime):
            early, late = (zone.utcoffset(moment.replace(tzinfo=None, fold=fold)) for fold in (0, 1))
            if early != late:
                self.note("twice" if early > late else "never", moment)
