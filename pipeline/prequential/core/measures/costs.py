"""What outcomes cost, by label and prediction: measures of the confusion matrix and of `costs`."""

from __future__ import annotations

from typing import NamedTuple

from prequential.core.compiled.kernel import Floats, inner
from prequential.core.measures.declaration import COSTS, DEFINED, FADED, LESS, Result, measure
from prequential.core.measures.positive import Positives
from prequential.core.tables.outcomes import weight_of


class Paid(NamedTuple):
    """The cost of all outcomes in memory."""

    known: bool  # whether its stream has costs
    n: float  # outcomes, or their weight
    total: float
    whole: bool  # whether each outcome counts 1


@measure(
    COSTS, "mean of `costs[label][prediction]`, 0 where it says nothing", better=LESS,
    help="Mean cost of an outcome, by the configured costs",
)  # fmt: skip
@inner
def cost(k: Paid) -> Result:
    """Mean cost of an outcome.

    >>> cost(Paid(known=True, n=4.0, total=10.0, whole=True))
    (2.5, 0)
    """
    return k.total / k.n, DEFINED


@measure(
    COSTS, "sum of the same", better=LESS, undefined=(FADED,), help="Cost of all outcomes in memory",
)  # fmt: skip
@inner
def cost_total(k: Paid) -> Result:
    """Cost of all outcomes in memory together, where each of them counts 1.

    >>> cost_total(Paid(known=True, n=4.0, total=10.0, whole=True))
    (10.0, 0)
    """
    if not k.whole:
        return 0.0, FADED
    return k.total, DEFINED


@inner
def _has_costs(positives: Positives, sequence: int) -> bool:
    return len(positives.priced) > 0 and positives.priced[positives.owner[sequence]] != 0


@inner
def paid_of(positives: Positives, sequence: int, cells: Floats, k: int, n: float, whole: bool) -> Paid:
    """What a sequence's outcomes cost, of joint cells (4·k²,) of weight n."""
    if not _has_costs(positives, sequence):
        return Paid(False, n, 0.0, whole)
    first, total = positives.first[positives.owner[sequence]], 0.0
    for label in range(k):
        for prediction in range(k):
            cell = weight_of(cells, label * k + prediction)
            if cell > 0.0:
                total += cell * positives.costs[first + label, prediction]
    return Paid(True, n, total, whole)


@inner
def paid_by_chance(
    positives: Positives, sequence: int, labels: Floats, predictions: Floats, n: float, whole: bool
) -> Paid:
    """The same of random predictions with the same distribution: each label with each prediction."""
    if not _has_costs(positives, sequence):
        return Paid(False, n, 0.0, whole)
    first, total = positives.first[positives.owner[sequence]], 0.0
    for label in range(len(labels)):
        for prediction in range(len(predictions)):
            cell = labels[label] * predictions[prediction]
            if cell > 0.0:
                total += cell / n * positives.costs[first + label, prediction]
    return Paid(True, n, total, whole)
