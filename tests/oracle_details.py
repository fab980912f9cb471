"""Plain details of messages for the test oracle: of one line at a time, as dicts.

What it is made of has tests of its own: Wilson's interval and the worth of neighbours in `test_intervals`,
gradients in `test_gradients`, normalised values in `test_normalisation`, deciles in `test_residuals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import oracle_normalisation
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.details import intervals
from prequential.engine.details.curves import as_message as deciles_as_message
from prequential.engine.details.normalisation import MEASURES, TOLERANCE, put_gradients, put_normalised
from prequential.engine.details.references import WeightedShare, difference, short
from prequential.engine.estimators import declaration
from prequential.engine.estimators.outcome_pairs import CELL, MAJORITY, PERSISTENT, WRONG
from prequential.engine.measures import per_class
from prequential.engine.measures.declaration import NO_POSITIVE, SUM_DETAILS
from prequential.engine.measures.table import sum_up
from prequential.engine.output.detail_texts import DetailedLine, DetailTexts
from prequential.engine.tables import scores
from prequential.engine.tables.outcomes import KEY_CAPACITY, JointCells, by_class, is_listed, keys_of
from prequential.topics.values import labels_of

#: Matrices with more outcomes are too many to be enumerated.
_MOST = 200


class Side(NamedTuple):
    """What an estimator has counted of a sequence."""

    estimator: Any
    sequence: int
    cells: JointCells
    pairs: list[Any]
    known: bool
    clusters: tuple[Any, Any] | None  # keys of joint cells, and numbers of clusters


def details_of(texts: DetailTexts, line: DetailedLine) -> dict[str, Any]:
    """The details of a line, by name."""
    catalog, stream, subject = texts._catalog, line.stream, line.subject
    entities, names = catalog.columns.entities, line.stream.config.details
    plan = catalog.plans[int(entities.plan[line.row])]
    referring = plan.reference is not None and subject.stage == stream.config.main_stage
    if subject.chance or not (names or referring):
        return {}
    sequence = int(entities.first[line.row]) + subject.positions[0]
    estimator = plan.estimators[subject.estimator_index]
    if plan.numbers:
        return _of_numbers(estimator, sequence, names) if len(subject.positions) == 1 else {}
    details: dict[str, Any] = {}
    if len(subject.positions) == 1:
        cluster = int(texts._cluster_of(stream.code)) if "intervals" in names or referring else 0
        side = _side_of(estimator, sequence, cluster)
        matrix = per_class.new_classes(estimator.capacity)
        if sum_up(side.cells, matrix).n:
            positives = positives_of_stream(catalog, stream)
            positive = per_class.positive_of(positives, 0, matrix.labels)
            details = _of_classes(names, side, positive, stream.class_names, stream.config.has_sets)
            if referring:
                newest = int(entities.outcomes[line.row]), int(entities.newest_ts[line.row])
                reference = _beside(plan.reference, side, newest, positive, stream.config.measures)
                if reference is not None:
                    details["reference"] = reference
            if side.clusters is not None and ("intervals" in names or "reference" in details):
                details["cluster"] = _cluster(side.clusters[1], cluster)
            if line.row in texts._notes.labels and "dependence" in details:
                details["dependence"] |= texts._notes.labels[line.row].report(stream.class_names)
    if "worse_than_baseline" in names:
        details["worse_than_baseline"] = {
            baseline: since
            for (stage, name, baseline), since in texts._notes.worse.get(line.row, {}).items()
            if (stage, name) == (subject.stage, subject.estimator)
        }
    return details


def _of_numbers(estimator: Any, sequence: int, names: Sequence[str]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    bins = estimator.residuals_of(sequence) if "residuals" in names else None
    deciles = None if bins is None else deciles_as_message(bins)
    if deciles is not None:
        details["residuals"] = deciles
    sums = estimator.scores_of(sequence)
    for name in names if sums is not None else ():
        if name in SUM_DETAILS and sums[SUM_DETAILS[name].part.sums[0]] >= scores.NO_WEIGHT:
            details[name] = SUM_DETAILS[name].function(sums)
    return details


def _side_of(estimator: Any, sequence: int, cluster: int) -> Side:
    row = np.array([sequence])
    cells = estimator.cells_of(sequence)
    pairs = [accumulator.counted(row).cells[0] for accumulator in estimator.pairs]
    known = bool(estimator.cells.counted(row).known[0])
    return Side(estimator, sequence, cells, pairs, known, _clusters(estimator, sequence, cluster))


def _clusters(estimator: Any, sequence: int, length: int) -> tuple[Any, Any] | None:
    """The keys of the outcomes in a window, and the numbers of their clusters."""
    if estimator.times is None or not length:
        return None
    cells, times = estimator.cells.table, estimator.times.table
    size, places = cells.ring.shape[1], times.values.shape[1]
    n, timed = int(cells.n[sequence]), int(times.n[sequence])
    ages = 1 + np.arange(min(n, size))
    if timed < len(ages):
        return None
    entries = cells.ring[sequence, (n - ages) % size]
    counts = entries != declaration.WITHDRAWN
    ts = times.values[sequence, (timed - ages) % places, 0].astype(np.int64)[counts]
    numbers = entries[counts].astype(np.int64) >> 1
    joint = estimator.joint
    keys = joint.keys_of(sequence)[numbers] if joint.places else keys_of(numbers, estimator.capacity)
    return (keys, np.unique(ts // length, return_inverse=True)[1]) if len(ts) else None


def _of_classes(
    names: Sequence[str], side: Side, positive: int, class_names: list[str], has_sets: bool
) -> dict[str, Any]:
    """The details of classes, but for those about references, clusters and labels."""
    matrix, whole = per_class.new_classes(side.estimator.capacity), side.estimator.memory.whole
    totals = sum_up(side.cells, matrix)
    binary = None if positive == NO_POSITIVE else per_class.binary(totals.n, matrix, positive)
    weights = _confusion(side.cells, side.estimator.capacity, class_names)
    details: dict[str, Any] = {}
    if "confusion" in names:
        details["confusion"] = weights
    if "per_class" in names:
        details["per_class"] = _per_class(weights, has_sets, matrix, class_names)
    if "normalised" in names and binary is not None and whole:
        details["normalised"] = _normalised(binary)
    if "class_ratio" in names and binary is not None:
        gradients = np.zeros(len(MEASURES))
        put_gradients(binary, gradients)
        by_name = {name: g for name, g in zip(MEASURES, gradients.tolist()) if not math.isnan(g)}
        details["class_ratio"] = {
            "positives": (binary.tp + binary.fn) / totals.n, "gradients": by_name,
            "moving": [name for name, gradient in by_name.items() if abs(gradient) > TOLERANCE],
        }  # fmt: skip
    if side.pairs and "intervals" in names:
        shares = _shares(side, positive)
        with_interval = {name: share.interval for name, share in shares.items() if share.interval}
        details |= {"intervals": with_interval} if with_interval else {}
    if side.pairs and "dependence" in names:
        size = side.estimator.effective(side.sequence, float(np.sum(side.pairs[WRONG])), True)
        correlation = intervals.autocorrelation(side.pairs[WRONG])
        details["dependence"] = {} if math.isnan(correlation) else {
            "error_autocorrelation": correlation, "error_autocorrelation_se": 1 / math.sqrt(size),
        }  # fmt: skip
    if "scores" in names and side.estimator.histogram is not None:
        cells = side.estimator.histogram.counted(np.array([side.sequence])).cells[0]
        details |= _scores(cells, whole)
    return details


def _confusion(cells: JointCells, capacity: int, names: list[str]) -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = {}
    for y, h, neither, majority, persistent, both in by_class(cells, capacity):
        weights.setdefault(names[y], {})[names[h]] = (neither + majority) + (persistent + both)
    return weights


def _per_class(
    weights: Mapping[str, Mapping[str, float]], has_sets: bool, matrix: per_class.ClassCells,
    class_names: list[str],
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Precision, recall, F1 and support of each class, or of each label in sets."""
    counts: dict[str, list[float]] = {}  # hits, missed, false
    if has_sets:
        for true, row in weights.items():
            for predicted, weight in row.items():
                both = set(labels_of(true)), set(labels_of(predicted))
                for label in both[0] | both[1]:
                    kind = 0 if label in both[0] & both[1] else 1 if label in both[0] else 2
                    counts.setdefault(label, [0.0] * 3)[kind] += weight
        counts = dict(sorted(counts.items()))
    else:
        columns = zip(matrix.hits.tolist(), matrix.missed.tolist(), matrix.false.tolist())
        counts = {name: list(row) for name, row in zip(class_names, columns) if any(row)}
    values: dict[str, dict[str, float]] = {}
    for name, (hits, missed, false) in counts.items():
        of_class = values[name] = {"support": hits + missed}
        if hits + false:
            of_class["precision"] = hits / (hits + false)
        if hits + missed:
            of_class["recall"] = hits / (hits + missed)
        if hits + false and hits + missed:
            of_class["f1"] = 2.0 * hits / ((hits + missed) + (hits + false))
    return values


def _normalised(binary: per_class.Binary) -> dict[str, float]:
    tp, fn, fp, tn = map(int, binary)
    if sum(binary) <= _MOST and tp + fn and fp + tn:
        return {name: oracle_normalisation.normalised(name, tp, fn, fp, tn) for name in MEASURES}
    into = np.zeros(len(MEASURES))
    return dict(zip(MEASURES, into.tolist())) if put_normalised(binary, into) else {}


def _scores(cells: Any, whole: bool) -> dict[str, Any]:
    negatives = cells[scores.NEGATIVES : scores.NEGATIVES + scores.SCORE_BINS]
    positives = cells[scores.POSITIVES : scores.POSITIVES + scores.SCORE_BINS]
    bins = np.flatnonzero(negatives + positives)
    if not len(bins) or cells[scores.WITHOUT_POSITIVE]:
        return {}
    kind = np.int64 if whole else np.float64
    return {"scores": {
        "bins": bins.tolist(), "negatives": negatives[bins].astype(kind).tolist(),
        "positives": positives[bins].astype(kind).tolist(),
    }}  # fmt: skip


# ---- shares


def _shares(side: Side, positive: int) -> dict[str, WeightedShare]:
    matrix = per_class.new_classes(side.estimator.capacity)
    totals = sum_up(side.cells, matrix)
    n = totals.n
    if not n:
        return {}
    parts = {"error": (totals.wrong, n), "accuracy": (totals.right, n)}
    if side.known:
        parts |= {"p_per": (totals.persistent, n), "p_maj": (totals.majority, n)}
    if positive != NO_POSITIVE:
        tp, fn, fp, tn = per_class.binary(n, matrix, positive)
        parts |= {"recall": (tp, tp + fn), "specificity": (tn, tn + fp), "precision": (tp, tp + fp)}
    if side.clusters is None:
        worth = _worth_by_neighbours(side, side.estimator.effective(side.sequence, n, False), n)
    else:
        worth = _worth_by_clusters(*side.clusters, positive)
    shares = {}
    for name, (part, whole) in parts.items():
        if whole:
            value, size, interval = min(1.0, part / whole), worth[name], None
            if size is not None:
                corrected = name == "precision" and side.clusters is None
                interval = intervals.wilson(
                    value, intervals.less_one(whole * size) if corrected else whole * size
                )
            shares[name] = WeightedShare(value, whole, interval)
    return shares


def _worth_by_neighbours(side: Side, size: float, n: float) -> dict[str, float | None]:
    pairs = side.pairs
    worth = {
        sign: intervals.shrunk(size, intervals.autocorrelation(pairs[sign])) / n
        for sign in (WRONG, PERSISTENT, MAJORITY)
    }
    of_errors = min(worth[WRONG], intervals.error_worth(pairs[CELL], pairs[WRONG]) * size / n)
    return {
        "error": of_errors, "accuracy": of_errors,
        "p_per": worth[PERSISTENT], "p_maj": worth[MAJORITY],
        "recall": worth[WRONG], "specificity": worth[WRONG],
        "precision": min(worth[WRONG], intervals.precision_worth(pairs[CELL]) * size / n),
    }  # fmt: skip


def _worth_by_clusters(keys: Any, cluster: Any, positive: int) -> dict[str, float | None]:
    labels, predictions = np.divmod(keys.astype(np.int64) >> 2, KEY_CAPACITY)
    wrong, is_positive, is_predicted = labels != predictions, labels == positive, predictions == positive
    every = np.ones(len(cluster), dtype=bool)
    of_errors = _clustered_worth(cluster, wrong, every)
    return {
        "error": of_errors, "accuracy": of_errors,
        "p_per": _clustered_worth(cluster, keys & 2 != 0, every),
        "p_maj": _clustered_worth(cluster, keys & 1 != 0, every),
        "recall": _clustered_worth(cluster, ~wrong, is_positive),
        "specificity": _clustered_worth(cluster, ~is_predicted, ~is_positive),
        "precision": _clustered_worth(cluster, ~wrong, is_predicted),
    }  # fmt: skip


def _effective(sizes: Sequence[int]) -> float:
    squares = sum(w * w for w in sizes)
    return sum(sizes) ** 2 / squares if squares else 0.0


def _clustered_worth(cluster: Any, part: Any, whole: Any) -> float | None:
    w = np.bincount(cluster, whole).astype(np.int64).tolist()
    number = _effective(w)
    if number < intervals.LEAST_CLUSTERS:
        return None
    a = np.bincount(cluster, whole & part).astype(np.int64).tolist()
    in_part, total = sum(a), sum(w)
    apart = sum((total * x - in_part * y) ** 2 for x, y in zip(a, w)) * number / (number - 1)
    alone = in_part * (total - in_part) * total
    student = intervals._student(number - 1, intervals.POWERS)
    return min(1.0, alone / apart if apart else 1.0) * (intervals._Z / student) ** 2


def _cluster(cluster: Any, length: int) -> dict[str, Any]:
    sizes = np.bincount(cluster)
    number = _effective(sizes.tolist())
    message = {"length_ms": length, "count": int(np.count_nonzero(sizes)), "effective": round(number, 2)}
    return message if number >= intervals.LEAST_CLUSTERS else message | {"reason": "few_clusters"}


# ---- references


def _beside(
    reference: Any, now: Side, newest: tuple[int, int], positive: int, measures: Sequence[str]
) -> dict[str, Any] | None:
    """A memory's shares beside those of the reference."""
    extent, q = reference.table, now.sequence
    if not extent.complete[q]:
        return None
    size, before, memory = int(extent.size[q]), int(extent.before[q]), now.estimator.memory
    first = _side_of(reference.counts, q, 0)
    then, present = _shares(first, positive), _shares(now, positive)
    since: dict[str, WeightedShare] = {}
    if memory.forgets:
        older = newest[0] - before - size, max(0, newest[1] - int(extent.until[q]))
        common = size * memory.weight_left(now.estimator.parameter, *older)
        since = present if common <= 0.01 * float(now.cells.weights.sum()) else {}
    else:
        began = int(now.estimator.cells.table.began[q])
        if began <= before:
            since = _shares(_less(now, first), positive)
        elif began >= before + size:
            since = present
    measured: dict[str, Any] = {}
    for name in [name for name in then if name in measures and name in present]:
        interval = difference(since[name], then[name]) if name in since else None
        if interval is not None:
            part = since[name].whole / present[name].whole
            interval = short(part * interval[0]), short(part * interval[1])
        off = present[name].value - then[name].value
        value = short(then[name].value)
        measured[name] = {"value": value, "difference": short(off), "interval": interval}
    return {"outcomes": size, "measures": measured} if measured else None


def _less(whole: Side, part: Side) -> Side:
    weights = whole.cells.weights.copy()
    if is_listed(whole.cells):
        weights[np.searchsorted(whole.cells.keys, part.cells.keys)] -= part.cells.weights
    else:
        weights -= part.cells.weights
    pairs = [a - b for a, b in zip(whole.pairs, part.pairs)]
    return whole._replace(cells=whole.cells._replace(weights=weights), pairs=pairs)
