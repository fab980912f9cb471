"""Rows of many keys of a pool in one step."""

from __future__ import annotations

from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, kernel
from prequential.engine.compiled.pool import Pool, find, insert


@kernel
def find_or_insert(
    pool: Pool, first: Ints32, owners: Ints, keys: Ints, start: int, rows: Ints, is_new: Bytes
) -> int:  # fmt: skip
    """Write the row of each owner's key from `start` on; keys without a row get one (see `pool.insert`).

    Returns the place of the key for which no row is free, or the number of keys, (n,). `is_new` notes which
    rows were inserted.
    """
    for i in range(start, len(owners)):
        row = find(pool, owners[i], keys[i])
        is_new[i] = row == 0
        if row == 0:
            row = insert(pool, first, owners[i], keys[i])
            if row == 0:
                return i
        rows[i] = row
    return len(owners)


@kernel
def find_each(pool: Pool, owners: Ints, keys: Ints, rows: Ints) -> None:
    """Write the row of each owner's key, 0 if there is none; all parameters are (n,)."""
    for i in range(len(owners)):
        rows[i] = find(pool, owners[i], keys[i])
