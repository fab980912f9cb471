"""How the mean loss went in the course of a sequence: in blocks of equal numbers of outcomes.

A sequence has at most `BLOCKS` blocks, all of one width. When they are full, two and two become one, and
the width doubles; so memory is bounded, and the blocks are a function of the outcomes alone. Losses are as
they were when the outcomes came: 0 or 1, or |error| of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, grown

#: Stages whose courses are kept: the first ones that are evaluated, `initial` and `final` by default.
COURSE_STAGES = 2

#: Blocks of a sequence, at most: half as many at least, which is more than a line of a terminal shows.
BLOCKS = 64


class Courses:
    """Courses of sequences, by entity and place of the stage.

    >>> courses, nobody = Courses(), np.zeros(62, dtype=np.int64)
    >>> courses.update(nobody[:3], nobody[:3], np.array([1, 2, 3]), np.array([1.0, 0.0, 0.0]))
    >>> courses.course(0, 0)
    (1, [1.0, 0.0, 0.0])
    >>> courses.update(nobody, nobody, np.arange(4, 66), np.ones(62))
    >>> width, losses = courses.course(0, 0)
    >>> width, losses[:3], len(losses)
    (2, [0.5, 0.5, 1.0], 33)
    """

    def __init__(self) -> None:
        self._width: Ints = np.zeros(0, dtype=np.int64)
        self._outcomes: Ints = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((0, BLOCKS))

    def update(self, entities: Ints, stages: Ints, numbers: Ints, losses: Floats) -> None:
        """Add outcomes, four arrays of (n,): entities, places of stages, numbers and losses.

        Numbers are those in their sequences, from 1 and without gaps. Those of stages from `COURSE_STAGES` on
        are passed over.
        """
        shown = stages < COURSE_STAGES
        rows, numbers = (COURSE_STAGES * entities + stages)[shown], numbers[shown]
        if not len(rows):
            return
        self._ensure(int(rows.max()) + 1)
        np.maximum.at(self._outcomes, rows, numbers)
        touched = np.unique(rows)
        self._width[touched] = np.maximum(self._width[touched], 1)
        for row in touched[self._outcomes[touched] > self._width[touched] * BLOCKS].tolist():
            self._widen(row)
        np.add.at(self._sums, (rows, (numbers - 1) // self._width[rows]), losses[shown])

    def _ensure(self, rows: int) -> None:
        self._width, self._outcomes = grown(self._width, rows), grown(self._outcomes, rows)
        self._sums = grown(self._sums, rows)

    def _widen(self, row: int) -> None:
        while self._outcomes[row] > self._width[row] * BLOCKS:
            pairs = self._sums[row].reshape(BLOCKS // 2, 2).sum(axis=1)
            self._sums[row] = np.concatenate((pairs, np.zeros(BLOCKS // 2)))
            self._width[row] *= 2

    def copy(self, entity: int, source: int, target: int) -> None:
        """Let an entity's course in stage `target` be as in stage `source`, both by place."""
        if max(source, target) < COURSE_STAGES:
            row, other = (COURSE_STAGES * entity + stage for stage in (source, target))
            self._ensure(max(row, other) + 1)
            for column in (self._width, self._outcomes, self._sums):
                column[other] = column[row]

    def course(self, entity: int, stage: int) -> tuple[int, list[float]]:
        """Outcomes in a block, and the mean loss of each block, the last one maybe of fewer outcomes.

        (0, []) for a sequence without outcomes.
        """
        row = COURSE_STAGES * entity + stage
        if row >= len(self._width) or not self._outcomes[row]:
            return 0, []
        width, outcomes = int(self._width[row]), int(self._outcomes[row])
        blocks = (outcomes - 1) // width + 1
        counts: Any = np.minimum(width, outcomes - width * np.arange(blocks))
        return width, (self._sums[row, :blocks] / counts).tolist()
