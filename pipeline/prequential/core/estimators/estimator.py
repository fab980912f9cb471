"""Estimators: what remembers a sequence's outcomes, `all`, `window:W` or `fading:A` (`docs/semantics.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from prequential.core.compiled.kernel import Ints, Ints32, grown
from prequential.core.estimators import all_history, fading, sums, window
from prequential.core.estimators.naming import ALL, FADING, WINDOW, parse_estimator
from prequential.core.estimators.pairs import CODES, update_all, update_fading, update_window
from prequential.core.tables.outcomes import Log


def new_cells(kind: int, parameter: float, rows: int, cells: int) -> Any:
    """A table of joint cells."""
    if kind == ALL:
        return all_history.new_table(rows, cells)
    return window.new_table(rows, cells, int(parameter)) if kind == WINDOW else fading.new_table(rows, cells)


def new_sums(kind: int, parameter: float, rows: int, numbers: bool) -> Any:
    """A table of sums of scores."""
    if kind == ALL:
        return sums.new_all(rows)
    return sums.new_window(rows, int(parameter), numbers) if kind == WINDOW else sums.new_faded(rows)


class Estimator:
    """One estimator of all sequences of a plan.

    It has joint cells, sums of scores and, for details, pairs of neighbours.
    """

    def __init__(self, name: str, rows: int, capacity: int, numbers: bool, paired: bool) -> None:
        self.name = name
        self.kind, self.parameter = parse_estimator(name)
        self.capacity = capacity
        self.numbers = numbers
        self.summed = False
        self.cells = new_cells(self.kind, self.parameter, rows, 4 * capacity * capacity)
        # Without scores a table of no use, so that there is one.
        self.sums = new_sums(self.kind, self.parameter, 1, numbers)
        signs = CODES if paired else ()
        self.pairs = [new_cells(self.kind, self.parameter, rows, codes) for codes in signs]

    @property
    def rows(self) -> int:
        """How many sequences there is capacity for."""
        return len(self.cells.n)

    def ensure(self, rows: int) -> None:
        """Have rows for so many sequences."""
        self.cells = grown(self.cells, rows)
        self.pairs = [grown(table, rows) for table in self.pairs]
        if self.summed:
            self.sums = grown(self.sums, rows)

    def score(self) -> None:
        """Keep sums from now on; what came before had no scores."""
        if self.summed:
            return
        self.summed = True
        self.sums = new_sums(self.kind, self.parameter, self.rows, self.numbers)
        if self.kind != ALL:
            self.sums.n[:] = self.cells.n

    def update(self, log: Log, rows: Ints32, codes: npt.NDArray[np.int8] | None) -> None:
        """Take over rows of the log; `codes` are those of the pairs that they end, by sign."""
        more = (self.parameter,) if self.kind == FADING else ()
        count = (all_history.update, window.update, fading.update)[self.kind]
        count(self.cells, log, rows, self.capacity, *more)
        if self.summed:
            update = (sums.update_all, sums.update_window, sums.update_faded)[self.kind]
            update(self.sums, log, rows, self.numbers, *more)
        if codes is not None:
            for table, own in zip(self.pairs, codes):
                (update_all, update_window, update_fading)[self.kind](table, log, rows, own, *more)

    def tables(self) -> Iterator[Any]:
        """All tables that have a row for each sequence."""
        yield self.cells
        yield from self.pairs
        if self.summed:
            yield self.sums

    def adopt(self, other: Estimator, rows: Ints, new_rows: Ints) -> None:
        """Copy rows of an estimator of the same name, with capacity for as many classes or fewer."""
        copy = (all_history.copy_rows, window.copy_rows, fading.copy_rows)[self.kind]
        copy(other.cells, rows, self.cells, new_rows, other.capacity, self.capacity)
        if other.summed:
            for source, target in zip(other.sums, self.sums):
                target[new_rows] = source[rows]
        elif self.summed and self.kind != ALL:
            self.sums.n[new_rows] = self.cells.n[new_rows]
        for old, new in zip(other.pairs, self.pairs):
            for source, target in zip(old, new):
                target[new_rows] = source[rows]

    def begin(self, rows: Ints, outcomes: Ints) -> None:
        """It is new to these sequences, which had so many outcomes before: their revisions don't reach it."""
        if self.kind != FADING:
            self.cells.began[rows] = outcomes
