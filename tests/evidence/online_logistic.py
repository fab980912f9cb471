"""A model that learns from labels as they come: logistic regression by stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Step of the gradient.
_STEP = 0.05


def probabilities(x: Any, y: Any, made: Any, came: Any) -> Any:
    """What it says of each instance when that is made, having learned the labels that have come by then.

    Parameters
    ----------
    x
        Attributes, (n, attributes).
    y
        Whether the label is 1, (n,).
    made, came
        Times of instances (in order) and of their labels, (n,); inf: never.

    Returns
    -------
    ndarray
        p(1), (n,).
    """
    order = np.argsort(came, kind="stable")
    weights, found, next_label = np.zeros(x.shape[1]), np.zeros(len(y)), 0
    for i, now in enumerate(made):
        while next_label < len(order) and came[order[next_label]] <= now:
            one = order[next_label]
            weights += _STEP * (y[one] - _sigmoid(x[one] @ weights)) * x[one]
            next_label += 1
        found[i] = _sigmoid(x[i] @ weights)
    return found


def _sigmoid(value: float) -> float:
    return 1 / (1 + np.exp(-value))
