"""Rows of the outcome log, their additions to payloads, and the joint cells of many classes.

With k classes there are 4·k² joint cells, and most of them never have an outcome. So with more classes than
`MOST_DENSE`, the cells of each sequence are numbered in the order of their first outcomes. All estimators of
a plan have the same numbers, and as many places as the sequence with most cells needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.calls import Run, run
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    allocating,
    capacity_for,
    copy_of_rows,
    inner,
    kernel,
    zeros,
)
from prequential.engine.estimators import declaration, score_histogram, sums
from prequential.engine.estimators.declaration import Additions, CountCodes, Payload
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import JointCells, Log
from prequential.engine.tables.store import NO_CLASS
from prequential.topics.errors import existing

#: Room for classes up to which estimators have a place for each joint cell, 131 kB for a column of a
#: sequence. A snapshot of a plan with more room can have numbers, so this must not become larger.
MOST_DENSE = 64

#: Places of each sequence at first.
FEWEST = 1024

#: Slots of a sequence at first: a power of two.
_LEAST_SLOTS = 16

#: An odd factor below 2^31: products with a key stay within 63 bits.
_FACTOR = 0x5851F42D


class CellIndex(NamedTuple):
    """By sequence: the keys of its joint cells by number, and where numbers are found by key."""

    keys: Ints32  # (sequences, places): see `KEY_CAPACITY`
    used: Ints32  # places in use
    slots: Ints32  # (sequences, 2·places): 1 + number, by linear probing; 0: none
    length: Ints32  # slots in use: 0 or a power of two, at least twice the places in use


@inner
def _slot_of(index: CellIndex, q: int, key: int) -> int:
    """The slot that has the number of a key, or an empty one where it belongs."""
    mask = np.int64(index.length[q]) - 1
    mixed = key * _FACTOR
    slot = (mixed ^ (mixed >> 31)) & mask
    while index.slots[q, slot] and index.keys[q, index.slots[q, slot] - 1] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def lay_out(index: CellIndex, q: int, keys: int) -> None:
    """Lay out the slots of a sequence again, with room for so many keys."""
    length = max(_LEAST_SLOTS, np.int64(index.length[q]))
    while length < 2 * keys:
        length *= 2
    index.length[q] = length
    for slot in range(length):
        index.slots[q, slot] = 0
    for number in range(index.used[q]):
        index.slots[q, _slot_of(index, q, np.int64(index.keys[q, number]))] = number + 1


@inner
def _number_of(index: CellIndex, q: int, key: int) -> int:
    """The number of a key, or the next one if it is new; the number of places if none is left."""
    if key < 0:  # no cell, or a withdrawn label
        return key
    used = np.int64(index.used[q])
    if used:
        number = np.int64(index.slots[q, _slot_of(index, q, key)]) - 1
        if number >= 0:
            return number
    if used == index.keys.shape[1]:
        return used
    if 2 * (used + 1) > index.length[q]:
        lay_out(index, q, used + 1)
    index.slots[q, _slot_of(index, q, key)] = used + 1
    index.keys[q, used] = key
    index.used[q] = used + 1
    return used


@kernel
def number_codes(index: CellIndex, codes: CountCodes, first: int) -> int:
    """Put numbers in place of keys from row `first` on; returns the row without a place, or their count."""
    places = index.keys.shape[1]
    for i in range(first, len(codes.cell)):
        q = codes.sequence[i]
        cell = _number_of(index, q, np.int64(codes.cell[i]))
        revised = _number_of(index, q, np.int64(codes.revised[i]))
        if cell == places or revised == places:
            return i
        codes.cell[i], codes.revised[i] = cell, revised
    return len(codes.cell)


@inner
def put_in_order(
    keys: Ints32, used: int, weights: Floats, into: JointCells, between: JointCells, starts: Ints
) -> int:
    """Write the cells of a sequence that have a weight by ascending keys; returns their number.

    `keys` and `weights` are by number, of which `used` are in use. `between`, and `starts` of at least 4·k
    numbers for k classes, are scratch arrays.
    """
    # Counting sort, by prediction and bits, then by label: what is equal keeps its order.
    low = (1 << 18) - 1
    starts[:] = 0
    for i in range(used):
        if weights[i] > 0.0:
            starts[np.int64(keys[i]) & low] += 1
    total = _add_up(starts)
    for i in range(used):
        if weights[i] > 0.0:
            part = np.int64(keys[i]) & low
            between.keys[starts[part]], between.weights[starts[part]] = keys[i], weights[i]
            starts[part] += 1
    starts[:] = 0
    for i in range(total):
        starts[outcomes.label_of(between.keys[i])] += 1
    _add_up(starts)
    for i in range(total):
        label = outcomes.label_of(between.keys[i])
        into.keys[starts[label]], into.weights[starts[label]] = between.keys[i], between.weights[i]
        starts[label] += 1
    return total


@inner
def _add_up(counts: Ints) -> int:
    """Put the sum of the counts before it in place of each; returns the sum of all."""
    total = 0
    for i in range(len(counts)):
        count = counts[i]
        counts[i] = total
        total += count
    return total


@allocating
def order(index: CellIndex, q: int, weights: Floats, capacity: int, into: JointCells) -> int:
    """`put_in_order` for one sequence."""
    between = JointCells(np.empty(len(weights)), np.empty(len(weights), np.int32), into.whole)
    starts = np.empty(4 * capacity, np.int64)
    return put_in_order(index.keys[q], np.int64(index.used[q]), weights, into, between, starts)


class CellNumbers:
    """The numbers of a plan's joint cells; without places, each joint cell of all classes has its place."""

    def __init__(self, rows: int, places: int) -> None:
        self.table: CellIndex = zeros(CellIndex, rows, keys=places, slots=2 * places)

    @property
    def places(self) -> int:
        """The number of places of each sequence; 0: one for each joint cell of all classes."""
        return self.table.keys.shape[1]

    def widen(self, places: int) -> None:
        """Give each sequence at least this many places."""
        if places > self.places:
            places = capacity_for(places)
            index, keys = self.table, widened(self.table.keys, self.table.used, places)
            slots = widened(index.slots, index.length, 2 * places)
            self.table = index._replace(keys=keys, slots=slots)

    def number(self, codes: CountCodes, run: Run = run) -> None:
        """Put numbers in place of the keys in codes."""
        done = number_codes(self.table, codes, 0)
        while done < len(codes.cell):
            self.widen(2 * self.places)
            done = number_codes(self.table, codes, done)

    def put(self, row: int, keys: Ints32) -> None:
        """Number these cells of a sequence, which has none yet, in this order."""
        if not len(keys):
            return
        self.widen(len(keys))
        self.table.keys[row, : len(keys)], self.table.used[row] = keys, len(keys)
        lay_out(self.table, row, len(keys))

    def adopt(self, source: CellNumbers, rows: Ints, new_rows: Ints) -> None:
        """Copy rows of other numbers to rows of these."""
        self.widen(source.places)
        for row, new in zip(rows.tolist(), new_rows.tolist()):
            self.put(new, source.keys_of(row))

    def keys_of(self, row: int) -> Ints32:
        """The keys of a sequence's cells by number: a view."""
        return self.table.keys[row, : self.table.used[row]]

    def in_order(self, row: int, weights: Floats, capacity: int) -> JointCells:
        """The cells of a sequence that have a weight, by their keys; `weights` are by number."""
        into = JointCells(np.empty(len(weights)), np.empty(len(weights), np.int32))
        count = order(self.table, row, weights, capacity, into)
        return JointCells(into.weights[:count], into.keys[:count])

    def part(self, rows: Ints) -> CellNumbers:
        """A copy of only these sequences, in rows from 0 on, for reading."""
        if not self.places:
            return self
        part = CellNumbers(0, 0)
        part.table = copy_of_rows(self.table, rows, "slots")
        return part


#: For plans with few classes.
ALL_CELLS = CellNumbers(1, 0)


def places_for(capacity: int) -> int:
    """The places of each sequence at first, with room for so many classes; 0: one for each joint cell."""
    return FEWEST if capacity > MOST_DENSE else 0


def widened(column: Any, used: Ints32, width: int) -> Any:
    """A column of `width` values in each row, of which the first `used` are those of `column`.

    Other values are zeros and aren't copied: pages of zeros that no code writes to take no memory.
    """
    wide = np.zeros((len(column), width), column.dtype)
    for row in np.flatnonzero(used).tolist():
        count = min(used[row], column.shape[1])
        wide[row, :count] = column[row, :count]
    return wide


class LogRows:
    """Rows of the log for sequences of one plan; each payload is computed when it is first needed.

    `capacity` is the room for classes; `numbers`: the task is regression. `run` calls each loop that reads
    the rows. `positives` has the costs of outcomes, for estimators of costs by value. `extended`: how many
    values more than usual are kept of each outcome (`measures.registry.extends_scores`). `joint`: the numbers
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
        capacity = outcomes.KEY_CAPACITY if self._joint.places else self._capacity
        self.run(joint_codes, self.log, self.rows, capacity, into)
        if self._joint.places:
            self._joint.number(into)
        return into

    @cached_property
    def histogram(self) -> CountCodes:
        """The counts of a histogram of scores that the rows change."""
        into = _new_codes(len(self.rows))
        self.run(score_histogram.histogram_codes, self.log, self.rows, into)
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

    @cached_property
    def times(self) -> Additions:
        """The prediction times of the rows that are new outcomes."""
        into = sums.additions(len(self.rows), sums.OF_TIMES)
        self.run(sums.times_of, self.log, self.rows, into)
        return into


def payload_of_cells(capacity: int, joint: CellNumbers) -> Payload:
    """The payload of joint cells: by label, prediction, and which baselines were right."""
    return Payload(declaration.COUNTS, joint.places or 4 * capacity * capacity)


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
        into.cell[i] = _cell_of(label, prediction, bits, capacity)
        into.revised[i], into.known[i] = declaration.NO_CELL, log.known[row]
        if log.kind[row] == outcomes.UNREVISED:
            into.cell[i] = declaration.NO_CELL
        elif log.kind[row] == outcomes.REVISION:
            into.revised[i] = _cell_of(log.revised[row], prediction, bits, capacity)


@inner
def _cell_of(label: int, prediction: int, bits: int, capacity: int) -> int:
    """The joint cell of an outcome, or `WITHDRAWN` where it has no label."""
    if label == NO_CLASS:
        return declaration.WITHDRAWN
    return outcomes.cell_of(label, prediction, bits, capacity)


def _new_codes(rows: int) -> CountCodes:
    return CountCodes(
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int32),
        np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.uint8),
    )  # fmt: skip


def unrevised(sequence: Ints32, t1: Ints, cell: npt.NDArray[np.int32]) -> CountCodes:
    """Codes of counts without revisions and baselines, from three columns of (n,)."""
    rows = len(cell)
    return CountCodes(
        sequence, t1, cell, np.full(rows, declaration.NO_CELL, np.int32), np.zeros(rows, np.int64),
        np.zeros(rows, np.uint8),
    )  # fmt: skip


def places(capacity: int, new_capacity: int) -> Ints:
    """The places of joint cells in a table with room for more classes, by their places in a smaller one.

    >>> places(1, 2), places(2, 4)[[4, 8]]
    (array([0, 1, 2, 3]), array([ 4, 16]))
    """
    numbers = np.arange(4 * new_capacity * new_capacity).reshape(new_capacity, new_capacity, 4)
    return numbers[:capacity, :capacity].ravel()
