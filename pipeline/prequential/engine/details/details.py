"""Details of an estimator beyond its measures, also compared with the reference.

Let (l₁, u₁) and (l₂, u₂) be the intervals of two shares of disjoint outcomes. Their difference is d = p₁ -
p₂. Its 95% interval goes from d - √((p₁-l₁)² + (u₂-p₂)²) to d + √((u₁-p₁)² + (p₂-l₂)²). Variances add, each
at its own end (Newcombe 1998, method 10; MOVER of Zou and Donner 2008). The intervals of the shares are
Wilson's with the effective sample size (`engine.details.intervals`). So dependence and fading also
widen the interval of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details import intervals
from prequential.engine.details.normalisation import RATIOS, TOLERANCE, class_ratio_gradients, normalised
from prequential.engine.estimators.estimator import ClusteredOutcomes, Estimator, ReferenceTables
from prequential.engine.estimators.outcome_pairs import CELL, MAJORITY, PERSISTENT, WRONG
from prequential.engine.measures import per_class
from prequential.engine.measures.agreement import Totals
from prequential.engine.measures.declaration import NO_POSITIVE, REASONS
from prequential.engine.measures.table import sum_up
from prequential.engine.tables.outcomes import KEY_CAPACITY, JointCells, by_class, is_listed
from prequential.topics.values import labels_of

#: The signs of pairs that intervals are made of (see `engine.estimators.outcome_pairs`).
_SIGNS = (WRONG, PERSISTENT, MAJORITY)

#: The measures that have intervals, in the order of messages.
SHARES = "error", "accuracy", "p_per", "p_maj", "recall", "specificity", "precision"

#: Outcomes up to which values are normalised: two measures take time in proportion to them, so that a
#: message about so many costs 1 ms more, and one about ten times as many 9 ms.
_MOST_NORMALISED = 100_000


class ReferenceSide(NamedTuple):
    """The counts of a sequence in a reference, or in a memory."""

    cells: JointCells
    pairs: list[Floats]  # by sign, those of neighbours; []: none are counted
    known: bool  # whether baselines had a label to predict by at any of the outcomes
    clustered: ClusteredOutcomes | None  # which intervals go by; None: they go by neighbours
    #: effective(n, paired): how many equal outcomes a weight of n counts as, for cells or for pairs.
    effective: Callable[[float, bool], float]


def details_of(
    names: tuple[str, ...], side: ReferenceSide, capacity: int, whole: bool, positive: int,
    class_names: list[str], has_sets: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """By name (see `DETAILS` in `configuration.settings.streams`), the details that have a value.

    Parameters
    ----------
    names
        The configured details.
    side, capacity
        What the estimator has counted, with room for `capacity` classes.
    whole
        Whether each outcome counts 1: `normalised` needs whole numbers.
    positive
        The positive class's code, or `NO_POSITIVE`.
    class_names
        By code.
    has_sets
        Whether classes are sets of labels, so that `per_class` is about each label.
    """
    cells, pairs, matrix = side.cells, side.pairs, per_class.new_classes(capacity)
    totals = sum_up(cells, matrix)
    if not totals.n:
        return {}
    binary = None if positive == NO_POSITIVE else per_class.binary(totals.n, matrix, positive)
    details: dict[str, Any] = {}
    if "confusion" in names:
        details["confusion"] = confusion(cells, capacity, class_names)
    if "per_class" in names:
        of_classes = class_names, matrix
        if has_sets:
            of_classes = _by_label(confusion(cells, capacity, class_names))
        details["per_class"] = _by_class(totals, *of_classes)
    if "normalised" in names and binary is not None and whole:
        details["normalised"] = _normalised(binary)
    if "class_ratio" in names and binary is not None:
        gradients = class_ratio_gradients(*binary)
        moving = [measure for measure, value in gradients.items() if abs(value) > TOLERANCE]
        share = (binary.tp + binary.fn) / totals.n
        details["class_ratio"] = {"positives": share, "gradients": gradients, "moving": moving}
    if pairs:
        if "intervals" in names:
            shares = shares_of(totals, binary, side, positive)
            if known_intervals := {name: share.interval for name, share in shares.items() if share.interval}:
                details["intervals"] = known_intervals
        if "dependence" in names:
            size = side.effective(float(np.sum(pairs[WRONG])), True)
            details["dependence"] = _error_dependence(intervals.autocorrelation(pairs[WRONG]), size)
    return details


def confusion(cells: JointCells, capacity: int, names: list[str]) -> dict[str, dict[str, float]]:
    """The weight of outcomes by label, then by prediction (`names` by code), where there are any."""
    matrix: dict[str, dict[str, float]] = {}
    for y, h, neither, majority, persistent, both in by_class(cells, capacity):
        matrix.setdefault(names[y], {})[names[h]] = (neither + majority) + (persistent + both)
    return matrix


def _by_label(sets: dict[str, dict[str, float]]) -> tuple[list[str], per_class.ClassCells]:
    """The labels in sets, and the matrix of each label against all others, from outcomes by sets.

    >>> names, matrix = _by_label({'["a","b"]': {'["a"]': 3.0}, "[]": {'["b"]': 1.0}})
    >>> names, matrix.hits.tolist(), matrix.labels.tolist(), matrix.predictions.tolist()
    (['a', 'b'], [3.0, 0.0], [3.0, 3.0], [3.0, 1.0])
    """
    members = {name: set(labels_of(name)) for y, row in sets.items() for name in (y, *row)}
    names = sorted(set().union(*members.values()))
    matrix = per_class.ClassCells(*np.zeros((len(per_class.ClassCells._fields), len(names))))
    for y, row in sets.items():
        for h, weight in row.items():
            for index, name in enumerate(names):
                is_label, is_predicted = name in members[y], name in members[h]
                matrix.labels[index] += weight * is_label
                matrix.predictions[index] += weight * is_predicted
                matrix.hits[index] += weight * (is_label and is_predicted)
                matrix.missed[index] += weight * (is_label and not is_predicted)
                matrix.false[index] += weight * (is_predicted and not is_label)
                matrix.neither[index] += weight * (not is_label and not is_predicted)
    return names, matrix


def _by_class(totals: Totals, names: list[str], matrix: per_class.ClassCells) -> dict[str, dict[str, float]]:
    """`precision`, `recall`, `f1` and `support` (labels) of each class present, where they have a value."""
    by_class = {}
    for code, name in enumerate(names):
        if code >= len(matrix.labels) or not (matrix.labels[code] or matrix.predictions[code]):
            continue
        binary = per_class.binary(totals.n, matrix, code)
        values = {"support": float(matrix.labels[code])}
        for measure in (per_class.precision, per_class.recall, per_class.f1):
            value, reason = measure(binary)
            if not REASONS[reason]:
                values[measure.__name__] = value
        by_class[name] = values
    return by_class


def _normalised(binary: per_class.Binary) -> dict[str, float]:
    """N(M, P:N, x) of the eight measures (2019 paper, eq. 10); none where a class has no label."""
    tp, fn, fp, tn = map(int, binary)
    if not (tp + fn and fp + tn) or sum(binary) > _MOST_NORMALISED:
        return {}
    return {name: normalised(name, tp, fn, fp, tn) for name in RATIOS}


class WeightedShare(NamedTuple):
    """A share of outcomes: its value, the weight that it is a share of, and its 95% interval."""

    value: float
    whole: float
    interval: tuple[float, float] | None  # None: too few clusters


def shares_of(
    totals: Totals, binary: per_class.Binary | None, side: ReferenceSide, positive: int
) -> dict[str, WeightedShare]:
    """The measures that are shares of outcomes, by name, in the order of messages.

    `totals` and `binary` are those of the matrix, and of the positive class against all others (None: there
    is none), whose code is `positive`.
    """
    n, clustered = totals.n, side.clustered
    parts = {"error": (totals.wrong, n), "accuracy": (totals.right, n)}
    if side.known:
        parts["p_per"], parts["p_maj"] = (totals.persistent, n), (totals.majority, n)
    if binary is not None:
        parts["recall"] = binary.tp, binary.tp + binary.fn
        parts["specificity"] = binary.tn, binary.tn + binary.fp
        parts["precision"] = binary.tp, binary.tp + binary.fp
    if clustered is None:
        worth = _worth_by_neighbours(side.pairs, side.effective(n, False), n)
    else:
        worth = _worth_by_clusters(clustered, positive)
    shares = {}
    for name, (part, whole) in parts.items():
        if whole:
            value, weight = min(1.0, part / whole), worth[name]
            interval = None
            if weight is not None:
                corrected = name == "precision" and clustered is None
                size = intervals.less_one(whole * weight) if corrected else whole * weight
                interval = intervals.wilson(value, size)
            shares[name] = WeightedShare(value, whole, interval)
    return shares


def _worth_by_neighbours(pairs: list[Floats], size: float, n: float) -> dict[str, float | None]:
    """By measure, how many independent outcomes one counts as; n of them count as `size` equal ones."""
    worth = {sign: intervals.shrunk(size, intervals.autocorrelation(pairs[sign])) / n for sign in _SIGNS}
    of_errors = min(worth[WRONG], intervals.error_worth(pairs[CELL], pairs[WRONG]) * size / n)
    return {
        "error": of_errors, "accuracy": of_errors,
        "p_per": worth[PERSISTENT], "p_maj": worth[MAJORITY],
        "recall": worth[WRONG], "specificity": worth[WRONG],
        "precision": min(worth[WRONG], intervals.precision_worth(pairs[CELL]) * size / n),
    }  # fmt: skip


def _worth_by_clusters(clustered: ClusteredOutcomes, positive: int) -> dict[str, float | None]:
    """By measure, how many independent outcomes one counts as; None: there are too few clusters."""
    cluster, capacity = clustered.cluster, KEY_CAPACITY
    labels, predictions = np.divmod(clustered.keys.astype(np.int64) >> 2, capacity)
    wrong, is_positive, is_predicted = labels != predictions, labels == positive, predictions == positive
    every = np.ones(len(cluster), dtype=bool)
    of_errors = intervals.clustered_worth(cluster, wrong, every)
    return {
        "error": of_errors, "accuracy": of_errors,
        "p_per": intervals.clustered_worth(cluster, clustered.keys & 2 != 0, every),
        "p_maj": intervals.clustered_worth(cluster, clustered.keys & 1 != 0, every),
        "recall": intervals.clustered_worth(cluster, ~wrong, is_positive),
        "specificity": intervals.clustered_worth(cluster, ~is_predicted, ~is_positive),
        "precision": intervals.clustered_worth(cluster, ~wrong, is_predicted),
    }  # fmt: skip


def cluster_as_message(clustered: ClusteredOutcomes) -> dict[str, Any]:
    """What intervals by cluster rest on, as messages have it."""
    sizes = np.bincount(clustered.cluster)
    number = intervals.effective_clusters(sizes.tolist())
    count = int(np.count_nonzero(sizes))
    message = {"length_ms": clustered.length, "count": count, "effective": round(number, 2)}
    return message if number >= intervals.LEAST_CLUSTERS else message | {"reason": "few_clusters"}


def _error_dependence(correlation: float | None, size: float) -> dict[str, float]:
    """Whether the errors themselves depend on each other, of so many (2015 paper, proposition 8)."""
    if correlation is None:
        return {}
    return {"error_autocorrelation": correlation, "error_autocorrelation_se": 1 / math.sqrt(size)}


#: The part of a memory's weight, at most, that is of the reference's outcomes where the two count as
#: disjoint: variances that add are then too large by at most twice this part of the reference's.
_MOST_COMMON = 0.01

#: Decimals in messages: a million outcomes justify no more, and each digit adds a byte to each message.
_DECIMALS = 6


def refers(config: StreamConfig) -> bool:
    """Whether messages of a stream with these settings include a comparison with a reference."""
    return config.objective is not None and config.objective.reference is not None


def difference(present: WeightedShare, reference: WeightedShare) -> tuple[float, float] | None:
    """The 95% interval, (low, high), of the difference of two shares of disjoint outcomes.

    None if a share has no interval.

    References
    ----------
    Newcombe: Interval estimation for the difference between independent proportions: comparison of eleven
    methods, Statistics in Medicine 17, 1998 (method 10).

    Examples
    --------
    >>> before = WeightedShare(56 / 70, 70, intervals.wilson(56 / 70, 70))
    >>> difference(before, WeightedShare(48 / 80, 80, intervals.wilson(0.6, 80)))  # table II, a
    (0.0524..., 0.3338...)
    """
    if present.interval is None or reference.interval is None:
        return None
    (low, high), (lowest, highest) = present.interval, reference.interval
    d = present.value - reference.value
    below = _both(present.value - low, highest - reference.value)
    above = _both(high - present.value, reference.value - lowest)
    return max(-1.0, d - below), min(1.0, d + above)


def _both(a: float, b: float) -> float:
    """√(a² + b²), with the same bits on every machine, as `hypot` may not have."""
    return math.sqrt(a * a + b * b)


def beside(
    reference: ReferenceTables, estimator: Estimator, sequence: int, now: ReferenceSide, outcomes: int,
    ts: int, positive: int, measures: tuple[str, ...],
) -> dict[str, Any] | None:  # fmt: skip
    """A memory's shares compared with the reference's, as messages have it; None: there is nothing to report.

    In messages, `outcomes` is the number of the reference's outcomes. By name, `measures` has the reference's
    `value`, the `difference` of the memory's value from it, and the `interval` of the difference, all
    rounded. While the memory still has outcomes of the reference, `interval` is None. The estimator `all`
    keeps these outcomes. There the difference is that of the outcomes since the reference, times their part
    of all.

    Parameters
    ----------
    now
        What the estimator has counted of the sequence.
    outcomes, ts
        Number and label time (ms) of the sequence's newest outcome.
    positive
        The positive class's code, or `NO_POSITIVE`.
    """
    extent = reference.table
    if not extent.complete[sequence]:
        return None
    counts, size, before = reference.counts, int(extent.size[sequence]), int(extent.before[sequence])
    first = side_of(counts, sequence, counts.cells_of(sequence))
    arrays = first.cells.weights, first.cells.keys, *first.pairs
    counted = positive, first.known, *(np.asarray(array).tobytes() for array in arrays)
    cached = reference.results.get(sequence)
    if cached is None or cached[0] != counted:
        cached = reference.results[sequence] = counted, _shares(first, counts.capacity, positive)
    then, present = cached[1], _shares(now, estimator.capacity, positive)
    since: dict[str, WeightedShare] = {}
    if estimator.memory.forgets:
        older = outcomes - before - size, max(0, ts - int(extent.until[sequence]))
        common = size * estimator.memory.weight_left(estimator.parameter, *older)
        if common <= _MOST_COMMON * float(now.cells.weights.sum()):
            since = present
    else:
        began = int(estimator.cells.table.began[sequence])
        if began <= before:
            since = _shares(_less(now, first), counts.capacity, positive)
        elif began >= before + size:
            since = present
    measured: dict[str, dict[str, Any]] = {}
    for name, value in then.items():
        if name in measures and name in present:
            interval = difference(since[name], value) if name in since else None
            if interval is not None:
                part = since[name].whole / present[name].whole
                interval = short(part * interval[0]), short(part * interval[1])
            off = present[name].value - value.value
            measured[name] = {"value": short(value.value), "difference": short(off), "interval": interval}
    return {"outcomes": size, "measures": measured} if measured else None


def short(value: float) -> float:
    """A value to so many decimals as messages have."""
    return round(value, _DECIMALS) + 0.0  # no -0.0


def side_of(estimator: Estimator, sequence: int, cells: JointCells, cluster: int = 0) -> ReferenceSide:
    """What an estimator has counted of a sequence, of which these are the joint cells.

    `cluster` is the length of clusters (ms); 0: there are none.
    """
    pairs, knows_labels = estimator.pairs_of(sequence), estimator.knows_labels(sequence)
    clustered = estimator.by_cluster(sequence, cluster)
    return ReferenceSide(cells, pairs, knows_labels, clustered, partial(estimator.effective, sequence))


def _less(whole: ReferenceSide, part: ReferenceSide) -> ReferenceSide:
    """The counts of a whole without those of a part of it."""
    pairs = [a - b for a, b in zip(whole.pairs, part.pairs)]
    weights = whole.cells.weights.copy()
    if is_listed(whole.cells):
        weights[np.searchsorted(whole.cells.keys, part.cells.keys)] -= part.cells.weights
    else:
        weights -= part.cells.weights
    return whole._replace(cells=whole.cells._replace(weights=weights), pairs=pairs)


def _shares(side: ReferenceSide, capacity: int, positive: int) -> dict[str, WeightedShare]:
    matrix = per_class.new_classes(capacity)
    totals = sum_up(side.cells, matrix)
    if not totals.n:
        return {}
    binary = None if positive == NO_POSITIVE else per_class.binary(totals.n, matrix, positive)
    return shares_of(totals, binary, side, positive)
