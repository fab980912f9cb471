"""Clusters: measurements of predictions that were made within one period of the same length.

Outcomes of one cluster share influences on the level: the hour, the day, a batch. So a cluster counts as one
observation (clustered standard errors). A cluster's number is floor(ts/length). A configured length stays.
Otherwise the length is a day divided by 2^k. It is short while an *owner* is young. It doubles (two
neighbours become one) whenever the owner's places are used up, until it is a day. So memory is bounded, and a
history has between 64 and 128 clusters.

*Parts* are the newest clusters in eighths, with a pool of their own. They show where in a cluster a level
changed.

Clusters of an owner lie in consecutive rows, in no order: `order` gives the row of the k-th, the oldest
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled import kernel as loops
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    grown,
    inner,
    records,
)

#: The longest length that follows from the data alone, and of how many halvings of it an owner begins with
#: (21 ms).
DAY, HALVINGS = 86_400_000, 22

#: Clusters of an owner before their length is doubled for want of entries, and at most. With fewer, a change
#: is found later; with more, memory grows.
FEW_CLUSTERS, MOST_CLUSTERS = 32, 128

#: Places of an owner at first: of many streams with few outcomes each, these are most of the memory.
FIRST_PLACES = 4

#: A cluster has 2^PART_HALVINGS parts; of them the newest ones are kept, those of 16 clusters.
PART_HALVINGS, MOST_PARTS = 3, 128

#: Mean number of entries of a cluster. With fewer, its mean is too uncertain, and neighbours are put
#: together.
LEAST_ENTRIES = 8

#: The newest clusters of an owner, which a search looks at before it bisects the others.
_NEWEST = 8

#: Bytes of the words that tables move by: all columns are as wide, or twice as wide.
_WORD = 4

#: What `place_for` returns instead of a row: the owner needs more places; the time is before all that is
#: kept.
NO_PLACE, TOO_OLD = -1, -2

#: Sums of few thousand entries, counts of which have all their digits.
Floats32 = npt.NDArray[np.float32]


class Lines(NamedTuple):
    """By owner: the places of its clusters."""

    first: Ints  # row of its first place in `Blocks`
    places: Ints32  # that it has
    used: Ints32  # that have a cluster
    cells: Ints  # where the cells of its first place begin
    width: Ints32  # cells of a cluster
    doubled: Ints32  # how often the length of its clusters was doubled
    entries: Ints  # in all of its clusters


class Clusters(NamedTuple):
    """By place: a cluster's entries, and what was at its first one."""

    number: Ints  # of the first entry, from 1
    n: Ints32  # entries
    key: Ints  # floor(ts/length)
    order: Ints32  # place of the owner's k-th cluster, in the k-th of its rows
    mark: Ints32  # `NORMAL`, `USUAL`, `UNUSUAL` or `FORMER` (`engine.incidents.lasting`)


class Sums(NamedTuple):
    """By place, of clusters of outcomes: sums over the entries, and the label time of the first one.

    Clusters of predictions have none: the table has no rows.
    """

    persistent: Ints32  # entries for which the baseline was right
    majority: Ints32
    t1: Ints  # ms
    lag: Floats  # sum of label times less prediction times, ms
    loss: Floats  # sum of losses
    squares: Floats  # … of their squares
    products: Floats  # … of each one times the one before it


class ClusterPool(NamedTuple):
    """Clusters of all owners."""

    lines: Lines
    blocks: Clusters
    sums: Sums
    cells: Floats32
    used: Ints  # rows of `blocks`, and `cells`, that have an owner


def new_pool(summed: bool) -> ClusterPool:
    """A pool without clusters; `summed`: they will have `Sums`."""
    return ClusterPool(
        records(Lines, 16), records(Clusters, 16), records(Sums, 16 if summed else 0),
        np.zeros(16, np.float32), np.zeros(2, np.int64),
    )  # fmt: skip


@inner
def more_places(places: int, most: int) -> int:
    """How many places an owner gets that needs more than it has; `most` at most."""
    return min(max(FIRST_PLACES, 2 * places), most)


def with_places(pool: ClusterPool, blocks: int, cells: int) -> ClusterPool:
    """The pool with so many rows of clusters, and cells."""
    sums = grown(pool.sums, blocks) if len(pool.sums) else pool.sums
    return pool._replace(blocks=grown(pool.blocks, blocks), sums=sums, cells=grown(pool.cells, cells))


@inner
def place_of(pool: ClusterPool, owner: int, k: int) -> int:
    """The row of the owner's k-th cluster, the oldest first."""
    first = pool.lines.first[owner]
    return first + pool.blocks.order[first + k]


@inner
def cells_of(pool: ClusterPool, owner: int, row: int) -> int:
    """Where the cells of a cluster of the owner begin."""
    lines = pool.lines
    return lines.cells[owner] + (row - lines.first[owner]) * lines.width[owner]


@inner
def key_of(ts: int, fixed: int, doubled: int) -> int:
    """The number of the cluster that a time (ms) is in.

    `fixed` is a configured length (ms); 0: a day divided by 2^(HALVINGS - doubled).
    """
    if fixed > 0:
        return ts // fixed
    halvings, day = HALVINGS - doubled, ts // DAY
    if halvings < 0:
        return day >> -halvings
    return (day << halvings) + (((ts - day * DAY) << halvings) // DAY)


@inner
def length_of(fixed: int, doubled: int) -> float:
    """The length of a cluster, ms."""
    return float(fixed) if fixed > 0 else DAY / 2.0 ** (HALVINGS - doubled)


@inner
def _count_up_to(pool: ClusterPool, owner: int, key: int) -> int:
    """How many of the owner's clusters have this number or one before it.

    Most searches are for one of the newest clusters, which are looked at first: in tables of many owners,
    each step of a bisection would wait for memory.
    """
    high = np.int64(pool.lines.used[owner])
    least = max(high - _NEWEST, 0)
    while high > least and pool.blocks.key[place_of(pool, owner, high - 1)] > key:
        high -= 1
    if high > least:
        return high
    low = np.int64(0)
    while low < high:
        middle = (low + high) // 2
        if pool.blocks.key[place_of(pool, owner, middle)] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def place_for(pool: ClusterPool, owner: int, ts: int, number: int, fixed: int, untimed: bool) -> int:
    """The row of the cluster that a time is in; a new one if there is none, with this first entry.

    Returns NO_PLACE if the owner needs more places first, and TOO_OLD if the time is before all that is kept.
    `untimed`: times are numbers of rows, and clusters may become longer than a day's number of ms.
    """
    lines, blocks = pool.lines, pool.blocks
    while True:
        used = np.int64(lines.used[owner])
        key = key_of(ts, fixed, lines.doubled[owner])
        k = used - 1
        while k >= 0 and blocks.key[place_of(pool, owner, k)] > key:
            k -= 1
        if k >= 0 and blocks.key[place_of(pool, owner, k)] == key:
            return place_of(pool, owner, k)
        if used < lines.places[owner]:
            return _insert(pool, owner, k + 1, key, number)
        sparse = lines.entries[owner] < LEAST_ENTRIES * used
        if used < FEW_CLUSTERS or (used < MOST_CLUSTERS and (fixed > 0 or not sparse)):
            return NO_PLACE
        if fixed == 0 and (sparse or untimed or lines.doubled[owner] < HALVINGS):
            double_length(pool, owner)
        elif k < 0:
            return TOO_OLD
        else:
            lines.entries[owner] -= blocks.n[place_of(pool, owner, 0)]
            _take_out(pool, owner, 0)


@inner
def part_for(parts: ClusterPool, owner: int, ts: int, number: int, fixed: int, doubled: int) -> int:
    """The row of the part that a time is in; a new one if there is none, with this first entry.

    `fixed` and `doubled` are those of the owner's clusters. Returns NO_PLACE if the owner needs more places
    first, and TOO_OLD if the time is before all that is kept.
    """
    lines, blocks = parts.lines, parts.blocks
    while lines.doubled[owner] < doubled:
        double_length(parts, owner)
    key = key_of(ts, part_length(fixed), doubled - PART_HALVINGS)
    k = _count_up_to(parts, owner, key)
    if k and blocks.key[place_of(parts, owner, k - 1)] == key:
        return place_of(parts, owner, k - 1)
    if lines.used[owner] == lines.places[owner]:
        if lines.places[owner] < MOST_PARTS:
            return NO_PLACE
        if k == 0:
            return TOO_OLD
        _take_out(parts, owner, 0)
        k -= 1
    return _insert(parts, owner, k, key, number)


@inner
def part_length(fixed: int) -> int:
    """The length (ms) of parts of clusters of a configured length (ms); 0: it follows from the data."""
    return max(1, fixed >> PART_HALVINGS) if fixed > 0 else 0


@inner
def _insert(pool: ClusterPool, owner: int, k: int, key: int, number: int) -> int:
    """A new cluster as the owner's k-th; returns its row. There must be a place for it."""
    lines, blocks = pool.lines, pool.blocks
    used, first = lines.used[owner], lines.first[owner]
    free = blocks.order[first + used]
    for index in range(used, k, -1):
        blocks.order[first + index] = blocks.order[first + index - 1]
    blocks.order[first + k] = free
    lines.used[owner] = used + 1
    row = first + free
    blocks.number[row], blocks.key[row] = number, key
    blocks.n[row] = blocks.mark[row] = 0
    if len(pool.sums):
        _clear(pool.sums, row)
    start = cells_of(pool, owner, row)
    for cell in range(start, start + lines.width[owner]):
        pool.cells[cell] = 0.0
    return row


@inner
def _clear(sums: Sums, row: int) -> None:
    sums.persistent[row] = sums.majority[row] = 0
    sums.lag[row] = sums.loss[row] = sums.squares[row] = sums.products[row] = 0.0


@inner
def _add(sums: Sums, older: int, newer: int) -> None:
    """Add the sums of a cluster to those of another one."""
    sums.persistent[older] += sums.persistent[newer]
    sums.majority[older] += sums.majority[newer]
    sums.lag[older] += sums.lag[newer]
    sums.loss[older] += sums.loss[newer]
    sums.squares[older] += sums.squares[newer]
    sums.products[older] += sums.products[newer]


@inner
def double_length(pool: ClusterPool, owner: int) -> None:
    """Clusters of the owner become twice as long: numbers 2k and 2k + 1 become one, number k."""
    lines, blocks = pool.lines, pool.blocks
    lines.doubled[owner] += 1
    first, used = lines.first[owner], np.int64(lines.used[owner])
    kept, freed, before = np.int64(0), np.int64(0), np.int64(0)
    for k in range(used):
        place = np.int64(blocks.order[first + k])
        row = first + place
        blocks.key[row] >>= 1
        if kept and blocks.key[before] == blocks.key[row]:
            _merge(pool, owner, before, row)
            blocks.number[row] = freed  # free places are linked until they have their place in the order
            freed = place + 1
        else:
            blocks.order[first + kept] = place
            kept += 1
            before = row
    lines.used[owner] = kept
    while freed:
        blocks.order[first + kept] = freed - 1
        kept += 1
        freed = blocks.number[first + freed - 1]


@inner
def _merge(pool: ClusterPool, owner: int, older: int, newer: int) -> None:
    """Add the cluster in a row to that in another one, which is older."""
    blocks = pool.blocks
    if blocks.number[newer] < blocks.number[older]:
        blocks.number[older] = blocks.number[newer]
        if len(pool.sums):
            pool.sums.t1[older] = pool.sums.t1[newer]
    blocks.n[older] += blocks.n[newer]
    blocks.mark[older] = max(blocks.mark[older], blocks.mark[newer])
    if len(pool.sums):
        _add(pool.sums, older, newer)
    to, source = cells_of(pool, owner, older), cells_of(pool, owner, newer)
    for cell in range(pool.lines.width[owner]):
        pool.cells[to + cell] += pool.cells[source + cell]


@inner
def _take_out(pool: ClusterPool, owner: int, k: int) -> None:
    """The k-th cluster's place is free: it comes behind all others."""
    first, used = pool.lines.first[owner], pool.lines.used[owner]
    free = pool.blocks.order[first + k]
    for index in range(k, used - 1):
        pool.blocks.order[first + index] = pool.blocks.order[first + index + 1]
    pool.blocks.order[first + used - 1] = free
    pool.lines.used[owner] = used - 1


@inner
def find_cluster(pool: ClusterPool, owner: int, key: int) -> int:
    """The row of the newest cluster with this number or one before it; -1: there is none."""
    count = _count_up_to(pool, owner, key)
    return place_of(pool, owner, count - 1) if count else -1


def with_owners(pool: ClusterPool, owners: int) -> ClusterPool:
    """The pool with rows for so many owners."""
    return pool._replace(lines=grown(pool.lines, owners))


def without_owners(pool: ClusterPool, owners: Sequence[int]) -> ClusterPool:
    """The pool without the clusters of these owners.

    Rows and cells without an owner go as soon as they are more than half: then the others move together.
    """
    lines = pool.lines
    for column in loops.columns_of(lines).values():
        column[owners] = 0
    places = lines.places.astype(np.int64)
    used = np.array([places.sum(), (places * lines.width).sum()])
    return pool if (2 * used >= pool.used).all() else with_more(pool, 0, 0)


def with_more(pool: ClusterPool, rows: int, cells: int) -> ClusterPool:
    """The pool with room for so many more rows of clusters, and cells, and for half as many again.

    Rows and cells without an owner go: the others move together, in their order. They stay in the same
    memory where that has the right size, because new memory takes the system longer than moving.
    """
    lines = pool.lines
    owners = np.flatnonzero(lines.places)
    owners = owners[np.argsort(lines.first[owners])]
    places = lines.places[owners].astype(np.int64)
    counts = places * lines.width[owners]
    rows_of_owners = Runs(lines.first[owners].astype(np.int64), places)
    cells_of_owners = Runs(lines.cells[owners].astype(np.int64), counts)
    room = loops.capacity_for(rows_of_owners.total + rows_of_owners.total // 2 + rows)
    cell_room = loops.capacity_for(cells_of_owners.total + cells_of_owners.total // 2 + cells)
    used_rows, used_cells = pool.used.tolist()
    blocks = _together(pool.blocks, rows_of_owners, used_rows, room)
    sums = _together(pool.sums, rows_of_owners, used_rows, room) if len(pool.sums) else pool.sums
    moved_cells = _together(pool.cells, cells_of_owners, used_cells, cell_room)
    lines.first[:], lines.cells[:] = 0, 0
    lines.first[owners] = rows_of_owners.places
    lines.cells[owners] = np.where(counts > 0, cells_of_owners.places, 0)
    pool.used[:] = rows_of_owners.total, cells_of_owners.total
    return pool._replace(blocks=blocks, sums=sums, cells=moved_cells)


class Runs(NamedTuple):
    """Runs of rows of a table, in their order; they come to lie one behind the other."""

    starts: Ints
    lengths: Ints

    @property
    def places(self) -> Ints:
        """Where each of them begins then."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def total(self) -> int:
        """Number of rows."""
        return int(self.lengths.sum())


def _together(table: Any, runs: Runs, used: int, room: int) -> Any:
    """These runs of a table's `used` rows, one behind the other as the first of `room` rows; others are 0."""
    stays = len(table) == room
    moved = table if stays else np.zeros(room, table.dtype).view(type(table))
    words = table.dtype.itemsize // _WORD
    source, target = (rows.view(np.ndarray).view(np.int32) for rows in (table, moved))
    starts, lengths, places = runs.starts * words, runs.lengths * words, runs.places * words
    first = int(np.append(starts != places, True).argmax()) if stays else 0  # of those that don't stay
    _move_runs(source, starts[first:], lengths[first:], target, places[first:])
    if stays:
        target[runs.total * words : used * words] = 0
    return moved


@loops.kernel
def _move_runs(source: Ints32, starts: Ints, lengths: Ints, target: Ints32, places: Ints) -> None:
    """Copy runs of words of a column to places of another one, or of the same one, not behind their own."""
    for i in range(len(starts)):
        start, place = starts[i], places[i]
        for k in range(lengths[i]):
            target[place + k] = source[start + k]


class KeptCells(NamedTuple):
    """The cells of a cluster that stay when it gets a wider row: some at the beginning, and a run behind."""

    first: int  # how many at the beginning
    source: int  # where the run begins
    target: int  # … and where from now on
    length: int  # how long it is


@inner
def kept_cells(first: int, source: int, target: int, length: int) -> KeptCells:
    """The same with 64-bit numbers: several widths would make numba compile loops for several types."""
    return KeptCells(first, source, target, length)


@inner
def lay_out(pool: ClusterPool, owner: int, places: int, width: int, kept: KeptCells) -> bool:
    """Give an owner so many places, and cells for each; False if the pool has no room for them.

    The owner's clusters move behind all others. The rows that they leave stay unused; the owner has more now.
    """
    lines, blocks, cells = pool.lines, pool.blocks, pool.cells
    row, start = pool.used[0], pool.used[1]
    if row + places > len(blocks.key) or start + places * width > len(cells):
        return False
    pool.used[0], pool.used[1] = row + places, start + places * width
    first, old, former = lines.first[owner], lines.cells[owner], np.int64(lines.width[owner])
    before = np.int64(lines.places[owner])
    for place in range(before):
        _move(pool, first + place, row + place)
        begin, then = start + place * width, old + place * former
        for cell in range(kept.first):
            cells[begin + cell] = cells[then + cell]
        for cell in range(kept.length):
            cells[begin + kept.target + cell] = cells[then + kept.source + cell]
    for place in range(before, places):
        blocks.order[row + place] = place
    lines.first[owner], lines.places[owner] = row, places
    lines.cells[owner], lines.width[owner] = start, width
    return True


@inner
def _move(pool: ClusterPool, source: int, target: int) -> None:
    """Write a cluster's row, without its cells, into another one."""
    blocks, sums = pool.blocks, pool.sums
    blocks.number[target], blocks.n[target] = blocks.number[source], blocks.n[source]
    blocks.key[target], blocks.mark[target] = blocks.key[source], blocks.mark[source]
    blocks.order[target] = blocks.order[source]
    if len(sums):
        _clear(sums, target)
        _add(sums, target, source)
        sums.t1[target] = sums.t1[source]
