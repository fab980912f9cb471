"""Rows of the outcome log, and their additions to payloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Ints, Ints32, kernel
from prequential.engine.compiled.repeated import Run, run
from prequential.engine.estimators import histograms, sums
from prequential.engine.estimators.declaration import (
    COUNTS,
    NO_CELL,
    WITHDRAWN,
    Additions,
    CountCodes,
    Payload,
)
from prequential.engine.estimators.indexes import ALL_CELLS, CellNumbers
from prequential.engine.measures.positive import Positives
from prequential.engine.tables.outcomes import KEY_CAPACITY, REVISION, UNREVISED, Log, cell_of
from prequential.engine.tables.store import NO_CLASS
from prequential.topics.errors import existing


class LogRows:
    """Rows of the log for sequences of one plan; each payload is computed when it is first needed.

    `capacity` is the room for classes; `numbers`: the task is regression. `run` calls each loop that reads
    the rows. `positives` has the costs of outcomes, for estimators of costs by value. `extended`: how many
    values more than usual are kept of each outcome (`measures.reading.extends_scores`). `joint`: the numbers
    of the estimators' joint cells.
    """

    def __init__(
        self, log: Log, rows: Ints32, capacity: int, numbers: bool, run: Run = run,
        positives: Positives | None = None, extended: int = 0, joint: CellNumbers = ALL_CELLS,
    ) -> None:  # fmt: skip
        self.log, self.rows = log, rows
        self.numbers, self.run = numbers, run
        self._capacity, self._positives, self._extended = capacity, positives, extended
        self._joint = joint
        #: By sign, if details need them: pairs of neighbours.
        self.pairs: Sequence[CountCodes] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def cells(self) -> CountCodes:
        """The joint cells to which the rows add 1, or between which they move an outcome."""
        into = _new_codes(len(self.rows))
        capacity = KEY_CAPACITY if self._joint.places else self._capacity
        self.run(joint_codes, self.log, self.rows, capacity, into)
        if self._joint.places:
            self._joint.number(into)
        return into

    @cached_property
    def histogram(self) -> CountCodes:
        """The counts of a histogram of scores that the rows change."""
        into = _new_codes(len(self.rows))
        self.run(histograms.histogram_codes, self.log, self.rows, into)
        return into

    @cached_property
    def scores(self) -> Additions:
        """The additions of the rows to sums of scores; `flags` is 0 for rows without scores."""
        into = sums.additions(len(self.rows), payload_of_scores(self.numbers, self._extended))
        self.run(sums.scores_of, self.log, self.rows, self.numbers, into)
        return into

    @cached_property
    def costs(self) -> Additions:
        """The additions of the rows to sums of costs by value."""
        positives = existing(self._positives, "the positive class of each stream")
        into = sums.additions(len(self.rows), sums.OF_COSTS)
        self.run(sums.costs_of, self.log, self.rows, positives, into)
        return into


def payload_of_cells(capacity: int, joint: CellNumbers) -> Payload:
    """The payload of joint cells: by label, prediction, and which baselines were right."""
    return Payload(COUNTS, joint.places or 4 * capacity * capacity)


def payload_of_scores(numbers: bool, extended: int = 0) -> Payload:
    """The payload of scores for a task, with so many values of each outcome more than usual."""
    usual = sums.OF_NUMBERS if numbers else sums.OF_CLASSES
    return usual._replace(kept=usual.kept + extended)


@kernel
def joint_codes(log: Log, rows: Ints32, capacity: int, into: CountCodes) -> None:
    """Write the joint cell of each row of the log, with room for `capacity` classes."""
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i], into.t1[i], into.number[i] = log.sequence[row], log.t1[row], log.number[row]
        label, prediction, bits = log.label[row], log.prediction[row], log.bits[row]
        into.cell[i] = cell_of(label, prediction, bits, capacity) if label != NO_CLASS else WITHDRAWN
        into.revised[i], into.known[i] = NO_CELL, log.known[row]
        if log.kind[row] == UNREVISED:
            into.cell[i] = NO_CELL
        elif log.kind[row] == REVISION:
            label = log.revised[row]
            into.revised[i] = cell_of(label, prediction, bits, capacity) if label != NO_CLASS else WITHDRAWN


def _new_codes(rows: int) -> CountCodes:
    return CountCodes(
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int32),
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.uint8),
    )  # fmt: skip


def unrevised(sequence: Ints32, t1: Ints, cell: npt.NDArray[np.int32]) -> CountCodes:
    """Codes of counts without revisions and baselines, from three columns of (n,)."""
    rows = len(cell)
    return CountCodes(
        sequence, t1, cell, np.full(rows, NO_CELL, np.int32), np.zeros(rows, np.int64),
        np.zeros(rows, np.uint8),
    )  # fmt: skip


def places(capacity: int, new_capacity: int) -> Ints:
    """The places of joint cells in a table with room for more classes, by their places in a smaller one.

    >>> places(1, 2), places(2, 4)[[4, 8]]
    (array([0, 1, 2, 3]), array([ 4, 16]))
    """
    numbers = np.arange(4 * new_capacity * new_capacity).reshape(new_capacity, new_capacity, 4)
    return numbers[:capacity, :capacity].ravel()
