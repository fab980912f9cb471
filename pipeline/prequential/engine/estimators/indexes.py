"""The joint cells of sequences with many classes: estimators have a place only for those with outcomes.

With k classes there are 4·k² joint cells, and most of them never have an outcome. So with more classes than
`MOST_DENSE`, the cells of each sequence are numbered in the order of their first outcomes. All estimators of
a plan have the same numbers, and as many places as the sequence with most cells needs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    allocating,
    capacity_for,
    inner,
    kernel,
    taken,
    zeros,
)
from prequential.engine.compiled.repeated import Run, run
from prequential.engine.estimators.declaration import CountCodes
from prequential.engine.tables.outcomes import JointCells, label_of

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

    Parameters
    ----------
    keys, used
        (places,) and how many of them are in use.
    weights
        (places,) by number.
    into, between
        Written: of `places` rows.
    starts
        (at least 4·k,) scratch numbers, for k classes.
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
        starts[label_of(between.keys[i])] += 1
    _add_up(starts)
    for i in range(total):
        label = label_of(between.keys[i])
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

    def adopt(self, other: CellNumbers, rows: Ints, new_rows: Ints) -> None:
        """Copy rows of other numbers to rows of these."""
        self.widen(other.places)
        for row, new in zip(rows.tolist(), new_rows.tolist()):
            self.put(new, other.keys_of(row))

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
        part.table = taken(self.table, rows, "slots")
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
