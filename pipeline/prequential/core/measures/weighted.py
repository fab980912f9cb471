"""Measures for labels that aren't a fair sample, from sums of weights (see `prequential.core.scores`).

Where an instance gets a label with the known probability π (its propensity), an outcome that came stands for
1/π instances.
"""

from __future__ import annotations

from prequential.core.arrays import Floats
from prequential.core.measures.matrix import Undefined
from prequential.core.scores import WEIGHT, WEIGHT_RIGHT, WEIGHT_SQUARED
from prequential.core.sums import NOTHING


def _weight(sums: Floats) -> float:
    if sums[WEIGHT] < NOTHING:
        raise Undefined("no_propensity")
    return float(sums[WEIGHT])


def ipw_accuracy(sums: Floats) -> float:
    """Inverse-propensity-weighted accuracy, Σ [right]/π / Σ 1/π (Hájek's estimator of a mean).

    Over the outcomes whose instance said π.

    >>> from prequential.core.scores import weighted
    >>> from prequential.core.sums import AllSums
    >>> ipw_accuracy(AllSums.of(weighted(None, 0.5, right=True), weighted(None, 0.25, right=False)).sums)
    0.3333333333333333
    """
    return float(sums[WEIGHT_RIGHT]) / _weight(sums)


def ipw_n(sums: Floats) -> float:
    """Effective number of outcomes behind `ipw_accuracy`, (Σ w)²/Σ w² with w = 1/π (Kish).

    As many as there are if all propensities are the same. Faded where the estimator fades, as `n` is.

    >>> from prequential.core.scores import weighted
    >>> from prequential.core.sums import AllSums
    >>> ipw_n(AllSums.of(weighted(None, 0.5, right=True), weighted(None, 0.5, right=False)).sums)
    2.0
    """
    return _weight(sums) ** 2 / float(sums[WEIGHT_SQUARED])
