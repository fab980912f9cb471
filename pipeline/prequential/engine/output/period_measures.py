"""Measures of periods of prediction time, of the labels so far and estimated for all; and their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_by_owner
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, allocating, inner, kernel
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calendars import put_stakes
from prequential.engine.delay.expected import NUMBERS, RIGHT_WRONG, TWO, ExpectedTables, losses_at
from prequential.engine.delay.expecting import Group
from prequential.engine.delay.periods import PeriodTables, read_cells, read_ranks, read_sums
from prequential.engine.estimators.measuring import BLOCK, NO_SUMS, measure_joint
from prequential.engine.estimators.score_histogram import rank_bins
from prequential.engine.facts import PeriodDue
from prequential.engine.measures import declaration
from prequential.engine.measures.costs import SUMS, sum_up_stakes
from prequential.engine.measures.declaration import (
    CLASSES,
    COSTS,
    DEFINED,
    LABEL_SETS,
    MATRIX,
    NO_POSITIVE,
    POSITIVE,
)
from prequential.engine.measures.per_class import NO_OWNER, Positives
from prequential.engine.measures.registry import INDEX, MEASURES, NAMES, OF_RANKS
from prequential.engine.output.counts import as_objects, counts_of
from prequential.engine.output.estimates import changes_since
from prequential.engine.output.period_ranks import OpenRanks, expected_histograms, put_positives
from prequential.engine.tables import scores
from prequential.topics.encoding import encode, identity
from prequential.topics.outputs import Encoded, Metrics
from prequential.topics.specs import METRICS

#: Measures of a matrix that are estimated: those of the positive class, or of a model's quality, that need no
#: baseline.
_OF_MATRIX = frozenset(
    measure.name for measure in MEASURES.values()
    if measure.inputs in (MATRIX, CLASSES, LABEL_SETS, POSITIVE, COSTS) and not measure.needs_label
    and (measure.quality or measure.inputs == POSITIVE)
    and measure.name != "cost_total"  # its number of predictions changes when labels come
)  # fmt: skip

#: Measures that are mean losses, and the places of their sums; `ece` isn't one.
_LOSSES = {"log_loss": scores.LOG_LOSS, "brier": scores.BRIER}
OF_LOSSES = frozenset(
    measure.name for measure in MEASURES.values()
    if measure.inputs == declaration.NUMBERS
    or (measure.inputs == declaration.PROBABILITIES and measure.name in _LOSSES)
)  # fmt: skip
_PLACES = {
    False: (scores.LOG_LOSS, scores.BRIER),
    True: (scores.ABSOLUTE_ERRORS, scores.SQUARED_ERRORS, scores.BIAS),
}

#: All estimated measures.
ESTIMATED = _OF_MATRIX | OF_LOSSES | frozenset(OF_RANKS)

#: Why a measure has no estimate: it isn't estimated at all; there are too many classes, so that only right
#: and wrong are distinguished; no prediction has reached the end of its horizon, before which no event is
#: certain.
_WHY = (*declaration.REASONS, "not_estimated", "too_many_classes", "first_horizon")
_NOT_ESTIMATED, _TOO_MANY_CLASSES, FIRST_HORIZON = range(len(declaration.REASONS), len(_WHY))
_NO_PROBABILITIES = declaration.REASONS.index("no_probabilities")

_MATRIX_COLUMNS = np.array(sorted(INDEX[name] for name in _OF_MATRIX))
_RANK_COLUMNS = np.array([INDEX[name] for name in OF_RANKS])
_SCORE_COLUMNS = {name: INDEX[name] for name in _LOSSES}
_LOSS_COLUMNS = {
    False: np.array(list(_SCORE_COLUMNS.values())),
    True: np.array([INDEX[name] for name in sorted(OF_LOSSES - _LOSSES.keys())]),
}  # by whether the task is regression


#: Numbers of which no stream is known.
_NOBODY = Positives(NO_OWNER, NO_OWNER, NO_OWNER, NO_OWNER, np.zeros(0, dtype=np.uint8))

#: Values of measures by name, and why others have none.
Measures: TypeAlias = tuple[dict[str, float], dict[str, str]]


class PeriodValues(NamedTuple):
    """Values of periods by measure (columns as `NAMES`), and codes of reasons for missing values."""

    values: Floats
    reasons: Ints

    def by_name(self, names: Sequence[tuple[str, ...]]) -> list[Measures]:
        """The values of these measures for each period, and the reasons for missing values."""
        measures: list[Measures] = [({}, {})] * len(names)
        alike: dict[tuple[str, ...], list[int]] = {}
        for index, chosen in enumerate(names):
            alike.setdefault(chosen, []).append(index)
        for chosen, places in alike.items():
            cells = np.ix_(np.array(places), _columns(chosen))
            values, reasons = self.values[cells].tolist(), self.reasons[cells].tolist()
            for index, row, why in zip(places, values, reasons):
                measures[index] = (
                    _values_and_reasons(chosen, row, why) if any(why) else (dict(zip(chosen, row)), {})
                )
        return measures


def _values_and_reasons(names: tuple[str, ...], values: list[float], reasons: list[int]) -> Measures:
    """The measures that have a value, and the reasons for missing values."""
    return (
        {name: value for name, value, why in zip(names, values, reasons) if not why},
        {name: _WHY[why] for name, why in zip(names, reasons) if why},
    )


@cache
def _columns(names: tuple[str, ...]) -> Ints:
    return np.array([INDEX[name] for name in names], dtype=np.int64)


def _new(rows: int, reason: int = DEFINED) -> PeriodValues:
    shape = rows, len(NAMES)
    return PeriodValues(np.zeros(shape), np.full(shape, reason, dtype=np.int64))


def _by_kind(kinds: Ints, measure: Callable[[int, Ints, PeriodValues], None]) -> PeriodValues:
    """Measures of rows, all of a kind in one call: `measure(kind, rows, into)`."""
    result = _new(len(kinds))
    for kind in np.unique(kinds).tolist():
        [rows] = np.nonzero(kinds == kind)
        own = _new(len(rows))
        measure(kind, rows, own)
        result.values[rows], result.reasons[rows] = own
    return result


def _put(into: PeriodValues, rows: Ints, columns: Ints, own: PeriodValues) -> None:
    """Write these columns of `own` to these rows."""
    cells = np.ix_(rows, columns)
    into.values[cells], into.reasons[cells] = (column[:, columns] for column in own)


# ---- so far


class SoFar:
    """Measures of the labels of periods so far, by row: computed for many at once, and once for each."""

    def __init__(self, catalog: Catalog, periods: PeriodTables) -> None:
        self._catalog, self._periods = catalog, periods
        self._measures: dict[int, Measures] = {}

    def add(self, periods: Iterable[tuple[int, int]]) -> None:
        """Compute the measures of more periods, given by the rows of their models and their own."""
        new = np.array([pair for pair in periods if pair[1] not in self._measures], dtype=np.int64).reshape(
            -1, 2
        )
        models, rows = new.T
        values, streams = self._measured(models, rows), self._catalog.streams
        codes = self._catalog.columns.entities.stream[models].tolist()
        measures = values.by_name([streams[code].config.measures for code in codes])
        self._measures.update(zip(rows.tolist(), measures))

    def __getitem__(self, row: int) -> Measures:
        return self._measures[row]

    def _measured(self, models: Ints, rows: Ints) -> PeriodValues:
        catalog = self._catalog
        entities = catalog.columns.entities
        streams = entities.stream[models].astype(np.int32)

        def measure(number: int, chosen: Ints, into: PeriodValues) -> None:
            plan = catalog.plans[number]
            positives = positives_by_owner(catalog, streams[chosen])
            width = 1 if plan.numbers else 4 * plan.capacity * plan.capacity
            for block in _blocks(len(chosen), width):
                of_block = PeriodValues(into.values[block], into.reasons[block])
                own = positives._replace(owner=positives.owner[block])
                _measure(self._periods, rows[chosen[block]], own, plan.capacity, plan.numbers, of_block)

        return _by_kind(entities.plan[models].astype(np.int64), measure)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of so many numbers each: as many as are measured at once."""
    step = max(1, BLOCK // width)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _measure(
    tables: PeriodTables, rows: Ints, positives: Positives, capacity: int, numbers: bool, into: PeriodValues
) -> None:
    """Measures of the labels of each of the periods so far."""
    periods, summed = tables.periods, read_sums(tables, rows)
    if numbers:
        measure_joint(np.zeros((len(rows), 0)), positives, into, numbers=True, summed=summed)
        return
    paid = NO_SUMS
    if tables.cells.stakes.shape[1] and len(positives.priced):
        paid = np.zeros((len(rows), SUMS))
        _put_paid(tables, rows, positives, capacity, paid)
    known = (periods.known[rows] > 0).astype(np.uint8)
    joint = read_cells(tables, rows, capacity)
    positive = measure_joint(joint, positives, into, known=known, summed=summed, paid=paid)
    is_ranked = periods.ranks[rows] > 0
    if is_ranked.any():
        rank_bins(read_ranks(tables, rows), positive, is_ranked.astype(np.uint8), *into)


@allocating
def _put_paid(tables: PeriodTables, rows: Ints, positives: Positives, capacity: int, paid: Floats) -> None:
    """Put the sums of costs by value of the labels of periods so far, (n, `SUMS`)."""
    periods, cells = tables.periods, tables.cells
    stakes = np.empty((capacity * capacity, 2))
    rests = np.empty((capacity * capacity, 1, cells.rests.shape[2]))
    for i in range(len(rows)):
        stakes[:] = 0.0
        rests[:] = 0.0
        first, count = np.int64(periods.first_cell[rows[i]]), np.int64(periods.cells[rows[i]])
        put_stakes(tables.cell_pool, cells, first, count, capacity, stakes, rests)
        sum_up_stakes(positives, i, stakes, capacity, paid[i])


# ---- expected


def expected(
    catalog: Catalog, periods: PeriodTables, tables: ExpectedTables, models: Ints, rows: Ints, group: Group,
    places: Ints, sums: Floats | None = None, histograms: Floats | None = None,
) -> PeriodValues:  # fmt: skip
    """Estimated measures of periods for all their labels, a row for each period.

    `models`, `rows`: (n,) rows of the models, and of the periods in `periods`. `group`, `places`: the
    estimates of models with the same layout, and the places of these periods there. `sums`, (n, `SIZE`), and
    `histograms`, (n, `SCORE_WIDTH`), are written: of the scores of all predictions that have or will have a
    label.
    """
    values = _new(len(rows), _NOT_ESTIMATED)
    of_models, look = tables.models, group.look
    layout = int(of_models.layout[models[0]])
    coming, cells = look.coming[places], look.cells[places]
    for count in np.unique(of_models.losses[models]).tolist():
        [chosen] = np.nonzero((of_models.losses[models] == count) & (count > 0))
        if len(chosen):
            of_scores = sums_with(periods, tables, models[chosen], rows[chosen], coming[chosen], count)
            if sums is not None:
                sums[chosen] = of_scores
            _put_losses(values, chosen, of_scores, layout == NUMBERS)
    if layout == RIGHT_WRONG:
        _put_right(values, cells[:, 0, 0], cells[:, 0, 1])
    elif layout != NUMBERS:
        own = _of_matrices(catalog, tables, models, cells)
        _put(values, np.arange(len(rows)), _MATRIX_COLUMNS, own)
    [chosen] = np.nonzero(of_models.ranked[models])
    if len(chosen) and layout == TWO:
        of_ranks, positive = ranks_with(
            catalog, periods, tables, models[chosen], rows[chosen], group, places[chosen]
        )
        if histograms is not None:
            histograms[chosen] = of_ranks
        _put_ranks(values, chosen, of_ranks, positive)
    elif len(chosen):
        values.reasons[np.ix_(chosen, _RANK_COLUMNS)] = _TOO_MANY_CLASSES
    return values


def _put_ranks(into: PeriodValues, rows: Ints, histograms: Floats, positive: Ints) -> None:
    """Put the measures of ranks of these rows, from histograms, (n, `SCORE_WIDTH`), and positive classes."""
    own = _new(len(rows), declaration.NO_POSITIVE_CLASS)
    own.reasons[positive != NO_POSITIVE] = _NO_PROBABILITIES
    rank_bins(histograms, positive, np.ones(len(rows), dtype=np.uint8), *own)
    _put(into, rows, _RANK_COLUMNS, own)


def ranks_with(
    catalog: Catalog, periods: PeriodTables, tables: ExpectedTables, models: Ints, rows: Ints, group: Group,
    places: Ints,
) -> tuple[Floats, Ints]:  # fmt: skip
    """Expected histograms of scores, (n, `SCORE_WIDTH`), and the codes of the positive classes, (n,).

    The models have two classes, and their ranks are estimated. Parameters are as in `expected`.
    """
    entities, of_models, cells = catalog.columns.entities, tables.models, group.look.cells[places]
    positives = positives_by_owner(catalog, entities.stream[models].astype(np.int32))
    capacity = max(catalog.plans[plan].capacity for plan in entities.plan[models].tolist())
    positive = np.empty(len(models), dtype=np.int64)
    codes, classes = of_models.codes[models], of_models.classes[models]
    put_positives(cells, codes, classes, positives, np.empty(capacity), positive)
    blocks, coming = group.blocks[places], group.look.coming[places]
    return expected_histograms(periods, tables, OpenRanks(models, rows, blocks, coming, positive)), positive


def _put_right(into: PeriodValues, wrong: Floats, right: Floats) -> None:
    """Put measures of models for which only right and wrong are distinguished, from expected numbers."""
    share = right / (wrong + right)
    into.reasons[:, _MATRIX_COLUMNS] = _TOO_MANY_CLASSES
    for name, value in (("accuracy", share), ("error", 1.0 - share)):
        into.values[:, INDEX[name]], into.reasons[:, INDEX[name]] = value, DEFINED


def _put_losses(into: PeriodValues, rows: Ints, sums: Floats, numbers: bool) -> None:
    """Put the mean losses of these rows, from their sums of scores (n, `SIZE`)."""
    own = _new(len(rows))
    if numbers:
        summed = np.zeros((len(sums), scores.SPREAD + 1))
        summed[:, : scores.SIZE] = sums
        nobody = _NOBODY._replace(owner=np.zeros(len(sums), dtype=np.int32))
        measure_joint(np.zeros((len(sums), 0)), nobody, own, numbers=True, summed=summed)
    else:
        scored = sums[:, scores.SCORED] > 0.0
        for name, column in _SCORE_COLUMNS.items():
            np.divide(sums[:, _LOSSES[name]], sums[:, scores.SCORED], out=own.values[:, column], where=scored)
            own.reasons[:, column] = np.where(scored, DEFINED, _NO_PROBABILITIES)
    _put(into, rows, _LOSS_COLUMNS[numbers], own)


def _of_matrices(catalog: Catalog, tables: ExpectedTables, models: Ints, cells: Floats) -> PeriodValues:
    """Measures of expected confusion matrices (n, J, K) by places of classes."""
    entities, of_models = catalog.columns.entities, tables.models
    streams = entities.stream[models].astype(np.int32)

    def measure(capacity: int, chosen: Ints, into: PeriodValues) -> None:
        codes, classes = of_models.codes[models[chosen]], of_models.classes[models[chosen]]
        positives = positives_by_owner(catalog, streams[chosen])
        for block in _blocks(len(chosen), 4 * capacity * capacity):
            joint = joint_of(cells[chosen[block]], codes[block], classes[block], capacity)
            of_block = PeriodValues(into.values[block], into.reasons[block])
            own = positives._replace(owner=positives.owner[block])
            measure_joint(joint, own, of_block, whole=False)

    capacities = [catalog.plans[plan].capacity for plan in entities.plan[models].tolist()]
    return _by_kind(np.array(capacities), measure)


def joint_of(cells: Floats, codes: Ints32, classes: Ints32, capacity: int) -> Floats:
    """Joint cells, (n, 4·k²), of expected matrices, (n, J, K) by places of classes, whose codes are given."""
    _, predicted, labels = cells.shape
    joint = np.zeros((len(cells), 4 * capacity * capacity))
    is_class = np.arange(max(predicted, labels)) < classes[:, None]
    i, j, k = np.nonzero(is_class[:, :predicted, None] & is_class[:, None, :labels])
    pairs = codes[i, k].astype(np.int64) * capacity + codes[i, j]
    joint[i, pairs * 4] = cells[i, j, k]  # see `cell_of`: they count for no baseline
    return joint


def sums_with(
    periods: PeriodTables, tables: ExpectedTables, models: Ints, rows: Ints, coming: Floats, count: int
) -> Floats:
    """Sums of scores, (n, `SIZE`): of the labels so far, and of expected labels by their strata."""
    numbers = int(tables.models.layout[models[0]]) == NUMBERS
    sums = np.ascontiguousarray(read_sums(periods, rows)[:, : scores.SIZE])
    columns = np.array(_PLACES[numbers][:count])
    _add_losses(tables.of_models.counts, losses_at(tables.models, models), coming, columns, numbers, sums)
    return sums


@kernel
def _add_losses(
    faded: Floats, starts: Ints, coming: Floats, columns: Ints, numbers: bool, sums: Floats
) -> None:
    """Add the expected labels to sums of scores, (n, `SIZE`)."""
    _, predicted, bins, labels = coming.shape
    # The first bin is that of predictions without probabilities.
    start, width = 0 if numbers else 1, 1 + len(columns)
    for i in range(len(starts)):
        for j in range(predicted):
            for k in range(labels):
                first = starts[i] + (j * bins * labels + k) * width
                _add_stratum(faded, first, labels * width, coming[i, j, :, k], columns, start, sums[i])


@inner
def _add_stratum(
    faded: Floats, first: int, step: int, coming: Floats, columns: Ints, start: int, sums: Floats
) -> None:  # fmt: skip
    """Add the expected labels of one predicted class and label, (bins,), to sums of scores, (`SIZE`,)."""
    bins = len(coming)
    for b in range(start, bins):
        if coming[b] <= 0.0:
            continue
        sums[scores.SCORED] += coming[b]
        for column in range(len(columns)):
            sums[columns[column]] += coming[b] * _mean_loss(faded, first, step, b, column, start, bins)


@inner
def _mean_loss(faded: Floats, first: int, step: int, b: int, column: int, start: int, bins: int) -> float:
    """The mean loss of outcomes of a stratum and label, with one pseudo-outcome of the mean of all bins.

    Sums of a bin begin `step` places after those of the one before.
    """
    count = total = 0.0
    for other_bin in range(start, bins):
        count += faded[first + other_bin * step]
        total += faded[first + other_bin * step + 1 + column]
    mean = total / count if count > 0.0 else 0.0
    return (faded[first + b * step + 1 + column] + mean) / (faded[first + b * step] + 1.0)


def expected_of(
    joint: Floats | None, right: Floats | None, sums: Floats | None, positives: Positives, *,
    numbers: bool, histograms: Floats | None = None,
) -> PeriodValues:  # fmt: skip
    """Estimated measures from totals of periods, a row for each total.

    `joint`: (n, 4·k²) the expected cells of classes; None: the task is regression (`numbers`). `right`:
    (n, 2) the expected numbers of wrong and right predictions, if only these are distinguished. `sums`:
    (n, `SIZE`) of scores; None: there are no mean losses. `positives`: their rows are those of the totals.
    `histograms`: (n, `SCORE_WIDTH`) of scores; None: ranks aren't estimated.
    """
    count = len(positives.owner)
    values, rows = _new(count, _NOT_ESTIMATED), np.arange(count)
    if sums is not None:
        _put_losses(values, rows, sums, numbers)
    if right is not None:
        _put_right(values, right[:, 0], right[:, 1])
    elif joint is not None:
        own = _new(count)
        positive = measure_joint(joint, positives, own)
        _put(values, rows, _MATRIX_COLUMNS, own)
        if histograms is not None:
            _put_ranks(values, rows, histograms, positive)
    if histograms is not None and right is not None:
        values.reasons[:, _RANK_COLUMNS] = _TOO_MANY_CLASSES
    return values


def messages_of(catalog: Catalog, accounts: Accounts, periods: Sequence[PeriodDue]) -> list[Encoded]:
    """The messages about these periods of a catalog's models."""
    models = list(dict.fromkeys(due.model for due in periods))
    if not models:
        return []
    entities = catalog.columns.entities
    counts = dict(zip(models, as_objects(counts_of(catalog, accounts, models))))
    columns = entities.outcomes[models], entities.revisions[models], changes_since(catalog, models)
    moments = dict(zip(models, zip(*(column.tolist() for column in columns))))
    messages = (_message(catalog, due, counts[due.model], moments[due.model]) for due in periods)
    return [Encoded(METRICS, message.stream, encode(message)) for message in messages]


def _message(catalog: Catalog, due: PeriodDue, counts: dict[str, int], moment: tuple[int, ...]) -> Metrics:
    """The message about a period; `moment` has the model's outcomes, its revisions, and changes since."""
    entity, state, forecast = catalog.entity(due.model), due.state, due.forecast
    stream = catalog.streams[entity.stream]
    key = (stream.name, catalog.partition, entity.model, None, PERIOD, state.name)
    return Metrics(
        identity(
            *key, state.predictions, state.labelled, state.revisions, state.corrections, state.status, moment,
            *catalog.loss, *([forecast.maturity] if forecast else []),
        ),
        *key, state.labelled, state.labelled, state.newest_ts, *due.measures, counts, stream.config.digest,
        period=state.as_message(closes=stream.config.label_at_horizon is not None),
        expected=forecast.message if forecast else msgspec.UNSET,
        expected_book=forecast.book if forecast and forecast.book else msgspec.UNSET,
        untimed=catalog.untimed or msgspec.UNSET,
    )  # fmt: skip
