"""Whole numbers of 128 bits in compiled loops, as two words: the high one first."""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled.kernel import inlined, inner

# All operands are unsigned words: mixed with signed integers, they would become floats.
_0, _1, _32, _64 = (np.uint64(value) for value in (0, 1, 32, 64))
_HALF = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FIRST_BIT = np.uint64(1 << 63)


@inlined
def product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low 64 bits of a·b."""
    low = (a & _HALF) * (b & _HALF)
    middle = (a >> _32) * (b & _HALF) + (low >> _32)
    cross = (a & _HALF) * (b >> _32) + (middle & _HALF)
    return (a >> _32) * (b >> _32) + (middle >> _32) + (cross >> _32), (cross << _32) | (low & _HALF)


@inlined
def plus(
    high: np.uint64, low: np.uint64, more: np.uint64, more_low: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """The sum of two numbers, which must have at most 128 bits.

    >>> all_bits = np.uint64(2**64 - 1)
    >>> [int(word) for word in plus(np.uint64(1), all_bits, np.uint64(2), np.uint64(3))]
    [4, 2]
    """
    if low > _ALL - more_low:
        return high + more + _1, low - ((_ALL - more_low) + _1)
    return high + more, low + more_low


@inner
def as_float(high: np.uint64, low: np.uint64) -> float:
    """The nearest float; of two that are equally near, the even one.

    >>> as_float(np.uint64(3), np.uint64(5)) == float((3 << 64) + 5), as_float(np.uint64(0), np.uint64(7))
    (True, 7.0)
    """
    if high == _0:
        return float(low)
    shift = _0
    while high < _FIRST_BIT:
        high = (high << _1) | (low >> np.uint64(63))
        low = low << _1
        shift += _1
    if low != _0:  # what is left out only decides whether the rest is more than half
        high = high | _1
    return math.ldexp(float(high), int(_64 - shift))
