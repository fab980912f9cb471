"""The measures: from an estimator's memory to values, or to the reason why there is none.

Counts are integers (whole history, window) or faded weights. A measure that has no value is named
with its reason, never replaced by a number (contract, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from prequential.core.arrays import Floats
from prequential.core.measures import agreement, auc, per_class, probabilistic, regression, weighted
from prequential.core.measures.matrix import Binary, Matrix, PositiveClass, Undefined, binary, matrix_of
from prequential.core.memories import Memory
from prequential.core.sums import Sums, WindowSums

_Made = TypeVar("_Made")

#: Measures of the whole confusion matrix and of the baselines, by their name in messages.
OF_MATRIX: dict[str, Callable[[Matrix], float]] = {
    function.__name__: function
    for function in (
        agreement.error, agreement.accuracy, agreement.kappa, agreement.kappa_se, agreement.kappa_z,
        agreement.p_per, agreement.kappa_per, agreement.p_maj, agreement.kappa_maj,
        agreement.kappa_plus, per_class.balanced_accuracy, per_class.g_mean, agreement.mcc,
        per_class.macro_precision, per_class.macro_recall, per_class.macro_f1, per_class.weighted_f1,
        agreement.p_ran,
    )
}  # fmt: skip

#: Measures of the positive class.
OF_POSITIVE: dict[str, Callable[[Binary], float]] = {
    function.__name__: function
    for function in (per_class.precision, per_class.recall, per_class.specificity, per_class.f1)
}

#: Measures of predicted probabilities.
OF_PROBABILITIES: dict[str, Callable[[Floats], float]] = {
    function.__name__: function
    for function in (probabilistic.log_loss, probabilistic.brier, probabilistic.ece)
}

#: Measures where labels aren't a fair sample.
OF_WEIGHTS: dict[str, Callable[[Floats], float]] = {
    function.__name__: function for function in (weighted.ipw_accuracy, weighted.ipw_n)
}

#: The one that needs the scores themselves, not sums of them: windows have it.
AUC = "auc"

#: Measures of predicted numbers.
OF_NUMBERS: dict[str, Callable[[Sums], float]] = {
    function.__name__: function
    for function in (regression.mae, regression.mse, regression.rmse, regression.r2, regression.bias)
}

MEASURES = (*OF_MATRIX, *OF_POSITIVE, *OF_PROBABILITIES, *OF_WEIGHTS, AUC, *OF_NUMBERS)


class _Plan(NamedTuple):
    """Measures by what they are made of; `without_…`: the reasons where that isn't there."""

    of_matrix: list[tuple[str, Callable[[Matrix], float]]]
    of_positive: list[tuple[str, Callable[[Binary], float]]]
    of_sums: list[tuple[str, Callable[[Floats], float]]]
    without_positive: dict[str, str]
    without_sums: dict[str, str]
    not_regression: dict[str, str]


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...]) -> _Plan:
    positive = [name for name in names if name in OF_POSITIVE]
    weights = [name for name in names if name in OF_WEIGHTS]
    probabilities = [name for name in names if name in OF_PROBABILITIES]
    return _Plan(
        [(name, OF_MATRIX[name]) for name in names if name in OF_MATRIX],
        [(name, OF_POSITIVE[name]) for name in positive],
        [(name, (OF_PROBABILITIES | OF_WEIGHTS)[name]) for name in (*probabilities, *weights)],
        dict.fromkeys(positive, "no_positive_class"),
        dict.fromkeys(probabilities, "no_probabilities") | dict.fromkeys(weights, "no_propensity"),
        dict.fromkeys([name for name in names if name in OF_NUMBERS], "not_regression"),
    )


def compute(
    memory: Memory,
    names: Sequence[str],
    positive: PositiveClass | None = None,
    sums: Sums | None = None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Values of the named measures of classes, and reasons for those without a value.

    `sums` are those of the probabilities' scores, None where there were none.

    >>> from prequential.core.memories import build_memory
    >>> compute(build_memory("all"), ["accuracy"])
    ({}, {'accuracy': 'empty'})
    """
    if not memory.n:
        return {}, dict.fromkeys(names, "empty")
    return _of_classes(matrix_of(memory), names, positive, sums)


def compute_by_chance(
    memory: Memory, names: Sequence[str], positive: PositiveClass | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """What the measures of classes would be of random predictions with the model's own distribution.

    In closed form: measures of the expected matrix. Nothing random is done.

    >>> from prequential.core.memories import build_memory
    >>> import numpy as np
    >>> memory = build_memory("all")
    >>> memory.update(np.array([0, 0, 4, 12]))  # label 0 predicted as 0, 0, 1; label 1 as 1
    >>> compute_by_chance(memory, ["accuracy", "kappa"])  # p_ran = (3·2 + 1·2)/16
    ({'accuracy': 0.5, 'kappa': 0.0}, {})
    """
    if not memory.n:
        return {}, dict.fromkeys(names, "empty")
    values, undefined = _of_classes(matrix_of(memory).by_chance(), names, positive, None)
    if "kappa_se" in values:  # of n outcomes; the expected matrix has n-fold counts
        values["kappa_se"] *= math.sqrt(memory.n)
    return values, undefined


def _of_classes(
    matrix: Matrix, names: Sequence[str], positive: PositiveClass | None, sums: Sums | None
) -> tuple[dict[str, float], dict[str, str]]:
    plan = _plan(tuple(names))
    values: dict[str, float] = {}
    undefined = dict(plan.not_regression)
    _fill(plan.of_matrix, matrix, values, undefined)
    code = None if positive is None else positive.code(matrix.labels)
    if code is None:
        undefined.update(plan.without_positive)
    else:
        _fill(plan.of_positive, binary(matrix, code), values, undefined)
    if sums is None:
        undefined.update(plan.without_sums)
    else:
        _fill(plan.of_sums, sums.sums, values, undefined)
    if AUC in names:
        _fill([(AUC, _auc)], (sums, code), values, undefined)
    return values, undefined


def _auc(of: tuple[Sums | None, int | None]) -> float:
    sums, positive = of
    if positive is None:
        raise Undefined("no_positive_class")
    if not isinstance(sums, WindowSums):
        raise Undefined("no_probabilities" if sums is None else "not_a_window")
    return auc.area(*sums.sides())


def _fill(
    measures: Sequence[tuple[str, Callable[[_Made], float]]],
    of: _Made,
    values: dict[str, float],
    undefined: dict[str, str],
) -> None:
    for name, function in measures:
        try:
            values[name] = function(of)
        except Undefined as reason:
            undefined[name] = str(reason)


class MeasureSet(NamedTuple):
    """The measures that a stream asks for."""

    names: Sequence[str]
    positive: PositiveClass | None = None
    regression: bool = False

    @property
    def class_names(self) -> list[str]:
        """The stream's classes by code."""
        return [] if self.positive is None else self.positive.classes.names

    def of(self, memory: Memory, sums: Sums | None) -> tuple[dict[str, float], dict[str, str]]:
        """Their values in an estimator's memory, and reasons for those without a value."""
        if self.regression:
            return compute_numbers(memory, self.names, sums)
        return compute(memory, self.names, self.positive, sums)

    def by_chance(self, memory: Memory) -> tuple[dict[str, float], dict[str, str]]:
        """Likewise, of random predictions with the model's own distribution."""
        return compute_by_chance(memory, self.names, self.positive)


def compute_numbers(
    memory: Memory, names: Sequence[str], sums: Sums | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Values of the named measures of numbers, and reasons for those without a value.

    >>> from prequential.core.memories import build_memory
    >>> compute_numbers(build_memory("all"), ["mae"], None)
    ({}, {'mae': 'empty'})
    """
    if not memory.n or sums is None:
        return {}, dict.fromkeys(names, "empty")
    values: dict[str, float] = {}
    undefined = {name: "not_classification" for name in names if name not in OF_NUMBERS}
    numbers = [(name, OF_NUMBERS[name]) for name in names if name in OF_NUMBERS]
    _fill(numbers, sums, values, undefined)
    return values, undefined
