"""The outcome log: the rows that the join writes and every consumer reads.

A *sequence* is the outcomes of one (stream, model, segment, stage). Sequences of streams with the same
settings and the same capacity for classes are rows of the same tables, a *plan* (see
`engine.catalog.plans`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inlined, inner, records

#: Kinds of rows: a new outcome; a revision of an earlier outcome's label; an earlier outcome of an instance
#: for which another model has an outcome now, for comparisons alone; and an outcome as it was before the
#: revision that follows, for what is scored or at stake.
OUTCOME, REVISION, REFERENCE, UNREVISED = range(4)

#: What is scored of an outcome (bits): its probabilities or its number, the weight of its label. `Log.scored`
#: has eight bits, and none is free for either task: estimators add 4 and 8 for classification
#: (`engine.estimators.sums.RIGHT`). A further one needs a wider column there, in `logs`, and in the flags of
#: estimators. A compiled loop would drop it without an error.
SCORED, WEIGHTED = 1, 2

#: Further bits for regression: the prediction has an interval; its label is in the interval.
INTERVAL, COVERED = 4, 8

#: Further bits for regression: the prediction has a seasonal baseline; it has quantiles.
SEASONAL, OF_QUANTILES = 16, 32

#: Further bits for regression: the stream has a tolerance of errors; the error is within it.
TOLERATED, HIT = 64, 128

#: Further bits for probabilities: the label has a rank among them; it is one of the first few, in whatever
#: order equal ones are.
RANKED, IN_TOP = 64, 128

#: Further bits: the label doesn't determine the positive class; the positive class is `1`, by a label of 0 or
#: 1.
NO_POSITIVE, POSITIVE_IS_ONE = 16, 32


class Log(NamedTuple):
    """Outcomes and revisions in the order in which they came; all columns have equal length."""

    kind: Bytes
    plan: Ints32
    entity: Ints32
    sequence: Ints32  # row in the plan's tables
    number: Ints  # of the outcome in its sequence, from 1
    label: Ints32  # class code; of a revision the label before, or NO_CLASS
    revised: Ints32  # of a revision: the label now, or NO_CLASS; of others: its entity's revisions until then
    prediction: Ints32  # class code
    bits: Bytes  # 2 where the persistent baseline was right, plus 1 where the majority one was
    known: Bytes  # whether baselines had a label to predict by
    record: Ints32  # what completed it, a record or a horizon's end: see `logs.Closings`
    t1: Ints  # label time, ms
    ts: Ints  # time of the prediction, ms
    clock: Ints  # of the stream then, which no single record can move far ahead, ms
    latency: Ints  # how long after its instance the label came, t1 - t0 (ms)
    version: Ints32  # code of the prediction's model version; 0: not given
    gap: Floats  # mean event time (ms) from one outcome of all of the stream's sequences to the next,
    # where thresholds are due by a budget of false alarms; 0 elsewhere
    estimate: Floats  # of the loss, before the label, less the mean of estimates; 0: there is none
    # The place of the prediction in its stream's timeline, which is noted when all came (`timeline.locate`):
    cohort: Ints  # 1 more than its number; 0: it was closed before
    epoch: Ints
    frontier: Ints  # cohorts before this one are closed, now that the instance has its label
    # What is at stake, where outcomes cost by it:
    valued: Bytes  # whether it is known
    stake: Floats  # the label's `value`, or else the prediction's
    # What is scored:
    scored: Bytes  # SCORED, WEIGHTED or both, and what of the above is known; 0: nothing, and the columns
    # below mean nothing
    log_loss: Floats  # -ln p(label), clipped; with OF_QUANTILES the weighted interval score
    brier: Floats  # with SEASONAL the seasonal baseline - label
    confidence: Floats  # p(prediction)
    positive: Floats  # p of the positive class
    is_positive: Bytes  # whether the label is the positive class
    error: Floats  # for regression: prediction - label
    value: Floats  # for regression: the label
    width: Floats  # of the interval, with INTERVAL; with RANKED and without IN_TOP the share of all orders of
    # equal probabilities in which the label is of the first few
    weight: Floats  # 1/propensity of the label; for regression, a number of `scores.numbers_of`


# Joint cells: label, prediction, which baselines were right


@inner
def cell_of(label: int, prediction: int, bits: int, capacity: int) -> int:
    """The joint cell (label·k + prediction)·4 + bits, of 4·k² with room for k = `capacity` classes.

    `label` and `prediction` are class codes; `bits`: 2 where the persistent baseline was right, plus 1 where
    the majority one was.

    >>> cell_of(1, 0, 3, 2)
    11
    """
    return (label * capacity + prediction) * 4 + bits


@inlined
def weight_of(cells: Floats, pair: int) -> float:
    """Outcomes of a label and a prediction, label·k + prediction, from joint cells, (4·k²,): of any bits."""
    first = pair * 4
    return (cells[first] + cells[first + 1]) + (cells[first + 2] + cells[first + 3])


#: The room for classes in the keys of joint cells: a cell's key is `cell_of` with this capacity.
KEY_CAPACITY = 1 << 16

#: Of joint cells that have a place each.
NO_KEYS: Ints32 = np.zeros(0, dtype=np.int32)


class JointCells(NamedTuple):
    """Counts or weights of joint cells: of all, or only of those that have any, with their keys."""

    weights: Floats  # (4·k²,) by `cell_of`; or (cells,), above 0
    keys: Ints32 = NO_KEYS  # no rows, or of each weight its cell's key, ascending: by label, then prediction
    whole: bool = False  # whether weights are known to be whole numbers


@inlined
def label_of(key: int) -> int:
    """The class code of the label in a joint cell's key (`keys_of`)."""
    return np.int64(key) >> 18


@inlined
def prediction_of(key: int) -> int:
    """The class code of the prediction in a joint cell's key (`keys_of`).

    >>> key = cell_of(70, 3, 1, KEY_CAPACITY)
    >>> label_of(key), prediction_of(key), key & 3
    (70, 3, 1)
    """
    return (np.int64(key) >> 2) & (KEY_CAPACITY - 1)


@inlined
def is_listed(cells: JointCells) -> bool:
    """Whether only cells with outcomes are there, with their keys."""
    return len(cells.keys) == len(cells.weights)


@inner
def listed_at(cells: JointCells, index: int) -> tuple[int, float, float, float, float]:
    """The listed cells of the label and prediction at `index`: where the next begin, and weights by bits."""
    pair = np.int64(cells.keys[index]) >> 2
    neither = majority = persistent = both = 0.0
    while index < len(cells.keys) and np.int64(cells.keys[index]) >> 2 == pair:
        bits, weight = np.int64(cells.keys[index]) & 3, cells.weights[index]
        if bits == 0:
            neither = weight
        elif bits == 1:
            majority = weight
        elif bits == 2:
            persistent = weight
        else:
            both = weight
        index += 1
    return index, neither, majority, persistent, both


@inner
def listed_weight(cells: JointCells, index: int) -> tuple[int, float]:
    """As `listed_at`, with one weight: that of all bits, added as `weight_of` does."""
    index, neither, majority, persistent, both = listed_at(cells, index)
    return index, (neither + majority) + (persistent + both)


def keys_of(cells: Ints, capacity: int) -> Ints32:
    """The keys of joint cells with room for `capacity` classes, (n,): the same for any room.

    >>> keys_of(np.array([11]), 2).tolist() == [cell_of(1, 0, 3, KEY_CAPACITY)]
    True
    """
    labels, predictions = np.divmod(cells >> 2, capacity)
    return ((labels * KEY_CAPACITY + predictions) * 4 + (cells & 3)).astype(np.int32)


def places_of(keys: Ints32, capacity: int) -> Ints:
    """The joint cells of these keys, (n,), with room for `capacity` classes.

    >>> places_of(keys_of(np.array([3, 11]), 2), 2).tolist()
    [3, 11]
    """
    wide = keys.astype(np.int64)
    return ((wide >> 18) * capacity + ((wide >> 2) & (KEY_CAPACITY - 1))) * 4 + (wide & 3)


def listed(cells: JointCells, capacity: int) -> JointCells:
    """The same cells, only those that have a weight; `capacity` is the room for classes.

    >>> listed(JointCells(np.array([0.0] * 9 + [5.0] + [0.0] * 6)), 2).keys.tolist() == [1 << 18 | 1]
    True
    """
    if is_listed(cells):
        return cells
    indices = np.flatnonzero(cells.weights)
    return JointCells(cells.weights[indices], keys_of(indices, capacity), cells.whole)


def by_class(cells: JointCells, capacity: int) -> Iterator[tuple[Any, ...]]:
    """Each label and prediction with outcomes, in order, and their counts or weights by bits.

    >>> list(by_class(JointCells(np.array([0.0] * 9 + [5.0] + [0.0] * 6)), 2))
    [(1, 0, 0.0, 5.0, 0.0, 0.0)]
    """
    cells = listed(cells, capacity)
    entries = zip(cells.keys.tolist(), cells.weights.tolist())
    for pair, of_pair in groupby(entries, key=lambda entry: entry[0] >> 2):
        weights = [0.0] * 4
        for key, weight in of_pair:
            weights[key & 3] = weight
        yield pair // KEY_CAPACITY, pair % KEY_CAPACITY, *weights


def new_log(rows: int) -> Log:
    """An empty outcome log with this many rows, all zero; `Logs.used[OUTCOMES]` is the number in use."""
    return records(Log, rows)
