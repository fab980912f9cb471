"""Estimators of a plan: memories with a name such as `all` or `window:W`, and the reference of a sequence.

A reference has a number of outcomes, or the outcomes whose label times are less than a duration after the
first one's. It is complete with its last outcome, or with the first outcome beyond the duration. Outcomes
count as in `all`, and follow revisions. If a sequence had outcomes before a reference was configured, the
reference has the first outcomes since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.durations import duration
from prequential.engine.compiled.calls import Run, run
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.engine.estimators import declaration, outcome_pairs, sums
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.declaration import CountCodes, Counted, Payload
from prequential.engine.estimators.residuals import OF_RESIDUALS, bins_of
from prequential.engine.estimators.rows import (
    ALL_CELLS,
    CellNumbers,
    LogRows,
    payload_of_cells,
    payload_of_scores,
    places,
    unrevised,
)
from prequential.engine.estimators.score_histogram import OF_SCORES
from prequential.engine.tables.outcomes import OUTCOME, JointCells, Log, places_of
from prequential.engine.tables.rows import TableAttribute, copy_rows
from prequential.engine.tables.scores import CLASS_PARTS, NUMBERED, PARTS, WIDTH


class KeptPayloads(NamedTuple):
    """What an estimator keeps of outcomes besides joint cells and sums of scores."""

    #: Pairs of neighbours, by sign.
    pairs: bool = False
    #: A histogram of scores; of classification only.
    histogram: bool = False
    #: Costs by value; of classification only.
    costs: bool = False
    #: Residuals by prediction; of regression only.
    residuals: bool = False
    #: Prediction times; of windows only.
    times: bool = False
    #: How many values more than usual are kept of each outcome.
    extended: int = 0


#: Joint cells and sums of scores alone.
_CELLS_AND_SCORES = KeptPayloads()


class Estimator:
    """One estimator of all sequences of a plan; `joint`: the numbers of joint cells."""

    def __init__(
        self, name: str, rows: int, capacity: int, numbers: bool, kept: KeptPayloads = _CELLS_AND_SCORES,
        joint: CellNumbers = ALL_CELLS,
    ) -> None:  # fmt: skip
        self.name = name
        self.capacity = capacity
        self.numbers = numbers
        self.summed = False
        self.joint = joint
        self.cells = Accumulator(name, payload_of_cells(capacity, joint), rows)
        # Until there are scores, this table is a placeholder.
        self.sums = Accumulator(name, payload_of_scores(numbers, kept.extended), 1)
        signs = outcome_pairs.CODES if kept.pairs else ()
        self.pairs = [Accumulator(name, Payload(declaration.COUNTS, codes), rows) for codes in signs]
        self.histogram = Accumulator(name, OF_SCORES, rows) if kept.histogram and not numbers else None
        self.paid = Accumulator(name, sums.OF_COSTS, rows) if kept.costs and not numbers else None
        #: Whether there are residuals; a window computes them from the outcomes that it keeps.
        self.with_residuals = kept.residuals and numbers
        is_window = self.cells.memory.rank is not None
        own = self.with_residuals and not is_window
        self.residuals = Accumulator(name, OF_RESIDUALS, rows) if own else None
        self.times = Accumulator(name, sums.OF_TIMES, rows) if kept.times and is_window else None
        self.memory, self.parameter = self.cells.memory, self.cells.parameter

    def accumulators(self) -> Iterator[Accumulator]:
        """The accumulators that have a row for each sequence."""
        yield self.cells
        yield from self.pairs
        # Snapshots number them in this order.
        sums = self.sums if self.summed else None
        optional = self.histogram, self.paid, self.residuals, sums, self.times
        yield from (accumulator for accumulator in optional if accumulator is not None)

    def score(self) -> None:
        """Keep sums of scores from now on; earlier outcomes count as outcomes without scores."""
        if not self.summed:
            self.summed = True
            self.sums = Accumulator(self.name, self.sums.payload, len(self.cells.table.n))
            self.sums.follow(self.cells, slice(None))

    def count(self, codes: CountCodes, into: Counted = declaration.UNREAD_COUNTS, run: Run = run) -> None:
        """Add rows of the log to joint cells; see `Accumulator.count`."""
        self.widen()
        self.cells.count(codes, into, run)

    def widen(self) -> None:
        """Have a place for each number of a joint cell."""
        if self.joint.places:
            self.cells.widen(self.joint.table.used, self.joint.places)

    def update(self, rows: LogRows) -> None:
        """Add rows of the log: joint cells, scores (once `score` was called), and all other payloads."""
        self.count(rows.cells, run=rows.run)
        if self.summed:
            self.sums.add(rows.scores, run=rows.run)
        for accumulator, codes in zip(self.pairs, rows.pairs):
            accumulator.count(codes, run=rows.run)
        if self.histogram is not None:
            self.histogram.count(rows.histogram, run=rows.run)
        if self.paid is not None:
            self.paid.add(rows.costs, run=rows.run)
        if self.residuals is not None:
            self.residuals.add(rows.scores, run=rows.run)
        if self.times is not None:
            self.times.add(rows.times, run=rows.run)

    def attributes(self) -> Iterator[TableAttribute]:
        """Where the tables of all its payloads are; each has a row for each sequence."""
        return map(TableAttribute, self.accumulators())

    def adopt(self, source: Estimator, rows: Ints, new_rows: Ints, changed: Collection[str] = ()) -> None:
        """Copy `rows` of an estimator of the same name to `new_rows` of this one.

        The other one must not have capacity for more classes. If joint cells have numbers, those of
        `new_rows` are there already. Sums that depend on `changed` settings are left out: costs by value, and
        the parts of scores that declare one of these.
        """
        self.widen()
        if self.joint.places and not source.joint.places:
            for i, row in enumerate(new_rows.tolist()):
                counts = places_of(self.joint.keys_of(row), source.capacity)
                single_rows = rows[i : i + 1], new_rows[i : i + 1]
                self.cells.adopt_recoded(source.cells, *single_rows, counts, np.arange(len(counts)))
        elif self.joint.places or source.capacity == self.capacity:
            self.cells.adopt(source.cells, rows, new_rows)
        else:
            moved = places(source.capacity, self.capacity)
            self.cells.adopt_recoded(source.cells, rows, new_rows, np.arange(len(moved)), moved)
        if source.summed:
            self.sums.adopt(source.sums, rows, new_rows)
            for index, part in enumerate(NUMBERED, WIDTH) if self.numbers else ():
                if self.sums.payload.kept <= index < source.sums.payload.kept:
                    self.sums.leave_out(new_rows, part.sums, part.flags, windows_only=True)
            for part in PARTS if self.numbers else CLASS_PARTS:
                if part.setting in changed:
                    self.sums.leave_out(new_rows, part.sums, part.flags)
        elif self.summed:
            self.sums.follow(self.cells, new_rows)
        for old, new in zip(source.pairs, self.pairs):
            new.adopt(old, rows, new_rows)
        if self.histogram is not None and source.histogram is not None:
            self.histogram.adopt(source.histogram, rows, new_rows)
        if self.paid is not None:
            if source.paid is not None and "costs" not in changed:
                self.paid.adopt(source.paid, rows, new_rows)
            else:
                self.paid.start(self.cells, new_rows)
        if self.residuals is not None:
            if source.residuals is not None:
                self.residuals.adopt(source.residuals, rows, new_rows)
            else:
                self.residuals.follow(self.cells, new_rows)
        if self.times is not None and source.times is not None:
            self.times.adopt(source.times, rows, new_rows)

    def begin(self, rows: Ints, outcomes: Ints) -> None:
        """Set how many outcomes these sequences had before; revisions of those are ignored."""
        for accumulator in self.accumulators():
            accumulator.begin(rows, outcomes)

    # ---- readings of one sequence

    def cells_of(self, sequence: int) -> JointCells:
        """The counts or weights of a sequence's joint cells, with their keys where only some are listed."""
        self.widen()
        weights = self.cells.counted(np.array([sequence])).cells[0]
        if self.joint.places:
            return self.joint.in_order(sequence, weights, self.capacity)._replace(whole=self.memory.whole)
        return JointCells(weights)

    def scores_of(self, sequence: int) -> Floats | None:
        """A sequence's sums of scores (`engine.tables.scores`), (width,); None: it has none."""
        return self.sums.summed(np.array([sequence]))[0] if self.summed else None

    def residuals_of(self, sequence: int) -> Floats | None:
        """A sequence's bins of residuals by prediction, (bins, columns); None: it has none."""
        if not self.with_residuals or not self.summed:
            return None
        if self.residuals is not None:
            return bins_of(self.residuals.summed(np.array([sequence]))[0])
        return bins_of(self.sums.summed(np.array([sequence]), payload=OF_RESIDUALS)[0])

    def effective(self, sequence: int, n: float, paired: bool) -> float:
        """The effective sample size of a weight `n`, of joint cells or (`paired`) of pairs of errors."""
        return (self.pairs[outcome_pairs.WRONG] if paired else self.cells).effective(sequence, n)


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
        into[0, i] = cells[i] if within else declaration.NO_CELL
        for sign in range(len(pairs)):
            into[1 + sign, i] = pairs[sign, i] if within else declaration.NO_CELL


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

    def __init__(self, extent: int | str, rows: int, capacity: int, joint: CellNumbers = ALL_CELLS) -> None:
        #: A number of outcomes, or a duration such as `30d`.
        self.extent = extent
        self._outcomes, self._span = (extent, 0) if isinstance(extent, int) else (0, duration(extent))
        self.table: Extents = zeros(Extents, rows)
        self.counts = Estimator("all", rows, capacity, False, KeptPayloads(pairs=True), joint)

    def update(self, read: LogRows, pairs: npt.NDArray[np.int32], run: Run) -> None:
        """Add rows of the log; `pairs` are their codes by sign, (signs, n). `run` calls each loop."""
        cells = read.cells
        into = np.empty((1 + len(pairs), len(read)), np.int32)
        extent = self._outcomes, self._span
        run(select, self.table, read.log, read.rows, *extent, cells.cell, pairs, into)
        self.counts.count(cells._replace(cell=into[0]), run=run)
        for accumulator, chosen in zip(self.counts.pairs, into[1:]):
            accumulator.count(unrevised(cells.sequence, cells.t1, chosen), run=run)

    def attributes(self) -> Sequence[TableAttribute]:
        """Where all tables are; each has a row for each sequence."""
        return [TableAttribute(self), *self.counts.attributes()]

    def adopt(self, source: ReferenceTables, rows: Ints, new_rows: Ints) -> None:
        """Copy `rows` of another reference of the same extent to `new_rows` of this one."""
        copy_rows(source.table, rows, self.table, new_rows)
        self.counts.adopt(source.counts, rows, new_rows)
