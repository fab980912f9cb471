"""Blocks that are given out and taken back, against sets of places."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import from_python
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.compiled import free_blocks
from prequential.engine.compiled.kernel import grown

LENGTHS = (1, 2, 8)

has_block, take_block, give_block = map(
    from_python, (free_blocks.has_block, free_blocks.take_block, free_blocks.give_block)
)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 100)), max_size=60))
def test_blocks_never_overlap_and_are_used_again(kind: type, steps: list[tuple[bool, int, int]]) -> None:
    """The column that links free blocks is the table's content, of any kind of number."""
    counters, links = free_blocks.new_counters(len(LENGTHS)), np.zeros(4, dtype=kind)
    taken: dict[int, int] = {}  # sizes of blocks in use, by their first places
    most = [0, 0, 0]  # by size: the largest number of blocks in use at once
    for gives, size, which in steps:
        length = LENGTHS[size]
        if gives and taken:
            block = sorted(taken)[which % len(taken)]
            give_block(counters, links, taken.pop(block), block)
            continue
        needed = free_blocks.needed_places(counters, size, length)
        assert has_block(counters, links, size, length) == (needed <= len(links))
        links = grown(links, needed)
        assert has_block(counters, links, size, length)
        block = int(take_block(counters, links, size, length))
        links[block : block + length] = 77
        taken[block] = size
        most[size] = max(most[size], sum(other == size for other in taken.values()))
        places = [place for first, own in taken.items() for place in range(first, first + LENGTHS[own])]
        assert len(set(places)) == len(places)
        assert 0 < min(places) <= max(places) < len(links)
    assert int(counters[0]) == 1 + sum(number * length for number, length in zip(most, LENGTHS))
