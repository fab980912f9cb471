"""Measures of how scores rank outcomes: positives before negatives.

Their input is the number of outcomes with equal score, by class: of a window's scores, or a histogram's bins.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, inner
from prequential.engine.compiled.mathematics import log
from prequential.engine.measures.declaration import (
    DEFINED,
    NO_NEGATIVES,
    NO_POSITIVES,
    RANKS,
    TOO_FEW,
    Result,
    measure,
)

#: From so much on the series of the digamma function has all digits.
_LARGE = 12.0


class Ranks(NamedTuple):
    """Outcomes by their score, from the lowest group of equal ones to the highest; there is at least one."""

    positives: Floats  # (groups,) outcomes of the positive class, or their weight
    negatives: Floats  # (groups,)
    groups: int  # how many of them are in use
    least: float = 0.0  # outcomes of each class, or their weight, with fewer of which ranks aren't known well


@measure(
    RANKS, "share of pairs (positive, negative) ranked rightly by p(positive class); ties half", low=0,
    high=1, undefined=(NO_POSITIVES, NO_NEGATIVES, TOO_FEW), help="Area under the ROC curve of the scores",
)  # fmt: skip
@inner
def auc(r: Ranks) -> Result:
    """Share of the pairs (positive, negative) in which the positive has the larger score; ties count half.

    If outcomes have weights, the weight of a pair is their product. Sums of integers are exact.

    >>> import numpy as np
    >>> auc(Ranks(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0]), 3))
    (0.875, 0)
    """
    positives = below = twice = 0.0
    for i in range(r.groups):
        twice += r.positives[i] * (2.0 * below + r.negatives[i])
        positives += r.positives[i]
        below += r.negatives[i]
    if positives <= 0.0:
        return 0.0, NO_POSITIVES
    if below <= 0.0:
        return 0.0, NO_NEGATIVES
    if min(positives, below) < r.least:
        return 0.0, TOO_FEW
    return min(1.0, twice / (2.0 * positives * below)), DEFINED


@measure(
    RANKS, "average precision: mean over the positives of the precision of all that score no less; ties in "
    "the mean of all their orders", "McSherry and Najork 2008", low=0, high=1,
    undefined=(NO_POSITIVES, TOO_FEW),
    help="Area under the precision-recall curve of the scores (average precision)",
)  # fmt: skip
@inner
def pr_auc(r: Ranks) -> Result:
    """Average precision: the mean of the precision at the rank of each positive.

    Among outcomes of equal score, it is the mean over all their orders. Let there be m such outcomes, p of
    them positive, after N others of which T are positive. Each rank i = 1 … m has a positive with probability
    p/m, and its expected precision is then (T + 1 + (i - 1)·a)/(N + i) with a = (p - 1)/(m - 1). With the
    harmonic numbers H, these sum up to

        a·m + (T + 1 - a·(N + 1))·(H(N + m) - H(N)).

    Weights count as such numbers. A weight of positives below 1 counts as a single positive of that weight.

    References
    ----------
    McSherry, Najork: Computing information retrieval performance measures efficiently in the presence of tied
    scores, ECIR 2008, doi:10.1007/978-3-540-78646-7_38.

    Examples
    --------
    >>> import numpy as np
    >>> pr_auc(Ranks(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]), 3))  # (1 + 2/3)/2
    (0.8333333333333333, 0)
    """
    before = all_before = total = 0.0
    harmonic = _digamma(1.0)
    for i in range(r.groups - 1, -1, -1):
        p = r.positives[i]
        m = p + r.negatives[i]
        if m <= 0.0:
            continue
        beyond = _digamma(all_before + m + 1.0)
        if p > 0.0:
            own = min(1.0, p)
            if m <= 1.0:
                precision = (before + own) / (all_before + m)
            else:
                a = (p - own) / (m - 1.0)
                rest = before + own - a * (all_before + 1.0)
                precision = a + rest * (beyond - harmonic) / m
            total += p * precision
        before += p
        all_before += m
        harmonic = beyond
    if before <= 0.0:
        return 0.0, NO_POSITIVES
    if min(before, all_before - before) < r.least:
        return 0.0, TOO_FEW
    return min(1.0, max(0.0, total / before)), DEFINED


@inner
def _digamma(x: float) -> float:
    """ψ(x) of x >= 1: ψ(x + 1) - ψ(1) is the harmonic number of a whole x.

    By ψ(x) = ψ(x + 1) - 1/x up to where its asymptotic series holds (Abramowitz and Stegun, 6.3.18).
    """
    shifted = 0.0
    while x < _LARGE:
        shifted += 1.0 / x
        x += 1.0
    s = 1.0 / (x * x)
    series = s * (1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - s * (1.0 / 240.0 - s / 132.0))))
    return log(x) - 0.5 / x - series - shifted


@inner
def group(
    p: Floats, is_positive: Bytes, n: int, scratch: Floats, positives_into: Floats, negatives_into: Floats
) -> int:
    """Write the first n scores p, at least one, in groups of equal ones (see `Ranks`), in O(n log n).

    Returns how many groups there are. `scratch` has room for 2·n numbers, the others for n. Neither the
    scores' order nor the way of sorting is in any bit of the result.

    >>> import numpy as np
    >>> p, positive = np.array([0.9, 0.5, 0.5, 0.1]), np.array([1, 1, 0, 0], dtype=np.uint8)
    >>> positives, negatives = np.zeros(4), np.zeros(4)
    >>> group(p, positive, 4, np.empty(8), positives, negatives), positives, negatives
    (3, array([0., 1., 1., 0.]), array([1., 1., 0., 0.]))
    """
    positives = 0
    for i in range(n):
        if is_positive[i]:
            scratch[positives] = p[i]
            positives += 1
    end = positives
    for i in range(n):
        if not is_positive[i]:
            scratch[end] = p[i]
            end += 1
    sort(scratch[:positives], scratch[n:])
    sort(scratch[positives:n], scratch[n:])
    i, j, groups = 0, positives, 0
    while i < positives or j < n:
        score = scratch[j] if i >= positives or (j < n and scratch[j] < scratch[i]) else scratch[i]
        first, second = i, j
        while i < positives and scratch[i] == score:
            i += 1
        while j < n and scratch[j] == score:
            j += 1
        positives_into[groups], negatives_into[groups] = i - first, j - second
        groups += 1
    return groups


@inner
def sort(values: Floats, spare: Floats) -> None:
    """Sort, ascending, by merging; `spare` is at least as long.

    >>> import numpy as np
    >>> values = np.array([3.0, 1.0, 2.0])
    >>> sort(values, np.empty(3))
    >>> values
    array([1., 2., 3.])
    """
    length = len(values)
    width = 1
    while width < length:
        for low in range(0, length, 2 * width):
            middle, high = min(low + width, length), min(low + 2 * width, length)
            left, right = low, middle
            for place in range(low, high):
                if right >= high or (left < middle and values[left] <= values[right]):
                    spare[place] = values[left]
                    left += 1
                else:
                    spare[place] = values[right]
                    right += 1
        for place in range(length):
            values[place] = spare[place]
        width *= 2
