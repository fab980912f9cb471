"""Deciles of predicted numbers for the test oracle: bins as lists, merged one by one.

Where more different predictions come than there is room for, what is said depends on which bins are merged,
so this does it in the order that docs/reference/measures.md says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

BINS = 64
SAME = 1e-12
NOTHING = 1e-200  # a weight below it is none

Bin = list[float]  # weight, mean prediction, sum of labels, sum of |prediction - label|


def add(bins: list[Bin], y: float, h: float) -> None:
    """Add an outcome to bins that are in order of their predictions."""
    x = y + (h - y)
    place = bisect_left([one[1] for one in bins], x)
    for one in bins[max(0, place - 1) : place + 1]:
        if abs(one[1] - x) <= SAME * (abs(x) + abs(y)):
            one[0], one[2], one[3] = one[0] + 1.0, one[2] + y, one[3] + abs(h - y)
            return
    bins.insert(place, [1.0, x, y, abs(h - y)])
    if len(bins) > BINS:
        at = min(range(BINS), key=lambda i: (bins[i][0] + bins[i + 1][0]) * (bins[i + 1][1] - bins[i][1]))
        (v, a, *sums), (w, b, *more) = bins[at : at + 2]
        bins[at : at + 2] = [[v + w, a + (b - a) * (w / (v + w)), sums[0] + more[0], sums[1] + more[1]]]


def bins_of(outcomes: Iterable[tuple[float, float, float]]) -> list[Bin]:
    """The bins of outcomes: of each what is left of what was before, its label, its prediction.

    >>> bins_of([(1.0, 2.0, 1.0), (0.5, 3.0, 1.0)])
    [[1.5, 1.0, 4.0, 2.5]]
    """
    bins: list[Bin] = []
    for left, y, h in outcomes:
        bins = [[w * left, mean, labels * left, errors * left] for w, mean, labels, errors in bins]
        bins = [one for one in bins if one[0] >= NOTHING]
        add(bins, y, h)
    return bins


def residuals(outcomes: Iterable[tuple[float, float, float]]) -> dict[str, Any] | None:
    """The field of messages, of outcomes as in `bins_of`: by decile; None of fewer than ten.

    >>> found = residuals((1.0, 2.0 * i, float(i)) for i in range(20))
    >>> found["predicted"][:2], found["actual"][9], found["mae"][9]
    ([0.5, 2.5], 37.0, 18.5)
    """
    bins = bins_of(outcomes)
    n = sum(w for w, *_ in bins)
    if n < 10:
        return None
    ends = [0.0]
    for w, *_ in bins:
        ends.append(ends[-1] + w)
    found: dict[str, Any] = {"n": n, "predicted": [], "actual": [], "mae": []}
    for decile in range(10):
        low, high = decile * n / 10, (decile + 1) * n / 10
        parts = [max(0.0, min(high, end) - max(low, begin)) for begin, end in pairwise(ends)]
        total = sum(parts)
        shares = [(part / total, one) for part, one in zip(parts, bins)]
        found["predicted"].append(sum(share * one[1] for share, one in shares))
        found["actual"].append(sum(share * one[2] / one[0] for share, one in shares))
        found["mae"].append(sum(share * one[3] / one[0] for share, one in shares))
    return found
