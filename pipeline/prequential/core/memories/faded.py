"""Older outcomes count less and less (2013 paper, section 3.2.1; every outcome decays every cell)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from prequential.core.arrays import Floats, Ints
from prequential.core.fading import fading_scale
from prequential.core.outcomes import grown

#: Cells below this weight are set to 0: far under any digit of an estimate, and it keeps
#: arithmetic out of the slow denormal range.
_NOTHING = 1e-200


class Faded:
    """Joint counts under a fading factor α: S = x + α·S for every cell, N = 1 + α·N.

    >>> memory = Faded(0.5)
    >>> for cell in (0, 3, 3):
    ...     memory.update(np.array([cell]))
    >>> memory.n, memory.counts[:4].tolist()
    (1.75, [0.25, 0.0, 0.0, 1.5])
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.capacity = 2
        self._scale = fading_scale(factor)
        self._sums: Floats = np.zeros(16)
        self._place = 0  # outcomes into the present block (see `prequential.core.fading`)

    @property
    def counts(self) -> Floats:
        """The faded weight of every cell."""
        return self._sums * self._scale.scales[self._place]

    @property
    def n(self) -> float:
        """N, the fading increment: the weight of all outcomes together."""
        return math.fsum(self.counts.tolist())

    def update(self, places: Ints) -> None:
        """Add outcomes by their places in joint counts of the present capacity."""
        scale = self._scale
        start = 0
        while start < len(places):
            stop = min(len(places), start + scale.length - self._place)
            weights = scale.weights[self._place + 1 : self._place + 1 + stop - start]
            np.add.at(self._sums, places[start:stop], weights)
            self._place += stop - start
            if self._place == scale.length:
                self._sums *= scale.scales[-1]
                self._sums[self._sums < _NOTHING] = 0.0
                self._place = 0
            start = stop

    def grow(self, capacity: int) -> None:
        """Make room for classes."""
        self._sums = grown(self._sums, self.capacity, capacity)
        self.capacity = capacity

    def revise(self, age: int, old: int, new: int) -> None:
        """A faded memory keeps what it saw (contract, section 2)."""

    def snapshot(self) -> list[object]:
        return [self.capacity, self._place, self._sums.tobytes()]

    def restore(self, state: Any) -> None:
        self.capacity, self._place, sums = state
        self._sums = np.frombuffer(sums).copy()
