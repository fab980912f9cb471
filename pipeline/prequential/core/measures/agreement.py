"""Accuracy, and what of it is more than chance or a baseline would give."""

from __future__ import annotations

import math

from prequential.core.measures.matrix import Matrix, Undefined


def _beyond(m: Matrix, p: float, reference: float, whole: float, reason: str) -> float:
    """(p - reference)/(1 - reference) where both are shares of `whole`."""
    if m.share_is_one(reference, whole):
        raise Undefined(reason)
    return (p - reference) / (whole - reference)


def error(m: Matrix) -> float:
    """Share of outcomes that are wrong (2013 paper, section 3.2).

    >>> error(Matrix.of([[40, 10], [10, 40]]))
    0.2
    """
    return (m.n - m.right) / m.n


def accuracy(m: Matrix) -> float:
    """p: share of outcomes that are right (2019 paper, eq. 1).

    >>> accuracy(Matrix.of([[40, 10], [10, 40]]))
    0.8
    """
    return m.right / m.n


def kappa(m: Matrix) -> float:
    """Cohen's kappa, (p - p_ran)/(1 - p_ran) (2015 paper, eq. 9 and 10).

    >>> kappa(Matrix.of([[40, 10], [10, 40]]))  # (0.8 - 0.5)/0.5
    0.6
    """
    return _beyond(m, m.right * m.n, m.chance, m.n * m.n, "p_ran_one")


def kappa_se(m: Matrix) -> float:
    """Standard error of kappa, sqrt(p(1 - p)/N)/(1 - p_ran) (2015 paper, eq. 11).

    N is the estimator's n.

    >>> kappa_se(Matrix.of([[40, 10], [10, 40]]))  # sqrt(0.8·0.2/100)/0.5
    0.08
    """
    if m.share_is_one(m.chance, m.n * m.n):
        raise Undefined("p_ran_one")
    return math.sqrt(m.right * (m.n - m.right) * m.n) / (m.n * m.n - m.chance)


def kappa_z(m: Matrix) -> float:
    """kappa/δ0 with δ0 = sqrt(p_ran/(N(1 - p_ran))): above 1.65, more than chance at 5 % (eq. 12).

    >>> kappa_z(Matrix.of([[40, 10], [10, 40]]))  # 0.6/sqrt(0.5/(100·0.5))
    6.0
    """
    value = kappa(m)
    if not m.chance:
        raise Undefined("zero_denominator")
    return value * math.sqrt(m.n * (m.n * m.n - m.chance) / m.chance)


def p_ran(m: Matrix) -> float:
    """Accuracy of random predictions with the model's own distribution (2015 paper, eq. 9).

    >>> p_ran(Matrix.of([[60, 20], [0, 20]]))  # 0.8·0.6 + 0.2·0.4
    0.56
    """
    return m.chance / (m.n * m.n)


def p_per(m: Matrix) -> float:
    """Accuracy of the persistent baseline (2015 paper, section 4.1).

    >>> p_per(Matrix.of([[40, 10], [10, 40]], persistent=60))
    0.6
    """
    return m.persistent / m.n


def kappa_per(m: Matrix) -> float:
    """Kappa-Temporal, (p - p_per)/(1 - p_per) (2015 paper, eq. 13).

    >>> kappa_per(Matrix.of([[40, 10], [10, 40]], persistent=60))  # (0.8 - 0.6)/0.4
    0.5
    """
    return _beyond(m, m.right, m.persistent, m.n, "p_per_one")


def p_maj(m: Matrix) -> float:
    """Accuracy of the majority baseline (2015 paper, section 4.1).

    >>> p_maj(Matrix.of([[40, 10], [10, 40]], majority=50))
    0.5
    """
    return m.majority / m.n


def kappa_maj(m: Matrix) -> float:
    """(p - p_maj)/(1 - p_maj): eq. 13's form against the majority baseline.

    >>> kappa_maj(Matrix.of([[40, 10], [10, 40]], majority=50))  # (0.8 - 0.5)/0.5
    0.6
    """
    return _beyond(m, m.right, m.majority, m.n, "p_maj_one")


def kappa_plus(m: Matrix) -> float:
    """The combined measure sqrt(max(0, kappa)·max(0, kappa_per)) (2015 paper, eq. 14).

    >>> kappa_plus(Matrix.of([[40, 10], [10, 40]], persistent=50))  # sqrt(0.6·0.6)
    0.6
    """
    return math.sqrt(max(0.0, kappa(m)) * max(0.0, kappa_per(m)))


def mcc(m: Matrix) -> float:
    """Matthews' correlation (2019 paper, eq. 8); for more classes Gorodkin's R_K, its general form.

    (c·n - Σ t_i·p_i)/sqrt((n² - Σ p_i²)(n² - Σ t_i²)) with c right ones, t_i labels, p_i predictions.

    >>> mcc(Matrix.of([[40, 10], [10, 40]]))  # (40·40 - 10·10)/sqrt(50·50·50·50)
    0.6
    """
    whole = m.n * m.n
    labels = sum(count * count for count in m.labels)
    predictions = sum(count * count for count in m.predictions)
    if m.share_is_one(labels, whole) or m.share_is_one(predictions, whole):
        raise Undefined("zero_denominator")
    covariance = m.right * m.n - m.chance
    if m.exact:
        return covariance / math.sqrt((whole - labels) * (whole - predictions))
    # Two roots, since the product of faded weights' differences may be too small for one.
    value = covariance / math.sqrt(whole - labels) / math.sqrt(whole - predictions)
    return max(-1.0, min(1.0, value))
