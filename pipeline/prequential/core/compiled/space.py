"""Memory that a snapshot copies tables into.

Most of what copying costs is memory that is touched for the first time: the system gives and clears it page
by page. So it can be had and touched before, while the shard works; then copying is as fast as memory is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

#: Bytes of a page of memory, at most places.
_PAGE = 4_096

#: Arrays begin at multiples of it.
_ALIGNED = 64

#: Memory of more than so many times the size that is needed isn't kept for it.
_TOO_LARGE = 4

#: The state may grow by 1 / this until it is copied.
_GROWTH = 16


class Space:
    """Memory of so many bytes for copies of arrays, made once and used again; others are allocated."""

    def __init__(self, size: int = 0) -> None:
        self._memory = np.empty(size, dtype=np.uint8)
        self._memory[::_PAGE] = 0
        self._end = 0

    def fits(self, size: int) -> bool:
        """Whether there is memory for so many bytes, and not for far more, which would be a waste."""
        return size <= len(self._memory) <= _TOO_LARGE * size

    def clear(self) -> None:
        """Begin anew, once nobody reads the copies any more.

        >>> space = Space(128)
        >>> first, _ = space.copy(np.arange(3)), space.clear()
        >>> np.shares_memory(first, space.copy(np.arange(2)))
        True
        """
        self._end = 0

    def copy(self, array: Any) -> Any:
        """A copy of an array, contiguous; in this memory as long as there is room, and until `clear`.

        >>> space = Space(100)
        >>> space.copy(np.arange(3)), space.copy(np.zeros(5)), space.copy(np.zeros((2, 1), np.int8)).tolist()
        (array([0, 1, 2]), array([0., 0., 0., 0., 0.]), [[0], [0]])
        """
        start, stop = self._end, self._end + array.nbytes
        if stop > len(self._memory) or not array.nbytes:
            return array.copy()
        self._end = -(-stop // _ALIGNED) * _ALIGNED
        place = self._memory[start:stop]
        if array.flags.c_contiguous:
            place[:] = array.reshape(-1).view(np.uint8)  # records, too: not field by field
            return place.view(array.dtype).reshape(array.shape)
        copied = place.view(array.dtype).reshape(array.shape)
        copied[...] = array
        return copied


def size_of(arrays: Iterable[Any]) -> int:
    """Bytes of memory that `Space` needs for copies of these arrays, with some more for growth until then."""
    size = sum(array.nbytes + _ALIGNED for array in arrays)
    return size + size // _GROWTH
