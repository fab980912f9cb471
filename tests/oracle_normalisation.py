"""Exact values of the measures that are normalised, and normalised values from all matrices (2019 paper)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import index

import numpy as np

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


def level(measure: str, tp: int, fn: int, fp: int, tn: int) -> Fraction:
    """The exact value of a measure; of `g_mean` and `mcc` the square with the value's sign.

    >>> level("precision", 9, 1, 1, 9), level("mcc", 1, 9, 9, 1), level("precision", 0, 10, 0, 10)
    (Fraction(9, 10), Fraction(-16, 25), Fraction(0, 1))
    """
    # `index` lets no float in, and of numpy's integers none that could overflow.
    top, bottom = RATIOS[measure](index(tp), index(fn), index(fp), index(tn))
    return Fraction(top, bottom) if bottom else Fraction(0)


def normalised(measure: str, tp: int, fn: int, fp: int, tn: int) -> float:
    """The share of matrices with the same labels whose level is at most this one's, of at most 200 outcomes.

    >>> normalised("recall", 3, 1, 5, 5), normalised("precision", 9, 1, 1, 149)
    (0.8, 0.9933...)
    """
    p, n = tp + fn, fp + tn
    hits, false = (grid.ravel() for grid in np.meshgrid(np.arange(p + 1), np.arange(n + 1), indexing="ij"))
    top, bottom = RATIOS[measure](hits, p - hits, false, n - false)  # type: ignore[arg-type]
    bound = level(measure, tp, fn, fp, tn)
    whole = np.broadcast_to(bottom, hits.shape)
    is_at_most = np.where(whole == 0, bound >= 0, top * bound.denominator <= bound.numerator * whole)
    return int(np.count_nonzero(is_at_most)) / ((p + 1) * (n + 1))
