"""Rows that loops find by (owner, key), in lists by owner: cohorts of models, periods, cells of periods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Ints, Ints32, capacity_for, inner, kernel

#: Counters of a pool: the first row that was never used, and the first free row of the used ones (0: none).
_NEXT, _FREE = range(2)

#: Odd factors below 2^31: their products with 31 bits stay within 63 bits.
_LOW, _HIGH, _OWNER = 0x5851F42D, 0x2545F491, 0x4F1BBCDD
_31_BITS = 0x7FFFFFFF


class Pool(NamedTuple):
    """Rows of owners, each under its own keys, with a hash table of all rows (linear probing).

    Row 0 is never used: the number 0 means none. The order in which rows are given out depends only on the
    requests, not on the capacity.
    """

    owner: Ints32  # -1: free
    key: Ints
    next: Ints32  # the owner's next row, or the next free one; 0: none
    slots: Ints32  # row or 0; the length is a power of two, at least twice the number of rows
    counters: Ints


def new_pool(rows: int = 16) -> Pool:
    """An empty pool with `rows` rows, including row 0; `rows` must be a power of two."""
    return Pool(
        np.full(rows, -1, dtype=np.int32), np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int32),
        np.zeros(2 * rows, dtype=np.int32), np.array([1, 0], dtype=np.int64),
    )  # fmt: skip


def grown_pool(pool: Pool, rows: int) -> Pool:
    """The pool with at least `rows` rows; existing rows keep their places."""
    present = len(pool.owner)
    if rows <= present:
        return pool
    wide = new_pool(capacity_for(rows, present))
    wide.owner[:present], wide.key[:present], wide.next[:present] = pool.owner, pool.key, pool.next
    wide.counters[:] = pool.counters
    _put_all(wide)
    return wide


def with_free_row(pool: Pool) -> Pool:
    """The pool itself if a row is free, else a larger copy, in which all rows keep their places."""
    return grown_pool(pool, 0 if pool.counters[_FREE] else int(pool.counters[_NEXT]) + 1)


def pool_of(owner: Ints, key: Ints, following: Ints32) -> Pool:
    """A pool with these rows, which are all in use except row 0.

    `owner`, `key` and `following` (the owner's next row, 0: none) have equal length.
    """
    rows = len(key)
    pool = new_pool(capacity_for(rows))
    pool.owner[1:rows] = owner[1:]
    pool.key[:rows], pool.next[:rows] = key, following
    pool.counters[_NEXT] = rows
    _put_all(pool)
    return pool


@inner
def _home(owner: int, key: int, mask: int) -> int:
    """The slot at which the search for a key begins. No product overflows, neither in Python nor compiled."""
    mixed = ((key & _31_BITS) * _LOW) ^ (((key >> 31) & _31_BITS) * _HIGH) ^ (owner * _OWNER)
    return (mixed ^ (mixed >> 32)) & mask


@inner
def _put(slots: Ints32, owner: int, key: int, row: int) -> None:
    mask = len(slots) - 1
    slot = _home(owner, key, mask)
    while slots[slot]:
        slot = (slot + 1) & mask
    slots[slot] = row


@kernel
def _put_all(pool: Pool) -> None:
    """Put all rows of owners into the hash table, which must be empty."""
    for row in range(1, pool.counters[_NEXT]):
        if pool.owner[row] >= 0:
            _put(pool.slots, np.int64(pool.owner[row]), pool.key[row], row)


@kernel
def find(pool: Pool, owner: int, key: int) -> int:
    """The row under an owner's key, by linear probing; 0 if there is none."""
    mask = len(pool.slots) - 1
    slot = _home(owner, key, mask)
    row = np.int64(pool.slots[slot])
    while row and (pool.key[row] != key or pool.owner[row] != owner):
        slot = (slot + 1) & mask
        row = np.int64(pool.slots[slot])
    return row


@inner
def is_full(pool: Pool) -> bool:
    """Whether no row is free, so that `insert` would return 0; check it before you change anything."""
    return pool.counters[_FREE] == 0 and pool.counters[_NEXT] == len(pool.owner)


@kernel
def insert(pool: Pool, first: Ints32, owner: int, key: int) -> int:
    """Give the owner a row for a key that it doesn't have yet; returns the row, or 0 if none is free.

    `first[owner]` is the first row of the owner's list, (owners,) int32; the new row is inserted before it.
    See `with_free_row`.

    >>> pool, first = new_pool(), np.zeros(2, np.int32)
    >>> [int(insert(pool, first, 1, key)) for key in (500, 600)], [int(find(pool, q, 500)) for q in (1, 0)]
    ([1, 2], [1, 0])
    >>> first.tolist(), int(pool.next[2])  # a list from the newest row on
    ([0, 2], 1)
    """
    counters = pool.counters
    row = counters[_FREE]
    if row:
        counters[_FREE] = pool.next[row]
    elif counters[_NEXT] < len(pool.owner):
        row = counters[_NEXT]
        counters[_NEXT] = row + 1
    else:
        return 0
    pool.owner[row] = owner
    pool.key[row] = key
    pool.next[row] = first[owner]
    first[owner] = row
    _put(pool.slots, owner, key, row)
    return row


@inner
def _vacate(pool: Pool, row: int) -> None:
    """Remove a row from the hash table. Rows that lie after it because their own slot was taken move up."""
    mask = len(pool.slots) - 1
    slot = _home(np.int64(pool.owner[row]), pool.key[row], mask)
    while pool.slots[slot] != row:
        slot = (slot + 1) & mask
    after = (slot + 1) & mask
    while pool.slots[after]:
        follower = pool.slots[after]
        home = _home(np.int64(pool.owner[follower]), pool.key[follower], mask)
        if (after - home) & mask >= (after - slot) & mask:
            pool.slots[slot] = follower
            slot = after
        after = (after + 1) & mask
    pool.slots[slot] = 0
    pool.owner[row] = -1


@inner
def remove(pool: Pool, first: Ints32, owner: int, previous: int, row: int) -> int:
    """Free a row of an owner's list; `previous` is the row before it (0: none). Returns the next row."""
    after = np.int64(pool.next[row])
    if previous:
        pool.next[previous] = after
    else:
        first[owner] = after
    _vacate(pool, row)
    pool.next[row] = pool.counters[_FREE]
    pool.counters[_FREE] = row
    return after


@kernel
def remove_all(pool: Pool, row: int) -> None:
    """Free a whole list, given its first row (0: the list is empty).

    The links of the list stay, so it can be read until rows are inserted.
    """
    head, last = row, row
    while row:
        _vacate(pool, row)
        last = row
        row = np.int64(pool.next[row])
    if last:
        pool.next[last] = pool.counters[_FREE]
        pool.counters[_FREE] = head


@inner
def sort_by_key(pool: Pool, rows: Ints32) -> None:
    """Sort rows by their keys (Shell 1959); the rows of a list are usually almost in reverse order.

    >>> pool, first = new_pool(), np.zeros(2, np.int32)
    >>> rows = np.array([insert(pool, first, 1, key) for key in (700, 500, 600)], np.int32)
    >>> sort_by_key(pool, rows)
    >>> pool.key[rows].tolist()
    [500, 600, 700]
    """
    count = len(rows)
    for i in range(count // 2):
        swapped = rows[i]
        rows[i] = rows[count - 1 - i]
        rows[count - 1 - i] = swapped
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, count):
            row, j = rows[i], i
            while j >= gap and pool.key[rows[j - gap]] > pool.key[row]:
                rows[j] = rows[j - gap]
                j -= gap
            rows[j] = row
        gap //= 3
