"""The last W outcomes of a sequence count, all the same (2013 paper, section 3.2.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.arrays import Ints
from prequential.core.outcomes import add_to, grown, moved, tally


class Window:
    """Integer joint counts over the last `size` outcomes, and these outcomes' places.

    >>> memory = Window(2)
    >>> memory.update(np.array([0, 0, 3]))
    >>> memory.n, memory.counts[:4].tolist()
    (2, [1, 0, 0, 1])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.capacity = 2
        self.counts: Ints = np.zeros(16, dtype=np.int64)
        # Oldest first, with slack at the end so that most chunks are added without a copy.
        self._places: Ints = np.zeros(0, dtype=np.int64)
        self._start = self._stop = 0

    @property
    def n(self) -> int:
        """Outcomes in the window."""
        return self._stop - self._start

    def update(self, places: Ints) -> None:
        """Add outcomes by their places in joint counts of the present capacity."""
        room = len(self.counts)
        if len(places) >= self.size:
            places = places[-self.size :]
            self.counts = tally(places, room)
            self._start = self._stop = 0
        else:
            leaving = max(0, self.n + len(places) - self.size)
            add_to(self.counts, places)
            if leaving:
                add_to(self.counts, self._places[self._start : self._start + leaving], -1)
                self._start += leaving
        if self._stop + len(places) > len(self._places):
            kept = self._places[self._start : self._stop]
            # Twice what is needed: a window is copied once in so many outcomes as it has.
            self._places = np.zeros(2 * (len(kept) + len(places)), dtype=np.int64)
            self._places[: len(kept)] = kept
            self._start, self._stop = 0, len(kept)
        self._places[self._stop : self._stop + len(places)] = places
        self._stop += len(places)

    def grow(self, capacity: int) -> None:
        """Make room for classes."""
        self.counts = grown(self.counts, self.capacity, capacity)
        self._places = moved(self._places, self.capacity, capacity)
        self.capacity = capacity

    def revise(self, age: int, old: int, new: int) -> None:
        """Move the outcome that lies `age` outcomes back, if it is still here, to place `new`."""
        if age < self.n:
            self._places[self._stop - 1 - age] = new
            self.counts[old] -= 1
            self.counts[new] += 1

    def snapshot(self) -> list[object]:
        return [self.capacity, self._places[self._start : self._stop].tobytes()]

    def restore(self, state: Any) -> None:
        self.__init__(self.size)  # type: ignore[misc]
        self.grow(state[0])
        self.update(np.frombuffer(state[1], dtype=np.int64))
