"""The Q statistic: how much larger the loss of one model is than that of another (2013 paper, section 4)."""

from __future__ import annotations

import math

from prequential.engine.comparisons import DEFINED, ZERO_LOSS
from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import log
from prequential.engine.measures.declaration import Result
from prequential.engine.tables.scores import NO_WEIGHT


@inner
def q(loss_a: float, loss_b: float) -> Result:
    """Q = ln(S_A/S_B) of two sums of losses >= 0 in the same memory: all history, a window, or faded.

    Positive: A lost more, B is better. Q(B, A) = -Q(A, B), to the last bit. Q has no value (`zero_loss`)
    while either sum is 0, or while fading has made one sum negligible compared with the other.

    >>> q(4.0, 2.0), q(2.0, 4.0), q(3.0, 0.0)
    ((0.6931471805599453, 0), (-0.6931471805599453, 0), (0.0, 1))
    """
    larger, smaller = max(loss_a, loss_b), min(loss_a, loss_b)
    if smaller <= 0.0 or smaller < NO_WEIGHT * larger:
        return 0.0, ZERO_LOSS
    ratio = larger / smaller
    size = log(ratio) if ratio < math.inf else log(larger) - log(smaller)
    return (size if loss_a >= loss_b else -size), DEFINED
