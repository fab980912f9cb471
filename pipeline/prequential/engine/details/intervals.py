"""How certain a share of outcomes is: Wilson's interval with the effective sample size.

A faded outcome counts for less than one, and outcomes whose errors depend on each other carry less
information than independent ones. Both reduce the effective sample size. Dependence follows from neighbours
or, in windows of streams with clusters, from how much clusters differ.
"""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.compiled import wide
from prequential.engine.compiled.exact_sums import sum_exactly
from prequential.engine.compiled.kernel import Floats, Ints, allocating, inner
from prequential.engine.estimators import outcome_pairs

#: Standard normal quantile of a two-sided interval of 95%.
_Z = 1.959963984540054

#: An autocorrelation nearer to 1 leaves less than a hundredth of the outcomes.
_MOST_CORRELATION = 0.98

#: Successors that are made up for each cell, as likely as cells are: so that no cell is without one, and
#: none leads only to itself.
_MADE_UP = 0.01

#: Places of the binary matrix, 2·(positive label) + (positive prediction).
_FP, _FN, _TP, _CELLS = 1, 2, 3, 4

#: Numbers of a row of their equations, and of the scratch array: four terms, four rows, the parts of a sum.
_WIDTH, _ROWS_END, _SCRATCH = 5, 24, 40

#: Effective clusters that an interval needs: with four days of two levels, 86% of 95% intervals hold.
LEAST_CLUSTERS = 5

#: The terms of Student's quantile, by powers of 1/(degrees of freedom) from the first to the fourth.
_TERMS = (
    (_Z**3 + _Z) / 4, (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96,
    (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384,
    (79 * _Z**9 + 776 * _Z**7 + 1482 * _Z**5 - 1920 * _Z**3 - 945 * _Z) / 92160,
)  # fmt: skip

#: Their exponents. Loops get them as an argument: of a constant exponent, the compiler makes products, which
#: may differ in the last bit from the power that Python computes.
POWERS: Floats = np.array([1.0, 2.0, 3.0, 4.0])

#: Differences of faded sums that are none.
_ROUNDING = 1e-9


@inner
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


@inner
def autocorrelation(pairs: Floats) -> float:
    """Correlation of neighbours from (4,) counts or weights of 00, 01, 10, 11; NaN if one never varies.

    >>> import numpy as np
    >>> autocorrelation(np.array([40.0, 10.0, 10.0, 40.0]))
    0.6
    """
    return outcome_pairs.autocorrelation(float(pairs[0]), float(pairs[1]), float(pairs[2]), float(pairs[3]))


@inner
def shrunk(n: float, correlation: float) -> float:
    """How many independent outcomes `n` with a first-order autocorrelation r count as: n·(1 - r)/(1 + r).

    r is `correlation`. A negative correlation and NaN count as 0.

    References
    ----------
    Bayley, Hammersley: The "effective" number of independent observations in an autocorrelated time series,
    Supplement to the Journal of the Royal Statistical Society 8, 1946.

    Examples
    --------
    >>> shrunk(900, 0.5), shrunk(900, -0.5)
    (300.0, 900.0)
    """
    r = min(_MOST_CORRELATION, correlation) if correlation > 0.0 else 0.0
    return n * (1 - r) / (1 + r)


@allocating
def precision_worth(pairs: Floats) -> float:
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
    shares, e, scratch = np.empty(_CELLS), np.zeros(_CELLS), np.empty(_SCRATCH)
    _put_shares(pairs, shares, scratch)
    predicted = shares[_FP] + shares[_TP]
    if predicted != 0.0:
        e[_FP], e[_TP] = -shares[_TP] / predicted, shares[_FP] / predicted
    return _chain_worth(pairs, shares, e, scratch)


@allocating
def error_worth(pairs: Floats, errors: Floats) -> float:
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
    shares, e, scratch = np.empty(_CELLS), np.empty(_CELLS), np.empty(_SCRATCH)
    _put_shares(pairs, shares, scratch)
    p = shares[_FP] + shares[_FN]
    worse, both = float(errors[1]), float(errors[3])
    total = sum_exactly(errors, 0, 4, 1, scratch)
    if abs(worse + both - p * total) > _ROUNDING * total:
        return 1.0
    for cell in range(_CELLS):
        e[cell] = (1.0 if cell in (_FP, _FN) else 0.0) - p
    return _chain_worth(pairs, shares, e, scratch)


@inner
def effective_clusters(sizes: Ints) -> float:
    """How many clusters of one size have as much information as clusters of these sizes: (Σw)²/Σw² (Kish).

    >>> effective_clusters(np.array([50, 50, 50])), round(effective_clusters(np.array([500, 10, 10])), 2)
    (3.0, 1.08)
    """
    total = squares = 0
    for w in sizes:
        total += int(w)
        squares += int(w) * int(w)
    return float(total * total) / float(squares) if squares else 0.0


@inner
def clustered_worth(parts: Ints, wholes: Ints, powers: Floats) -> float:
    """How many independent outcomes one counts as, for a share of clustered outcomes.

    Let clusters have a of w outcomes, and p = Σa/Σw = A/W. The variance of p is G/(G - 1)·Σ(a - p·w)²/W²,
    with G effective clusters (Carter et al.). It is taken for at least p·(1 - p)/W. In Wilson's interval, so
    many independent outcomes have the same effect as this variance and Student's t of G - 1 degrees of
    freedom (Korn and Graubard). Assumes that clusters are independent of each other. NaN: there are fewer
    than `LEAST_CLUSTERS` effective clusters.

    By cluster, (clusters,), `parts` has a and `wholes` has w. `powers` is `POWERS`.

    References
    ----------
    Carter, Schnepel, Steigerwald, Review of Economics and Statistics 99, 2017, on effective clusters. Korn,
    Graubard: Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data, Survey Methodology 24, 1998.

    Examples
    --------
    >>> wholes = np.full(20, 50)
    >>> worth = clustered_worth(wholes * (np.arange(20) % 2), wholes, POWERS)  # all right or all wrong
    >>> round(1000 * worth, 1)  # fewer than the 20 clusters, as their variance isn't known
    16.7
    """
    number = effective_clusters(wholes)
    if number < LEAST_CLUSTERS:
        return math.nan
    in_part = total = 0
    for i in range(len(wholes)):
        in_part += int(parts[i])
        total += int(wholes[i])
    # Whole numbers: W⁴ times the sum, of 128 bits, and times the variance of independent outcomes.
    high, low = np.uint64(0), np.uint64(0)
    for i in range(len(wholes)):
        off = np.uint64(abs(total * int(parts[i]) - in_part * int(wholes[i])))
        square, square_low = wide.product(off, off)
        high, low = wide.plus(high, low, square, square_low)
    apart = wide.as_float(high, low) * number / (number - 1)
    alone, alone_low = wide.product(np.uint64(in_part * (total - in_part)), np.uint64(total))
    share = wide.as_float(alone, alone_low) / apart if apart > 0.0 else 1.0
    return min(1.0, share) * (_Z / _student(number - 1, powers)) ** float(powers[1])


@inner
def _student(df: float, powers: Floats) -> float:
    """Student's t quantile of a two-sided interval of 95%, for at least 4 degrees of freedom.

    `powers` is `POWERS`.

    References
    ----------
    Abramowitz, Stegun: Handbook of mathematical functions, 1964, 26.7.5; the error is below 0.001.

    Examples
    --------
    >>> round(_student(4.0, POWERS), 3), round(_student(10.0, POWERS), 4)  # exact: 2.776, 2.2281
    (2.776, 2.2281)
    """
    first, second, third, fourth = _TERMS
    terms = first / df ** float(powers[0]) + second / df ** float(powers[1])
    return _Z + (terms + third / df ** float(powers[2]) + fourth / df ** float(powers[3]))


@inner
def _put_shares(pairs: Floats, shares: Floats, scratch: Floats) -> None:
    """Write the shares of the cells that pairs end in, (4,)."""
    total = sum_exactly(pairs, 0, 16, 1, scratch)
    for cell in range(_CELLS):
        ending = sum_exactly(pairs, cell, 16, _CELLS, scratch)
        shares[cell] = ending / total if total != 0.0 else ending


@inner
def _chain_worth(counts: Floats, shares: Floats, e: Floats, scratch: Floats) -> float:
    """Σ m·e² over Σ m·e·(2g - e), g = e + T·g, of cells with these pairs and shares m."""
    terms, rows, rest = scratch[:_CELLS], scratch[_CELLS:_ROWS_END], scratch[_ROWS_END:]
    for cell in range(_CELLS):
        terms[cell] = shares[cell] * e[cell] * e[cell]
    alone = sum_exactly(terms, 0, _CELLS, 1, rest)
    if alone == 0.0:
        return 1.0
    for cell in range(_CELLS):
        weight = sum_exactly(counts, _CELLS * cell, _CELLS * (cell + 1), 1, rest) + _MADE_UP
        for i in range(_CELLS):
            to = (counts[_CELLS * cell + i] + _MADE_UP * shares[i]) / weight
            # With `shares` added, which g has no part in: else g would be known but for a constant.
            rows[_WIDTH * cell + i] = (1.0 if cell == i else 0.0) - to + shares[i]
        rows[_WIDTH * cell + _CELLS] = e[cell]
    _solve(rows)
    for cell in range(_CELLS):
        terms[cell] = shares[cell] * e[cell] * (2.0 * rows[_WIDTH * cell + _CELLS] - e[cell])
    together = sum_exactly(terms, 0, _CELLS, 1, rest)
    least = (1 - _MOST_CORRELATION) / (1 + _MOST_CORRELATION)
    return max(least, alone / max(alone, together))


@inner
def _solve(rows: Floats) -> None:
    """Put x of A·x = b in place of b in the four rows (A, b), one after the other, by Gauss and Jordan.

    The bits are the same on every machine.

    >>> rows = np.concatenate((np.eye(4), [[6.0], [4.0], [2.0], [0.0]]), axis=1).ravel()
    >>> rows[[0, 1, 5, 6]] = 0.0, 2.0, 4.0, 0.0
    >>> _solve(rows)
    >>> rows[4::5].tolist()
    [1.0, 3.0, 2.0, 0.0]
    """
    for column in range(_CELLS):
        pivot = column
        for i in range(column + 1, _CELLS):
            if abs(rows[_WIDTH * i + column]) > abs(rows[_WIDTH * pivot + column]):
                pivot = i
        divisor = float(rows[_WIDTH * pivot + column])
        for k in range(_WIDTH):
            value = rows[_WIDTH * pivot + k]
            rows[_WIDTH * pivot + k] = rows[_WIDTH * column + k]
            rows[_WIDTH * column + k] = value / divisor
        for i in range(_CELLS):
            factor = float(rows[_WIDTH * i + column])
            for k in range(_WIDTH if i != column else 0):
                rows[_WIDTH * i + k] -= factor * rows[_WIDTH * column + k]


@inner
def less_one(worth: float) -> float:
    """The corrected `worth` m where dependence was estimated around a share of the same outcomes: m²/(m + 1).

    That share takes 1/m of the variance away, so m should be m - 1, but not less than 0.

    >>> less_one(1.0), less_one(99.0)
    (0.5, 98.01)
    """
    return worth * worth / (worth + 1)
