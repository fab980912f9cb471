"""Neighbouring outcomes: whether being wrong, or a baseline's being right, comes in runs; and cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from prequential.core.arrays import Ints
from prequential.core.measures.matrix import PositiveClass
from prequential.core.memories import Memory, build_memory
from prequential.core.outcomes import Chunk

#: What is looked at in each outcome.
WRONG, PERSISTENT, MAJORITY = SIGNS = ("wrong", "persistent", "majority")
#: Its cell of the binary matrix, 2·(positive label) + (positive prediction).
CELL = "cell"

_KINDS = {**dict.fromkeys(SIGNS, 2), CELL: 4}


class Pairs:
    """For each estimator and sign, counts (or weights) of the pairs 00, 01, 10, 11 of neighbours.

    The pairs of cells are 00, 01, 02, 03, 10, …, 33.

    >>> pairs = Pairs(["all"])
    >>> pairs.update(Chunk(np.array([2, 2, 0]), np.array([False, True, True]), 2))
    >>> {sign: pairs.of("all")[sign].counts[:4].tolist() for sign in SIGNS}
    {'wrong': [0, 1, 0, 1], 'persistent': [0, 0, 1, 1], 'majority': [2, 0, 0, 0]}
    """

    def __init__(self, estimators: Iterable[str], positive: PositiveClass | None = None) -> None:
        # A new memory has 16 places: as many as there are pairs of cells.
        self._memories = {name: {sign: build_memory(name) for sign in _KINDS} for name in estimators}
        self._last: list[int | None] = [None] * len(_KINDS)
        self._positive = positive

    def update(self, chunk: Chunk) -> None:
        """Add consecutive outcomes."""
        columns = (chunk.loss, (chunk.places & 2) > 0, (chunk.places & 1) > 0, self._cells(chunk))
        for at, ((sign, kinds), column) in enumerate(zip(_KINDS.items(), columns)):
            places = pair_places(self._last[at], column, kinds)
            self._last[at] = int(column[-1])
            for memories in self._memories.values():
                memories[sign].update(places)

    def _cells(self, chunk: Chunk) -> Ints:
        positive = np.zeros(chunk.capacity, dtype=np.int64)
        if self._positive is not None:
            # One that isn't known yet, or has no room in the chunk, has no outcomes there.
            positive[[code for code in self._positive.codes if code < chunk.capacity]] = 1
        y, h = np.divmod(chunk.places >> 2, chunk.capacity)
        cells: Ints = 2 * positive[y] + positive[h]
        return cells

    def of(self, estimator: str) -> dict[str, Memory]:
        """An estimator's pairs by sign."""
        return self._memories[estimator]

    def snapshot(self) -> list[object]:
        return [
            list(self._last),
            {
                name: {sign: memory.snapshot() for sign, memory in memories.items()}
                for name, memories in self._memories.items()
            },
        ]

    def restore(self, state: Any) -> None:
        """Take a snapshot over; estimators that it hasn't begin empty."""
        self._last, saved = list(state[0]), state[1]
        for name in self._memories.keys() & saved.keys():
            for sign, memory in self._memories[name].items():
                memory.restore(saved[name][sign])


def pair_places(before: int | None, signs: npt.NDArray[Any], kinds: int = 2) -> Ints:
    """Places of pairs, kinds·(the one before) + this one; the first outcome of all has none before it.

    >>> pair_places(None, np.array([True, False, False])), pair_places(True, np.array([True]))
    (array([2, 0]), array([3]))
    """
    previous = np.concatenate(([before or 0], signs[:-1]))
    places: Ints = kinds * previous.astype(np.int64) + signs
    return places[1:] if before is None else places
