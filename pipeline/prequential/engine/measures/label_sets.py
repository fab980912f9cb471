"""Measures for task `multilabel`, where each class of the confusion matrix is a set of labels.

Each cell of the matrix counts outcomes with one set of true labels and one set of predicted ones. So the sets
and the cells determine, for each label, the outcomes that have it in both sets, in one, or in the other.

>>> s = LabelTotals(True, n=4.0, both=3.0, missed=2.0, false=1.0, labels=3, overlap=3.0)
>>> {measure.__name__: measure(s)[0] for measure in (micro_precision, micro_recall, hamming_loss, jaccard)}
{'micro_precision': 0.75, 'micro_recall': 0.6, 'hamming_loss': 0.25, 'jaccard': 0.75}
>>> micro_f1(s._replace(missed=1.0))
(0.75, 0)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, inner
from prequential.engine.measures.declaration import (
    DEFINED,
    LABEL_SETS,
    LESS,
    NO_POSITIVES,
    NO_PREDICTED_POSITIVES,
    ZERO_DENOMINATOR,
    Result,
    measure,
)
from prequential.engine.measures.per_class import ClassCells, Positives, clear_class, present
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import JointCells


class LabelTotals(NamedTuple):
    """Sums over the labels of all outcomes in memory, in counts or weights."""

    is_used: bool  # whether classes are sets of labels; else all is 0
    n: float  # outcomes
    both: float  # labels that are in the true and in the predicted set
    missed: float  # … in the true set only
    false: float  # … in the predicted set only
    labels: int  # how many different labels are in any of the sets
    overlap: float  # Σ |true ∩ predicted|/|true ∪ predicted|, 0 for two empty sets


@inner
def has_sets(positives: Positives, sequence: int) -> bool:
    """Whether the classes of a sequence are sets of labels."""
    return len(positives.sets) > 0 and positives.sets[positives.owner[sequence]] > 0


@inner
def sum_labels(
    cells: JointCells, c: ClassCells, positives: Positives, sequence: int, chance: bool, n: float,
    by_label: ClassCells,
) -> LabelTotals:  # fmt: skip
    """Fill `by_label` with the matrix by label, and return the sums over all labels.

    `cells`, of weight `n`, have the matrix by class `c`. With `chance`, each label set is taken with each
    predicted one instead, in n-fold counts.
    """
    first, k, members = positives.first[positives.owner[sequence]], len(c.labels), positives.members
    for i in range(len(by_label.labels)):
        clear_class(by_label, i)
    both = missed = false = overlap = 0.0
    index = 0
    for y in range(k):
        if c.labels[y] <= 0.0:
            continue
        for h in range(k):
            if c.predictions[h] <= 0.0:
                continue
            cell = 0.0
            if chance:
                cell = c.labels[y] * c.predictions[h]
            elif not outcomes.is_listed(cells):
                cell = outcomes.weight_of(cells.weights, y * k + h)
            elif (
                index < len(cells.keys) and np.int64(cells.keys[index]) >> 2 == y * outcomes.KEY_CAPACITY + h
            ):
                index, cell = outcomes.listed_weight(cells, index)
            if cell > 0.0:
                overlap += cell * _add_sets(members[first + y], members[first + h], cell, by_label)
    for i in range(len(by_label.labels)):
        by_label.labels[i] = by_label.hits[i] + by_label.missed[i]
        by_label.predictions[i] = by_label.hits[i] + by_label.false[i]
        both += by_label.hits[i]
        missed += by_label.missed[i]
        false += by_label.false[i]
    return LabelTotals(
        True, n * n if chance else n, both, missed, false, present(by_label), overlap
    )  # fmt: skip


@inner
def _add_sets(true: Bytes, predicted: Bytes, cell: float, by_label: ClassCells) -> float:
    """Add a cell's outcomes to the labels of its two sets, and return the Jaccard index of the sets."""
    shared = either = 0
    for i in range(len(true)):
        is_true, is_predicted = true[i] > 0, predicted[i] > 0
        if is_true and is_predicted:
            shared += 1
            by_label.hits[i] += cell
        elif is_true:
            by_label.missed[i] += cell
        elif is_predicted:
            by_label.false[i] += cell
        either += is_true or is_predicted
    return shared / either if shared else 0.0


@measure(LABEL_SETS, "Σ_l TP_l/Σ_l (TP_l + FP_l)", low=0, high=1, undefined=(NO_PREDICTED_POSITIVES,))
def micro_precision(s: LabelTotals) -> Result:
    """Precision over all labels of all outcomes."""
    if s.both + s.false == 0.0:
        return 0.0, NO_PREDICTED_POSITIVES
    return s.both / (s.both + s.false), DEFINED


@measure(LABEL_SETS, "Σ_l TP_l/Σ_l (TP_l + FN_l)", low=0, high=1, undefined=(NO_POSITIVES,))
def micro_recall(s: LabelTotals) -> Result:
    """Recall over all labels of all outcomes."""
    if s.both + s.missed == 0.0:
        return 0.0, NO_POSITIVES
    return s.both / (s.both + s.missed), DEFINED


@measure(LABEL_SETS, "2·Σ_l TP_l/Σ_l (2·TP_l + FP_l + FN_l)", low=0, high=1, undefined=(ZERO_DENOMINATOR,))
def micro_f1(s: LabelTotals) -> Result:
    """F1 over all labels of all outcomes."""
    whole = 2.0 * s.both + s.missed + s.false
    if whole == 0.0:
        return 0.0, ZERO_DENOMINATOR
    return 2.0 * s.both / whole, DEFINED


@measure(
    LABEL_SETS, "Σ_l (FP_l + FN_l)/(n·labels)", low=0, high=1, better=LESS, undefined=(ZERO_DENOMINATOR,),
)  # fmt: skip
def hamming_loss(s: LabelTotals) -> Result:
    """Share of labels that are wrongly predicted or wrongly left out.

    The labels are those with a label or a prediction in memory.
    """
    if s.labels == 0:
        return 0.0, ZERO_DENOMINATOR
    return (s.missed + s.false) / (s.n * s.labels), DEFINED


@measure(LABEL_SETS, "mean of #(Y ∩ Ŷ)/#(Y ∪ Ŷ), labels in both sets over labels in any", low=0, high=1)
def jaccard(s: LabelTotals) -> Result:
    """Mean Jaccard index of true and predicted labels.

    The index of two empty sets counts as 0.
    """
    return s.overlap / s.n, DEFINED
