"""Neighbouring outcomes: whether being wrong, or a baseline's being right, comes in runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Ints
from pipeline.core.memories import Memory, build_memory
from pipeline.core.outcomes import Chunk

#: What is looked at in each outcome.
WRONG, PERSISTENT, MAJORITY = SIGNS = ("wrong", "persistent", "majority")


class Pairs:
    """For each estimator and sign, counts (or weights) of the pairs 00, 01, 10, 11 of neighbours.

    >>> pairs = Pairs(["all"])
    >>> pairs.update(Chunk(np.array([2, 2, 0]), np.array([False, True, True]), 2))
    >>> {sign: memory.counts[:4].tolist() for sign, memory in pairs.of("all").items()}
    {'wrong': [0, 1, 0, 1], 'persistent': [0, 0, 1, 1], 'majority': [2, 0, 0, 0]}
    """

    def __init__(self, estimators: Iterable[str]) -> None:
        self._memories = {name: {sign: build_memory(name) for sign in SIGNS} for name in estimators}
        self._last: list[bool | None] = [None] * len(SIGNS)

    def update(self, chunk: Chunk) -> None:
        """Add consecutive outcomes."""
        columns = (chunk.loss.astype(np.bool_), (chunk.places & 2) > 0, (chunk.places & 1) > 0)
        for at, (sign, column) in enumerate(zip(SIGNS, columns)):
            places = pair_places(self._last[at], column)
            self._last[at] = bool(column[-1])
            for memories in self._memories.values():
                memories[sign].update(places)

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


def pair_places(before: bool | None, signs: npt.NDArray[np.bool_]) -> Ints:
    """Places of pairs, 2·(the one before) + this one; the first outcome of all has none before it.

    >>> pair_places(None, np.array([True, False, False])), pair_places(True, np.array([True]))
    (array([2, 0]), array([3]))
    """
    previous = np.concatenate(([before or False], signs[:-1]))
    places: Ints = 2 * previous.astype(np.int64) + signs
    return places[1:] if before is None else places
