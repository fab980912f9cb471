"""The current incidents of one model, and their lines of text."""

from __future__ import annotations

import msgspec
from prequential.topics.outputs import Incident
from prequential.topics.reasons import printable
from prequential.views.watching.changes import AlarmGroup
from prequential.views.watching.text import counted, moment
from prequential.views.wording.incidents import ID, cause_in_words, levels_in_words
from rich.text import Text

#: The most incidents that are kept for a model.
_KEPT = 20

OPEN, CLOSED = "open", "closed"


class _Place(msgspec.Struct):
    """A place in a sequence."""

    outcome: int
    ts: int


class _Level(msgspec.Struct):
    """A mean loss."""

    level: float
    interval: tuple[float, float]


class _Cause(msgspec.Struct):
    """A cause of an incident, and its share of the difference."""

    cause: str
    share: float


class _Shape(msgspec.Struct):
    """The fields that are shown from objects whose schema is open."""

    opened: _Place
    change_point: _Place
    before: _Level
    after: _Level
    causes: list[_Cause]
    recovered: _Place | msgspec.UnsetType = msgspec.UNSET


_decode, _check = msgspec.json.Decoder(Incident).decode, msgspec.json.Decoder(_Shape).decode


def decode_incident(value: bytes) -> Incident:
    """Decode a message about an incident; raises msgspec's errors if a shown field is missing."""
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
        known = self._open.get(message.id)
        if known is not None and known.message.revision > message.revision:
            return
        self._open.pop(message.id, None)
        if message.status != CLOSED:
            self._open[message.id] = ShownIncident(message, time)
            if len(self._open) > _KEPT:
                del self._open[next(iter(self._open))]

    def has_open(self) -> bool:
        """Return whether an incident is open."""
        return any(one.message.status == OPEN for one in self._open.values())

    def newest_first(self) -> list[ShownIncident]:
        """Return all incidents that are open or have recovered, the newest first."""
        return list(reversed(self._open.values()))


def incident_line(incident: ShownIncident, now: int, width: int, whose: str = "") -> Text:
    """Return an incident as one line: the name `whose`, its levels, start, status, id, and causes."""
    message = incident.message
    where = [] if message.segment is None else [printable(message.segment)]
    point = message.change_point
    began = f"outcome {point['outcome']:,}" if message.untimed else moment(point["ts"], now)
    what = [
        f"{levels_in_words(message)} since {began}", f"{message.status} ({printable(message.id[:ID])})",
        *where,
        ", ".join(map(cause_in_words, message.causes[:2])), counted(message.alarm_count, "alarm"),
    ]  # fmt: skip
    line = Text("  ".join(["", *([whose] if whose else []), *what]))
    line.stylize("yellow" if message.status == OPEN else "")
    line.truncate(width, overflow="ellipsis")
    return line
