"""Messages about pairs of models: who is better, by how much, and whether that is sure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.core.catalog import Catalog, Stream
from prequential.core.comparisons import REASONS, VERDICTS, mcnemar
from prequential.core.comparisons.measuring import ABSENT, MCNEMAR, N01, N10, NAMES, P_VALUE, intervals
from prequential.core.comparisons.pairing import Pairing
from prequential.core.comparisons.tables import Side
from prequential.core.naming import FADING
from prequential.topics.outputs import Comparison, identifier


class _Place(NamedTuple):
    """A sequence of a pair: its stage and loss, and where it lies."""

    stage: str
    loss: str
    side: int
    row: int
    identify: list[Any]  # by estimator


class _Found(NamedTuple):
    """What there is to say of the sequences of one side, row by row; `estimators` of each estimator."""

    at: dict[int, int]
    estimators: list[tuple[list[float], list[list[float]], list[list[int]]]]
    intervals: list[list[float]]
    verdicts: list[int]
    newest: list[int]
    since: list[int]
    n: list[int]


class ComparisonReporter:
    """Makes the messages about a shard's pairs, and knows of what state the last ones were."""

    def __init__(self, catalog: Catalog, pairing: Pairing) -> None:
        self._catalog = catalog
        self._pairing = pairing
        #: By pair: joint outcomes by loss, and the revisions of both, at its last messages.
        self.reported: dict[int, tuple[int, ...]] = {}
        self._places: dict[int, tuple[tuple[int, ...], list[_Place]]] = {}
        self._thresholds: dict[float, float] = {}

    def of_subjects(self, rows: Iterable[int], *, replaying: bool = False) -> list[Comparison]:
        """Messages about pairs with one of these subjects that have news, in their order."""
        of = self._pairing.of
        return self.messages({pair for row in rows for pair in of.get(row, ())}, replaying=replaying)

    def messages(
        self, pairs: Iterable[int], *, replaying: bool = False, all_news: bool = False
    ) -> list[Comparison]:
        """Messages about those of these pairs that have joint outcomes, and news unless `all_news`."""
        new: dict[int, set[str]] = {}  # by pair: losses
        for pair in sorted(pairs, key=self._order):
            revisions, outcomes = self._state(pair)
            before = self.reported.get(pair)
            told = dict(zip(outcomes, before[2:])) if before is not None and before[:2] == revisions else {}
            losses = {loss for loss, n in outcomes.items() if n and (all_news or told.get(loss) != n)}
            if losses:
                self.reported[pair] = (*revisions, *outcomes.values())
                new[pair] = losses
        return [] if replaying else list(self._messages(new))

    def _order(self, pair: int) -> tuple[int, ...]:
        subjects, pairs = self._catalog.columns.subjects, self._pairing.pairs
        a, b = int(pairs.a[pair]), int(pairs.b[pair])
        return int(subjects.stream[a]), int(subjects.kind[a]), a, b

    def _state(self, pair: int) -> tuple[tuple[int, int], dict[str, int]]:
        """Revisions of both; by loss, joint outcomes of all stages together."""
        subjects, pairing = self._catalog.columns.subjects, self._pairing
        a, b = int(pairing.pairs.a[pair]), int(pairing.pairs.b[pair])
        tables = pairing.tables[pairing.pairs.plan[pair]]
        outcomes: dict[str, int] = {}
        for loss, _, side, row in pairing.sequences(pair):
            outcomes[loss] = outcomes.get(loss, 0) + int(tables.sides[side].sequences.n[row])
        return (int(subjects.revisions[a]), int(subjects.revisions[b])), outcomes

    # ---- what is said

    def _messages(self, pairs: dict[int, set[str]]) -> Iterator[Comparison]:
        """About these losses of pairs, in order of pair, stage, loss, estimator."""
        places = {
            pair: [place for place in self._places_of(pair) if place.loss in losses]
            for pair, losses in pairs.items()
        }
        found = self._find(places)
        catalog, pairing = self._catalog, self._pairing
        subjects = catalog.columns.subjects
        for pair, own in places.items():
            a, b = (catalog.subjects[int(row[pair])] for row in (pairing.pairs.a, pairing.pairs.b))
            assert a is not None
            assert b is not None
            stream = catalog.streams[a.stream]
            tables = pairing.tables[pairing.pairs.plan[pair]]
            revisions = int(subjects.revisions[a.row]), int(subjects.revisions[b.row])
            sharing = len(pairing.names[a.stream])
            for place in own:
                side = found[tables.number, place.side]
                i = side.at[place.row]
                if not side.n[i]:
                    continue
                known, low, high = side.intervals[i]
                verdict = side.verdicts[i]
                for estimator, identify, (n, values, reasons) in zip(
                    tables.estimators, place.identify, side.estimators
                ):
                    measures, undefined = _selected(values[i], reasons[i])
                    message = Comparison(
                        identify(side.n[i], *revisions), stream.name, catalog.partition, a.model, b.model,
                        a.segment, place.stage, estimator, place.loss, n[i], side.n[i], side.newest[i],
                        measures, undefined, (low, high) if known else None, stream.config.compare_level,
                        sharing, VERDICTS[verdict], side.since[i] if verdict else None, stream.config.digest,
                    )  # fmt: skip
                    if not reasons[i][MCNEMAR]:
                        message.significant = self._is_significant(stream, values[i], reasons[i])
                    yield message

    def _is_significant(self, stream: Stream, values: list[float], reasons: list[int]) -> bool:
        """Whether McNemar's test, looked at once, rejects that both are wrong equally often."""
        level = stream.config.mcnemar_level
        if not reasons[P_VALUE]:
            return values[P_VALUE] < level
        if level not in self._thresholds:
            self._thresholds[level] = mcnemar.threshold(level)
        return abs(values[MCNEMAR]) > self._thresholds[level]

    def _find(self, places: dict[int, list[_Place]]) -> dict[tuple[int, int], _Found]:
        """By tables and side: everything that is to be said of their sequences."""
        rows: dict[tuple[int, int], list[int]] = {}
        for pair, own in places.items():
            number = int(self._pairing.pairs.plan[pair])
            for place in own:
                rows.setdefault((number, place.side), []).append(place.row)
        return {
            key: _read(self._pairing.tables[key[0]].sides[key[1]], of) for key, of in rows.items()
        }

    def _places_of(self, pair: int) -> list[_Place]:
        """The sequences of a pair that messages are about."""
        catalog, pairing = self._catalog, self._pairing
        a, b = (catalog.subjects[int(row[pair])] for row in (pairing.pairs.a, pairing.pairs.b))
        assert a is not None
        assert b is not None
        known = self._places.get(pair)
        if known is not None and known[0] == (a.row, b.row):
            return known[1]
        stream = catalog.streams[a.stream]
        stages = catalog.plans[catalog.columns.subjects.plan[a.row]].stages
        tables = pairing.tables[pairing.pairs.plan[pair]]
        sequences = list(pairing.sequences(pair))
        own = []
        for i, stage in enumerate(stages):
            for loss, _, side, row in sequences[i * len(tables.codes) : (i + 1) * len(tables.codes)]:
                if stream.reports(stage):
                    identify = [
                        identifier(
                            stream.name, catalog.partition, a.model, b.model, a.segment, stage, name, loss
                        )
                        for name in tables.estimators
                    ]
                    own.append(_Place(stage, loss, side, row, identify))
        self._places[pair] = (a.row, b.row), own
        return own


def _read(side: Side, rows: list[int]) -> _Found:
    """What there is to say of these sequences."""
    of = np.array(rows, dtype=np.int64)
    bounds = np.zeros((len(of), 3))
    intervals(side.sequences, of, bounds)
    some: Any = side.sequences[of]  # type: ignore[index]
    estimators = []
    for place, (kind, _) in enumerate(side.kinds):
        n, values, reasons = side.statistics(place, of)
        if kind != FADING:
            n = n.astype(np.int64)
            if side.counted:  # counts are whole numbers, and are shown so
                values = values.astype(object)
                values[:, [N01, N10]] = values[:, [N01, N10]].astype(np.int64)
        estimators.append((n.tolist(), values.tolist(), reasons.tolist()))
    return _Found(
        {row: i for i, row in enumerate(rows)}, estimators, bounds.tolist(), some["verdict"].tolist(),
        side.times.newest[of].tolist(), some["since"].tolist(), some["n"].tolist(),
    )  # fmt: skip


def _selected(values: list[float], reasons: list[int]) -> tuple[dict[str, float], dict[str, str]]:
    """Statistics that have a value, and reasons of those that have none."""
    measures = {name: value for name, value, reason in zip(NAMES, values, reasons) if not reason}
    undefined = {name: REASONS[reason] for name, reason in zip(NAMES, reasons) if reason not in (0, ABSENT)}
    return measures, undefined
