"""Keep the history of the output topics: messages in, courses and incidents out. No clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from prequential.configuration.settings.model import Config
from prequential.topics.foreign_json import Unreadable
from prequential.topics.outputs import Comparison
from prequential.views.state import readings
from prequential.views.state.configurations import Configurations
from prequential.views.state.newest import (
    ModelKey,
    ModelState,
    NewestMessages,
    NewestReading,
    Pace,
    SequenceName,
    coverage_of,
)
from prequential.views.state.series import Capacity, PeriodSeries, Point, Series
from prequential.views.wording.comparing import PairKey, key_of

_AnySeries = TypeVar("_AnySeries", Series, PeriodSeries)

#: The largest numbers of a model's alarms and versions that are kept: the newest of each.
_ALARMS, _VERSIONS = 500, 50

#: The numbers of `coverage`, and its tables of quantiles, that become courses.
_COVERAGE = ("waiting", "oldest_waiting_ms", "unpredicted_labels")
_LATENCIES = ("label_latency_ms", "recent_label_latency_ms")


class Version(NamedTuple):
    """A version of a model, with its first outcome and the label time of its first message (epoch ms)."""

    name: str
    since: int
    ts: int


class PairPast:
    """The course of a comparison by one estimator, and its newest message as a point."""

    def __init__(self, series: Series) -> None:
        self.series = series
        self.newest: Point | None = None


class Past:
    """The history of a model, in addition to its newest messages."""

    def __init__(self) -> None:
        self.series: dict[SequenceName, Series] = {}
        self.coverage: Series | None = None
        #: Label time (epoch ms) and number of outcomes of the newest message with `coverage`.
        self.coverage_at = 0, 0
        self.periods: PeriodSeries | None = None
        self.versions: deque[Version] = deque(maxlen=_VERSIONS)
        self.alarms: deque[readings.Notice] = deque(maxlen=_ALARMS)
        #: The counts of all alarms by detector, signal and stage, with equal stages in one key.
        self.alarm_counts: dict[tuple[str, str, tuple[str, ...]], int] = {}
        #: Label time of the first message (epoch ms).
        self.first = 0


class History(NewestMessages):
    """The newest messages, as in `watch`, and their courses, within a budget of memory (see `Capacity`).

    Each course drops points that are more than `window` (ms) older than its newest point; None keeps all.
    """

    def __init__(
        self, config: Config | None = None, window: int | None = None, capacity: Capacity | None = None
    ) -> None:
        super().__init__(config=config)
        self.window = window
        self.past: dict[ModelKey, Past] = {}
        self.configurations = Configurations(self.config)
        #: By comparison and estimator, in the order in which they arrived.
        self.pair_past: dict[PairKey, dict[str, PairPast]] = {}
        self._capacity = capacity if capacity is not None else Capacity()
        #: The newest Kafka time (epoch ms) of all messages.
        self.newest_time = 0
        self.pace = Pace()
        #: The number of messages received; a reader with the same number has seen all of them.
        self.version = 0

    def update(self, topic: str, value: bytes | None, time: int = 0, settings: bytes | None = None) -> bool:
        """Add a message of a topic; the result is that of `NewestMessages.update`.

        `settings` is the message's header of that name, if it has one.
        """
        self.version += 1
        if settings is not None:
            self.configurations.tell(settings)
        self.newest_time = max(self.newest_time, time)
        self.pace.add(time)
        return super().update(topic, value, time)

    def within(self, series: Series) -> Series:
        """Drop the points of a course that are older than the window; returns the course."""
        if self.window is not None and series.size:
            series.drop_before(series.times(series.size - 1)[0] - self.window)
        return series

    def _made_by(self, heading: readings.Heading, time: int) -> None:
        self.configurations.add(heading.stream, heading.partition, heading.config, time)

    def _noted(
        self,
        model: ModelState,
        sequence: SequenceName,
        newest: NewestReading,
        heading: readings.Heading,
    ) -> None:
        past = self.past.get(model.key)
        if past is None:
            past = self.past[model.key] = Past()
            past.first = heading.ts
        version = heading.model_version
        if version is not None and not (past.versions and past.versions[-1].name == version):
            since = heading.version_since or heading.outcomes
            if not past.versions or since > past.versions[-1].since:
                past.versions.append(Version(version, since, heading.ts))
        series = past.series.get(sequence)
        if series is None:
            series = past.series[sequence] = self._new(Series)
        if series.wants(heading.ts, heading.outcomes):
            # Decoded readings are kept only for shown sequences, and this is called for all of them.
            reading = readings.decode_reading(newest.value or b"")
            self._add(series, heading.ts, heading.outcomes, _values(reading))
        if heading.coverage is not readings.ABSENT:
            self._note_coverage(past, heading)

    def _dropped(self, model: ModelState, gone: list[SequenceName]) -> None:
        past = self.past[model.key]
        for sequence in gone:
            self._capacity.add(-past.series.pop(sequence).width)

    def _note_coverage(self, past: Past, heading: readings.Heading) -> None:
        """Add a point to the course of coverage; messages with the same number of outcomes share it."""
        past.coverage_at = heading.ts, heading.outcomes
        if past.coverage is None:
            past.coverage = self._new(Series)
        if past.coverage.wants(heading.ts, heading.outcomes):
            try:
                coverage = readings.decode_coverage(heading.coverage)
            except Unreadable:
                return
            self._add(past.coverage, heading.ts, heading.outcomes, _coverage_values(coverage))

    def _period_said(self, model: ModelState, period_reading: readings.PeriodReading) -> None:
        past = self.past.setdefault(model.key, Past())
        if past.periods is None:
            past.periods = self._new(PeriodSeries)
        before = past.periods.width
        past.periods.put(period_reading)
        self._grew(past.periods, before)

    def _compared(self, comparison: Comparison) -> None:
        past = self.pair_past.setdefault(key_of(comparison), {})
        course = past.get(comparison.estimator)
        if course is None:
            course = past[comparison.estimator] = PairPast(self._new(Series))
        values = dict(comparison.measures)
        if comparison.interval is not None:
            values["low"], values["high"] = comparison.interval
        course.newest = Point(comparison.ts, comparison.outcomes, values)
        if comparison.outcomes and course.series.wants(comparison.ts, comparison.outcomes):
            self._add(course.series, comparison.ts, comparison.outcomes, values)

    def _alarmed(self, model: ModelState, alarm: readings.Notice) -> None:
        past = self.past.setdefault(model.key, Past())
        past.alarms.append(alarm)
        kind = alarm.detector, alarm.signal, (alarm.stage, *alarm.same)
        past.alarm_counts[kind] = past.alarm_counts.get(kind, 0) + 1

    def _add(self, series: Series, ts: int, outcomes: int, values: dict[str, float]) -> None:
        before = series.width
        if series.size == series.capacity:
            self.within(series)
        series.add(ts, outcomes, values)
        self._grew(series, before)

    def _new(self, kind: type[_AnySeries]) -> _AnySeries:
        """Return an empty course, which counts towards the budget."""
        series = kind(self._capacity.points)
        self._grew(series, 0)
        self._capacity.shrink([series])
        return series

    def _grew(self, series: Series, before: int) -> None:
        if series.width > before and self._capacity.add(series.width - before):
            self._capacity.shrink(self._all_series())

    def _all_series(self) -> Iterator[Series]:
        for past in self.past.values():
            yield from past.series.values()
            if past.coverage is not None:
                yield past.coverage
            if past.periods is not None:
                yield past.periods
        for courses in self.pair_past.values():
            yield from (course.series for course in courses.values())


def newest_point(reading: readings.Reading | None) -> Point | None:
    """Return a sequence's newest message as a point; None without one."""
    return None if reading is None else Point(reading.ts, reading.outcomes, _values(reading))


def newest_coverage(past: Past, model: ModelState) -> Point | None:
    """Return the coverage in a model's newest message as a point; None without one."""
    coverage: dict[str, Any] = coverage_of(model)
    return Point(*past.coverage_at, _coverage_values(coverage)) if coverage else None


def _coverage_values(coverage: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of `coverage`, and its quantiles, by name."""
    number_names = (name for name in _COVERAGE if isinstance(coverage.get(name), int | float))
    values = {name: float(coverage[name]) for name in number_names}
    for name in _LATENCIES:
        for quantile, ms in (coverage.get(name) or {}).items():
            values[f"{name}.{quantile}"] = float(ms)
    curve = coverage.get("labelled") or {}
    if "horizon" in curve:
        values["labelled.horizon"] = float(curve["horizon"])
    return values


def _values(reading: readings.Reading) -> dict[str, float]:
    """Return a reading's measures, with the ends of their intervals."""
    values = dict(reading.measures)
    for name, (low, high) in reading.intervals.items():
        values[f"{name}.low"], values[f"{name}.high"] = low, high
    return values
