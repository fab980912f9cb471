"""How the mean loss went in the course of a sequence: in blocks of equal numbers of outcomes.

A sequence has at most `BLOCKS` blocks, all of one width. When they are full, two and two become one, and
the width doubles; so memory is bounded, and the blocks are a function of the outcomes alone. Losses are as
they were when the outcomes came: 0 or 1, or |error| of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, grown

#: Blocks of a sequence, at most: half as many at least, which is more than a line of a terminal shows.
BLOCKS = 64


class Courses:
    """Courses of sequences, by row.

    >>> courses = Courses()
    >>> courses.update(np.zeros(3, dtype=np.int64), np.array([1, 2, 3]), np.array([1.0, 0.0, 0.0]))
    >>> courses.of(0)
    (1, [1.0, 0.0, 0.0])
    >>> courses.update(np.zeros(62, dtype=np.int64), np.arange(4, 66), np.ones(62))
    >>> width, losses = courses.of(0)
    >>> width, losses[:3], len(losses)
    (2, [0.5, 0.5, 1.0], 33)
    """

    def __init__(self) -> None:
        self._width: Ints = np.zeros(0, dtype=np.int64)
        self._outcomes: Ints = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((0, BLOCKS))

    def update(self, rows: Ints, numbers: Ints, losses: Floats) -> None:
        """Add outcomes: their sequences, their numbers in these (from 1, without gaps), and their losses."""
        if not len(rows):
            return
        count = int(rows.max()) + 1
        self._width, self._outcomes = grown(self._width, count), grown(self._outcomes, count)
        self._sums = grown(self._sums, count)
        np.maximum.at(self._outcomes, rows, numbers)
        own = np.unique(rows)
        self._width[own] = np.maximum(self._width[own], 1)
        for row in own[self._outcomes[own] > self._width[own] * BLOCKS].tolist():
            self._widen(row)
        np.add.at(self._sums, (rows, (numbers - 1) // self._width[rows]), losses)

    def _widen(self, row: int) -> None:
        while self._outcomes[row] > self._width[row] * BLOCKS:
            pairs = self._sums[row].reshape(BLOCKS // 2, 2).sum(axis=1)
            self._sums[row] = np.concatenate((pairs, np.zeros(BLOCKS // 2)))
            self._width[row] *= 2

    def of(self, row: int) -> tuple[int, list[float]]:
        """Outcomes in a block, and the mean loss of each block, the last one maybe of fewer outcomes."""
        if row >= len(self._width) or not self._outcomes[row]:
            return 0, []
        width, outcomes = int(self._width[row]), int(self._outcomes[row])
        blocks = (outcomes - 1) // width + 1
        counts: Any = np.minimum(width, outcomes - width * np.arange(blocks))
        return width, (self._sums[row, :blocks] / counts).tolist()
