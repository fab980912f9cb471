"""Memory into which a snapshot copies tables.

Most of the cost of copying is the first write to new memory: the system allocates and clears it page by page.
The memory can therefore be allocated and touched before, while the shard works. Copying is then as fast as
the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

#: Size in bytes of a page of memory on most systems.
_PAGE = 4_096

#: Arrays begin at multiples of this number of bytes.
_ALIGNED = 64

#: Memory of more than this multiple of the needed size isn't kept.
_TOO_LARGE = 4

#: The memory has room for a growth of the state by 1 / `_GROWTH` until it is copied.
_GROWTH = 16


class Space:
    """Memory of `size` bytes for copies of arrays, which is used again; copies without room are allocated."""

    def __init__(self, size: int = 0) -> None:
        self._memory = np.empty(size, dtype=np.uint8)
        self._memory[::_PAGE] = 0
        self._end = 0

    def fits(self, size: int) -> bool:
        """Whether the memory has room for `size` bytes without being far too large."""
        return size <= len(self._memory) <= _TOO_LARGE * size

    def clear(self) -> None:
        """Free the memory for new copies; call it once no code reads the earlier copies any more.

        >>> space = Space(128)
        >>> first, _ = space.copy(np.arange(3)), space.clear()
        >>> np.shares_memory(first, space.copy(np.arange(2)))
        True
        """
        self._end = 0

    def copy(self, array: Any) -> Any:
        """A contiguous copy of an array, in this memory if there is room; it is valid until `clear`.

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
            place[:] = array.reshape(-1).view(np.uint8)  # also records, instead of field by field
            return place.view(array.dtype).reshape(array.shape)
        copied = place.view(array.dtype).reshape(array.shape)
        copied[...] = array
        return copied


def size_of(arrays: Iterable[Any]) -> int:
    """Number of bytes that `Space` needs for copies of these arrays, including some growth until then."""
    size = sum(array.nbytes + _ALIGNED for array in arrays)
    return size + size // _GROWTH
