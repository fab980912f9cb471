"""The label maturity curve: by age, the share of a model's predictions that had met their label by then."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner, kernel
from prequential.engine.compiled.pool import Pool
from prequential.engine.delay import coverage as coverages
from prequential.engine.delay.coverage import HORIZON, SHARES, Cohorts, Coverage, CoverageModels
from prequential.engine.delay.latency import BOUNDS_MS

#: Steps after which shares are computed again, from all cohorts.
_STEPS = 2

#: In one of `_FOLDED_EACH` steps, or if a model has more than `_MANY` cohorts, computing its shares first
#: folds the cohorts that will not change any more.
_FOLDED_EACH, _MANY = 16, coverages.COHORTS + coverages.COHORTS // 2


def labelled(coverage: Coverage, models: Ints, clocks: Ints) -> list[dict[str, float]]:
    """Each model's label maturity curve: by age, the share of predictions that had met their label by then.

    Each share, in [0, 1], is among all predictions that are at least that old; one that isn't known is left
    out. Ages go up to the horizon, which is the share `horizon`. A curve is computed again when the clock
    (ms) of the model's stream has moved by 1/64 of the horizon. Curves are state.
    """
    shares_of_models = update(coverage, models, clocks).tolist()
    return [
        {name: share for name, share in zip(SHARES, shares) if share == share} for shares in shares_of_models
    ]


def shares_at_horizon(coverage: Coverage, models: Ints, clocks: Ints) -> Floats:
    """The share `horizon` of each model's curve (see `labelled`), (m,); NaN: it isn't known."""
    return update(coverage, models, clocks)[:, HORIZON]


def update(coverage: Coverage, models: Ints, clocks: Ints) -> Floats:
    """The models' curves, (m, shares); those that are due are computed again."""
    table = coverage.models
    steps = clocks // (_STEPS * table.width[models])
    moved = np.flatnonzero(steps != table.step[models])
    if len(moved):
        table.step[models[moved]] = steps[moved]
        chosen, times, sums = models[moved], clocks[moved], _new_sums(len(moved))
        places = np.full(len(table.width) if _are_most(coverage, chosen) else 0, -1, dtype=np.int64)
        folds = ((steps[moved] + chosen) % _FOLDED_EACH == 0).astype(np.uint8)
        _make_anew(table, coverage.pool, coverage.cohorts, chosen, times, folds, places, sums)
    return table.shares[models]


def _are_most(coverage: Coverage, models: Ints) -> bool:
    """Whether these models have so many cohorts that one pass over all rows of the pool is faster.

    (The cohorts of one model are far apart in memory, so reading them one by one is slow.)
    """
    return 4 * int(coverage.models.cohorts[models].sum()) > len(coverage.pool.owner)


def curves(coverage: Coverage, models: Ints, clocks: Ints) -> list[dict[str, float]]:
    """The models' label maturity curves at these clocks, as in `labelled`; changes no state."""
    return list(map(curve_of, met_of(coverage, models, clocks)))


def met_of(coverage: Coverage, models: Ints, clocks: Ints) -> Ints:
    """The counts behind models' label maturity curves at these clocks (ms); changes no state.

    They are additive: (models, shares, 2) int64, by `SHARES`, of predictions that are old enough, and of
    those of them with a label.
    """
    sums = _new_sums(len(models))
    _count_each(coverage.models, coverage.pool, coverage.cohorts, models, clocks, sums)
    return sums


def curve_of(met: Ints) -> dict[str, float]:
    """The label maturity curve, as in `labelled`, from a model's counts by `met_of`, or a sum of such counts.

    >>> curve_of(np.array([[4, 1], [4, 3], *[[0, 0]] * 11]))
    {'100ms': 0.25, '1s': 0.75}
    """
    return {
        name: with_label / predictions
        for name, (predictions, with_label) in zip(SHARES, met.tolist())
        if predictions
    }


def _new_sums(models: int) -> Ints:
    """Zeros for the counts of models: by share, predictions made, and those with a label."""
    return np.zeros((models, len(SHARES), 2), dtype=np.int64)


@kernel
def _make_anew(
    models: CoverageModels, pool: Pool, cohorts: Cohorts, chosen: Ints, clocks: Ints, folds: Bytes,
    places: Ints, sums: Ints,
) -> None:  # fmt: skip
    """Compute the shares of these models again, at these clocks; fold cohorts of models with `folds`.

    The models are read one after the other or, if `places` (by model, all -1) has rows, in one pass over all
    cohorts. `sums`: `_new_sums` of these models.
    """
    for i in range(len(chosen)):
        if folds[i] or models.cohorts[chosen[i]] > _MANY:
            coverages.fold(models, pool, cohorts, chosen[i], clocks[i])
    if len(places):
        for i in range(len(chosen)):
            places[chosen[i]] = i
            _count_folded(models, chosen[i], sums[i])
        for row in range(1, len(pool.owner)):
            model = np.int64(pool.owner[row])
            if model >= 0 and places[model] >= 0:
                i = places[model]
                _count_row(models, pool, cohorts, model, row, clocks[i], sums[i])
    else:
        _count_each(models, pool, cohorts, chosen, clocks, sums)
    for i in range(len(chosen)):
        for age in range(len(SHARES)):
            predictions = sums[i, age, 0]
            models.shares[chosen[i], age] = sums[i, age, 1] / predictions if predictions else np.nan


@kernel
def _count_each(
    models: CoverageModels, pool: Pool, cohorts: Cohorts, chosen: Ints, clocks: Ints, sums: Ints
) -> None:
    """Count all cohorts of these models at these clocks, for the ages of `SHARES`; `sums` are zeros."""
    for i in range(len(chosen)):
        _count_folded(models, chosen[i], sums[i])
        row = np.int64(models.first[chosen[i]])
        while row:
            _count_row(models, pool, cohorts, chosen[i], row, clocks[i], sums[i])
            row = np.int64(pool.next[row])


@inner
def _count_folded(models: CoverageModels, model: int, sums: Ints) -> None:
    """Count the folded cohorts of a model."""
    folded, horizon = models.folded[model], models.horizon[model]
    _count(sums, folded[coverages.MADE], folded[coverages.MET_AT :], horizon, coverages.NO_COHORT)


@inner
def _count_row(
    models: CoverageModels, pool: Pool, cohorts: Cohorts, model: int, row: int, clock: int, sums: Ints
) -> None:
    """Count a cohort of a model."""
    least = clock - (pool.key[row] + 1) * models.width[model]
    _count(sums, cohorts.counts[row, coverages.MADE], cohorts.met[row], models.horizon[model], least)


@inner
def _count(sums: Ints, predictions: int, met_by_age: Ints, horizon: int, least: int) -> None:
    """Count a cohort, at least `least` ms old, for the ages up to that and for the horizon."""
    met = np.int64(0)
    for age in range(HORIZON):
        if BOUNDS_MS[age] > least or BOUNDS_MS[age] >= horizon:
            break
        met += met_by_age[age]
        sums[age, 0] += predictions
        sums[age, 1] += met
    if horizon <= least:
        sums[HORIZON, 0] += predictions
        for age in range(len(met_by_age)):
            sums[HORIZON, 1] += met_by_age[age]
