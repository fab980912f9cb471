"""The present status of pairs, for readers on other threads: copies of their tables, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.streams import Entity
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.reporting import (
    ComparisonReporter,
    PairSequence,
    PairSubject,
    by_name,
    read,
)
from prequential.engine.comparisons.tables import PairSide
from prequential.engine.compiled.kernel import Ints, taken

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
