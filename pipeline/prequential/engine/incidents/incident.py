"""One incident: its state while it is open, and the alarms and signals that join it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity
from prequential.engine.delay import records
from prequential.engine.detectors.objectives import PeriodAlarm
from prequential.engine.detectors.watch import Watch
from prequential.engine.facts import PeriodDue
from prequential.engine.incidents.lasting import LASTED, LEAST_RISE, NEWEST
from prequential.topics.encoding import identity
from prequential.topics.errors import existing
from prequential.topics.outputs import Alarm

#: Levels of signals.
WARNING, ALARM = "warning", "alarm"

OPEN, RECOVERED, CLOSED = "open", "recovered", "closed"

#: Grades: the worsening was found; it has lasted since then.
POSSIBLE, LASTING = "possible", "lasting"

#: A message is due when the present level has moved by this part of the worst rise since the last message,
#: and by so many deviations of a difference. Without the second, a level that stays has messages by chance.
_MOVE_NOW, _SURELY = 0.4, 3.0

#: Most ids of alarms and signals in a message.
_MOST_ALARMS, MOST_SIGNALS = 100, 50


class Raised(NamedTuple):
    """An alarm, or a warning, of a detector, as the shard passes it on in the order of records."""

    record: int
    entity: int
    alarm: Alarm
    level: str


class AlarmNumbers(NamedTuple):
    """A detector's numbers at an alarm; all are NaN at a warning."""

    statistic: float
    threshold: float
    correlation: float  # of the errors up to this outcome with those before them; NaN: it has no value


def alarm_of(
    catalog: Catalog, entity: Entity, stage: str, outcome: int, watch: Watch, numbers: AlarmNumbers,
    instance_id: str, ts: int,
) -> Alarm:  # fmt: skip
    """The alarm that a watch raised at outcome number `outcome` (from 1) of a sequence.

    The sequence is that of an entity in a stage, and the outcome has this instance and label time (ms). A
    correlation without a value is left out. The id is the same for the same alarm, however often it is made.
    """
    config, stream = watch.config, catalog.streams[entity.stream]
    key = stream.name, catalog.partition, entity.model, entity.segment, stage, config.detector
    return Alarm(
        identity(*key, config.signal, watch.params, outcome, *catalog.loss),
        *key, config.signal, outcome, instance_id, ts, numbers.statistic, numbers.threshold, watch.params,
        msgspec.UNSET if math.isnan(numbers.correlation) else numbers.correlation,
        catalog.untimed or msgspec.UNSET, catalog.same_as(entity.row, stage) or msgspec.UNSET,
    )  # fmt: skip


def alarm_of_period(catalog: Catalog, due: PeriodDue, alarm: PeriodAlarm) -> Alarm:
    """The alarm that a period's forecast has raised."""
    entity, state = catalog.entity(due.model), due.state
    stream, columns = catalog.streams[entity.stream], catalog.columns
    key = stream.name, catalog.partition, entity.model, None, PERIOD, alarm.detector, alarm.signal
    maturity = existing(due.forecast, "the forecast of a period with an alarm").maturity
    period = {"start": state.start, "end": state.end, "maturity": records.share_of(maturity)}
    return Alarm(
        identity(*key, state.start, *catalog.loss), *key, int(columns.entities.outcomes[due.model]), "",
        int(columns.streams.clock[entity.stream]), alarm.statistic, alarm.threshold, {}, period=period,
        untimed=catalog.untimed or msgspec.UNSET,
    )  # fmt: skip


class Noted(NamedTuple):
    """An alarm or a warning, and the model's newest outcome when it was raised."""

    outcome: int
    alarm: str  # its id; "": a warning
    signal: dict[str, Any]


class ModelStatus(NamedTuple):
    """A model's incidents, for readers: first cause and severity of the open one; all by cause."""

    cause: str  # "": none is open
    severity: float
    opened: dict[str, int]
    id: str = ""
    since: int = 0  # label time (ms) at which it opened
    began: int = 0  # prediction time (ms) at which the level changed
    grade: str = ""


@dataclass
class OpenIncident:
    """An incident that is open."""

    id: str  # it stays, whichever partition the stream may be in later
    opened: dict[str, int]
    former_alarms: int
    #: Mean losses of one cluster before and after the change, by which it opened.
    before: float
    after: float
    #: Standard deviation of one cluster's mean loss, and the length of a cluster (ms).
    deviation: float
    length: float
    #: Begin (ms) of the first cluster of the new level, and of the newest one that was known when it opened.
    begin: int
    known: int
    status: str = OPEN
    revision: int = 0
    alarms: list[str] = field(default_factory=list)
    alarm_count: int = 0
    signals: list[dict[str, Any]] = field(default_factory=list)
    #: The finding, as in messages.
    details: dict[str, Any] = field(default_factory=dict)
    #: Where the level came back; None: it has not.
    recovered: dict[str, int] | None = None
    grade: str = POSSIBLE
    #: Where it became lasting; None: it has not.
    confirmed: dict[str, int] | None = None
    #: The worst level since the change, and the newest one; None: the incident is over.
    worst: dict[str, Any] = field(default_factory=dict)
    now: dict[str, Any] | None = None
    #: Severity, number of signals, and present level of the newest message.
    reported: list[Any] = field(default_factory=list)

    @property
    def cause(self) -> str:
        """The name of the cause with the largest share."""
        return str(self.details["causes"][0]["cause"])

    def has_lasted(self, n: Sequence[float], loss: Sequence[float]) -> bool:
        """Whether the clusters that closed after the incident opened make it lasting.

        There are enough, and their mean loss (outcomes `n`, sums `loss`), and that of the newest ones, is
        nearer to the level that was seen when it opened than to the one before. The rise in messages matters.
        """
        usual = self.details["before"]["level"]
        if len(n) < LASTED or self.details["after"]["level"] - usual < LEAST_RISE * abs(usual):
            return False
        middle = (self.before + self.after) / 2.0
        return all(math.fsum(loss[start:]) > middle * math.fsum(n[start:]) for start in (0, len(n) - NEWEST))

    def observe(self, spans: Sequence[dict[str, Any]]) -> None:
        """Take over the levels of neighbouring clusters since the change, the oldest first.

        A level that was the worst stays, though its clusters may be parts of longer ones by now.
        """
        for span in spans:
            if not self.worst or span["level"] > self.worst["level"]:
                self.worst = span
        if spans:
            newest = spans[-1]
            self.now = {"level": newest["level"], "outcomes": newest["n"], "ts": newest["ts"][1]}

    def has_moved(self, spread: float) -> bool:
        """Whether the present level is another one than in the newest message, by more than clusters vary.

        `spread` is the deviation of one cluster's mean loss at the new level.
        """
        if self.now is None or self.reported[2] is None:
            return False
        rise, chance = self.worst["level"] - self.before, spread * math.sqrt(2.0 / NEWEST)
        return abs(self.now["level"] - self.reported[2]) > max(_MOVE_NOW * rise, _SURELY * chance)

    def join(self, noted: Noted) -> None:
        """Add an alarm or a warning."""
        if noted.alarm:
            self.alarm_count += 1
            if len(self.alarms) < _MOST_ALARMS:
                self.alarms.append(noted.alarm)
        for signal in self.signals:
            if is_same(signal, noted.signal):
                if signal["level"] == WARNING and noted.alarm:
                    signal.update(noted.signal)
                return
        if len(self.signals) < MOST_SIGNALS:
            self.signals.append(dict(noted.signal))


def with_stage(
    signals: list[dict[str, Any]], segment: str | None, source: str, target: str
) -> list[dict[str, Any]]:
    """These signals, and those of a segment's stage once more as those of another stage."""
    rows = []
    for signal in signals:
        if (signal["segment"], signal["stage"]) == (segment, source):
            rows.append(signal | {"stage": target})
        rows.append(signal)
    return rows


def signal_of(raised: Raised) -> dict[str, Any]:
    """The fields of an alarm's or a warning's signal in messages."""
    alarm = raised.alarm
    return {
        "detector": alarm.detector, "signal": alarm.signal, "stage": alarm.stage, "segment": alarm.segment,
        "outcome": alarm.outcome, "level": raised.level,
    }  # fmt: skip


def is_same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two signals are of one detector on one sequence."""
    return all(a[name] == b[name] for name in ("detector", "signal", "stage", "segment"))
