"""Precision, recall and what is made of them: for the positive class, and over all classes."""

from __future__ import annotations

import math
from contextlib import suppress

from prequential.core.measures.matrix import Binary, Matrix, Undefined


def recall(b: Binary) -> float:
    """TP/P: share of the positives that are predicted as such (2019 paper, eq. 7).

    >>> recall(Binary(tp=8, positives=10, predicted=16, n=40))
    0.8
    """
    if not b.positives:
        raise Undefined("no_positives")
    return b.tp / b.positives


def precision(b: Binary) -> float:
    """TP/(TP + FP): share of those predicted as positive that are (2019 paper, eq. 6).

    >>> precision(Binary(tp=8, positives=10, predicted=16, n=40))
    0.5
    """
    if not b.predicted:
        raise Undefined("no_predicted_positives")
    return b.tp / b.predicted


def specificity(b: Binary) -> float:
    """TN/N: share of the negatives that are predicted as such.

    >>> specificity(Binary(tp=8, positives=10, predicted=14, n=40))  # 24/30
    0.8
    """
    negatives = b.n - b.positives
    if not negatives:
        raise Undefined("no_negatives")
    return min(1.0, b.tn / negatives)


def f1(b: Binary) -> float:
    """Harmonic mean of precision and recall, 2TP/(P + P̂) (2019 paper, eq. 5).

    Without a value where one of the two has none; 0 where both are 0.

    >>> f1(Binary(tp=6, positives=8, predicted=16, n=40))  # 12/24
    0.5
    """
    recall(b)
    precision(b)
    return 2 * b.tp / (b.positives + b.predicted)


def _recalls(m: Matrix) -> list[float]:
    """Recalls of the classes that have labels."""
    return [hits / labels for hits, labels in zip(m.hits, m.labels) if labels]


def balanced_accuracy(m: Matrix) -> float:
    """Arithmetic mean of the recalls of the classes that have labels (2019 paper, eq. 2).

    >>> balanced_accuracy(Matrix.of([[8, 2], [1, 1]]))  # (0.8 + 0.5)/2
    0.65
    """
    recalls = _recalls(m)
    return math.fsum(recalls) / len(recalls)


def g_mean(m: Matrix) -> float:
    """Geometric mean of the recalls of the classes that have labels (2019 paper, eq. 4).

    >>> g_mean(Matrix.of([[8, 2], [8, 2]]))  # sqrt(0.8·0.2)
    0.4
    """
    recalls = _recalls(m)
    return float(math.prod(recalls) ** (1 / len(recalls)))


def macro_precision(m: Matrix) -> float:
    """Mean of the precisions of the classes present; one without a value counts 0.

    >>> macro_precision(Matrix.of([[8, 0], [2, 6]]))  # (8/10 + 6/6)/2
    0.9
    """
    precisions = [hits / predicted for hits, predicted in zip(m.hits, m.predictions) if predicted]
    return math.fsum(precisions) / len(m.present)


def macro_recall(m: Matrix) -> float:
    """Mean of the recalls of the classes present; one without a value counts 0.

    >>> macro_recall(Matrix.of([[8, 2], [0, 0]]))  # (8/10 + 0)/2
    0.4
    """
    return math.fsum(_recalls(m)) / len(m.present)


def macro_f1(m: Matrix) -> float:
    """Mean of the F1 of the classes present; one without a value counts 0.

    >>> macro_f1(Matrix.of([[6, 2], [2, 0]]))  # (12/16 + 0)/2
    0.375
    """
    return math.fsum(_f1s(m)) / len(m.present)


def weighted_f1(m: Matrix) -> float:
    """Mean of the classes' F1, weighted with their labels; one without a value counts 0.

    >>> weighted_f1(Matrix.of([[6, 2], [2, 0]]))  # (8·12/16 + 2·0)/10
    0.6
    """
    return math.fsum(f1 * labels for f1, labels in zip(_f1s(m), m.labels)) / m.n


def _f1s(m: Matrix) -> list[float]:
    """The F1 of every class, 0 where it has no value."""
    return [
        2 * hits / (labels + predicted) if hits else 0.0
        for hits, labels, predicted in zip(m.hits, m.labels, m.predictions)
    ]


def by_class(m: Matrix, names: list[str]) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` and `support` (labels) of each class present, where they have a value.

    >>> by_class(Matrix.of([[4, 0], [4, 0]]), ["up", "down"])["down"]
    {'support': 4, 'recall': 0.0}
    """
    found = {}
    for code in m.present:
        one = Binary(m.hits[code], m.labels[code], m.predictions[code], m.n)
        values = {"support": one.positives}
        for measure in (precision, recall, f1):
            with suppress(Undefined):
                values[measure.__name__] = measure(one)
        found[names[code]] = values
    return found
