"""Messages about pairs of models: who is better, by how much, by which verdict; and their present status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons import DEFINED, REASONS, VERDICTS, measuring
from prequential.engine.comparisons.confidence_sequence import level_of
from prequential.engine.comparisons.measuring import MCNEMAR, N01, N10, NAMES, P_VALUE, intervals
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.tables import PairSide
from prequential.engine.compiled.kernel import Floats, Ints, taken
from prequential.engine.facts import DueReport
from prequential.engine.output.texts import Draft, MessageValues, Who, Writer, joined, vocabulary
from prequential.topics.encoding import fields_of
from prequential.topics.outputs import Encoded
from prequential.topics.specs import COMPARISONS

#: Statistics that are whole numbers wherever n is.
COUNTS = NAMES[N01], NAMES[N10]

#: Messages about a sequence by all estimators, behind their position among others.
Ordered: TypeAlias = tuple[tuple[Any, ...], list[Encoded]]

#: How messages end: McNemar's test isn't there, doesn't reject, rejects.
_ENDINGS = (b"}", b',"significant":false}', b',"significant":true}')


class PairSequence(NamedTuple):
    """A sequence of a pair: its stage and loss, and where it lies."""

    stage: str
    loss: str
    side: int
    row: int
    about: Who  # by estimator
    same: list[str]  # stages that are the same up to now


class PairSubject(NamedTuple):
    """What doesn't change of a pair."""

    a: Entity
    b: Entity
    order: tuple[int, ...]  # among all pairs' messages
    rank: int  # it is the k-th pair to begin, see `Pairs`
    initial_is_final: bool  # whether `initial` is the same as `final`, so that messages report `final` only
    number: int  # of its tables
    places: list[PairSequence]  # that messages are about
    at: dict[tuple[int, int], list[int]]  # by side and row: which places; losses may be the same


class Statistics(NamedTuple):
    """Of one estimator: memory's n, statistics, and reasons where there are none (columns as `NAMES`)."""

    n: Ints | Floats
    values: Floats
    reasons: Ints


class SideStatistics(NamedTuple):
    """The statistics and verdicts of the sequences of one side, row by row."""

    at: dict[int, int]
    estimators: list[Statistics]
    whole: list[bool]  # by estimator: whether its n and counts are whole numbers
    intervals: list[list[float]]
    verdicts: list[int]
    newest: list[int]
    since: list[int]
    n: list[int]
    effective: list[int]  # effective sample sizes of the outcomes that count
    recent: list[dict[str, Any]]  # the recent verdict


def is_parted(stage: str, same: Sequence[str]) -> bool:
    """Whether messages with this stage and field `same` are about `final` alone, and not about `initial` too.

    Ids have it: the stages become different sequences at an outcome of one model, which the other may lack.
    """
    return stage == FINAL and not same


class ComparisonReporter:
    """Makes the messages about a shard's pairs, and caches the properties of each pair."""

    def __init__(self, catalog: Catalog, pairing: Pairing) -> None:
        self._catalog, self._pairing = catalog, pairing
        self._known_pairs: dict[int, PairSubject] = {}
        self._writer = Writer(COMPARISONS, vocabulary(NAMES, REASONS, counts=COUNTS), _ENDINGS)
        self._all_columns = self._writer.columns(tuple(range(len(NAMES))))
        self._thresholds: dict[float, float] = {}

    def pair_of(self, reports: DueReport) -> PairSubject:
        """Return the pair of the sequence that is due."""
        return self.known(int(self._pairing.tables[reports.number].sides[reports.side].due.pair[reports.row]))

    def _stream_of(self, known: PairSubject) -> Stream:
        return self._catalog.streams[known.a.stream]

    def known(self, pair: int) -> PairSubject:
        """What doesn't change of a pair: of the present one with this number."""
        catalog, pairing = self._catalog, self._pairing
        a, b = map(catalog.entity, pairing.ends[pair])
        initial_is_final, rank = pairing.initial_is_final(pair), int(pairing.pairs.rank[pair])
        known = self._known_pairs.get(pair)
        is_same = known is not None and known.a is a and known.b is b
        if known is not None and is_same and (known.initial_is_final, known.rank) == (initial_is_final, rank):
            return known
        stream = catalog.streams[a.stream]
        stages = pairing.stages(pair)
        number = int(pairing.pairs.plan[pair])
        tables = pairing.tables[number]
        places: list[PairSequence] = []
        at: dict[tuple[int, int], list[int]] = {}
        for place, loss, _, side, row in pairing.sequences(pair):
            stage = stages[place]
            if initial_is_final and stage == INITIAL:  # the same as `final`, whose messages report it
                continue
            if pair in pairing.labels or stream.reports(stage):
                whose = {
                    "stream": stream.name, "partition": catalog.partition, "model": a.model,
                    "against": b.model, "segment": a.segment, "stage": stage,
                }  # fmt: skip
                same = catalog.same_as(a.row, stage) if initial_is_final else []
                of_estimators = Who.from_fields(
                    whose | {"estimator": name, "loss": loss} for name in tables.estimators
                )
                at.setdefault((side, row), []).append(len(places))
                places.append(PairSequence(stage, loss, side, row, of_estimators, same))
        known = PairSubject(a, b, pairing.order_of(pair), rank, initial_is_final, number, places, at)
        self._known_pairs[pair] = known
        return known

    # ---- content of messages

    def messages(self, reports: list[DueReport]) -> list[Ordered]:
        """Messages about these sequences, each with its position: by instance, pair, stage and loss."""
        catalog, subjects = self._catalog, map(self.pair_of, reports)
        places = [
            (one, known, place) for one, known in zip(reports, subjects)
            for place in known.at[one.side, one.row]
        ]  # fmt: skip
        statistics, levels = self._find(places)
        values, first = self._values(statistics, levels)
        draft, loss, orders = Draft(), catalog.loss, []
        for one, known, number in places:
            stream, place = self._stream_of(known), known.places[number]
            side = statistics[known.number, place.side]
            i = side.at[place.row]
            outcomes = side.n[i]
            start, step = first[known.number, place.side] + i, len(side.n)
            parted = is_parted(place.stage, place.same)
            numbers = b"".join(b",%d" % part for part in (outcomes, *one.revised, parted, *loss)) + b"]"
            count = len(place.about.heads)
            draft.add(
                stream.name, place.about, numbers, range(start, start + count * step, step), outcomes,
                side.newest[i], self._all_columns, self._fields(stream, known.rank, place.same, side, i),
            )  # fmt: skip
            orders.append(((one.group, known.order, number), count))
        written = iter(self._writer.write(draft, values))
        return [(order, list(islice(written, count))) for order, count in orders]

    def _fields(self, stream: Stream, rank: int, same: list[str], side: SideStatistics, i: int) -> bytes:
        """What all estimators' messages about a sequence have in common behind their statistics."""
        bounded, low, high = side.intervals[i]
        verdict = side.verdicts[i]
        fields: dict[str, Any] = {
            "interval": (low, high) if bounded else None,
            "level": level_of(stream.config.compare_level, rank),
            "pairs": rank,
            "verdict": VERDICTS[verdict],
            "since": side.since[i] if verdict else None,
            "config": stream.config.digest,
            "effective": side.effective[i],
            "recent": side.recent[i],
        }
        if same:
            fields["same"] = same
        return fields_of(fields | {"untimed": True} if self._catalog.untimed else fields)

    def _values(
        self, statistics: dict[tuple[int, int], SideStatistics], levels: dict[tuple[int, int], list[float]]
    ) -> tuple[MessageValues, dict[tuple[int, int], int]]:
        """The statistics of all sides, estimator by estimator; by side, where its own begin."""
        parts, first, at = [], {}, 0
        for key, side in statistics.items():
            first[key] = at
            level = np.array(levels[key])
            beyond = np.array([self._threshold(one) for one in levels[key]])
            for (n, values, reasons), whole in zip(side.estimators, side.whole):
                exact = reasons[:, P_VALUE] == DEFINED
                rejects = np.where(exact, values[:, P_VALUE] < level, abs(values[:, MCNEMAR]) > beyond)
                ending = np.where(reasons[:, MCNEMAR] == DEFINED, 1 + rejects, 0)
                wholes = np.full(len(n), whole, dtype=np.uint8)
                parts.append(MessageValues(n.astype(np.float64), wholes, values, reasons, ending))
                at += len(n)
        return joined(parts), first

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
        for reports, known, _ in places:
            key = reports.number, reports.side
            rows.setdefault(key, []).append(reports.row)
            levels.setdefault(key, []).append(self._stream_of(known).config.mcnemar_level)
        tables = self._pairing.tables
        return {key: read(tables[key[0]].sides[key[1]], some) for key, some in rows.items()}, levels


def read(side: PairSide, rows: list[int]) -> SideStatistics:
    """The statistics and verdicts of these sequences."""
    sequences = np.array(rows, dtype=np.int64)
    bounds = np.zeros((len(sequences), 4))
    intervals(side.sequences, sequences, bounds)
    columns, recent = side.columns, side.recent
    since = (recent.before[sequences] + 1).tolist()
    verdicts = recent.verdict[sequences].tolist()
    return SideStatistics(
        {row: i for i, row in enumerate(rows)},
        [Statistics(*side.statistics(place, sequences)) for place in range(len(side.estimators))],
        [one.memory.whole for one in side.estimators],
        bounds[:, :3].tolist(), columns.verdict[sequences].tolist(), side.times.newest[sequences].tolist(),
        columns.since[sequences].tolist(), columns.n[sequences].tolist(),
        bounds[:, 3].astype(np.int64).tolist(),
        [
            {"verdict": VERDICTS[verdict], "since": at if verdict else None}
            for verdict, at in zip(verdicts, since)
        ],
    )  # fmt: skip


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


def costs(pairing: Pairing, entities: int) -> Ints:
    """By entity (row), (entities,) int64: bytes that `take` copies of the pairs whose A it is."""
    bytes_by_entity = np.zeros(entities, dtype=np.int64)
    numbers = np.fromiter(pairing.ends, dtype=np.int64, count=len(pairing.ends))
    pairs = taken(pairing.pairs, numbers)
    counted = np.array([one.counted.row_bytes for one in pairing.tables] or [0], dtype=np.int64)
    added = [len(one.added) * one.scored.row_bytes for one in pairing.tables]
    scored = np.array(added or [0], dtype=np.int64)
    each = counted[pairs.plan] * (pairs.counted >= 0) + scored[pairs.plan]
    np.add.at(bytes_by_entity, pairs.a, each * pairs.stages + _PAIR)
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
            known = reporter.known(pair)
            copied = []
            for place in known.places:
                if shows is not None and not shows(place.stage, known.a.stream, place.same):
                    continue
                if known.a is known.b or not parse_stage(place.stage).is_bin:
                    of_side = rows.setdefault((known.number, place.side), [])
                    copied.append(place._replace(row=len(of_side)))
                    of_side.append(place.row)
            places.append((known, copied))
    sides = {
        (number, side): pairing.tables[number].sides[side].part(np.array(copied_rows, dtype=np.int64))
        for (number, side), copied_rows in rows.items()
    }
    return Copies(places, sides)


def pair_statuses(copies: Copies, shows: Callable[[str, Entity], bool] | None = None) -> Iterator[PairStatus]:
    """The status of each copied pair with joint outcomes, by stage, as messages would report it now.

    `shows` selects the estimators of A's stream that have statistics (None: all).
    """
    read_sides = {key: read(side, list(range(side.rows))) for key, side in copies.sides.items()}
    for known, places in copies.places:
        for place in places:
            names = copies.sides[known.number, place.side].names
            side, i = read_sides[known.number, place.side], place.row
            if not side.n[i]:
                continue
            shown = [at for at, name in enumerate(names) if shows is None or shows(name, known.a)]
            statistics = {names[place]: by_name(side, place, i) for place in shown}
            n = {names[place]: float(side.estimators[place].n[i]) for place in shown}
            bounded, low, high = side.intervals[i]
            verdict = side.verdicts[i]
            yield PairStatus(
                known.a, known.b, place.stage, place.loss, statistics, n, (low, high) if bounded else None,
                verdict, side.since[i] if verdict else None, side.n[i], side.newest[i],
                side.recent[i], place.same, known.rank,
            )  # fmt: skip
