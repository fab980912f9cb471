"""The expected confusion matrix of a period once all labels are there.

Calibration estimates it from the labels of similar predictions (CBPE is this term alone). The labels of the
period, those that have come and those that have not, correct the estimate: see `censoring`. The correction
follows a level that moves from period to period: see `levels`. With sampled labels: see `sampled`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, named
from prequential.engine.delay import calibrating, censoring, expected, levels, paces, sampled
from prequential.engine.delay.calibrating import ModelCounters, OpenPeriods, PeriodEstimates, PeriodLook
from prequential.engine.delay.censoring import INFORMATION, PRIOR, TILT, WIDTH
from prequential.engine.delay.expected import LEVEL, SLOTS, ExpectedModels, ExpectedTables
from prequential.engine.delay.following import places_of_model, places_of_period
from prequential.engine.delay.levels import DRIFT, MEAN, SPREAD, VARIANCE
from prequential.engine.delay.records import maturity_of

#: With fewer labels there is no deviation from calibration.
FEW = 5.0


class _Together(NamedTuple):
    """Models with the same layout, for one loop: see `ModelCounters`."""

    starts: Ints
    levels: Ints
    squares: Ints
    horizon: Ints
    clock: Ints
    since: Ints
    outcomes: Ints
    closes: Bytes
    last: Ints
    ends: Ints  # after the last period of each


class Group(NamedTuple):
    """Estimates of the periods of models with the same layout."""

    places: Ints  # of the models among all requested models
    rows: Ints  # places of their periods among all requested periods …
    ends: Ints  # … and the cumulative number of them by model
    look: PeriodEstimates  # the estimates of these periods
    blocks: Ints  # first places of these periods' counters


def look_together(
    tables: ExpectedTables, model_rows: Ints, rows: Ints32, ends: Ints, clocks: Ints, *, closing: bool = False
) -> list[Group]:
    """Estimate periods of models: returns groups, and each of the models is in one of them.

    Parameters
    ----------
    tables
        The tables.
    whose, clocks
        (m,) rows of models, each of them once, and the clock of each one's stream, ms.
    rows, ends
        Rows of their periods, model by model and in order of time, and the cumulative number of rows by
        model.
    closing
        Whether these periods are final; then the levels of the correction learn from them.
    """
    models = tables.models
    alike = np.stack((models.layout[model_rows], models.bins[model_rows], models.sampled[model_rows]), axis=1)
    counts, kind_of_model = np.diff(ends, prepend=0), np.zeros(len(model_rows), dtype=np.int64)
    kinds = np.unique(alike, axis=0)
    for number, kind in enumerate(kinds):
        kind_of_model[(alike == kind).all(axis=1)] = number
    groups = []
    for number in range(len(kinds)):
        places, own = (
            np.flatnonzero(kind_of_model == number),
            np.flatnonzero(np.repeat(kind_of_model, counts) == number),
        )
        up_to = np.cumsum(counts[places])
        estimates = _look_at(tables, model_rows[places], rows[own], up_to, clocks[places], closing)
        groups.append(Group(places, own, up_to, estimates, tables.periods.block[rows[own]]))
    return groups


def _look_at(
    tables: ExpectedTables, model_rows: Ints, rows: Ints32, ends: Ints, clocks: Ints, closing: bool
) -> PeriodEstimates:
    """Estimate the periods of models with the same layout."""
    models, n = tables.models, len(rows)
    shape = expected.shape_of(models, int(model_rows[0]))
    j, k, b, is_sampled = shape.predicted, shape.labels, shape.bins, shape.sampled
    result = PeriodEstimates(np.zeros((n, j, k)), np.zeros((n, calibrating.COLUMNS)), np.zeros((n, j, b, k)))
    blocks: Any = models.block[model_rows]
    places: Any = places_of_model(blocks, j, k, b)  # by model
    together = _Together(
        blocks, places.levels, places.beyond if is_sampled else np.zeros_like(blocks),
        models.horizon[model_rows], clocks, models.since[model_rows], models.outcomes[model_rows],
        (models.at_horizon[model_rows] > 0).astype(np.uint8),
        _last(models, model_rows), ends,
    )  # fmt: skip
    counts = tables.of_periods.counts
    periods = OpenPeriods(
        counts, counts.view(np.float32), tables.periods.block[rows], tables.pool.key[rows],
        expected.ends_of_periods(tables, rows),
    )  # fmt: skip
    scratch = calibrating.new_scratch(j, k, b)
    model_of = np.repeat(np.arange(len(model_rows)), np.diff(ends, prepend=0))
    maturities = maturity_of(clocks[model_of], periods.end, models.horizon[model_rows[model_of]])
    label_paces = np.ones(n) if closing else paces.paces_of(models, model_rows[model_of], maturities)
    look = _look_at_samples if is_sampled else _look_at_labels
    look(tables.of_models.counts, together, closing, periods, label_paces, scratch, result)
    return result


def _last(models: ExpectedModels, model_rows: Ints) -> Ints:
    """The place of the class that is known at the horizon alone; -1: there is none, or it hasn't come yet."""
    present = np.arange(models.codes.shape[1]) < models.classes[model_rows, None]
    matches = present & (models.codes[model_rows] == models.at_horizon[model_rows, None] - 1)
    return np.where(matches.any(axis=1), matches.argmax(axis=1), -1)


@inner
def _expect(look: PeriodLook) -> None:
    """Estimate one period."""
    model, summary, scratch, i = look.model, look.result.summary, look.scratch, look.i
    labelled = _count_labels(look)
    paces.put_evidence(look)
    censoring.trust_arrivals(look, labelled)
    evidence = censoring.has_evidence(look, labelled)
    coming = weight = slope = information = by_chance = by_levels = moved = 0.0
    for j in range(model.predicted):
        censoring.count_rows(look, j)
        _put_priors(look, j)
        steep, here = censoring.fit(look, j, evidence)
        slope += steep
        information += here
        rows = waiting = 0.0
        for b in range(model.bins):
            rows += scratch.strata[0, b]
            waiting += scratch.strata[1, b]
        summary[i, calibrating.WAITING] += waiting
        coming += censoring.spread_waiting(look, j)
        _add_labels(look, j)
        weight += rows * _weight(look, j)
        doubts = _put_doubts(look, j)
        by_chance += doubts.by_chance
        by_levels += doubts.by_levels
        moved += doubts.moved
        _move_levels(look, j)
    n = labelled + coming
    summary[i, calibrating.LABELLED], summary[i, calibrating.EXPECTED] = labelled, n
    if n <= 0.0:
        return
    summary[i, calibrating.WEIGHT] = weight / (labelled + summary[i, calibrating.WAITING])
    least = calibrating.LEAST_VARIANCE
    summary[i, calibrating.SCALE] = math.sqrt((by_chance + by_levels) / (n * n) + least)
    summary[i, calibrating.BY_CHANCE] = by_chance / (n * n)
    summary[i, calibrating.SCALE_OF_LABELS] = math.sqrt((by_chance + moved * moved) / (n * n) + least)
    _put_rarer(look)
    is_known = labelled >= FEW and information > 0.0
    summary[i, calibrating.CONCEPT] = slope / math.sqrt(information) if is_known else math.nan


@inner
def _put_rarer(look: PeriodLook) -> None:
    """Put the expected number of labels of the class with fewest, and how many of these are to come."""
    model, result, i = look.model, look.result, look.i
    fewest = math.inf
    for k in range(model.labels):
        count = coming = 0.0
        for j in range(model.predicted):
            count += result.cells[i, j, k]
            for b in range(model.bins):
                coming += result.coming[i, j, b, k]
        if count < fewest:
            fewest = count
            result.summary[i, calibrating.RARER], result.summary[i, calibrating.RARER_COMING] = count, coming


@inner
def _count_labels(look: PeriodLook) -> float:
    """How many labels of a period have come."""
    model, count = look.model, 0.0
    for cell in range(model.predicted * model.bins * model.labels):
        count += look.whole[look.places.met + cell]
    return count


@inner
def _put_priors(look: PeriodLook, j: int) -> None:
    """Put the prior mean and variance of d by label; the level's variance grows by a step."""
    model, scratch = look.model, look.scratch
    for k in range(model.labels):
        level = model.levels + (j * model.labels + k) * LEVEL
        scratch.variance[j, k] += model.faded[level + DRIFT]
        scratch.tilts[PRIOR, k] = scratch.mean[j, k]
        scratch.tilts[WIDTH, k] = scratch.variance[j, k] + model.faded[level + SPREAD]


@inner
def _add_labels(look: PeriodLook, j: int) -> None:
    """Put the row of class j into the matrix: its labels so far, and those that will come."""
    model, cells = look.model, look.result.cells
    for k in range(model.labels):
        for b in range(model.bins):
            cells[look.i, j, k] += look.whole[look.places.met + (j * model.bins + b) * model.labels + k]
            cells[look.i, j, k] += look.result.coming[look.i, j, b, k]


@inner
def _weight(look: PeriodLook, j: int) -> float:
    """How much of d is from the period's labels rather than from the level, 0 … 1: the mean over labels."""
    model, tilts = look.model, look.scratch.tilts
    if model.labels == 1:
        return 0.0
    right, total = censoring.right_label(model.predicted, model.labels, j), 0.0
    for k in range(model.labels):
        if k != right:
            total += tilts[INFORMATION, k] / (tilts[INFORMATION, k] + 1.0 / tilts[WIDTH, k])
    return total / (model.labels - 1)


class _Doubts(NamedTuple):
    """Of the number of right labels of a class that will come."""

    by_chance: float  # its variance
    by_levels: float  # … if d of the classes differ independently
    moved: float  # its standard deviation by d: these add up over classes if one label gets more frequent


@inner
def _put_doubts(look: PeriodLook, j: int) -> _Doubts:
    """How far the number of right labels of class j that will come may be off."""
    model, tilts, coming, i = look.model, look.scratch.tilts, look.result.coming, look.i
    right = censoring.right_label(model.predicted, model.labels, j)
    by_chance = by_levels = all_moved = 0.0
    for k in range(model.labels):
        if k == right:
            continue
        moved = 0.0
        for b in range(model.bins):
            count = 0.0
            for y in range(model.labels):
                count += coming[i, j, b, y]
            if count > 0.0:
                moved += coming[i, j, b, right] * coming[i, j, b, k] / count
        by_chance += moved  # summed over the others: n·p·(1 - p)
        posterior = 1.0 / (tilts[INFORMATION, k] + 1.0 / tilts[WIDTH, k])
        by_levels += moved * moved * posterior
        all_moved += moved * math.sqrt(posterior)
    return _Doubts(by_chance, by_levels, all_moved)


@inner
def _move_levels(look: PeriodLook, j: int) -> None:
    """Move the levels of class j by the period's d; a final period's are those that are kept."""
    model, scratch = look.model, look.scratch
    right, tilts = censoring.right_label(model.predicted, model.labels, j), scratch.tilts
    for k in range(model.labels):
        if k == right:
            continue
        information, width = tilts[INFORMATION, k], tilts[WIDTH, k]
        off, share = tilts[TILT, k] - tilts[PRIOR, k], scratch.variance[j, k] / width
        level = model.levels + (j * model.labels + k) * LEVEL
        if model.closing and information > levels.LEAST_INFORMATION:
            levels.learn(model.faded, level, tilts[PRIOR, k], off, width, information)
        posterior = 1.0 / (information + 1.0 / width)
        scratch.mean[j, k] += share * off
        scratch.variance[j, k] += share * share * (posterior - width)
        if model.closing:
            model.faded[level + MEAN] = scratch.mean[j, k]
            model.faded[level + VARIANCE] = scratch.variance[j, k]


def _looking(owner: str, expect: Callable[[PeriodLook], None]) -> Any:
    """The loop that looks at periods, with what estimates one of them."""

    def look_at(
        faded: Floats, together: _Together, closing: bool, periods: OpenPeriods, label_paces: Floats,
        scratch: calibrating.CalibrationScratch, result: PeriodEstimates,
    ) -> None:  # fmt: skip
        _, predicted, labels = result.cells.shape
        bins, i = result.coming.shape[2], 0
        for m in range(len(together.ends)):
            if i == together.ends[m]:  # no period: it may have no counters yet
                continue
            model = ModelCounters(
                faded, together.starts[m], together.levels[m], together.squares[m], predicted, labels, bins,
                together.horizon[m], together.clock[m], float(together.clock[m] - together.since[m]),
                float(together.outcomes[m]), closing, together.closes[m] != 0,
                together.last[m],
            )  # fmt: skip
            calibrating.add_up(model, scratch)
            calibrating.calibrate(model, scratch)
            for j in range(predicted):
                for k in range(labels):
                    level = model.levels + (j * labels + k) * LEVEL
                    scratch.mean[j, k], scratch.variance[j, k] = faded[level + MEAN], faded[level + VARIANCE]
            while i < together.ends[m]:
                age, length = model.clock - periods.start[i], periods.end[i] - periods.start[i]
                for slot in range(SLOTS):
                    newest = max(0.0, float(age - length * (slot + 1) // SLOTS))
                    oldest = max(0.0, float(age - length * slot // SLOTS))
                    calibrating.share_arrived(model, newest, oldest, scratch, slot)
                places = places_of_period(periods.block[i], predicted, labels, bins)
                look = PeriodLook(
                    model, periods.counts, periods.weights, places, scratch, result, i, label_paces[i]
                )
                calibrating.deviate(look)
                expect(look)
                i += 1

    return kernel(named(look_at, owner))


#: The loop for sampled labels is compiled only where some are: see `engine.delay.accounts.samples`.
_look_at_labels, _look_at_samples = _looking("labels", _expect), _looking("samples", sampled.expect)
