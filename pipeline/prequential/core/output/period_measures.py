"""Measures of periods of prediction time: of what is labelled so far, and of what is expected of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog
from prequential.core.compiled.kernel import Floats, Ints, Ints32, allocating
from prequential.core.delay.expected import NUMBERS, RIGHT_WRONG, Expected, losses_at
from prequential.core.delay.expecting import Group
from prequential.core.delay.period_cells import put_counts, put_stakes
from prequential.core.delay.periods import PeriodTables, spread_at
from prequential.core.measures.costs import SUMS, sum_up_stakes
from prequential.core.measures.declaration import (
    CLASSES,
    COSTS,
    DEFINED,
    MATRIX,
    POSITIVE,
    PROBABILITIES,
    REASONS,
)
from prequential.core.measures.declaration import NUMBERS as OF_NUMBERS
from prequential.core.measures.per_class import new_classes
from prequential.core.measures.positive import Positives, quantile_of
from prequential.core.measures.registry import INDEX, MEASURES, NAMES
from prequential.core.measures.table import InMemory, measure_cells, measure_numbers
from prequential.core.tables.outcomes import cell_of
from prequential.core.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    BRIER,
    LOG_LOSS,
    SCORED,
    SIZE,
    SQUARED_ERRORS,
)

#: Measures of a matrix that are expected: those that say how good a model is, baselines aside.
_OF_MATRIX = frozenset(
    one.name for one in MEASURES.values()
    if one.inputs in (MATRIX, CLASSES, POSITIVE, COSTS) and one.quality and not one.needs_label
    and one.name != "cost_total"  # which isn't of the same predictions before and after
)  # fmt: skip

#: Measures of mean losses, and where their sums stand; `ece` is none.
_LOSSES = {"log_loss": LOG_LOSS, "brier": BRIER}
OF_LOSSES = frozenset(
    one.name for one in MEASURES.values()
    if one.inputs == OF_NUMBERS or (one.inputs == PROBABILITIES and one.name in _LOSSES)
)  # fmt: skip
_PLACES = {False: (LOG_LOSS, BRIER), True: (ABSOLUTE_ERRORS, SQUARED_ERRORS, BIAS)}

#: All that are expected.
ESTIMATED = _OF_MATRIX | OF_LOSSES

#: Why a measure has no expected value: none is made; the classes are too many for all but right and wrong; no
#: prediction has come to the end of its horizon, where alone it is known that it has no event.
_WHY = (*REASONS, "not_estimated", "too_many_classes", "first_horizon")
_NOT_ESTIMATED, _TOO_MANY_CLASSES, FIRST_HORIZON = range(len(REASONS), len(_WHY))
_NO_PROBABILITIES = REASONS.index("no_probabilities")

_MATRIX_COLUMNS = np.array(sorted(INDEX[name] for name in _OF_MATRIX))
_SCORE_COLUMNS = {name: INDEX[name] for name in _LOSSES}
_LOSS_COLUMNS = {
    False: np.array(list(_SCORE_COLUMNS.values())),
    True: np.array([INDEX[name] for name in sorted(OF_LOSSES - _LOSSES.keys())]),
}  # by whether the task is regression


class Measured(NamedTuple):
    """Of periods: by measure (columns as `NAMES`) values, and codes of reasons why there is none."""

    values: Floats
    reasons: Ints

    def by_name(self, place: int, names: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
        """The values of these measures of one period, and why others have none."""
        values, reasons = self.values[place].tolist(), self.reasons[place].tolist()
        known = [(name, INDEX[name]) for name in names]
        return (
            {name: values[at] for name, at in known if not reasons[at]},
            {name: _WHY[reasons[at]] for name, at in known if reasons[at]},
        )


def _new(rows: int, reason: int = DEFINED) -> Measured:
    shape = rows, len(NAMES)
    return Measured(np.zeros(shape), np.full(shape, reason, dtype=np.int64))


# ---- so far


def so_far(catalog: Catalog, periods: PeriodTables, models: Ints, rows: Ints) -> Measured:
    """Measures of what is labelled of periods (rows, (n,)), by the models that they are of."""
    found = _new(len(rows))
    entities, plans = catalog.columns.entities, catalog.plans
    streams = entities.stream[models].astype(np.int32)
    of = entities.plan[models]
    for number in np.unique(of).tolist():
        places, plan = np.flatnonzero(of == number), plans[number]
        own = _new(len(places))
        positives = catalog.positives_by(streams[places])
        _measure(periods, rows[places], positives, plan.capacity, plan.numbers, own)
        found.values[places], found.reasons[places] = own
    return found


@allocating
def _measure(
    tables: PeriodTables, rows: Ints, positives: Positives, capacity: int, numbers: bool, into: Measured
) -> None:
    """Measures of what is labelled of each of the periods."""
    periods, pool, cells, nothing = tables.periods, tables.cell_pool, tables.cells, np.zeros(SIZE)
    joint, stakes = np.empty(4 * capacity * capacity), np.empty((capacity * capacity, 2))
    classes, paid = new_classes(capacity), np.empty(SUMS)
    by_value = cells.stakes.shape[1] > 0 and len(positives.priced) > 0
    for i in range(len(rows)):
        row = rows[i]
        own = np.int64(periods.sums[row])
        sums = tables.sums.sums[own] if own else nothing
        if numbers:
            spread = spread_at(tables.sums.spread, own)
            quantile = quantile_of(positives, i)
            measure_numbers(sums, own != 0, spread, quantile, into.values[i], into.reasons[i])
        else:
            joint[:] = 0.0
            paid[:] = 0.0
            first, count = np.int64(periods.first_cell[row]), np.int64(periods.cells[row])
            put_counts(pool.key, pool.next, cells.counts, first, count, capacity, joint)
            if by_value:
                stakes[:] = 0.0
                put_stakes(pool.key, pool.next, cells.stakes, first, count, capacity, stakes)
                sum_up_stakes(positives, i, stakes, capacity, paid)
            memory = InMemory(joint, periods.known[row] != 0, sums, own != 0, True, paid)
            measure_cells(memory, classes, positives, i, False, into.values[i], into.reasons[i])


# ---- expected


def expected(
    catalog: Catalog, periods: PeriodTables, tables: Expected, models: Ints, rows: Ints, group: Group,
    places: Ints, sums: Floats | None = None,
) -> Measured:  # fmt: skip
    """Measures of what is expected of periods.

    Parameters
    ----------
    catalog, periods, tables
        What is known.
    models, rows
        (n,) the models, and the periods as `periods` has them.
    group, places
        What is expected of them, models alike, and which places of that are theirs.
    sums
        (n, `SIZE`) for sums of scores of all that have or will have a label, where mean losses are expected.

    Returns
    -------
    Measured
        Of each period.
    """
    found = _new(len(rows), _NOT_ESTIMATED)
    of_models, look = tables.models, group.look
    layout = int(of_models.layout[models[0]])
    coming = look.coming[places]
    for count in np.unique(of_models.losses[models]).tolist():
        [some] = np.nonzero((of_models.losses[models] == count) & (count > 0))
        if len(some):
            own, of_scores = _of_losses(periods, tables, models[some], rows[some], coming[some], count)
            if sums is not None:
                sums[some] = of_scores
            columns = _LOSS_COLUMNS[layout == NUMBERS]
            at = np.ix_(some, columns)
            found.values[at], found.reasons[at] = (column[:, columns] for column in own)
    if layout == RIGHT_WRONG:
        cells = look.cells[places]
        right = cells[:, 0, 1] / (cells[:, 0, 0] + cells[:, 0, 1])
        found.reasons[:, _MATRIX_COLUMNS] = _TOO_MANY_CLASSES
        for name, value in (("accuracy", right), ("error", 1.0 - right)):
            found.values[:, INDEX[name]], found.reasons[:, INDEX[name]] = value, DEFINED
    elif layout != NUMBERS:
        own = _of_matrices(catalog, tables, models, look.cells[places])
        for column, of_matrix in zip(found, own):
            column[:, _MATRIX_COLUMNS] = of_matrix[:, _MATRIX_COLUMNS]
    return found


def _of_matrices(catalog: Catalog, tables: Expected, models: Ints, cells: Floats) -> Measured:
    """Measures of expected confusion matrices (n, J, K) by places of classes."""
    found, entities = _new(len(models)), catalog.columns.entities
    capacities = np.array([catalog.plans[plan].capacity for plan in entities.plan[models].tolist()])
    for capacity in np.unique(capacities).tolist():
        [some] = np.nonzero(capacities == capacity)
        own = _new(len(some))
        _measure_matrices(
            cells[some], tables.models.codes[models[some]], tables.models.classes[models[some]],
            catalog.positives_by(entities.stream[models[some]].astype(np.int32)), capacity, own,
        )  # fmt: skip
        found.values[some], found.reasons[some] = own
    return found


@allocating
def _measure_matrices(
    cells: Floats, codes: Ints32, classes: Ints32, positives: Positives, capacity: int, into: Measured
) -> None:
    joint, room, nothing = np.empty(4 * capacity * capacity), new_classes(capacity), np.zeros(SIZE)
    unpaid = np.zeros(SUMS)
    for i in range(len(cells)):
        joint[:] = 0.0
        for j in range(classes[i]):
            for k in range(classes[i]):
                at = cell_of(np.int64(codes[i, k]), np.int64(codes[i, j]), 0, capacity)
                joint[at] = cells[i, j, k]
        memory = InMemory(joint, True, nothing, False, True, unpaid)
        measure_cells(memory, room, positives, i, False, into.values[i], into.reasons[i])


def _of_losses(
    periods: PeriodTables, tables: Expected, models: Ints, rows: Ints, coming: Floats, count: int
) -> tuple[Measured, Floats]:
    """Measures of mean losses, and their sums: of labels that have come, and of those to come by strata."""
    found, of_models = _new(len(rows)), tables.models
    numbers = int(of_models.layout[models[0]]) == NUMBERS
    sums = periods.sums.sums[periods.periods.sums[rows]]
    sums[periods.periods.sums[rows] == 0] = 0.0
    _add_losses(
        tables.of_models.counts, losses_at(of_models, models), coming, np.array(_PLACES[numbers][:count]),
        numbers, sums, found,
    )  # fmt: skip
    if not numbers:
        _divide(sums, found)
    return found, sums


def _divide(sums: Floats, into: Measured) -> None:
    """Mean losses of probabilities, by their sums (n, `SIZE`)."""
    scored = sums[:, SCORED] > 0.0
    for name, column in _SCORE_COLUMNS.items():
        np.divide(sums[:, _LOSSES[name]], sums[:, SCORED], out=into.values[:, column], where=scored)
        into.reasons[:, column] = np.where(scored, DEFINED, _NO_PROBABILITIES)


def expected_of(
    joint: Floats | None, right: tuple[float, float] | None, sums: Floats | None, positives: Positives, *,
    numbers: bool,
) -> Measured:  # fmt: skip
    """Measures of what is expected of one period, by totals.

    Parameters
    ----------
    joint
        (4·k²,) the expected cells of classes; None: of numbers.
    right
        How many will be wrong, and right, where that alone is told apart.
    sums
        (`SIZE`,) of scores; None: no mean losses are expected.
    positives
        Of the stream, whose number is 0.
    numbers
        Whether the task is regression.

    Returns
    -------
    Measured
        Of the one.
    """
    found = _new(1, _NOT_ESTIMATED)
    if sums is not None:
        own, columns = _new(1), _LOSS_COLUMNS[numbers]
        if numbers:
            measure_numbers(sums, True, 0.0, 0.0, own.values[0], own.reasons[0])
        else:
            _divide(sums[None], own)
        found.values[:, columns], found.reasons[:, columns] = (column[:, columns] for column in own)
    if right is not None:
        found.reasons[:, _MATRIX_COLUMNS] = _TOO_MANY_CLASSES
        share = right[1] / sum(right)
        for name, value in (("accuracy", share), ("error", 1.0 - share)):
            found.values[:, INDEX[name]], found.reasons[:, INDEX[name]] = value, DEFINED
    elif joint is not None:
        own, classes = _new(1), new_classes(math.isqrt(len(joint) // 4))
        memory = InMemory(joint, True, np.zeros(SIZE), False, True, np.zeros(SUMS))
        measure_cells(memory, classes, positives, 0, False, own.values[0], own.reasons[0])
        for column, of_matrix in zip(found, own):
            column[:, _MATRIX_COLUMNS] = of_matrix[:, _MATRIX_COLUMNS]
    return found


@allocating
def _add_losses(
    faded: Floats, at: Ints, coming: Floats, columns: Ints, numbers: bool, sums: Floats, into: Measured
) -> None:
    """Add what is to come to sums of scores, (n, `SIZE`); of numbers also their measures."""
    _, predicted, bins = coming.shape
    # The first bin is that of predictions without probabilities.
    start = 0 if numbers else 1
    for i in range(len(at)):
        for j in range(predicted):
            for b in range(start, bins):
                place = at[i] + (j * bins + b) * (1 + len(columns))
                n = faded[place]
                if n > 0.0 and coming[i, j, b] > 0.0:
                    sums[i, SCORED] += coming[i, j, b]
                    for one in range(len(columns)):
                        sums[i, columns[one]] += coming[i, j, b] * (faded[place + 1 + one] / n)
        if numbers:
            measure_numbers(sums[i], True, 0.0, 0.0, into.values[i], into.reasons[i])
