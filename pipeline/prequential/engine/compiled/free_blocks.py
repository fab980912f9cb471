"""Blocks of consecutive places of a table that loops give out and take back, by size.

What has one place per owner in a table takes blocks of length 1. Others choose among a few sizes, each with
its own length: counts by class, counters of a period. A block that is free links the next free one of its
size: the number of its first place stands in the first place of the free block itself.

(Rows that are found by an owner and a key are in `compiled.pool`, runs that Python gives out in several
tables at once are in `tables.rows`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Ints, inner

#: Where the counters begin that have the first free block of each size.
_FREE = 1


def new_counters(sizes: int = 1) -> Ints:
    """Counters of a table in which no block was given out yet, (1 + sizes,).

    The first one is the first place that was never in a block, the others are by size the first place of the
    block that was freed last (0: none). Place 0 is never in a block.
    """
    counters = np.zeros(_FREE + sizes, dtype=np.int64)
    counters[0] = 1
    return counters


def needed_places(counters: Ints, size: int, length: int) -> int:
    """How many places the table needs for one more block of this size and length."""
    return 0 if counters[_FREE + size] else int(counters[0]) + length


@inner
def has_block(counters: Ints, links: Any, size: int, length: int) -> bool:
    """Whether the table has a block left; `links` is the column, (places,), that links free blocks."""
    return counters[_FREE + size] > 0 or counters[0] + length <= len(links)


@inner
def take_block(counters: Ints, links: Any, size: int, length: int) -> int:
    """Take a block, that of the size that was freed last, else a new one; there must be one left.

    Returns its first place. Its contents are those of before: the caller empties it.

    >>> counters, links = new_counters(sizes=2), np.zeros(16)
    >>> first, second = take_block(counters, links, 0, 2), take_block(counters, links, 1, 8)
    >>> give_block(counters, links, 0, first)
    >>> int(first), int(second), int(take_block(counters, links, 0, 2)), counters.tolist()
    (1, 3, 1, [11, 0, 0])
    """
    block = counters[_FREE + size]
    if block:
        counters[_FREE + size] = np.int64(links[block])
    else:
        block = counters[0]
        counters[0] = block + length
    return block


@inner
def give_block(counters: Ints, links: Any, size: int, block: int) -> None:
    """Take back a block, by its first place."""
    links[block] = counters[_FREE + size]
    counters[_FREE + size] = block
