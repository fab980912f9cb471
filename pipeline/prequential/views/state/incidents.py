"""The newest message about each incident, and alarms grouped by change."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from prequential.topics.foreign_json import reader
from prequential.topics.outputs import Incident
from prequential.views.state.readings import Notice

#: The longest time (ms) between two alarms about the same change: detectors find a change one after another.
_GAP_MS = 600_000
#: The most outcomes between two such alarms, which matters on slow streams: the length of the default window.
_GAP_OUTCOMES = 1_000

#: The most alarms kept for a change, and changes kept for a model. A detector that doesn't fit its stream
#: raises alarms without end.
_ALARMS = 50
_CHANGES = 20


class AlarmGroup:
    """Alarms of one model that follow each other closely: within 10 minutes, or within 1,000 outcomes.

    Without times (`untimed`), only the number of outcomes counts. `time` is when the newest alarm was
    published, and `began` is the first alarm's label time (both epoch ms). `outcome` is the first alarm's
    place in its sequence. `alarms` has the newest ones, and `count` counts all.
    """

    def __init__(self, first: Notice, time: int) -> None:
        self.began = first.ts
        self.untimed = first.untimed
        self.outcome = first.outcome
        self.count = 0
        self.signals: Counter[str] = Counter()
        self.stages: Counter[str] = Counter()
        self.segments: Counter[str] = Counter()
        #: Whether an alarm was about the model as a whole.
        self.whole = False
        self.alarms: deque[Notice] = deque(maxlen=_ALARMS)
        #: The place of the newest alarm by segment, as each segment numbers its outcomes separately.
        self._newest: dict[str | None, int] = {}
        self.add(first, time)

    def add(self, alarm: Notice, time: int) -> None:
        """Add an alarm that was published at `time` (epoch ms) and belongs to the same change."""
        self.time = time
        self.ts = alarm.ts
        self.count += 1
        self.signals[alarm.signal] += 1
        self.stages[alarm.stage] += 1
        if alarm.segment is None:
            self.whole = True
        else:
            self.segments[alarm.segment] += 1
        self.alarms.append(alarm)
        self._newest[alarm.segment] = alarm.outcome

    def goes_on_with(self, alarm: Notice) -> bool:
        """Return whether an alarm is about the same change."""
        newest = self._newest.get(alarm.segment)
        near = newest is not None and abs(alarm.outcome - newest) <= _GAP_OUTCOMES
        return near or (not alarm.untimed and abs(alarm.ts - self.ts) <= _GAP_MS)


class AlarmGroups:
    """The changes of one model, the oldest first."""

    def __init__(self) -> None:
        self._changes: deque[AlarmGroup] = deque(maxlen=_CHANGES)

    def add(self, alarm: Notice, time: int) -> None:
        """Add an alarm that was published at this time (epoch ms)."""
        newest = self.newest
        if newest is not None and newest.goes_on_with(alarm):
            newest.add(alarm, time)
        else:
            self._changes.append(AlarmGroup(alarm, time))

    @property
    def newest(self) -> AlarmGroup | None:
        """Return the newest change; None without any."""
        return self._changes[-1] if self._changes else None

    def newest_first(self) -> list[AlarmGroup]:
        """All that are kept."""
        return list(reversed(self._changes))


#: The most incidents that are listed for a model.
_LISTED = 20

OPEN, CLOSED = "open", "closed"


class _Place(msgspec.Struct):
    outcome: int
    ts: int


class _Level(msgspec.Struct):
    level: float
    interval: tuple[float, float]


class _Bare(msgspec.Struct):
    level: float


class _Cause(msgspec.Struct):
    cause: str
    share: float
    before: float | msgspec.UnsetType = msgspec.UNSET
    after: float | msgspec.UnsetType = msgspec.UNSET


class _Shape(msgspec.Struct):
    """The fields that are shown from objects whose schema is open."""

    opened: _Place
    change_point: _Place
    before: _Level
    after: _Level
    causes: list[_Cause]
    recovered: _Place | msgspec.UnsetType = msgspec.UNSET
    worst: _Bare | msgspec.UnsetType = msgspec.UNSET
    now: _Bare | msgspec.UnsetType = msgspec.UNSET


_decode, _check = reader(Incident), reader(_Shape)


def decode_incident(value: bytes) -> Incident:
    """Decode a message about an incident; raises Unreadable if a shown field is missing."""
    _check(value)
    return _decode(value)


class ShownIncident(NamedTuple):
    """The newest message about an incident: when it was published (epoch ms), and its number among all."""

    message: Incident
    time: int
    number: int

    def covers(self, change: AlarmGroup) -> bool:
        """Return whether grouped alarms belong to this incident."""
        return change.ts >= self.message.opened["ts"]


class IncidentLog:
    """The newest revision of each incident, in the order in which they opened.

    If there are more than `most`, the oldest ended ones are dropped first; None keeps all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._incidents: dict[str, ShownIncident] = {}
        self._by_model: dict[tuple[str, str, int], dict[str, None]] = {}
        self._messages = 0
        #: The number of incidents that were dropped.
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._incidents)

    def __iter__(self) -> Iterator[Incident]:
        return (shown_incident.message for shown_incident in self._incidents.values())

    def add(self, message: Incident, time: int = 0) -> None:
        """Add a message that was published at `time` (epoch ms); a repeated or late one changes nothing."""
        stored = self._incidents.get(message.id)
        if stored is not None and stored.message.revision >= message.revision:
            return
        self._messages += 1
        self._incidents[message.id] = ShownIncident(message, time, self._messages)
        self._by_model.setdefault((message.stream, message.model, message.partition), {})[message.id] = None
        if self._most is not None and len(self._incidents) > self._most:
            self._drop(min(self, key=lambda incident: (incident.status == OPEN, began(incident))))

    def find(self, identifier: str) -> Incident | None:
        """Return the incident with this id; None if it is unknown."""
        shown_incident = self._incidents.get(identifier)
        return None if shown_incident is None else shown_incident.message

    def of_model(self, stream: str, model: str, partition: int) -> list[Incident]:
        """Return the incidents of a model, the newest first."""
        ids = self._by_model.get((stream, model, partition), {})
        return _newest_first(self._incidents[identifier].message for identifier in ids)

    def unended_of(self, stream: str, model: str, partition: int) -> list[ShownIncident]:
        """Return the incidents of a model that are open or have recovered, the newest message first."""
        ids = self._by_model.get((stream, model, partition), {})
        unended = [
            shown_incident
            for shown_incident in map(self._incidents.__getitem__, ids)
            if shown_incident.message.status != CLOSED
        ]
        return sorted(unended, key=lambda shown_incident: -shown_incident.number)[:_LISTED]

    def is_open(self, stream: str, model: str, partition: int) -> bool:
        """Return whether an incident of a model is open."""
        ids = self._by_model.get((stream, model, partition), {})
        return any(self._incidents[identifier].message.status == OPEN for identifier in ids)

    def open_of(self, stream: str, model: str, partition: int) -> Incident | None:
        """Return the most severe open incident of a model; None if there is none."""
        open_ones = [
            incident for incident in self.of_model(stream, model, partition) if incident.status == OPEN
        ]
        return max(open_ones, key=lambda incident: incident.severity, default=None)

    def all(self) -> list[Incident]:
        """Return all incidents: open ones by descending severity, then the others, the newest first."""
        incidents = _newest_first(self)
        incidents.sort(
            key=lambda incident: (
                incident.status != OPEN,
                -incident.severity if incident.status == OPEN else 0.0,
            )
        )
        return incidents

    def open_count(self) -> int:
        """Return how many incidents are open at present."""
        return sum(incident.status == OPEN for incident in self)

    def _drop(self, old: Incident) -> None:
        self.dropped += 1
        del self._incidents[old.id]
        model = old.stream, old.model, old.partition
        del self._by_model[model][old.id]
        if not self._by_model[model]:
            del self._by_model[model]


def began(incident: Incident) -> int:
    """Return the label time of the change point (epoch ms)."""
    point: int = incident.change_point["ts"]
    return point


def _newest_first(incidents: Iterable[Incident]) -> list[Incident]:
    return sorted(
        incidents, key=lambda incident: (-began(incident), -incident.change_point["outcome"], incident.id)
    )
