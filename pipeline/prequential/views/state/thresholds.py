"""The threshold at which a model decides, as its predictions show it, and AUC from a histogram of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.details import curves
from prequential.topics.errors import printable
from prequential.views.state.readings import Reading

#: The classes that are positive unless one is configured.
_POSITIVE = ("true", "1")

#: Part of the outcomes by which predictions may differ from those of a threshold: a histogram has bins.
_TOLERANCE = 0.01

#: Outcomes of each class without which an area is undefined, as in messages.
_LEAST = 30

#: Where a model for two classes decides if nothing else is said.
_USUAL = 0.5

#: Thresholds that differ by less are the same: bins have widths of up to 0.013.
_APART = 0.03


def histogram(message: Mapping[str, Any]) -> curves.Histogram | None:
    """Return the histogram in a message's field `scores`; None if another version wrote another form."""
    try:
        return curves.histogram_of(message)
    except (LookupError, TypeError, ValueError):
        return None


def positive_class(settings: StreamConfig, confusion: Mapping[str, Mapping[str, float]]) -> str | None:
    """Return the positive class of a confusion matrix: the configured one, else `true` or `1`."""
    classes = {*confusion, *(name for row in confusion.values() for name in row)}
    wanted = _POSITIVE if settings.positive_class is None else (str(settings.positive_class),)
    return next((name for name in wanted if name in classes), None)


def area_under_roc(scores: curves.Histogram) -> float | None:
    """Return AUC of a histogram: the share of pairs in which the positive has the higher score, ties half.

    It is within half a bin of the exact value; None with fewer than 30 outcomes of a class.

    >>> one = curves.histogram_of({"bins": [10, 50], "negatives": [40, 20], "positives": [10, 30]})
    >>> area_under_roc(one)
    0.7083333333333334
    """
    positives, negatives = float(scores.positives.sum()), float(scores.negatives.sum())
    if min(positives, negatives) < _LEAST:
        return None
    below = np.cumsum(scores.negatives) - scores.negatives / 2
    return float((scores.positives * below).sum() / (positives * negatives))


def with_area(reading: Reading) -> dict[str, float]:
    """Return the measures of a reading, with AUC from its scores if it isn't among them."""
    values = dict(reading.measures)
    scores = histogram(reading.scores) if reading.scores and "auc" not in values else None
    area = None if scores is None else area_under_roc(scores)
    return values if area is None else {**values, "auc": area}


class DecisionThreshold(NamedTuple):
    """The score from which on a model predicts the positive class."""

    positive: str
    #: The lowest and the highest threshold with these predictions: no score lies between them.
    low: float
    high: float

    @property
    def threshold(self) -> float:
        """The usual threshold 0.5 if it explains the predictions, else the middle."""
        return _USUAL if self.low <= _USUAL <= self.high else (self.low + self.high) / 2


def decision_threshold(
    scores: curves.Histogram, confusion: Mapping[str, Mapping[str, float]], positive: str | None
) -> DecisionThreshold | None:
    """Return the threshold that explains a model's predictions; None if none does.

    Both counts, of all positive predictions and of the right ones, must be those of the threshold.

    >>> scores = curves.histogram_of({"bins": [83, 100], "negatives": [60, 10], "positives": [10, 20]})
    >>> matrix = {"late": {"late": 20, "on time": 10}, "on time": {"late": 10, "on time": 60}}
    >>> decided = decision_threshold(scores, matrix, "late")
    >>> round(decided.low, 2), round(decided.high, 2), decided.threshold
    (0.3, 0.5, 0.5)
    >>> decision_threshold(scores, {"late": {"late": 5}, "on time": {"on time": 95}}, "late") is None
    True
    """
    if positive is None:
        return None
    predicted = sum(row.get(positive, 0.0) for row in confusion.values())
    correct = confusion.get(positive, {}).get(positive, 0.0)
    total = sum(sum(row.values()) for row in confusion.values())
    above = np.cumsum((scores.positives + scores.negatives)[::-1])[::-1]
    hits = np.cumsum(scores.positives[::-1])[::-1]
    if not total or abs(float(above[0]) - total) > _TOLERANCE * total:
        return None
    off = np.maximum(np.abs(above - predicted), np.abs(hits - correct))
    if float(off.min()) > _TOLERANCE * total or not 0.0 < predicted < total:
        return None
    matching = np.flatnonzero(off <= off.min())
    return DecisionThreshold(
        positive, float(curves.THRESHOLDS[matching[0]]), float(curves.THRESHOLDS[matching[-1]])
    )


def threshold_of(reading: Reading | None, settings: StreamConfig) -> DecisionThreshold | None:
    """Return the threshold of the predictions in a message that has scores and a confusion matrix."""
    scores = None if reading is None or not reading.scores else histogram(reading.scores)
    if reading is None or scores is None or not reading.confusion:
        return None
    return decision_threshold(scores, reading.confusion, positive_class(settings, reading.confusion))


def thresholds_sentence(decisions: Sequence[tuple[str, DecisionThreshold]]) -> str | None:
    """Return a sentence about models that decide at different thresholds; None if they don't differ.

    >>> first, second = DecisionThreshold("late", 0.49, 0.505), DecisionThreshold("late", 0.3, 0.3)
    >>> thresholds_sentence([("a", first), ("b", second)])
    'a predicts late from a probability of 0.50 on, b from 0.30 on: a comparison of their classes also \
compares these thresholds. Their probabilities can be compared by log_loss, brier and auc.'
    """
    if (
        len(decisions) < 2
        or max(decision.low for _, decision in decisions) - min(decision.high for _, decision in decisions)
        < _APART
    ):
        return None
    (name, first), *rest = decisions
    other_models = ", ".join(
        f"{printable(model)} from {decision.threshold:.2f} on" for model, decision in rest
    )
    return (
        f"{printable(name)} predicts {printable(first.positive)} from a probability of {first.threshold:.2f} "
        f"on, {other_models}: a comparison of their classes also compares these thresholds. "
        "Their probabilities can be compared by log_loss, brier and auc."
    )
