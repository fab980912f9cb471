"""The summary of a replay: records read and dropped, outcomes, models, incidents, and likely mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.durations import shown_duration
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.comparisons import VERDICTS, reporting
from prequential.engine.comparisons.confidence_sequence import level_of
from prequential.engine.input.refusals import Refusal
from prequential.engine.measures.registry import INDEX
from prequential.engine.output.estimates import EstimatorState
from prequential.engine.past import COURSE_STAGES
from prequential.engine.shard import Shard
from prequential.engine.tables import logs
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL
from prequential.mapping.model import Uses
from prequential.mapping.units import Clocks, TimeColumn
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.disparities import Disparity
from prequential.topics.errors import InvalidRecords, WorkError, kind_of
from prequential.topics.outputs import Alarm, Incident, Message, Output
from prequential.topics.values import INDICATORS
from prequential.views.diagnosis.facts import read_by, streams_of, triple, with_example
from prequential.views.diagnosis.findings import REUSED_IDS, findings, remedy, why_nothing
from prequential.views.diagnosis.stream_facts import Facts, Finding, ShareColumns, StreamFacts
from prequential.views.state.incidents import IncidentLog
from prequential.views.wording.comparing import WHOLE, Pair, latest_of, recent_of
from prequential.views.wording.expected import ExpectedPeriod, expected_period

if TYPE_CHECKING:
    from prequential.offline.replay.sources import Located

#: Kinds of entities that evaluate a stream as a whole, in stages without an age; and in all stages.
_WHOLE = (MODEL, BASELINE, CORRECTION)
_ALL_STAGES = (*_WHOLE, AGE, BASELINE_AGE)

#: The code of dropped labels that are null, where there was no label to withdraw.
NULL_LABEL = "null_label"

#: For reasons of dropping that no record triggers: how the affected instances end.
_ENDS = {"unmatched_label": logs.NO_PREDICTION, "expired": logs.NO_LABEL}

#: The place of a record: a file with a line, a row, or both, or a topic, a partition and an offset.
Place = dict[str, Any]


def place_in_words(place: Place) -> str:
    """Return the place of a record as text.

    >>> place_in_words({"file": "labels.jsonl", "line": 7})
    'labels.jsonl line 7'
    >>> place_in_words({"file": "labels.jsonl", "line": 7, "row": 2})
    'labels.jsonl line 7 row 2'
    >>> place_in_words({"topic": "labels", "partition": 3, "offset": 17})
    'labels/3 offset 17'
    """
    if "file" in place:
        numbers = [f"{unit} {place[unit]}" for unit in ("line", "row") if unit in place]
        return " ".join([place["file"], *numbers])
    return f"{place['topic']}/{place['partition']} offset {place['offset']}"


class KindCounts(msgspec.Struct):
    """Counts of the records of one kind: read, used and dropped."""

    read: int = 0
    used: int = 0
    dropped: int = 0
    waiting: int = 0


class Drop(msgspec.Struct):
    """Records of a kind that were dropped for one reason, and the place of the first one, if known."""

    kind: str
    code: str
    reason: str
    count: int
    example: Place | None


class Outcomes(msgspec.Struct):
    """Outcomes of a model, and its pending predictions."""

    stream: str
    partition: int
    model: str
    outcomes: int
    waiting: int
    #: Predictions that had no label by the horizon, and got the class of `label_at_horizon`.
    at_horizon: int = 0


class WaitingLabels(msgspec.Struct):
    """Labels of a stream that have no prediction yet."""

    stream: str
    partition: int
    labels: int


class LossCourse(msgspec.Struct):
    """Mean losses by blocks of outcomes: the share of wrong predictions, or the mean of |error|."""

    outcomes: int
    loss: list[float]


class SequenceSummary(msgspec.Struct):
    """The evaluation of a model in a stage: outcomes, measures by estimator and name, and its course."""

    stream: str
    partition: int
    model: str
    stage: str
    task: str
    outcomes: int
    measures: dict[str, dict[str, float]]
    course: LossCourse
    #: Identical stages, as each instance has had one prediction.
    same: list[str] = []
    #: By estimator, the outcomes in its memory, as in messages (`n`).
    n: dict[str, int | float] = {}
    #: By estimator, its measures compared with the reference's, as in messages (`reference`).
    reference: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET

    def is_of(self, stage: str) -> bool:
        """Return whether the sequence is of this stage, or of an identical one."""
        return stage in (self.stage, *self.same)


class ExpectedSummary(msgspec.Struct):
    """Expected measures of a model at the end: of its newest whole period, and of pending predictions.

    A period is left out if it is final.
    """

    stream: str
    partition: int
    model: str
    period: ExpectedPeriod | None
    #: As in `coverage` of messages.
    waiting: dict[str, Any] | None
    #: No record had a time, so periods count rows.
    untimed: bool = False


class EmissionTimes(msgspec.Struct):
    """The times between metrics messages: of a stream with its own settings, or (null) of all others."""

    stream: str | None
    outcomes: int | None
    every_ms: int | None
    by_default: bool  # `emit.every` wasn't configured
    #: No record had a time, so `every_ms` counts rows.
    untimed: bool = False


class SummaryFinding(msgspec.Struct):
    """A finding."""

    code: str
    stream: str | None
    sentence: str


class Summary(msgspec.Struct):
    """The JSON that `replay --summary` writes: records, outcomes, models, and likely mistakes."""

    evaluated: bool
    records: dict[str, KindCounts]
    dropped: list[Drop]
    outcomes: list[Outcomes]
    waiting_labels: list[WaitingLabels]
    emission: list[EmissionTimes] | None
    sequences: list[SequenceSummary]
    comparisons: list[Pair]
    alarms: list[Alarm]
    incidents: list[Incident]  # the newest message of each
    findings: list[SummaryFinding]
    expected: list[ExpectedSummary] = []
    disparities: list[Disparity] = []  # the newest message of each


class _PlacedRefusal(NamedTuple):
    """Records that were refused for one reason, and the place of the first one."""

    refusal: Refusal
    place: Place


class Account:
    """Collects the content of a summary, during a replay and from each shard at its end.

    `place` returns the place of a record by kind, partition and offset. `find` returns the place of the first
    record of a kind about an instance of a stream.
    """

    def __init__(
        self, place: Callable[[int, int, int], Place],
        find: Callable[[int, str, str], Place | None] = lambda kind, stream, instance_id: None,
    ) -> None:  # fmt: skip
        self._place, self._find = place, find
        self.alarms: list[Alarm] = []
        self.incidents = IncidentLog()
        self._refusals: dict[tuple[int, str], _PlacedRefusal] = {}  # by kinds of records and reasons
        self._records = {name: KindCounts() for name in KINDS}
        self._drops: dict[tuple[int, str], Drop] = {}
        self._outcomes: list[Outcomes] = []
        self._labels: list[WaitingLabels] = []
        self._sequences: list[SequenceSummary] = []
        self._pairs: list[Pair] = []
        self._expected: list[ExpectedSummary] = []
        self._disparities: list[Disparity] = []
        self._streams: list[StreamFacts] = []
        self._misplaced: dict[str, int] = {}
        self._evaluated = False
        self._configured: tuple[str, ...] = ()
        #: Counts of times with and without a zone, by input.
        self.clocks: dict[str, Clocks] = {}
        #: The parts of mappings that records used.
        self.uses: list[Uses] = []
        #: Columns that may contain times, of files without times.
        self.time_columns: list[TimeColumn] = []
        #: Columns that may contain probabilities, of files without these.
        self.share_columns: list[ShareColumns] = []

    def note_sources(self, sources: Sequence[Located]) -> None:
        """Note what only files show, once their records have been read."""
        self.clocks = {KINDS[source.kind]: source.clocks for source in sources}
        self.time_columns = [column for source in sources for column in source.time_columns]
        self.share_columns = [source.share_columns for source in sources if source.share_columns is not None]
        self.uses = [uses for source in sources for uses in source.uses]

    def put(self, output: Output | Message) -> None:
        """Add an alarm or an incident; other outputs are passed over."""
        if isinstance(output, Alarm):
            self.alarms.append(output)
        elif isinstance(output, Incident):
            self.incidents.add(output)

    def add(self, shard: Shard) -> None:
        """Add the state of a shard that has reached its end."""
        for name, read, unusable in zip(KINDS, read_by(shard), shard.state.dead_letters):
            self._records[name].read += read
            self._records[name].dropped += unusable
        for refusal in shard.refusals.reasons():
            key = refusal.kind, kind_of(refusal.sentence)
            place = self._place(refusal.kind, shard.partition, refusal.offset)
            first = self._refusals.get(key)
            if first is None:
                self._refusals[key] = _PlacedRefusal(refusal, place)
            else:
                records = first.refusal.records + refusal.records
                self._refusals[key] = first._replace(refusal=first.refusal._replace(records=records))
        facts_of_streams = streams_of(shard, place_of=partial(self._place_in_words, shard.partition))
        self._streams += [with_example(shard, facts) for facts in facts_of_streams]
        self._configured = tuple(shard.config.streams)
        for name, count in shard.misplaced_streams.items():
            self._misplaced[name] = self._misplaced.get(name, 0) + count
        for stream in shard.catalog.streams:
            self._add_stream(shard, stream)
            self._disparities += shard.disparities.statuses([stream.code])

    def _place_in_words(self, partition: int, kind: int, offset: int) -> str:
        place = place_in_words(self._place(kind, partition, offset))
        # The tables of an evaluation have their kind as name.
        return place if KINDS[kind] in place else f"{KINDS[kind]} in {place}"

    def facts(self) -> Facts:
        """Return facts about all shards so far, from which likely mistakes are found."""
        records = [self._records[name].read for name in KINDS]
        return Facts(
            tuple(self._streams), triple(records),
            tuple(placed.refusal for placed in self._refusals.values()),
            self._configured, tuple(self._misplaced.items()), clocks=self.clocks, uses=tuple(self.uses),
            time_columns=tuple(self.time_columns), share_columns=tuple(self.share_columns),
        )  # fmt: skip

    def summary(self, emission: list[EmissionTimes] | None) -> Summary:
        """Return the summary of all shards so far.

        `emission` has the times between metrics messages (see `emission_of`); None: unknown.
        """
        for kind in self._records.values():
            kind.used = kind.read - kind.dropped - kind.waiting
        unusable = [
            Drop(
                KINDS[placed.refusal.kind],
                "unusable",
                placed.refusal.sentence,
                placed.refusal.records,
                placed.place,
            )
            for placed in self._refusals.values()
        ]
        drops = sorted([*unusable, *self._drops.values()], key=lambda drop: -drop.count)
        sayings = [SummaryFinding(*finding[:3]) for finding in findings(self.facts())]
        return Summary(
            self._evaluated, self._records, drops, self._outcomes, self._labels, emission, self._sequences,
            self._pairs, self.alarms, list(self.incidents), sayings, self._expected,
            self._disparities,
        )  # fmt: skip

    # ---- one stream

    def _add_stream(self, shard: Shard, stream: Stream) -> None:
        catalog, accounts, partition = shard.catalog, shard.state.accounts, shard.partition
        streams, entities = catalog.columns.streams, catalog.columns.entities
        code = stream.code
        self._evaluated |= bool(entities.outcomes[stream.entities].any())
        for name, row in stream.models.items():
            waiting = int(accounts.coverage.models.waiting[row])
            self._records["predictions"].waiting += waiting
            counts = int(entities.outcomes[row]), waiting, int(entities.at_horizon[row])
            self._outcomes.append(Outcomes(stream.name, partition, name, *counts))
        if labels := int(streams.waiting_labels[code]):
            self._records["labels"].waiting += labels
            self._labels.append(WaitingLabels(stream.name, partition, labels))
        for counted in _dropped_of(shard, stream):
            if counted.records:
                place = self._dropped(shard, counted.log_reason)
                if counted.code in _ENDS:
                    place = self._ended(shard, stream, counted.kind, _ENDS[counted.code]) or place
                self._drop(counted.kind, counted.code, counted.reason, counted.records, place)
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
        """Return the place of the first record of a kind about the first instance that ended in this way."""
        instance_id = logs.first_end(shard.state.logs, way, stream.code)
        return None if instance_id is None else self._find(kind, stream.name, instance_id)


class _DroppedRecords(NamedTuple):
    """Records of a kind of a stream that were dropped for one reason, and the log's code of the reason."""

    kind: int
    code: str
    reason: str
    records: int
    log_reason: int | None


def _dropped_of(shard: Shard, stream: Stream) -> Iterator[_DroppedRecords]:
    """Yield the counts of a stream's records that were dropped, by kind and reason."""
    streams, entities = shard.catalog.columns.streams, shard.catalog.columns.entities
    row, models = stream.code, list(stream.models.values())
    horizon = shown_duration(stream.config.label_horizon)
    yield _DroppedRecords(
        LABELS, "late_label", "label later than the horizon", int(streams.late_label[row]), logs.LATE_LABEL
    )
    yield _DroppedRecords(
        LABELS, "unmatched_label", "no prediction had come for a label when its horizon ended",
        int(streams.unmatched_label[row]), None,
    )  # fmt: skip
    yield _DroppedRecords(
        LABELS, "after_settle", "label of an instance that was settled and forgotten",
        int(streams.after_settle[row]), logs.AFTER_SETTLE,
    )  # fmt: skip
    yield _DroppedRecords(
        PREDICTIONS, "late", "prediction made after its label", int(entities.late[models].sum()),
        logs.LATE_PREDICTION,
    )  # fmt: skip
    yield _DroppedRecords(
        PREDICTIONS, "expired", f"expired without a label within {horizon}",
        int(entities.expired[models].sum()), logs.EXPIRED_PREDICTION,
    )  # fmt: skip
    null = _null_labels(shard, row)
    yield _DroppedRecords(
        LABELS, NULL_LABEL, "null, and there was no label to withdraw", null, logs.DUPLICATE + LABELS
    )
    duplicates = {
        INSTANCES: ("instance", streams.duplicate_instances[row]),
        PREDICTIONS: ("prediction", entities.duplicate[models].sum()),
        LABELS: ("label", streams.duplicate_labels[row] - null),
    }
    for kind, (name, count) in duplicates.items():
        reason = f"{name} known already"
        yield _DroppedRecords(kind, "duplicate", reason, int(count), logs.DUPLICATE + kind)


def _null_labels(shard: Shard, row: int) -> int:
    """Return how many null labels of a stream changed nothing; the engine counts them as duplicates."""
    streams, seen = shard.catalog.columns.streams, shard.seen.null
    null = int(seen[row, 0]) if row < len(seen) else 0
    return max(0, min(int(streams.duplicate_labels[row]), null - int(streams.withdrawn[row])))


def emission_of(config: Config, configured: Config, *, untimed: bool = False) -> list[EmissionTimes]:
    """Return the times between messages of a replay: first for all streams, then for those that differ.

    `configured` is the configuration as you wrote it, before defaults that depend on the files. `untimed`
    means that `every_ms` counts rows.
    """

    def emission_for(name: str | None, stream: StreamConfig, written: StreamConfig) -> EmissionTimes:
        by_default = stream.emit_every != written.emit_every
        return EmissionTimes(name, stream.emit_outcomes, stream.emit_every, by_default, untimed)

    emissions = [emission_for(None, config.defaults, configured.defaults)]
    for name, stream in config.streams.items():
        emission = emission_for(name, stream, configured.streams[name])
        if (emission.outcomes, emission.every_ms) != (emissions[0].outcomes, emissions[0].every_ms):
            emissions.append(emission)
    return emissions


def _sequences(shard: Shard, stream: Stream) -> Iterator[SequenceSummary]:
    """Yield the sequences of a stream as a whole: model by model, in every stage that has messages."""
    catalog, entities = shard.catalog, shard.catalog.columns.entities
    rows = [
        entity.row for entity in catalog.entities_of(stream)
        if entity.kind in _ALL_STAGES and entities.outcomes[entity.row]
    ]  # fmt: skip
    by_name: dict[tuple[str, str], SequenceSummary] = {}
    for entity, model, stage, estimator, state, details, same in shard.reporter.estimates(rows):
        if model != entity.model:
            continue
        with_course = (entity.age,) if entity.age is not None else stream.evaluated[:COURSE_STAGES]
        courses, course = shard.state.courses, (0, list[float]())
        if courses is not None and stage in with_course:
            course = courses.course(entity.row, with_course.index(stage))
        sequence = by_name.setdefault(
            (model, stage),
            SequenceSummary(
                stream.name, shard.partition, model, stage, stream.config.task,
                int(entities.outcomes[entity.row]), {}, LossCourse(*course), same,
            ),
        )  # fmt: skip
        sequence.n[estimator] = state.n
        sequence.measures[estimator] = _measures(stream.config.measures, state)
        if "reference" in details:
            references = {} if sequence.reference is msgspec.UNSET else sequence.reference
            sequence.reference = {**references, estimator: details["reference"]}
    models = list(dict.fromkeys(model for model, _ in by_name))
    yield from sorted(by_name.values(), key=lambda sequence: models.index(sequence.model))


def _pairs(shard: Shard, stream: Stream) -> Iterator[Pair]:
    """Yield the comparisons between models, baselines and corrections of a stream as a whole."""
    rows = [entity.row for entity in shard.catalog.entities_of(stream) if entity.kind in _WHOLE]
    copies = reporting.take(shard.comparisons, shard.state.pairing, rows)
    for pair_status in reporting.pair_statuses(copies):
        yield Pair(
            stream.name, shard.partition, pair_status.a.model, pair_status.b.model, None, pair_status.stage,
            pair_status.loss, pair_status.outcomes,
            pair_status.ts, pair_status.statistics.get(WHOLE, {}).get("difference"), pair_status.interval,
            level_of(stream.config.compare_level, pair_status.rank) if pair_status.rank else None,
            VERDICTS[pair_status.verdict],
            pair_status.since,
            latest_of(
                {name: (pair_status.n[name], values.get("difference")) for name,
                    values in pair_status.statistics.items()},
                pair_status.outcomes,
            ),
            shard.catalog.untimed, recent_of(pair_status.recent), pair_status.same,
            provisional=pair_status.provisional,
            needed=pair_status.needed,
            disagreement=pair_status.disagreement,
        )  # fmt: skip


def _expected(shard: Shard, stream: Stream) -> Iterator[ExpectedSummary]:
    """Yield expected measures of models with periods, if there are any."""
    clock = int(shard.catalog.columns.streams.clock[stream.code])
    rows = np.array(list(stream.models.values()), dtype=np.int64)
    waits = shard.reporter.of_waiting(rows, np.full(len(rows), clock))
    for (model, row), waiting in zip(stream.models.items(), waits):
        newest = shard.schedule.expectations.provisional(row)
        period = (
            None
            if newest is None
            else expected_period(
                newest.start,
                newest.end,
                newest.labelled_share,
                newest.labelled_so_far,
                newest.measures,
            )
        )
        if period is not None or waiting is not None:
            yield ExpectedSummary(
                stream.name, shard.partition, model, period,
                None if waiting is None else waiting.as_message(), shard.catalog.untimed,
            )  # fmt: skip


def _measures(names: tuple[str, ...], state: EstimatorState) -> dict[str, float]:
    return {name: state.values[INDEX[name]] for name in names if not state.reasons[INDEX[name]]}


def refuse_reused_ids(summary: Summary, way: str) -> None:
    """Raise WorkError if IDs are used again while their labels are pending; `way` is how to allow that."""
    for finding in summary.findings:
        if finding.code == REUSED_IDS:
            raise WorkError(f"{finding.stream}: {finding.sentence}; {way} evaluates it all the same")


def refuse_mostly_invalid(facts: Facts) -> None:
    """Raise InvalidRecords if most predictions or labels are invalid: the rest is no sample.

    If some are vectors of indicators, so are the others, although these may look like sets of labels.
    """
    for kind in (PREDICTIONS, LABELS):
        reasons = [refusal for refusal in facts.reasons if refusal.kind == kind]
        invalid, records = sum(refusal.records for refusal in reasons), facts.records[kind]
        vectors = [refusal for refusal in reasons if f"a vector of {INDICATORS}" in refusal.sentence]
        if 2 * invalid > records or vectors:
            first = max(vectors or reasons, key=lambda refusal: refusal.records)
            way = remedy(first.sentence)
            raise InvalidRecords(
                f"{invalid:,} of {records:,} {KINDS[kind]} are invalid, so measures of the rest would "
                f"mislead; most often: {first.sentence}" + (f" ({way})" if way else "")
            )


def why(summary: Summary, facts: Facts) -> str:
    """Return the reason why nothing was evaluated, in one sentence."""
    return why_nothing(
        facts, [Finding(finding.code, finding.stream, finding.sentence) for finding in summary.findings]
    )
