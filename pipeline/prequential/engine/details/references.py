"""The present compared with the reference: how shares differ from those of a sequence's first outcomes.

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
from prequential.configuration.settings.model import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details.details import WeightedShare, shares_of
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.reference import ReferenceTables
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import binary, new_classes
from prequential.engine.measures.table import sum_up
from prequential.engine.tables.outcomes import JointCells, is_listed

#: The part of a memory's weight, at most, that is of the reference's outcomes where the two count as
#: disjoint: variances that add are then too large by at most twice this part of the reference's.
_MOST_COMMON = 0.01

#: Decimals in messages: a million outcomes justify no more, and each digit adds a byte to each message.
_DECIMALS = 6


def refers(config: StreamConfig) -> bool:
    """Whether messages of a stream with these settings include a comparison with a reference."""
    return config.objective is not None and config.objective.reference is not None


class ReferenceSide(NamedTuple):
    """The counts of a sequence in a reference, or in a memory."""

    cells: JointCells
    pairs: list[Floats]
    known: bool
    #: effective(n, paired): how many equal outcomes a weight of n counts as.
    effective: Callable[[float, bool], float]


def difference(present: WeightedShare, reference: WeightedShare) -> tuple[float, float]:
    """The 95% interval, (low, high), of the difference of two shares of disjoint outcomes.

    References
    ----------
    Newcombe: Interval estimation for the difference between independent proportions: comparison of eleven
    methods, Statistics in Medicine 17, 1998 (method 10).

    Examples
    --------
    >>> from prequential.engine.details.intervals import wilson
    >>> before = WeightedShare(56 / 70, 70, wilson(56 / 70, 70))
    >>> low, high = difference(before, WeightedShare(48 / 80, 80, wilson(0.6, 80)))
    >>> round(low, 4), round(high, 4)  # table II, a
    (0.0524, 0.3339)
    """
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

    Parameters
    ----------
    reference, estimator, sequence
        Of a plan, and the sequence's row.
    now
        What the estimator has counted of it.
    outcomes, ts
        Number and label time (ms) of the sequence's newest outcome.
    positive
        The positive class's code, or `NO_POSITIVE`.
    measures
        The configured measures.

    Returns
    -------
    dict
        `outcomes` is the number of the reference's outcomes. By name, `measures` has the reference's `value`,
        the `difference` of the memory's value from it, and the `interval` of the difference, all rounded.
        While the memory still has outcomes of the reference, `interval` is None. The estimator `all` keeps
        these outcomes. There the difference is that of the outcomes since the reference, times their part of
        all.
    """
    extent = reference.table
    if not extent.complete[sequence]:
        return None
    counts, size, before = reference.counts, int(extent.size[sequence]), int(extent.before[sequence])
    first = side_of(counts, sequence, counts.cells_of(sequence))
    arrays = first.cells.weights, first.cells.keys, *first.pairs
    counted = positive, first.known, *(np.asarray(one).tobytes() for one in arrays)
    made = reference.made.get(sequence)
    if made is None or made[0] != counted:
        made = reference.made[sequence] = counted, _shares(first, counts.capacity, positive)
    then, present = made[1], _shares(now, estimator.capacity, positive)
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
    found: dict[str, dict[str, Any]] = {}
    for name, value in then.items():
        if name in measures and name in present:
            interval = None
            if name in since:
                part = since[name].whole / present[name].whole
                low, high = difference(since[name], value)
                interval = short(part * low), short(part * high)
            off = present[name].value - value.value
            found[name] = {"value": short(value.value), "difference": short(off), "interval": interval}
    return {"outcomes": size, "measures": found} if found else None


def short(value: float) -> float:
    """A value to so many decimals as messages have."""
    return round(value, _DECIMALS) + 0.0  # no -0.0


def side_of(estimator: Estimator, sequence: int, cells: JointCells) -> ReferenceSide:
    """What an estimator has counted of a sequence, of which these are the joint cells."""
    pairs, known = estimator.pairs_of(sequence), estimator.knows_labels(sequence)
    return ReferenceSide(cells, pairs, known, partial(estimator.effective, sequence))


def _less(whole: ReferenceSide, part: ReferenceSide) -> ReferenceSide:
    """The counts of a whole without those of a part of it."""
    pairs = [a - b for a, b in zip(whole.pairs, part.pairs)]
    weights = whole.cells.weights.copy()
    if is_listed(whole.cells):
        weights[np.searchsorted(whole.cells.keys, part.cells.keys)] -= part.cells.weights
    else:
        weights -= part.cells.weights
    return ReferenceSide(whole.cells._replace(weights=weights), pairs, whole.known, whole.effective)


def _shares(side: ReferenceSide, capacity: int, positive: int) -> dict[str, WeightedShare]:
    matrix = new_classes(capacity)
    totals = sum_up(side.cells, matrix)
    if not totals.n:
        return {}
    one = None if positive == NO_POSITIVE else binary(totals.n, matrix, positive)
    return shares_of(totals, one, side.pairs, side.effective(totals.n, False), side.known)
