"""Past outcomes of sequences, and the course of their mean loss, for tools that review them.

A sequence has at most `BLOCKS` blocks, all of the same width. When all blocks are full, each pair is merged
into one, and the width doubles. So memory is bounded, and the blocks depend on the outcomes alone. Losses are
as they were when the outcomes came: 0 or 1 for classification, |error| for regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, as_records, copy_of_rows, grown
from prequential.engine.tables.outcomes import OUTCOME, Log

#: Stages of an entity, at most: rows are sorted by entity and stage in one number.
_STAGES = 1 << 16


class PastOutcomes:
    """Rows of the outcome log by sequence, in the order in which they came: about 130 bytes each.

    The outcomes are as they were when they came, as detectors see them; revisions are left out.
    """

    def __init__(self) -> None:
        self._keys: list[Ints] = []
        self._rows: list[Log] = []

    def add(self, log: Log, rows: Ints32, entities: Ints, stages: Ints) -> None:
        """Keep copies of the outcomes among `rows` of the log, of these entities and places of stages.

        All three are (n,).
        """
        kept = log.kind[rows] == OUTCOME
        self._keys.append(entities[kept] * _STAGES + stages[kept])
        self._rows.append(copy_of_rows(log, rows[kept].astype(np.int64)))

    def copy(self, entity: int, source: int, target: int) -> None:
        """Let an entity's past in stage `target` be as in stage `source`, both by place."""
        former, to = (entity * _STAGES + stage for stage in (source, target))
        for i, (keys, rows) in enumerate(zip(self._keys, self._rows)):
            copied = np.flatnonzero(keys == former)
            places = np.append(np.flatnonzero(keys != to), copied)
            self._keys[i], self._rows[i] = keys[places], copy_of_rows(rows, places)
            self._keys[i][len(places) - len(copied) :] = to

    def sequences(self) -> Iterator[tuple[int, int, Log]]:
        """By sequence: its entity, the place of its stage, and its rows in order, as a `Log`."""
        if not self._keys:
            return
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        rows: Any = as_records(np.concatenate(cast(Any, self._rows))[order])
        keys = keys[order]
        self._keys, self._rows = [keys], [rows]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)]):
            entity, stage = divmod(int(keys[start]), _STAGES)
            yield entity, stage, rows[start:stop]


#: Stages whose courses are kept: the first ones that are evaluated, `initial` and `final` by default.
COURSE_STAGES = 2

#: The largest number of a sequence's blocks. A full sequence has at least half as many, which is enough for
#: a line of a terminal.
BLOCKS = 64


class PastCourses:
    """Courses of sequences, by entity and place of the stage.

    >>> courses, nobody = PastCourses(), np.zeros(62, dtype=np.int64)
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

        Each number is the outcome's number in its sequence, from 1 and without gaps. Outcomes of stages from
        `COURSE_STAGES` on are ignored.
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
            row, target_row = (COURSE_STAGES * entity + stage for stage in (source, target))
            self._ensure(max(row, target_row) + 1)
            for column in (self._width, self._outcomes, self._sums):
                column[target_row] = column[row]

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
