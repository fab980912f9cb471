"""One incident: what it knows while it isn't over, and the alarms and signals that it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prequential.core.detectors.period_alarms import MISS
from prequential.core.estimators.naming import parse_signal
from prequential.core.incidents.change_point import CLEAR
from prequential.settings.stages import PERIOD
from prequential.topics.outputs import Alarm

#: Levels of signals.
WARNING, ALARM = "warning", "alarm"

OPEN, RECOVERED, CLOSED = "open", "recovered", "closed"

#: Most ids of alarms and signals in a message.
_MOST_ALARMS, MOST_SIGNALS = 100, 50


class Raised(NamedTuple):
    """An alarm, or a warning, of a detector, as the shard hands it on in the order of records."""

    record: int
    entity: int
    alarm: Alarm
    level: str


class PairStatus(NamedTuple):
    """How a model stands, for readers: of an open incident its first cause and severity; all by cause."""

    cause: str  # "": none is open
    severity: float
    opened: dict[str, int]
    id: str = ""
    since: int = 0  # label time (ms) at which it opened
    began: int = 0  # label time (ms) of its change


@dataclass
class State:
    """An incident that isn't over."""

    id: str  # it stays, whichever partition the stream may be in later
    opened: dict[str, int]
    first: int  # number of the first outcome of the level before
    former_alarms: int
    status: str = OPEN
    revision: int = 0
    alarms: list[str] = field(default_factory=list)
    alarm_count: int = 0
    signals: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)  # outcome and ts of the newest alarm
    #: What was found of the change, as messages say it.
    details: dict[str, Any] = field(default_factory=dict)
    statistic: float = 0.0  # how clear it is
    segment: str | None = None  # whose change it is, where the model's own isn't clear
    steps: list[Any] = field(default_factory=list)  # the fields of each `Step`
    #: Since when the level has been back; without a clear change, from where on it may be quiet.
    recovered: dict[str, int] | None = None
    #: What the last message said: status, first cause, severity, number of signals, and the causes if there
    #: are several changes.
    said: list[Any] = field(default_factory=list)

    @property
    def clear(self) -> bool:
        """Whether it is clear that the level has changed."""
        return self.statistic > CLEAR

    @property
    def cause(self) -> str:
        """The first cause."""
        return str(self.details["causes"][0]["cause"])

    @property
    def several(self) -> list[str]:
        """The causes where there are several changes, else none."""
        return sorted(one["cause"] for one in self.details["causes"]) if len(self.steps) > 1 else []

    @property
    def change_point(self) -> dict[str, int]:
        """Where the level changed: outcome, ts, prediction_ts."""
        point: dict[str, int] = self.details["change_point"]
        return point

    @property
    def newest(self) -> dict[str, int]:
        """From where on it may be quiet: the last alarm, or the recovery."""
        if self.recovered is None or self.recovered["outcome"] < self.last["outcome"]:
            return self.last
        return self.recovered

    def join(self, one: Raised) -> None:
        """Take an alarm or a warning over."""
        if one.level == ALARM:
            self.alarm_count += 1
            if len(self.alarms) < _MOST_ALARMS:
                self.alarms.append(one.alarm.id)
        signal = signal_of(one)
        for known in self.signals:
            if is_same(known, signal):
                if known["level"] == WARNING and one.level == ALARM:
                    known.update(signal)
                return
        if len(self.signals) < MOST_SIGNALS:
            self.signals.append(signal)


def with_stage(
    signals: list[dict[str, Any]], segment: str | None, source: str, target: str
) -> list[dict[str, Any]]:
    """These signals, and those of a segment's stage once more as those of another stage."""
    rows = []
    for one in signals:
        if (one["segment"], one["stage"]) == (segment, source):
            rows.append(one | {"stage": target})
        rows.append(one)
    return rows


def signal_of(one: Raised) -> dict[str, Any]:
    """What a message says of an alarm's or a warning's signal."""
    alarm = one.alarm
    return {
        "detector": alarm.detector, "signal": alarm.signal, "stage": alarm.stage, "segment": alarm.segment,
        "outcome": alarm.outcome, "level": one.level,
    }  # fmt: skip


def is_enough(one: Raised) -> bool:
    """Whether it opens an incident by itself: harm, or a measure, which isn't what blocks tell of.

    So does an objective that a period will miss; that a period is unusual waits for evidence.
    """
    if one.alarm.stage == PERIOD:
        return one.alarm.detector == MISS
    return one.alarm.detector == "harm" or bool(parse_signal(one.alarm.signal).measure)


def is_same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two signals are of one detector on one sequence."""
    return all(a[name] == b[name] for name in ("detector", "signal", "stage", "segment"))
