"""Messages about pairs of models: who is better, by how much, by which verdict; and their present status."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons import DEFINED, REASONS, UNDECIDED, VERDICTS, measuring
from prequential.engine.comparisons.clusters import needed_clusters
from prequential.engine.comparisons.confidence_sequence import level_of
from prequential.engine.comparisons.disagreement import Disagreement, as_message
from prequential.engine.comparisons.joint import NO_ROWS
from prequential.engine.comparisons.measuring import MCNEMAR, N01, N10, NAMES, P_VALUE, intervals
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.tables import PairSide
from prequential.engine.compiled.kernel import Floats, Ints, copy_of_rows
from prequential.engine.delay.cohorts import DAY
from prequential.engine.facts import DueReport
from prequential.engine.output.fields import TextPool
from prequential.engine.output.texts import (
    Draft,
    MessageValues,
    SubjectEnding,
    Subjects,
    Writer,
    endings_of,
    joined,
    vocabulary,
)
from prequential.engine.output.unwritten import Unwritten, UnwrittenMessages
from prequential.topics.encoding import fields_of
from prequential.topics.specs import COMPARISONS

#: Statistics that are whole numbers wherever n is.
COUNTS = NAMES[N01], NAMES[N10]

#: Messages about a sequence by all estimators, behind their position among others.
Ordered: TypeAlias = tuple[tuple[Any, ...], Unwritten]

#: How messages end: McNemar's test isn't there, doesn't reject, rejects.
_ENDINGS = (b"}", b',"significant":false}', b',"significant":true}')


class PairSequence(NamedTuple):
    """A sequence of a pair: its stage and loss, and where it lies."""

    stage: str
    loss: str
    side: int
    row: int
    subjects: Subjects  # by estimator
    same: list[str]  # stages that are the same up to now


class PairSubject(NamedTuple):
    """What doesn't change of a pair."""

    pair: int
    a: Entity
    b: Entity
    order: tuple[int, ...]  # among all pairs' messages
    config: StreamConfig
    rank: int  # it is the k-th pair to begin, see `Pairs`
    initial_is_final: bool  # whether `initial` is the same as `final`, so that messages report `final` only
    number: int  # of its tables
    places: list[PairSequence]  # that messages are about
    indices: dict[tuple[int, int], list[int]]  # by side and row: which places; losses may be the same


class Statistics(NamedTuple):
    """Of one estimator: memory's n, statistics, and reasons where there are none (columns as `NAMES`)."""

    n: Ints | Floats
    values: Floats
    reasons: Ints


class SideStatistics(NamedTuple):
    """The statistics and verdicts of the sequences of one side, row by row."""

    row_indices: dict[int, int]
    estimators: list[Statistics]
    whole: list[bool]  # by estimator: whether its n and counts are whole numbers
    intervals: list[list[float]]
    verdicts: list[int]
    newest: list[int]
    since: list[int]
    n: list[int]
    effective: list[int]  # effective sample sizes of the outcomes that count
    recent: list[dict[str, Any]]  # the recent verdict
    clusters: list[int | None]  # how many are over; None: outcomes have no clusters
    alone: list[int]  # the verdict without clusters
    more: list[list[float]]  # outcomes and clusters that a decision takes (see `forecast`)


class Predicted(NamedTuple):
    """What a pair's predictions show, with or without labels."""

    disagreement: Disagreement | None  # None: nothing
    once: bool  # whether each model has predicted each instance once

    @property
    def identity(self) -> bytes:
        """The part of a message's id that names it."""
        return b"" if self.disagreement is None else b",[%d,%d]" % (self.disagreement.n, self.once)

    @property
    def ts(self) -> int:
        """Time of the newest instance that both have predicted, ms."""
        return 0 if self.disagreement is None else self.disagreement.ts

    def as_message(self, stage: str, same: list[str], config: StreamConfig) -> dict[str, Any] | None:
        """Return the field of messages about a stage; None: there is none."""
        if self.disagreement is None:
            return None
        first_only = self.once or INITIAL in (stage, *same)
        return as_message(self.disagreement, first_only=first_only, unit=unit_of(config))


def unit_of(config: StreamConfig) -> str:
    """Return what clusters are called in messages."""
    return "days" if config.cluster in (None, DAY) else "clusters"


def is_parted(stage: str, same: Sequence[str]) -> bool:
    """Whether messages with this stage and field `same` are about `final` alone, and not about `initial` too.

    Ids have it: the stages become different sequences at an outcome of one model, which the other may lack.
    """
    return stage == FINAL and not same


@cache
def _endings(estimators: tuple[str, ...], loss: str) -> tuple[SubjectEnding, ...]:
    """The endings of the subjects of a sequence's messages."""
    return endings_of((0, {"estimator": name, "loss": loss}) for name in estimators)


class ComparisonsReading(NamedTuple):
    """What messages about sequences say, at one moment; by sequence, except for the last two."""

    streams: list[str]
    subjects: list[Subjects]
    numbers: list[bytes]
    outcomes: list[int]
    ts: list[int]
    counts: list[int]  # of messages
    texts: list[bytes]  # of their further fields
    rows: list[int]  # by message: of its values
    values: MessageValues


class ComparisonReporter:
    """Makes the messages about a shard's pairs, and caches the properties of each pair."""

    def __init__(self, catalog: Catalog, pairing: Pairing) -> None:
        self._catalog, self._pairing = catalog, pairing
        self._known_pairs: dict[int, PairSubject] = {}
        self._writer = Writer(COMPARISONS, vocabulary(NAMES, REASONS, counts=COUNTS), _ENDINGS)
        self._all_columns = self._writer.columns(tuple(range(len(NAMES))))
        self._thresholds: dict[float, float] = {}
        self._unwritten: UnwrittenMessages[ComparisonsReading] = UnwrittenMessages()

    def pair_of(self, reports: DueReport) -> PairSubject:
        """Return the pair of the sequence that is due."""
        return self.subject(
            int(self._pairing.tables[reports.number].sides[reports.side].due.pair[reports.row])
        )

    def _stream_of(self, subject: PairSubject) -> Stream:
        return self._catalog.streams[subject.a.stream]

    def subject(self, pair: int) -> PairSubject:
        """What doesn't change of a pair: of the present one with this number."""
        catalog, pairing = self._catalog, self._pairing
        a, b = map(catalog.entity, pairing.ends[pair])
        initial_is_final, rank = pairing.initial_is_final(pair), int(pairing.pairs.rank[pair])
        subject = self._known_pairs.get(pair)
        is_same = subject is not None and subject.a is a and subject.b is b
        if (
            subject is not None
            and is_same
            and (subject.initial_is_final, subject.rank) == (initial_is_final, rank)
        ):
            return subject
        stream = catalog.streams[a.stream]
        stages = pairing.stages(pair)
        number = int(pairing.pairs.plan[pair])
        tables = pairing.tables[number]
        places: list[PairSequence] = []
        indices: dict[tuple[int, int], list[int]] = {}
        for index, loss, _, side, row in pairing.sequences(pair):
            stage = stages[index]
            if initial_is_final and stage == INITIAL:  # the same as `final`, whose messages report it
                continue
            if pair in pairing.labels or stream.reports(stage):
                fields = {
                    "stream": stream.name, "partition": catalog.partition, "model": a.model,
                    "against": b.model, "segment": a.segment, "stage": stage,
                }  # fmt: skip
                same = catalog.same_as(a.row, stage) if initial_is_final else []
                of_estimators = Subjects.from_fields([fields], _endings(tables.estimators, loss))
                indices.setdefault((side, row), []).append(len(places))
                places.append(PairSequence(stage, loss, side, row, of_estimators, same))
        order = pairing.order_of(pair)
        subject = PairSubject(
            pair, a, b, order, stream.config, rank, initial_is_final, number, places, indices
        )
        self._known_pairs[pair] = subject
        return subject

    # ---- content of messages

    def read(self, reports: list[DueReport]) -> list[Ordered]:
        """Read what messages about these sequences say in their present state; `write` writes them.

        Each has its position: by instance, pair, stage and loss.
        """
        catalog, subjects = self._catalog, map(self.pair_of, reports)
        places = [
            (report, subject, index) for report, subject in zip(reports, subjects)
            for index in subject.indices[report.side, report.row]
        ]  # fmt: skip
        statistics, levels = self._find(places)
        values, first = self._values(statistics, levels)
        reading = ComparisonsReading([], [], [], [], [], [], [], [], values)
        orders = []
        predicted: dict[tuple[int, int], Predicted] = {}
        for report, subject, number in places:
            stream, sequence = self._stream_of(subject), subject.places[number]
            side = statistics[subject.number, sequence.side]
            i = side.row_indices[sequence.row]
            outcomes = side.n[i]
            start, step = first[subject.number, sequence.side] + i, len(side.n)
            moment = subject.pair, report.encounters
            if moment not in predicted:
                predicted[moment] = self.predicted(*moment)
            shown = predicted[moment]
            count = len(sequence.subjects.endings)
            ts = side.newest[i] if outcomes else shown.ts
            # Settings may end a comparison and begin it again, with the same numbers at a later time.
            named = outcomes, ts, *report.revised, is_parted(sequence.stage, sequence.same), *catalog.loss
            reading.streams.append(stream.name)
            reading.subjects.append(sequence.subjects)
            reading.numbers.append(b"".join([b",%d" % part for part in named]) + shown.identity + b"]")
            reading.texts.append(self._fields(stream, subject.rank, sequence, side, i, shown))
            reading.outcomes.append(outcomes)
            reading.ts.append(ts)
            reading.counts.append(count)
            reading.rows.extend(range(start, start + count * step, step))
            orders.append((report.group, subject.order, number))
        unwritten = self._unwritten.add(reading, reading.streams, reading.counts)
        if self._unwritten.are_many:
            self.write()
        return [(order, unwritten.part(place, place + 1)) for place, order in enumerate(orders)]

    def write(self) -> None:
        """Write the messages that were read and aren't written yet."""
        if not (readings := self._unwritten.readings):
            return
        columns: list[Any] = [
            list(chain.from_iterable(column)) for column in zip(*(read[:-2] for read in readings))
        ]
        streams, subjects, numbers, outcomes, ts, counts, texts = columns
        starts = np.cumsum([0, *(len(reading.values.n) for reading in readings)]).tolist()
        rows = [start + row for reading, start in zip(readings, starts) for row in reading.rows]
        draft = Draft(
            streams, subjects, numbers, np.array(outcomes, dtype=np.int64), np.array(ts, dtype=np.int64),
            np.full(len(streams), self._all_columns), np.array(rows, dtype=np.int64),
            TextPool.from_texts(texts), np.repeat(np.arange(len(streams)), counts)[:, None],
        )  # fmt: skip
        values = joined([reading.values for reading in readings])
        self._unwritten.take(self._writer.write_together(draft, values))

    def predicted(self, pair: int, encounters: int = 0) -> Predicted:
        """What a pair's predictions show, with the first `encounters` of the log that pairs read now."""
        disagreement = self._pairing.disagreement_of(pair, encounters)
        once = disagreement is not None and self._pairing.predicts_once(pair, encounters)
        return Predicted(disagreement, once)

    def _fields(
        self, stream: Stream, rank: int, sequence: PairSequence, side: SideStatistics, i: int,
        predicted: Predicted,
    ) -> bytes:  # fmt: skip
        """What all estimators' messages about a sequence have in common behind their statistics."""
        bounded, low, high = side.intervals[i]
        verdict = side.verdicts[i]
        fields: dict[str, Any] = {
            "interval": (low, high) if bounded else None,
            "level": level_of(stream.config.compare_level, rank) if rank else None,
            "pairs": rank,
            "verdict": VERDICTS[verdict],
            "since": side.since[i] if verdict else None,
            "config": stream.config.digest,
            "effective": side.effective[i],
            "recent": side.recent[i],
        }
        provisional = provisional_of(side, i, stream.config, rank)
        if provisional is not None:
            fields["provisional"] = provisional
        needed = needed_of(side, i, stream.config)
        if needed is not None:
            fields["needed"] = needed
        disagreement = predicted.as_message(sequence.stage, sequence.same, stream.config)
        if disagreement is not None:
            fields["disagreement"] = disagreement
        if sequence.same:
            fields["same"] = sequence.same
        return fields_of(fields | {"untimed": True} if self._catalog.untimed else fields)

    def _values(
        self, statistics: dict[tuple[int, int], SideStatistics], levels: dict[tuple[int, int], list[float]]
    ) -> tuple[MessageValues, dict[tuple[int, int], int]]:
        """The statistics of all sides, estimator by estimator; by side, where its own begin."""
        parts, first, offset = [], {}, 0
        own_levels: list[float] = []
        for key, side in statistics.items():
            first[key] = offset
            for (n, values, reasons), whole in zip(side.estimators, side.whole):
                wholes, endings = np.full(len(n), whole, dtype=np.uint8), np.zeros(len(n), dtype=np.int64)
                parts.append(MessageValues(n.astype(np.float64), wholes, values, reasons, endings))
                own_levels += levels[key]
                offset += len(n)
        joined_values, level = joined(parts), np.array(own_levels)
        beyond = np.array([self._threshold(test_level) for test_level in own_levels])
        values, reasons = joined_values.values, joined_values.reasons
        exact = reasons[:, P_VALUE] == DEFINED
        rejects = np.where(exact, values[:, P_VALUE] < level, abs(values[:, MCNEMAR]) > beyond)
        joined_values.ending[:] = np.where(reasons[:, MCNEMAR] == DEFINED, 1 + rejects, 0)
        return joined_values, first

    def _threshold(self, level: float) -> float:
        if level not in self._thresholds:
            self._thresholds[level] = measuring.threshold(level)
        return self._thresholds[level]

    def _find(
        self, places: list[tuple[DueReport, PairSubject, int]]
    ) -> tuple[dict[tuple[int, int], SideStatistics], dict[tuple[int, int], list[float]]]:
        """By tables and side: statistics and verdicts of their sequences, and the levels of tests."""
        rows: dict[tuple[int, int], list[int]] = {}
        levels: dict[tuple[int, int], list[float]] = {}
        for reports, subject, _ in places:
            key = reports.number, reports.side
            rows.setdefault(key, []).append(reports.row)
            levels.setdefault(key, []).append(self._stream_of(subject).config.mcnemar_level)
        tables = self._pairing.tables
        return {key: read(tables[key[0]].sides[key[1]], side_rows) for key, side_rows in rows.items()}, levels


def read(side: PairSide, rows: list[int]) -> SideStatistics:
    """The statistics and verdicts of these sequences."""
    sequences = np.array(rows, dtype=np.int64)
    bounds = np.zeros((len(sequences), 6))
    intervals(side.sequences, side.sums, sequences, bounds)
    columns, recent = side.columns, side.recent
    since = (recent.before[sequences] + 1).tolist()
    verdicts = recent.verdict[sequences].tolist()
    clusters = [
        number if clustered else None
        for number, clustered in zip(
            side.sums.clusters[sequences].tolist(), columns.clustered[sequences].tolist()
        )
    ]
    return SideStatistics(
        {row: i for i, row in enumerate(rows)},
        [Statistics(*side.statistics(index, sequences)) for index in range(len(side.estimators))],
        [estimator.memory.whole for estimator in side.estimators],
        bounds[:, :3].tolist(), columns.verdict[sequences].tolist(), side.times.newest[sequences].tolist(),
        columns.since[sequences].tolist(), columns.n[sequences].tolist(),
        bounds[:, 3].astype(np.int64).tolist(),
        [
            {"verdict": VERDICTS[verdict], "since": start if verdict else None}
            for verdict, start in zip(verdicts, since)
        ],
        clusters, columns.alone[sequences].tolist(), bounds[:, 4:].tolist(),
    )  # fmt: skip


def provisional_of(
    statistics: SideStatistics, row: int, config: StreamConfig, rank: int
) -> dict[str, Any] | None:
    """Return who is ahead in the clusters so far, until there are enough of them for a verdict; then None."""
    clusters = statistics.clusters[row]
    if clusters is None or statistics.verdicts[row] != UNDECIDED:
        return None
    needed = needed_clusters(level_of(config.compare_level, rank))
    if clusters >= needed:
        return None
    return {"verdict": VERDICTS[statistics.alone[row]], unit_of(config): clusters, "needed": needed}


def needed_of(statistics: SideStatistics, row: int, config: StreamConfig) -> dict[str, int] | None:
    """Return how many more outcomes, and days or clusters, a decision takes; None: no estimate."""
    outcomes, clusters = statistics.more[row]
    if not outcomes:
        return None
    needed = {"outcomes": _rounded(outcomes)}
    if statistics.clusters[row] is not None:
        needed[unit_of(config)] = _rounded(clusters)
    return needed


def _rounded(number: float) -> int:
    """Return a number with two digits, rounded up.

    >>> _rounded(0.2), _rounded(37.2), _rounded(20_750.0)
    (1, 38, 21000)
    """
    whole = math.ceil(number)
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // unit) * unit


def by_name(statistics: SideStatistics, estimator: int, row: int) -> dict[str, int | float]:
    """The statistics of an estimator that have a value."""
    _, values, reasons = statistics.estimators[estimator]
    columns = zip(NAMES, values[row].tolist(), reasons[row].tolist())
    whole = COUNTS if statistics.whole[estimator] else ()
    return {name: int(value) if name in whole else value for name, value, reason in columns if not reason}


#: Whether a stage of a stream, by its code, is asked for, where it is the same as some others up to now.
Shows: TypeAlias = Callable[[str, int, list[str]], bool]

#: Further costs of a pair, in bytes that could be copied in the same time.
_PAIR = 4_000


class Copies(NamedTuple):
    """Copies of some pairs' sequences: `places` locates them in the copies, by tables and side."""

    places: list[tuple[PairSubject, list[PairSequence]]]
    predicted: list[Predicted]  # by pair, in the same order
    sides: dict[tuple[int, int], PairSide]


class PairStatus(NamedTuple):
    """The status of A and B in a stage, by one loss; `interval` is of the mean loss of A less that of B."""

    a: Entity
    b: Entity
    stage: str
    loss: str
    statistics: dict[str, dict[str, float]]  # by estimator: those that have a value
    n: dict[str, float]  # by estimator: outcomes in its memory
    interval: tuple[float, float] | None
    verdict: int
    since: int | None
    outcomes: int
    ts: int  # label time of the newest of them, epoch ms
    recent: dict[str, Any]  # the recent verdict, as in messages
    same: list[str]  # stages that are the same up to now
    rank: int  # the pair is the k-th to begin, see `Pairs`
    provisional: dict[str, Any] | None  # as in messages
    needed: dict[str, int] | None  # as in messages
    disagreement: dict[str, Any] | None  # as in messages


def costs(pairing: Pairing, entities: int) -> Ints:
    """By entity (row), (entities,) int64: bytes that `take` copies of the pairs whose A it is."""
    bytes_by_entity = np.zeros(entities, dtype=np.int64)
    numbers = np.fromiter(pairing.ends, dtype=np.int64, count=len(pairing.ends))
    pairs = copy_of_rows(pairing.pairs, numbers)
    counted = np.array([tables.counted.row_bytes for tables in pairing.tables] or [0], dtype=np.int64)
    added = [len(tables.added) * tables.scored.row_bytes for tables in pairing.tables]
    scored = np.array(added or [0], dtype=np.int64)
    bytes_by_pair = counted[pairs.plan] * (pairs.counted != NO_ROWS) + scored[pairs.plan]
    np.add.at(bytes_by_entity, pairs.a, bytes_by_pair * pairs.stages + _PAIR)
    return bytes_by_entity


def take(
    reporter: ComparisonReporter, pairing: Pairing, entities: Iterable[int], shows: Shows | None = None
) -> Copies:
    """Copy the pairs whose A is one of these entities, in stages that `shows` (None: all).

    Age bins are left out: they are many, and each resembles its neighbours. A model's stages that are
    compared with each other are asked for one by one.
    """
    rows: dict[tuple[int, int], list[int]] = {}
    places: list[tuple[PairSubject, list[PairSequence]]] = []
    for entity in entities:
        for pair in pairing.by_entity.get(entity, ()):
            if pairing.ends[pair][0] != entity:
                continue
            subject = reporter.subject(pair)
            copied = []
            for sequence in subject.places:
                if shows is not None and not shows(sequence.stage, subject.a.stream, sequence.same):
                    continue
                if subject.a is subject.b or not parse_stage(sequence.stage).is_bin:
                    of_side = rows.setdefault((subject.number, sequence.side), [])
                    copied.append(sequence._replace(row=len(of_side)))
                    of_side.append(sequence.row)
            places.append((subject, copied))
    sides = {
        (number, side): pairing.tables[number].sides[side].part(np.array(copied_rows, dtype=np.int64))
        for (number, side), copied_rows in rows.items()
    }
    return Copies(places, [reporter.predicted(subject.pair) for subject, _ in places], sides)


def pair_statuses(copies: Copies, shows: Callable[[str, Entity], bool] | None = None) -> Iterator[PairStatus]:
    """The status of each copied pair with outcomes or predictions, by stage, as messages would report it now.

    `shows` selects the estimators of A's stream that have statistics (None: all).
    """
    read_sides = {key: read(side, list(range(side.rows))) for key, side in copies.sides.items()}
    for (subject, places), predicted in zip(copies.places, copies.predicted):
        has_predictions = predicted.disagreement is not None and not subject.rank
        for sequence in places:
            names = copies.sides[subject.number, sequence.side].names
            side, i = read_sides[subject.number, sequence.side], sequence.row
            if not side.n[i] and not has_predictions:
                continue
            shown = [index for index, name in enumerate(names) if shows is None or shows(name, subject.a)]
            statistics = {names[estimator]: by_name(side, estimator, i) for estimator in shown}
            n = {names[estimator]: float(side.estimators[estimator].n[i]) for estimator in shown}
            bounded, low, high = side.intervals[i]
            verdict = side.verdicts[i]
            yield PairStatus(
                subject.a, subject.b, sequence.stage, sequence.loss, statistics, n, (low, high)
                if bounded else None,
                verdict, side.since[i] if verdict else None, side.n[i],
                side.newest[i] if side.n[i] else predicted.ts,
                side.recent[i], sequence.same, subject.rank,
                provisional_of(side, i, subject.config, subject.rank),
                needed_of(side, i, subject.config),
                predicted.as_message(sequence.stage, sequence.same, subject.config),
            )  # fmt: skip
