"""Measures of predicted probabilities, from sums of scores (see `prequential.core.tables.scores`)."""

from __future__ import annotations

from prequential.core.compiled.kernel import Floats, inner
from prequential.core.measures import DEFINED, NO_PROBABILITIES, Result
from prequential.core.tables.scores import BINS, BRIER, CONFIDENCE, IN_BIN, LOG_LOSS, NOTHING, RIGHT, SCORED


@inner
def log_loss(sums: Floats) -> Result:
    """Mean of -ln p(y) over the outcomes with probabilities, p clipped to [1e-15, 1 - 1e-15].

    >>> from prequential.core.tables.scores import sums_of
    >>> log_loss(sums_of({SCORED: 4, LOG_LOSS: 3}))
    (0.75, 0)
    """
    if sums[SCORED] < NOTHING:
        return 0.0, NO_PROBABILITIES
    return sums[LOG_LOSS] / sums[SCORED], DEFINED


@inner
def brier(sums: Floats) -> Result:
    """Mean over the outcomes with probabilities of Σ_c (p(c) - [c = y])²: 0 to 2 (Brier 1950).

    >>> from prequential.core.tables.scores import sums_of
    >>> brier(sums_of({SCORED: 4, BRIER: 0.5}))
    (0.125, 0)
    """
    if sums[SCORED] < NOTHING:
        return 0.0, NO_PROBABILITIES
    return sums[BRIER] / sums[SCORED], DEFINED


@inner
def ece(sums: Floats) -> Result:
    """Expected calibration error: Σ_b n_b/n·|right_b/n_b - confidence_b| over 15 equal bins.

    From Guo et al. (2017). Confidence is the probability of the predicted class.

    >>> from prequential.core.tables.scores import sums_of
    >>> ece(sums_of({SCORED: 4, IN_BIN + 11: 4, CONFIDENCE + 11: 3, RIGHT + 11: 2}))  # |2/4 - 3/4|
    (0.25, 0)
    """
    if sums[SCORED] < NOTHING:
        return 0.0, NO_PROBABILITIES
    gaps = 0.0
    for b in range(BINS):
        if sums[IN_BIN + b] > 0.0:
            gaps += abs(sums[RIGHT + b] - sums[CONFIDENCE + b])
    return gaps / sums[SCORED], DEFINED
