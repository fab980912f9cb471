"""Deciles of predicted numbers (detail `residuals`): mean prediction and mean label in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Floats
from prequential.engine.compiled.mathematics import added
from prequential.engine.estimators.residuals import COLUMNS, ERRORS, LABELS, MEAN, WEIGHT

#: Parts of equal weight, from the smallest predictions to the largest.
DECILES = 10


class Decile(NamedTuple):
    """A tenth of all outcomes, by their predictions."""

    n: float  # outcomes, or their weight
    predicted: float  # mean prediction
    actual: float  # mean label
    bias: float  # predicted - actual
    mae: float  # mean of |prediction - label|


def as_message(bins: Floats) -> dict[str, Any] | None:
    """The report of bins, (bins, `COLUMNS`), in order of predictions; None for fewer than ten outcomes.

    A bin across the bound of two deciles counts in each by its share. `predicted`, `actual` and
    `mae` have a number for each decile, and all of them have n/10 outcomes.

    >>> import numpy as np
    >>> found = as_message(np.array([[12.0, 1.0, 18.0, 6.0], [8.0, 3.0, 16.0, 8.0]]))
    >>> found["n"], found["predicted"][4:8], found["actual"][5:7], found["mae"][4]
    (20.0, [1.0, 1.0, 3.0, 3.0], [1.5, 2.0], 0.5)
    """
    n = added(bins[:, WEIGHT].tolist())
    if n < DECILES:
        return None
    sums = [[0.0] * COLUMNS for _ in range(DECILES)]
    each, decile, room = n / DECILES, 0, n / DECILES
    for weight, mean, labels, errors in bins.tolist():
        left = weight
        while left > 0.0:
            part = left if decile == DECILES - 1 else min(left, room)
            own = sums[decile]
            own[WEIGHT] += part
            own[MEAN] += part * mean
            own[LABELS] += part * (labels / weight)
            own[ERRORS] += part * (errors / weight)
            left, room = left - part, room - part
            if room <= 0.0 and decile < DECILES - 1:
                decile, room = decile + 1, each
    return {
        "n": n, "predicted": [own[MEAN] / own[WEIGHT] for own in sums],
        "actual": [own[LABELS] / own[WEIGHT] for own in sums],
        "mae": [own[ERRORS] / own[WEIGHT] for own in sums],
    }  # fmt: skip


def deciles_of(message: Mapping[str, Any]) -> list[Decile]:
    """The deciles that the field `residuals` of a message has, from the smallest predictions to the largest.

    >>> deciles_of({"n": 50.0, "predicted": [1.5], "actual": [1.0], "mae": [0.75]})
    [Decile(n=5.0, predicted=1.5, actual=1.0, bias=0.5, mae=0.75)]
    """
    columns = (message[name] for name in ("predicted", "actual", "mae"))
    return [
        Decile(message["n"] / DECILES, predicted, actual, predicted - actual, mae)
        for predicted, actual, mae in zip(*columns)
    ]


def deciles_in(message: Mapping[str, Any]) -> list[Decile]:
    """The same; none where it is no such field, of another version.

    >>> deciles_in({"n": 50.0}), deciles_in({})
    ([], [])
    """
    try:
        return deciles_of(message)
    except (LookupError, TypeError, ValueError):
        return []
