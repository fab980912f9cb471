"""The tables of all pairs that are compared alike: one call of a loop serves all streams of a configuration.

A pair has one sequence for each stage and loss. Losses `error` for classification are counted, others added
up.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.comparisons import confidence_sequence, updating
from prequential.engine.comparisons.clusters import new_cluster_sums
from prequential.engine.comparisons.disagreement import DisagreementCounts
from prequential.engine.comparisons.joint import (
    ABSOLUTE,
    COST,
    ERROR,
    LOSS_NAMES,
    LOSSES,
    RIGHT_AND_WRONG,
    SQUARED,
    Joint,
    JointPairs,
    additions_of,
    counts_of,
)
from prequential.engine.comparisons.measuring import NAMES, from_counts, from_sums
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    as_columns,
    copy_of_rows,
    grown,
    row_bytes,
    zeros,
)
from prequential.engine.delay.cohorts import new_closed, new_pending
from prequential.engine.detectors.confidence_sequence import new_blocks
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.tables.rows import Key, RowAllocator, StateTable, TableAttribute

#: Names of the two sorts of sequences, as snapshots have them.
SIDES = ("counted", "scored")


def codes_of(config: StreamConfig) -> tuple[tuple[str, int], ...]:
    """The losses that models of a stream are compared by, with their codes, in the order of the codes.

    `error` of numbers is their configured loss, which has that code, too.
    """
    codes = []
    for name in config.compare_losses:
        code = LOSS_NAMES.index(name)
        if config.task == "regression" and code == ERROR:
            code = SQUARED if config.loss == "squared" else ABSOLUTE
        codes.append((name, code))
    return tuple(sorted(dict(codes).items(), key=lambda pair: pair[1]))


def prices_of(config: StreamConfig) -> str:
    """The settings that decide the costs of outcomes, as text; empty if models aren't compared by cost."""
    if LOSS_NAMES[COST] not in config.compare_losses:
        return ""
    return json.dumps([config.costs, config.cost_per_value], sort_keys=True)


#: Names of tables in snapshots, and the attributes of a side; settings aren't state.
_TABLES = {
    "verdict": "sequences", "clusters": "sums", "pending": "pending", "blocks": "blocks", "recent": "recent",
    "recent blocks": "recent_blocks", "times": "times", "": "due",
}  # fmt: skip


class PairSide(RowAllocator):
    """Sequences of one sort: counted, or of losses that are added up."""

    def __init__(self, names: Sequence[str], counted: bool) -> None:
        super().__init__()
        self.counted = counted
        self.names = tuple(names)
        self.sequences = confidence_sequence.new_table(16)
        #: The same, column by column: a table of records takes its time to find one by name.
        self.columns = as_columns(confidence_sequence.Sequences, self.sequences)
        self.sums = new_cluster_sums(16)
        self.pending, self.blocks = new_pending(16), new_blocks(16)
        self.recent, self.recent_blocks = updating.new_recent(16), new_blocks(16)
        self._closed, self._over = new_closed(), new_closed()
        self.times, self.due = zeros(updating.Times, 16), zeros(updating.PairSettings, 16)
        self._due_rows = np.zeros(0, dtype=np.int32)
        payload = RIGHT_AND_WRONG if counted else LOSSES
        self.estimators = [Accumulator(name, payload, 16) for name in names]

    # ---- rows

    def free(self, first: int, count: int = 1) -> None:
        """Take back a pair's rows: none has them now."""
        self.due.pair[first : first + count] = self.due.disagreement[first : first + count] = 0
        super().free(first, count)

    def grow(self, rows: int) -> None:
        """Make room for at least `rows` rows in all tables."""
        super().grow(rows)
        self.columns = as_columns(confidence_sequence.Sequences, self.sequences)

    def attributes(self) -> Iterator[tuple[str, TableAttribute]]:
        """All tables; those of estimators have the names of these."""
        yield from ((name, TableAttribute(self, attribute)) for name, attribute in _TABLES.items())
        yield from ((estimator.name, TableAttribute(estimator)) for estimator in self.estimators)

    def tables(self, number: int) -> Iterator[StateTable]:
        """All tables that are state; rows are joint sequences, `number` is that of the tables."""
        side = SIDES[not self.counted]
        return self.state_tables(f"comparisons {number}|{side}|", Key.JOINT, (number, side))

    def adopt(self, source: PairSide, rows: Any, new_rows: Any) -> list[Any]:
        """Copy `rows` of another side to `new_rows` of this one; returns the estimators that start empty."""
        for former in source.estimators:
            for estimator in self.estimators:
                if estimator.name == former.name:
                    estimator.make_room(int(np.max(former.table.n[rows], initial=0)))
        return super().adopt(source, rows, new_rows)

    # ---- joint outcomes

    def consume(self, joint: Joint, rows: Ints32) -> tuple[int, Ints32]:
        """Take over these rows of the log, up to one whose sequence has messages due: they come first.

        Returns how many it has taken, and the rows that made messages due of their sequences, which are as
        they were then; they stay due until `report`.
        """
        self._due_rows = grown(self._due_rows, len(rows))
        pair = confidence_sequence.WholeRun(
            self.sequences, self.sums, self.pending, self.blocks, self._closed, self._over
        )
        verdicts = updating.PairVerdicts(pair, self.recent, self.recent_blocks)
        done, count = updating.step_pairs(verdicts, self.times, self.due, joint, rows, self._due_rows)
        rows = rows[:done]
        updating.note_times(self.times, joint, rows)
        if self.counted:
            codes = counts_of(joint, rows)
            for estimator in self.estimators:
                estimator.count(codes)
        else:
            added = additions_of(joint, rows)
            for estimator in self.estimators:
                estimator.add(added)
        return done, self._due_rows[:count].copy()

    def has_news(self, pairs: JointPairs, counts: DisagreementCounts) -> Ints:
        """Sequences with joint outcomes since their last messages; see `Pairing.unreported_sequences`."""
        rows = slice(self.rows)
        new = self.columns.n[rows] != self.times.reported[rows]
        compared = self.due.disagreement[rows]
        if compared.any():
            encountered = counts.n[compared] != self.times.encountered[rows]
            new |= encountered & (compared > 0) & (pairs.rank[self.due.pair[rows]] == 0)
        return np.flatnonzero(new & (self.due.pair[rows] > 0) & (self.due.every[rows] >= 0))

    def report(self, row: int, counts: DisagreementCounts) -> None:
        """There are messages of a sequence as it is now."""
        self.due.now[row], self.times.reported[row] = 0, self.columns.n[row]
        if not self.columns.n[row]:
            self.times.encountered[row] = counts.n[self.due.disagreement[row]]

    def statistics(self, index: int, rows: Ints) -> tuple[Floats, Floats, Ints]:
        """Of an estimator by its place: memory's n, values and reasons of sequences (see `measuring`)."""
        estimator, shape = self.estimators[index], (len(rows), len(NAMES))
        values, reasons = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        if self.counted:
            counted = estimator.counted(rows)
            from_counts(counted.cells, estimator.memory.whole, values, reasons)
            return counted.n, values, reasons
        sums = estimator.summed(rows)
        from_sums(sums, values, reasons)
        return sums[:, -1], values, reasons

    # ---- copies

    @property
    def row_bytes(self) -> int:
        """Bytes of a sequence that `part` copies."""
        return sum(map(row_bytes, self._read())) + sum(estimator.row_bytes for estimator in self.estimators)

    def part(self, rows: Ints) -> PairSide:
        """Copies of these sequences alone, one after the other; they are for reading."""
        part = copy.copy(self)
        part.rows = len(rows)
        tables = (copy_of_rows(table, rows) for table in self._read())
        part.sequences, part.sums, part.recent, part.times = tables
        part.columns = as_columns(confidence_sequence.Sequences, part.sequences)
        part.estimators = [estimator.part(rows) for estimator in self.estimators]
        return part

    def _read(self) -> tuple[Any, ...]:
        """Tables that readings need, in addition to those of estimators."""
        return self.sequences, self.sums, self.recent, self.times


class JointRow(NamedTuple):
    """Where a pair's sequence lies: in a row of one of the two sides."""

    stage: int  # its place among the pair's
    loss: str
    code: int
    side: int
    row: int


class Comparisons:
    """Both sorts of sequences of all pairs of one configuration."""

    def __init__(
        self, number: int, estimators: Sequence[str], codes: tuple[tuple[str, int], ...], prices: str = ""
    ) -> None:
        #: The settings of costs if models are compared by cost. After a change of these, sequences start
        #: empty.
        self.prices = prices
        self.number = number
        self.estimators = tuple(estimators)
        self.codes = codes
        self.counted, self.scored = PairSide(estimators, True), PairSide(estimators, False)
        #: Both sides: the pairs that are counted, then those with scores.
        self.sides = self.counted, self.scored
        #: Whether `error` of classes is compared.
        self.counts = any(code == ERROR for _, code in codes)
        #: Codes of the losses that are added up, in order: a stage has a sequence for each.
        self.added = tuple(dict.fromkeys(code for _, code in codes if code != ERROR))

    def sequences(self, counted: int, scored: int, stages: int, first: int = 0) -> Iterator[JointRow]:
        """Of a pair with so many stages, stage by stage, its rows of both sides beginning with these.

        Stages before `first` are left out: they have no rows.
        """
        for stage in range(first, stages):
            first_scored = scored + stage * len(self.added)
            for loss, code in self.codes:
                if code == ERROR:
                    yield JointRow(stage, loss, code, 0, counted + stage)
                else:
                    yield JointRow(stage, loss, code, 1, first_scored + self.added.index(code))

    def tables(self) -> Iterator[StateTable]:
        """Every table of both sides that is part of the state."""
        for side in self.sides:
            yield from side.tables(self.number)
