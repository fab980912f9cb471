"""Measures of predicted probabilities, from sums of scores (see `prequential.core.scores`)."""

from __future__ import annotations

import math

from prequential.core.arrays import Floats
from prequential.core.measures.matrix import Undefined
from prequential.core.scores import BRIER, CONFIDENCE, ECE_BINS, IN_BIN, LOG_LOSS, RIGHT, SCORED
from prequential.core.sums import NOTHING


def _scored(sums: Floats) -> float:
    if sums[SCORED] < NOTHING:
        raise Undefined("no_probabilities")
    return float(sums[SCORED])


def log_loss(sums: Floats) -> float:
    """Mean of -ln p(y) over the outcomes with probabilities, p clipped to [1e-15, 1 - 1e-15].

    >>> from prequential.core.scores import score_probabilities
    >>> from prequential.core.sums import AllSums
    >>> log_loss(AllSums.of(score_probabilities("up", "up", ("up", 0.5, "down", 0.5))).sums)
    0.6931471805599453
    """
    return float(sums[LOG_LOSS]) / _scored(sums)


def brier(sums: Floats) -> float:
    """Mean over the outcomes with probabilities of Σ_c (p(c) - [c = y])²: 0 to 2.

    >>> from prequential.core.scores import score_probabilities
    >>> from prequential.core.sums import AllSums
    >>> brier(AllSums.of(score_probabilities("up", "up", ("up", 0.75, "down", 0.25))).sums)
    0.125
    """
    return float(sums[BRIER]) / _scored(sums)


def ece(sums: Floats) -> float:
    """Expected calibration error: Σ_b n_b/n·|right_b/n_b - confidence_b| over 15 equal bins.

    Confidence is the probability of the predicted class.

    >>> from prequential.core.scores import score_probabilities
    >>> from prequential.core.sums import AllSums
    >>> ece(AllSums.of(score_probabilities("up", "up", ("up", 0.75, "down", 0.25))).sums)
    0.25
    """
    n = _scored(sums)
    gaps = sums[RIGHT : RIGHT + ECE_BINS] - sums[CONFIDENCE : CONFIDENCE + ECE_BINS]
    return math.fsum(abs(gap) for gap in gaps[sums[IN_BIN : IN_BIN + ECE_BINS] > 0].tolist()) / n
