"""Estimates of the pending predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.pool import Pool, find
from prequential.engine.delay import records
from prequential.engine.delay.calibrating import EXPECTED, SCALE, WAITING, PeriodEstimates
from prequential.engine.delay.expected import (
    NUMBERS,
    RIGHT_WRONG,
    ExpectedTables,
    all_open_rows,
    ends_of_periods,
    known_of,
)
from prequential.engine.delay.expecting import look_together
from prequential.engine.delay.latest_estimates import Waiting
from prequential.engine.delay.records import FINALS, MaturityRecords, ratio_of
from prequential.engine.measures.registry import INDEX

#: Measures whose records have the errors of shares of right predictions; either suffices.
_GRADED = (INDEX["accuracy"], INDEX["error"])


def together(parts: Sequence[Waiting]) -> Waiting:
    """Sum up one model's pending predictions in several partitions.

    The interval allows for errors in the same direction in all partitions.

    >>> together([Waiting(3, 2.5, 2.0, 0.5), Waiting(4, 3.0, 1.5, 0.25)])
    Waiting(predictions=7, labels=5.5, right=3.5, half=0.75)
    >>> together([Waiting(3, 2.5, 2.0, None), Waiting(4, 3.0, 1.5, 0.25)]).half is None
    True
    """
    halves = [waiting.half for waiting in parts]
    return Waiting(
        sum(waiting.predictions for waiting in parts), sum(waiting.labels for waiting in parts),
        sum(waiting.right for waiting in parts),
        None if None in halves else sum(half for half in halves if half is not None),
    )  # fmt: skip


def all_waiting(expected: ExpectedTables, model_rows: Ints, clocks: Ints) -> list[Waiting | None]:
    """Estimates of models' pending predictions, (m,) rows, at the clocks of their streams, ms.

    By model; None: it has no estimates, no pending predictions, or its task is regression.
    """
    models, estimates = expected.models, list[Any]([None] * len(model_rows))
    places = np.flatnonzero(model_rows < len(models.width))
    chosen, clock = model_rows[places], clocks[places]
    told = (models.width[chosen] > 0) & (models.layout[chosen] != NUMBERS) & known_of(models, chosen, clock)
    places, chosen, clock = places[told], chosen[told], clock[told]
    if not len(places):
        return estimates
    rows, ends = all_open_rows(expected, chosen)
    horizons, clock_of = (
        np.repeat(column, np.diff(ends, prepend=0)) for column in (models.horizon[chosen], clock)
    )
    # A period that hasn't ended counts as if it were at its end.
    maturities = records.maturity_of(clock_of, ends_of_periods(expected, rows), horizons).clip(min=0)
    stages = records.BEFORE_END + maturities
    ratios = np.empty(len(rows))
    _put_ratios(expected.record_pool, expected.records, chosen, ends, stages, np.empty(FINALS), ratios)
    for group in look_together(expected, chosen, rows, ends, clock):
        sums = np.zeros((len(group.places), 5))  # the fields of `Waiting`, and how many have no ratio
        layout = int(models.layout[chosen[group.places[0]]])
        _add_up(
            group.look, group.ends, expected.periods.block[rows[group.rows]], expected.of_periods.counts,
            layout == RIGHT_WRONG, ratios[group.rows], sums,
        )  # fmt: skip
        for index, (waits, labels, right, half, unknown) in zip(group.places.tolist(), sums.tolist()):
            if waits > 0.0:
                labels = min(waits, labels)  # sums of parts may exceed the whole in the last bit
                estimates[places[index]] = Waiting(
                    int(waits), labels, min(labels, max(0.0, right)), None if unknown else half
                )
    return estimates


@kernel
def _put_ratios(
    pool: Pool, of_models: MaturityRecords, model_rows: Ints, ends: Ints, stages: Ints, room: Floats,
    ratios: Floats,
) -> None:  # fmt: skip
    """By period, put half the width of the interval of its share of right predictions, in scales.

    It is from its maturity or, if that has too few final periods, from the latest earlier maturity that has
    enough. NaN: none has.
    """
    i = 0
    for m in range(len(model_rows)):
        record = np.int64(0)
        for measure in _GRADED:
            if record == 0:
                record = find(pool, model_rows[m], measure)
        for own in range(i, ends[m]):
            ratios[own] = math.nan
            if own > i and stages[own] == stages[own - 1]:
                ratios[own] = ratios[own - 1]
            elif record:
                before = stages[own]
                while before >= records.BEFORE_END and math.isnan(ratios[own]):
                    ratios[own] = ratio_of(of_models, record, before, room)
                    before -= 1
        i = ends[m]


@kernel
def _add_up(
    look: PeriodEstimates, ends: Ints, block: Ints, counts: Ints32, right_wrong: bool, ratios: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Sum up each model's periods that have pending predictions: see `all_waiting`."""
    first = 0
    for m in range(len(ends)):
        for i in range(first, ends[m]):
            if look.summary[i, WAITING] > 0.0:
                _add_period(look, i, block[i], counts, right_wrong, ratios[i], sums[m])
        first = ends[m]


@inner
def _add_period(
    look: PeriodEstimates, i: int, block: int, counts: Ints32, right_wrong: bool, ratio: float, sums: Floats
) -> None:
    """Add the i-th period, whose counts begin at `block`, to the sums of its model, (5,)."""
    _, predicted, labels = look.cells.shape
    bins = look.coming.shape[2]
    met = block + predicted * bins  # after the counts of predictions
    sums[0] += look.summary[i, WAITING]
    for j in range(predicted):
        right = 1 if right_wrong else j
        sums[2] += look.cells[i, j, right]
        for b in range(bins):
            for k in range(labels):
                sums[1] += look.coming[i, j, b, k]
            sums[2] -= counts[met + (j * bins + b) * labels + right]
    if math.isnan(ratio):
        sums[4] += 1.0
    else:
        sums[3] += look.summary[i, EXPECTED] * look.summary[i, SCALE] * ratio
