"""Accuracy, and comparisons of accuracy with chance and with baselines.

Formulas that compare with a reference use the complement of a share, summed up separately, instead of 1 minus
the share. So the complement keeps its digits even if a faded share is very close to 1.

>>> from prequential.engine.measures.table import totals_of
>>> t = totals_of([[40, 10], [10, 40]], persistent=60, majority=50)  # p = 0.8, p_ran = 0.5
>>> {measure.__name__: measure(t)[0] for measure in (error, accuracy, kappa, kappa_se, kappa_z, mcc)}
{'error': 0.2, 'accuracy': 0.8, 'kappa': 0.6, 'kappa_se': 0.08, 'kappa_z': 6.0, 'mcc': 0.6}
>>> {measure.__name__: measure(t)[0] for measure in (p_ran, p_per, p_maj, kappa_per, kappa_maj)}
{'p_ran': 0.5, 'p_per': 0.6, 'p_maj': 0.5, 'kappa_per': 0.5, 'kappa_maj': 0.6}
>>> kappa_plus(totals_of([[40, 10], [10, 40]], persistent=50))  # sqrt(0.6·0.6)
(0.6, 0)
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import share_left, two_product
from prequential.engine.measures.declaration import (
    CHANCE,
    DEFINED,
    EITHER,
    LESS,
    MAJORITY,
    MATRIX,
    P_MAJ_ONE,
    P_PER_ONE,
    P_RAN_ONE,
    PERSISTENT,
    ZERO_DENOMINATOR,
    Loss,
    Result,
    measure,
)
from prequential.engine.tables.scores import NO_WEIGHT

#: If the terms of the covariance are less than this share of 1 - p, 1 - p has few digits of it.
_RARE = 1e-3

#: Smaller products may have lost digits.
_TINY = 1e-280


class Totals(NamedTuple):
    """Sums over a confusion matrix, in the counts' own unit (whole numbers or weights), pairs in its square.

    Right and wrong are summed up separately, so that no difference loses digits.
    """

    n: float
    right: float
    wrong: float
    persistent: float  # outcomes that the persistent baseline had right, …
    persistent_wrong: float  # … and had wrong
    majority: float
    majority_wrong: float
    chance: float  # Σ_i t_i·h_i for labels t and predictions h: n²·p_ran
    beyond_chance: float  # n² - Σ_i t_i·h_i …
    beyond_chance_low: float  # … and the rest below this float's last digit
    label_pairs: float  # n² - Σ_i t_i²
    prediction_pairs: float  # n² - Σ_i h_i²
    covariance: float  # right·n - Σ_i t_i·h_i …
    covariance_parts: float  # … and the sum of the two terms of this difference


@inner
def vanishes(part: float, whole: float) -> bool:
    """Whether a part is negligible within the whole; for counts, only 0 is.

    >>> vanishes(1e-13, 1.0), vanishes(0.0, 1.0), vanishes(1e-201, 1.0)
    (False, True, True)
    """
    return part <= NO_WEIGHT * whole


@measure(MATRIX, "(n - c)/n", "2013, section 3.2", low=0, high=1, better=LESS, loss=Loss("error", 1.0))
def error(t: Totals) -> Result:
    """Share of outcomes that are wrong."""
    return t.wrong / t.n, DEFINED


@measure(MATRIX, "p = c/n", "2019, eq. 1", low=0, high=1, loss=Loss("error", 1.0, one_less=True))
def accuracy(t: Totals) -> Result:
    """Share of outcomes that are right."""
    return t.right / t.n, DEFINED


@measure(
    MATRIX, "(p - p_ran)/(1 - p_ran)", "2015, eq. 10", low=-1, high=1, undefined=(P_RAN_ONE,),
    reference=CHANCE,
)  # fmt: skip
def kappa(t: Totals) -> Result:
    """Cohen's kappa."""
    if vanishes(t.beyond_chance, t.n * t.n):
        return 0.0, P_RAN_ONE
    if t.covariance_parts < _RARE * t.wrong * t.n:
        return t.covariance / t.beyond_chance, DEFINED
    wrong, low = two_product(t.wrong, t.n)
    return max(-1.0, share_left(wrong, low, t.beyond_chance, t.beyond_chance_low)), DEFINED


@measure(
    MATRIX, "sqrt(p(1 - p)/n)/(1 - p_ran)", "2015, eq. 11", low=0, better=LESS, quality=False,
    undefined=(P_RAN_ONE,),
)  # fmt: skip
def kappa_se(t: Totals) -> Result:
    """Standard error of Cohen's kappa.

    N is the estimator's n.
    """
    if vanishes(t.beyond_chance, t.n * t.n):
        return 0.0, P_RAN_ONE
    return math.sqrt(t.right * t.wrong * t.n) / t.beyond_chance, DEFINED


@measure(MATRIX, "kappa/sqrt(p_ran/(n(1 - p_ran)))", "2015, eq. 12", undefined=(P_RAN_ONE, ZERO_DENOMINATOR))
def kappa_z(t: Totals) -> Result:
    """Cohen's kappa over its standard error if it were chance.

    Above 1.65: more than chance, at 5%.
    """
    value, reason = kappa(t)
    if reason:
        return 0.0, reason
    if vanishes(t.chance, t.n * t.n):
        return 0.0, ZERO_DENOMINATOR
    return value * math.sqrt(t.n * t.beyond_chance / t.chance), DEFINED


@measure(
    MATRIX, 'share that "same as the latest label" has right', "2015, eq. 7", low=0, high=1, quality=False,
    reference=PERSISTENT,
)  # fmt: skip
def p_per(t: Totals) -> Result:
    """Accuracy of the persistent baseline."""
    return t.persistent / (t.persistent + t.persistent_wrong), DEFINED


@measure(
    MATRIX, "(p - p_per)/(1 - p_per)", "2015, eq. 13", high=1, reference=PERSISTENT, undefined=(P_PER_ONE,),
)  # fmt: skip
def kappa_per(t: Totals) -> Result:
    """Kappa against the persistent baseline."""
    if vanishes(t.persistent_wrong, t.n):
        return 0.0, P_PER_ONE
    return (t.persistent_wrong - t.wrong) / t.persistent_wrong, DEFINED


@measure(
    MATRIX, 'share that "the most frequent label so far" has right', "2015, eq. 6", low=0, high=1,
    quality=False, reference=MAJORITY,
)  # fmt: skip
def p_maj(t: Totals) -> Result:
    """Accuracy of the majority baseline."""
    return t.majority / (t.majority + t.majority_wrong), DEFINED


@measure(
    MATRIX, "(p - p_maj)/(1 - p_maj)", "eq. 13 with p_maj", high=1, reference=MAJORITY,
    undefined=(P_MAJ_ONE,),
)  # fmt: skip
def kappa_maj(t: Totals) -> Result:
    """Kappa against the majority baseline."""
    if vanishes(t.majority_wrong, t.n):
        return 0.0, P_MAJ_ONE
    return (t.majority_wrong - t.wrong) / t.majority_wrong, DEFINED


@measure(
    MATRIX, "sqrt(max(0, kappa)·max(0, kappa_per))", "2015, eq. 14", low=0, high=1, reference=EITHER,
    undefined=(P_RAN_ONE, P_PER_ONE),
)  # fmt: skip
def kappa_plus(t: Totals) -> Result:
    """Geometric mean of kappa and kappa_per where both are positive."""
    against_chance, reason = kappa(t)
    if reason:
        return 0.0, reason
    against_persistent, reason = kappa_per(t)
    if reason:
        return 0.0, reason
    return math.sqrt(max(0.0, against_chance) * max(0.0, against_persistent)), DEFINED


@measure(
    MATRIX, "(c·n - Σ t_i·h_i)/sqrt((n² - Σ t_i²)(n² - Σ h_i²))", "2019, eq. 8; Gorodkin", low=-1, high=1,
    undefined=(ZERO_DENOMINATOR,),
)  # fmt: skip
def mcc(t: Totals) -> Result:
    """Matthews' correlation; for more than two classes Gorodkin's R_K.

    In the formula, c outcomes are right, t_i have the label i, and h_i the prediction i.
    """
    whole = t.n * t.n
    if vanishes(t.label_pairs, whole) or vanishes(t.prediction_pairs, whole):
        return 0.0, ZERO_DENOMINATOR
    if t.wrong == 0.0:
        return 1.0, DEFINED
    product = t.label_pairs * t.prediction_pairs
    if product > _TINY:
        value = t.covariance / math.sqrt(product)
    else:
        value = t.covariance / math.sqrt(t.label_pairs) / math.sqrt(t.prediction_pairs)
    return max(-1.0, min(1.0, value)), DEFINED


@measure(MATRIX, "Σ t_i·h_i / n²", "2015, eq. 9", low=0, high=1, quality=False, reference=CHANCE)
def p_ran(t: Totals) -> Result:
    """Accuracy of random predictions with the model's own distribution."""
    return t.chance / (t.chance + t.beyond_chance), DEFINED
