"""Measures for labels that aren't a fair sample, from sums of weights (see `engine.tables.scores`).

If an instance gets a label with the known probability π (its propensity), an outcome stands for 1/π
instances.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures.declaration import DEFINED, NO_PROPENSITY, PROPENSITIES, Result, measure
from prequential.engine.tables.scores import NO_WEIGHT, WEIGHT, WEIGHT_RIGHT, WEIGHT_SQUARED


@measure(
    PROPENSITIES, "Σ [right]/π / Σ 1/π", "Hájek 1971", low=0, high=1,
    help="Accuracy, outcomes weighted with the inverse of their label's propensity",
)  # fmt: skip
@inner
def ipw_accuracy(sums: Floats) -> Result:
    """Inverse-propensity-weighted accuracy, Σ [right]/π / Σ 1/π (Hájek's estimator of a mean, 1971).

    Only outcomes whose instance has π count.

    >>> from prequential.engine.tables.scores import sums_of
    >>> ipw_accuracy(sums_of({WEIGHT: 8, WEIGHT_RIGHT: 2}))
    (0.25, 0)
    """
    if sums[WEIGHT] < NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    return sums[WEIGHT_RIGHT] / sums[WEIGHT], DEFINED


@measure(
    PROPENSITIES, "(Σ 1/π)²/Σ 1/π²: the effective number of outcomes", "Kish 1965", low=0, quality=False,
    help="Effective number of outcomes behind the weighted accuracy",
)  # fmt: skip
@inner
def ipw_n(sums: Floats) -> Result:
    """Effective number of outcomes behind `ipw_accuracy`, (Σ w)²/Σ w² with w = 1/π (Kish 1965).

    If all propensities are equal, it is the number of outcomes. It fades with the estimator, as `n` does.

    >>> from prequential.engine.tables.scores import sums_of
    >>> ipw_n(sums_of({WEIGHT: 4, WEIGHT_SQUARED: 8}))  # π = 0.5, twice
    (2.0, 0)
    """
    if sums[WEIGHT] < NO_WEIGHT:
        return 0.0, NO_PROPENSITY
    # The square of a faded sum may be too small for a float, so don't use it; w >= 1, so Σ w² >= Σ w.
    return sums[WEIGHT] * (sums[WEIGHT] / sums[WEIGHT_SQUARED]), DEFINED
