"""Zeros that take no memory until something is written, and tables of them that grow where they are.

Tables of thousands of streams are mostly zeros, and the C library's own memory would do for these as long as
it comes fresh from the system. What a former table left behind is used again instead, and cleared, so that
each of its pages takes memory; and of what tables free as they grow, the C library keeps most. So large
tables have mappings of their own, which go back as they are freed.

A mapping has addresses for several times what is asked for first; beyond that nothing can be touched, and
nothing is promised by the system. A table that grows goes on there, so that nothing is copied, and no page
is had anew, until the addresses are used up.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np

#: Bytes from which an array has a mapping of its own: as in glibc before it has seen larger ones.
_MAPPED = 1 << 17

#: Bytes from which it may have large pages, as arrays of numpy: what is looked up at random is found sooner.
_LARGE_PAGES = 1 << 22

#: Bytes of a large page, at most places.
_LARGE_PAGE = 1 << 21

#: A mapping has addresses for so many times what is asked for first.
_ADDRESSES = 16

#: Bytes that are looked at together.
_PIECE = 1 << 16

_ANONYMOUS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)
_READ_AND_WRITE = getattr(mmap, "PROT_READ", 0) | getattr(mmap, "PROT_WRITE", 0)


def _protection() -> Any:
    """The C library's `mprotect`; None where there is none."""
    if not _ANONYMOUS:
        return None
    function = ctypes.CDLL(None).mprotect
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function


_mprotect = _protection()


class _Mapping:
    """Addresses for `size` bytes and more of them; raises OSError where the system hasn't so many."""

    def __init__(self, size: int) -> None:
        self._total = -(-size * _ADDRESSES // _LARGE_PAGE) * _LARGE_PAGE
        self._memory = mmap.mmap(-1, self._total, flags=_ANONYMOUS, prot=0)
        self._address = np.frombuffer(self._memory, np.uint8).ctypes.data
        self._open = 0
        self._large = size >= _LARGE_PAGES
        if self._large and _ADVICE is not None:
            self._memory.madvise(_ADVICE)
        #: Bytes of the longest array there.
        self.used = 0

    def array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array at its beginning, which keeps the mapping; None: there is no room for it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        opened = -(-size // _LARGE_PAGE) * _LARGE_PAGE
        if opened > self._total or (size >= _LARGE_PAGES and not self._large):
            return None  # in another mapping all of its pages are large
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
        with suppress(OSError):  # a limit of addresses: numpy's memory has as many as are needed
            array = _Mapping(size).array(shape, dtype)
    return np.zeros(shape, dtype) if array is None else array


def lengthened(array: Any, rows: int) -> Any:
    """An array of `rows` rows, at least as many as `array` has: these, and zeros.

    It may have the memory of `array`: what is written to one of them may be in the other.

    >>> lengthened(np.array([7]), 3)
    array([7, 0, 0])
    """
    shape, longer = (rows, *array.shape[1:]), None
    mapping = _mapping_of(array)
    # What is behind a part of a longer array isn't zeros.
    if mapping is not None and array.flags.c_contiguous and array.nbytes == mapping.used:
        longer = mapping.array(shape, array.dtype)
    if longer is None:
        longer = lazy_zeros(shape, array.dtype)
        copy_onto_zeros(array, longer[: len(array)])
    return longer


def _mapping_of(array: Any) -> _Mapping | None:
    """The mapping in which an array lies."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return getattr(getattr(base, "obj", base), "mapping", None)


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
