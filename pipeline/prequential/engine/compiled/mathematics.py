"""Logarithms, powers and the normal distribution: the same bits on every processor.

The functions of the C library differ in their last bit from version to version. The functions here use only +
- * / and operations that are exact in IEEE 754 (square roots, scaling by powers of two), in a fixed order, as
in fdlibm (Sun Microsystems, 1993). Errors of logarithms and exponentials are below one unit in the last
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from prequential.engine.compiled.kernel import inlined, inner, kernel

#: ln 2 in two parts: products of the first part with exponents are exact; the second part is the rest.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LN2 = 6.93147180559945309417e-01
_PER_LN2 = 1.44269504088896338700
_HALF_ROOT = math.sqrt(0.5)

#: Beyond these, exponentials are infinite or 0.
_LARGEST, _SMALLEST = 7.09782712893383973096e02, -7.45133219101941108420e02

#: Halving 1 this many times gives 0.
_HALVES = 1_100

#: Coefficients of (ln(1+f) - ln(1-f))/s - 2 as a polynomial in s², s = f/(2+f).
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5 = 2.222219843214978396e-01, 1.818357216161805012e-01
_L6, _L7 = 1.531383769920937332e-01, 1.479819860511658591e-01

#: Coefficients of r·(e^r + 1)/(e^r - 1) - 2 as a polynomial in r².
_P1, _P2, _P3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_P4, _P5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08

#: The factor that splits a number of 53 bits into two halves.
_SPLIT = 134217729.0

#: Between these bounds a number has full precision, and multiplying it by a small whole number can't
#: overflow.
_TINY, _HUGE = 1e-290, 1e300


def added(values: Iterable[float]) -> float:
    """The sum of values, one after the other, without the compensation that Python's `sum` has from 3.12 on.

    >>> added([1e16, 1.0, 1.0]), added([])
    (1e+16, 0.0)
    """
    total = 0.0
    for value in values:
        total += value
    return total


@kernel
def log(x: float) -> float:
    """The natural logarithm: -infinity of 0, NaN below.

    With x = 2^k·(1 + f), sqrt(1/2) <= 1 + f < sqrt(2): ln x = k·ln 2 + ln(1 + f).

    References
    ----------
    fdlibm, `e_log.c` (Sun Microsystems, 1993): the polynomial for ln(1 + f).

    Examples
    --------
    >>> log(1.0), log(0.5), log(0.0)
    (0.0, -0.6931471805599453, -inf)
    """
    if x <= 0.0:
        return -math.inf if x == 0.0 else math.nan
    if not x < math.inf:  # infinite, or not a number
        return x
    fraction, exponent = math.frexp(x)
    if fraction < _HALF_ROOT:
        fraction *= 2.0
        exponent -= 1
    f = fraction - 1.0
    k = float(exponent)
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    series = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    return k * _LN2_HIGH - ((half - (s * (half + series) + k * _LN2_LOW)) - f)


@kernel
def exp(x: float) -> float:
    """e^x: 0 below -745.1, infinity above 709.8, NaN of NaN.

    With x = k·ln 2 + r, |r| <= ln 2/2: e^x = 2^k·e^r.

    References
    ----------
    fdlibm, `e_exp.c` (Sun Microsystems, 1993): the polynomial for e^r.

    Examples
    --------
    >>> exp(0.0), exp(0.5), exp(-1000.0)
    (1.0, 1.6487212707001282, 0.0)
    """
    if not x <= _LARGEST:
        return math.inf if x > _LARGEST else x
    if x < _SMALLEST:
        return 0.0
    k = int(_PER_LN2 * x + (0.5 if x >= 0.0 else -0.5))
    high = x - k * _LN2_HIGH
    low = k * _LN2_LOW
    r = high - low
    t = r * r
    c = r - t * (_P1 + t * (_P2 + t * (_P3 + t * (_P4 + t * _P5))))
    return math.ldexp(1.0 - ((low - r * c / (2.0 - c)) - high), k)


@inlined
def two_product(x: float, y: float) -> tuple[float, float]:
    """x·y, and its error to the exact product (Dekker 1971), unless the error is below the smallest number.

    References
    ----------
    Dekker: A floating-point technique for extending the available precision, Numerische Mathematik 18, 1971,
    doi:10.1007/BF01397083.

    Examples
    --------
    >>> two_product(1e8 + 1, 1e8 + 1), 100_000_001**2
    ((1.00000002e+16, 1.0), 10000000200000001)
    """
    p = x * y
    t = _SPLIT * x
    x_high = t - (t - x)
    x_low = x - x_high
    t = _SPLIT * y
    y_high = t - (t - y)
    y_low = y - y_high
    return p, ((x_high * y_high - p) + x_high * y_low + x_low * y_high) + x_low * y_low


@inlined
def two_sum(x: float, y: float) -> tuple[float, float]:
    """x + y as the nearest double, and its error: (s, r) with s + r = x + y exactly.

    References
    ----------
    Knuth: The Art of Computer Programming, volume 2, section 4.2.2, theorem B.

    Examples
    --------
    >>> two_sum(1e16, 1.0)
    (1e+16, 1.0)
    """
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


@inner
def share_left(part: float, part_low: float, whole: float, whole_low: float) -> float:
    """1 - part/whole, where each number has a second, low part; for whole numbers, the nearest float.

    >>> share_left(4.0, 0.0, 6.0, 0.0), 1 - 4 / 6
    (0.3333333333333333, 0.33333333333333337)
    """
    difference, low = two_sum(whole, -part)
    low += whole_low - part_low
    quotient = (difference + low) / whole
    again, again_low = two_product(quotient, whole)
    return quotient + (((difference - again) - again_low) + (low - quotient * whole_low)) / whole


@inner
def power(base: float, exponent: int) -> float:
    """base^exponent for a whole exponent >= 0, by repeated squaring.

    >>> power(3.0, 5), power(0.5, 3), power(0.0, 0)
    (243.0, 0.125, 1.0)
    """
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        exponent >>= 1
        if exponent:
            base *= base
    return result


@inner
def halved(gap: int, half_life: int) -> float:
    """2^(-gap/half_life), for whole numbers; 1 for a gap below 0.

    With gap = q·half_life + r, it is 2^-q·e^(-ln 2·r/half_life). The first factor is exact; the error of the
    second one is at most two units in the last place.

    >>> halved(0, 5), halved(15, 5), halved(1, 2), halved(1 << 60, 1), halved(-7, 5)
    (1.0, 0.125, 0.7071067811865475, 0.0, 1.0)
    """
    if gap <= 0:
        return 1.0
    whole = gap // half_life
    if whole > _HALVES:
        return 0.0
    part = float(gap - whole * half_life) / float(half_life)
    return math.ldexp(exp(-_LN2 * part), -int(whole))


@inner
def root(x: float, k: int) -> float:
    """The k-th root of x >= 0, k >= 1.

    The result is e^(ln(x)/k), corrected by one step of Newton's method, which removes the logarithm's error.

    >>> root(0.3, 1), root(9.0, 2), root(27.0, 3), root(0.0, 7)
    (0.3, 3.0, 3.0, 0.0)
    """
    if k == 1 or x == 0.0:
        return x
    if k == 2:
        return math.sqrt(x)
    near = exp(log(x) / k)
    back = power(near, k)
    if _TINY < back < _HUGE:  # elsewhere the precision is too low for a correction
        near += near * ((x - back) / back / k)
    return near


#: 1/sqrt(2π)
_DENSITY_AT_0 = 0.39894228040143267794

#: Up to `_FAR`, the tail is 1 minus a series. Beyond it, the difference loses digits, so a continued fraction
#: is used, which is exact after `_TERMS` terms.
_FAR, _TERMS = 2.5, 100


def density(z: float) -> float:
    """Density of the standard normal distribution.

    >>> density(0.0), density(1.0) == density(-1.0)
    (0.39894228040143..., True)
    """
    return _DENSITY_AT_0 * exp(-z * z / 2)


def both_tails(z: float) -> float:
    """The standard normal distribution's probability of being farther from 0 than z >= 0: 2·(1 - Φ(z)).

    >>> both_tails(0.0), both_tails(1.959963984540054), both_tails(5.0)
    (1.0, 0.0499999999999..., 5.73303143758...e-07)
    """
    if z > _FAR:  # Mills' ratio: 1/(z + 1/(z + 2/(z + 3/(z + …))))
        fraction = z
        for k in range(_TERMS, 0, -1):
            fraction = z + k / fraction
        return 2 * density(z) / fraction
    term = total = z  # Φ(z) - 1/2 = density·(z + z³/3 + z⁵/(3·5) + …)
    k = 1
    while term > total * math.ulp(1.0):
        k += 2
        term *= z * z / k
        total += term
    return 1 - 2 * density(z) * total
