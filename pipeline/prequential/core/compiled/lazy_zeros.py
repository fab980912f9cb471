"""Zeros that take no memory until something is written: what tables of thousands of streams mostly are.

The C library's own memory would do as long as it comes fresh from the system. What a former table left behind
is used again instead, and cleared, so that each of its pages takes memory; and of what tables free as they
grow, the C library keeps most. So large tables have mappings of their own, which go back as they are freed.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np

#: Bytes from which an array has a mapping of its own: as in glibc before it has seen larger ones.
_MAPPED = 1 << 17

#: Bytes from which it may have large pages, as arrays of numpy: what is looked up at random is found sooner.
_LARGE_PAGES = 1 << 22

#: Bytes that are looked at together.
_PIECE = 1 << 16

_ANONYMOUS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros.

    >>> lazy_zeros((2,), np.int64), lazy_zeros((1 << 20, 2), np.int64)[-1]
    (array([0, 0]), array([0, 0]))
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _MAPPED or not _ANONYMOUS:
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size, flags=_ANONYMOUS)
    if size >= _LARGE_PAGES and _ADVICE is not None:
        memory.madvise(_ADVICE)
    return np.frombuffer(memory, dtype).reshape(shape)


def copy_onto_zeros(source: Any, target: Any) -> None:
    """Copy an array onto zeros of equal shape; of a large one not what is zero.

    >>> target = lazy_zeros((2, 3), np.int64)
    >>> copy_onto_zeros(np.array([[1, 0, 2], [0, 3, 0]]), target)
    >>> target.tolist()
    [[1, 0, 2], [0, 3, 0]]
    """
    if source.nbytes < _MAPPED or not source.flags.c_contiguous or not target.flags.c_contiguous:
        target[...] = source
        return
    source, target = (array.reshape(-1).view(np.uint8) for array in (source, target))
    for start in range(0, len(source), _PIECE):
        piece = source[start : start + _PIECE]
        if piece.view(np.bool_).any():  # as bytes that are 0 or not, which is the fastest that numpy has
            target[start : start + _PIECE] = piece
