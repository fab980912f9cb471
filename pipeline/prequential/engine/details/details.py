"""Details of an estimator beyond its measures; messages include those that the configuration names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details.gradients import class_ratio_gradients, moves_with_class_ratio
from prequential.engine.details.intervals import (
    autocorrelation,
    error_worth,
    less_one,
    precision_worth,
    shrunk,
    wilson,
)
from prequential.engine.details.normalisation import RATIOS, normalised
from prequential.engine.estimators.pairs import CELL, MAJORITY, PERSISTENT, WRONG
from prequential.engine.measures.agreement import Totals
from prequential.engine.measures.declaration import NO_POSITIVE, REASONS
from prequential.engine.measures.per_class import (
    Binary,
    ClassCells,
    binary,
    f1,
    new_classes,
    precision,
    recall,
)
from prequential.engine.measures.table import sum_up
from prequential.engine.tables.outcomes import JointCells, by_class
from prequential.topics.values import labels_of

#: The signs of pairs that intervals are made of (see `engine.estimators.pairs`).
_SIGNS = (WRONG, PERSISTENT, MAJORITY)

#: Outcomes up to which values are normalised: two measures take time in proportion to them, so that a
#: message about so many costs 1 ms more, and one about ten times as many 9 ms.
_MOST_NORMALISED = 100_000


def details_of(
    names: tuple[str, ...],
    cells: JointCells,
    capacity: int,
    whole: bool,
    effective: Callable[[float, bool], float],
    pairs: list[Floats],
    positive: int,
    class_names: list[str],
    known: bool,
    has_sets: bool = False,
) -> dict[str, Any]:
    """The details of these names (see `DETAILS` in `configuration.settings.model`) that an estimator has.

    Parameters
    ----------
    names
        The configured details.
    cells, capacity
        Joint counts or weights, with room for `capacity` classes.
    whole
        Whether each outcome counts 1: `normalised` needs whole numbers.
    effective
        `effective(n, paired)`: how many equal outcomes a weight of n counts as, for cells or for pairs.
    pairs
        By sign, those of neighbours; [] if none are counted.
    positive
        The positive class's code, or `NO_POSITIVE`.
    class_names
        By code.
    known
        Whether baselines had a label to predict by at any of the outcomes.
    has_sets
        Whether classes are sets of labels, so that `per_class` is about each label.

    Returns
    -------
    dict
        By name, as messages have it; without those that have no value yet.
    """
    matrix = new_classes(capacity)
    totals = sum_up(cells, matrix)
    if not totals.n:
        return {}
    one = None if positive == NO_POSITIVE else binary(totals.n, matrix, positive)
    details: dict[str, Any] = {}
    if "confusion" in names:
        details["confusion"] = confusion(cells, capacity, class_names)
    if "per_class" in names:
        of_classes = class_names, matrix
        if has_sets:
            of_classes = _by_label(confusion(cells, capacity, class_names))
        details["per_class"] = _by_class(totals, *of_classes)
    if "normalised" in names and one is not None and whole:
        details["normalised"] = _normalised(one)
    if "class_ratio" in names and one is not None:
        details["class_ratio"] = _class_ratio(one, totals.n)
    if pairs:
        if "intervals" in names:
            shares = shares_of(totals, one, pairs, effective(totals.n, False), known)
            details["intervals"] = {name: share.interval for name, share in shares.items()}
        if "dependence" in names:
            size = effective(float(np.sum(pairs[WRONG])), True)
            details["dependence"] = _error_dependence(autocorrelation(pairs[WRONG]), size)
    return details


def confusion(cells: JointCells, capacity: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Outcomes by label, then by prediction, without combinations that have no outcome.

    Parameters
    ----------
    cells, capacity
        Joint counts or weights, with room for `capacity` classes.
    names
        By code.

    Returns
    -------
    dict
        The weight of each cell that has any.
    """
    matrix: dict[str, dict[str, float]] = {}
    for y, h, neither, majority, persistent, both in by_class(cells, capacity):
        matrix.setdefault(names[y], {})[names[h]] = (neither + majority) + (persistent + both)
    return matrix


def _by_label(sets: dict[str, dict[str, float]]) -> tuple[list[str], ClassCells]:
    """The labels in sets, and the matrix of each label against all others, from outcomes by sets.

    >>> names, matrix = _by_label({'["a","b"]': {'["a"]': 3.0}, "[]": {'["b"]': 1.0}})
    >>> names, matrix.hits.tolist(), matrix.labels.tolist(), matrix.predictions.tolist()
    (['a', 'b'], [3.0, 0.0], [3.0, 3.0], [3.0, 1.0])
    """
    members = {name: set(labels_of(name)) for y, row in sets.items() for name in (y, *row)}
    names = sorted(set().union(*members.values()))
    matrix = ClassCells(*np.zeros((len(ClassCells._fields), len(names))))
    for y, row in sets.items():
        for h, weight in row.items():
            for place, name in enumerate(names):
                is_label, is_predicted = name in members[y], name in members[h]
                matrix.labels[place] += weight * is_label
                matrix.predictions[place] += weight * is_predicted
                matrix.hits[place] += weight * (is_label and is_predicted)
                matrix.missed[place] += weight * (is_label and not is_predicted)
                matrix.false[place] += weight * (is_predicted and not is_label)
                matrix.neither[place] += weight * (not is_label and not is_predicted)
    return names, matrix


def _by_class(totals: Totals, names: list[str], matrix: ClassCells) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` and `support` (labels) of each class present, where they have a value."""
    by_class = {}
    for code, name in enumerate(names):
        if code >= len(matrix.labels) or not (matrix.labels[code] or matrix.predictions[code]):
            continue
        one = binary(totals.n, matrix, code)
        values = {"support": float(matrix.labels[code])}
        for measure in (precision, recall, f1):
            value, reason = measure(one)
            if not REASONS[reason]:
                values[measure.__name__] = value
        by_class[name] = values
    return by_class


def _normalised(one: Binary) -> dict[str, float]:
    """N(M, P:N, x) of the eight measures (2019 paper, eq. 10); none where a class has no label."""
    tp, fn, fp, tn = map(int, one)
    if not (tp + fn and fp + tn) or sum(one) > _MOST_NORMALISED:
        return {}
    return {name: normalised(name, tp, fn, fp, tn) for name in RATIOS}


def _class_ratio(one: Binary, n: float) -> dict[str, Any]:
    """The positives' share, and measures that a shift of it alone would move (2019 paper, section IV)."""
    return {
        "positives": (one.tp + one.fn) / n,
        "gradients": class_ratio_gradients(*one),
        "moving": moves_with_class_ratio(*one),
    }


class WeightedShare(NamedTuple):
    """A share of outcomes: its value, the weight that it is a share of, and its 95% interval."""

    value: float
    whole: float
    interval: tuple[float, float]


def shares_of(
    totals: Totals, one: Binary | None, pairs: list[Floats], size: float, known: bool
) -> dict[str, WeightedShare]:
    """The measures that are shares of outcomes, by name, in the order of messages.

    Parameters
    ----------
    totals, one
        Of an estimator's matrix, and of its positive class against all others (None: there is none).
    pairs
        By sign, those of neighbours.
    size
        How many equal outcomes the total weight counts as.
    known
        Whether baselines had a label to predict by at any of the outcomes.
    """
    n = totals.n
    worth = {sign: shrunk(size, autocorrelation(pairs[sign])) / n for sign in _SIGNS}
    of_errors = min(worth[WRONG], error_worth(pairs[CELL], pairs[WRONG]) * size / n)
    worth[CELL] = min(worth[WRONG], precision_worth(pairs[CELL]) * size / n)
    parts = {
        "error": (totals.wrong, n, of_errors),
        "accuracy": (totals.right, n, of_errors),
    }
    if known:
        parts["p_per"] = totals.persistent, n, worth[PERSISTENT]
        parts["p_maj"] = totals.majority, n, worth[MAJORITY]
    if one is not None:
        parts["recall"] = one.tp, one.tp + one.fn, worth[WRONG]
        parts["specificity"] = one.tn, one.tn + one.fp, worth[WRONG]
    shares = {}
    for name, (part, whole, each) in parts.items():
        if whole:
            value = min(1.0, part / whole)
            shares[name] = WeightedShare(value, whole, wilson(value, whole * each))
    if one is not None and one.tp + one.fp:
        predicted = one.tp + one.fp
        value = min(1.0, one.tp / predicted)
        shares["precision"] = WeightedShare(
            value, predicted, wilson(value, less_one(predicted * worth[CELL]))
        )
    return shares


def _error_dependence(correlation: float | None, size: float) -> dict[str, float]:
    """Whether the errors themselves depend on each other, of so many (2015 paper, proposition 8)."""
    if correlation is None:
        return {}
    return {"error_autocorrelation": correlation, "error_autocorrelation_se": 1 / math.sqrt(size)}
