"""A memory's shares compared with those of the reference, a sequence's first outcomes.

Let (l₁, u₁) and (l₂, u₂) be the intervals of two shares of disjoint outcomes. Their difference is d = p₁ -
p₂. Its 95% interval goes from d - √((p₁-l₁)² + (u₂-p₂)²) to d + √((u₁-p₁)² + (p₂-l₂)²). Variances add, each
at its own end (Newcombe 1998, method 10; MOVER of Zou and Donner 2008). The intervals of the shares are
Wilson's with the effective sample size (`engine.details.intervals`). So dependence and fading also
widen the interval of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Ints, copy_of_rows
from prequential.engine.details.shares import (
    SHARES,
    Matrices,
    Shares,
    SignPairs,
    matrices_of,
    pairs_of,
    shares_of,
)
from prequential.engine.estimators.declaration import Counted
from prequential.engine.estimators.estimator import Estimator, ReferenceTables
from prequential.engine.measures.per_class import Positives


class WeightedShare(NamedTuple):
    """A share of outcomes: its value, the weight that it is a share of, and its 95% interval."""

    value: float
    whole: float
    interval: tuple[float, float] | None  # None: too few clusters


class ReadSequences(NamedTuple):
    """What an estimator has counted of sequences, by row."""

    sequences: Ints
    counted: Counted
    matrices: Matrices
    pairs: SignPairs
    shares: Shares
    outcomes: Ints  # number of the sequence's newest outcome
    newest_ts: Ints  # … and its label time, ms


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
    >>> from prequential.engine.details.intervals import wilson
    >>> before = WeightedShare(56 / 70, 70, wilson(56 / 70, 70))
    >>> difference(before, WeightedShare(48 / 80, 80, wilson(0.6, 80)))  # table II, a
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


def references_of(
    reference: ReferenceTables, estimator: Estimator, positives: Positives, present: ReadSequences,
    measures: Sequence[str],
) -> list[dict[str, Any] | None]:  # fmt: skip
    """By row, a memory's shares compared with the reference's, as messages have it; None: nothing to report.

    In messages, `outcomes` is the number of the reference's outcomes. By name, `measures` has the reference's
    `value`, the `difference` of the memory's value from it, and the `interval` of the difference, all
    rounded. While the memory still has outcomes of the reference, `interval` is None. The estimator `all`
    keeps these outcomes. There the difference is that of the outcomes since the reference, times their part
    of all.

    Parameters
    ----------
    present
        What the estimator has counted.
    measures
        The configured measures; others aren't reported.
    """
    sequences, counts = present.sequences, reference.counts
    counts.widen()
    counted, pairs = counts.cells.counted(sequences), pairs_of(counts, sequences)
    nothing = np.zeros(len(sequences), dtype=np.int64)
    matrices = matrices_of(counts, counted, sequences, positives)._replace(positive=present.matrices.positive)
    then = _weighted(shares_of(counts, sequences, matrices, pairs, nothing))
    now = _weighted(present.shares)
    since = _disjoint(reference, estimator, positives, present, counted, pairs)
    complete, sizes = reference.table.complete[sequences].tolist(), reference.table.size[sequences].tolist()
    return [
        _message(size, own, later, apart, measures) if is_complete else None
        for is_complete, size, own, later, apart in zip(complete, sizes, then, now, since)
    ]


def _message(
    size: int, then: dict[str, WeightedShare], present: dict[str, WeightedShare],
    since: dict[str, WeightedShare], measures: Sequence[str],
) -> dict[str, Any] | None:  # fmt: skip
    """The comparison of a memory's shares with those of a reference of `size` outcomes."""
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


def _disjoint(
    reference: ReferenceTables, estimator: Estimator, positives: Positives, present: ReadSequences,
    first: Counted, first_pairs: SignPairs,
) -> list[dict[str, WeightedShare]]:  # fmt: skip
    """By row, the shares of a memory without the reference's outcomes; empty: they can't be told apart."""
    sequences, extent = present.sequences, reference.table
    now, nothing = _weighted(present.shares), dict[str, WeightedShare]()
    before, sizes = extent.before[sequences], extent.size[sequences]
    if not estimator.memory.forgets:
        began = estimator.cells.table.began[sequences]
        less = _less(reference, positives, present, first, first_pairs, began <= before)
        return [
            rest if begins_before else own if begins_after else nothing
            for rest, own, begins_before, begins_after in zip(
                less, now, (began <= before).tolist(), (began >= before + sizes).tolist()
            )
        ]
    since = []
    matrices = present.matrices
    listed = matrices.cells.tolist() if matrices.keys.shape[1] else [None] * len(sizes)
    weights = [float(row[:count].sum()) for row, count in zip(matrices.weights, listed)]
    gaps = (present.outcomes - before - sizes).tolist()
    ages = np.maximum(0, present.newest_ts - extent.until[sequences]).tolist()
    for own, size, weight, gap, age in zip(now, sizes.tolist(), weights, gaps, ages):
        common = size * estimator.memory.weight_left(estimator.parameter, gap, age)
        since.append(own if common <= _MOST_COMMON * weight else nothing)
    return since


def _less(
    reference: ReferenceTables, positives: Positives, present: ReadSequences, first: Counted,
    first_pairs: SignPairs, whole: npt.NDArray[np.bool_],
) -> list[dict[str, WeightedShare]]:  # fmt: skip
    """By row, the shares of whole histories without the reference; empty where they aren't `whole`."""
    rows = np.flatnonzero(whole & (reference.table.complete[present.sequences] > 0))
    less: list[dict[str, WeightedShare]] = [{}] * len(whole)
    if not len(rows):
        return less
    sequences = present.sequences[rows]
    counted = copy_of_rows(present.counted, rows)
    counted.cells[:] -= first.cells[rows]
    pairs = SignPairs(*(a[rows] - b[rows] for a, b in zip(present.pairs, first_pairs)))
    matrices = matrices_of(reference.counts, counted, sequences, positives)
    matrices = matrices._replace(positive=present.matrices.positive[rows])
    nothing = np.zeros(len(rows), dtype=np.int64)
    shares = _weighted(shares_of(reference.counts, sequences, matrices, pairs, nothing))
    for row, own in zip(rows.tolist(), shares):
        less[row] = own
    return less


def _weighted(shares: Shares) -> list[dict[str, WeightedShare]]:
    """By row, its shares by name, in the order of messages."""
    columns = (shares.value, shares.whole, shares.low, shares.high)
    return [
        {
            name: WeightedShare(value, whole, None if math.isnan(low) else (low, high))
            for name, value, whole, low, high in zip(SHARES, *row)
            if whole
        }
        for row in zip(*(column.tolist() for column in columns))
    ]


def short(value: float) -> float:
    """A value to so many decimals as messages have."""
    return round(value, _DECIMALS) + 0.0  # no -0.0
