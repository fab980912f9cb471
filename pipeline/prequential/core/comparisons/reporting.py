"""Messages about pairs of models: who is better, by how much, and whether that is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.core.catalog import Catalog, Stream, Subject
from prequential.core.comparisons import REASONS, VERDICTS, mcnemar
from prequential.core.comparisons.measuring import ABSENT, MCNEMAR, N01, N10, NAMES, P_VALUE, intervals
from prequential.core.comparisons.pairing import Pairing
from prequential.core.comparisons.tables import Side
from prequential.core.naming import FADING
from prequential.core.picking import picker
from prequential.topics.outputs import Comparison, identifier


class Place(NamedTuple):
    """A sequence of a pair: its stage and loss, and where it lies."""

    stage: str
    loss: str
    side: int
    row: int
    identify: list[Any]  # by estimator


class Known(NamedTuple):
    """What doesn't change of a pair."""

    a: Subject
    b: Subject
    order: tuple[int, ...]  # among all pairs' messages
    number: int  # of its tables
    rows: dict[str, tuple[int, list[int]]]  # by loss: side, and rows of all stages
    places: list[Place]  # that messages are about


class _Selected(NamedTuple):
    """Which statistics have a value."""

    names: tuple[str, ...]
    pick: Callable[[Any], Any]
    undefined: dict[str, str]


class Found(NamedTuple):
    """What there is to say of the sequences of one side, row by row; `estimators` of each estimator."""

    at: dict[int, int]
    estimators: list[tuple[list[float], list[list[float]], list[tuple[int, ...]]]]
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
        #: By pair (its identity, since others take numbers of those that are gone): the revisions of both,
        #: and joint outcomes by loss, at its last messages.
        self.reported: dict[tuple[int, int, str], tuple[int, ...]] = {}
        self._known_pairs: dict[int, Known] = {}
        self._selections: dict[tuple[int, ...], _Selected] = {}
        self._thresholds: dict[float, float] = {}

    def forget(self, rows: Iterable[int]) -> None:
        """These subjects aren't compared any more."""
        gone = set(rows)
        self.reported = {about: told for about, told in self.reported.items() if gone.isdisjoint(about[:2])}

    def of_subjects(self, rows: Iterable[int], *, replaying: bool = False) -> list[Comparison]:
        """Messages about pairs with one of these subjects that have news, in their order."""
        of = self._pairing.of
        return self.messages({pair for row in rows for pair in of.get(row, ())}, replaying=replaying)

    def messages(
        self, pairs: Iterable[int], *, replaying: bool = False, all_news: bool = False
    ) -> list[Comparison]:
        """Messages about those of these pairs that have joint outcomes, and news unless `all_news`."""
        new: dict[int, set[str]] = {}  # by pair: losses
        known = {pair: self.known(pair) for pair in pairs}
        for pair in sorted(known, key=lambda pair: known[pair].order):
            revisions, outcomes = self._state(known[pair])
            about = self._pairing.identity(pair)
            before = self.reported.get(about)
            told = dict(zip(outcomes, before[2:])) if before is not None and before[:2] == revisions else {}
            losses = {loss for loss, n in outcomes.items() if n and (all_news or told.get(loss) != n)}
            if losses:
                self.reported[about] = (*revisions, *outcomes.values())
                new[pair] = losses
        return [] if replaying else list(self._messages([(known[pair], new[pair]) for pair in new]))

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
        known = self._known_pairs.get(pair)
        if known is not None and known.a is a and known.b is b:
            return known
        stream = catalog.streams[a.stream]
        stages = catalog.plans[catalog.columns.subjects.plan[a.row]].stages
        number = int(pairing.pairs.plan[pair])
        tables = pairing.tables[number]
        sequences = list(pairing.sequences(pair))
        rows: dict[str, tuple[int, list[int]]] = {}
        places = []
        for i, (loss, _, side, row) in enumerate(sequences):
            rows.setdefault(loss, (side, []))[1].append(row)
            label = pairing.labels.get(pair)
            stage = label or stages[i // len(tables.codes)]
            if label or stream.reports(stage):
                about = (stream.name, catalog.partition, a.model, b.model, a.segment, stage)
                identify = [identifier(*about, name, loss) for name in tables.estimators]
                places.append(Place(stage, loss, side, row, identify))
        of_stages = int(pairing.pairs.a_stage[pair]), int(pairing.pairs.b_stage[pair])
        order = a.stream, a.kind, a.row, b.row, *of_stages
        known = Known(a, b, order, number, rows, places)
        self._known_pairs[pair] = known
        return known

    # ---- what is said

    def _messages(self, pairs: list[tuple[Known, set[str]]]) -> Iterator[Comparison]:
        """About these losses of pairs, in order of pair, stage, loss, estimator."""
        catalog, pairing = self._catalog, self._pairing
        revisions = catalog.columns.subjects.revisions
        places = [
            (known, [place for place in known.places if place.loss in losses]) for known, losses in pairs
        ]
        found = self._find(places)
        partition = catalog.partition
        for known, own in places:
            a, b = known.a, known.b
            stream = catalog.streams[a.stream]
            config = stream.config
            revised = int(revisions[a.row]), int(revisions[b.row])
            sharing = pairing.sharing.get(a.stream, 0)
            estimators = pairing.tables[known.number].estimators
            for place in own:
                side = found[known.number, place.side]
                i = side.at[place.row]
                outcomes = side.n[i]
                if not outcomes:
                    continue
                bounded, low, high = side.intervals[i]
                interval = (low, high) if bounded else None
                verdict = side.verdicts[i]
                since = side.since[i] if verdict else None
                for estimator, identify, (n, values, reasons) in zip(
                    estimators, place.identify, side.estimators
                ):
                    why, value = reasons[i], values[i]
                    selected = self._selections.get(why) or self._selection(why)
                    measures = dict(zip(selected.names, selected.pick(value)))
                    message = Comparison(
                        identify(outcomes, *revised), stream.name, partition, a.model, b.model, a.segment,
                        place.stage, estimator, place.loss, n[i], outcomes, side.newest[i], measures,
                        selected.undefined, interval, config.compare_level, sharing, VERDICTS[verdict], since,
                        config.digest,
                    )  # fmt: skip
                    if not why[MCNEMAR]:
                        message.significant = self._is_significant(stream, value, why)
                    yield message

    def _selection(self, reasons: tuple[int, ...]) -> _Selected:
        """Statistics that have a value, and why others have none."""
        columns = [column for column, reason in enumerate(reasons) if not reason]
        undefined = {
            name: REASONS[reason] for name, reason in zip(NAMES, reasons) if reason not in (0, ABSENT)
        }
        selected = _Selected(tuple(NAMES[column] for column in columns), picker(columns), undefined)
        self._selections[reasons] = selected
        return selected

    def _is_significant(self, stream: Stream, values: list[float], reasons: tuple[int, ...]) -> bool:
        """Whether McNemar's test, looked at once, rejects that both are wrong equally often."""
        level = stream.config.mcnemar_level
        if not reasons[P_VALUE]:
            return values[P_VALUE] < level
        if level not in self._thresholds:
            self._thresholds[level] = mcnemar.threshold(level)
        return abs(values[MCNEMAR]) > self._thresholds[level]

    def _find(self, places: list[tuple[Known, list[Place]]]) -> dict[tuple[int, int], Found]:
        """By tables and side: everything that is to be said of their sequences."""
        rows: dict[tuple[int, int], list[int]] = {}
        for known, own in places:
            for place in own:
                rows.setdefault((known.number, place.side), []).append(place.row)
        return {key: read(self._pairing.tables[key[0]].sides[key[1]], of) for key, of in rows.items()}


def read(side: Side, rows: list[int]) -> Found:
    """What there is to say of these sequences."""
    of = np.array(rows, dtype=np.int64)
    bounds = np.zeros((len(of), 3))
    intervals(side.sequences, of, bounds)
    columns = side.columns
    estimators = []
    for place, (kind, _) in enumerate(side.kinds):
        n, values, reasons = side.statistics(place, of)
        if kind != FADING:
            n = n.astype(np.int64)
            if side.counted:  # counts are whole numbers, and are shown so
                values = values.astype(object)
                values[:, [N01, N10]] = values[:, [N01, N10]].astype(np.int64)
        estimators.append((n.tolist(), values.tolist(), list(map(tuple, reasons.tolist()))))
    return Found(
        {row: i for i, row in enumerate(rows)}, estimators, bounds.tolist(), columns.verdict[of].tolist(),
        side.times.newest[of].tolist(), columns.since[of].tolist(), columns.n[of].tolist(),
    )  # fmt: skip
