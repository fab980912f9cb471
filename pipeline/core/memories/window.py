"""The last W outcomes of a sequence count, all the same (2013 paper, section 3.2.1)."""

from __future__ import annotations

import numpy as np

from pipeline.core.outcomes import Ints, grown, joint


class Window:
    """Integer joint counts over the last `size` outcomes, and their cells in a ring.

    >>> memory = Window(2)
    >>> for cell in (0, 0, 3):
    ...     memory.update(np.array([cell]), joint(np.array([cell]), 2))
    >>> memory.n, memory.counts[:4].tolist()
    (2, [1, 0, 0, 1])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.capacity = 2
        self.counts: Ints = np.zeros(16, dtype=np.int64)
        self.n = 0
        # Grows to `size` by doubling: many short sequences needn't pay for a long window.
        self._ring: Ints = np.zeros(min(size, 64), dtype=np.int64)
        self._next = 0  # where the next outcome goes; while the ring isn't full this is n

    def update(self, cells: Ints, places: Ints) -> None:
        """Outcomes' cells and their places in joint counts of the present capacity."""
        if len(cells) > self.size:
            cells, places = cells[-self.size :], places[-self.size :]
        self._make_room(len(cells))
        where = (self._next + np.arange(len(cells))) % len(self._ring)
        leaving = max(0, self.n + len(cells) - self.size)
        if leaving:
            oldest = (self._next - self.n + np.arange(leaving)) % len(self._ring)
            np.subtract.at(self.counts, joint(self._ring[oldest], self.capacity), 1)
        np.add.at(self.counts, places, 1)
        self._ring[where] = cells
        self._next = (self._next + len(cells)) % len(self._ring)
        self.n += len(cells) - leaving

    def _make_room(self, more: int) -> None:
        needed = min(self.size, self.n + more)
        if needed > len(self._ring):  # n < size, so the ring has never wrapped round
            ring = np.zeros(min(self.size, max(needed, 2 * len(self._ring))), dtype=np.int64)
            ring[: self.n] = self._cells()
            self._ring = ring
            self._next = self.n

    def _cells(self) -> Ints:
        """The window's cells, oldest first."""
        return self._ring[(self._next - self.n + np.arange(self.n)) % len(self._ring)]

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, self.capacity, capacity)  # type: ignore[assignment]
        self.capacity = capacity

    def revise(self, age: int, old: int, new: int) -> None:
        """Move the outcome that lies `age` outcomes back, if it is still here, to cell `new`."""
        if age >= self.n:
            return
        self._ring[(self._next - 1 - age) % len(self._ring)] = new
        before, after = joint(np.array([old, new]), self.capacity)
        self.counts[before] -= 1
        self.counts[after] += 1

    def snapshot(self) -> list[object]:
        return [self.capacity, self._cells().tobytes()]

    def restore(self, state: list[object]) -> None:
        self.__init__(self.size)  # type: ignore[misc]
        self.grow(state[0])  # type: ignore[arg-type]
        cells = np.frombuffer(state[1], dtype=np.int64)  # type: ignore[call-overload]
        if len(cells):
            self.update(cells, joint(cells, self.capacity))
