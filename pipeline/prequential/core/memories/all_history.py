"""Every outcome of a sequence counts the same (2013 paper, section 3.2: the prequential error)."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.arrays import Ints
from prequential.core.outcomes import add_to, grown


class AllHistory:
    """Integer joint counts over the whole sequence.

    >>> memory = AllHistory()
    >>> memory.update(np.array([0, 0, 3]))
    >>> memory.n, memory.counts[:4].tolist()
    (3, [2, 0, 0, 1])
    """

    def __init__(self) -> None:
        self.capacity = 2
        self.counts: Ints = np.zeros(16, dtype=np.int64)
        self.n = 0

    def update(self, places: Ints) -> None:
        """Add outcomes by their places in joint counts of the present capacity."""
        add_to(self.counts, places)
        self.n += len(places)

    def grow(self, capacity: int) -> None:
        """Make room for classes."""
        self.counts = grown(self.counts, self.capacity, capacity)
        self.capacity = capacity

    def revise(self, age: int, old: int, new: int) -> None:
        """Move the outcome that lies `age` outcomes back from place `old` to place `new`."""
        self.counts[old] -= 1
        self.counts[new] += 1

    def snapshot(self) -> list[object]:
        return [self.capacity, self.n, self.counts.tobytes()]

    def restore(self, state: Any) -> None:
        self.capacity, self.n, counts = state
        self.counts = np.frombuffer(counts, dtype=np.int64).copy()
