"""The account of models' predictions: which are pending, since when, and their label coverage by age.

Predictions of a model are grouped by their `ts` into *cohorts*, intervals of 1/128 of the label horizon (at
least 1 ms). A prediction's age is counted from its `ts`; the prediction meets its label at the age t1 - ts.
All models of a shard share the tables. A cohort is a row of a pool and is found by hashing (model, number).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled import pool as pools
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, grown, inner, kernel, of_rows, zeros
from prequential.engine.compiled.pool import Pool, find
from prequential.engine.delay.latency import AGES, BOUNDS_MS, position
from prequential.engine.tables.logs import EXPIRED, LATE, MET, WAITS, Events
from prequential.engine.tables.rows import Key, StateTable, of_pool

#: Cohorts within one horizon, at most about this many.
COHORTS = 128

#: With more cohorts than this, timestamps have been far off.
_MOST = 8 * COHORTS

#: Columns of a cohort: pending predictions, and all predictions. Folded cohorts also have, from `MET_AT` on,
#: the predictions that met their label, by age (see `BOUNDS_MS`).
_WAITING, MADE, MET_AT = range(3)

_AGES = len(BOUNDS_MS) + 1
_SIZE = MET_AT + _AGES

#: Names of the shares: ages, and the horizon.
AT_HORIZON = "horizon"
SHARES = (*AGES, AT_HORIZON)

#: Which of the shares is that of the horizon.
HORIZON = len(AGES)

#: The step of a model without shares yet, and the number of no cohort.
_NO_STEP, NO_COHORT = -(1 << 62), 1 << 62


class CoverageModels(NamedTuple):
    """By model (row)."""

    waiting: Ints  # pending predictions
    horizon: Ints  # ms; 0: no such model
    width: Ints  # of a cohort, ms; 0: no such model
    step: Ints  # that the clock was in when `shares` were made
    cohorts: Ints  # how many there are
    first: Ints32  # row of its newest cohort, 0: none
    added: Ints32  # row of the cohort that last got a prediction: the next one is usually in it
    met: Ints32  # row of the cohort whose prediction met a label last
    folded: Ints  # (models, _SIZE): the sum of cohorts that will not change any more
    shares: Floats  # (models, len(SHARES)): NaN: there is none


class Cohorts(NamedTuple):
    """By cohort: rows of the pool, whose owners are models and whose keys are ts // width."""

    counts: Ints  # (cohorts, 2): pending predictions, all predictions
    met: Ints  # (cohorts, _AGES): predictions that met their label; takes no memory while there are none


class Coverage(NamedTuple):
    """The tables of a shard."""

    models: CoverageModels
    pool: Pool
    cohorts: Cohorts


def new_coverage() -> Coverage:
    """Empty tables."""
    pool = pools.new_pool()
    models = zeros(CoverageModels, 0, folded=_SIZE, shares=len(SHARES))
    return Coverage(models, pool, zeros(Cohorts, len(pool.owner), counts=MET_AT, met=_AGES))


def tables(coverage: Coverage) -> Iterator[StateTable]:
    """What their rows stand for."""
    links = dict.fromkeys(("first", "added", "met"), Key.COHORT)
    yield StateTable("coverage|models.", Key.ENTITY, coverage.models, links=links)
    yield from of_pool("coverage|pool", Key.COHORT, Key.ENTITY, coverage.pool)
    yield StateTable("coverage|cohorts.", Key.COHORT, coverage.cohorts)


def with_model(coverage: Coverage, model: int, horizon: int) -> Coverage:
    """The tables with a model (row) of this label horizon (ms).

    If the model had another horizon, each of its cohorts goes as a whole to one of the new cohorts.
    """
    models = grown(coverage.models, model + 1)
    coverage = coverage._replace(models=models)
    width = max(1, horizon // COHORTS)
    if not models.horizon[model]:
        models.step[model], models.shares[model] = _NO_STEP, np.nan
    before = int(models.width[model])
    models.horizon[model], models.width[model] = horizon, width
    if before not in (0, width):
        models.step[model] = _NO_STEP
        rows = np.flatnonzero(coverage.pool.owner == model)
        rows = rows[np.argsort(coverage.pool.key[rows])]
        numbers = coverage.pool.key[rows] * before // width
        former = [column[rows] for column in coverage.cohorts]
        pools.remove_all(coverage.pool, int(models.first[model]))
        models.first[model] = models.cohorts[model] = 0
        for number, count, met in zip(numbers.tolist(), *former):  # never more of them than before
            row = find(coverage.pool, model, number)
            row = row or _add(models, coverage.pool, coverage.cohorts, model, number)
            coverage.cohorts.counts[row] += count
            coverage.cohorts.met[row] += met
    return coverage


def with_models(coverage: Coverage, rows: Sequence[int], horizon: int) -> Coverage:
    """As `with_model`, for several models of one horizon."""
    coverage = coverage._replace(models=grown(coverage.models, max(rows) + 1))
    models, chosen, width = coverage.models, np.array(rows), max(1, horizon // COHORTS)
    new, other = chosen[models.width[chosen] == 0], ~np.isin(models.width[chosen], (0, width))
    models.step[new], models.shares[new] = _NO_STEP, np.nan
    for row in chosen[other].tolist():
        coverage = with_model(coverage, row, horizon)
    models.horizon[chosen], models.width[chosen] = horizon, width
    return coverage


def update(coverage: Coverage, events: Events, start: int, stop: int) -> Coverage:
    """Follow the events of predictions in rows `start` to `stop` of the log.

    Returns the tables, maybe with more rows.

    >>> from prequential.engine.tables.logs import new_events
    >>> events = new_events(5)
    >>> events.kind[:], events.ts[:], events.t1[:] = [WAITS, WAITS, WAITS, MET, MET], [0, 1, 2, 0, 1], 50
    >>> events.t1[4] = 1_001
    >>> coverage = update(with_model(new_coverage(), 0, 10_000), events, 0, 5)
    >>> models, clocks = np.array([0]), np.array([5_000])
    >>> int(coverage.models.waiting[0]), oldest(coverage, models, clocks)
    (1, [5000])
    """
    while True:
        start = _update(coverage, events, start, stop)
        if start == stop:
            return coverage
        pool = pools.with_free_row(coverage.pool)
        coverage = coverage._replace(pool=pool, cohorts=grown(coverage.cohorts, len(pool.owner)))


def oldest(coverage: Coverage, models: Ints, clocks: Ints) -> list[int]:
    """Age of each model's oldest pending prediction, as `oldest_ages`."""
    return oldest_ages(coverage, models, clocks).tolist()


def oldest_ages(coverage: Coverage, models: Ints, clocks: Ints) -> Ints:
    """Age of each model's oldest pending prediction, in ms, at most a cohort's width too large; 0 if none.

    `models` (rows) and `clocks` (of their streams, ms) are (n,) int64.
    """
    ages = np.zeros(len(models), dtype=np.int64)
    _oldest(coverage, models, clocks, ages)
    return ages


def part(coverage: Coverage, models: Ints) -> Coverage:
    """A copy of the data of these models, for `curves` and `oldest`; you can't add to it."""
    table = of_rows(coverage.models, models)
    rows = int(table.cohorts.sum()) + 1
    pool = coverage.pool._replace(
        owner=np.zeros(0, dtype=np.int32),
        key=np.zeros(rows, dtype=np.int64),
        next=np.zeros(rows, dtype=np.int32),
        slots=np.zeros(0, dtype=np.int32),
    )
    copied = Coverage(table, pool, zeros(Cohorts, rows, counts=MET_AT, met=_AGES))
    _copy_lists(coverage, models, copied)
    return copied


def forget(coverage: Coverage, models: Iterable[int]) -> Coverage:
    """The tables, with all rows of these models free; later events of their predictions are ignored."""
    for model in models:
        pools.remove_all(coverage.pool, int(coverage.models.first[model]))
        for column in coverage.models:
            column[model] = 0
    return coverage


def without(coverage: Coverage, models: Ints) -> Coverage:
    """The tables without these models (rows); the cohorts of the others are contiguous."""
    kept = np.setdiff1d(np.arange(len(coverage.models.first)), models)
    table, lists, cohorts = part(coverage, kept)
    table.added[:] = table.met[:] = 0
    rows = len(lists.key)
    owner = np.zeros(rows, dtype=np.int64)
    owner[1:] = np.repeat(kept, table.cohorts[kept])
    pool = pools.pool_of(owner, lists.key, lists.next)
    return Coverage(table, pool, grown(cohorts, len(pool.owner)))


@kernel
def _copy_lists(coverage: Coverage, models: Ints, copied: Coverage) -> None:
    """Copy the cohorts of models, one model's after the other's; `first` of each becomes the copy's."""
    _, pool, cohorts = coverage
    table, lists, into = copied
    free = 1
    for model in models:
        row = np.int64(table.first[model])
        table.first[model] = free if row else 0
        while row:
            lists.key[free] = pool.key[row]
            for column in range(MET_AT):
                into.counts[free, column] = cohorts.counts[row, column]
            for age in range(_AGES):
                into.met[free, age] = cohorts.met[row, age]
            row = np.int64(pool.next[row])
            lists.next[free] = free + 1 if row else 0
            free += 1


@kernel
def _oldest(coverage: Coverage, models: Ints, clocks: Ints, ages: Ints) -> None:
    """Put the ages, from each model's first cohort that has a pending prediction."""
    table, pool, cohorts = coverage
    for i in range(len(models)):
        least, row = NO_COHORT, np.int64(table.first[models[i]])
        while row:
            if cohorts.counts[row, _WAITING] > 0:
                least = min(least, pool.key[row])
            row = np.int64(pool.next[row])
        if least != NO_COHORT:
            ages[i] = max(0, clocks[i] - least * table.width[models[i]])


@kernel
def _update(coverage: Coverage, events: Events, start: int, stop: int) -> int:
    """Follow the log; returns the row before which the pool must grow, or `stop`."""
    models, pool, cohorts = coverage.models, coverage.pool, coverage.cohorts
    counts = cohorts.counts
    for i in range(start, stop):
        kind = events.kind[i]
        if kind > EXPIRED:
            continue
        model, ts = np.int64(events.model[i]), events.ts[i]
        if models.width[model] == 0:
            continue
        number = ts // models.width[model]
        row = np.int64(models.added[model] if kind == WAITS else models.met[model])
        if pool.owner[row] != model or pool.key[row] != number:
            row = find(pool, model, number)
            if row == 0:
                row = _add(models, pool, cohorts, model, number)
            if row == 0:
                return i
            if kind == WAITS:
                models.added[model] = row
            else:
                models.met[model] = row
        if kind == WAITS:
            models.waiting[model] += 1
            counts[row, _WAITING] += 1
            counts[row, MADE] += 1
            continue
        models.waiting[model] -= 1
        counts[row, _WAITING] -= 1
        if kind == MET:
            cohorts.met[row, position(BOUNDS_MS, events.t1[i] - ts)] += 1
        elif kind == LATE:  # made after its label: it doesn't count as a prediction
            counts[row, MADE] -= 1
    return stop


@kernel
def take_out(coverage: Coverage, events: Events, stop: int) -> None:
    """Remove pending predictions from the account, as if they hadn't been made: rows 0 to `stop` of a log."""
    models, pool, counts = coverage.models, coverage.pool, coverage.cohorts.counts
    for i in range(stop):
        model = np.int64(events.model[i])
        row = find(pool, model, events.ts[i] // models.width[model])
        if row:
            models.waiting[model] -= 1
            counts[row, _WAITING] -= 1
            counts[row, MADE] -= 1


@kernel
def _add(models: CoverageModels, pool: Pool, cohorts: Cohorts, model: int, number: int) -> int:
    """Add an empty cohort to a model; returns its row, or 0 if the pool is full."""
    if models.cohorts[model] > 4 * COHORTS and models.cohorts[model] % COHORTS == 0:
        # No curve has been asked for in a long time, and only that folds cohorts.
        fold(models, pool, cohorts, model, number * models.width[model] - models.horizon[model])
    row = pools.insert(pool, models.first, model, number)
    if row:
        models.cohorts[model] += 1
        for column in range(MET_AT):
            cohorts.counts[row, column] = 0
        for age in range(_AGES):
            if cohorts.met[row, age]:  # written memory takes space, so leave zeros alone
                cohorts.met[row, age] = 0
    return row


@inner
def fold(models: CoverageModels, pool: Pool, cohorts: Cohorts, model: int, clock: int) -> None:
    """Add up cohorts that will not change any more, so that their number is bounded.

    These are the cohorts older than the horizon. If there are very many cohorts, those of the future are also
    added up.
    """
    first = (clock - models.horizon[model]) // models.width[model] - 1
    last = clock // models.width[model]
    overfull = models.cohorts[model] > _MOST
    row, previous = np.int64(models.first[model]), np.int64(0)
    while row:
        number = pool.key[row]
        if (number < first or (overfull and number > last)) and cohorts.counts[row, _WAITING] == 0:
            for column in range(MET_AT):
                models.folded[model, column] += cohorts.counts[row, column]
            for age in range(_AGES):
                models.folded[model, MET_AT + age] += cohorts.met[row, age]
            models.cohorts[model] -= 1
            row = pools.remove(pool, models.first, model, previous, row)
        else:
            previous = row
            row = np.int64(pool.next[row])
