"""Measures of predicted probabilities, from sums of scores (see `engine.tables.scores`)."""

from __future__ import annotations

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.measures.declaration import (
    DEFINED,
    LESS,
    NO_PROBABILITIES,
    PROBABILITIES,
    TOP,
    Loss,
    Result,
    measure,
)
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import SCORED as HAS_SCORE
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.scores import (
    BINS,
    BRIER,
    CONFIDENCE,
    IN_BIN,
    IN_TOP,
    LARGEST_BRIER,
    LOG_LOSS,
    NO_WEIGHT,
    RANKED,
    RIGHT,
    SCORED,
)


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
    loss=Loss("log_loss", function=own_log_loss), help="Mean logarithmic loss of the predicted probabilities",
)  # fmt: skip
@inner
def log_loss(sums: Floats) -> Result:
    """Mean of -ln p(y) over the outcomes with probabilities, p clipped to [1e-15, 1 - 1e-15].

    >>> from prequential.engine.tables.scores import sums_of
    >>> log_loss(sums_of({SCORED: 4, LOG_LOSS: 3}))
    (0.75, 0)
    """
    if sums[SCORED] < NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[LOG_LOSS] / sums[SCORED], DEFINED


@measure(
    PROBABILITIES, "Σ_i (p(i) - [i is the label])², over all classes", "Brier 1950", low=0, high=2,
    better=LESS, loss=Loss("brier", LARGEST_BRIER, function=own_brier),
    help="Brier score of the predicted probabilities, summed over classes",
)  # fmt: skip
@inner
def brier(sums: Floats) -> Result:
    """Mean over the outcomes with probabilities of Σ_c (p(c) - [c = y])²: 0 to 2 (Brier 1950).

    >>> from prequential.engine.tables.scores import sums_of
    >>> brier(sums_of({SCORED: 4, BRIER: 0.5}))
    (0.125, 0)
    """
    if sums[SCORED] < NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[BRIER] / sums[SCORED], DEFINED


@measure(
    PROBABILITIES, "Σ_b n_b/n·abs(share right in b - mean confidence in b)", "Guo et al. 2017", low=0, high=1,
    better=LESS, help="Expected calibration error of the predicted class, 15 equal bins",
)  # fmt: skip
@inner
def ece(sums: Floats) -> Result:
    """Expected calibration error: Σ_b n_b/n·|right_b/n_b - confidence_b| over 15 equal bins.

    From Guo et al. (2017). Confidence is the probability of the predicted class.

    >>> from prequential.engine.tables.scores import sums_of
    >>> ece(sums_of({SCORED: 4, IN_BIN + 11: 4, CONFIDENCE + 11: 3, RIGHT + 11: 2}))  # |2/4 - 3/4|
    (0.25, 0)
    """
    if sums[SCORED] < NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    gaps = 0.0
    for b in range(BINS):
        if sums[IN_BIN + b] > 0.0:
            gaps += abs(sums[RIGHT + b] - sums[CONFIDENCE + b])
    return gaps / sums[SCORED], DEFINED


@inner
def own_miss(log: Log, row: int) -> tuple[float, bool]:
    """Share of orders in which the label is none of the first few, and whether there are probabilities."""
    ranked = log.scored[row] & outcomes.RANKED != 0
    return 1.0 - log.width[row] if ranked and log.scored[row] & outcomes.IN_TOP == 0 else 0.0, ranked


@measure(
    TOP, "share whose label is one of the `top_k` classes with the largest probabilities; ties in the mean "
    "of all their orders",
    "Russakovsky et al. 2015", low=0, high=1,
    loss=Loss("top_k_accuracy", 1.0, one_less=True, function=own_miss),
    help="Share of outcomes whose label is one of the top_k most probable classes",
)  # fmt: skip
@inner
def top_k_accuracy(sums: Floats) -> Result:
    """Share of the outcomes with probabilities whose label is one of the k most probable classes.

    Equal probabilities count as the mean over all their orders; a label that isn't named is none of them.

    >>> from prequential.engine.tables.scores import sums_of
    >>> top_k_accuracy(sums_of({RANKED: 4, IN_TOP: 3}))
    (0.75, 0)
    """
    if sums[RANKED] < NO_WEIGHT:
        return 0.0, NO_PROBABILITIES
    return sums[IN_TOP] / sums[RANKED], DEFINED
