"""A compact history: sums of blocks that are short where they are new and long where they are old.

An exponential histogram (Datar, Gionis, Indyk and Motwani 2002, doi:10.1137/S0097539701398363): blocks begin
with `SHORTEST` entries; once there are more than `PER_SIZE` of a size, the two oldest of them become one. So
the resolution at an age is some 1/8 of the age, whatever has been seen, and memory is bounded: of blocks of
the longest size, the oldest is forgotten.

Blocks of an *owner* lie in consecutive rows, in no order: `order` says which is the k-th, the oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.core.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    columns_of,
    grown,
    inlined,
    inner,
    records,
    taken,
)

#: Entries of a new block, and blocks of a size: the last 128 entries are known to 16.
SHORTEST, PER_SIZE = 16, 8

#: Entries of the longest blocks: all together hold the last 30,000 entries, the largest memory of which a
#: change is worth telling.
LONGEST = SHORTEST << 7

#: Most blocks of an owner: of each of the eight sizes, and one that has just become one too many. Places of
#: an owner at first: enough for some 400 entries, which is all that many ever have.
MOST_BLOCKS, FEW_BLOCKS = 8 * PER_SIZE + 1, 16

#: Sums of few thousand entries, counts of which have all their digits.
Floats32 = npt.NDArray[np.float32]


class Lines(NamedTuple):
    """By owner: where its blocks lie."""

    first: Ints  # row of its first place in `Blocks`
    places: Ints32  # that it has
    used: Ints32  # that have a block
    cells: Ints  # where the cells of its first place begin
    width: Ints32  # cells of a block


class Blocks(NamedTuple):
    """By place: entries of a block, and what was at its first one."""

    number: Ints  # of the first entry, from 1
    n: Ints32  # entries
    full: Ints32  # entries that it has when it is full
    order: Ints32  # place of the owner's k-th block, in the k-th of its rows
    ts: Ints  # prediction time of the first entry, ms


class Sums(NamedTuple):
    """By place, of blocks of outcomes: sums over the entries, and the label time of the first one.

    Blocks of predictions, of which there are as many, have none: the table has no rows.
    """

    persistent: Ints32  # entries for which the baseline was right
    majority: Ints32
    t1: Ints  # ms
    lag: Floats  # sum of label times less prediction times, ms
    loss: Floats  # sum of losses
    squares: Floats  # … of their squares
    products: Floats  # … of each one times the one before it


class Pool(NamedTuple):
    """Blocks of all owners."""

    lines: Lines
    blocks: Blocks
    sums: Sums
    cells: Floats32
    used: Ints  # rows of `blocks`, and `cells`, that are somebody's


def new_pool(summed: bool) -> Pool:
    """Nobody has blocks; `summed`: they will have `Sums`."""
    return Pool(
        records(Lines, 16), records(Blocks, 16), records(Sums, 16 if summed else 0),
        np.zeros(16, np.float32), np.zeros(2, np.int64),
    )  # fmt: skip


def with_places(pool: Pool, blocks: int, cells: int) -> Pool:
    """The pool with so many rows of blocks, and cells."""
    sums = grown(pool.sums, blocks) if len(pool.sums) else pool.sums
    return pool._replace(blocks=grown(pool.blocks, blocks), sums=sums, cells=grown(pool.cells, cells))


@inlined
def place_of(pool: Pool, owner: int, k: int) -> int:
    """The row of the owner's k-th block, the oldest first."""
    first = pool.lines.first[owner]
    return first + pool.blocks.order[first + k]


@inlined
def cells_of(pool: Pool, owner: int, place: int) -> int:
    """Where the cells of a block of the owner begin."""
    lines = pool.lines
    return lines.cells[owner] + (place - lines.first[owner]) * lines.width[owner]


@inlined
def is_full(pool: Pool, owner: int) -> bool:
    """Whether the next entry needs a new block."""
    used = pool.lines.used[owner]
    if used == 0:
        return True
    newest = place_of(pool, owner, used - 1)
    return pool.blocks.n[newest] >= pool.blocks.full[newest]


@inlined
def has_place(pool: Pool, owner: int) -> bool:
    """Whether there is a place for a new block."""
    return pool.lines.used[owner] < pool.lines.places[owner]


@inner
def begin_block(pool: Pool, owner: int, number: int) -> int:
    """A new block whose first entry has this number; returns its row. There must be a place for it."""
    lines, blocks = pool.lines, pool.blocks
    used = lines.used[owner]
    lines.used[owner] = used + 1
    place = place_of(pool, owner, used)
    blocks.number[place], blocks.full[place] = number, SHORTEST
    blocks.n[place] = 0
    if len(pool.sums):
        _clear(pool.sums, place)
    start = cells_of(pool, owner, place)
    for cell in range(start, start + lines.width[owner]):
        pool.cells[cell] = 0.0
    _merge(pool, owner)
    return place


@inner
def _clear(sums: Sums, place: int) -> None:
    sums.persistent[place] = sums.majority[place] = 0
    sums.lag[place] = sums.loss[place] = sums.squares[place] = sums.products[place] = 0.0


@inner
def _add(sums: Sums, older: int, newer: int) -> None:
    """Add the sums of a block to those of another one."""
    sums.persistent[older] += sums.persistent[newer]
    sums.majority[older] += sums.majority[newer]
    sums.lag[older] += sums.lag[newer]
    sums.loss[older] += sums.loss[newer]
    sums.squares[older] += sums.squares[newer]
    sums.products[older] += sums.products[newer]


@inner
def _merge(pool: Pool, owner: int) -> None:
    """Make one block of two wherever there are too many of a size."""
    blocks = pool.blocks
    end, size = np.int64(pool.lines.used[owner]), SHORTEST
    while True:
        start = end
        while start > 0 and blocks.full[place_of(pool, owner, start - 1)] == size:
            start -= 1
        if end - start <= PER_SIZE:
            return
        if size == LONGEST:
            _take_out(pool, owner, 0)
            return
        older, newer = place_of(pool, owner, start), place_of(pool, owner, start + 1)
        blocks.full[older] = 2 * size
        blocks.n[older] += blocks.n[newer]
        if len(pool.sums):
            _add(pool.sums, older, newer)
        to, source = cells_of(pool, owner, older), cells_of(pool, owner, newer)
        for cell in range(pool.lines.width[owner]):
            pool.cells[to + cell] += pool.cells[source + cell]
        _take_out(pool, owner, start + 1)
        end, size = start + 1, 2 * size


@inner
def _take_out(pool: Pool, owner: int, k: int) -> None:
    """The k-th block's place is free: it stands behind all others."""
    first, used = pool.lines.first[owner], pool.lines.used[owner]
    free = pool.blocks.order[first + k]
    for at in range(k, used - 1):
        pool.blocks.order[first + at] = pool.blocks.order[first + at + 1]
    pool.blocks.order[first + used - 1] = free
    pool.lines.used[owner] = used - 1


@inlined
def find_block(pool: Pool, owner: int, ts: int) -> int:
    """The row of the newest block that begins at `ts` or before it; -1: there is none."""
    low, high = 0, np.int64(pool.lines.used[owner])
    while low < high:
        middle = (low + high) // 2
        if pool.blocks.ts[place_of(pool, owner, middle)] <= ts:
            low = middle + 1
        else:
            high = middle
    return place_of(pool, owner, low - 1) if low else -1


def with_owners(pool: Pool, owners: int) -> Pool:
    """The pool with rows for so many owners."""
    return pool._replace(lines=grown(pool.lines, owners))


def without_owners(pool: Pool, owners: Sequence[int]) -> Pool:
    """The pool without the blocks of these owners.

    Rows and cells that are nobody's go as soon as they are more than half: then the others move together.
    """
    lines = pool.lines
    for column in columns_of(lines).values():
        column[owners] = 0
    places = lines.places.astype(np.int64)
    cells = places * lines.width
    used = np.array([places.sum(), cells.sum()])
    if (2 * used >= pool.used).all():
        return pool
    lines.first[:], rows = together(lines.first, places)
    lines.cells[:], rows_of_cells = together(lines.cells, cells)
    pool.used[:] = used
    sums = grown(taken(pool.sums, rows), 16) if len(pool.sums) else pool.sums
    blocks, kept = grown(taken(pool.blocks, rows), 16), grown(pool.cells[rows_of_cells], 16)
    return pool._replace(blocks=blocks, sums=sums, cells=kept)


def together(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Where runs of these lengths begin if they lie one behind the other, and where their rows were."""
    now = np.cumsum(lengths) - lengths
    rows = np.repeat(starts - now, lengths) + np.arange(int(lengths.sum()))
    return np.where(lengths > 0, now, 0), rows


def laid_out(pool: Pool, owner: int, places: int, columns: list[tuple[int, int]], width: int) -> Pool:
    """The pool with so many places and cells for an owner; `columns` are (former, present) ones of a cell.

    Its blocks move behind all others; the rows that they leave are of no more use, fewer than it has now.
    """
    lines = pool.lines
    row, start = int(pool.used[0]), int(pool.used[1])
    pool.used[0], pool.used[1] = row + places, start + places * width
    pool = with_places(pool, row + places, start + places * width)
    blocks, sums, cells = pool.blocks, pool.sums, pool.cells
    before, first, old = int(lines.places[owner]), int(lines.first[owner]), int(lines.cells[owner])
    former = int(lines.width[owner])
    blocks[row : row + before] = blocks[first : first + before]  # type: ignore[index]
    if len(sums):
        sums[row : row + before] = sums[first : first + before]  # type: ignore[index]
    blocks.order[row + before : row + places] = np.arange(before, places)
    table = cells[start : start + places * width].reshape(places, width)
    table[:] = 0
    then = cells[old : old + before * former].reshape(before, former)
    sources, targets = np.array(columns, dtype=np.int64).reshape(-1, 2).T
    table[:before, targets] = then[:, sources]
    lines.first[owner], lines.places[owner] = row, places
    lines.cells[owner], lines.width[owner] = start, width
    return pool
