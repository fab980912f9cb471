"""How certain a share of outcomes is: Wilson's interval with the effective sample size.

A faded outcome counts for less than one, and outcomes whose errors depend on each other carry less
information than independent ones. Both reduce the effective sample size. Dependence follows from neighbours
or, in windows of streams with clusters, from how much clusters differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.estimators import outcome_pairs

Bools = npt.NDArray[np.bool_]

#: Standard normal quantile of a two-sided interval of 95%.
_Z = 1.959963984540054

#: An autocorrelation nearer to 1 leaves less than a hundredth of the outcomes.
_MOST_CORRELATION = 0.98

#: Successors that are made up for each cell, as likely as cells are: so that no cell is without one, and
#: none leads only to itself.
_MADE_UP = 0.01

#: Places of the binary matrix, 2·(positive label) + (positive prediction).
_CELLS = range(4)
_FP, _FN, _TP = 1, 2, 3

#: Effective clusters that an interval needs: with four days of two levels, 86% of 95% intervals hold.
LEAST_CLUSTERS = 5

#: Differences of faded sums that are none.
_ROUNDING = 1e-9


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95% interval, (low, high), of a share seen in `n` outcomes, which needn't be a whole number.

    References
    ----------
    Wilson: Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22, 1927.

    Examples
    --------
    >>> wilson(0.5, 100)
    (0.4038..., 0.5961...)
    """
    # Multiplied by n throughout: faded weights may be so small that their squares are 0.
    center = share * n + _Z * _Z / 2
    half = _Z * math.sqrt(share * (1 - share) * n + _Z * _Z / 4)
    whole = n + _Z * _Z
    return max(0.0, (center - half) / whole), min(1.0, (center + half) / whole)


def autocorrelation(pairs: Ints | Floats) -> float | None:
    """Correlation of neighbours from (4,) counts or weights of 00, 01, 10, 11; None if one never varies.

    >>> import numpy as np
    >>> autocorrelation(np.array([40, 10, 10, 40]))
    0.6
    """
    value = outcome_pairs.autocorrelation(*map(float, pairs[:4]))
    return None if math.isnan(value) else value


def shrunk(n: float, correlation: float | None) -> float:
    """How many independent outcomes `n` with a first-order autocorrelation r count as: n·(1 - r)/(1 + r).

    r is `correlation`. A negative correlation and None count as 0.

    References
    ----------
    Bayley, Hammersley: The "effective" number of independent observations in an autocorrelated time series,
    Supplement to the Journal of the Royal Statistical Society 8, 1946.

    Examples
    --------
    >>> shrunk(900, 0.5), shrunk(900, -0.5)
    (300.0, 900.0)
    """
    r = min(_MOST_CORRELATION, max(0.0, correlation or 0.0))
    return n * (1 - r) / (1 + r)


def precision_worth(pairs: Ints | Floats) -> float:
    """How many independent outcomes one counts as for precision, from counts of 4·(cell before) + cell.

    The error of precision π = TP/P̂ is the mean of e, divided by P̂/n. Here e is 1 - π in a true positive, -π
    in a false one, and 0 elsewhere. Suppose that cells are a first-order chain with shares m and transitions
    T. Then n times the variance of that mean is Σ_k cov(e_t, e_t+k) = Σ m·e·(2g - e), with g = e + T·g. For
    independent cells it would be Σ m·e². The chain captures how labels and how errors follow each other.
    Where e doesn't vary, the result is 1.

    For independent cells, and for cells that repeat the one before half of the time and else are random:

    >>> import numpy as np
    >>> precision_worth(np.ones(16)), precision_worth(1000 * (np.ones(16) + 4 * np.eye(4).ravel()))
    (1.0, 0.3333...)
    """
    counts, shares = _cells_of(pairs)
    predicted = shares[_FP] + shares[_TP]
    e = [0.0] * 4
    if predicted:
        e[_FP], e[_TP] = -shares[_TP] / predicted, shares[_FP] / predicted
    return _chain_worth(counts, shares, e)


def error_worth(pairs: Ints | Floats, errors: Ints | Floats) -> float:
    """How many independent outcomes one counts as for the error rate, from counts of 4·(cell before) + cell.

    The method is that of `precision_worth`, with e = 1 - p in a wrong outcome and -p in a right one. Where
    labels come in runs and one class is harder than the other, errors depend on each other farther than
    neighbours show. The result is 1 where the cells disagree with neighbours' `errors` (00, 01, 10, 11) about
    which outcomes are wrong, as with more than two classes.

    For labels that stay in 95% of all outcomes, with errors of 2% and of 40%:

    >>> import numpy as np
    >>> labels, predictions = np.array([[0.95, 0.05], [0.05, 0.95]]), np.array([[0.98, 0.02], [0.4, 0.6]])
    >>> cells = np.einsum("yp,yz,zq->ypzq", predictions, labels, predictions).reshape(4, 4) / 2
    >>> wrong = np.array([False, True, True, False])
    >>> errors = [cells[a][:, b].sum() for a in (~wrong, wrong) for b in (~wrong, wrong)]
    >>> worth = error_worth(cells.ravel(), np.array(errors))
    >>> round(worth, 3), round(shrunk(1.0, autocorrelation(errors)), 3)
    (0.254, 0.672)
    """
    counts, shares = _cells_of(pairs)
    p = shares[_FP] + shares[_FN]
    worse, both = float(errors[1]), float(errors[3])
    total = math.fsum(errors[:4].tolist())
    if abs(worse + both - p * total) > _ROUNDING * total:
        return 1.0
    return _chain_worth(counts, shares, [(cell in (_FP, _FN)) - p for cell in _CELLS])


def effective_clusters(sizes: Sequence[int]) -> float:
    """How many clusters of one size have as much information as clusters of these sizes: (Σw)²/Σw² (Kish).

    >>> effective_clusters([50, 50, 50]), round(effective_clusters([500, 10, 10]), 2)
    (3.0, 1.08)
    """
    squares = sum(w * w for w in sizes)
    return sum(sizes) ** 2 / squares if squares else 0.0


def clustered_worth(cluster: Ints, part: Bools, whole: Bools) -> float | None:
    """How many independent outcomes one of the `whole` counts as, for the share that `part` has of it.

    Let clusters have a of w outcomes, and p = Σa/Σw = A/W. The variance of p is G/(G - 1)·Σ(a - p·w)²/W²,
    with G effective clusters (Carter et al.). It is taken for at least p·(1 - p)/W. In Wilson's interval, so
    many independent outcomes have the same effect as this variance and Student's t of G - 1 degrees of
    freedom (Korn and Graubard). Assumes that clusters are independent of each other. None: there are fewer
    than `LEAST_CLUSTERS` effective clusters.

    `cluster` has the number of each outcome's cluster, from 0. `part` counts only where `whole` does.

    References
    ----------
    Carter, Schnepel, Steigerwald, Review of Economics and Statistics 99, 2017, on effective clusters. Korn,
    Graubard: Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data, Survey Methodology 24, 1998.

    Examples
    --------
    >>> cluster, every = np.arange(1000) // 50, np.ones(1000, dtype=bool)
    >>> worth = clustered_worth(cluster, cluster % 2 == 0, every)  # clusters are all right or all wrong
    >>> round(1000 * worth, 1)  # fewer than the 20 clusters, as their variance isn't known
    16.7
    """
    w = np.bincount(cluster, whole).astype(np.int64).tolist()
    number = effective_clusters(w)
    if number < LEAST_CLUSTERS:
        return None
    a = np.bincount(cluster, whole & part).astype(np.int64).tolist()
    in_part, total = sum(a), sum(w)
    # Whole numbers: W⁴ times the sum, and times the variance of independent outcomes.
    apart = sum((total * x - in_part * y) ** 2 for x, y in zip(a, w)) * number / (number - 1)
    alone = in_part * (total - in_part) * total
    return min(1.0, alone / apart if apart else 1.0) * (_Z / _student(number - 1)) ** 2


def _student(df: float) -> float:
    """Student's t quantile of a two-sided interval of 95%, for at least 4 degrees of freedom.

    References
    ----------
    Abramowitz, Stegun: Handbook of mathematical functions, 1964, 26.7.5; the error is below 0.001.

    Examples
    --------
    >>> round(_student(4), 3), round(_student(10), 4)  # exact: 2.776, 2.2281
    (2.776, 2.2281)
    """
    z = _Z
    terms = (
        (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )  # fmt: skip
    return z + sum(term / df**power for power, term in enumerate(terms, 1))


def _cells_of(pairs: Ints | Floats) -> tuple[list[float], list[float]]:
    """Counts of pairs, and shares of the cells that they end in."""
    counts = pairs[:16].tolist()
    total = math.fsum(counts)
    return counts, [math.fsum(counts[cell::4]) / (total or 1) for cell in _CELLS]


def _chain_worth(counts: list[float], shares: list[float], e: list[float]) -> float:
    """Σ m·e² over Σ m·e·(2g - e), g = e + T·g, of cells with these pairs and shares m."""
    alone = math.fsum(m * x * x for m, x in zip(shares, e))
    if not alone:
        return 1.0
    rows = []
    for cell in _CELLS:
        successors = counts[4 * cell : 4 * cell + 4]
        weight = math.fsum(successors) + _MADE_UP
        to = [(count + _MADE_UP * m) / weight for count, m in zip(successors, shares)]
        # With `m` added, which g has no part in: else g would be known but for a constant.
        rows.append([(cell == i) - to[i] + shares[i] for i in _CELLS] + [e[cell]])
    g = _solved(rows)
    together = math.fsum(m * x * (2 * y - x) for m, x, y in zip(shares, e, g))
    least = (1 - _MOST_CORRELATION) / (1 + _MOST_CORRELATION)
    return max(least, alone / max(alone, together))


def _solved(rows: list[list[float]]) -> list[float]:
    """x of A·x = b from the rows (A, b), by Gauss and Jordan: the same bits on every machine.

    >>> _solved([[0.0, 2.0, 6.0], [4.0, 0.0, 4.0]])
    [1.0, 3.0]
    """
    for column in range(len(rows)):
        pivot = max(range(column, len(rows)), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        first = rows[column] = [value / rows[column][column] for value in rows[column]]
        for i, row in enumerate(rows):
            if i != column:
                rows[i] = [value - row[column] * pivot_value for value, pivot_value in zip(row, first)]
    return [row[-1] for row in rows]


def less_one(worth: float) -> float:
    """The corrected `worth` m where dependence was estimated around a share of the same outcomes: m²/(m + 1).

    That share takes 1/m of the variance away, so m should be m - 1, but not less than 0.

    >>> less_one(1.0), less_one(99.0)
    (0.5, 98.01)
    """
    return worth * worth / (worth + 1)
