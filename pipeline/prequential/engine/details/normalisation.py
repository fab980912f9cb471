"""Normalised measures, and how a measure moves when only the class ratio does (2019 paper, III-B and IV-B).

With P positive and N negative labels there are (P+1)(N+1) binary matrices, one for each tp in 0 … P and
fp in 0 … N. All are taken as equally probable, and a measure's value x is replaced by the share of those
whose value is at most x (eq. 10). So values of different measures and class ratios have one scale.

The matrices aren't enumerated. For most measures, "at most x" is a half-plane of (tp, fp), whose points
Euclid's algorithm counts. For `g_mean` it is the region under a hyperbola, and for `mcc` the region next to
an ellipse; both are counted line by line. The first six cost O(log(P+N)), these two O(P+N). All counts are
exact, those of the two for P+N up to 2^26: no product and no sum is then too large for a float or 64 bits.

A value's *level* is the value as a fraction; for the two roots it is the square with the value's sign,
which has the same order. As in the paper's count, a value that is undefined is 0.

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
from collections.abc import Callable
from fractions import Fraction
from operator import index

import numpy as np

#: Lines evaluated at once; bounds the memory, and stays in the processor's cache.
_BLOCK = 1 << 12

#: Bound of the rounding error of an ellipse's border, in units of P+N: six roundings of 2^-53 each, on
#: terms of at most 1.25·(P+N), come to less than 2^-50.
_ROUNDING = 2.0**-50

#: Numerator and denominator of each measure's level (equations 1 to 8), from tp, fn, fp, tn.
RATIOS: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "accuracy": lambda tp, fn, fp, tn: (tp + tn, tp + fn + fp + tn),
    "balanced_accuracy": lambda tp, fn, fp, tn: (tp * (fp + tn) + tn * (tp + fn), 2 * (tp + fn) * (fp + tn)),
    "kappa": lambda tp, fn, fp, tn: (2 * (tp * tn - fp * fn), (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)),
    "g_mean": lambda tp, fn, fp, tn: (tp * tn, (tp + fn) * (fp + tn)),
    "f1": lambda tp, fn, fp, tn: (2 * tp, 2 * tp + fn + fp),
    "precision": lambda tp, fn, fp, tn: (tp, tp + fp),
    "recall": lambda tp, fn, fp, tn: (tp, tp + fn),
    "mcc": lambda tp, fn, fp, tn: (
        (d := tp * tn - fp * fn) * abs(d), (tp + fp) * (tp + fn) * (fp + tn) * (fn + tn),
    ),
}  # fmt: skip

#: Their least value is -1; that of the others is 0.
_SIGNED = {"kappa", "mcc"}

#: Undefined or 0 for every matrix in which one class has no label.
_OF_BOTH_CLASSES = {"balanced_accuracy", "kappa", "g_mean", "mcc"}


def level(measure: str, tp: int, fn: int, fp: int, tn: int) -> Fraction:
    """The exact value of a measure; of `g_mean` and `mcc` the square with the value's sign.

    >>> level("precision", 9, 1, 1, 9), level("mcc", 1, 9, 9, 1), level("precision", 0, 10, 0, 10)
    (Fraction(9, 10), Fraction(-16, 25), Fraction(0, 1))
    """
    # `index` lets no float in, and of numpy's integers none that could overflow.
    top, bottom = RATIOS[measure](index(tp), index(fn), index(fp), index(tn))
    return Fraction(top, bottom) if bottom else Fraction(0)


def normalised(measure: str, tp: int, fn: int, fp: int, tn: int) -> float:
    """N(M, P:N, x) of eq. 10, with x the value of M of this matrix: in (0, 1], 1 where nothing is better.

    A precision of 0.9 is rare where positives are few, and common where they are many:

    >>> normalised("precision", 9, 1, 1, 149), normalised("precision", 90, 60, 10, 0)
    (0.9933..., 0.3046...)
    """
    p, n = index(tp) + index(fn), index(fp) + index(tn)
    return count_at_most(measure, p, n, level(measure, tp, fn, fp, tn)) / ((p + 1) * (n + 1))


def count_at_most(measure: str, positives: int, negatives: int, bound: Fraction) -> int:
    """Matrices of so many labels whose level of the measure is at most `bound`.

    The paper's example, precision 0.9 with 150:10 and 10:150 labels, each of 1661 matrices:

    >>> x = Fraction(9, 10)
    >>> count_at_most("precision", 150, 10, x), count_at_most("precision", 10, 150, x)
    (506, 1650)
    """
    ratio = RATIOS[measure]
    p, n = index(positives), index(negatives)
    every = (p + 1) * (n + 1)
    if measure in _OF_BOTH_CLASSES and not (p and n):
        return every if bound >= 0 else 0
    if bound < (-1 if measure in _SIGNED else 0):
        return 0
    if bound >= 1:
        return every
    if measure == "g_mean":
        return _under_hyperbola(p, n, bound)
    if measure == "mcc":
        if bound:
            return _beside_ellipse(p, n, bound)
        ratio = RATIOS["kappa"]  # has the same sign

    def excess(tp: int, fp: int) -> int:
        """Linear, since all labels are given; at most 0 where the measure is at most the bound."""
        top, bottom = ratio(tp, p - tp, fp, n - fp)
        return top * bound.denominator - bottom * bound.numerator

    start = excess(0, 0)
    return _in_half_plane(p, n, excess(1, 0) - start, excess(0, 1) - start, -start)


def _in_half_plane(width: int, height: int, a: int, b: int, c: int) -> int:
    """Points (i, j) of 0 … `width` and 0 … `height` with a·i + b·j <= c."""
    if a < 0:  # count i, and below j, from the other end
        a, c = -a, c - a * width
    if b < 0:
        b, c = -b, c - b * height
    if c < 0:
        return 0
    last = min(width, c // a) if a else width  # the last column that isn't empty
    if not b:
        return (last + 1) * (height + 1)
    full = c - b * height  # if >= 0, columns up to full // a are full
    columns = 0 if full < 0 else min(width, full // a) + 1 if a else width + 1
    beyond = last + 1 - columns
    return columns * (height + 1) + beyond + _floor_sum(beyond, b, a, c - a * last)


def _floor_sum(count: int, m: int, a: int, b: int) -> int:
    """Σ floor((a·i + b)/m) of 0 <= i < `count`, with a, b >= 0 and m > 0, by Euclid's algorithm."""
    total = 0
    while count:
        total += count * (count - 1) // 2 * (a // m) + count * (b // m)
        a, b = a % m, b % m
        # What is left lies under a line with slope below 1: exchange the axes.
        count, b = divmod(a * count + b, m)
        m, a = a, m
    return total


def _under_hyperbola(p: int, n: int, bound: Fraction) -> int:
    """Matrices with tp·tn <= bound·P·N."""
    area = bound.numerator * p * n // bound.denominator
    smaller, larger = min(p, n), max(p, n)  # tp and tn change places freely, so there are few lines
    full = area // larger  # up to here all points of a line lie under the hyperbola
    count = (full + 1) * (larger + 1) + smaller - full
    for start in range(full + 1, smaller + 1, _BLOCK):
        count += int((area // np.arange(start, min(start + _BLOCK, smaller + 1), dtype=np.int64)).sum())
    return count


def _beside_ellipse(p: int, n: int, bound: Fraction) -> int:
    """Matrices with tp·tn - fp·fn <= ±sqrt(|bound|·P·N·s·(P+N-s)), s = tp + fp, and the sign of `bound`.

    The left side is (P+N)·tp - P·s, so a line of equal s ends at a tp that can be written down.
    """
    whole = p + n
    top, bottom = abs(bound.numerator) * p * n, bound.denominator
    sign = 1 if bound > 0 else -1

    def last(s: int) -> int:
        """The largest tp of a line, exactly; as if tp had no limits."""
        square = top * s * (whole - s)
        root = math.isqrt(square // bottom) if sign > 0 else -1 - math.isqrt((square - 1) // bottom)
        return (p * s + root) // whole

    count = 2 if sign > 0 else 0  # s = 0 and s = P+N: undefined, hence 0
    slack = _ROUNDING * whole
    for start in range(1, whole, _BLOCK):
        s = np.arange(start, min(start + _BLOCK, whole), dtype=np.float64)
        border = (p * s + sign * np.sqrt(s * (whole - s) * (top / bottom))) / whole
        tp = np.floor(border - slack)
        # A border this close to an integer may be beyond it or not: few lines, mostly ties.
        unsure = np.flatnonzero(np.floor(border + slack) != tp)
        tp[unsure] = [last(start + offset) for offset in unsure.tolist()]
        least = np.maximum(s - n, 0)
        count += int(np.maximum(np.minimum(tp, np.minimum(s, p)) - least + 1, 0).sum())
    return count


#: A measure with a gradient up to this doesn't move with the class ratio. Rounding may leave it of 0: shares
#: have 16 digits, and differences of quotients by shares down to a millionth keep it far below.
TOLERANCE = 1e-9


def _recall(tp: float, fn: float) -> float:
    """(FN-TP)/(4·P²)."""
    return (fn - tp) / (tp + fn) / (tp + fn) / 4


def _kappa(tp: float, fn: float, fp: float, tn: float) -> float:
    """(N̂-P̂)·F/(2E²) with E = P·N̂ + P̂·N and F = FN + FP; also (N̂-P̂)·(1-kappa)/(2E)."""
    e = (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)
    return ((fn + tn) - (tp + fp)) / e * ((fn + fp) / e) / 2


def _g_mean(tp: float, fn: float, fp: float, tn: float) -> float:
    """G/8·((FN-TP)/(TP·P) + (TN-FP)/(TN·N)); none where G is 0, and its root has no derivative."""
    p, n = tp + fn, fp + tn
    return math.sqrt(tp / p * (tn / n)) * ((fn - tp) / tp / p + (tn - fp) / tn / n) / 8


def _f1(tp: float, fn: float, fp: float, tn: float) -> float:
    """F/(2·(P+P̂)²), of F1 = 2·TP/(P+P̂), which is 0 where precision and recall both are."""
    p, predicted = tp + fn, tp + fp
    if not (p and predicted):
        raise ZeroDivisionError  # one of the two has no value, so neither has F1
    return (fn + fp) / (p + predicted) / (p + predicted) / 2


def _mcc(tp: float, fn: float, fp: float, tn: float) -> float:
    """(N̂-P̂ - D·(1/P-1/N))/(4·sqrt(P̂·P·N·N̂)) with D = TP·TN - FP·FN."""
    p, n = tp + fn, fp + tn
    root = math.sqrt(tp + fp) * math.sqrt(p) * math.sqrt(n) * math.sqrt(fn + tn)
    return ((fn + tn) - (tp + fp) - (tp * tn - fp * fn) * (1 / p - 1 / n)) / root / 4


#: Closed forms, in the order of the paper's equations 1 to 8; that of `balanced_accuracy` is half of recall's
#: and of specificity's.
GRADIENTS: dict[str, Callable[[float, float, float, float], float]] = {
    "accuracy": lambda tp, fn, fp, tn: 0.0,  # TP + TN doesn't change
    "balanced_accuracy": lambda tp, fn, fp, tn: (_recall(tp, fn) - _recall(tn, fp)) / 2,
    "kappa": _kappa, "g_mean": _g_mean, "f1": _f1,
    "precision": lambda tp, fn, fp, tn: 1 / (tp + fp) / 4,
    "recall": lambda tp, fn, fp, tn: _recall(tp, fn),
    "mcc": _mcc,
}  # fmt: skip


def class_ratio_gradient(measure: str, tp: float, fn: float, fp: float, tn: float) -> float | None:
    """dM/dz at a matrix of counts or weights; None where the measure or its derivative has no value.

    >>> class_ratio_gradient("precision", 40, 10, 10, 40), class_ratio_gradient("kappa", 40, 10, 10, 40)
    (0.5, 0.0)
    >>> class_ratio_gradient("recall", 0, 0, 10, 90)
    """
    cells = [float(tp), float(fn), float(fp), float(tn)]  # numpy's would divide by 0
    whole = sum(cells)
    try:
        value = GRADIENTS[measure](*(cell / whole for cell in cells))
    except ZeroDivisionError:
        return None
    return value if math.isfinite(value) else None


def class_ratio_gradients(tp: float, fn: float, fp: float, tn: float) -> dict[str, float]:
    """dM/dz of all measures that have one, by name.

    >>> class_ratio_gradients(0, 0, 0, 100)
    {'accuracy': 0.0}
    """
    gradients = {measure: class_ratio_gradient(measure, tp, fn, fp, tn) for measure in GRADIENTS}
    return {measure: value for measure, value in gradients.items() if value is not None}
