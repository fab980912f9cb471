"""Reads and writes numbers of JSON in compiled loops.

A number is written as the shortest decimal that reads back as the same double.

A double has many decimals that lie closer to it than to its neighbours. The algorithm chooses the decimal
with the fewest digits, and of several such decimals the closest one, as `repr` does (Giulietti 2020, "The
Schubfach way to render doubles"). It computes with whole numbers only, so the digits are the same on every
processor.
"""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Words, inlined, inner
from prequential.engine.compiled.wide import product

#: Maximum number of characters of a number: sign, 17 digits, point, `e-308`.
LONGEST_NUMBER = 25

#: The smallest and the largest power of ten that doubles need.
_LOWEST, _HIGHEST = -292, 324

#: Smallest and largest power of ten for which a number is written without an exponent.
_NO_EXPONENT = -5, 16

_MINUS, _POINT, _ZERO, _E = (ord(character) for character in "-.0e")
_NULL = np.frombuffer(b"null", dtype=np.uint8)

#: The two digits of each number below 100.
_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), dtype=np.uint8)

_POWERS: Ints = 10 ** np.arange(18, dtype=np.int64)

# Words and all operands of operations on them are unsigned: mixed with signed integers, they would become
# floats.
_0, _1, _2, _4, _10, _40, _100 = (np.uint64(value) for value in (0, 1, 2, 4, 10, 40, 100))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HIDDEN = np.uint64(1 << 52)


def _powers() -> Words:
    """10^k rounded up to 128 bits, with the first bit set: two words for each k, the high word first."""
    powers = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for k in range(_LOWEST, _HIGHEST + 1):
        over, under = 10 ** max(k, 0), 10 ** max(-k, 0)
        shift = 128 - (over.bit_length() - under.bit_length())
        if (over << max(shift, 0)) >= (under << max(-shift, 0)) << 128:
            shift -= 1
        value = -((-over << max(shift, 0)) // (under << max(-shift, 0)))
        powers[k - _LOWEST] = value >> 64, value & 0xFFFFFFFFFFFFFFFF
    return powers


_TENS = _powers()


@inlined
def _upper(high: np.uint64, low: np.uint64, c: np.uint64) -> tuple[np.uint64, np.uint64]:
    """c times a number of 128 bits: the upper and the middle 64 of its 192 bits."""
    carried, _ = product(low, c)
    top, bits = product(high, c)
    if bits > _ALL - carried:
        return top + _1, bits - ((_ALL - carried) + _1)
    return top, bits + carried


@inlined
def _scaled(high: np.uint64, low: np.uint64, c: np.uint64) -> np.uint64:
    """c times a power of ten, without its lower 128 bits; the last bit is set if these were not 0."""
    top, bits = _upper(high, low, c)
    return top | (_1 if bits > _1 else _0)


@inner
def shortest(c: np.uint64, q: int) -> tuple[int, int]:
    """The shortest decimal of the double c·2^q, c < 2^53: its digits as a whole number, and its exponent."""
    even = c & _1 == _0
    first = c == _HIDDEN and q > -1074  # the neighbour below is half as far away as the one above
    k = (q * 1262611 - (524031 if first else 0)) >> 22  # ⌊log10 2^q⌋, or of ¾·2^q
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)  # … + ⌊log2 10^-k⌋
    high, low = _TENS[-k - _LOWEST, 0], _TENS[-k - _LOWEST, 1]
    four = c * _4
    below = _scaled(high, low, (four - (_1 if first else _2)) << shift)
    exact = _scaled(high, low, four << shift)
    above = _scaled(high, low, (four + _2) << shift)
    if not even:  # the bounds themselves belong only to an even number
        below += _1
        above -= _1
    s = exact // _4
    if s >= _10:
        ten = s // _10
        under, over = below <= _40 * ten, _40 * ten + _40 <= above
        if under != over:
            return np.int64(ten + (_1 if over else _0)), k + 1
    under, over = below <= _4 * s, _4 * s + _4 <= above
    if under != over:
        return np.int64(s + (_1 if over else _0)), k
    middle = _4 * s + _2
    up = exact > middle or (exact == middle and s & _1 == _1)
    return np.int64(s + (_1 if up else _0)), k


@inlined
def put_bytes(out: Bytes, position: int, text: Bytes, start: int, stop: int) -> int:
    """Write `text[start:stop]` into `out` from `position` on; returns where it ends, `at + stop - start`.

    `out` must have room for the bytes: compiled code doesn't check.
    """
    # Unsigned, so that numba doesn't check for each byte whether its index counts from the end.
    to, begin = np.uint64(position), np.uint64(start)
    for offset in range(np.uint64(stop - start)):
        out[to + np.uint64(offset)] = text[begin + np.uint64(offset)]
    return position + stop - start


@inlined
def _put_digits(out: Bytes, position: int, number: int, digits: int) -> int:
    """Write a number with `digits` digits, with leading zeros; returns where it ends."""
    index, rest = np.uint64(position + digits), np.uint64(number)
    for _ in range(digits >> 1):
        shorter = rest // _100
        pair = (rest - shorter * _100) * _2
        index -= _2
        out[index], out[index + _1] = _PAIRS[pair], _PAIRS[pair + _1]
        rest = shorter
    if digits & 1:
        out[position] = _ZERO + np.int64(rest)
    return position + digits


@inlined
def _digits(number: int) -> int:
    digits = 15 if number >= _POWERS[15] else 1  # most have few digits, or as many as a double has
    while digits < 18 and number >= _POWERS[digits]:
        digits += 1
    return digits


@inner
def put_int(out: Bytes, position: int, number: int) -> int:
    """Write a whole number of at most 18 digits, with its sign; returns where it ends."""
    if number < 0:
        out[position] = _MINUS
        position += 1
        number = -number
    return _put_digits(out, position, number, _digits(number))


@inner
def put_float(out: Bytes, position: int, x: float) -> int:
    """Write a double as the shortest decimal that reads back as the same double (JSON's number).

    The number has a point or an exponent, so that readers take it for a float; NaN and infinities are `null`.
    Returns where the number ends: at most `LONGEST_NUMBER` bytes after `position`.

    >>> out = np.zeros(LONGEST_NUMBER, np.uint8)
    >>> [bytes(out[: put_float(out, 0, x)]) for x in (0.1, -3.0, 1e22, math.nan)]
    [b'0.1', b'-3.0', b'1e22', b'null']
    """
    if not -math.inf < x < math.inf:
        return put_bytes(out, position, _NULL, 0, len(_NULL))
    if math.copysign(1.0, x) < 0.0:
        out[position] = _MINUS
        position += 1
        x = -x
    if x == 0.0:
        out[position], out[position + 1], out[position + 2] = _ZERO, _POINT, _ZERO
        return position + 3
    fraction, exponent = math.frexp(x)
    q = exponent - 53
    if q < -1074:  # a subnormal number, which has fewer bits
        fraction = math.ldexp(fraction, q + 1074)
        q = -1074
    c = np.int64(fraction * 9007199254740992.0)
    if -53 < q <= 0 and c & ((1 << -q) - 1) == 0:
        number, power = c >> -q, 0  # whole
    else:
        number, power = shortest(np.uint64(c), q)
    trimmed = np.uint64(number)
    for zeros in (8, 4, 2, 1):  # at most 15 zeros at the end
        unit = np.uint64(_POWERS[zeros])
        shorter = trimmed // unit
        if shorter * unit == trimmed:
            trimmed = shorter
            power += zeros
    number = np.int64(trimmed)
    digits = _digits(number)
    point = digits + power  # digits in front of the point
    if point - 1 < _NO_EXPONENT[0] or point > _NO_EXPONENT[1]:
        return _put_with_exponent(out, position, number, digits, point - 1)
    if point <= 0:
        out[position], out[position + 1] = _ZERO, _POINT
        return _put_digits(out, position + 2, number, digits - point)
    if power >= 0:
        position = _put_digits(out, position, number * _POWERS[power], point)
        out[position], out[position + 1] = _POINT, _ZERO
        return position + 2
    whole = number // _POWERS[-power]
    position = _put_digits(out, position, whole, point)
    out[position] = _POINT
    return _put_digits(out, position + 1, number - whole * _POWERS[-power], -power)


@inner
def _put_with_exponent(out: Bytes, position: int, number: int, digits: int, exponent: int) -> int:
    if digits > 1:
        first = number // _POWERS[digits - 1]
        position = _put_digits(out, position, first, 1)
        out[position] = _POINT
        position = _put_digits(out, position + 1, number - first * _POWERS[digits - 1], digits - 1)
    else:
        position = _put_digits(out, position, number, 1)
    out[position] = _E
    return put_int(out, position + 1, exponent)


# ---- reading

#: Powers of ten that are doubles, to the last bit; and the smallest integer that may be none.
_EXACT: Floats = np.array([float(10**power) for power in range(23)])
_NOT_EXACT = 1 << 53

#: Exponents of normal doubles with 53 bits in front of the point.
_LEAST_SHIFT, _MOST_SHIFT = -1074, 971


@inner
def decimal(digits: int, power: int) -> float:
    """The double that is closest to `digits`·10^`power`, as Python reads it; -1 if that is hard to find out.

    `digits` is from 0 to 10^18. Hard are decimals about in the middle between two doubles, and those that
    aren't normal doubles.

    >>> decimal(1, -1), decimal(12345678901234567, -17), decimal(1, 400)
    (0.1, 0.12345678901234566, -1.0)
    """
    if digits == 0 or power == 0:
        return float(digits)
    while digits >= _NOT_EXACT and digits % 10 == 0:
        digits //= 10
        power += 1
    if digits < _NOT_EXACT and -len(_EXACT) < power < len(_EXACT):  # rounded once
        return digits / _EXACT[-power] if power < 0 else digits * _EXACT[power]
    if not _LOWEST <= power < 309:
        return -1.0
    # Digits with their first bit set, times a power of ten that was rounded up by less than 1 of its 128
    # bits: the product is less than 1 of its upper 128 bits too large.
    word, shift = np.uint64(digits), 0
    for bits in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - bits) == _0:
            word <<= np.uint64(bits)
            shift += bits
    top, rest = _upper(_TENS[power - _LOWEST, 0], _TENS[power - _LOWEST, 1], word)
    if rest == _0:  # it may be less than `top`
        return -1.0
    # It is more than `top` and less than `top` + 1: never in the middle between two doubles.
    spare = 11 if top >> np.uint64(63) else 10
    c = np.int64(top >> np.uint64(spare))
    c += np.int64((top >> np.uint64(spare - 1)) & _1)
    exponent = ((power * 1741647) >> 19) + 1 - shift + spare  # ⌊log2 10^power⌋ + …
    if not _LEAST_SHIFT <= exponent < _MOST_SHIFT:
        return -1.0
    return math.ldexp(float(c), int(exponent))
