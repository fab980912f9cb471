"""An estimator of one payload for many sequences: a memory's table with its loops."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from prequential.engine.compiled.calls import Run, run
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, capacity_for, copy_of_rows, kernel
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import Additions, CountCodes, Counted, Payload
from prequential.engine.estimators.naming import parse_estimator
from prequential.engine.estimators.rows import widened
from prequential.engine.tables.rows import copy_rows


@kernel
def most_after(n: Ints, sequences: Ints32) -> int:
    """The largest number of outcomes of these sequences, (n,), after one more for each time that it is here.

    `n` has the outcomes by sequence before; it is changed meanwhile.
    """
    most = 0
    for q in sequences:
        n[q] += 1
        most = max(most, n[q])
    for q in sequences:
        n[q] -= 1
    return most


class Accumulator:
    """The memory of one payload for an estimator of this name; its table has a row for each sequence."""

    def __init__(self, name: str, payload: Payload, rows: int) -> None:
        self.name = name
        self.payload = payload
        self.memory, self.parameter = parse_estimator(name)
        self._loops = self.memory.counts if payload.kind == declaration.COUNTS else self.memory.sums
        self.table: Any = self._loops.new_table(rows, payload, self.parameter)

    # ---- counts

    def count(self, codes: CountCodes, into: Counted = declaration.UNREAD_COUNTS, run: Run = run) -> None:
        """Add rows of a log to a payload of counts; `run` calls the loop.

        With `into`, the reading after each row that is an outcome is written to the same row of `into`.
        """
        if self.is_narrow:
            new = (codes.cell != declaration.NO_CELL) & (codes.revised == declaration.NO_CELL)
            self._make_room_for(codes.sequence[new])
        run(self._loops.update, self.table, codes, self.parameter, into)

    def counted(self, sequences: Ints, run: Run = run) -> Counted:
        """Counts or weights of these sequences, (n,) int64: cells of (n, width), row by row."""
        into = new_counted(len(sequences), self.payload.width)
        run(self._loops.read, self.table, sequences, self.parameter, into)
        return into

    def effective(self, sequence: int, n: float) -> float:
        """The effective sample size of a sequence's counts of weight `n`: n²/Σw² (Kish)."""
        return self.memory.effective(self.table, sequence, self.parameter, n)

    # ---- sums

    def add(self, rows: Additions, into: Floats = declaration.UNREAD_SUMS, run: Run = run) -> None:
        """Add rows of a log to a payload of sums; `run` calls the loop.

        With `into`, (rows, width), the reading after each row that is an outcome is written there.
        """
        self.make_room_to_add(rows)
        run(self._loops.update, self.table, self.payload.kind, rows, self.parameter, into)

    def summed(self, sequences: Ints, run: Run = run, payload: Payload | None = None) -> Floats:
        """Sums of these sequences, (n,) int64: (n, width) float64, row by row.

        A window can also give the sums of another `payload` that is computed from the same kept numbers.
        """
        payload = payload or self.payload
        into = np.empty((len(sequences), payload.width))
        run(self._loops.read, self.table, payload.kind, sequences, self.parameter, into)
        return into

    # ---- places of outcomes

    @property
    def places(self) -> int:
        """How many outcomes of each sequence a window has places for; 0: it isn't a window."""
        names = self._loops.by_outcome
        return int(getattr(self.table, names[0]).shape[1]) if names else 0

    @property
    def is_narrow(self) -> bool:
        """Whether it is a window that has fewer places than outcomes at most."""
        return 0 < self.places < self.parameter

    def make_room(self, outcomes: int) -> None:
        """Have places for so many outcomes of a sequence, as far as the window has that many."""
        if not self.is_narrow or outcomes <= self.places:
            return
        places = min(capacity_for(outcomes), int(self.parameter))
        used = np.flatnonzero(self.table.n)
        columns = {}
        for name in self._loops.by_outcome:
            column = getattr(self.table, name)
            columns[name] = np.zeros((len(column), places, *column.shape[2:]), column.dtype)
            columns[name][used, : column.shape[1]] = column[used]
        self.table = self.table._replace(**columns)

    def make_room_to_add(self, rows: Additions) -> None:
        """Have places for what `add` adds of these rows."""
        if self.is_narrow:
            self._make_room_for(rows.sequence[(rows.sequence >= 0) & (rows.number == 0)])

    def _make_room_for(self, sequences: Ints32) -> None:
        """Have places for one more outcome of each of these sequences, (n,); some may be the same."""
        self.make_room(int(most_after(self.table.n, sequences)))

    # ---- rows

    def adopt(self, source: Accumulator, rows: Ints, new_rows: Ints) -> None:
        """Copy `rows` of another accumulator of the same name and payload to `new_rows` of this one.

        If its counts have other places here, use `adopt_recoded`.
        """
        self._make_room_of(source, rows)
        copy_rows(source.table, rows, self.table, new_rows)

    def _make_room_of(self, source: Accumulator, rows: Any) -> None:
        """Have places for the outcomes of these sequences (row numbers, or one) of another accumulator."""
        if self.is_narrow:
            self.make_room(int(np.max(source.table.n[rows], initial=0)))

    def leave_out(self, rows: Ints, places: Sequence[int], flags: int, *, windows_only: bool = False) -> None:
        """Clear these places of sequences' sums, and these flags of the outcomes in windows."""
        is_window = "flags" in self.table._fields
        if is_window:
            self.table.flags[rows] &= np.iinfo(self.table.flags.dtype).max ^ flags
        if is_window or not windows_only:
            self.table.sums[rows[:, None], np.array(places, dtype=np.int64)] = 0.0
            if "rests" in self.table._fields:
                self.table.rests[rows[:, None], np.array(places, dtype=np.int64)] = 0.0

    def adopt_recoded(
        self, source: Accumulator, rows: Ints, new_rows: Ints, counts: Ints, places: Ints
    ) -> None:
        """Copy rows of a payload with other counts: its count `counts[i]` goes to `places[i]`."""
        now = np.zeros(source.payload.width, dtype=np.int64)
        now[counts] = places
        self._make_room_of(source, rows)
        for name, old_column, new_column in zip(self.table._fields, source.table, self.table):
            if name in self._loops.by_cell:
                new_column[new_rows] = 0
                new_column[new_rows[:, None], places] = old_column[rows[:, None], counts]
            elif name in self._loops.entries:
                both = min(old_column.shape[1], new_column.shape[1])
                new_column[new_rows] = 0
                new_column[new_rows, :both] = declaration.moved_entries(old_column[rows, :both], now)
            else:
                new_column[new_rows] = old_column[rows]

    def counts_of(self, row: int) -> Ints:
        """The places of a sequence's counts that may be above 0, (n,)."""
        columns = [getattr(self.table, name)[row] != 0 for name in self._loops.by_cell]
        return np.flatnonzero(np.logical_or.reduce(columns))

    def widen(self, used: Ints32, width: int) -> None:
        """Have so many counts, of which each sequence has `used` the first so far."""
        if width > self.payload.width:
            wide = {name: widened(getattr(self.table, name), used, width) for name in self._loops.by_cell}
            self.table = self.table._replace(**wide)
            self.payload = self.payload._replace(width=width)

    def follow(self, counterpart: Accumulator, rows: Ints | slice) -> None:
        """Set sequences' clocks to those of another accumulator of the same name, without its memory."""
        self._make_room_of(counterpart, rows)
        for name in (*self.memory.clock, "began"):
            if name in self.table._fields:
                getattr(self.table, name)[rows] = getattr(counterpart.table, name)[rows]

    def begin(self, rows: Ints, outcomes: Ints) -> None:
        """Set how many outcomes these sequences had before; revisions of those are ignored."""
        if "began" in self.table._fields:
            self.table.began[rows] = outcomes

    def start(self, counterpart: Accumulator, rows: Ints) -> None:
        """Start sequences empty at the present point of an accumulator of counts with the same name."""
        if "began" in self.table._fields:
            self.table.began[rows] = counterpart.table.began[rows] + counterpart.table.n[rows]
        else:
            self.follow(counterpart, rows)

    # ---- copies for reading

    @property
    def row_bytes(self) -> int:
        """Bytes that `part` copies for each sequence."""
        columns = [
            column for name, column in zip(self.table._fields, self.table) if name not in self._loops.unread
        ]
        return sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns)

    def part(self, rows: Ints | slice, whole: bool = False) -> Accumulator:
        """A copy of only these sequences, in rows from 0 on, for reading.

        Unless it is `whole`, it has no columns that readings of counts and sums don't need.
        """
        part = copy.copy(self)
        unread = {} if whole else dict.fromkeys(self._loops.unread, self.table.n)
        copied = copy_of_rows(self.table._replace(**unread), rows)
        part.table = copied._replace(**{name: getattr(self.table, name)[:0] for name in unread})
        return part


def new_counted(rows: int, width: int) -> Counted:
    """Empty arrays to read the counts of sequences into: (rows, width) cells, (rows,) sums and flags."""
    return Counted(np.empty((rows, width)), np.empty(rows), np.empty(rows, np.uint8))
