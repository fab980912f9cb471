"""All incidents that are known, whether they are over or not."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.topics.outputs import Incident

#: Incidents that are kept: the ended ones go first, the oldest of them before others.
_KEPT = 2_000

OPEN = "open"


class IncidentLog:
    """The newest revision of each incident, of so many."""

    def __init__(self) -> None:
        self._found: dict[str, Incident] = {}
        self._of: dict[tuple[str, str, int], dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, said: Incident) -> None:
        """Take in a revision; one that isn't newer than what was known changes nothing."""
        known = self._found.get(said.id)
        if known is not None and known.revision >= said.revision:
            return
        self._found[said.id] = said
        self._of.setdefault((said.stream, said.model, said.partition), {})[said.id] = None
        if len(self._found) > _KEPT:
            self._forget(min(self._found.values(), key=lambda one: (one.status == OPEN, began(one))))

    def find(self, identifier: str) -> Incident | None:
        """The incident of this id."""
        return self._found.get(identifier)

    def of(self, stream: str, model: str, partition: int) -> list[Incident]:
        """A model's, the newest first."""
        ids = self._of.get((stream, model, partition), {})
        return _newest_first(self._found[one] for one in ids)

    def open_of(self, stream: str, model: str, partition: int) -> Incident | None:
        """The most severe one of a model that is open."""
        found = [one for one in self.of(stream, model, partition) if one.status == OPEN]
        return max(found, key=lambda one: one.severity, default=None)

    def all(self) -> list[Incident]:
        """All of them: open ones first, the most severe before others; then the newest first."""
        found = _newest_first(self._found.values())
        found.sort(key=lambda one: (one.status != OPEN, -one.severity if one.status == OPEN else 0.0))
        return found

    def _forget(self, one: Incident) -> None:
        del self._found[one.id]
        of = one.stream, one.model, one.partition
        del self._of[of][one.id]
        if not self._of[of]:
            del self._of[of]


def began(incident: Incident) -> int:
    """Label time of the change point (epoch ms)."""
    return incident.change_point["ts"]


def _newest_first(incidents: Iterable[Incident]) -> list[Incident]:
    return sorted(incidents, key=lambda one: (-began(one), -one.change_point["outcome"], one.id))
