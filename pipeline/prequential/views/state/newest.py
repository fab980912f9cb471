"""The state of all models, built from messages: values, silence, expectations. No clock and no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from prequential.configuration.settings.model import Config
from prequential.topics import outputs
from prequential.topics.foreign_json import Unreadable
from prequential.topics.marks import IncidentMarks, decode_mark
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Incident
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENT_MARKS, INCIDENTS, METRICS
from prequential.views.state import readings
from prequential.views.state.incidents import AlarmGroups, IncidentLog, decode_incident
from prequential.views.wording.comparing import NewestPairs, Pair
from prequential.views.wording.expected import ExpectedPeriod, expected_period, in_words

#: A stage has ended if it has made no report since the change, although this many were due by its share of
#: outcomes. A stage that few labels reach, such as `after:1h`, therefore gets more time.
_DUE_REPORTS = 10


class EndedStage(NamedTuple):
    """Estimators of a stage; `whole` if none is left of it."""

    stage: str
    estimators: frozenset[str]
    whole: bool


class _Stage:
    """A stage's reports under one configuration: outcomes at the first and the newest, and the longest step.

    `before` is the number of outcomes at the newest report under the previous configuration, or else at the
    first report.
    """

    __slots__ = ("before", "config", "estimators", "first", "longest", "newest")

    def __init__(self, config: str, outcomes: int, before: int, estimators: dict[str, str]) -> None:
        self.config = config
        self.first = self.newest = outcomes
        self.before = before
        self.longest = 0
        #: By estimator: the configuration of its newest message.
        self.estimators = estimators


class Endings:
    """The stages of one model as a whole, tracked by its messages in order.

    All estimators of a stage report after the same outcomes. So an estimator has ended if it is missing from
    a stage's first report under a new configuration, which is known at the second report:

    >>> endings = Endings()
    >>> for config, outcomes, estimator in [("a", 1, "all"), ("a", 1, "window:9"), ("b", 2, "all")]:
    ...     assert not endings.add("final", estimator, config, outcomes)
    >>> [(one.stage, set(one.estimators), one.whole) for one in endings.add("final", "all", "b", 3)]
    [('final', {'window:9'}, False)]
    """

    __slots__ = ("_changing", "_stages")

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._changing = False

    def add(self, stage: str, estimator: str, config: str, outcomes: int) -> list[EndedStage]:
        """Add a message, and return the stages and estimators that have ended by it."""
        stage_record = self._stages.get(stage)
        if stage_record is None or stage_record.config != config:
            before, estimators = (
                (outcomes, {}) if stage_record is None else (stage_record.newest, stage_record.estimators)
            )
            stage_record = self._stages[stage] = _Stage(config, outcomes, before, estimators)
            self._changing = any(any_record.config != config for any_record in self._stages.values()) or bool(
                estimators
            )
        is_next = outcomes > stage_record.newest
        stage_record.longest = max(stage_record.longest, outcomes - stage_record.newest)
        stage_record.newest = max(stage_record.newest, outcomes)
        ended = self._ended(stage, stage_record) if is_next and self._changing else []
        stage_record.estimators[estimator] = config
        return ended

    def _ended(self, stage: str, stage_record: _Stage) -> list[EndedStage]:
        """Return the estimators of this stage, and the stages with another configuration, that have ended."""
        ended = []
        gone = frozenset(
            name for name, config in stage_record.estimators.items() if config != stage_record.config
        )
        if gone:
            ended.append(EndedStage(stage, gone, whole=False))
        other_records = [
            (name, record) for name, record in self._stages.items() if record.config != stage_record.config
        ]
        for name, record in other_records:
            share = min(1.0, record.newest / max(1, stage_record.before))
            due = share * (stage_record.newest - stage_record.first)
            if due >= _DUE_REPORTS * stage_record.longest:
                ended.append(EndedStage(name, frozenset(record.estimators), whole=True))
        for ending in ended:
            if ending.whole:
                del self._stages[ending.stage]
            else:
                for name in ending.estimators:
                    del stage_record.estimators[name]
        self._changing = any(
            config != stage_record.config
            for record in self._stages.values()
            for config in record.estimators.values()
        )
        return ended


#: A silence is reported after this multiple of the longest previous pause, and at least this many ms: the
#: replacement or recovery of a worker takes as long.
_TIMES, _LEAST_MS = 2, 60_000

#: The least number of pauses for which a pace is known.
_KNOWN = 3


class Pace:
    """Times of messages (epoch ms): the newest, and the longest pause between two of them.

    >>> pace = Pace()
    >>> for time in (0, 1_000, 91_000, 92_000):
    ...     pace.add(time)
    >>> pace.newest, pace.patience
    (92000, 180000)
    """

    __slots__ = ("_longest", "_pauses", "newest")

    def __init__(self) -> None:
        self.newest = 0
        self._longest = 0
        self._pauses = -1

    def add(self, time: int) -> None:
        """Note a message of this time (epoch ms); one that is older than the newest changes nothing."""
        if self._pauses < 0:
            self.newest, self._pauses = time, 0
        elif time > self.newest:
            self._longest = max(self._longest, time - self.newest)
            self._pauses += 1
            self.newest = time

    @property
    def patience(self) -> int | None:
        """Ms without messages after which the model counts as silent; None while the pace isn't known."""
        return max(_LEAST_MS, _TIMES * self._longest) if self._pauses >= _KNOWN else None


#: Why a model has no new outcomes: its labels stopped, its predictions did, nothing of its stream arrives, or
#: no worker evaluates it. Messages without a count of pending predictions leave this undecided.
LABELS_STOPPED, PREDICTIONS_STOPPED, STREAM_IDLE, WORKER_DOWN = "labels", "predictions", "idle", "worker"
UNDECIDED = "undecided"

_WHY = {
    LABELS_STOPPED: "its labels stopped, its predictions go on",
    PREDICTIONS_STOPPED: "its predictions stopped, its stream goes on",
    STREAM_IDLE: "no record of its stream arrives",
    WORKER_DOWN: "no worker runs",
    UNDECIDED: "either the labels of its stream stopped, or all its predictions",
}  # fmt: skip


class ModelSilence(NamedTuple):
    """There are no new outcomes since a time (epoch ms); `alone`: other models of the stream have some."""

    since: int
    alone: bool
    #: Which of these reasons it is.
    kind: str = UNDECIDED

    @property
    def why(self) -> str:
        """The cause of the silence as text, by its kind."""
        return _WHY[self.kind]


class StreamPace(NamedTuple):
    """A stream's models at a time (epoch ms): their longest patience (ms), and how many aren't silent."""

    now: int
    patience: int
    talking: int

    @classmethod
    def from_paces(cls, paces: Sequence[Pace], now: int | None) -> StreamPace:
        """Return the pace of a stream with these models at the time `now` (epoch ms).

        If `now` is None, as for files, the time of the stream's newest message is used.
        """
        if now is None:
            now = max((pace.newest for pace in paces), default=0)
        longest = max((pace.patience or 0 for pace in paces), default=0)
        return cls(now, longest, sum(now - pace.newest <= (pace.patience or longest) for pace in paces))


def silence(pace: Pace, stream: StreamPace) -> ModelSilence | None:
    """Return the silence of a model that exceeds its own patience, or its stream's if it has none yet."""
    patience = pace.patience or stream.patience
    if not patience or stream.now - pace.newest <= patience:
        return None
    alone = stream.talking > 0
    return ModelSilence(pace.newest, alone, PREDICTIONS_STOPPED if alone else UNDECIDED)


#: The largest number of incidents that are kept.
_INCIDENTS = 2_000

#: The topics whose messages are read.
TOPICS = (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS)

_TOPIC_OF: dict[type[object], str] = {
    outputs.Metrics: METRICS, Comparison: COMPARISONS, outputs.Alarm: DRIFT_ALARMS, Incident: INCIDENTS,
}  # fmt: skip


class StreamPartition(NamedTuple):
    """A stream in one partition, which one worker evaluates at a time."""

    stream: str
    partition: int


class ModelKey(NamedTuple):
    """A model of a stream in one partition; each partition of a stream is evaluated separately."""

    stream: str
    model: str
    partition: int

    @property
    def stream_partition(self) -> StreamPartition:
        """The stream and the partition that the model's messages name."""
        return StreamPartition(self.stream, self.partition)


class SequenceName(NamedTuple):
    """The part of a model that a metrics message is about."""

    segment: str | None
    stage: str
    estimator: str

    @property
    def of_whole(self) -> SequenceName:
        """The sequence of the same stage and estimator, of the model as a whole."""
        return self._replace(segment=None)


class NewestReading:
    """The newest message of a sequence, which is decoded once, at its first use."""

    __slots__ = ("outcomes", "reading", "same", "value")

    def __init__(self) -> None:
        #: The number of outcomes in the newest message; None before the first one.
        self.outcomes: int | None = None
        #: The undecoded message; None without a readable one.
        self.value: bytes | None = None
        self.reading: readings.Reading | None = None
        #: Stages that are identical so far.
        self.same: tuple[str, ...] = ()

    def put(self, value: bytes) -> None:
        """Replace the message by a newer one, which is decoded at its first use."""
        self.value, self.reading = value, None


class ModelState:
    """The state of a model. `time` is the time of its newest message (Kafka's time, epoch ms)."""

    def __init__(self, key: ModelKey) -> None:
        self.key = key
        self.sequences: dict[SequenceName, NewestReading] = {}
        #: Counts how often a sequence was added or dropped.
        self.generation = 0
        self.endings = Endings()
        self.changes = AlarmGroups()
        self.time = 0
        #: No record of the model's stream had a time, so label times and `time` have no meaning.
        self.untimed = False
        #: The pace of the model's outcomes. Messages also come without one, if only `counts` changed.
        self.pace = Pace()
        #: The time of the model's first message (Kafka's time, epoch ms).
        self.first = 0
        #: Pending predictions by the newest message (None: it has no such count), and when they last became
        #: more: predictions arrive without labels.
        self.waiting: int | None = None
        self.predicted = 0
        #: The undecoded field of the newest message.
        self.coverage = readings.ABSENT
        #: The newest message about the newest period whose time has passed.
        self.period: readings.PeriodReading | None = None

    def stages_of(self, sequence: SequenceName) -> tuple[str, ...]:
        """Return the stage of a sequence, and the stages that are identical so far."""
        return sequence.stage, *self.sequences[sequence].same


class NewestMessages:
    """The newest messages of all sequences, pairs and incidents, and alarms grouped by change.

    `stream` and `model` restrict the state to messages about them. `config` has objectives, horizons and
    champions. At most so many incidents are kept as `most_incidents`; None keeps all.
    """

    def __init__(
        self,
        stream: str | None = None,
        model: str | None = None,
        config: Config | None = None,
        most_incidents: int | None = _INCIDENTS,
    ) -> None:
        self._stream, self._model = stream, model
        self.config = config if config is not None else Config()
        self._handlers = {
            METRICS: self._metrics, COMPARISONS: self._comparison, DRIFT_ALARMS: self._alarm,
            INCIDENTS: self._incident, INCIDENT_MARKS: self._mark,
        }  # fmt: skip
        self.models: dict[ModelKey, ModelState] = {}
        self.incidents = IncidentLog(most_incidents)
        self.marks = IncidentMarks()
        #: By stream and partition.
        self._pairs: dict[tuple[str, int], NewestPairs] = {}
        #: By stream and partition: the paces of its models' metrics; and their summary, with the number of
        #: messages and the time for which it was computed.
        self._paces: dict[tuple[str, int], list[Pace]] = {}
        self._streams: dict[tuple[str, int], StreamPace] = {}
        #: By stream and partition: the time of the newest metrics message (Kafka's time, epoch ms).
        self._spoken: dict[tuple[str, int], int] = {}
        #: The number of workers that Kafka's group has; None if it is unknown.
        self.workers: int | None = None
        self._streams_at: tuple[int, int | None] = 0, None
        #: By stream: the partitions in which it is evaluated, in order; then only streams with several.
        self._partitions: dict[str, list[int]] = {}
        self.split: dict[str, list[int]] = {}
        #: Measures with a value in a message that was decoded.
        self.measures: set[str] = set()
        self.messages = 0
        #: The value of `messages` at the newest one: by model, and by stream and partition for pairs.
        self.heard: dict[object, int] = {}
        #: The newest label time (epoch ms) of all messages.
        self.newest_ts = 0
        #: The state lacks models without messages since this time (Kafka's time, epoch ms); None if all was
        #: read.
        self.since: int | None = None
        self.unreadable = 0
        #: Whether some messages are about records without times.
        self.untimed = False

    def update(self, topic: str, value: bytes | None, time: int = 0, settings: bytes | None = None) -> bool:
        """Add a message of a topic (its name without prefix); `time` is Kafka's (epoch ms).

        `settings` is the message's header of that name, if it has one, which a subclass may keep.
        Returns whether the message is used: it must be readable and not excluded, and a comparison must be
        new.
        """
        self.messages += 1
        try:
            return self._handlers[topic](value or b"", time)
        except (ValueError, OverflowError):  # Unreadable, and numbers of more than 64 bits
            self.unreadable += 1
            return False

    def put(self, output: object) -> None:
        """Add an output of a shard, decoded or not; ignore dead letters, and all that isn't a message."""
        message: Any = outputs.decoded(output) if isinstance(output, outputs.Encoded) else output
        topic = _TOPIC_OF.get(type(message))
        if topic is not None:
            self.update(topic, msgspec.json.encode(message), message.ts)

    def reading(self, newest: NewestReading | None) -> readings.Reading | None:
        """Return the newest message of a sequence; None without one that can be read."""
        if newest is None:
            return None
        if newest.reading is None and newest.value is not None:
            try:
                newest.reading = readings.decode_reading(newest.value)
            except Unreadable:
                newest.value = None
                self.unreadable += 1
            else:
                self.measures.update(newest.reading.measures)
        return newest.reading

    @property
    def misplaced(self) -> dict[str, list[int]]:
        """Streams with records in several partitions, whose evaluations no worker merges."""
        return {
            name: partitions for name, partitions in self.split.items() if ALL_PARTITIONS not in partitions
        }

    def partitions(self, stream: str) -> list[int]:
        """Return a stream's partitions in ascending order; the merged evaluation, if any, comes first."""
        return self._partitions.get(stream, [])

    def silence(self, model: ModelState, now: int | None) -> ModelSilence | None:
        """Return a model's silence if it is unusually long; `now` in epoch ms, None for files."""
        if model.untimed:
            return None
        if not model.pace.newest or (
            now is not None and now - model.pace.newest <= (model.pace.patience or 0)
        ):
            return None
        if self._streams_at != (self.messages, now):
            self._streams_at = self.messages, now
            self._streams.clear()
        stream_partition = model.key.stream_partition
        if stream_partition not in self._streams:
            time = self._spoken.get(stream_partition, 0) if now is None else now
            self._streams[stream_partition] = StreamPace.from_paces(self._paces[stream_partition], time)
        model_silence = silence(model.pace, self._streams[stream_partition])
        if model_silence is None:
            return None
        patience = model.pace.patience or self._streams[stream_partition].patience
        if model.predicted - model.pace.newest > patience:
            return model_silence._replace(kind=LABELS_STOPPED)
        if model_silence.alone:
            return model_silence
        if self.workers == 0:
            return model_silence._replace(kind=WORKER_DOWN)
        return model_silence if model.waiting is None else model_silence._replace(kind=STREAM_IDLE)

    def unlabelled(self, model: ModelState, now: int | None) -> int | None:
        """Return for how long (ms) a model has had predictions and no label at all; None if it has labels."""
        newest = [self.reading(newest_message) for newest_message in model.sequences.values()]
        if not newest or any(reading is None or reading.outcomes for reading in newest):
            return None
        oldest = coverage_of(model).get("oldest_waiting_ms")
        stream_partition = model.key.stream_partition
        end = self._spoken.get(stream_partition, 0) if now is None else now
        ages = [end - model.first, *([int(oldest)] if isinstance(oldest, int | float) else [])]
        return max(0, *ages)

    def pairs(self, stream: str, partition: int) -> list[Pair]:
        """Return the comparisons of a stream's models in a partition, in order of their first message."""
        pairs = self._pairs.get((stream, partition))
        return [] if pairs is None else pairs.newest()

    def all_pairs(self) -> list[Pair]:
        """Return the comparisons of all streams, of each in order of their first message."""
        return [pair for pairs in self._pairs.values() for pair in pairs.newest()]

    def _metrics(self, value: bytes, time: int) -> bool:
        heading = readings.decode_heading(value)
        model = self._known(heading.stream, heading.model, heading.partition, time, heading.untimed)
        if model is None:
            return False
        self._made_by(heading, time)
        stream_partition = StreamPartition(heading.stream, heading.partition)
        self._spoken[stream_partition] = max(time, self._spoken.get(stream_partition, 0))
        if heading.period is not readings.ABSENT:
            period_reading = readings.decode_period(value)
            if period_reading.is_whole and (
                model.period is None or period_reading.period.start >= model.period.period.start
            ):
                model.period = period_reading
            self._period_said(model, period_reading)
        else:
            sequence = SequenceName(heading.segment, heading.stage, heading.estimator)
            newest = model.sequences.get(sequence)
            if newest is None:
                newest = model.sequences[sequence] = NewestReading()
                model.generation += 1
            newest.put(value)
            self._note_progress(model, newest, heading, time)
            self.newest_ts = max(self.newest_ts, heading.ts)
            if newest.same != heading.same:
                newest.same = heading.same
                model.generation += 1
            if heading.coverage is not readings.ABSENT:
                model.coverage = heading.coverage
            self._noted(model, sequence, newest, heading)
            if heading.segment is None:
                reported = heading.stage, heading.estimator, heading.config, heading.outcomes
                for ended in model.endings.add(*reported):
                    self._drop(model, ended)
        return True

    def _note_progress(
        self, model: ModelState, newest: NewestReading, heading: readings.Heading, time: int
    ) -> None:
        """Note whether a message has new outcomes, and how many predictions wait for a label."""
        if heading.outcomes and heading.outcomes != newest.outcomes:
            model.pace.add(time)
        newest.outcomes = heading.outcomes
        waiting = heading.counts.waiting
        if heading.segment is None and waiting is not None:
            if waiting > (model.waiting or 0):
                model.predicted = max(model.predicted, time)
            model.waiting = waiting

    def _drop(self, model: ModelState, ended: EndedStage) -> None:
        """Drop sequences that the configuration has ended, including those of segments."""
        gone = [
            sequence_name for sequence_name in model.sequences
            if sequence_name.stage == ended.stage and sequence_name.estimator in ended.estimators
        ]  # fmt: skip
        for sequence in gone:
            del model.sequences[sequence]
        model.generation += 1
        pairs = self._pairs.get((model.key.stream, model.key.partition))
        if ended.whole and pairs is not None:
            pairs.drop(model.key.model, ended.stage)
        self._dropped(model, gone)

    def _comparison(self, value: bytes, time: int) -> bool:
        comparison = readings.decode_comparison(value)
        if self._stream not in (None, comparison.stream) or self._model not in (
            None,
            comparison.model,
            comparison.against,
        ):
            return False
        self.heard[comparison.stream, comparison.partition] = self.messages
        self._compared(comparison)
        return self._pairs.setdefault((comparison.stream, comparison.partition), NewestPairs()).update(
            comparison
        )

    def _alarm(self, value: bytes, time: int) -> bool:
        alarm = readings.decode_notice(value)
        model = self._known(alarm.stream, alarm.model, alarm.partition, time, alarm.untimed)
        if model is None:
            return False
        self.newest_ts = max(self.newest_ts, alarm.ts)
        model.changes.add(alarm, time)
        self._alarmed(model, alarm)
        return True

    def _incident(self, value: bytes, time: int) -> bool:
        message = decode_incident(value)
        model = self._known(message.stream, message.model, message.partition, time, bool(message.untimed))
        if model is None:
            return False
        self.newest_ts = max(self.newest_ts, message.ts)
        self.incidents.add(message, time)
        return True

    def _mark(self, value: bytes, time: int) -> bool:
        self.marks.add(decode_mark(value))
        return True

    # Called with each message that is used, so that a subclass can keep more than the newest: metrics and the
    # settings behind them, periods of prediction time, comparisons, alarms, ended sequences.

    def _made_by(self, heading: readings.Heading, time: int) -> None: ...
    def _noted(
        self, model: ModelState, sequence: SequenceName, newest: NewestReading, heading: readings.Heading
    ) -> None: ...
    def _period_said(self, model: ModelState, period_reading: readings.PeriodReading) -> None: ...
    def _compared(self, comparison: Comparison) -> None: ...
    def _alarmed(self, model: ModelState, alarm: readings.Notice) -> None: ...
    def _dropped(self, model: ModelState, gone: list[SequenceName]) -> None: ...

    def _known(self, stream: str, name: str, partition: int, time: int, untimed: bool) -> ModelState | None:
        """Return the model that a message of this time is about; None if the model is excluded."""
        key = ModelKey(stream, name, partition)
        model = self.models.get(key)
        if model is None:
            if self._stream not in (None, stream) or self._model not in (None, name):
                return None
            model = self.models[key] = ModelState(key)
            model.first = time
            self._paces.setdefault((stream, partition), []).append(model.pace)
            partitions = self._partitions.setdefault(stream, [])
            if partition not in partitions:
                partitions.append(partition)
                partitions.sort()
                if len(partitions) > 1:
                    self.split[stream] = partitions
        model.time = max(model.time, time)
        self.heard[key] = self.messages
        model.untimed = untimed
        self.untimed |= untimed
        return model


def coverage_of(model: ModelState) -> dict[str, object]:
    """Return the label coverage in a model's newest messages; empty without one."""
    try:
        return {} if model.coverage is readings.ABSENT else readings.decode_coverage(model.coverage)
    except Unreadable:
        return {}


def expected_lines(model: ModelState, zone: str = "UTC") -> list[str]:
    """Return sentences, the most important first; none for a model without periods.

    Periods are named by their date in `zone`.
    """
    waiting: Any = coverage_of(model).get("waiting_expected")
    if not (isinstance(waiting, dict) and waiting.keys() >= {"predictions", "labels", "right"}):
        waiting = None
    return list(in_words(newest_period(model), waiting, zone, untimed=model.untimed))


def newest_period(model: ModelState) -> ExpectedPeriod | None:
    """Return the main measure of the newest period whose time has passed; None without one."""
    period_reading = model.period
    if period_reading is None:
        return None
    period = period_reading.period
    share = period.labelled / period.predictions if period.predictions else 0.0
    expected = (
        {} if period_reading.expected is None or period_reading.is_final else period_reading.expected.measures
    )
    return expected_period(
        period.start, period.end, share, period_reading.measures, expected, final=period_reading.is_final
    )
