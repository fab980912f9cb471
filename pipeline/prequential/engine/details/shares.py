"""The measures that are shares of outcomes, with their 95% intervals, for many sequences in one call.

First `read_matrices` sums up the joint cells that an estimator has counted; then `put_shares` reads shares
from them. Intervals go by clusters of prediction times in windows that keep these (`ClusterSource`), else by
pairs of neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, allocating, inner, zeros
from prequential.engine.details import intervals
from prequential.engine.estimators import declaration, outcome_pairs
from prequential.engine.estimators.declaration import Counted
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import CellIndex, put_in_order
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import Binary, ClassCells, Positives, binary, positive_of
from prequential.engine.measures.table import sum_up
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import JointCells

#: The measures that have intervals, in the order of messages.
SHARES = "error", "accuracy", "p_per", "p_maj", "recall", "specificity", "precision"
_ERROR, _ACCURACY, _P_PER, _P_MAJ, _RECALL, _SPECIFICITY, _PRECISION = range(len(SHARES))

#: What is counted by cluster: a part of a whole for each of these; accuracy has the intervals of the error.
_COUNTED = (_ERROR, _P_PER, _P_MAJ, _RECALL, _SPECIFICITY, _PRECISION)

#: Beyond the number of every cluster.
_NO_CLUSTER = 1 << 62


class Matrices(NamedTuple):
    """The confusion matrices of sequences, a row for each."""

    n: Floats  # outcomes in memory, or their weight; 0: the other columns are undefined
    right: Floats
    wrong: Floats
    persistent: Floats  # outcomes that the persistent baseline had right
    majority: Floats
    known: Bytes  # whether baselines had a label to predict from
    positive: Ints  # code of the positive class, or `NO_POSITIVE`
    classes: Floats  # (rows, fields of `ClassCells`, k)
    cells: Ints  # listed cells; without a list, those of `weights` are all
    weights: Floats  # (rows, cells) of joint cells
    keys: Ints32  # (rows, cells) of listed cells; without a list (rows, 0)


class SignPairs(NamedTuple):
    """By sequence, counts or weights of pairs of neighbours by sign; no rows if none are counted."""

    wrong: Floats  # (rows, 4): 00, 01, 10, 11
    persistent: Floats
    majority: Floats
    cell: Floats  # (rows, 16)


class ClusterSource(NamedTuple):
    """Outcomes in windows with their prediction times; without times, no intervals go by clusters."""

    is_timed: bool
    ring: Ints32  # (sequences, places), as in `WindowCounts`
    n: Ints  # by sequence: outcomes that the window has seen
    times: Floats  # (sequences, places, 1), ms
    timed: Ints  # by sequence: outcomes whose times it has seen
    lengths: Ints  # by row: of a cluster, ms; 0: there are none
    powers: Floats  # `intervals.POWERS`


class Shares(NamedTuple):
    """By row and measure (columns as `SHARES`): a share, what it is a share of, and its interval."""

    value: Floats
    whole: Floats  # 0: there is no share
    low: Floats  # NaN: too few clusters
    high: Floats
    clusters: Ints  # (rows,) that intervals rest on; 0: they don't go by clusters
    effective: Floats  # (rows,) effective number of these


@allocating
def sum_matrices(
    counted: Counted, sequences: Ints, index: CellIndex, whole: bool, positives: Positives, into: Matrices
) -> None:
    """Write the matrices of readings of joint cells, (rows, 4·k²) or by number, a row for each sequence."""
    places = index.keys.shape[1]
    between = JointCells(np.empty(places), np.empty(places, np.int32), whole)
    starts = np.empty(4 * into.classes.shape[2] if places else 0, np.int64)
    for i in range(len(sequences)):
        q = sequences[i]
        into.known[i] = counted.known[i]
        if places:
            ordered = JointCells(into.weights[i], into.keys[i], whole)
            used = np.int64(index.used[q])
            into.cells[i] = put_in_order(index.keys[q], used, counted.cells[i], ordered, between, starts)
        c = classes_of(into, i)
        totals = sum_up(cells_of(into, i, whole), c)
        into.n[i], into.right[i], into.wrong[i] = totals.n, totals.right, totals.wrong
        into.persistent[i], into.majority[i] = totals.persistent, totals.majority
        into.positive[i] = positive_of(positives, q, c.labels) if totals.n > 0.0 else NO_POSITIVE


@inner
def classes_of(matrices: Matrices, i: int) -> ClassCells:
    """Return the cells by class of the matrix in row `i`, as views of the columns."""
    room = matrices.classes[i]
    return ClassCells(room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7])


@inner
def cells_of(matrices: Matrices, i: int, whole: bool) -> JointCells:
    """The joint cells of a row; `whole`: whether weights are known to be whole numbers."""
    if matrices.keys.shape[1]:
        return JointCells(
            matrices.weights[i, : matrices.cells[i]], matrices.keys[i, : matrices.cells[i]], whole
        )
    return JointCells(matrices.weights[i], matrices.keys[i], whole)


@inner
def binary_of(matrices: Matrices, i: int) -> Binary:
    """The positive class of a row against all others."""
    return binary(matrices.n[i], classes_of(matrices, i), matrices.positive[i])


def new_matrices(counted: Counted, capacity: int, keys: int) -> Matrices:
    """Room for the matrices of readings with room for so many classes; `keys`: listed cells of each row."""
    rows = len(counted.n)
    n, right, wrong, persistent, majority = np.empty((5, rows))
    positive, cells = np.empty((2, rows), dtype=np.int64)
    # Without a list, the readings themselves are the cells.
    weights = np.empty((rows, keys)) if keys else counted.cells
    return Matrices(
        n, right, wrong, persistent, majority, np.empty(rows, np.uint8), positive,
        np.empty((rows, len(ClassCells._fields), capacity)), cells, weights, np.empty((rows, keys), np.int32),
    )  # fmt: skip


def matrices_of(estimator: Estimator, counted: Counted, sequences: Ints, positives: Positives) -> Matrices:
    """The matrices of what an estimator has counted of these sequences, (rows,) int64."""
    matrices = new_matrices(counted, estimator.capacity, estimator.joint.places)
    whole = bool(estimator.memory.whole)
    sum_matrices(counted, sequences, estimator.joint.table, whole, positives, matrices)
    return matrices


def pairs_of(estimator: Estimator, sequences: Ints) -> SignPairs:
    """The pairs of neighbours of these sequences."""
    pairs = [accumulator.counted(sequences).cells for accumulator in estimator.pairs]
    return SignPairs(*pairs) if pairs else NO_PAIRS


NO_PAIRS = SignPairs(*(np.zeros((0, codes)) for codes in outcome_pairs.CODES))

#: Of estimators that count no pairs.
NO_SHARES: Shares = zeros(Shares, 0, value=len(SHARES), whole=len(SHARES), low=len(SHARES), high=len(SHARES))

_NO_RING: Ints32 = np.zeros((0, 0), dtype=np.int32)
_NO_TIMES: Floats = np.zeros((0, 0, 1))


def cluster_source(estimator: Estimator, lengths: Ints) -> ClusterSource:
    """Where the clusters of an estimator's windows are read; `lengths` by row of a reading, ms."""
    if estimator.times is None:
        nothing = np.zeros(0, dtype=np.int64)
        return ClusterSource(False, _NO_RING, nothing, _NO_TIMES, nothing, lengths, intervals.POWERS)
    cells, times = estimator.cells.table, estimator.times.table
    return ClusterSource(True, cells.ring, cells.n, times.values, times.n, lengths, intervals.POWERS)


def sizes_of(estimator: Estimator, sequences: Ints, matrices: Matrices) -> Floats:
    """By row, how many equal outcomes the outcomes in memory count as."""
    rows = zip(sequences.tolist(), matrices.n.tolist())
    return np.array([estimator.effective(sequence, n, False) for sequence, n in rows], dtype=np.float64)


def shares_of(
    estimator: Estimator, sequences: Ints, matrices: Matrices, pairs: SignPairs, lengths: Ints
) -> Shares:
    """The shares of these sequences, whose pairs are counted; `lengths`: of clusters, ms, by row."""
    rows, width = len(sequences), len(SHARES)
    shares = zeros(Shares, rows, value=width, whole=width, low=width, high=width)
    sizes, source = sizes_of(estimator, sequences, matrices), cluster_source(estimator, lengths)
    put_shares(sequences, matrices, pairs, sizes, source, estimator.joint.table, shares)
    return shares


@allocating
def put_shares(
    sequences: Ints, matrices: Matrices, pairs: SignPairs, sizes: Floats, source: ClusterSource,
    index: CellIndex, into: Shares,
) -> None:  # fmt: skip
    """Write the shares of rows with outcomes; `sizes`: as how many equal outcomes these count."""
    worth = np.empty(len(SHARES))
    for i in range(len(sequences)):
        if not matrices.n[i] > 0.0:
            continue
        k, positive = matrices.classes.shape[2], matrices.positive[i]
        counted = _count_clusters(source, i, sequences[i], index, k, positive)
        clusters = counted.shape[1]
        if clusters:
            wholes = counted[_ERROR]
            into.effective[i] = intervals.effective_clusters(wholes)
            for number in range(clusters):
                into.clusters[i] += 1 if wholes[number] > 0 else 0
            for share in _COUNTED:
                parts = counted[len(SHARES) + share]
                worth[share] = intervals.clustered_worth(parts, counted[share], source.powers)
        else:
            _put_worth(pairs, i, sizes[i], matrices.n[i], worth)
        worth[_ACCURACY] = worth[_ERROR]
        _put_row(matrices, i, worth, clusters > 0, into)


@inner
def _put_row(matrices: Matrices, i: int, worth: Floats, is_clustered: bool, into: Shares) -> None:
    """Write the shares of a row, whose outcomes count as `worth` independent ones each, by measure."""
    n = matrices.n[i]
    _put(into, i, _ERROR, matrices.wrong[i], n, worth, False)
    _put(into, i, _ACCURACY, matrices.right[i], n, worth, False)
    if matrices.known[i]:
        _put(into, i, _P_PER, matrices.persistent[i], n, worth, False)
        _put(into, i, _P_MAJ, matrices.majority[i], n, worth, False)
    if matrices.positive[i] != NO_POSITIVE:
        b = binary_of(matrices, i)
        _put(into, i, _RECALL, b.tp, b.tp + b.fn, worth, False)
        _put(into, i, _SPECIFICITY, b.tn, b.tn + b.fp, worth, False)
        _put(into, i, _PRECISION, b.tp, b.tp + b.fp, worth, not is_clustered)


@inner
def _put(
    into: Shares, i: int, share: int, part: float, whole: float, worth: Floats, is_corrected: bool
) -> None:
    if whole == 0.0:
        return
    value = min(1.0, part / whole)
    into.value[i, share], into.whole[i, share] = value, whole
    into.low[i, share] = into.high[i, share] = np.nan
    if worth[share] == worth[share]:
        size = whole * worth[share]
        if is_corrected:
            size = intervals.less_one(size)
        into.low[i, share], into.high[i, share] = intervals.wilson(value, size)


@allocating
def _put_worth(pairs: SignPairs, i: int, size: float, n: float, worth: Floats) -> None:
    """By measure, how many independent outcomes one counts as; n of them count as `size` equal ones."""
    wrong = intervals.shrunk(size, intervals.autocorrelation(pairs.wrong[i])) / n
    worth[_P_PER] = intervals.shrunk(size, intervals.autocorrelation(pairs.persistent[i])) / n
    worth[_P_MAJ] = intervals.shrunk(size, intervals.autocorrelation(pairs.majority[i])) / n
    worth[_ERROR] = min(wrong, intervals.error_worth(pairs.cell[i], pairs.wrong[i]) * size / n)
    worth[_RECALL] = worth[_SPECIFICITY] = wrong
    worth[_PRECISION] = min(wrong, intervals.precision_worth(pairs.cell[i]) * size / n)


@inner
def _span(source: ClusterSource, i: int, q: int) -> tuple[int, int, int]:
    """How many outcomes in a window count by cluster, and their first and last cluster.

    None count if there are no clusters, or if a prediction time is unknown.
    """
    if not source.is_timed or source.lengths[i] == 0:
        return 0, 0, 0
    held = min(source.n[q], source.ring.shape[1])
    if source.timed[q] < held:
        return 0, 0, 0
    count, first, last = 0, _NO_CLUSTER, -_NO_CLUSTER
    for age in range(1, held + 1):
        if source.ring[q, (source.n[q] - age) % source.ring.shape[1]] != declaration.WITHDRAWN:
            number = _cluster(source, q, age, source.lengths[i])
            count, first, last = count + 1, min(first, number), max(last, number)
    return count, first, last


@allocating
def _count_clusters(source: ClusterSource, i: int, q: int, index: CellIndex, k: int, positive: int) -> Ints:
    """Count the outcomes in a window by cluster: wholes by measure, then parts, (2·measures, clusters).

    Some clusters may be empty. There are none if no outcome counts by cluster.
    """
    count, first, last = _span(source, i, q)
    is_sparse = count == 0 or last - first >= count
    into = np.zeros((2 * len(SHARES), count if is_sparse else last - first + 1), np.int64)
    size, length = source.ring.shape[1], source.lengths[i]
    slots = np.full(2 * count if is_sparse else 0, -1, np.int64)
    numbers = np.empty(len(slots), np.int64)
    clusters = 0
    for age in range(1, min(source.n[q], size) + 1 if count else 0):
        entry = np.int64(source.ring[q, (source.n[q] - age) % size])
        if entry == declaration.WITHDRAWN:
            continue
        number = _cluster(source, q, age, length) - first
        if is_sparse:  # few of many numbers: in the order in which they come
            slot = number % len(slots)
            while slots[slot] >= 0 and slots[slot] != number:
                slot = (slot + 1) % len(slots)
            if slots[slot] < 0:
                slots[slot], numbers[slot] = number, clusters
                clusters += 1
            number = numbers[slot]
        place = declaration.cell_in(entry)
        if index.keys.shape[1]:
            key = np.int64(index.keys[q, place])
            label, prediction, bits = outcomes.label_of(key), outcomes.prediction_of(key), key & 3
        else:
            label, prediction, bits = (place >> 2) // k, (place >> 2) % k, place & 3
        _count(into, number, label, prediction, bits, positive)
    return into


@inner
def _cluster(source: ClusterSource, q: int, age: int, length: int) -> int:
    """The number of the cluster of an outcome in a window; the newest one has age 1."""
    return int(source.times[q, (source.timed[q] - age) % source.times.shape[1], 0]) // length


@inner
def _count(into: Ints, cluster: int, label: int, prediction: int, bits: int, positive: int) -> None:
    """Count an outcome in its cluster."""
    is_right, parts = label == prediction, len(SHARES)
    for share in (_ERROR, _P_PER, _P_MAJ):
        into[share, cluster] += 1
    into[parts + _ERROR, cluster] += not is_right
    into[parts + _P_PER, cluster] += (bits & 2) >> 1
    into[parts + _P_MAJ, cluster] += bits & 1
    if label == positive:
        into[_RECALL, cluster] += 1
        into[parts + _RECALL, cluster] += is_right
    else:
        into[_SPECIFICITY, cluster] += 1
        into[parts + _SPECIFICITY, cluster] += prediction != positive
    if prediction == positive:
        into[_PRECISION, cluster] += 1
        into[parts + _PRECISION, cluster] += is_right
