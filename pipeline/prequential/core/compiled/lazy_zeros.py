"""Zeros that take no memory until they are written to, and tables of zeros that grow in place.

Tables of thousands of streams are mostly zeros. Memory that the C library gets fresh from the system takes no
pages for zeros. But the C library also uses the memory of freed tables again; it clears that memory, and then
each of its pages takes space. It also keeps most of the memory that tables free as they grow. Large tables
therefore have their own mappings, which return to the system when they are freed.

A mapping has addresses for several times the size that is requested first. The addresses beyond that size are
not accessible, and the system reserves no memory for them. A table that grows extends into these addresses.
So no data are copied, and no page is allocated a second time, until the addresses are used up.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np

#: Size in bytes from which an array has its own mapping: the initial threshold of glibc.
_MAPPED = 1 << 17

#: Size in bytes from which a mapping may have large pages, as in numpy: they make random look-ups faster.
_LARGE_PAGES = 1 << 22

#: Size in bytes of a large page on most systems.
_LARGE_PAGE = 1 << 21

#: A mapping has addresses for this multiple of the size that is requested first.
_ADDRESSES = 16

#: Number of bytes to check for zeros together.
_PIECE = 1 << 16

_ANONYMOUS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)
_READ_AND_WRITE = getattr(mmap, "PROT_READ", 0) | getattr(mmap, "PROT_WRITE", 0)


def _protection() -> Any:
    """The C library's `mprotect`; None on systems without it."""
    if not _ANONYMOUS:
        return None
    function = ctypes.CDLL(None).mprotect
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function


_mprotect = _protection()


class _Mapping:
    """Addresses for `size` bytes and for growth; raises OSError if the system doesn't have so many."""

    def __init__(self, size: int) -> None:
        self._total = -(-size * _ADDRESSES // _LARGE_PAGE) * _LARGE_PAGE
        self._memory = mmap.mmap(-1, self._total, flags=_ANONYMOUS, prot=0)
        self._address = np.frombuffer(self._memory, np.uint8).ctypes.data
        self._open = 0
        self._large = size >= _LARGE_PAGES
        if self._large and _ADVICE is not None:
            self._memory.madvise(_ADVICE)
        #: Size in bytes of the longest array in this mapping.
        self.used = 0

    def array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array at the start of the mapping, which stays alive with it; None if the array doesn't fit."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        opened = -(-size // _LARGE_PAGE) * _LARGE_PAGE
        if opened > self._total or (size >= _LARGE_PAGES and not self._large):
            return None  # a new mapping makes all of its pages large
        if opened > self._open:
            if _mprotect(self._address, opened, _READ_AND_WRITE):
                return None
            self._open = opened
        self.used = size
        memory: Any = (ctypes.c_uint8 * size).from_address(self._address)
        memory.mapping = self
        return np.frombuffer(memory, dtype).reshape(shape)


def lazy_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros.

    >>> lazy_zeros((2,), np.int64), lazy_zeros((1 << 20, 2), np.int64)[-1]
    (array([0, 0]), array([0, 0]))
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    array = None
    if size >= _MAPPED and _mprotect is not None:
        with suppress(OSError):  # a limit on addresses: numpy needs fewer of them
            array = _Mapping(size).array(shape, dtype)
    return np.zeros(shape, dtype) if array is None else array


def lengthened(array: Any, rows: int) -> Any:
    """An array of `rows` rows: those of `array`, which has at most as many, and zeros.

    The result may share memory with `array`: writing to one of them may change the other.

    >>> lengthened(np.array([7]), 3)
    array([7, 0, 0])
    """
    shape, longer = (rows, *array.shape[1:]), None
    mapping = _mapping_of(array)
    # The memory after a part of a longer array isn't zero.
    if mapping is not None and array.flags.c_contiguous and array.nbytes == mapping.used:
        longer = mapping.array(shape, array.dtype)
    if longer is None:
        longer = lazy_zeros(shape, array.dtype)
        copy_onto_zeros(array, longer[: len(array)])
    return longer


def _mapping_of(array: Any) -> _Mapping | None:
    """The mapping that contains an array; None if there is none."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return getattr(getattr(base, "obj", base), "mapping", None)


def copy_onto_zeros(source: Any, target: Any) -> None:
    """Copy an array onto zeros of equal shape; for a large array, skip pieces that are zero.

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
        if piece.view(np.bool_).any():  # as bytes that are 0 or not: numpy's fastest check
            target[start : start + _PIECE] = piece
