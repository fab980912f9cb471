"""The tables of all pairs that are compared alike: one call of a loop serves all streams of a configuration.

A pair has one sequence for each stage and loss: those of `error` of classes are counted, the others added up.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from prequential.core.comparisons import confidence_sequence, losses
from prequential.core.comparisons.blocks import new_blocks
from prequential.core.comparisons.joint import ABSOLUTE, ERROR, LOSS_NAMES, SQUARED, Joint
from prequential.core.comparisons.measuring import (
    NAMES,
    count_all,
    count_faded,
    count_window,
    from_counts,
    from_sums,
)
from prequential.core.comparisons.recent import new_recent
from prequential.core.comparisons.updating import (
    new_times,
    note_times,
    step_counted,
    step_losses,
    update_all,
    update_fading,
    update_window,
)
from prequential.core.compiled.kernel import Floats, Ints, Ints32, as_columns, columns_of, grown, taken
from prequential.core.estimators.estimator import new_cells
from prequential.core.estimators.naming import ALL, FADING, WINDOW, parse_estimator
from prequential.settings.model import StreamConfig

#: Cells of right and wrong: 2·(A is wrong) + (B is wrong).
_CELLS = 4


def codes_of(config: StreamConfig) -> tuple[tuple[str, int], ...]:
    """The losses that models of a stream are compared by, with their codes, in the order of the codes.

    `error` of numbers is their configured loss, which has that code, too.
    """
    found = []
    for name in config.compare_losses:
        code = LOSS_NAMES.index(name)
        if config.task == "regression" and code == ERROR:
            code = SQUARED if config.loss == "squared" else ABSOLUTE
        found.append((name, code))
    return tuple(sorted(dict(found).items(), key=lambda one: one[1]))


class Side:
    """Sequences of one sort: counted, or of losses that are added up."""

    def __init__(self, names: Sequence[str], counted: bool) -> None:
        self.counted = counted
        self.names = tuple(names)
        self.kinds = [parse_estimator(name) for name in names]
        self.rows = 0
        self._free: list[tuple[int, int]] = []
        self.sequences = confidence_sequence.new_table(16)
        #: The same, column by column: a table of records takes its time to find one by name.
        self.columns = as_columns(confidence_sequence.Sequences, self.sequences)
        self.pending, self.blocks = confidence_sequence.new_pending(16), new_blocks(16)
        self.recent, self.recent_blocks = new_recent(16), new_blocks(16)
        self._closed = confidence_sequence.new_closed()
        self.times = new_times(16)
        self.memories = [self._new(kind, parameter) for kind, parameter in self.kinds]

    def _new(self, kind: int, parameter: float) -> Any:
        if self.counted:
            return new_cells(kind, parameter, 16, _CELLS)
        if kind == ALL:
            return losses.new_all(16)
        return losses.new_window(16, int(parameter)) if kind == WINDOW else losses.new_faded(16)

    # ---- rows

    def take(self, count: int) -> int:
        """The first of so many rows, all empty."""
        for i, (first, size) in enumerate(self._free):
            if size == count:
                del self._free[i]
                for table in self.tables():
                    for column in columns_of(table).values():
                        column[first : first + count] = 0
                return first
        first = self.rows
        self.rows += count
        self.ensure(self.rows)
        return first

    def give(self, first: int, count: int) -> None:
        """These rows are free again."""
        self._free.append((first, count))

    def ensure(self, rows: int) -> None:
        """Have capacity for so many rows."""
        if rows > len(self.times.newest):
            self.sequences, self.times = grown(self.sequences, rows), grown(self.times, rows)
            self.pending, self.blocks = grown(self.pending, rows), grown(self.blocks, rows)
            self.recent, self.recent_blocks = grown(self.recent, rows), grown(self.recent_blocks, rows)
            self.columns = as_columns(confidence_sequence.Sequences, self.sequences)
        self.memories = [grown(table, rows) for table in self.memories]

    def tables(self) -> Iterator[Any]:
        """All of them."""
        yield from (table for _, table in self.named())

    def named(self) -> Iterator[tuple[str, Any]]:
        """All of them, by the names that snapshots have; estimators' by theirs."""
        yield from (
            ("verdict", self.sequences), ("pending", self.pending), ("blocks", self.blocks),
            ("recent", self.recent), ("recent blocks", self.recent_blocks), ("times", self.times),
        )  # fmt: skip
        yield from zip(self.names, self.memories)

    # ---- joint outcomes

    def consume(self, joint: Joint, rows: Ints32) -> None:
        """Take over these rows of the log."""
        (step_counted if self.counted else step_losses)(
            self.sequences, self.pending, self.blocks, self.recent, self.recent_blocks, joint, rows,
            self._closed,
        )  # fmt: skip
        note_times(self.times, joint, rows)
        for (kind, parameter), table in zip(self.kinds, self.memories):
            if self.counted:
                update: Any = (update_all, update_window, update_fading)[kind]
            else:
                update = (losses.update_all, losses.update_window, losses.update_faded)[kind]
            update(table, joint, rows, *((parameter,) if kind == FADING else ()))

    def statistics(self, place: int, rows: Ints) -> tuple[Ints | Floats, Floats, Ints]:
        """Of an estimator by its place: memory's n, values and reasons of sequences (see `measuring`)."""
        (kind, parameter), table = self.kinds[place], self.memories[place]
        shape = len(rows), len(NAMES)
        values, reasons = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        n: Any = table.n[rows]
        if kind == WINDOW:
            n = np.minimum(n, int(parameter))
        if self.counted:
            cells = np.zeros((len(rows), _CELLS))
            if kind == FADING:
                count_faded(table, rows, parameter, cells)
            else:
                (count_all if kind == ALL else count_window)(table, rows, cells)
            from_counts(cells, kind != FADING, values, reasons)
            if kind == FADING:  # one after the other, as all sums that are published
                n = cells[:, 0] + cells[:, 1] + cells[:, 2] + cells[:, 3]
        else:
            sums = table.sums[rows] if kind != WINDOW else np.zeros((len(rows), 2))
            if kind == WINDOW:
                losses.read_window(table, rows, sums)
            from_sums(sums, n.astype(np.float64), values, reasons)
        return n, values, reasons

    # ---- copies

    @property
    def row_bytes(self) -> int:
        """Bytes of a sequence that `part` copies."""
        columns = [column for table in self._without_rings() for column in columns_of(table).values()]
        return sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns)

    def part(self, rows: Ints) -> Side:
        """Copies of these sequences alone, one after the other; they are for reading."""
        part = copy.copy(self)
        part.rows = len(rows)
        part.sequences, part.recent, part.times, *part.memories = (
            taken(table, rows) for table in self._without_rings()
        )
        part.columns = as_columns(confidence_sequence.Sequences, part.sequences)
        for place, table in enumerate(self.memories):
            if self._has_unread_ring(place):
                part.memories[place] = part.memories[place]._replace(ring=table.ring[:0])
        return part

    def _has_unread_ring(self, place: int) -> bool:
        """Whether a ring only says what leaves a window; losses are summed up from theirs."""
        return self.counted and self.kinds[place][0] == WINDOW

    def _without_rings(self) -> Iterator[Any]:
        yield self.sequences
        yield self.recent
        yield self.times
        for place, table in enumerate(self.memories):
            yield table._replace(ring=table.n) if self._has_unread_ring(place) else table

    # ---- snapshots

    def dump(self) -> Iterator[tuple[str, Any]]:
        """The rows in use of all columns, by name, not copied."""
        for name, table in self.named():
            for field, column in columns_of(table).items():
                yield f"{name}|{field}", column[: self.rows]

    def load(self, arrays: dict[str, Any], prefix: str, rows: int) -> None:
        """Become what was dumped."""
        self.rows = rows
        self.ensure(rows)
        for name, table in self.named():
            for field, column in columns_of(table).items():
                column[:rows] = arrays[f"{prefix}{name}|{field}"]

    def adopt(self, other: Side, row: int, new_row: int) -> list[str]:
        """Copy a sequence of another configuration; returns the estimators that are new and start empty."""
        former = dict(other.named())
        missing = [name for name in self.names if name not in former]
        for name, table in self.named():
            if name in former:
                for field, column in columns_of(table).items():
                    column[new_row] = columns_of(former[name])[field][row]
        return missing


class Comparisons:
    """Both sorts of sequences of all pairs of one configuration."""

    def __init__(self, number: int, estimators: Sequence[str], codes: tuple[tuple[str, int], ...]) -> None:
        self.number = number
        self.estimators = tuple(estimators)
        self.codes = codes
        self.counted = Side(estimators, True)
        self.scored = Side(estimators, False)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.counted, self.scored

    @property
    def counts(self) -> bool:
        """Whether `error` of classes is compared."""
        return any(code == ERROR for _, code in self.codes)

    @property
    def added(self) -> tuple[int, ...]:
        """Codes of the losses that are added up, in order: a stage has a sequence for each."""
        return tuple(dict.fromkeys(code for _, code in self.codes if code != ERROR))
