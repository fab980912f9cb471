"""The account of models' predictions: what waits, since when, and what share gets a label by which age.

Predictions of a model are put together by their `ts` in *cohorts*, steps of 1/128 of the label horizon (at
least 1 ms). The age of a prediction is counted from its `ts`; it meets its label at the age t1 - ts. All
models of a shard share the tables. A cohort is a row of a pool and is found by hashing (model, number).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Bytes, Floats, Ints, Ints32, grown, inner, kernel, of_rows
from prequential.core.compiled.pool import (
    Pool,
    find,
    insert,
    new_pool,
    pool_of,
    remove,
    remove_all,
    with_free_row,
)
from prequential.core.delay.latency import AGES, BOUNDS_MS, position
from prequential.core.tables.events import EXPIRED, LATE, MET, WAITS, Events
from prequential.core.tables.keys import Key, Table, of_pool

#: Cohorts within one horizon, at most about this many.
_COHORTS = 128

#: Steps after which shares are made anew: each time all cohorts are looked at.
_STEPS = 2

#: When shares are made anew cohorts are folded that nothing will happen to any more: in one of so many steps,
#: or where a model has so many of them.
_FOLDED_EACH, _MANY = 16, _COHORTS + _COHORTS // 2

#: With more cohorts than these, clocks have been very wrong.
_MOST = 8 * _COHORTS

#: Columns of a cohort: predictions that wait, all that were made, and, of what is folded, from here on those
#: that met their label, by age (see `BOUNDS_MS`).
_WAITING, _MADE, _MET = range(3)

_AGES = len(BOUNDS_MS) + 1
_SIZE = _MET + _AGES

#: Names of the shares: ages, and the horizon.
AT_HORIZON = "horizon"
SHARES = (*AGES, AT_HORIZON)

#: Which of the shares is that of the horizon.
HORIZON = len(AGES)

#: The step of a clock that nothing was asked at, and the number of no cohort.
_NO_STEP, _NONE = -(1 << 62), 1 << 62


class Models(NamedTuple):
    """By model (row)."""

    waiting: Ints  # predictions that wait
    horizon: Ints  # ms; 0: no such model
    width: Ints  # of a cohort, ms; 0 likewise
    step: Ints  # that the clock was in when `shares` were made
    cohorts: Ints  # how many there are
    first: Ints32  # row of its newest cohort, 0: none
    added: Ints32  # row of the cohort that a prediction was added to last: usually the next one's, too
    met: Ints32  # row of the cohort whose prediction met a label last
    folded: Ints  # (models, _SIZE): the sum of cohorts that nothing will happen to any more
    shares: Floats  # (models, len(SHARES)): NaN where there is none


class Cohorts(NamedTuple):
    """By cohort: rows of the pool, whose owners are models and whose keys are ts // width."""

    counts: Ints  # (cohorts, 2): those that wait, all that were made
    met: Ints  # (cohorts, _AGES): those that met their label; as long as none has, it takes no memory


class Coverage(NamedTuple):
    """The tables of a shard."""

    models: Models
    pool: Pool
    cohorts: Cohorts


def new_coverage() -> Coverage:
    """Empty tables."""
    pool = new_pool()
    types: dict[str, Any] = dict.fromkeys(("first", "added", "met"), np.int32)
    models = {name: np.zeros(0, dtype=types.get(name, np.int64)) for name in Models._fields}
    models["folded"], models["shares"] = np.zeros((0, _SIZE), dtype=np.int64), np.zeros((0, len(SHARES)))
    rows = len(pool.owner)
    cohorts = Cohorts(np.zeros((rows, _MET), dtype=np.int64), np.zeros((rows, _AGES), dtype=np.int64))
    return Coverage(Models(**models), pool, cohorts)


def tables(coverage: Coverage) -> Iterator[Table]:
    """What their rows stand for."""
    links = dict.fromkeys(("first", "added", "met"), Key.COHORT)
    yield Table("coverage|models.", Key.ENTITY, coverage.models, links=links)
    yield from of_pool("coverage|pool", Key.COHORT, Key.ENTITY, coverage.pool)
    yield Table("coverage|cohorts.", Key.COHORT, coverage.cohorts)


def of_snapshot(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot's arrays by the names of `tables`; until format 9 those that met their label were counts."""
    found, counts = dict(arrays), arrays.get("coverage|cohorts.counts")
    if counts is not None and counts.shape[1] == _SIZE:
        found["coverage|cohorts.counts"], found["coverage|cohorts.met"] = counts[:, :_MET], counts[:, _MET:]
    return found


def with_model(coverage: Coverage, model: int, horizon: int) -> Coverage:
    """The tables with a model (row) of this label horizon (ms).

    Where it had another one, its cohorts go to the new steps as a whole.
    """
    models = grown(coverage.models, model + 1)
    coverage = coverage._replace(models=models)
    width = max(1, horizon // _COHORTS)
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
        remove_all(coverage.pool, int(models.first[model]))
        models.first[model] = models.cohorts[model] = 0
        for number, count, met in zip(numbers.tolist(), *former):  # never more of them than before
            row = find(coverage.pool, model, number)
            row = row or _add(models, coverage.pool, coverage.cohorts, model, number)
            coverage.cohorts.counts[row] += count
            coverage.cohorts.met[row] += met
    return coverage


def update(coverage: Coverage, events: Events, start: int, stop: int) -> Coverage:
    """Follow what became of predictions in rows `start` to `stop` of the log.

    Returns the tables, maybe wider.

    >>> from prequential.core.tables.events import new_events
    >>> events = new_events(5)
    >>> events.kind[:], events.ts[:], events.t1[:] = [WAITS, WAITS, WAITS, MET, MET], [0, 1, 2, 0, 1], 50
    >>> events.t1[4] = 1_001
    >>> coverage = update(with_model(new_coverage(), 0, 10_000), events, 0, 5)
    >>> models, clocks = np.array([0]), np.array([5_000])
    >>> int(coverage.models.waiting[0]), oldest(coverage, models, clocks)
    (1, [5000])
    >>> labelled(coverage, models, clocks)
    [{'100ms': 0.3333333333333333, '1s': 0.6666666666666666}]
    """
    while True:
        start = _update(coverage, events, start, stop)
        if start == stop:
            return coverage
        pool = with_free_row(coverage.pool)
        coverage = coverage._replace(pool=pool, cohorts=grown(coverage.cohorts, len(pool.owner)))


def take_out(coverage: Coverage, events: Events, stop: int) -> None:
    """Take waiting predictions out of the account, as if they hadn't been made: rows 0 to `stop` of a log."""
    _take_out(coverage, events, stop)


def labelled(coverage: Coverage, models: Ints, clocks: Ints) -> list[dict[str, float]]:
    """Each model's label maturity curve: by age, the share of predictions that had met their label by then.

    Of all predictions that are at least as old; ages up to the horizon, and the horizon itself as `horizon`.
    Made anew whenever the clock of the model's stream has moved by 1/64 of the horizon, which is state.

    Parameters
    ----------
    coverage
        The tables.
    models, clocks
        (n,) int64: rows of models, and the clock of each one's stream, ms.

    Returns
    -------
    list of dict
        By model: the shares in [0, 1] by names of `SHARES`; one that isn't known is left out.
    """
    return [_named(shares) for shares in _up_to_date(coverage, models, clocks).tolist()]


def shares_at_horizon(coverage: Coverage, models: Ints, clocks: Ints) -> Floats:
    """Of each model the share `horizon` of the same curve, (m,); NaN: it isn't known."""
    return _up_to_date(coverage, models, clocks)[:, HORIZON]


def _up_to_date(coverage: Coverage, models: Ints, clocks: Ints) -> Floats:
    """The models' curves, (m, shares), made anew where they are due."""
    table = coverage.models
    steps = clocks // (_STEPS * table.width[models])
    moved = np.flatnonzero(steps != table.step[models])
    if len(moved):
        table.step[models[moved]] = steps[moved]
        chosen, at, sums = models[moved], clocks[moved], _new_sums(len(moved))
        places = np.full(len(table.width) if _are_most(coverage, chosen) else 0, -1, dtype=np.int64)
        folds = ((steps[moved] + chosen) % _FOLDED_EACH == 0).astype(np.uint8)
        _make_anew(table, coverage.pool, coverage.cohorts, chosen, at, folds, places, sums)
    return table.shares[models]


def _are_most(coverage: Coverage, models: Ints) -> bool:
    """Whether these models' cohorts are worth a look at all rows, one behind the other in memory.

    (The cohorts of one model lie far from each other: each has to be waited for.)
    """
    return 4 * int(coverage.models.cohorts[models].sum()) > len(coverage.pool.owner)


def curve(coverage: Coverage, model: int, clock: int) -> dict[str, float]:
    """A model's label maturity curve at a clock (ms), as in `labelled`; it changes nothing."""
    return curve_of(met_of(coverage, model, clock))


def met_of(coverage: Coverage, model: int, clock: int) -> Ints:
    """What a model's label maturity curve at a clock (ms) is made of; it changes nothing, and adds up.

    Returns
    -------
    ndarray
        (shares, 2) int64, by `SHARES`: predictions that are old enough, and those of them with a label.
    """
    [sums] = _new_sums(1)
    _count_all(coverage.models, coverage.pool, coverage.cohorts, model, clock, sums)
    return sums


def curve_of(met: Ints) -> dict[str, float]:
    """The label maturity curve, as in `labelled`, of what `met_of` gives or a sum of such.

    >>> curve_of(np.array([[4, 1], [4, 3], *[[0, 0]] * 11]))
    {'100ms': 0.25, '1s': 0.75}
    """
    return {name: some / all_ for name, (all_, some) in zip(SHARES, met.tolist()) if all_}


def _named(shares: list[float]) -> dict[str, float]:
    """Shares by their names; those that are NaN aren't there."""
    return {name: share for name, share in zip(SHARES, shares) if share == share}


def oldest(coverage: Coverage, models: Ints, clocks: Ints) -> list[int]:
    """Age of each model's oldest prediction that waits, in ms: at most a step too much; 0 if none waits.

    `models` (rows) and `clocks` (of their streams, ms) are (n,) int64.
    """
    ages, pool = np.zeros(len(models), dtype=np.int64), coverage.pool
    _oldest(
        pool.key, pool.next, coverage.cohorts.counts, coverage.models.first, coverage.models.width, models,
        clocks, ages,
    )  # fmt: skip
    return ages.tolist()


def _new_sums(models: int) -> Ints:
    """Zeros for what is counted of so many models: by share, predictions made, and those with a label."""
    return np.zeros((models, len(SHARES), 2), dtype=np.int64)


def part(coverage: Coverage, models: Ints) -> Coverage:
    """A copy of what is known of these models, for `curve` and `oldest`; nothing can be added to it."""
    table = of_rows(coverage.models, models)
    rows = int(table.cohorts.sum()) + 1
    pool = coverage.pool._replace(
        owner=np.zeros(0, dtype=np.int32),
        key=np.zeros(rows, dtype=np.int64),
        next=np.zeros(rows, dtype=np.int32),
        slots=np.zeros(0, dtype=np.int32),
    )
    cohorts = Cohorts(np.empty((rows, _MET), dtype=np.int64), np.empty((rows, _AGES), dtype=np.int64))
    _copy_lists(coverage.pool, coverage.cohorts, models, table.first, pool.key, pool.next, cohorts)
    return Coverage(table, pool, cohorts)


def forget(coverage: Coverage, models: Iterable[int]) -> Coverage:
    """The tables, with all rows of these models free; what becomes of their predictions is passed over."""
    for model in models:
        remove_all(coverage.pool, int(coverage.models.first[model]))
        for column in coverage.models:
            column[model] = 0
    return coverage


def without(coverage: Coverage, models: Ints) -> Coverage:
    """The tables without these models (rows); the cohorts of the others lie one behind the other."""
    kept = np.setdiff1d(np.arange(len(coverage.models.first)), models)
    table, lists, cohorts = part(coverage, kept)
    table.added[:] = table.met[:] = 0
    rows = len(lists.key)
    owner = np.zeros(rows, dtype=np.int64)
    owner[1:] = np.repeat(kept, table.cohorts[kept])
    pool = pool_of(owner, lists.key, lists.next)
    return Coverage(table, pool, grown(cohorts, len(pool.owner)))


@kernel
def _copy_lists(
    pool: Pool, cohorts: Cohorts, models: Ints, first: Ints32, key: Ints, following: Ints32, copied: Cohorts
) -> None:
    """Copy the cohorts of models, one model's after the other's; `first` of each becomes the copy's."""
    free = 1
    for model in models:
        row = np.int64(first[model])
        first[model] = free if row else 0
        while row:
            key[free] = pool.key[row]
            for column in range(_MET):
                copied.counts[free, column] = cohorts.counts[row, column]
            for age in range(_AGES):
                copied.met[free, age] = cohorts.met[row, age]
            row = np.int64(pool.next[row])
            following[free] = free + 1 if row else 0
            free += 1


@kernel
def _oldest(
    key: Ints, following: Ints32, counts: Ints, first: Ints32, width: Ints, models: Ints, clocks: Ints,
    ages: Ints,
) -> None:  # fmt: skip
    """From the least number of each model's cohorts in which something waits."""
    for i in range(len(models)):
        least, row = _NONE, np.int64(first[models[i]])
        while row:
            if counts[row, _WAITING] > 0:
                least = min(least, key[row])
            row = np.int64(following[row])
        if least != _NONE:
            ages[i] = max(0, clocks[i] - least * width[models[i]])


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
            counts[row, _MADE] += 1
            continue
        models.waiting[model] -= 1
        counts[row, _WAITING] -= 1
        if kind == MET:
            cohorts.met[row, position(BOUNDS_MS, events.t1[i] - ts)] += 1
        elif kind == LATE:  # made after its label: it isn't of those that may get one
            counts[row, _MADE] -= 1
    return stop


@kernel
def _take_out(coverage: Coverage, events: Events, stop: int) -> None:
    """Undo what `_update` does of a prediction that waits."""
    models, pool, counts = coverage.models, coverage.pool, coverage.cohorts.counts
    for i in range(stop):
        model = np.int64(events.model[i])
        row = find(pool, model, events.ts[i] // models.width[model])
        if row:
            models.waiting[model] -= 1
            counts[row, _WAITING] -= 1
            counts[row, _MADE] -= 1


@kernel
def _add(models: Models, pool: Pool, cohorts: Cohorts, model: int, number: int) -> int:
    """An empty cohort of a model; 0 if the pool is full."""
    if models.cohorts[model] > 4 * _COHORTS and models.cohorts[model] % _COHORTS == 0:
        # Nobody has asked for a long time.
        _fold(models, pool, cohorts, model, number * models.width[model] - models.horizon[model])
    row = insert(pool, models.first, model, number)
    if row:
        models.cohorts[model] += 1
        for column in range(_MET):
            cohorts.counts[row, column] = 0
        for age in range(_AGES):
            if cohorts.met[row, age]:  # what is written to takes memory
                cohorts.met[row, age] = 0
    return row


@inner
def _fold(models: Models, pool: Pool, cohorts: Cohorts, model: int, clock: int) -> None:
    """Add up cohorts in which nothing happens any more, so that their number is bounded.

    That is those older than the horizon, and, if there are very many, those of times to come.
    """
    first = (clock - models.horizon[model]) // models.width[model] - 1
    last = clock // models.width[model]
    many = models.cohorts[model] > _MOST
    row, previous = np.int64(models.first[model]), np.int64(0)
    while row:
        number = pool.key[row]
        if (number < first or (many and number > last)) and cohorts.counts[row, _WAITING] == 0:
            for column in range(_MET):
                models.folded[model, column] += cohorts.counts[row, column]
            for age in range(_AGES):
                models.folded[model, _MET + age] += cohorts.met[row, age]
            models.cohorts[model] -= 1
            row = remove(pool, models.first, model, previous, row)
        else:
            previous = row
            row = np.int64(pool.next[row])


@kernel
def _make_anew(
    models: Models, pool: Pool, cohorts: Cohorts, which: Ints, clocks: Ints, folds: Bytes,
    places: Ints, sums: Ints,
) -> None:  # fmt: skip
    """Make the shares of these models anew, at these clocks; fold cohorts of those that `folds` says.

    One model after the other, or, where `places` (by model, all -1) has rows, all in one pass over the
    cohorts. `sums`: `_new_sums` of these models.
    """
    for i in range(len(which)):
        if folds[i] or models.cohorts[which[i]] > _MANY:
            _fold(models, pool, cohorts, which[i], clocks[i])
    if len(places):
        for i in range(len(which)):
            places[which[i]] = i
            _count_folded(models, which[i], sums[i])
        for row in range(1, len(pool.owner)):
            model = np.int64(pool.owner[row])
            if model >= 0 and places[model] >= 0:
                i = places[model]
                _count_row(models, pool, cohorts, model, row, clocks[i], sums[i])
    else:
        for i in range(len(which)):
            _count_all(models, pool, cohorts, which[i], clocks[i], sums[i])
    for i in range(len(which)):
        for age in range(len(SHARES)):
            made = sums[i, age, 0]
            models.shares[which[i], age] = sums[i, age, 1] / made if made else np.nan


@kernel
def _count_all(models: Models, pool: Pool, cohorts: Cohorts, model: int, clock: int, sums: Ints) -> None:
    """Count all of a model at this time, for the ages of `SHARES`; `sums` are zeros."""
    _count_folded(models, model, sums)
    row = np.int64(models.first[model])
    while row:
        _count_row(models, pool, cohorts, model, row, clock, sums)
        row = np.int64(pool.next[row])


@inner
def _count_folded(models: Models, model: int, sums: Ints) -> None:
    """Count what is folded of a model."""
    folded = models.folded[model]
    _count(sums, folded[_MADE], folded[_MET:], models.horizon[model], _NONE)


@inner
def _count_row(
    models: Models, pool: Pool, cohorts: Cohorts, model: int, row: int, clock: int, sums: Ints
) -> None:
    """Count a cohort of a model."""
    least = clock - (pool.key[row] + 1) * models.width[model]
    _count(sums, cohorts.counts[row, _MADE], cohorts.met[row], models.horizon[model], least)


@inner
def _count(sums: Ints, made: int, met_by_age: Ints, horizon: int, least: int) -> None:
    """Count a cohort, all of it at least so many ms old, for the ages that it has and for the horizon."""
    met = np.int64(0)
    for age in range(HORIZON):
        if BOUNDS_MS[age] > least or BOUNDS_MS[age] >= horizon:
            break
        met += met_by_age[age]
        sums[age, 0] += made
        sums[age, 1] += met
    if horizon <= least:
        sums[HORIZON, 0] += made
        for age in range(len(met_by_age)):
            sums[HORIZON, 1] += met_by_age[age]
