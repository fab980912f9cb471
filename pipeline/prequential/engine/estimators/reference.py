"""The reference of a sequence: its first outcomes, which are never forgotten.

A reference has a number of outcomes, or the outcomes whose label times are less than a duration after the
first one's. It is complete with its last outcome, or with the first outcome beyond the duration. Outcomes
count as in `all`, and follow revisions. If a sequence had outcomes before a reference was configured, the
reference has the first outcomes since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.durations import duration
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inner, kernel, zeros
from prequential.engine.compiled.repeated import Run
from prequential.engine.estimators.declaration import NO_CELL
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.indexes import ALL_CELLS, CellNumbers
from prequential.engine.estimators.rows import LogRows, unrevised
from prequential.engine.tables.keys import copy_rows
from prequential.engine.tables.outcomes import OUTCOME, Log
from prequential.engine.tables.rows import TableAttribute


class Extents(NamedTuple):
    """By sequence: which outcomes its reference is."""

    before: Ints  # outcomes that the sequence had before it
    size: Ints  # outcomes in it
    first: Ints  # label time of the first one, ms
    until: Ints  # the latest label time of any, ms
    complete: Bytes


@kernel
def select(
    table: Extents, log: Log, rows: Ints32, outcomes: int, span: int, cells: Ints32,
    pairs: npt.NDArray[np.int32], into: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Write those codes of each of `rows` of the log that belong to references; `NO_CELL` for others.

    A reference has this number of `outcomes` or, if it is 0, those within `span` ms. Codes are those of joint
    `cells`, (n,), and of `pairs` by sign, (signs, n). Both are written to `into`, (1 + signs, n).
    """
    for i in range(len(rows)):
        row = rows[i]
        q, number = log.sequence[row], log.number[row]
        if log.kind[row] == OUTCOME:
            within = table.complete[q] == 0 and _add(table, q, number, log.t1[row], outcomes, span)
        else:
            within = table.before[q] < number <= table.before[q] + table.size[q]
        into[0, i] = cells[i] if within else NO_CELL
        for sign in range(len(pairs)):
            into[1 + sign, i] = pairs[sign, i] if within else NO_CELL


@inner
def _add(table: Extents, q: int, number: int, t1: int, outcomes: int, span: int) -> bool:
    """Add an outcome to a reference that isn't complete; returns whether it belongs to it."""
    if table.size[q] == 0:
        table.before[q], table.first[q], table.until[q] = number - 1, t1, t1
    if outcomes == 0 and t1 - table.first[q] >= span:
        table.complete[q] = 1
        return False
    table.size[q] += 1
    table.until[q] = max(table.until[q], t1)
    if outcomes > 0 and table.size[q] >= outcomes:
        table.complete[q] = 1
    return True


class ReferenceTables:
    """References of a plan's sequences: their extents and counts."""

    def __init__(
        self, extent: int | str, rows: int, capacity: int, joint: CellNumbers = ALL_CELLS
    ) -> None:
        #: A number of outcomes, or a duration such as `30d`.
        self.extent = extent
        self._outcomes, self._span = (extent, 0) if isinstance(extent, int) else (0, duration(extent))
        self.table: Extents = zeros(Extents, rows)
        self.counts = Estimator("all", rows, capacity, False, True, joint=joint)
        #: By sequence, a cache of results from its counts, with the counts: they hardly ever change.
        self.made: dict[int, tuple[tuple[Any, ...], Any]] = {}

    def update(self, read: LogRows, pairs: npt.NDArray[np.int32], run: Run) -> None:
        """Add rows of the log; `pairs` are their codes by sign, (signs, n). `run` calls each loop."""
        cells = read.cells
        into = np.empty((1 + len(pairs), len(read)), np.int32)
        extent = self._outcomes, self._span
        run(select, self.table, read.log, read.rows, *extent, cells.cell, pairs, into)
        self.counts.count(cells._replace(cell=into[0]), run=run)
        for one, chosen in zip(self.counts.pairs, into[1:]):
            one.count(unrevised(cells.sequence, cells.t1, chosen), run=run)

    def attributes(self) -> Sequence[TableAttribute]:
        """Where all tables are; each has a row for each sequence."""
        return [TableAttribute(self), *self.counts.attributes()]

    def adopt(self, other: ReferenceTables, rows: Ints, new_rows: Ints) -> None:
        """Copy `rows` of another reference of the same extent to `new_rows` of this one."""
        copy_rows(other.table, rows, self.table, new_rows)
        self.counts.adopt(other.counts, rows, new_rows)

