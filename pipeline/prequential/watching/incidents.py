"""Incidents that aren't over, of one model, and how they stand in a line."""

from __future__ import annotations

import msgspec
from prequential.topics.outputs import Incident
from prequential.topics.reasons import printable
from prequential.watching.changes import Change
from prequential.watching.text import age, counted, moment
from prequential.wording.incidents import cause_in_words, levels_in_words
from rich.text import Text

#: Incidents of a model that are kept.
_KEPT = 20

CLOSED = "closed"



class _Place(msgspec.Struct):
    """Where in a sequence something was."""

    outcome: int
    ts: int


class _Level(msgspec.Struct):
    """A mean loss."""

    level: float
    interval: tuple[float, float]


class _Cause(msgspec.Struct):
    """What has changed, and how much of the difference that explains."""

    cause: str
    share: float


class _Shape(msgspec.Struct):
    """What readers take from the objects whose fields the schema leaves open."""

    opened: _Place
    change_point: _Place
    before: _Level
    after: _Level
    causes: list[_Cause]
    recovered: _Place | msgspec.UnsetType = msgspec.UNSET


_decode, _check = msgspec.json.Decoder(Incident).decode, msgspec.json.Decoder(_Shape).decode


def decode_incident(value: bytes) -> Incident:
    """A message about an incident; raises msgspec's errors if it lacks what is shown of each."""
    _check(value)
    return _decode(value)


class OpenIncident:
    """The newest message about an incident; `time` is when it was published (epoch ms)."""

    def __init__(self, message: Incident, time: int) -> None:
        self.message, self.time = message, time

    def covers(self, change: Change) -> bool:
        """Whether grouped alarms are this incident's."""
        return change.ts >= self.message.opened["ts"]


class Incidents:
    """The incidents of one model that aren't over."""

    def __init__(self) -> None:
        self._open: dict[str, OpenIncident] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, message: Incident, time: int) -> None:
        """Take a message in; one that comes again or late changes nothing."""
        known = self._open.get(message.id)
        if known is not None and known.message.revision > message.revision:
            return
        self._open.pop(message.id, None)
        if message.status != CLOSED:
            self._open[message.id] = OpenIncident(message, time)
            if len(self._open) > _KEPT:
                del self._open[next(iter(self._open))]

    def newest_first(self) -> list[OpenIncident]:
        """All that are open, or have recovered."""
        return list(reversed(self._open.values()))


def incident_line(incident: OpenIncident, now: int, width: int, whose: str = "") -> Text:
    """One incident in one line, after the name of `whose` it is: since when, how bad, and what changed."""
    message = incident.message
    where = [] if message.segment is None else [printable(message.segment)]
    point = message.change_point
    since = f"outcome {point['outcome']:,}" if message.untimed else moment(point["ts"], now)
    what = [
        f"{message.status} since {since}",
        f"loss {levels_in_words(message)}", *where,
        ", ".join(map(cause_in_words, message.causes[:2])), counted(message.alarm_count, "alarm"),
    ]  # fmt: skip
    heard = "-" if message.untimed else age(now - incident.time)
    line = Text("  ".join([f"{heard:>4}", *([whose] if whose else []), *what]))
    line.stylize("yellow" if message.status == "open" else "")
    line.truncate(width, overflow="ellipsis")
    return line
