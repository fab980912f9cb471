"""Performance by the time of prediction: how good a model's predictions of a certain hour were.

Estimators follow the time of labels. Here each prediction belongs to the period of its own `ts` (see
`engine.delay.calendars`), and counts when its label comes. A period's message is provisional until
the labelled share of its predictions is as large as expected. Later labels correct the message.

A period is a row of a pool and is found by hashing (model, start). Its joint cells are rows of another pool,
found by hashing (period, cell). Sums of scores are rows of a third table, for periods that have scores.
Histograms of scores are rows of a fourth one, for models whose measures rank outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled import free_blocks
from prequential.engine.compiled import kernel as loops
from prequential.engine.compiled import pool as pools
from prequential.engine.compiled.free_blocks import give_block, has_block, take_block
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, grown, inner, kernel
from prequential.engine.compiled.pool import Pool, find, insert
from prequential.engine.delay import calendars
from prequential.engine.delay.calendars import Calendars, Cells, PeriodSettings
from prequential.engine.tables import scores
from prequential.engine.tables.logs import EXPIRED, LATE, REVISED, UNREVISED, WAITS, Events
from prequential.engine.tables.outcomes import NO_POSITIVE
from prequential.engine.tables.outcomes import SCORED as HAS_SCORE
from prequential.engine.tables.rows import Key, StateTable, of_pool
from prequential.engine.tables.store import NO_CLASS

#: No time is below its negative, or above it.
NEVER = 1 << 62

#: Width of a period's sums: of scores, and of labels for regression.
_WIDTH = scores.SPREAD + 1

#: Columns of a period's state. Some change gives a message, and no state occurs twice.
PREDICTIONS, LABELLED, REVISIONS, CORRECTIONS, FINAL, AT_HORIZON = range(6)
COLUMNS = 6


class PeriodModels(NamedTuple):
    """By model (row)."""

    width: Ints  # of a period, ms; 0: it has no periods
    calendar: Ints32  # by which they begin and end
    final_at: Floats  # a period is final when its labelled share is this much of the expected one
    horizon: Ints  # of labels, ms
    settle: Ints  # how long revisions are recognised, ms
    numbers: Bytes  # whether it predicts numbers
    valued: Bytes  # whether costs depend on a value (stake)
    ranked: Bytes  # whether measures rank outcomes by their scores
    first: Ints32  # row of its newest period, 0: none
    periods: Ints  # how many there are, without those that are dropped
    begin: Ints  # start of the first one that isn't forgotten
    changed: Bytes  # whether one of them changed since the last check of due periods
    next: Ints  # the clock from which all periods must be checked again
    expected: Floats  # the expected share at the last check of all periods, NaN: none


class Periods(NamedTuple):
    """By period: rows of a pool, whose owners are models and whose keys are starts, ms."""

    state: Ints  # (periods, 6): predictions, labelled, revisions, corrections, 1 if final, at the horizon
    reported: Ints  # (periods, 6): the state that was reported last
    is_reported: Bytes
    newest_ts: Ints  # latest label time, ms
    changed: Bytes  # since the last check of due periods
    dropped: Bytes  # it is too old, or of the future with too many others; its counts are freed
    first_cell: Ints32  # 0: none
    cells: Ints32  # how many
    sums: Ints32  # row in `PeriodSums`, 0: none
    ranks: Ints32  # row in `PeriodRanks`, 0: none
    known: Ints32  # its outcomes with a label at which baselines had an earlier label to predict from


class PeriodSums(NamedTuple):
    """Exact sums of scores (see `engine.tables.scores`), and of labels for regression."""

    sums: Floats  # (rows, SPREAD + 1)
    rests: Floats  # (rows, SPREAD + 1, rests)
    next: Ints32  # of a free row: the next one (`compiled.free_blocks`)


class PeriodRanks(NamedTuple):
    """Histograms of the scores of labelled predictions."""

    counts: Ints32  # (rows, SCORE_WIDTH): see `engine.tables.scores`
    next: Ints32  # of a free row: the next one (`compiled.free_blocks`)


class PeriodTables(NamedTuple):
    """The tables of a shard; `sums_used` and `ranks_used` are counters of `compiled.free_blocks`."""

    calendars: Calendars
    models: PeriodModels
    pool: Pool
    periods: Periods
    cell_pool: Pool
    cells: Cells
    sums: PeriodSums
    sums_used: Ints
    ranks: PeriodRanks
    ranks_used: Ints


def new_periods() -> PeriodTables:
    """Empty tables."""
    pool, cell_pool = pools.new_pool(), pools.new_pool()
    rows, rests = len(pool.owner), np.zeros((2, _WIDTH, scores.RESTS_OF_NUMBERS))
    models = loops.zeros(PeriodModels, 0)
    periods = loops.zeros(Periods, rows, state=COLUMNS, reported=COLUMNS)
    sums = loops.zeros(PeriodSums, 2, sums=_WIDTH)._replace(rests=rests)
    cells = loops.zeros(Cells, rows, stakes=0)._replace(rests=np.zeros((rows, 0, scores.RESTS_OF_COSTS)))
    ranks = loops.zeros(PeriodRanks, 1, counts=scores.SCORE_WIDTH)
    return PeriodTables(
        calendars.new_calendars(), models, pool, periods, cell_pool, cells,
        sums, free_blocks.new_counters(), ranks, free_blocks.new_counters(),
    )  # fmt: skip


def leave_out(tables: PeriodTables, models: Ints, places: Sequence[int]) -> None:
    """Clear these places of the sums of all periods of models, (n,) rows."""
    rows = tables.periods.sums[np.isin(tables.pool.owner, models)]
    rows = rows[rows > 0]
    tables.sums.sums[rows[:, None], np.array(places, dtype=np.int64)] = 0.0
    tables.sums.rests[rows[:, None], np.array(places, dtype=np.int64)] = 0.0


def tables(periods: PeriodTables) -> Iterator[StateTable]:
    """What their rows stand for."""
    yield StateTable("periods|calendars.", Key.NONE, periods.calendars)
    yield StateTable("periods|models.", Key.ENTITY, periods.models, links={"first": Key.PERIOD})
    yield from of_pool("periods|pool", Key.PERIOD, Key.ENTITY, periods.pool)
    links = {"first_cell": Key.PERIOD_CELL, "sums": Key.PERIOD_SCORES, "ranks": Key.PERIOD_RANKS}
    yield StateTable("periods|periods.", Key.PERIOD, periods.periods, links=links)
    yield from of_pool("periods|cell_pool", Key.PERIOD_CELL, Key.PERIOD, periods.cell_pool)
    yield StateTable("periods|cells.", Key.PERIOD_CELL, periods.cells)
    yield StateTable("periods|sums.", Key.PERIOD_SCORES, periods.sums, links={"next": Key.PERIOD_SCORES})
    yield StateTable("periods|sums_used", Key.NONE, periods.sums_used)
    yield StateTable("periods|ranks.", Key.PERIOD_RANKS, periods.ranks, links={"next": Key.PERIOD_RANKS})
    yield StateTable("periods|ranks_used", Key.NONE, periods.ranks_used)


def with_model(
    tables: PeriodTables, model: int, settings: PeriodSettings, *, final_at: float, valued: bool = False
) -> tuple[PeriodTables, bool]:
    """The tables with a model (row) that has periods; and whether its earlier ones were kept.

    They are kept unless they had another width, or the clock of another zone. If `valued` changes, stakes are
    counted from now on only. If `ranked` changes, only later periods have histograms.
    """
    width, numbers = settings.width, settings.numbers
    known_calendars, calendar = calendars.with_calendar(tables.calendars, settings.zone, width)
    tables = tables._replace(calendars=known_calendars, models=grown(tables.models, model + 1))
    models, valued = tables.models, valued and not numbers
    if valued:
        tables = tables._replace(cells=calendars.with_stakes(tables.cells))
    if models.valued[model] != valued:
        models.valued[model] = valued
        own = tables.pool.owner[tables.cell_pool.owner] == model
        tables.cells.stakes[own] = 0.0
        tables.cells.rests[own] = 0.0
    kept = (int(models.width[model]), int(models.calendar[model])) == (width, calendar)
    if not kept:
        _forget_all(tables, model)
        models.begin[model] = -NEVER
    models.width[model], models.calendar[model], models.final_at[model] = width, calendar, final_at
    models.horizon[model], models.settle[model] = settings.horizon, settings.settle
    models.numbers[model], models.ranked[model] = numbers, settings.ranked and not numbers
    models.next[model], models.expected[model] = -NEVER, np.nan
    return tables, kept


def update(tables: PeriodTables, events: Events, start: int, stop: int) -> PeriodTables:
    """Follow the events of predictions in rows `start` to `stop` of the log.

    Returns the tables, maybe with more rows.

    >>> from prequential.engine.delay.due_periods import due_of
    >>> from prequential.engine.tables.logs import MET, new_events
    >>> settings = PeriodSettings(width=1_000, horizon=5_000)
    >>> tables, _ = with_model(new_periods(), 0, settings, final_at=0.95)
    >>> events = new_events(4)
    >>> events.kind[:], events.ts[:], events.t1[:] = [WAITS, WAITS, WAITS, MET], [10, 20, 1_010, 10], 500
    >>> tables = update(tables, events, 0, 4)
    >>> model, unknown = np.array([0]), np.array([np.nan])
    >>> [(one.name, one.labelled, one.status) for one in due_of(tables, model, np.array([600]), unknown)[0]]
    [('period:1970-01-01T00:00:00.000Z', 1, 'provisional')]
    >>> later, half = np.array([1_600]), np.array([0.5])
    >>> [(one.labelled_share, one.status) for one in due_of(tables, model, later, half)[0]]
    [(0.5, 'final')]
    """
    while (start := _update(tables, events, start, stop)) < stop:
        pool, cell_pool = pools.with_free_row(tables.pool), pools.with_free_row(tables.cell_pool)
        tables = tables._replace(
            pool=pool, periods=grown(tables.periods, len(pool.owner)),
            cell_pool=cell_pool, cells=grown(tables.cells, len(cell_pool.owner)),
            sums=grown(tables.sums, free_blocks.needed_places(tables.sums_used, 0, 1)),
            ranks=grown(tables.ranks, free_blocks.needed_places(tables.ranks_used, 0, 1)),
        )  # fmt: skip
    return tables


def cells_of(tables: PeriodTables, period: int, capacity: int) -> Floats:
    """Joint counts of a period (row) with capacity for k classes: (4·k²,) float64, see `cell_of`."""
    return read_cells(tables, np.array([period]), capacity)[0]


def read_cells(tables: PeriodTables, periods: Ints, capacity: int) -> Floats:
    """Joint counts of periods (rows), (n, 4·k²) float64, as `cells_of`."""
    of_periods, counts = tables.periods, np.zeros((len(periods), 4 * capacity * capacity))
    first, used = of_periods.first_cell[periods], of_periods.cells[periods]
    calendars.put_counts(tables.cell_pool, tables.cells, first, used, capacity, counts)
    return counts


def stakes_of(tables: PeriodTables, period: int, capacity: int) -> Floats:
    """The stakes of a period (row), by label·k + prediction: (k², 2) float64, as `Cells.stakes`."""
    first, count = int(tables.periods.first_cell[period]), int(tables.periods.cells[period])
    stakes = np.zeros((capacity * capacity, 2))
    rests = np.zeros((capacity * capacity, 1, scores.RESTS_OF_COSTS))
    if tables.cells.stakes.shape[1]:
        calendars.put_stakes(tables.cell_pool, tables.cells, first, count, capacity, stakes, rests)
    return stakes


def sums_of(tables: PeriodTables, period: int) -> Floats | None:
    """The sums of the scores of a period (row): (SPREAD + 1,) float64; None if there are none.

    Those of regression end with the number of labels, their mean in two floats, and Σ(y - ȳ)².
    """
    if not tables.periods.sums[period]:
        return None
    return read_sums(tables, np.array([period]))[0]


def read_sums(tables: PeriodTables, periods: Ints) -> Floats:
    """The sums of periods (rows), (n, SPREAD + 1), as `sums_of`; 0 where a period has none."""
    into = np.zeros((len(periods), _WIDTH))
    _read_sums(tables.sums, tables.periods.sums[periods], into)
    return into


def read_ranks(tables: PeriodTables, periods: Ints) -> Floats:
    """The histograms of the scores of periods (rows), (n, SCORE_WIDTH) float64; 0 where a period has none."""
    histograms: Floats = tables.ranks.counts[tables.periods.ranks[periods]].astype(np.float64)
    return histograms


@kernel
def _read_sums(sums: PeriodSums, rows: Ints32, into: Floats) -> None:
    for i in range(len(rows)):
        if rows[i]:
            scores.read_exactly(sums.sums[rows[i]], sums.rests[rows[i]], into[i])


def _forget_all(tables: PeriodTables, model: int) -> None:
    """Free all of a model's periods."""
    models, periods = tables.models, tables.periods
    for row in np.flatnonzero(tables.pool.owner == model).tolist():
        if not periods.dropped[row]:
            pools.remove_all(tables.cell_pool, int(periods.first_cell[row]))
            free_scores(tables, row)
    pools.remove_all(tables.pool, int(models.first[model]))
    models.first[model] = models.periods[model] = models.changed[model] = 0


def without(tables: PeriodTables, models: Ints) -> PeriodTables:
    """The tables without the periods of these models."""
    for model in models[models < len(tables.models.first)].tolist():
        if tables.models.width[model]:
            _forget_all(tables, model)
            tables.models.width[model] = 0
    return tables


@inner
def free_scores(tables: PeriodTables, row: int) -> None:
    """Free the rows of a period's sums and of its histogram."""
    freed = np.int64(tables.periods.sums[row])
    if freed:
        give_block(tables.sums_used, tables.sums.next, 0, freed)
    freed = np.int64(tables.periods.ranks[row])
    if freed:
        give_block(tables.ranks_used, tables.ranks.next, 0, freed)


# ---- events


@kernel
def _update(tables: PeriodTables, events: Events, start: int, stop: int) -> int:
    """Follow the log; returns the row before which a table must grow, or `stop`."""
    models, pool, periods = tables.models, tables.pool, tables.periods
    for i in range(start, stop):
        model, kind = np.int64(events.model[i]), events.kind[i]
        width = models.width[model]
        if width == 0 or kind == EXPIRED:
            continue
        begin = calendars.start_of(tables.calendars, np.int64(models.calendar[model]), width, events.ts[i])
        if begin < models.begin[model]:
            continue
        if kind == UNREVISED:
            _remove_scores(tables, events, i, model, find(pool, model, begin))
            continue
        if pools.is_full(tables.cell_pool):
            return i
        if not (
            has_block(tables.sums_used, tables.sums.next, 0, 1)
            and has_block(tables.ranks_used, tables.ranks.next, 0, 1)
        ):
            return i
        row = find(pool, model, begin)
        if row == 0:
            row = insert(pool, models.first, model, begin)
            if row == 0:
                return i
            models.periods[model] += 1
            _clear(periods, row)
            if models.ranked[model]:
                _begin_ranks(tables, row)
        elif periods.dropped[row]:
            continue
        periods.changed[row] = 1
        models.changed[model] = 1
        if kind == WAITS or kind == LATE:  # noqa: SIM109 - compiles faster
            periods.state[row, PREDICTIONS] += 1 if kind == WAITS else -1
            periods.state[row, CORRECTIONS] += periods.state[row, FINAL]
        else:
            _count_label(tables, events, i, model, row)
    return stop


@inner
def _begin_ranks(tables: PeriodTables, row: int) -> None:
    """Give a period a row of `ranks`, in which all are 0."""
    ranks = tables.ranks
    own = take_block(tables.ranks_used, ranks.next, 0, 1)
    tables.periods.ranks[row] = own
    for column in range(ranks.counts.shape[1]):
        ranks.counts[own, column] = 0


@inner
def _clear(periods: Periods, row: int) -> None:
    """Begin a period, whose row may have been another's."""
    for column in range(COLUMNS):
        periods.state[row, column] = 0
    periods.newest_ts[row] = -NEVER
    periods.is_reported[row] = 0
    periods.dropped[row] = 0
    periods.first_cell[row] = 0
    periods.cells[row] = 0
    periods.sums[row] = 0
    periods.ranks[row] = 0
    periods.known[row] = 0


@inner
def _remove_scores(tables: PeriodTables, events: Events, i: int, model: int, row: int) -> None:
    """Remove the scores and the stake of an outcome, which a revision follows, from its period."""
    models, periods, cells = tables.models, tables.periods, tables.cells
    if row == 0 or periods.dropped[row]:
        return
    label = np.int64(events.label[i])
    cell = find(tables.cell_pool, row, _cell_key(events, i, label))
    if cell == 0 or cells.counts[cell] == 0:
        return
    if models.valued[model] and events.valued[i]:
        calendars.take_stake(cells, cell, events.stake[i])
    if periods.sums[row]:
        own = np.int64(periods.sums[row])
        _add_scores(tables.sums, own, events, i, label, -1.0, models.numbers[model])
    _count_score(tables, events, i, row, -1)


@inner
def _count_label(tables: PeriodTables, events: Events, i: int, model: int, row: int) -> None:
    """Count a label, or the one that a revision gives, in its period."""
    models, periods, cell_pool, cells = tables.models, tables.periods, tables.cell_pool, tables.cells
    state = periods.state[row]
    if events.kind[i] == REVISED:
        if not _remove_label(tables, events, i, row):
            return
        if events.label[i] == NO_CLASS:  # it was withdrawn, and counts again
            periods.known[row] += events.known[i]
        state[REVISIONS] += 1
        label = np.int64(events.revised[i])
    else:
        state[LABELLED] += 1
        state[AT_HORIZON] += events.at_horizon[i]
        periods.newest_ts[row] = max(periods.newest_ts[row], events.t1[i])
        periods.known[row] += events.known[i]
        label = np.int64(events.label[i])
    state[CORRECTIONS] += state[FINAL]
    if label == NO_CLASS:  # it is withdrawn
        state[LABELLED] -= 1
        state[AT_HORIZON] -= events.at_horizon[i]
        periods.known[row] -= events.known[i]
        return
    cell = find(cell_pool, row, _cell_key(events, i, label))
    if cell == 0:
        cell = insert(cell_pool, periods.first_cell, row, _cell_key(events, i, label))
        periods.cells[row] += 1
        cells.counts[cell] = 0
        if models.valued[model]:
            calendars.clear_stakes(cells, cell)
    cells.counts[cell] += 1
    if models.valued[model] and events.valued[i]:
        calendars.add_stake(cells, cell, events.stake[i])
    if events.scored[i]:
        sums_row = _sums_row(tables, row)
        _add_scores(tables.sums, sums_row, events, i, label, 1.0, models.numbers[model])
    _count_score(tables, events, i, row, 1)


@inner
def _count_score(tables: PeriodTables, events: Events, i: int, row: int, sign: int) -> None:
    """Count an event in its period's histogram, if there is one; `sign` is -1: remove it."""
    own, scored = np.int64(tables.periods.ranks[row]), np.int64(events.scored[i])
    if own == 0 or not scored & HAS_SCORE:
        return
    if scored & NO_POSITIVE:
        place = scores.WITHOUT_POSITIVE
    else:
        place = scores.POSITIVES if events.is_positive[i] else scores.NEGATIVES
        place += scores.score_bin(events.positive[i])
    tables.ranks.counts[own, place] = max(0, tables.ranks.counts[own, place] + sign)


@inner
def _remove_label(tables: PeriodTables, events: Events, i: int, row: int) -> bool:
    """Remove the label before a revision; returns False if it came before the model had periods.

    A withdrawn label counts again.
    """
    state, label = tables.periods.state[row], np.int64(events.label[i])
    if label == NO_CLASS:
        if state[LABELLED] >= state[PREDICTIONS]:
            return False
        state[LABELLED] += 1
        return True
    cell = find(tables.cell_pool, row, _cell_key(events, i, label))
    if cell == 0 or tables.cells.counts[cell] == 0:
        return False
    tables.cells.counts[cell] -= 1
    return True


@inner
def _sums_row(tables: PeriodTables, row: int) -> int:
    """The row of a period's sums; if it has none yet, a free one, in which all are 0."""
    sums = tables.sums
    if tables.periods.sums[row]:
        return np.int64(tables.periods.sums[row])
    own = take_block(tables.sums_used, sums.next, 0, 1)
    tables.periods.sums[row] = own
    for column in range(_WIDTH):
        sums.sums[own, column] = 0.0
        for rest in range(sums.rests.shape[2]):
            sums.rests[own, column, rest] = 0.0
    return own


@inner
def _cell_key(events: Events, i: int, label: int) -> int:
    """The key of an event's cell with a label: also its prediction and its bits (see `calendars`)."""
    return label << 18 | np.int64(events.prediction[i]) << 2 | np.int64(events.bits[i])


@inner
def _add_scores(
    sums: PeriodSums, row: int, events: Events, i: int, label: int, sign: float, numbers: int
) -> None:
    """Add the scores of an event to a row of sums, or remove them if `sign` is -1."""
    own, rests, scored = sums.sums[row], sums.rests[row], np.int64(events.scored[i])
    if not numbers:
        scores.add_probabilities(
            own, rests, sign, scored, label == events.prediction[i], events.log_loss[i], events.brier[i],
            events.confidence[i], events.weight[i], events.width[i],
        )  # fmt: skip
    elif scored & HAS_SCORE:
        scores.add_number(own, rests, sign, scored, scores.numbers_of(events, i))
        scores.add_label(own, rests, sign, events.value[i])
