"""Rows that are found by (owner, key), against a dict."""

from __future__ import annotations

import random

import numpy as np
from compiled import from_python
from prequential.engine.compiled import pool as engine

insert, remove = from_python(engine.insert), from_python(engine.remove)


def test_rows_that_are_freed_are_found_no_more_and_used_again() -> None:
    """Under keys that lie close together and far apart."""
    rng = random.Random(5)
    pool, first = engine.new_pool(), np.zeros(3, dtype=np.int32)
    known: dict[tuple[int, int], int] = {}
    keys = [rng.choice((rng.randrange(-40, 40), rng.randrange(-(1 << 45), 1 << 45))) for _ in range(150)]
    for _ in range(6_000):
        owner, key = rng.randrange(3), rng.choice(keys)
        assert engine.find(pool, owner, key) == known.get((owner, key), 0)
        if (owner, key) not in known:
            pool = engine.with_free_row(pool)
            known[owner, key] = insert(pool, first, owner, key)
        elif rng.random() < 0.6:
            previous, row = 0, int(first[owner])
            while row != known[owner, key]:
                previous, row = row, int(pool.next[row])
            remove(pool, first, owner, previous, row)
            del known[owner, key]
        elif rng.random() < 0.01:
            engine.remove_all(pool, int(first[owner]))
            first[owner] = 0
            known = {about: row for about, row in known.items() if about[0] != owner}
    assert len(set(known.values())) == len(known)
    assert len(pool.owner) <= 512
