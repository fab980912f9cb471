"""The current incidents of one model, their lines of text, and alarms grouped by change."""

from __future__ import annotations

from collections import Counter, deque

import msgspec
from prequential.topics.errors import printable
from prequential.topics.foreign_json import reader
from prequential.topics.outputs import Incident
from prequential.views.state.readings import Notice
from prequential.views.wording.console import counted, moment
from prequential.views.wording.status import ID, cause_in_words, levels_in_words, standing_in_words
from rich.text import Text

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


#: The most incidents that are kept for a model.
_KEPT = 20

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


class ShownIncident:
    """The newest message about an incident; `time` is when it was published (epoch ms)."""

    def __init__(self, message: Incident, time: int) -> None:
        self.message, self.time = message, time

    def covers(self, change: AlarmGroup) -> bool:
        """Return whether grouped alarms belong to this incident."""
        return change.ts >= self.message.opened["ts"]


class OpenIncidents:
    """The incidents of one model that have not ended."""

    def __init__(self) -> None:
        self._open: dict[str, ShownIncident] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, message: Incident, time: int) -> None:
        """Add a message; a repeated or late message changes nothing."""
        stored = self._open.get(message.id)
        if stored is not None and stored.message.revision > message.revision:
            return
        self._open.pop(message.id, None)
        if message.status != CLOSED:
            self._open[message.id] = ShownIncident(message, time)
            if len(self._open) > _KEPT:
                del self._open[next(iter(self._open))]

    def has_open(self) -> bool:
        """Return whether an incident is open."""
        return any(shown_incident.message.status == OPEN for shown_incident in self._open.values())

    def newest_first(self) -> list[ShownIncident]:
        """Return all incidents that are open or have recovered, the newest first."""
        return list(reversed(self._open.values()))


def incident_line(incident: ShownIncident, now: int, width: int, subject: str = "") -> Text:
    """Return an incident as one line: the name `subject`, its levels, start, status, id, and causes."""
    message = incident.message
    segment_words = [] if message.segment is None else [printable(message.segment)]
    point = message.change_point
    began = f"outcome {point['outcome']:,}" if message.untimed else moment(point["ts"], now)
    details = [
        f"{levels_in_words(message)} since {began}",
        f"{standing_in_words(message)} ({printable(message.id[:ID])})",
        *segment_words,
        ", ".join(map(cause_in_words, message.causes[:2])), counted(message.alarm_count, "alarm"),
    ]  # fmt: skip
    line = Text("  ".join(["", *([subject] if subject else []), *details]))
    line.stylize("yellow" if message.status == OPEN else "")
    line.truncate(width, overflow="ellipsis")
    return line
