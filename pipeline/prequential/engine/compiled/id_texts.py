"""Copies and compares the texts of ids in their arena."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import Ids
from prequential.engine.compiled.kernel import Bytes, inner

_BITS, _BYTE = np.uint64(8), np.uint64(0xFF)


@inner
def size_of(ids: Ids, slot: int) -> int:
    """Return the number of bytes of the id in a slot of `ids`."""
    return np.int64(ids.size[slot]) - 1


@inner
def copy_text(ids: Ids, slot: int, text: Bytes, at: int) -> int:
    """Write the id in a slot into `text` from `at` on; returns where it ends. `text` must have room."""
    end, block = at + size_of(ids, slot), np.int64(ids.offset[slot])
    while at < end:
        word = ids.arena[block]
        for place in range(at, min(at + 8, end)):
            text[place] = word & _BYTE
            word >>= _BITS
        at, block = min(at + 8, end), block + 1
    return end


@inner
def is_before(ids: Ids, one: int, other: int) -> bool:
    """Whether an id comes before another one: by length, then byte by byte.

    Whole numbers are therefore in numerical order. `one` and `other` are slots of `ids`.
    """
    size = size_of(ids, one)
    if size != size_of(ids, other):
        return size < size_of(ids, other)
    first, second = np.int64(ids.offset[one]), np.int64(ids.offset[other])
    for block in range((size + 7) // 8):
        a, b = ids.arena[first + block], ids.arena[second + block]
        if a != b:
            for _ in range(8):  # the first byte is the lowest
                if a & _BYTE != b & _BYTE:
                    return (a & _BYTE) < (b & _BYTE)
                a >>= _BITS
                b >>= _BITS
    return False
