"""Prequential AUC: how well the scores of a window rank positives before negatives."""

from __future__ import annotations

from prequential.core.compiled.kernel import Bytes, Floats, inner
from prequential.core.measures.declaration import DEFINED, NO_NEGATIVES, NO_POSITIVES, RANKS, Result, measure


@measure(
    RANKS, "share of pairs (positive, negative) ranked rightly by p(positive class); ties half", low=0,
    high=1, undefined=(NO_POSITIVES, NO_NEGATIVES), help="Area under the ROC curve over a window's scores",
)  # fmt: skip
@inner
def auc(p: Floats, is_positive: Bytes, n: int, scratch: Floats) -> Result:
    """Share of the pairs (positive, negative) in which the positive has the larger score; ties count half.

    Of the first n scores p, in O(n log n); `scratch` has room for 2·n. Pairs are counted, so neither their
    order nor the way of sorting is in any bit of the result.

    >>> import numpy as np
    >>> positive = np.array([1, 1, 0, 0], dtype=np.uint8)
    >>> auc(np.array([0.9, 0.5, 0.5, 0.1]), positive, 4, np.empty(8))
    (0.875, 0)
    """
    positives = 0
    for i in range(n):
        if is_positive[i]:
            scratch[positives] = p[i]
            positives += 1
    if positives == 0:
        return 0.0, NO_POSITIVES
    if positives == n:
        return 0.0, NO_NEGATIVES
    end = positives
    for i in range(n):
        if not is_positive[i]:
            scratch[end] = p[i]
            end += 1
    sort(scratch[:positives], scratch[n:])
    sort(scratch[positives:n], scratch[n:])
    twice = 0  # pairs ranked rightly, and half of the ties
    below = not_above = positives  # negatives up to here are so, of the positive at hand
    for i in range(positives):
        while below < n and scratch[below] < scratch[i]:
            below += 1
        while not_above < n and scratch[not_above] <= scratch[i]:
            not_above += 1
        twice += below + not_above - 2 * positives
    return twice / (2.0 * positives * (n - positives)), DEFINED


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
