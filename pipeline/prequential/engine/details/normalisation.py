"""Normalised measures, and how a measure moves when only the class ratio does (2019 paper, III-B and IV-B).

With P positive and N negative labels there are (P+1)(N+1) binary matrices, one for each tp in 0 … P and
fp in 0 … N. All are taken as equally probable, and a measure's value x is replaced by the share of those
whose value is at most x (eq. 10). So values of different measures and class ratios have one scale.

The matrices aren't enumerated. For most measures, "at most x" is a half-plane of (tp, fp), whose points
Euclid's algorithm counts; the matrix itself is on its border. For `g_mean` it is the region under a
hyperbola, and for `mcc` the region next to an ellipse; both are counted line by line. The first six cost
O(log(P+N)), these two O(P+N). All counts are exact for P+N up to `MOST`: whole numbers have 64 bits, and two
products that are compared have 128. As in the paper's count, a value that is undefined is 0.

A binary matrix is a point of a regular tetrahedron: the mean of its vertices, weighted by the cells. The
vertices are TP = (-1, 1, 1), FP = (-1, -1, -1), FN = (1, -1, 1) and TN = (1, 1, -1). Then z = (P-N)/n in
[-1, 1] is the class ratio. The two other coordinates describe what is predicted, x = (N̂-P̂)/n, and what is
right, y = (T-F)/n. Along z, with x and y constant, labels change sides. Per unit of z, a net quarter of all
outcomes goes from FP to TP, and another quarter from TN to FN:

    dM/dz = (n/4)·(∂M/∂TP + ∂M/∂FN - ∂M/∂FP - ∂M/∂TN),

So P gains n/2 and N loses n/2, while P̂, N̂ and the number of right outcomes stay. A measure whose gradient
is far from 0 moves when the class ratio does, even if the share of right predictions stays.

Below, cells are shares of all outcomes (no measure depends on their unit), and n is 1. Divisions come one
after another, because the square of a class's faded share may be too small for a float.
"""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled import wide
from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures.per_class import Binary

#: The measures, in the order of the paper's equations 1 to 8, and their places.
MEASURES = ("accuracy", "balanced_accuracy", "kappa", "g_mean", "f1", "precision", "recall", "mcc")
_ACCURACY, _BALANCED, _KAPPA, _G_MEAN, _F1, _PRECISION, _RECALL, _MCC = range(len(MEASURES))

#: Outcomes up to which values are normalised: two measures take time in proportion to them, so that a
#: message about so many costs about 1 ms more.
MOST = 100_000

#: Bound of the rounding error of an ellipse's border, in units of P+N: eight roundings of 2^-53 each, on
#: terms of at most 1.25·(P+N), come to less than 2^-49.
_ROUNDING = 2.0**-49

#: A quotient beyond this is beyond every line and column.
_BEYOND = 1 << 40


@inner
def put_normalised(b: Binary, into: Floats) -> bool:
    """Write N(M, P:N, x) of eq. 10 of each of `MEASURES`, with x the value of M of this matrix of counts.

    Values are in (0, 1], and 1 where nothing is better. Returns whether there are any: none are written if a
    class has no label, or for more than `MOST` outcomes.

    A precision of 0.9 is rare where positives are few, and common where they are many (the paper's example):

    >>> into, rare, common = np.zeros(8), Binary(9, 1, 1, 149), Binary(90, 60, 9, 1)
    >>> [put_normalised(b, into) and float(into[5]) for b in (rare, common)]
    [0.9933..., 0.3...]
    """
    tp, fn, fp, tn = int(b.tp), int(b.fn), int(b.fp), int(b.tn)
    p, n = tp + fn, fp + tn
    if p == 0 or n == 0 or p + n > MOST:
        return False
    every = float((p + 1) * (n + 1))
    determinant = tp * tn - fp * fn
    # Of kappa, 2·determinant/level: both are linear in (tp, fp).
    level, steeper = p * (fn + tn) + (tp + fp) * n, determinant * (n - p)
    into[_ACCURACY] = _beside_line(p, n, tp, fp, 1, -1) / every
    into[_BALANCED] = _beside_line(p, n, tp, fp, n, -p) / every
    into[_KAPPA] = _beside_line(p, n, tp, fp, n * level - steeper, -p * level - steeper) / every
    into[_G_MEAN] = _under_hyperbola(p, n, tp * tn) / every
    into[_F1] = _beside_line(p, n, tp, fp, p + fp, -tp) / every
    into[_PRECISION] = _beside_line(p, n, tp, fp, fp if tp + fp else 1, -tp) / every
    into[_RECALL] = float(tp + 1) / float(p + 1)
    into[_MCC] = _beside_ellipse(p, n, tp, fp) / every
    return True


@inner
def _quotient(a: int, times: int, divisor: int) -> tuple[int, int]:
    """The floor of a·times/divisor, and the rest; divisor > 0. The product may have more than 64 bits.

    Numbers are below 2^53. Without the compiler, whole numbers have any size; with it they wrap around, which
    the difference undoes. A floor beyond `_BEYOND` is the bound, without a rest.

    >>> _quotient(10**15 + 1, 10**5, 10**15), _quotient(-7, 1, 2), _quotient(10**15, 10**5, 3)[0] == 1 << 40
    ((100000, 100000), (-4, 1), True)
    """
    near = float(a) * float(times) / float(divisor)
    if near > _BEYOND:
        return _BEYOND, 0
    if near < -_BEYOND:
        return -_BEYOND, 0
    floor = math.floor(near)
    rest = a * times - floor * divisor
    while rest < 0:
        floor, rest = floor - 1, rest + divisor
    while rest >= divisor:
        floor, rest = floor + 1, rest - divisor
    return floor, rest


@inner
def _beside_line(width: int, height: int, x: int, y: int, a: int, b: int) -> int:
    """Points (i, j) of 0 … `width` and 0 … `height` with a·(i - x) + b·(j - y) <= 0.

    (x, y) is one of these points; a and b aren't both 0.
    """
    if a < 0:  # count i, and below j, from the other end
        a, x = -a, width - x
    if b < 0:
        b, y = -b, height - y
    if b == 0:
        return (x + 1) * (height + 1)
    if a == 0:
        return (width + 1) * (y + 1)
    # Column i has y + 1 + floor(a·(x - i)/b) points: first all of them, and none after `last`.
    full = x + 1 + _quotient(b, y - height, a)[0]
    columns = max(0, full)
    last = min(width, x + _quotient(b, y, a)[0])
    beyond = last + 1 - columns
    if beyond <= 0:
        return columns * (height + 1)
    floor, rest = _quotient(a, x - last, b)
    return columns * (height + 1) + beyond * (y + 1 + floor) + _floor_sum(beyond, b, a, rest)


@inner
def _floor_sum(count: int, m: int, a: int, b: int) -> int:
    """Σ floor((a·i + b)/m) of 0 <= i < `count`, with a >= 0, m > 0 and 0 <= b < m, by Euclid's algorithm.

    >>> _floor_sum(10, 7, 3, 5), sum((3 * i + 5) // 7 for i in range(10))
    (22, 22)
    """
    total = 0
    while count > 0:
        total += count * (count - 1) // 2 * (a // m)
        a %= m
        # What is left lies under a line with slope below 1: exchange the axes.
        lines, rest = _quotient(a, count, m)
        rest += b
        if rest >= m:
            lines, rest = lines + 1, rest - m
        count, b = lines, rest
        m, a = a, m
        if count > 0:
            total += count * (b // m)
            b %= m
    return total


@inner
def _under_hyperbola(p: int, n: int, area: int) -> int:
    """Matrices with tp·tn <= `area`."""
    smaller, larger = min(p, n), max(p, n)  # tp and tn change places freely, so there are few lines
    full = area // larger  # up to here all points of a line lie under the hyperbola
    count = (full + 1) * (larger + 1) + smaller - full
    for line in range(full + 1, smaller + 1):
        count += area // line
    return count


@inner
def _beside_ellipse(p: int, n: int, tp: int, fp: int) -> int:
    """Matrices whose `mcc` is at most that of the matrix with these tp and fp.

    With s = tp + fp, the determinant tp·tn - fp·fn is (P+N)·tp - P·s. So on a line of equal s, matrices up to
    some tp have a determinant <= ±sqrt(K·s·(P+N-s)): a border that can be written down.
    """
    whole, predicted = p + n, tp + fp
    determinant = whole * tp - p * predicted
    if determinant == 0:
        return _beside_line(p, n, tp, fp, n, -p)
    if fp == 0 and tp == p:
        return (p + 1) * (n + 1)
    sign, others = 1 if determinant > 0 else -1, predicted * (whole - predicted)
    ratio = float(determinant) * float(determinant) / float(others)
    count = 2 if sign > 0 else 0  # s = 0 and s = P+N: undefined, hence 0
    slack = _ROUNDING * whole
    for s in range(1, whole):
        border = (p * s + sign * math.sqrt(float(s * (whole - s)) * ratio)) / whole
        last = math.floor(border - slack)
        # A border this close to an integer may be beyond it or not: few lines, mostly ties.
        if math.floor(border + slack) != last and _is_beside(
            whole * (last + 1) - p * s, others, determinant, s * (whole - s)
        ):
            last += 1
        count += max(0, min(last, s, p) - max(0, s - n) + 1)
    return count


@inner
def _is_beside(value: int, others: int, determinant: int, product: int) -> bool:
    """Whether value/sqrt(product) <= determinant/sqrt(others), exactly."""
    if (value > 0) != (determinant > 0):
        return value <= 0
    square, bound = np.uint64(value * value), np.uint64(determinant * determinant)
    high, low = wide.product(square, np.uint64(others))
    most, most_low = wide.product(bound, np.uint64(product))
    if value > 0:
        return bool(high < most or (high == most and low <= most_low))
    return bool(high > most or (high == most and low >= most_low))


#: A measure with a gradient up to this doesn't move with the class ratio. Rounding may leave it of 0: shares
#: have 16 digits, and differences of quotients by shares down to a millionth keep it far below.
TOLERANCE = 1e-9


@inner
def put_gradients(b: Binary, into: Floats) -> None:
    """Write dM/dz of each of `MEASURES` at a matrix of counts or weights; NaN where it or M has no value.

    >>> into = np.zeros(8)
    >>> put_gradients(Binary(40.0, 10.0, 10.0, 40.0), into)
    >>> float(into[5]), float(into[2])
    (0.5, 0.0)
    >>> put_gradients(Binary(0.0, 0.0, 0.0, 100.0), into)
    >>> into.tolist()
    [0.0, nan, nan, nan, nan, nan, nan, nan]
    """
    whole = float(b.tp) + float(b.fn) + float(b.fp) + float(b.tn)
    if whole == 0.0:
        for i in range(len(MEASURES)):
            into[i] = math.nan
        return
    tp, fn, fp, tn = float(b.tp) / whole, float(b.fn) / whole, float(b.fp) / whole, float(b.tn) / whole
    into[_ACCURACY] = 0.0  # TP + TN doesn't change
    into[_BALANCED] = (_recall(tp, fn) - _recall(tn, fp)) / 2  # half of recall's, and of specificity's
    into[_KAPPA] = _kappa(tp, fn, fp, tn)
    into[_G_MEAN] = _g_mean(tp, fn, fp, tn)
    into[_F1] = _f1(tp, fn, fp)
    into[_PRECISION] = 1 / (tp + fp) / 4 if tp + fp > 0.0 else math.nan
    into[_RECALL] = _recall(tp, fn)
    into[_MCC] = _mcc(tp, fn, fp, tn)
    for i in range(len(MEASURES)):
        if not math.isfinite(into[i]):
            into[i] = math.nan


@inner
def _recall(tp: float, fn: float) -> float:
    """(FN-TP)/(4·P²)."""
    return (fn - tp) / (tp + fn) / (tp + fn) / 4 if tp + fn > 0.0 else math.nan


@inner
def _kappa(tp: float, fn: float, fp: float, tn: float) -> float:
    """(N̂-P̂)·F/(2E²) with E = P·N̂ + P̂·N and F = FN + FP; also (N̂-P̂)·(1-kappa)/(2E)."""
    e = (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)
    return ((fn + tn) - (tp + fp)) / e * ((fn + fp) / e) / 2 if e > 0.0 else math.nan


@inner
def _g_mean(tp: float, fn: float, fp: float, tn: float) -> float:
    """G/8·((FN-TP)/(TP·P) + (TN-FP)/(TN·N)); none where G is 0, and its root has no derivative."""
    p, n = tp + fn, fp + tn
    if tp == 0.0 or tn == 0.0:
        return math.nan
    return math.sqrt(tp / p * (tn / n)) * ((fn - tp) / tp / p + (tn - fp) / tn / n) / 8


@inner
def _f1(tp: float, fn: float, fp: float) -> float:
    """F/(2·(P+P̂)²), of F1 = 2·TP/(P+P̂), which is 0 where precision and recall both are.

    Where one of the two has no value, F1 has none either.
    """
    p, predicted = tp + fn, tp + fp
    if p == 0.0 or predicted == 0.0:
        return math.nan
    return (fn + fp) / (p + predicted) / (p + predicted) / 2


@inner
def _mcc(tp: float, fn: float, fp: float, tn: float) -> float:
    """(N̂-P̂ - D·(1/P-1/N))/(4·sqrt(P̂·P·N·N̂)) with D = TP·TN - FP·FN."""
    p, n = tp + fn, fp + tn
    root = math.sqrt(tp + fp) * math.sqrt(p) * math.sqrt(n) * math.sqrt(fn + tn)
    if p == 0.0 or n == 0.0 or root == 0.0:
        return math.nan
    return ((fn + tn) - (tp + fp) - (tp * tn - fp * fn) * (1 / p - 1 / n)) / root / 4
