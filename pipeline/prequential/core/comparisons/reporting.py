"""Messages about pairs of models: who is better, by how much, and by which verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog, Stream, Subject
from prequential.core.comparisons import DEFINED, REASONS, VERDICTS, mcnemar
from prequential.core.comparisons.measuring import MCNEMAR, N01, N10, NAMES, P_VALUE, intervals
from prequential.core.comparisons.pairing import Pairing
from prequential.core.comparisons.tables import Side
from prequential.core.compiled.kernel import Floats, Ints
from prequential.core.output.texts import Draft, Values, Who, Writer, joined, vocabulary
from prequential.settings.stages import FINAL, INITIAL
from prequential.topics.outputs import Encoded, fields_of
from prequential.topics.specs import COMPARISONS

#: Statistics that are whole numbers wherever n is.
COUNTS = NAMES[N01], NAMES[N10]

#: How messages end: McNemar's test isn't there, doesn't reject, rejects.
_ENDINGS = (b"}", b',"significant":false}', b',"significant":true}')


class Place(NamedTuple):
    """A sequence of a pair: its stage and loss, and where it lies."""

    stage: str
    loss: str
    side: int
    row: int
    about: Who  # by estimator
    same: list[str]  # stages that are the same up to now


class Known(NamedTuple):
    """What doesn't change of a pair."""

    a: Subject
    b: Subject
    order: tuple[int, ...]  # among all pairs' messages
    single: bool  # whether `initial` is the same as `final`, so that nothing is said of it
    number: int  # of its tables
    rows: dict[str, tuple[int, list[int]]]  # by loss: side, and rows of all stages, also of the same one
    places: list[Place]  # that messages are about


class Statistics(NamedTuple):
    """Of one estimator: memory's n, statistics, and reasons where there are none (columns as `NAMES`)."""

    n: Ints | Floats
    values: Floats
    reasons: Ints


class Found(NamedTuple):
    """What there is to say of the sequences of one side, row by row."""

    at: dict[int, int]
    estimators: list[Statistics]
    whole: list[bool]  # by estimator: whether its n and counts are whole numbers
    intervals: list[list[float]]
    verdicts: list[int]
    newest: list[int]
    since: list[int]
    n: list[int]
    effective: list[int]  # independent outcomes that those which count are worth
    recent: list[dict[str, Any]]  # the verdict that forgets


class ComparisonReporter:
    """Makes the messages about a shard's pairs."""

    def __init__(self, catalog: Catalog, pairing: Pairing) -> None:
        self._catalog = catalog
        self._pairing = pairing
        self._known_pairs: dict[int, Known] = {}
        self._writer = Writer(COMPARISONS, vocabulary(NAMES, REASONS, counts=COUNTS), _ENDINGS)
        self._all_columns = self._writer.columns(tuple(range(len(NAMES))))
        self._thresholds: dict[float, float] = {}

    def of_subjects(self, rows: Iterable[int], *, replaying: bool = False) -> list[Encoded]:
        """Messages about pairs with one of these subjects that have news, in their order."""
        of = self._pairing.of
        return self.messages({pair for row in rows for pair in of.get(row, ())}, replaying=replaying)

    def messages(
        self, pairs: Iterable[int], *, replaying: bool = False, all_news: bool = False
    ) -> list[Encoded]:
        """Messages about those of these pairs that have joint outcomes, and news unless `all_news`."""
        new: dict[int, set[str]] = {}  # by pair: losses
        known = {pair: self.known(pair) for pair in pairs}
        for pair in sorted(known, key=lambda pair: known[pair].order):
            revisions, outcomes = self._state(known[pair])
            about = self._pairing.identity(pair)
            before = self._pairing.reported.get(about)
            told = dict(zip(outcomes, before[2:])) if before is not None and before[:2] == revisions else {}
            losses = {loss for loss, n in outcomes.items() if n and (all_news or told.get(loss) != n)}
            if losses:
                self._pairing.reported[about] = (*revisions, *outcomes.values())
                new[pair] = losses
        return [] if replaying else self._messages([(known[pair], new[pair]) for pair in new])

    def _state(self, known: Known) -> tuple[tuple[int, int], dict[str, int]]:
        """Revisions of both; by loss, joint outcomes of all stages together."""
        revisions = self._catalog.columns.subjects.revisions
        sides = self._pairing.tables[known.number].sides
        outcomes = {}
        for loss, (side, rows) in known.rows.items():
            n = sides[side].columns.n
            outcomes[loss] = sum(int(n[row]) for row in rows)
        return (int(revisions[known.a.row]), int(revisions[known.b.row])), outcomes

    def known(self, pair: int) -> Known:
        """What doesn't change of a pair: of the present one with this number."""
        catalog, pairing = self._catalog, self._pairing
        a, b = (catalog.subjects[row] for row in pairing.ends[pair])
        assert a is not None
        assert b is not None
        single = pairing.is_single(pair)
        known = self._known_pairs.get(pair)
        if known is not None and known.a is a and known.b is b and known.single == single:
            return known
        stream = catalog.streams[a.stream]
        stages = pairing.stages(pair)
        number = int(pairing.pairs.plan[pair])
        tables = pairing.tables[number]
        rows: dict[str, tuple[int, list[int]]] = {}
        places = []
        sequences = list(pairing.sequences(pair))
        at = {(stages[place], loss): row for place, loss, _, _, row in sequences}
        for place, loss, _, side, row in sequences:
            stage = stages[place]
            written = FINAL if single and stage == INITIAL else stage
            rows.setdefault(loss, (side, []))[1].append(at[written, loss])
            if written == stage and (pair in pairing.labels or stream.reports(stage)):
                whose = {
                    "stream": stream.name, "partition": catalog.partition, "model": a.model,
                    "against": b.model, "segment": a.segment, "stage": stage,
                }  # fmt: skip
                same = catalog.same_as(a.row, stage) if single else []
                of_estimators = Who.of(
                    whose | {"estimator": name, "loss": loss} for name in tables.estimators
                )
                places.append(Place(stage, loss, side, row, of_estimators, same))
        of_stages = int(pairing.pairs.a_stage[pair]), int(pairing.pairs.b_stage[pair])
        order = a.stream, a.kind, a.row, b.row, *of_stages
        known = Known(a, b, order, single, number, rows, places)
        self._known_pairs[pair] = known
        return known

    # ---- what is said

    def _messages(self, pairs: list[tuple[Known, set[str]]]) -> list[Encoded]:
        """About these losses of pairs, in order of pair, stage, loss, estimator."""
        catalog, pairing = self._catalog, self._pairing
        revisions = catalog.columns.subjects.revisions
        places = [
            (known, [place for place in known.places if place.loss in losses]) for known, losses in pairs
        ]
        found, levels = self._find(places)
        if not found:
            return []
        values, first = self._values(found, levels)
        draft = Draft()
        loss = catalog.loss
        for known, own in places:
            a, b = known.a, known.b
            stream = catalog.streams[a.stream]
            revised = int(revisions[a.row]), int(revisions[b.row])
            sharing = pairing.sharing.get(a.stream, 0)
            for place in own:
                side = found[known.number, place.side]
                i = side.at[place.row]
                outcomes = side.n[i]
                if not outcomes:
                    continue
                start, step = first[known.number, place.side] + i, len(side.n)
                numbers = b"".join(b",%d" % one for one in (outcomes, *revised, *loss)) + b"]"
                draft.add(
                    stream.name, place.about, numbers,
                    range(start, start + len(place.about.heads) * step, step), outcomes, side.newest[i],
                    self._all_columns, self._rest(stream, sharing, place.same, side, i),
                )  # fmt: skip
        return self._writer.write(draft, values)

    def _rest(self, stream: Stream, sharing: int, same: list[str], side: Found, i: int) -> bytes:
        """What all estimators' messages about a sequence have in common behind their statistics."""
        bounded, low, high = side.intervals[i]
        verdict = side.verdicts[i]
        rest: dict[str, Any] = {
            "interval": (low, high) if bounded else None,
            "level": stream.config.compare_level,
            "pairs": sharing,
            "verdict": VERDICTS[verdict],
            "since": side.since[i] if verdict else None,
            "config": stream.config.digest,
            "effective": side.effective[i],
            "recent": side.recent[i],
        }
        if same:
            rest["same"] = same
        return fields_of(rest | {"untimed": True} if self._catalog.untimed else rest)

    def _values(
        self, found: dict[tuple[int, int], Found], levels: dict[tuple[int, int], list[float]]
    ) -> tuple[Values, dict[tuple[int, int], int]]:
        """The statistics of all sides, estimator by estimator; by side, where its own begin."""
        parts, first, at = [], {}, 0
        for key, side in found.items():
            first[key] = at
            level = np.array(levels[key])
            beyond = np.array([self._threshold(one) for one in levels[key]])
            for (n, values, reasons), whole in zip(side.estimators, side.whole):
                exact = reasons[:, P_VALUE] == DEFINED
                rejects = np.where(exact, values[:, P_VALUE] < level, abs(values[:, MCNEMAR]) > beyond)
                ending = np.where(reasons[:, MCNEMAR] == DEFINED, 1 + rejects, 0)
                wholes = np.full(len(n), whole, dtype=np.uint8)
                parts.append(Values(n.astype(np.float64), wholes, values, reasons, ending))
                at += len(n)
        return joined(parts), first

    def _threshold(self, level: float) -> float:
        if level not in self._thresholds:
            self._thresholds[level] = mcnemar.threshold(level)
        return self._thresholds[level]

    def _find(
        self, places: list[tuple[Known, list[Place]]]
    ) -> tuple[dict[tuple[int, int], Found], dict[tuple[int, int], list[float]]]:
        """By tables and side: everything that is to be said of their sequences, and the levels of tests."""
        streams = self._catalog.streams
        rows: dict[tuple[int, int], list[int]] = {}
        levels: dict[tuple[int, int], list[float]] = {}
        for known, own in places:
            for place in own:
                key = known.number, place.side
                rows.setdefault(key, []).append(place.row)
                levels.setdefault(key, []).append(streams[known.a.stream].config.mcnemar_level)
        return {key: read(self._pairing.tables[key[0]].sides[key[1]], of) for key, of in rows.items()}, levels


def read(side: Side, rows: list[int]) -> Found:
    """What there is to say of these sequences."""
    of = np.array(rows, dtype=np.int64)
    bounds = np.zeros((len(of), 4))
    intervals(side.sequences, of, bounds)
    columns, recent = side.columns, side.recent
    since = (recent.before[of] + 1).tolist()
    verdicts = recent.verdict[of].tolist()
    return Found(
        {row: i for i, row in enumerate(rows)},
        [Statistics(*side.statistics(place, of)) for place in range(len(side.estimators))],
        [one.memory.whole for one in side.estimators],
        bounds[:, :3].tolist(), columns.verdict[of].tolist(), side.times.newest[of].tolist(),
        columns.since[of].tolist(), columns.n[of].tolist(), bounds[:, 3].astype(np.int64).tolist(),
        [
            {"verdict": VERDICTS[verdict], "since": at if verdict else None}
            for verdict, at in zip(verdicts, since)
        ],
    )  # fmt: skip


def by_name(found: Found, estimator: int, row: int) -> dict[str, int | float]:
    """The statistics of an estimator that have a value."""
    _, values, reasons = found.estimators[estimator]
    of = zip(NAMES, values[row].tolist(), reasons[row].tolist())
    whole = COUNTS if found.whole[estimator] else ()
    return {name: int(value) if name in whole else value for name, value, reason in of if not reason}
