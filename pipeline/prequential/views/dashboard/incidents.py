"""Keep all known incidents, open and ended ones."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.topics.outputs import Incident

#: The largest number of incidents that are kept. The oldest ended incidents are dropped first.
_KEPT = 2_000

OPEN = "open"


class IncidentLog:
    """The newest revision of each incident, up to a limit."""

    def __init__(self) -> None:
        self._incidents: dict[str, Incident] = {}
        self._by_model: dict[tuple[str, str, int], dict[str, None]] = {}
        #: The number of incidents that were dropped.
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._incidents)

    def add(self, said: Incident) -> None:
        """Add a revision of an incident; ignored unless it is newer than the known one."""
        known = self._incidents.get(said.id)
        if known is not None and known.revision >= said.revision:
            return
        self._incidents[said.id] = said
        self._by_model.setdefault((said.stream, said.model, said.partition), {})[said.id] = None
        if len(self._incidents) > _KEPT:
            self._forget(min(self._incidents.values(), key=lambda one: (one.status == OPEN, began(one))))

    def find(self, identifier: str) -> Incident | None:
        """Return the incident with this id; None if it is unknown."""
        return self._incidents.get(identifier)

    def of_model(self, stream: str, model: str, partition: int) -> list[Incident]:
        """Return the incidents of a model, the newest first."""
        ids = self._by_model.get((stream, model, partition), {})
        return _newest_first(self._incidents[one] for one in ids)

    def open_of(self, stream: str, model: str, partition: int) -> Incident | None:
        """Return the most severe open incident of a model; None if there is none."""
        open_ones = [one for one in self.of_model(stream, model, partition) if one.status == OPEN]
        return max(open_ones, key=lambda one: one.severity, default=None)

    def all(self) -> list[Incident]:
        """Return all incidents: open ones by descending severity, then the others, the newest first."""
        incidents = _newest_first(self._incidents.values())
        incidents.sort(key=lambda one: (one.status != OPEN, -one.severity if one.status == OPEN else 0.0))
        return incidents

    def open_count(self) -> int:
        """Return the number of open incidents."""
        return sum(one.status == OPEN for one in self._incidents.values())

    def _forget(self, one: Incident) -> None:
        self.dropped += 1
        del self._incidents[one.id]
        model = one.stream, one.model, one.partition
        del self._by_model[model][one.id]
        if not self._by_model[model]:
            del self._by_model[model]


def began(incident: Incident) -> int:
    """Return the label time of the change point (epoch ms)."""
    return incident.change_point["ts"]


def _newest_first(incidents: Iterable[Incident]) -> list[Incident]:
    return sorted(incidents, key=lambda one: (-began(one), -one.change_point["outcome"], one.id))
