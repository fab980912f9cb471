"""Precision, recall and measures derived from them: for the positive class, and over all classes.

>>> one = Binary(tp=6.0, fn=2.0, fp=10.0, tn=22.0)
>>> {measure.__name__: measure(one)[0] for measure in (precision, recall, specificity, f1, f2)}
{'precision': 0.375, 'recall': 0.75, 'specificity': 0.6875, 'f1': 0.5, 'f2': 0.625}
>>> f0_5(one._replace(fp=13.0))  # 7.5/21
(0.35714285714285715, 0)
>>> prevalence(one), predicted_prevalence(one)  # 8/40, 16/40
((0.2, 0), (0.4, 0))

A mean over the classes present counts a class without a value as 0.

>>> from prequential.engine.measures.table import classes_of
>>> c = classes_of([[6, 2], [2, 0]])
>>> {measure.__name__: measure(c)[0] for measure in (balanced_accuracy, macro_f1, weighted_f1)}
{'balanced_accuracy': 0.375, 'macro_f1': 0.375, 'weighted_f1': 0.6}
>>> macro_recall(classes_of([[8, 2], [0, 0]]))  # (8/10 + 0)/2
(0.4, 0)
>>> macro_precision(classes_of([[8, 0], [2, 6]]))  # (8/10 + 6/6)/2
(0.9, 0)
>>> g_mean(classes_of([[8, 2], [8, 2]]))  # sqrt(0.8·0.2)
(0.4, 0)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints32, allocating, inner, kernel
from prequential.engine.compiled.mathematics import exp, log, root
from prequential.engine.measures.declaration import (
    CLASSES,
    DEFINED,
    EMPTY,
    NO_NEGATIVES,
    NO_POSITIVE,
    NO_POSITIVES,
    NO_PREDICTED_POSITIVES,
    POSITIVE,
    UNSEEN_POSITIVE,
    ZERO_DENOMINATOR,
    Loss,
    Result,
    measure,
)
from prequential.engine.tables.streams import FALSE, ONE, OTHER, TRUE, ZERO

#: If no stream has costs.
NO_COSTS: Floats = np.zeros((0, 0))
NONE_PRICED: Bytes = np.zeros(0, dtype=np.uint8)

#: If rows are of streams, not of sequences.
NO_OWNER: Ints32 = np.zeros(0, dtype=np.int32)

#: If no stream's predictions are quantiles.
NO_QUANTILES: Floats = np.zeros(0)

#: If no stream's classes are sets of labels.
NO_SETS: Bytes = np.zeros(0, dtype=np.uint8)
NO_MEMBERS: Bytes = np.zeros((0, 0), dtype=np.uint8)

#: The basis of costs: an outcome, or each unit of its value.
PER_OUTCOME, PER_VALUE = 1, 2


class Positives(NamedTuple):
    """The data that determine positive classes: streams of sequences, configuration and classes of streams.

    They also have the costs of outcomes by class, the quantile that predictions are, and the labels in
    classes that are sets of labels.
    """

    owner: Ints32  # stream by sequence
    configured: Ints32  # by stream: the class's code; UNSEEN_POSITIVE: no code yet; NO_POSITIVE: none
    first: Ints32  # by stream: the first of its classes below
    classes: Ints32  # by stream: how many classes it has
    sort: Bytes  # by class: the sort of its name, such as `TRUE`
    priced: Bytes = NONE_PRICED  # by stream: 0, or the basis of its costs; no rows if no stream has any
    costs: Floats = NO_COSTS  # by class, then by code of the prediction; no rows if no stream has any
    quantile: Floats = NO_QUANTILES  # by stream, for regression; 0: none is configured
    sets: Bytes = NO_SETS  # by stream: whether its classes are sets of labels; no rows if no stream's are
    members: Bytes = NO_MEMBERS  # by class, then by label: whether it is in the set; no rows without sets


@inner
def quantile_of(positives: Positives, stream: int) -> float:
    """The quantile that a stream's predictions are, above 0 and below 1; 0: none is configured."""
    return positives.quantile[stream] if len(positives.quantile) else 0.0


@kernel
def positive_of(positives: Positives, sequence: int, labels: Floats) -> int:
    """The code of a sequence's positive class, given its labels by class in memory, (k,) counts or weights.

    It is the configured class. Without one, it is `true` if all labels in memory are booleans, or `1` if they
    are 0 and 1. `NO_POSITIVE`: there is none. `UNSEEN_POSITIVE`: it has no code yet.
    """
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream]
    first = positives.first[stream]
    booleans = digits = True
    for code in range(min(len(labels), positives.classes[stream])):
        if labels[code] > 0.0:
            sort = positives.sort[first + code]
            booleans &= sort in (FALSE, TRUE)
            digits &= sort in (ZERO, ONE)
    if not booleans and not digits:
        return NO_POSITIVE
    wanted = TRUE if booleans else ONE
    for code in range(positives.classes[stream]):
        if positives.sort[first + code] == wanted:
            return code
    return UNSEEN_POSITIVE


@inner
def may_be_positive(positives: Positives, sequence: int, code: int) -> bool:
    """Whether a class (code) may be the positive one of a sequence, whatever its other labels.

    If no class can be identified as positive, it is the second class, which distinguishes two classes.
    """
    stream = positives.owner[sequence]
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    if code >= positives.classes[stream]:
        return False
    sort = positives.sort[positives.first[stream] + code]
    return code == 1 if sort == OTHER else sort in (TRUE, ONE)


#: Products of recalls below it have lost digits.
_TINY = 1e-280


class ClassCells(NamedTuple):
    """The matrix by class i, each against all others: columns of (k,) counts or weights."""

    labels: Floats
    predictions: Floats
    hits: Floats  # label and prediction
    missed: Floats  # label only
    false: Floats  # prediction only
    neither: Floats  # neither
    other_labels: Floats
    other_predictions: Floats


@inner
def clear_class(cells: ClassCells, i: int) -> None:
    """Set all counts of a class to 0."""
    cells.labels[i] = cells.predictions[i] = cells.hits[i] = cells.missed[i] = 0.0
    cells.false[i] = cells.neither[i] = cells.other_labels[i] = cells.other_predictions[i] = 0.0


class Binary(NamedTuple):
    """One class, the positive one, against all others (2019 paper, table I)."""

    tp: float
    fn: float
    fp: float
    tn: float


@allocating
def new_classes(capacity: int) -> ClassCells:
    """Uninitialised arrays for the results of `sum_up` by class: columns of (capacity,) float64."""
    room = np.empty((8, capacity))
    return ClassCells(room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7])


@kernel
def binary(n: float, c: ClassCells, positive: int) -> Binary:
    """The class with code `positive` against all others, of n outcomes.

    If it has no place among the classes, no outcome has it: there are n true negatives.
    """
    if positive < 0 or positive >= len(c.labels):
        return Binary(0.0, 0.0, 0.0, n)
    return Binary(c.hits[positive], c.missed[positive], c.false[positive], c.neither[positive])


@inner
def _mean(total: float, weights: float) -> Result:
    """A mean over classes; there are none if all outcomes are empty sets of labels."""
    if weights == 0.0:
        return 0.0, ZERO_DENOMINATOR
    return total / weights, DEFINED


@measure(CLASSES, "mean of r_i/t_i", "2019, eq. 2", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def balanced_accuracy(c: ClassCells) -> Result:
    """Arithmetic mean of the recalls of the classes with labels."""
    total, classes = 0.0, 0
    for i in range(len(c.labels)):
        if c.labels[i] > 0.0:
            total += c.hits[i] / c.labels[i]
            classes += 1
    return _mean(total, classes)


@measure(CLASSES, "geometric mean of r_i/t_i", "2019, eq. 4", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def g_mean(c: ClassCells) -> Result:
    """Geometric mean of the recalls of the classes with labels."""
    product, classes = 1.0, 0
    for i in range(len(c.labels)):
        if c.labels[i] > 0.0:
            if c.hits[i] == 0.0:
                return 0.0, DEFINED
            product *= c.hits[i] / c.labels[i]
            classes += 1
    if classes == 0:
        return 0.0, ZERO_DENOMINATOR
    if product > _TINY:
        return min(1.0, root(product, classes)), DEFINED
    total = 0.0  # the product is too small for a float
    for i in range(len(c.labels)):
        if c.labels[i] > 0.0:
            total += log(c.hits[i]) - log(c.labels[i])
    return min(1.0, exp(total / classes)), DEFINED


@inner
def missed_positive(label: bool, prediction: bool) -> tuple[float, bool]:
    """The loss whose mean is 1 minus `recall`: for outcomes with the positive label."""
    return 1.0 if label != prediction else 0.0, label


@inner
def false_positive(label: bool, prediction: bool) -> tuple[float, bool]:
    """The loss whose mean is 1 minus `precision`: for outcomes that are predicted as positive."""
    return 1.0 if label != prediction else 0.0, prediction


@inner
def false_alarm(label: bool, prediction: bool) -> tuple[float, bool]:
    """The loss that 1 less `specificity` is the mean of: of outcomes with another label."""
    return 1.0 if label != prediction else 0.0, not label


@measure(
    POSITIVE, "TP/P̂", "2019, eq. 6", low=0, high=1, undefined=(NO_PREDICTED_POSITIVES,),
    loss=Loss("precision", 1.0, one_less=True, function=false_positive),
)  # fmt: skip
def precision(b: Binary) -> Result:
    """Precision of the positive class.

    The share of those predicted as positive that are.
    """
    if b.tp + b.fp == 0.0:
        return 0.0, NO_PREDICTED_POSITIVES
    return b.tp / (b.tp + b.fp), DEFINED


@measure(
    POSITIVE, "TP/P", "2019, eq. 7", low=0, high=1, undefined=(NO_POSITIVES,),
    loss=Loss("recall", 1.0, one_less=True, function=missed_positive),
)  # fmt: skip
def recall(b: Binary) -> Result:
    """Recall of the positive class.

    The share of the positives that are predicted as such.
    """
    if b.tp + b.fn == 0.0:
        return 0.0, NO_POSITIVES
    return b.tp / (b.tp + b.fn), DEFINED


@measure(
    POSITIVE, "TN/N", low=0, high=1, undefined=(NO_NEGATIVES,),
    loss=Loss("specificity", 1.0, one_less=True, function=false_alarm),
)  # fmt: skip
def specificity(b: Binary) -> Result:
    """Specificity of the positive class."""
    if b.tn + b.fp == 0.0:
        return 0.0, NO_NEGATIVES
    return b.tn / (b.tn + b.fp), DEFINED


@measure(POSITIVE, "P/n", low=0, high=1, quality=False, undefined=(EMPTY,))
def prevalence(b: Binary) -> Result:
    """Share of labels of the positive class."""
    n = b.tp + b.fn + b.fp + b.tn
    return ((b.tp + b.fn) / n, DEFINED) if n > 0.0 else (0.0, EMPTY)


@measure(POSITIVE, "P̂/n", low=0, high=1, quality=False, undefined=(EMPTY,))
def predicted_prevalence(b: Binary) -> Result:
    """Share of predictions of the positive class."""
    n = b.tp + b.fn + b.fp + b.tn
    return ((b.tp + b.fp) / n, DEFINED) if n > 0.0 else (0.0, EMPTY)


@measure(
    POSITIVE, "2·TP/(P + P̂)", "2019, eq. 5", low=0, high=1, undefined=(NO_POSITIVES, NO_PREDICTED_POSITIVES),
)  # fmt: skip
def f1(b: Binary) -> Result:
    """F1 of the positive class.

    The harmonic mean of precision and recall: without a value where one of the two has none.
    """
    return _weighted(b, 1.0)


@measure(
    POSITIVE, "5·TP/(4·P + P̂)", "van Rijsbergen 1979", low=0, high=1,
    undefined=(NO_POSITIVES, NO_PREDICTED_POSITIVES),
)  # fmt: skip
def f2(b: Binary) -> Result:
    """F2 of the positive class: recall counts four times as much as precision."""
    return _weighted(b, 4.0)


@measure(
    POSITIVE, "1.25·TP/(0.25·P + P̂)", "van Rijsbergen 1979", low=0, high=1,
    undefined=(NO_POSITIVES, NO_PREDICTED_POSITIVES),
)  # fmt: skip
def f0_5(b: Binary) -> Result:
    """F0.5 of the positive class: precision counts four times as much as recall."""
    return _weighted(b, 0.25)


@inner
def _weighted(b: Binary, square: float) -> Result:
    """(1 + β²)TP/(β²P + P̂), given β²; or the reason of recall or precision, where one has no value."""
    _, reason = recall(b)
    if not reason:
        _, reason = precision(b)
    if reason:
        return 0.0, reason
    return (1.0 + square) * b.tp / (square * (b.tp + b.fn) + (b.tp + b.fp)), DEFINED


@measure(CLASSES, "mean of r_i/h_i", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def macro_precision(c: ClassCells) -> Result:
    """Mean precision of the classes."""
    total = 0.0
    for i in range(len(c.labels)):
        if c.predictions[i] > 0.0:
            total += c.hits[i] / c.predictions[i]
    return _mean(total, present(c))


@measure(CLASSES, "mean of r_i/t_i", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def macro_recall(c: ClassCells) -> Result:
    """Mean recall of the classes."""
    total = 0.0
    for i in range(len(c.labels)):
        if c.labels[i] > 0.0:
            total += c.hits[i] / c.labels[i]
    return _mean(total, present(c))


@measure(CLASSES, "mean of 2·r_i/(t_i + h_i)", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def macro_f1(c: ClassCells) -> Result:
    """Mean F1 of the classes."""
    total = 0.0
    for i in range(len(c.labels)):
        total += f1_of(c, i)
    return _mean(total, present(c))


@measure(CLASSES, "Σ t_i/n · 2·r_i/(t_i + h_i)", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def weighted_f1(c: ClassCells) -> Result:
    """Mean F1 of the classes, weighted with their labels."""
    total, weights = 0.0, 0.0
    for i in range(len(c.labels)):
        total += f1_of(c, i) * c.labels[i]
        weights += c.labels[i]
    return _mean(total, weights)


@inner
def f1_of(c: ClassCells, i: int) -> float:
    """The F1 of a class; 0 if it has no value."""
    return 2.0 * c.hits[i] / (c.labels[i] + c.predictions[i]) if c.hits[i] > 0.0 else 0.0


@inner
def present(c: ClassCells) -> int:
    """How many classes have a label or a prediction."""
    classes = 0
    for i in range(len(c.labels)):
        if c.labels[i] > 0.0 or c.predictions[i] > 0.0:
            classes += 1
    return classes
