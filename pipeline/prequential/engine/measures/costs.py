"""The costs of outcomes: measures from `costs` and the confusion matrix or, by value, from separate sums.

With costs by value (`cost_per_value`), an outcome costs `costs[label][prediction]` times its value. Outcomes
without a value count neither in the sum nor in their number.

>>> paid = Paid(reason=DEFINED, n=4.0, total=10.0, whole=True)
>>> cost(paid), cost_total(paid)
((2.5, 0), (10.0, 0))
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner, kernel
from prequential.engine.measures.declaration import (
    COSTS,
    DEFINED,
    FADED,
    LESS,
    NO_COSTS,
    NO_VALUES,
    Result,
    measure,
)
from prequential.engine.measures.per_class import PER_VALUE, Positives
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import JointCells
from prequential.engine.tables.scores import NO_WEIGHT

#: Places in an estimator's sums of costs by value: the costs, and the number or weight of outcomes with a
#: value. The number or weight of all outcomes follows; `SUMS` is the number of places.
COST, VALUED, SUMS = 0, 1, 3


class Paid(NamedTuple):
    """The cost of all outcomes in memory."""

    reason: int  # why it has no value, or `DEFINED`
    n: float  # outcomes, or their weight; with costs by value, only those with a value
    total: float
    whole: bool  # whether each outcome counts 1


@measure(
    COSTS, "mean of `costs[label][prediction]`, 0 where none is listed, with `cost_per_value` times `value`",
    better=LESS,
)  # fmt: skip
def cost(k: Paid) -> Result:
    """Mean cost of an outcome, by the configured costs."""
    return k.total / k.n, DEFINED


@measure(COSTS, "sum of the same", better=LESS, undefined=(FADED,))
def cost_total(k: Paid) -> Result:
    """Cost of all outcomes in memory."""
    if not k.whole:
        return 0.0, FADED
    return k.total, DEFINED


@inner
def _costs_of(positives: Positives, sequence: int) -> int:
    """The basis of a sequence's costs, such as `per_class.PER_VALUE`; 0: it has none."""
    return np.int64(positives.priced[positives.owner[sequence]]) if len(positives.priced) else 0


@inner
def paid_of(
    positives: Positives, sequence: int, cells: JointCells, k: int, n: float, whole: bool, by_value: Floats
) -> Paid:
    """The costs of a sequence's outcomes, from joint cells of weight n or sums by value (`SUMS`,)."""
    basis = _costs_of(positives, sequence)
    if basis == 0:
        return Paid(NO_COSTS, n, 0.0, whole)
    if basis == PER_VALUE:
        reason = NO_VALUES if by_value[VALUED] < NO_WEIGHT else DEFINED
        return Paid(reason, by_value[VALUED], by_value[COST], whole)
    first, total, index = positives.first[positives.owner[sequence]], 0.0, 0
    if outcomes.is_listed(cells):
        while index < len(cells.keys):
            key = cells.keys[index]
            index, cell = outcomes.listed_weight(cells, index)
            total += cell * positives.costs[first + outcomes.label_of(key), outcomes.prediction_of(key)]
        return Paid(DEFINED, n, total, whole)
    for label in range(k):
        for prediction in range(k):
            cell = outcomes.weight_of(cells.weights, label * k + prediction)
            if cell > 0.0:
                total += cell * positives.costs[first + label, prediction]
    return Paid(DEFINED, n, total, whole)


@kernel
def sum_up_stakes(positives: Positives, sequence: int, stakes: Floats, k: int, sums: Floats) -> None:
    """Write sums of costs by value, (`SUMS`,), from stakes by label·k + prediction, (k², 2).

    `stakes` has the sums of outcomes' values, and the numbers of outcomes with a value.
    """
    first = positives.first[positives.owner[sequence]]
    for label in range(k):
        for prediction in range(k):
            stake, valued = stakes[label * k + prediction]
            if valued > 0.0:
                sums[COST] += positives.costs[first + label, prediction] * stake
                sums[VALUED] += valued


@inner
def paid_by_chance(
    positives: Positives, sequence: int, labels: Floats, predictions: Floats, n: float, whole: bool
) -> Paid:
    """The costs of random predictions with the same distribution: each label with each prediction.

    They have no costs by value, since their values are unknown.
    """
    basis = _costs_of(positives, sequence)
    if basis == 0 or basis == PER_VALUE:
        return Paid(NO_VALUES if basis else NO_COSTS, n, 0.0, whole)
    first, total = positives.first[positives.owner[sequence]], 0.0
    for label in range(len(labels)):
        for prediction in range(len(predictions)):
            cell = labels[label] * predictions[prediction]
            if cell > 0.0:
                total += cell / n * positives.costs[first + label, prediction]
    return Paid(DEFINED, n, total, whole)
