"""Measures of predicted probabilities, and of how scores rank outcomes (see `engine.tables.scores`).

The input of the latter is the number of outcomes with equal score, by class: of a window's scores, or a
histogram's bins.

>>> from prequential.engine.tables.scores import sums_of
>>> log_loss(sums_of({scores.SCORED: 4, scores.LOG_LOSS: 3}))
(0.75, 0)
>>> brier(sums_of({scores.SCORED: 4, scores.BRIER: 0.5}))
(0.125, 0)
>>> in_a_bin = {scores.IN_BIN + 11: 4, scores.CONFIDENCE + 11: 3, scores.RIGHT + 11: 2}
>>> ece(sums_of({scores.SCORED: 4, **in_a_bin}))  # |2/4 - 3/4|
(0.25, 0)
>>> top_k_accuracy(sums_of({scores.RANKED: 4, scores.IN_TOP: 3}))
(0.75, 0)

>>> import numpy as np
>>> auc(Ranks(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0]), 3))
(0.875, 0)
>>> pr_auc(Ranks(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]), 3))  # (1 + 2/3)/2
(0.8333333333333333, 0)
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, inner
from prequential.engine.compiled.mathematics import log
from prequential.engine.measures.declaration import (
    DEFINED,
    LESS,
    NO_NEGATIVES,
    NO_POSITIVES,
    NO_PROBABILITIES,
    PROBABILITIES,
    RANKS,
    TOO_FEW,
    TOP,
    Loss,
    Result,
    measure,
)
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import SCORED as HAS_SCORE
from prequential.engine.tables.outcomes import Log


@inner
def own_log_loss(log: Log, row: int) -> tuple[float, bool]:
    """-ln p(y) of an outcome, and whether it has probabilities."""
    scored = log.scored[row] & HAS_SCORE != 0
    return log.log_loss[row] if scored else 0.0, scored


@inner
def own_brier(log: Log, row: int) -> tuple[float, bool]:
    """Brier score of an outcome, and whether it has probabilities."""
    scored = log.scored[row] & HAS_SCORE != 0
    return log.brier[row] if scored else 0.0, scored


@measure(
    PROBABILITIES, "-ln p(label), p clipped to 1e-15 … 1 - 1e-15", low=0, high=34.54, better=LESS,
    loss=Loss("log_loss", function=own_log_loss),
)  # fmt: skip
def log_loss(sums: Floats) -> Result:
    """Mean logarithmic loss of the predicted probabilities."""
    if sums[scores.SCORED] < scores.NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[scores.LOG_LOSS] / sums[scores.SCORED], DEFINED


@measure(
    PROBABILITIES, "Σ_i (p(i) - [i is the label])², over all classes", "Brier 1950", low=0, high=2,
    better=LESS, loss=Loss("brier", scores.LARGEST_BRIER, function=own_brier),
)  # fmt: skip
def brier(sums: Floats) -> Result:
    """Brier score of the predicted probabilities, summed over classes."""
    if sums[scores.SCORED] < scores.NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[scores.BRIER] / sums[scores.SCORED], DEFINED


@measure(
    PROBABILITIES, "Σ_b n_b/n·abs(share right in b - mean confidence in b)", "Guo et al. 2017", low=0, high=1,
    better=LESS,
)  # fmt: skip
def ece(sums: Floats) -> Result:
    """Expected calibration error of the predicted class, 15 equal bins.

    From Guo et al. (2017). Confidence is the probability of the predicted class.
    """
    if sums[scores.SCORED] < scores.NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    gaps = 0.0
    for b in range(scores.BINS):
        if sums[scores.IN_BIN + b] > 0.0:
            gaps += abs(sums[scores.RIGHT + b] - sums[scores.CONFIDENCE + b])
    return gaps / sums[scores.SCORED], DEFINED


@inner
def own_miss(log: Log, row: int) -> tuple[float, bool]:
    """Share of orders in which the label is none of the first few, and whether there are probabilities."""
    ranked = log.scored[row] & outcomes.RANKED != 0
    return 1.0 - log.width[row] if ranked and log.scored[row] & outcomes.IN_TOP == 0 else 0.0, ranked


@measure(
    TOP, "share whose label is one of the `top_k` classes with the largest probabilities; ties in the mean "
    "of all their orders", "Russakovsky et al. 2015", low=0, high=1,
    loss=Loss("top_k_accuracy", 1.0, one_less=True, function=own_miss),
)  # fmt: skip
def top_k_accuracy(sums: Floats) -> Result:
    """Share of outcomes whose label is one of the top_k most probable classes.

    Equal probabilities count as the mean over all their orders; a label that isn't named is none of them.
    """
    if sums[scores.RANKED] < scores.NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[scores.IN_TOP] / sums[scores.RANKED], DEFINED


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
    high=1, undefined=(NO_POSITIVES, NO_NEGATIVES, TOO_FEW),
)  # fmt: skip
def auc(r: Ranks) -> Result:
    """Area under the ROC curve of the scores.

    Among outcomes of equal score, half of the pairs count. If outcomes have weights, the weight of a pair is
    their product. Sums of integers are exact.
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
)  # fmt: skip
def pr_auc(r: Ranks) -> Result:
    """Area under the precision-recall curve of the scores (average precision).

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
            for index in range(low, high):
                if right >= high or (left < middle and values[left] <= values[right]):
                    spare[index] = values[left]
                    left += 1
                else:
                    spare[index] = values[right]
                    right += 1
        for index in range(length):
            values[index] = spare[index]
        width *= 2
