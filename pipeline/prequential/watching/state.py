"""What is known by now: messages in, models out. No clock, no I/O."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from prequential.topics.outputs import ALL_PARTITIONS, Comparison, Incident
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.watching.changes import Changes
from prequential.watching.endings import Ended, Endings
from prequential.watching.incidents import Incidents, decode_incident
from prequential.watching.messages import (
    ABSENT,
    Heading,
    Notice,
    PeriodReading,
    Reading,
    decode_comparison,
    decode_coverage,
    decode_heading,
    decode_notice,
    decode_period,
    decode_reading,
)
from prequential.watching.pace import Pace, Silence, StreamPace, silence
from prequential.wording.comparing import Pair, Pairs

#: The topics that are understood.
TOPICS = (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS)


class ModelKey(NamedTuple):
    """A model of a stream, in one partition: where a stream lies in several, each is evaluated by itself."""

    stream: str
    model: str
    partition: int


class Sequence(NamedTuple):
    """What a metrics message is about, within a model."""

    segment: str | None
    stage: str
    estimator: str


class Newest:
    """The newest message of a sequence; it is decoded when somebody looks, and then once."""

    __slots__ = ("reading", "same", "value")

    def __init__(self) -> None:
        #: As it came; None if there is none that can be read.
        self.value: bytes | None = None
        self.reading: Reading | None = None
        #: Stages that are the same up to now.
        self.same: tuple[str, ...] = ()

    def put(self, value: bytes) -> None:
        """Take a newer message in; it is decoded when somebody looks."""
        self.value, self.reading = value, None


class Model:
    """What is known of a model. `time` is when it was last heard of (Kafka's time, epoch ms)."""

    def __init__(self, key: ModelKey) -> None:
        self.key = key
        self.sequences: dict[Sequence, Newest] = {}
        #: Counts how often a sequence came or went.
        self.generation = 0
        self.endings = Endings()
        self.changes = Changes()
        self.incidents = Incidents()
        self.time = 0
        #: No record of its stream had a time: label times and `time` are none.
        self.untimed = False
        #: Of its metrics, which come with new outcomes alone.
        self.pace = Pace()
        #: The newest message's field of that name, as it is.
        self.coverage = ABSENT
        #: The newest message about its newest period whose time is over.
        self.period: PeriodReading | None = None

    def stages_of(self, sequence: Sequence) -> tuple[str, ...]:
        """The stage of a sequence, and those that are the same up to now."""
        return sequence.stage, *self.sequences[sequence].same


class State:
    """Newest messages of all sequences, pairs and incidents, and alarms, grouped by the change they tell of.

    `stream` and `model` leave out what is about others.
    """

    def __init__(self, stream: str | None = None, model: str | None = None) -> None:
        self._stream = stream
        self._model = model
        self._handlers = {
            METRICS: self._metrics, COMPARISONS: self._comparison, DRIFT_ALARMS: self._alarm,
            INCIDENTS: self._incident,
        }  # fmt: skip
        self.models: dict[ModelKey, Model] = {}
        #: By stream and partition.
        self._pairs: dict[tuple[str, int], Pairs] = {}
        #: … of their models' metrics, and how these stand after so many messages, at some time.
        self._paces: dict[tuple[str, int], list[Pace]] = {}
        self._streams: dict[tuple[str, int], StreamPace] = {}
        self._streams_at: tuple[int, int | None] = 0, None
        #: By stream: the partitions in which it is evaluated, in order; and only of those that have several.
        self._partitions: dict[str, list[int]] = {}
        self.split: dict[str, list[int]] = {}
        #: Measures that had a value in a message that was looked at.
        self.measures: set[str] = set()
        self.messages = 0
        #: Who has said nothing since then (Kafka's time, epoch ms) isn't known; None where all was read.
        self.since: int | None = None
        self.unreadable = 0
        #: Some messages are of records without times.
        self.untimed = False

    def update(self, topic: str, value: bytes | None, time: int = 0) -> bool:
        """Take in a message of a topic (its name without prefix); `time` is Kafka's (epoch ms).

        Returns whether it is of use: readable, not left out, and of comparisons the first to say so.
        """
        self.messages += 1
        try:
            return self._handlers[topic](value or b"", time)
        except (msgspec.MsgspecError, ValueError, OverflowError):  # the last: a number of more than 64 bits
            self.unreadable += 1
            return False

    def reading(self, newest: Newest | None) -> Reading | None:
        """What the newest message of a sequence says; None without one that can be read."""
        if newest is None:
            return None
        if newest.reading is None and newest.value is not None:
            try:
                newest.reading = decode_reading(newest.value)
            except (msgspec.MsgspecError, ValueError):
                newest.value = None
                self.unreadable += 1
            else:
                self.measures.update(newest.reading.measures)
        return newest.reading

    @property
    def misplaced(self) -> dict[str, list[int]]:
        """Streams that lie in several partitions though nobody merges what these know of them."""
        return {name: places for name, places in self.split.items() if ALL_PARTITIONS not in places}

    def partitions(self, stream: str) -> list[int]:
        """The partitions in which a stream is evaluated, ascending; first that of all together, if it is."""
        return self._partitions.get(stream, [])

    def silence(self, model: Model, now: int | None) -> Silence | None:
        """Whether a model has been silent for longer than ever before; `now` in epoch ms, None for files."""
        if model.untimed:
            return None
        if now is not None and now - model.pace.newest <= (model.pace.patience or 0):
            return None
        if self._streams_at != (self.messages, now):
            self._streams_at = self.messages, now
            self._streams.clear()
        place = model.key.stream, model.key.partition
        if place not in self._streams:
            self._streams[place] = StreamPace.from_paces(self._paces[place], now)
        return silence(model.pace, self._streams[place])

    def pairs(self, stream: str, partition: int) -> list[Pair]:
        """How the models of a partition's stream stand, pair by pair, in the order in which they came."""
        pairs = self._pairs.get((stream, partition))
        return [] if pairs is None else pairs.known()

    def _metrics(self, value: bytes, time: int) -> bool:
        heading = decode_heading(value)
        model = self._known(heading.stream, heading.model, heading.partition, time, heading.untimed)
        if model is None:
            return False
        model.pace.add(time)
        self._made_by(heading, time)
        if heading.period is not ABSENT:
            said = decode_period(value)
            if said.is_whole and (model.period is None or said.period.start >= model.period.period.start):
                model.period = said
            self._period_said(model, said)
        else:
            sequence = Sequence(heading.segment, heading.stage, heading.estimator)
            newest = model.sequences.get(sequence)
            if newest is None:
                newest = model.sequences[sequence] = Newest()
                model.generation += 1
            newest.put(value)
            if newest.same != heading.same:
                newest.same = heading.same
                model.generation += 1
            if heading.coverage is not ABSENT:
                model.coverage = heading.coverage
            self._noted(model, sequence, newest, heading)
            if heading.segment is None:
                about = heading.stage, heading.estimator, heading.config, heading.outcomes
                for ended in model.endings.add(*about):
                    self._drop(model, ended)
        return True

    def _drop(self, model: Model, ended: Ended) -> None:
        """Forget what the configuration has no more, also of segments."""
        gone = [
            one for one in model.sequences
            if one.stage == ended.stage and one.estimator in ended.estimators
        ]  # fmt: skip
        for sequence in gone:
            del model.sequences[sequence]
        model.generation += 1
        pairs = self._pairs.get((model.key.stream, model.key.partition))
        if ended.whole and pairs is not None:
            pairs.drop(model.key.model, ended.stage)
        self._dropped(model, gone)

    def _dropped(self, model: Model, gone: list[Sequence]) -> None:
        """Called with sequences that have ended, for a subclass to forget."""

    def _made_by(self, heading: Heading, time: int) -> None:
        """Called with each metrics message, for whoever remembers by which settings it was made."""

    def _noted(self, model: Model, sequence: Sequence, newest: Newest, heading: Heading) -> None:
        """What whoever remembers more than the newest does with a metrics message."""

    def _period_said(self, model: Model, said: PeriodReading) -> None:
        """… and with one about a period of prediction time."""

    def _comparison(self, value: bytes, time: int) -> bool:
        said = decode_comparison(value)
        if self._stream not in (None, said.stream) or self._model not in (None, said.model, said.against):
            return False
        self._compared(said)
        return self._pairs.setdefault((said.stream, said.partition), Pairs()).update(said)

    def _compared(self, said: Comparison) -> None:
        """Called with each comparison, for a subclass to keep."""

    def _alarm(self, value: bytes, time: int) -> bool:
        alarm = decode_notice(value)
        model = self._known(alarm.stream, alarm.model, alarm.partition, time, alarm.untimed)
        if model is None:
            return False
        model.changes.add(alarm, time)
        self._alarmed(model, alarm)
        return True

    def _alarmed(self, model: Model, alarm: Notice) -> None:
        """Called with each alarm, for a subclass to keep."""

    def _incident(self, value: bytes, time: int) -> bool:
        message = decode_incident(value)
        model = self._known(message.stream, message.model, message.partition, time, bool(message.untimed))
        if model is None:
            return False
        model.incidents.add(message, time)
        self._incident_said(model, message)
        return True

    def _incident_said(self, model: Model, said: Incident) -> None:
        """… and with an incident."""

    def _known(self, stream: str, name: str, partition: int, time: int, untimed: bool) -> Model | None:
        """The model that a message of this time is about; None for one that was not asked for."""
        key = ModelKey(stream, name, partition)
        model = self.models.get(key)
        if model is None:
            if self._stream not in (None, stream) or self._model not in (None, name):
                return None
            model = self.models[key] = Model(key)
            self._paces.setdefault((stream, partition), []).append(model.pace)
            partitions = self._partitions.setdefault(stream, [])
            if partition not in partitions:
                partitions.append(partition)
                partitions.sort()
                if len(partitions) > 1:
                    self.split[stream] = partitions
        model.time = max(model.time, time)
        model.untimed = untimed
        self.untimed |= untimed
        return model


def coverage_of(model: Model) -> dict[str, object]:
    """What the newest messages say of what became of a model's predictions; empty without."""
    try:
        return {} if model.coverage is ABSENT else decode_coverage(model.coverage)
    except (msgspec.MsgspecError, ValueError):
        return {}
