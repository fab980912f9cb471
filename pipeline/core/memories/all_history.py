"""Every outcome of a sequence counts the same (2013 paper, section 3.2: the prequential error)."""

from __future__ import annotations

import numpy as np

from pipeline.core.outcomes import Ints, grown, joint


class AllHistory:
    """Integer joint counts over the whole sequence.

    >>> memory = AllHistory()
    >>> cells = np.array([0, 0, 3 << 0])  # label 0 predicted 0, three times
    >>> memory.update(cells, joint(cells, 2))
    >>> memory.n, memory.counts[:4].tolist()
    (3, [2, 0, 0, 1])
    """

    def __init__(self) -> None:
        self.capacity = 2
        self.counts: Ints = np.zeros(16, dtype=np.int64)
        self.n = 0

    def update(self, cells: Ints, places: Ints) -> None:
        """Outcomes' cells and their places in joint counts of the present capacity."""
        np.add.at(self.counts, places, 1)
        self.n += len(places)

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, self.capacity, capacity)  # type: ignore[assignment]
        self.capacity = capacity

    def revise(self, age: int, old: int, new: int) -> None:
        """Move the outcome that lies `age` outcomes back from cell `old` to cell `new`."""
        before, after = joint(np.array([old, new]), self.capacity)
        self.counts[before] -= 1
        self.counts[after] += 1

    def snapshot(self) -> list[object]:
        return [self.capacity, self.n, self.counts.tobytes()]

    def restore(self, state: list[object]) -> None:
        self.capacity, self.n, counts = state  # type: ignore[assignment]
        self.counts = np.frombuffer(counts, dtype=np.int64).copy()  # type: ignore[call-overload]
