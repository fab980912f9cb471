"""How a measure moves when only the class ratio does: the z component of its gradient (2019 paper, IV-B).

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

#: A component below this is what rounding may leave of 0: shares have 16 digits, and differences of
#: quotients by shares down to a millionth keep it far below.
TOLERANCE = 1e-9


def _accuracy(tp: float, fn: float, fp: float, tn: float) -> float:
    """0 everywhere: TP + TN doesn't change."""
    return 0.0


def _balanced_accuracy(tp: float, fn: float, fp: float, tn: float) -> float:
    """((FN-TP)/P² + (TN-FP)/N²)/8: half of recall's and of specificity's."""
    return (_recall(tp, fn, fp, tn) - _recall(tn, fp, fn, tp)) / 2


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


def _precision(tp: float, fn: float, fp: float, tn: float) -> float:
    """1/(4·P̂)."""
    return 1 / (tp + fp) / 4


def _recall(tp: float, fn: float, fp: float, tn: float) -> float:
    """(FN-TP)/(4·P²)."""
    return (fn - tp) / (tp + fn) / (tp + fn) / 4


def _mcc(tp: float, fn: float, fp: float, tn: float) -> float:
    """(N̂-P̂ - D·(1/P-1/N))/(4·sqrt(P̂·P·N·N̂)) with D = TP·TN - FP·FN."""
    p, n = tp + fn, fp + tn
    root = math.sqrt(tp + fp) * math.sqrt(p) * math.sqrt(n) * math.sqrt(fn + tn)
    return ((fn + tn) - (tp + fp) - (tp * tn - fp * fn) * (1 / p - 1 / n)) / root / 4


#: Closed forms, in the order of the paper's equations 1 to 8.
GRADIENTS: dict[str, Callable[[float, float, float, float], float]] = {
    function.__name__[1:]: function
    for function in (_accuracy, _balanced_accuracy, _kappa, _g_mean, _f1, _precision, _recall, _mcc)
}


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


def moves_with_class_ratio(tp: float, fn: float, fp: float, tn: float) -> list[str]:
    """Measures that a shift of the class ratio alone would move: |dM/dz| > `TOLERANCE`.

    >>> moves_with_class_ratio(40, 10, 10, 40)
    ['f1', 'precision', 'recall']
    """
    return [m for m, value in class_ratio_gradients(tp, fn, fp, tn).items() if abs(value) > TOLERANCE]
