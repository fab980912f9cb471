"""A shard's expectations for periods that aren't final, as totals that add up over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import numpy.typing as npt
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.pool import find
from prequential.engine.delay import records
from prequential.engine.delay.calibrating import EXPECTED, LABELLED, SCALE, WEIGHT
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.expected import NUMBERS, RIGHT_WRONG, ends_of_periods, known_of, open_rows
from prequential.engine.delay.expecting import look_together
from prequential.engine.measures.registry import INDEX
from prequential.engine.output.expectations import scale_of
from prequential.engine.output.period_measures import expected
from prequential.engine.state import ShardState
from prequential.engine.tables.scores import SIZE, WIDTHS
from prequential.topics.parts import Foreseen

#: Number of sums of scores, from the first on, that mean losses need.
MEANS = WIDTHS + 1


def foreseen_of(
    state: ShardState, stream: Stream, model: int, of: Sequence[PeriodState]
) -> dict[int, Foreseen]:
    """The expectations for a model's provisional periods, by the period's row; the state stays unchanged."""
    tables, catalog = state.accounts.expected, state.catalog
    models, clock = tables.models, int(catalog.columns.streams.clock[stream.code])
    if model >= len(models.width) or not models.width[model]:
        return {}
    rows = open_rows(tables, model)
    whose, clocks = np.array([model]), np.array([clock])
    [group] = look_together(tables, whose, rows, np.array([len(rows)]), clocks)
    by_start = {one.start: one.row for one in of if not one.is_final}
    starts, ends = tables.pool.key[rows].tolist(), ends_of_periods(tables, rows).tolist()
    some = [
        (place, by_start[start]) for place, start in enumerate(starts)
        if start in by_start and group.look.about[place, EXPECTED] > 0
    ]  # fmt: skip
    if not some:
        return {}
    places, own = np.array(some).T
    sums = np.zeros((len(some), SIZE))
    measured = expected(
        catalog, state.accounts.periods, tables, np.full(len(some), model), own, group, places, sums
    )
    is_known, has_losses = bool(known_of(models, whose, clocks)[0]), bool(models.losses[model])
    layout, codes = int(models.layout[model]), models.codes[model, : models.classes[model]].tolist()
    values, found = measured.by_name([stream.config.measures] * len(some)), {}
    for number, (place, row) in enumerate(some):
        about, cells = group.look.about[place], group.look.cells[place]
        one = Foreseen(float(about[EXPECTED]), float(about[WEIGHT]), is_known)
        if layout == RIGHT_WRONG:
            one.right = float(cells[0, 0]), float(cells[0, 1])
        elif layout != NUMBERS:
            one.cells = [
                (label, prediction, float(cells[j, k]))
                for k, label in enumerate(codes) for j, prediction in enumerate(codes) if cells[j, k]
            ]  # fmt: skip
        if has_losses:
            one.sums = sums[number, :MEANS].tolist()
        maturity = records.maturity_of(clock, ends[place], int(models.horizon[model]))
        if maturity >= 0:
            one.halves = _halves(state, model, int(maturity), about, values[number][0])
        found[row] = one
    return found


def _halves(
    state: ShardState, model: int, maturity: int, about: npt.NDArray[np.float64], values: dict[str, float]
) -> dict[str, float]:
    """Half widths of intervals, for measures that have enough final periods at this maturity."""
    tables, halves = state.accounts.expected, {}
    unknown = 1.0 - float(about[LABELLED]) / float(about[EXPECTED])
    for name, value in values.items():
        record = find(tables.record_pool, model, INDEX[name])
        if record:
            scale = scale_of(name, value, float(about[SCALE]), unknown)
            half, grade = records.graded(tables.records, record, maturity, scale)
            if grade is not None and isfinite(abs(value) + half):
                halves[name] = half
    return halves
