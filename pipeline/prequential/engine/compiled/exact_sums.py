"""Sums that take terms away again without a trace: the same bits on every processor.

A term that was added and then subtracted leaves no trace. So a sum without a withdrawn outcome has the bits
of a sum that never had it. A sum is a float and its *rests*, each below the last digit of the one before
(Shewchuk 1997, section 2). With r rests, terms may differ by a factor of about 2^(53·r) before digits are
lost.

References
----------
Shewchuk: Adaptive precision floating-point arithmetic and fast robust geometric predicates, Discrete and
Computational Geometry 18, 1997.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import Floats, inlined, inner
from prequential.engine.compiled.mathematics import two_product, two_sum

#: A sum as parts of decreasing size.
Parts = tuple[float, float, float, float, float, float]

#: The largest number of rests.
MOST_RESTS = 5


@inlined
def add_exactly(sums: Floats, rests: Floats, index: int, x: float) -> float:
    """Add a term to the sum at `index`; returns the part of it that was lost, usually 0.

    `sums` is (sums,), `rests` (sums, r). Without rests, this is the usual sum of floats.
    """
    if rests.shape[1] == 0:
        sums[index] += x
        return 0.0
    sums[index], rest = two_sum(sums[index], x)
    i = 0
    while rest != 0.0 and i < rests.shape[1]:
        rests[index, i], rest = two_sum(rests[index, i], rest)
        i += 1
    return rest


@inlined
def _sorted_once(parts: Parts) -> Parts:
    a, b, c, d, e, f = parts
    e, f = two_sum(e, f)
    d, e = two_sum(d, e)
    c, d = two_sum(c, d)
    b, c = two_sum(b, c)
    a, b = two_sum(a, b)
    return a, b, c, d, e, f


@inner
def normalised(parts: Parts) -> Parts:
    """The same sum, whose first part is the nearest float; if two are equally near, the even one.

    >>> normalised((1.0, 2.0**-53, 2.0**-110, 0.0, 0.0, 0.0))[0] == 1.0 + 2.0**-52
    True
    """
    for _ in range(2 * MOST_RESTS):
        before = parts
        parts = _sorted_once(parts)
        if before == parts or parts[0] != parts[0]:
            break
    a, b, c, d, e, f = parts
    twice = 2.0 * b
    neighbour = a + twice
    if b * c > 0.0 and neighbour - a == twice:  # b is half of the last digit, and c decides
        return neighbour, -b, c, d, e, f
    return parts


@inner
def parts_of(sums: Floats, rests: Floats, index: int) -> Parts:
    """The normalised parts of the sum at `index`."""
    a, r = sums[index], rests.shape[1]
    b = rests[index, 0] if r > 0 else 0.0
    c = rests[index, 1] if r > 1 else 0.0
    d = rests[index, 2] if r > 2 else 0.0
    e = rests[index, 3] if r > 3 else 0.0
    f = rests[index, 4] if r > 4 else 0.0
    return normalised((a, b, c, d, e, f))


@inlined
def nearest(sums: Floats, rests: Floats, index: int) -> float:
    """The float that is nearest to the sum at `index`."""
    for i in range(rests.shape[1]):
        if rests[index, i] != 0.0:
            return parts_of(sums, rests, index)[0]
    return sums[index]


@inlined
def plus(parts: Parts, x: float) -> Parts:
    """A sum and a further term."""
    a, b, c, d, e, f = parts
    a, x = two_sum(a, x)
    b, x = two_sum(b, x)
    c, x = two_sum(c, x)
    d, x = two_sum(d, x)
    e, x = two_sum(e, x)
    return a, b, c, d, e, f + x


@inlined
def _plus_product(parts: Parts, a: float, b: float) -> Parts:
    high, low = two_product(a, b)
    return plus(plus(parts, high), low)


@inner
def spread_of(n: float, total: Parts, squares: Parts) -> float:
    """Σ(y - ȳ)² of n numbers from Σy and Σy², normalised: (n·Σy² - (Σy)²)/n without a rounding error.

    >>> of_one, squared = (0.1, 0.0, 0.0, 0.0, 0.0, 0.0), two_product(0.1, 0.1)
    >>> spread_of(1.0, of_one, (*squared, 0.0, 0.0, 0.0, 0.0))
    0.0
    >>> spread_of(2.0, (4.0, 0.0, 0.0, 0.0, 0.0, 0.0), (10.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    2.0
    """
    a, b, c, _, _, _ = total
    x, y, z, _, _, _ = squares
    numerator = _plus_product((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), n, x)
    numerator = _plus_product(_plus_product(numerator, n, y), n, z)
    numerator = _plus_product(_plus_product(_plus_product(numerator, -a, a), -2.0 * a, b), -2.0 * a, c)
    numerator = _plus_product(_plus_product(_plus_product(numerator, -b, b), -2.0 * b, c), -c, c)
    return max(0.0, normalised(numerator)[0]) / n


@inner
def mean_of(n: float, total: Parts) -> tuple[float, float]:
    """Σy/n, and the part of it below the last digit.

    >>> mean, rest = mean_of(3.0, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    >>> mean == 1 / 3, round(rest / 2.0**-54, 3)
    (True, 0.333)
    """
    mean = total[0] / n
    high, low = two_product(mean, n)
    return mean, (((total[0] - high) - low) + total[1]) / n


@inner
def sum_exactly(values: Floats, start: int, stop: int, step: int, scratch: Floats) -> float:
    """The float that is nearest to the sum of `values[start:stop:step]`, which are finite, as `math.fsum`.

    If two floats are equally near, it is the even one. `scratch` has room for as many numbers.

    >>> import numpy as np
    >>> sum_exactly(np.array([1e16, 1.0, -1e16, 1.0]), 0, 4, 1, np.empty(4))
    2.0
    """
    used = 0
    for index in range(start, stop, step):
        x, kept = float(values[index]), 0
        for part in range(used):
            x, rest = two_sum(x, float(scratch[part]))
            if rest != 0.0:
                scratch[kept] = rest
                kept += 1
        used = kept
        if x != 0.0:
            scratch[used] = x
            used += 1
    total = rest = 0.0
    while used > 0 and rest == 0.0:
        used -= 1
        total, rest = two_sum(total, float(scratch[used]))
    more = float(scratch[used - 1]) if used > 0 else 0.0
    if (rest > 0.0 and more > 0.0) or (rest < 0.0 and more < 0.0):  # the rest may be half of the last digit
        twice = 2.0 * rest
        above = total + twice
        if above - total == twice:
            total = above
    return total
