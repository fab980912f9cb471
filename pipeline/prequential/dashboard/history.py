"""What is known of the output topics over time: messages in, courses out. No clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from prequential.dashboard.configurations import Configurations
from prequential.dashboard.incidents import IncidentLog
from prequential.dashboard.periods import PeriodSeries
from prequential.dashboard.series import Capacity, Series
from prequential.settings.model import Config
from prequential.topics.outputs import Comparison, Incident
from prequential.watching.messages import (
    ABSENT,
    Heading,
    Notice,
    PeriodReading,
    Reading,
    decode_coverage,
    decode_reading,
)
from prequential.watching.pace import Pace
from prequential.watching.state import Model, ModelKey, Newest, Sequence, State

#: Alarms of a model that are kept one by one, and versions: the newest.
_ALARMS, _VERSIONS = 500, 50

#: What `coverage` says in numbers, and what is in its tables, as courses.
_COVERAGE = ("waiting", "oldest_waiting_ms", "unpredicted_labels")
_LATENCIES = ("label_latency_ms", "recent_label_latency_ms")


class Version(NamedTuple):
    """A version of a model, from this outcome on, which was noticed at this label time (epoch ms)."""

    name: str
    since: int
    ts: int


class PairKey(NamedTuple):
    """What comparisons are about: two models of a stream in a partition, by a loss and an estimator."""

    stream: str
    partition: int
    model: str
    against: str
    segment: str | None
    stage: str
    loss: str
    estimator: str


class Past:
    """How a model went, beside its newest messages."""

    def __init__(self) -> None:
        self.series: dict[Sequence, Series] = {}
        self.coverage: Series | None = None
        self.periods: PeriodSeries | None = None
        self.versions: deque[Version] = deque(maxlen=_VERSIONS)
        self.alarms: deque[Notice] = deque(maxlen=_ALARMS)
        #: All that came, by detector, signal and stage, with those that were the same.
        self.alarm_counts: dict[tuple[str, str, tuple[str, ...]], int] = {}
        #: Label time of the first message (epoch ms).
        self.first = 0


class History(State):
    """Newest messages as in `watch`, and how they went: within a budget of memory, see `Capacity`.

    `window` (ms) leaves out of each course what is so much older than its newest point; None keeps all.
    """

    def __init__(
        self, config: Config | None = None, window: int | None = None, capacity: Capacity | None = None
    ) -> None:
        super().__init__()
        self.config = config if config is not None else Config()
        self.window = window
        self.past: dict[ModelKey, Past] = {}
        self.incidents = IncidentLog()
        self.configurations = Configurations(self.config)
        self.pair_series: dict[PairKey, Series] = {}
        #: By what comparisons are about: the newest verdict that forgets, and the stages that are the same.
        self.recent: dict[PairKey, tuple[dict[str, Any], list[str]]] = {}
        self._pairs_of: dict[tuple[str, int], dict[PairKey, None]] = {}
        self._capacity = capacity if capacity is not None else Capacity()
        #: The newest label time and Kafka time (epoch ms) of all messages.
        self.newest_ts = 0
        self.newest_time = 0
        self.pace = Pace()
        #: Counts what came: whoever has seen this many has seen all.
        self.version = 0
        #: By model: the same, when something of it came; and by stream and partition, of pairs.
        self.heard: dict[object, int] = {}

    def update(
        self, topic: str, value: bytes | None, time: int = 0, settings: bytes | None = None
    ) -> bool:
        """Take in a message of a topic, as `State.update` does, which says what is returned.

        `settings`: its header of that name, if it has one.
        """
        self.version += 1
        if settings is not None:
            self.configurations.tell(settings)
        self.newest_time = max(self.newest_time, time)
        self.pace.add(time)
        return super().update(topic, value, time)

    def points(self) -> int:
        """How many points are kept, over the courses of all models and pairs."""
        return sum(one.size for one in self._all_series())

    def comparisons(self, stream: str, partition: int) -> list[PairKey]:
        """What is compared in a partition's stream, in the order in which it came."""
        return list(self._pairs_of.get((stream, partition), ()))

    def within(self, series: Series) -> Series:
        """A course without what is older than the window."""
        if self.window is not None and series.size:
            series.drop_before(series.times(series.size - 1)[0] - self.window)
        return series

    def _made_by(self, heading: Heading, time: int) -> None:
        self.configurations.add(heading.stream, heading.partition, heading.config, time)

    def _noted(self, model: Model, sequence: Sequence, newest: Newest, heading: Heading) -> None:
        past = self.past.get(model.key)
        if past is None:
            past = self.past[model.key] = Past()
            past.first = heading.ts
        self.heard[model.key] = self.version
        self.newest_ts = max(self.newest_ts, heading.ts)
        version = heading.model_version
        if version is not None and not (past.versions and past.versions[-1].name == version):
            since = heading.version_since or heading.outcomes
            if not past.versions or since > past.versions[-1].since:
                past.versions.append(Version(version, since, heading.ts))
        series = past.series.get(sequence)
        if series is None:
            series = past.series[sequence] = Series(self._capacity.points)
            self._grew(series, 0)
        if series.wants(heading.ts, heading.outcomes):
            # Not kept decoded, as what is looked at is: these are all sequences.
            reading = decode_reading(newest.value or b"")
            self._add(series, heading.ts, heading.outcomes, _values(reading))
        if heading.coverage is not ABSENT:
            self._note_coverage(past, heading)

    def _dropped(self, model: Model, gone: list[Sequence]) -> None:
        past = self.past[model.key]
        for sequence in gone:
            self._capacity.add(-past.series.pop(sequence).width)

    def _note_coverage(self, past: Past, heading: Heading) -> None:
        """A course of what became of predictions: one point for all messages that say the same."""
        if past.coverage is None:
            past.coverage = Series(self._capacity.points)
            self._grew(past.coverage, 0)
        if past.coverage.wants(heading.ts, heading.outcomes):
            try:
                said = decode_coverage(heading.coverage)
            except (msgspec.MsgspecError, ValueError):
                return
            known = (name for name in _COVERAGE if isinstance(said.get(name), int | float))
            values = {name: float(said[name]) for name in known}
            for name in _LATENCIES:
                for quantile, ms in (said.get(name) or {}).items():
                    values[f"{name}.{quantile}"] = float(ms)
            curve = said.get("labelled") or {}
            if "horizon" in curve:
                values["labelled.horizon"] = float(curve["horizon"])
            self._add(past.coverage, heading.ts, heading.outcomes, values)

    def _period_said(self, model: Model, said: PeriodReading) -> None:
        past = self.past.setdefault(model.key, Past())
        self.heard[model.key] = self.version
        if past.periods is None:
            past.periods = PeriodSeries(self._capacity.points)
            self._grew(past.periods, 0)
        before = past.periods.width
        past.periods.put(said)
        if past.periods.width > before:
            self._grew(past.periods, before)

    def _compared(self, said: Comparison) -> None:
        key = PairKey(
            said.stream, said.partition, said.model, said.against, said.segment, said.stage, said.loss,
            said.estimator,
        )  # fmt: skip
        self.heard[said.stream, said.partition] = self.version
        if said.recent:
            self.recent[key._replace(estimator="")] = said.recent, said.same or []
        series = self.pair_series.get(key)
        if series is None:
            series = self.pair_series[key] = Series(self._capacity.points)
            self._pairs_of.setdefault((said.stream, said.partition), {})[key] = None
            self._grew(series, 0)
        if series.wants(said.ts, said.outcomes):
            values = dict(said.measures)
            if said.interval is not None:
                values["low"], values["high"] = said.interval
            self._add(series, said.ts, said.outcomes, values)

    def _alarmed(self, model: Model, alarm: Notice) -> None:
        past = self.past.setdefault(model.key, Past())
        self.heard[model.key] = self.version
        self.newest_ts = max(self.newest_ts, alarm.ts)
        past.alarms.append(alarm)
        kind = alarm.detector, alarm.signal, (alarm.stage, *alarm.same)
        past.alarm_counts[kind] = past.alarm_counts.get(kind, 0) + 1

    def _incident_said(self, model: Model, said: Incident) -> None:
        self.heard[model.key] = self.version
        self.newest_ts = max(self.newest_ts, said.ts)
        self.incidents.add(said)

    def _add(self, series: Series, ts: int, outcomes: int, values: dict[str, float]) -> None:
        before = series.width
        if series.size == series.capacity:
            self.within(series)
        series.add(ts, outcomes, values)
        if series.width > before:
            self._grew(series, before)

    def _grew(self, series: Series, before: int) -> None:
        if self._capacity.add(series.width - before):
            self._capacity.shrink(self._all_series())

    def _all_series(self) -> Iterator[Series]:
        for past in self.past.values():
            yield from past.series.values()
            if past.coverage is not None:
                yield past.coverage
            if past.periods is not None:
                yield past.periods
        yield from self.pair_series.values()


def _values(reading: Reading) -> dict[str, float]:
    """A reading's measures, with the ends of their intervals."""
    values = dict(reading.measures)
    for name, (low, high) in reading.intervals.items():
        values[f"{name}.low"], values[f"{name}.high"] = low, high
    return values
