"""What a replay found: what was read and dropped, outcomes, models, incidents, and what looks wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
from prequential.core.catalog.streams import Stream
from prequential.core.comparisons import VERDICTS
from prequential.core.comparisons import pair_statuses as comparisons
from prequential.core.comparisons.confidence_sequence import level_of
from prequential.core.input.refusals import Refusal
from prequential.core.measures.registry import INDEX
from prequential.core.output.estimates import State
from prequential.core.past.course import COURSE_STAGES
from prequential.core.shard import Shard
from prequential.core.tables.logs import (
    AFTER_SETTLE,
    DUPLICATE,
    EXPIRED_PREDICTION,
    LATE_LABEL,
    LATE_PREDICTION,
    NO_LABEL,
    NO_PREDICTION,
    first_end,
)
from prequential.core.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL
from prequential.diagnosis.facts import read_by, streams_of, triple, with_example
from prequential.diagnosis.findings import REUSED_IDS, Facts, StreamFacts, findings, why_nothing
from prequential.diagnosis.found import Finding
from prequential.mapping.clocks import Clocks
from prequential.mapping.uses import Uses
from prequential.settings.durations import shown_duration
from prequential.settings.model import Config, StreamConfig
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Incident
from prequential.topics.reasons import kind_of
from prequential.wording.comparing import WHOLE, Pair, latest_of, recent_of
from prequential.wording.expected import ExpectedPeriod, expected_period
from prequential.wording.incidents import Newest

#: What is evaluated of a stream as a whole: in stages without an age, and in all stages.
_WHOLE = (MODEL, BASELINE, CORRECTION)
_ALL_STAGES = (*_WHOLE, AGE, BASELINE_AGE)

#: How instances end whose records are dropped for a reason that comes with no record.
_ENDS = {"unmatched_label": NO_PREDICTION, "expired": NO_LABEL}

#: Where a record stands: a file and a line, or a topic, a partition and an offset.
Place = dict[str, Any]


def place_in_words(place: Place) -> str:
    """Where a record stands.

    >>> place_in_words({"file": "labels.jsonl", "line": 7})
    'labels.jsonl line 7'
    >>> place_in_words({"topic": "labels", "partition": 3, "offset": 17})
    'labels/3 offset 17'
    """
    if "file" in place:
        unit = "row" if "row" in place else "line"
        return f"{place['file']} {unit} {place[unit]}"
    return f"{place['topic']}/{place['partition']} offset {place['offset']}"


class Kind(msgspec.Struct):
    """What became of the records of one kind."""

    read: int = 0
    used: int = 0
    dropped: int = 0
    waiting: int = 0


class Drop(msgspec.Struct):
    """Records of a kind that were dropped for one reason, and where the first one stands, as far as known."""

    kind: str
    code: str
    reason: str
    count: int
    example: Place | None


class Outcomes(msgspec.Struct):
    """Outcomes of a model, and its predictions that wait still."""

    stream: str
    partition: int
    model: str
    outcomes: int
    waiting: int
    #: Predictions that had no label by the horizon, and got the class of `label_at_horizon`.
    at_horizon: int = 0


class WaitingLabels(msgspec.Struct):
    """Labels of a stream that wait for a prediction."""

    stream: str
    partition: int
    labels: int


class Course(msgspec.Struct):
    """Mean losses, block by block of so many outcomes: the share wrong, or the mean of |error|."""

    outcomes: int
    loss: list[float]


class Sequence(msgspec.Struct):
    """What is evaluated of a model in a stage: outcomes, measures by estimator and name, and its course."""

    stream: str
    partition: int
    model: str
    stage: str
    task: str
    outcomes: int
    measures: dict[str, dict[str, float]]
    course: Course
    #: Stages that are the same, as each instance has had one prediction.
    same: list[str] = []
    #: By estimator what its measures are beside the reference's, as messages say it (`reference`).
    reference: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET

    def is_of(self, stage: str) -> bool:
        """Whether it is of this stage, or of one that is the same."""
        return stage in (self.stage, *self.same)


class Expected(msgspec.Struct):
    """What is expected of a model at the end: of its newest whole period, unless final, and of what waits."""

    stream: str
    partition: int
    model: str
    period: ExpectedPeriod | None
    #: As in `coverage` of messages.
    waiting: dict[str, Any] | None
    #: No record had a time: periods are of rows.
    untimed: bool = False


class Emission(msgspec.Struct):
    """When there were metrics messages: of a stream with settings of its own, or (null) of all others."""

    stream: str | None
    outcomes: int | None
    every_ms: int | None
    by_default: bool  # `emit.every` wasn't configured
    #: No record had a time: it is no ms, but so many rows.
    untimed: bool = False


class Saying(msgspec.Struct):
    """A finding."""

    code: str
    stream: str | None
    sentence: str


class Summary(msgspec.Struct):
    """What `replay --summary` writes, as JSON: records, outcomes, how models stand, and what looks wrong."""

    evaluated: bool
    records: dict[str, Kind]
    dropped: list[Drop]
    outcomes: list[Outcomes]
    waiting_labels: list[WaitingLabels]
    emission: list[Emission] | None
    sequences: list[Sequence]
    comparisons: list[Pair]
    alarms: list[Alarm]
    incidents: list[Incident]  # the newest message about each
    findings: list[Saying]
    expected: list[Expected] = []


class Account:
    """Collects what a summary says, while records are replayed and of each shard at its end.

    `place` says where the record of a kind, partition and offset stands, `find` where the first record of a
    kind about an instance of a stream does.
    """

    def __init__(
        self,
        place: Callable[[int, int, int], Place],
        find: Callable[[int, str, str], Place | None] = lambda kind, stream, instance_id: None,
    ) -> None:
        self._place, self._find = place, find
        self.alarms: list[Alarm] = []
        self.incidents = Newest()
        self._refusals: dict[tuple[int, str], tuple[Refusal, Place]] = {}  # by kinds of records and reasons
        self._records = {name: Kind() for name in KINDS}
        self._drops: dict[tuple[int, str], Drop] = {}
        self._outcomes: list[Outcomes] = []
        self._labels: list[WaitingLabels] = []
        self._sequences: list[Sequence] = []
        self._pairs: list[Pair] = []
        self._expected: list[Expected] = []
        self._streams: list[StreamFacts] = []
        self._misplaced: dict[str, int] = {}
        self._evaluated = False
        self._configured: tuple[str, ...] = ()
        #: What times say of their zone, by input.
        self.clocks: dict[str, Clocks] = {}
        #: What of mappings has occurred.
        self.uses: list[Uses] = []

    def add(self, shard: Shard) -> None:
        """Take in all that a shard knows, which has come to its end."""
        for name, read, unusable in zip(KINDS, read_by(shard), shard.state.dead_letters):
            self._records[name].read += read
            self._records[name].dropped += unusable
        for refusal in shard.refusals.known():
            key = refusal.kind, kind_of(refusal.sentence)
            place = self._place(refusal.kind, shard.partition, refusal.offset)
            first, where = self._refusals.get(key, (refusal._replace(records=0), place))
            self._refusals[key] = first._replace(records=first.records + refusal.records), where
        facts_of_streams = streams_of(shard, place_of=partial(self._place_in_words, shard.partition))
        self._streams += [with_example(shard, facts) for facts in facts_of_streams]
        self._configured = tuple(shard.config.streams)
        for name, count in shard.misplaced_streams.items():
            self._misplaced[name] = self._misplaced.get(name, 0) + count
        for stream in shard.catalog.streams:
            self._add_stream(shard, stream)

    def _place_in_words(self, partition: int, kind: int, offset: int) -> str:
        place = place_in_words(self._place(kind, partition, offset))
        # The files of an evaluation are called as what they are of.
        return place if KINDS[kind] in place else f"{KINDS[kind]} in {place}"

    def facts(self) -> Facts:
        """What is known of all shards so far, for findings about what looks wrong."""
        records = [self._records[name].read for name in KINDS]
        return Facts(
            tuple(self._streams), triple(records), tuple(one for one, _ in self._refusals.values()),
            self._configured, tuple(self._misplaced.items()), clocks=self.clocks, uses=tuple(self.uses),
        )  # fmt: skip

    def summary(self, emission: list[Emission] | None) -> Summary:
        """The summary of all shards so far.

        `emission` says when there were metrics messages (see `emission_of`); None: it isn't known.
        """
        for kind in self._records.values():
            kind.used = kind.read - kind.dropped - kind.waiting
        unusable = [
            Drop(KINDS[refusal.kind], "unusable", refusal.sentence, refusal.records, place)
            for refusal, place in self._refusals.values()
        ]
        drops = sorted([*unusable, *self._drops.values()], key=lambda drop: -drop.count)
        sayings = [Saying(*finding[:3]) for finding in findings(self.facts())]
        return Summary(
            self._evaluated, self._records, drops, self._outcomes, self._labels, emission, self._sequences,
            self._pairs, self.alarms, list(self.incidents), sayings, self._expected,
        )  # fmt: skip

    # ---- one stream

    def _add_stream(self, shard: Shard, stream: Stream) -> None:
        catalog, accounts, partition = shard.catalog, shard.state.accounts, shard.partition
        streams, entities = catalog.columns.streams, catalog.columns.entities
        code = stream.code
        models = list(stream.models.values())
        self._evaluated |= bool(entities.outcomes[stream.entities].any())
        for name, row in stream.models.items():
            waiting = int(accounts.coverage.models.waiting[row])
            self._records["predictions"].waiting += waiting
            counts = int(entities.outcomes[row]), waiting, int(entities.at_horizon[row])
            self._outcomes.append(Outcomes(stream.name, partition, name, *counts))
        if labels := int(streams.waiting_labels[code]):
            self._records["labels"].waiting += labels
            self._labels.append(WaitingLabels(stream.name, partition, labels))
        horizon = shown_duration(stream.config.label_horizon)
        for kind, why, reason, count, which in (
            (LABELS, "late_label", "label later than the horizon", streams.late_label[code], LATE_LABEL),
            (
                LABELS, "unmatched_label", "no prediction had come for a label when its horizon ended",
                streams.unmatched_label[code], None,
            ),
            (
                LABELS, "after_settle", "label of an instance that was settled and forgotten",
                streams.after_settle[code], AFTER_SETTLE,
            ),
            (
                PREDICTIONS, "late", "prediction made after its label", entities.late[models].sum(),
                LATE_PREDICTION,
            ),
            (
                PREDICTIONS, "expired", f"no label had come when the horizon of {horizon} ended",
                entities.expired[models].sum(), EXPIRED_PREDICTION,
            ),
            (
                INSTANCES, "duplicate", "instance known already", streams.duplicate_instances[code],
                DUPLICATE + INSTANCES,
            ),
            (
                PREDICTIONS, "duplicate", "prediction known already", entities.duplicate[models].sum(),
                DUPLICATE + PREDICTIONS,
            ),
            (
                LABELS, "duplicate", "label known already", streams.duplicate_labels[code],
                DUPLICATE + LABELS,
            ),
        ):  # fmt: skip
            if count:
                place = self._dropped(shard, which)
                if why in _ENDS:
                    place = self._ended(shard, stream, kind, _ENDS[why]) or place
                self._drop(kind, why, reason, int(count), place)
        self._sequences += _sequences(shard, stream)
        self._pairs += _pairs(shard, stream)
        self._expected += _expected(shard, stream)

    def _drop(self, kind: int, code: str, reason: str, count: int, place: Place | None) -> None:
        drop = self._drops.setdefault((kind, reason), Drop(KINDS[kind], code, reason, 0, None))
        drop.count += count
        drop.example = drop.example or place
        self._records[KINDS[kind]].dropped += count

    def _dropped(self, shard: Shard, reason: int | None) -> Place | None:
        if reason not in shard.dropped:
            return None
        kind, offset = shard.dropped[reason]
        return self._place(kind, shard.partition, offset)

    def _ended(self, shard: Shard, stream: Stream, kind: int, way: int) -> Place | None:
        """Where the first record of a kind is about the first instance that ended in this way."""
        instance_id = first_end(shard.state.logs, way, stream.code)
        return None if instance_id is None else self._find(kind, stream.name, instance_id)


def emission_of(config: Config, configured: Config, *, untimed: bool = False) -> list[Emission]:
    """When a replay with a configuration emits: first of all streams, then of those that differ.

    `configured` is what the user has written, before defaults that depend on the files. `untimed`: `every_ms`
    counts rows.
    """

    def emission_for(name: str | None, stream: StreamConfig, written: StreamConfig) -> Emission:
        by_default = stream.emit_every != written.emit_every
        return Emission(name, stream.emit_outcomes, stream.emit_every, by_default, untimed)

    emissions = [emission_for(None, config.defaults, configured.defaults)]
    for name, stream in config.streams.items():
        emission = emission_for(name, stream, configured.streams[name])
        if (emission.outcomes, emission.every_ms) != (emissions[0].outcomes, emissions[0].every_ms):
            emissions.append(emission)
    return emissions


def _sequences(shard: Shard, stream: Stream) -> Iterator[Sequence]:
    """What is evaluated of a stream as a whole: model by model, in every stage that has messages."""
    catalog, entities = shard.catalog, shard.catalog.columns.entities
    rows = [
        about.row for about in catalog.entities_of(stream)
        if about.kind in _ALL_STAGES and entities.outcomes[about.row]
    ]  # fmt: skip
    by_name: dict[tuple[str, str], Sequence] = {}
    for about, model, stage, estimator, state, details, same in shard.reporter.estimates(rows):
        if model != about.model:
            continue
        with_course = (about.age,) if about.age is not None else stream.evaluated[:COURSE_STAGES]
        courses, course = shard.state.courses, (0, list[float]())
        if courses is not None and stage in with_course:
            course = courses.course(about.row, with_course.index(stage))
        sequence = by_name.setdefault(
            (model, stage),
            Sequence(
                stream.name, shard.partition, model, stage, stream.config.task,
                int(entities.outcomes[about.row]), {}, Course(*course), same,
            ),
        )  # fmt: skip
        sequence.measures[estimator] = _measures(stream.config.measures, state)
        if "reference" in details:
            known = {} if sequence.reference is msgspec.UNSET else sequence.reference
            sequence.reference = {**known, estimator: details["reference"]}
    models = list(dict.fromkeys(model for model, _ in by_name))
    yield from sorted(by_name.values(), key=lambda one: models.index(one.model))


def _pairs(shard: Shard, stream: Stream) -> Iterator[Pair]:
    """How models of a stream as a whole stand, and what is evaluated beside them."""
    rows = [about.row for about in shard.catalog.entities_of(stream) if about.kind in _WHOLE]
    copies = comparisons.take(shard.emission.comparisons, shard.state.pairing, rows)
    for one in comparisons.pair_statuses(copies):
        yield Pair(
            stream.name, shard.partition, one.a.model, one.b.model, None, one.stage, one.loss, one.outcomes,
            one.ts, one.statistics.get(WHOLE, {}).get("difference"), one.interval,
            level_of(stream.config.compare_level, one.rank), VERDICTS[one.verdict], one.since,
            latest_of(
                {name: (one.n[name], values.get("difference")) for name, values in one.statistics.items()},
                one.outcomes,
            ),
            shard.catalog.untimed, recent_of(one.recent), one.same,
        )  # fmt: skip


def _expected(shard: Shard, stream: Stream) -> Iterator[Expected]:
    """Of models with periods, as far as there is something to expect."""
    clock = int(shard.catalog.columns.streams.clock[stream.code])
    expectations = shard.reporter.expectations
    rows = np.array(list(stream.models.values()), dtype=np.int64)
    waits = expectations.of_waiting(rows, np.full(len(rows), clock))
    for (model, row), waiting in zip(stream.models.items(), waits):
        newest = expectations.provisional(row)
        period = None if newest is None else expected_period(
            newest.state.start, newest.state.end, newest.state.labelled_share, newest.labelled_so_far,
            newest.measures,
        )
        if period is not None or waiting is not None:
            yield Expected(
                stream.name, shard.partition, model, period,
                None if waiting is None else waiting.as_message(), shard.catalog.untimed,
            )  # fmt: skip


def _measures(names: tuple[str, ...], state: State) -> dict[str, float]:
    return {name: state.values[INDEX[name]] for name in names if not state.reasons[INDEX[name]]}


def refuse_reused_ids(summary: Summary, way: str) -> None:
    """Raise WorkError if ids come again while labels are awaited; `way` is how to have it all the same."""
    for one in summary.findings:
        if one.code == REUSED_IDS:
            raise WorkError(f"{one.stream}: {one.sentence}; {way} evaluates it all the same")


def why(summary: Summary, facts: Facts) -> str:
    """Why nothing was evaluated, in one sentence."""
    return why_nothing(facts, [Finding(one.code, one.stream, one.sentence) for one in summary.findings])
