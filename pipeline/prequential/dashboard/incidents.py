"""Incidents as far as they are shown: what isn't known yet, or isn't there, is no obstacle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

#: Incidents that are kept: the ended ones go first, the oldest of them before others.
_KEPT = 2_000


class Place(msgspec.Struct, gc=False):
    """An outcome, and its label's time (epoch ms); of a change point also its prediction's time."""

    outcome: int
    ts: int = 0
    prediction_ts: int | None = None


class Level(msgspec.Struct, gc=False):
    """A level of the loss, with its interval and the outcomes that it is of."""

    level: float | None = None
    interval: tuple[float, float] | None = None
    n: float | None = None


class Incident(msgspec.Struct, gc=False):
    """The newest revision of an incident."""

    id: str
    stream: str
    model: str
    revision: int = 1
    status: str = "open"
    partition: int = 0
    stage: str = "final"
    opened: Place | None = None
    change_point: Place | None = None
    recovered: Place | None = None
    alarms: list[str] = []
    signals: list[dict[str, Any]] = []
    severity: float | None = None
    before: Level | None = None
    after: Level | None = None
    causes: list[dict[str, Any]] = []
    #: As they are: by baseline, a level before and after.
    baselines: dict[str, Any] = {}
    examples: list[Any] = []
    ts: int = 0

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.status != "open"

    @property
    def began(self) -> int:
        """Since when (epoch ms): the change point if it is known, else when it was noticed."""
        place = self.change_point or self.opened
        return place.ts if place is not None and place.ts else self.ts


decode_incident = msgspec.json.Decoder(Incident).decode


class Incidents:
    """The newest revision of each incident, of so many."""

    def __init__(self) -> None:
        self._found: dict[str, Incident] = {}
        self._of: dict[tuple[str, str, int], dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def update(self, said: Incident) -> bool:
        """Take in a revision; whether it is newer than what was known."""
        known = self._found.get(said.id)
        if known is not None and known.revision >= said.revision:
            return False
        self._found[said.id] = said
        self._of.setdefault((said.stream, said.model, said.partition), {})[said.id] = None
        if len(self._found) > _KEPT:
            self._forget(min(self._found.values(), key=lambda one: (not one.ended, one.began)))
        return True

    def find(self, identifier: str) -> Incident | None:
        """The incident of this id."""
        return self._found.get(identifier)

    def of(self, stream: str, model: str, partition: int) -> list[Incident]:
        """A model's, the newest first."""
        ids = self._of.get((stream, model, partition), {})
        return newest_first(self._found[one] for one in ids)

    def open_of(self, stream: str, model: str, partition: int) -> Incident | None:
        """The most severe one of a model that is open."""
        found = [one for one in self.of(stream, model, partition) if not one.ended]
        return max(found, key=lambda one: one.severity or 0.0, default=None)

    def all(self) -> list[Incident]:
        """All of them: open ones first, the most severe before others, then the newest first."""
        found = newest_first(self._found.values())
        found.sort(key=lambda one: (one.ended, 0.0 if one.ended else -(one.severity or 0.0)))
        return found

    def _forget(self, one: Incident) -> None:
        del self._found[one.id]
        of = one.stream, one.model, one.partition
        del self._of[of][one.id]
        if not self._of[of]:
            del self._of[of]


def newest_first(incidents: Iterable[Incident]) -> list[Incident]:
    """By when they began."""
    return sorted(incidents, key=lambda one: (-one.began, one.id))
