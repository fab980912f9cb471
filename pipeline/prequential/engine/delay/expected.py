"""Counters from which the values of periods are estimated before their labels are there.

Each model has counters that fade by outcomes:

- `classes[j, b, k]`: labels k of predictions of class j with confidence bin b;
- `expired[j, b]`: predictions that never got a label;
- `delays[j, k, a]`: labels that came after the share a of the horizon; they fade faster than the others;
- losses by stratum (j, b) and label k;
- `ranks[j, s, k]`: labels k of predictions of class j with score bin s, for two classes.

Each open period has counts of its predictions, of those that met their label, and of those that expired. It
has them by stratum, and again by class and slot (an eighth of the period), which gives their ages. Where
ranks are estimated, it also has its pending predictions by class and score bin.
`following` fills the counters, `expecting` makes estimates of them, and `records` grades the estimates.

If labels are sampled with known propensities π, `classes` are sums of 1/π, and `squares[j, b]` are sums of
1/π². They give the effective sample size of a stratum. Each period then also has both sums by (j, b, k).

The counters of a model are one block of floats. Those of a period are one block of integers, in which sums of
weights are floats of four bytes. The sizes of blocks depend on the number of classes. For a model with more
than eight classes, only right and wrong are distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled import free_blocks
from prequential.engine.compiled import pool as pools
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, grown, inner, kernel, zeros
from prequential.engine.compiled.pool import Pool
from prequential.engine.delay import records as graded
from prequential.engine.delay.calendars import (
    Calendars,
    PeriodSettings,
    ends_of,
    new_calendars,
    with_calendar,
)
from prequential.engine.delay.levels import FIRST_LEVEL, FIRST_LEVEL_OF_SAMPLES
from prequential.engine.delay.records import MATURITIES, NEVER, MaturityRecords, ReportedEstimates, Usual
from prequential.engine.tables.rows import Key, StateTable, of_pool
from prequential.engine.tables.scores import CONFIDENCE_BINS, SCORE_BINS

#: Buckets of delays, as shares of the horizon. Within one, delays count as spread evenly. Up to a quarter,
#: the upper bound of each is 0.8 of the next one's; the first ends at 2e-4 (4 minutes of 14 days). From there
#: on they are equally wide: fixed long delays, as terms of loans are, stay sharp.
BUCKETS, _RATIO, _QUARTER, _EQUAL = 64, 0.8, 0.25, 31

#: Parts of a period, for the ages of its predictions.
SLOTS = 8

#: The largest number of classes that are distinguished.
MOST_CLASSES = 8

#: How classes are distinguished: regression has none; right and wrong; up to 2, 4 and 8 classes.
NUMBERS, RIGHT_WRONG, TWO, _FOUR, EIGHT = range(5)

#: By layout: the numbers of predicted classes and of labels.
PREDICTED, LABELS = (1, 1, 2, 4, 8), (1, 2, 2, 4, 8)

#: Losses by stratum and label: log loss and Brier score, or |e|, e², e.
_LOSSES_OF_CLASSES, _LOSSES_OF_NUMBERS = 2, 3

#: Numbers of the level of a cell's correction: see `engine.delay.levels`.
LEVEL = len(FIRST_LEVEL)

#: Number of block sizes: by layout, by bins or none, and by losses, weights or ranks.
_SIZES = 50

#: Columns of a model that, with the width of its periods, determine its counters.
FIXED = ("calendar", "horizon", "bins", "losses", "sampled", "at_horizon", "ranked")

#: (BUCKETS + 1,): bounds of the buckets as shares of the horizon, 0 and 1 the outer ones.
EDGES = np.concatenate((
    [0.0], _QUARTER * np.cumprod([1.0, *[_RATIO] * (BUCKETS - 1 - _EQUAL)])[::-1],
    _QUARTER + (1.0 - _QUARTER) * np.arange(1, _EQUAL + 1) / _EQUAL,
))  # fmt: skip


class ExpectedModels(NamedTuple):
    """By model (row)."""

    width: Ints  # of a period, ms; 0: it has no estimates
    calendar: Ints32  # by which periods begin and end
    horizon: Ints  # of labels, ms
    settle: Ints  # how long revisions are recognised, ms
    bins: Ints32  # of confidence
    losses: Ints32  # that are added up by stratum and label
    sampled: Ints32  # 1: labels are weighted with the inverse of their propensity
    at_horizon: Ints32  # 1 + the class of instances without a label by the horizon; 0: none, they expire
    ranked: Ints32  # 1: ranks of scores are estimated, as long as there are at most two classes
    layout: Ints32
    size: Ints32  # of its blocks: which of the sizes
    block: Ints  # first place of its counters; 0: it has none yet
    codes: Ints32  # (models, MOST_CLASSES): the classes' codes, in the order in which they came
    classes: Ints32  # how many
    outcomes: Ints
    first: Ints32  # row of its newest period, 0: none
    periods: Ints32  # that are open
    since: Ints  # time of its first prediction, ms
    begin: Ints  # start of the first period that is followed
    next: Ints  # the clock from which its periods must be checked again
    first_record: Ints32  # see `engine.delay.records`
    first_usual: Ints32  # see `engine.delay.records`
    pace_total: Floats  # (models, maturities): see `engine.delay.paces`
    pace_due: Floats
    pace_chance: Floats


class ExpectedPeriods(NamedTuple):
    """By period: rows of a pool, whose owners are models and whose keys are starts, ms."""

    block: Ints  # first place of its counters; 0: it is closed
    asked: Bytes  # its latest estimate: 0 none, 1 + stage (see `records`)
    first_said: Ints32  # see `engine.delay.records`
    alarmed: Ints  # bits of the alarms that it raised: see `engine.detectors.objectives`


class Floating(NamedTuple):
    """Counters of models."""

    counts: Floats


class PeriodCounters(NamedTuple):
    """Counters of periods."""

    counts: Ints32


class ExpectedTables(NamedTuple):
    """The tables of a shard. `blocks_of_models`, `blocks_of_periods`: counters of `compiled.free_blocks`."""

    calendars: Calendars
    models: ExpectedModels
    pool: Pool
    periods: ExpectedPeriods
    of_models: Floating
    of_periods: PeriodCounters
    blocks_of_models: Ints
    blocks_of_periods: Ints
    wants: Ints  # (1,): why following the log stopped (see `engine.delay.following`)
    said_pool: Pool
    said: ReportedEstimates
    record_pool: Pool
    records: MaturityRecords
    usual_pool: Pool
    usual: Usual


class Shape(NamedTuple):
    """The layout of a model's block, and of its periods' blocks."""

    predicted: int
    labels: int
    bins: int
    losses: int
    sampled: int
    ranked: int  # 1: there are counters by score bin

    @property
    def of_model(self) -> int:
        """Places of a model's block."""
        return self.without_ranks + self.predicted * SCORE_BINS * self.labels * self.ranked

    @property
    def without_ranks(self) -> int:
        """Places of a model's block before those by score bin."""
        j, k, b = self.predicted, self.labels, self.bins
        more = j * b * k * (1 + self.losses) if self.losses else j * b * self.sampled
        return j * b * (k + 1) + j * k * (BUCKETS + LEVEL) + more

    @property
    def of_period(self) -> int:
        """Places of a period's block."""
        return length_of_period(self.predicted, self.labels, self.bins, self.sampled, self.ranked)


@inner
def length_of_period(predicted: int, labels: int, bins: int, sampled: int, ranked: int) -> int:
    """How many places a period's block has (see `Shape`)."""
    of_weights, of_ranks = 2 * predicted * bins * labels * sampled, predicted * SCORE_BINS * ranked
    return predicted * (bins + SLOTS) * (labels + 2) + of_weights + of_ranks


def new_expected() -> ExpectedTables:
    """Empty tables."""
    pool = pools.new_pool()
    return ExpectedTables(
        new_calendars(),
        zeros(
            ExpectedModels, 0, codes=MOST_CLASSES, pace_total=len(MATURITIES), pace_due=len(MATURITIES),
            pace_chance=len(MATURITIES),
        ),
        pool,
        zeros(ExpectedPeriods, len(pool.owner)), zeros(Floating, 16), zeros(PeriodCounters, 16),
        free_blocks.new_counters(_SIZES), free_blocks.new_counters(_SIZES), np.zeros(1, dtype=np.int64),
        pools.new_pool(), graded.new_reported_estimates(0), pools.new_pool(), graded.new_records(0),
        pools.new_pool(), graded.new_usual(0),
    )  # fmt: skip


def tables(expected: ExpectedTables) -> Iterator[StateTable]:
    """What their rows stand for."""
    links = {
        "first": Key.EXPECTED_PERIOD, "first_record": Key.EXPECTED_RECORD,
        "first_usual": Key.EXPECTED_USUAL, "block": Key.EXPECTED_OF_MODEL,
    }  # fmt: skip
    yield StateTable("expected|calendars.", Key.NONE, expected.calendars)
    yield StateTable("expected|models.", Key.ENTITY, expected.models, links=links)
    yield from of_pool("expected|pool", Key.EXPECTED_PERIOD, Key.ENTITY, expected.pool)
    links = {"block": Key.EXPECTED_OF_PERIOD, "first_said": Key.EXPECTED_SAID}
    yield StateTable("expected|periods.", Key.EXPECTED_PERIOD, expected.periods, links=links)
    yield StateTable("expected|of_models.", Key.EXPECTED_OF_MODEL, expected.of_models)
    yield StateTable("expected|of_periods.", Key.EXPECTED_OF_PERIOD, expected.of_periods)
    counters = {
        "blocks_of_models": expected.blocks_of_models, "blocks_of_periods": expected.blocks_of_periods,
        "wants": expected.wants,
    }  # fmt: skip
    yield StateTable("expected|", Key.NONE, counters)
    for pool, table, key, owner in (
        ("said", "said", Key.EXPECTED_SAID, Key.EXPECTED_PERIOD),
        ("record", "records", Key.EXPECTED_RECORD, Key.ENTITY),
        ("usual", "usual", Key.EXPECTED_USUAL, Key.ENTITY),
    ):
        yield from of_pool(f"expected|{pool}_pool", key, owner, getattr(expected, f"{pool}_pool"))
        yield StateTable(f"expected|{table}.", key, getattr(expected, table))


# ---- models


def with_model(
    expected: ExpectedTables, model: int, settings: PeriodSettings, *,
    binned: bool, scored: bool, sampled: bool = False, at_horizon: int = 0,
) -> tuple[ExpectedTables, bool]:  # fmt: skip
    """The tables with a model (row) that has periods; and whether its counters were kept.

    They are kept unless the width, calendar, horizon, bins, losses, sampling, class at the horizon or ranks
    change. `sampled`: whether labels are sampled with propensities; then losses aren't summed, nor scores
    ranked. `at_horizon`: 1 + the class that is known at the horizon alone. If `settings.ranked`, ranks of
    scores are estimated.
    """
    width, horizon, numbers = settings.width, settings.horizon, settings.numbers
    calendars, calendar = with_calendar(expected.calendars, settings.zone, width)
    expected = expected._replace(models=grown(expected.models, model + 1), calendars=calendars)
    models = expected.models
    bins = 1 + CONFIDENCE_BINS if binned and not numbers else 1
    losses = _LOSSES_OF_NUMBERS if numbers else _LOSSES_OF_CLASSES if scored and not sampled else 0
    is_ranked = int(settings.ranked and not numbers and not sampled)
    fixed = dict(zip(FIXED, (calendar, horizon, bins, losses, int(sampled), at_horizon, is_ranked)))
    fixed["width"] = width
    same = all(getattr(models, name)[model] == value for name, value in fixed.items())
    if not same:
        _forget_all(expected, model)
        for column in models:
            column[model] = 0
        models.layout[model] = NUMBERS if numbers else TWO
        models.begin[model] = -NEVER
        for name, value in fixed.items():
            getattr(models, name)[model] = value
        models.next[model] = -NEVER
    models.settle[model] = settings.settle
    return expected, same


def known_of(models: ExpectedModels, model_rows: Ints, clocks: Ints) -> Any:
    """Whether models can have estimates at these clocks (ms): (m,) bool.

    If a class is known at the horizon alone, estimates begin one horizon after the first prediction: earlier
    labels are of the other classes only.
    """
    return (models.at_horizon[model_rows] == 0) | (
        clocks > models.since[model_rows] + models.horizon[model_rows]
    )


def shape_of(models: ExpectedModels, model: int) -> Shape:
    """The layout of the blocks of counters of a model (its row), and of its periods."""
    layout = int(models.layout[model])
    columns = models.bins, models.losses, models.sampled, models.ranked
    bins, losses, sampled, ranked = (int(column[model]) for column in columns)
    return Shape(PREDICTED[layout], LABELS[layout], bins, losses, sampled, ranked if layout == TWO else 0)


def without(expected: ExpectedTables, models: Ints) -> ExpectedTables:
    """The tables without the data of these models."""
    for model in models[models < len(expected.models.first)].tolist():
        if expected.models.width[model]:
            _forget_all(expected, model)
            for column in expected.models:
                column[model] = 0
    return expected


def _forget_all(expected: ExpectedTables, model: int) -> None:
    """Free a model's block, periods and records."""
    models = expected.models
    for row in open_rows(expected, model).tolist():
        close(expected, model, row)
    pools.remove_all(expected.pool, int(models.first[model]))
    pools.remove_all(expected.record_pool, int(models.first_record[model]))
    pools.remove_all(expected.usual_pool, int(models.first_usual[model]))
    models.first[model] = models.first_record[model] = models.first_usual[model] = 0
    if models.block[model]:
        give_model_block(expected, int(models.size[model]), int(models.block[model]))
        models.block[model] = 0


# ---- blocks


def take_model_block(expected: ExpectedTables, size: int, places: int) -> tuple[ExpectedTables, int]:
    """Take a block of a model's counters, all 0. Returns the tables, maybe wider, and the block's place."""
    table, block = _taken(expected.of_models, expected.blocks_of_models, size, places)
    return expected._replace(of_models=table), block


def take_period_block(expected: ExpectedTables, size: int, places: int) -> tuple[ExpectedTables, int]:
    """Take a block of a period's counters, all 0. Returns the tables, maybe wider, and the block's place."""
    table, block = _taken(expected.of_periods, expected.blocks_of_periods, size, places)
    return expected._replace(of_periods=table), block


def _taken(table: Any, counters: Ints, size: int, places: int) -> tuple[Any, int]:
    table = grown(table, free_blocks.needed_places(counters, size, places))
    block = int(free_blocks.take_block(counters, table.counts, size, places))
    table.counts[block : block + places] = 0
    return table, block


def give_model_block(expected: ExpectedTables, size: int, block: int) -> None:
    """Free a block of a model's counters."""
    free_blocks.give_block(expected.blocks_of_models, expected.of_models.counts, size, block)


def give_period_block(expected: ExpectedTables, size: int, block: int) -> None:
    """Free a block of a period's counters."""
    free_blocks.give_block(expected.blocks_of_periods, expected.of_periods.counts, size, block)


def begin(expected: ExpectedTables, model: int) -> ExpectedTables:
    """Give a model an empty block; returns the tables, wider if there was no room."""
    models, shape = expected.models, shape_of(expected.models, model)
    more = 2 if models.sampled[model] else int(models.losses[model] > 0) + 3 * shape.ranked
    models.size[model] = 10 * int(models.layout[model]) + 2 * more + int(models.bins[model] > 1)
    expected, block = take_model_block(expected, int(models.size[model]), shape.of_model)
    models.block[model] = block
    first = FIRST_LEVEL_OF_SAMPLES if models.sampled[model] else FIRST_LEVEL
    counters_of(expected, model).levels[:] = first
    return expected


class Counters(NamedTuple):
    """A model's counters, as views."""

    classes: Floats  # (J, B, K)
    expired: Floats  # (J, B)
    delays: Floats  # (J, K, BUCKETS)
    levels: Floats  # (J, K, LEVEL)
    losses: Floats  # (J, B, K, 1 + losses): how many, and sums; without losses (0,)
    squares: Floats  # (J, B): of weights; where labels aren't sampled (0,)
    ranks: Floats  # (J, SCORE_BINS, K): labels; where ranks aren't estimated (0,)


def counters_of(expected: ExpectedTables, model: int) -> Counters:
    """The counters of a model that has a block."""
    shape, start = shape_of(expected.models, model), int(expected.models.block[model])
    j, k, b, losses = shape.predicted, shape.labels, shape.bins, shape.losses
    counters, count = [], expected.of_models.counts
    of_losses, of_weights = (j, b, k, 1 + losses) if losses else (0,), (j, b) if shape.sampled else (0,)
    of_ranks = (j, SCORE_BINS, k) if shape.ranked else (0,)
    for dimensions in (
        (j, b, k), (j, b), (j, k, BUCKETS), (j, k, LEVEL), of_losses, of_weights, of_ranks
    ):  # fmt: skip
        end = start + int(np.prod(dimensions))
        counters.append(count[start:end].reshape(dimensions))
        start = end
    return Counters(*counters)


def losses_at(models: ExpectedModels, model_rows: Ints) -> Ints:
    """Where the sums of losses by stratum and label begin, for models with the same layout, (m,)."""
    shape = shape_of(models, int(model_rows[0]))
    without = shape._replace(losses=0, sampled=0).without_ranks
    return models.block[model_rows] + without


def ranks_at(models: ExpectedModels, model_rows: Ints, blocks: Ints) -> tuple[Ints, Ints]:
    """Where counters by score bin begin: those of models, and those of periods with these blocks, (n,)."""
    of_models, of_periods = np.empty(len(blocks), dtype=np.int64), np.empty(len(blocks), dtype=np.int64)
    for model in np.unique(model_rows).tolist():
        shape, chosen = shape_of(models, model), model_rows == model
        of_models[chosen] = models.block[model] + shape.without_ranks
        of_periods[chosen] = blocks[chosen] + shape._replace(ranked=0).of_period
    return of_models, of_periods


def parts_of(shape: Shape, count: Any, start: int) -> list[Any]:
    """A period's counters as views: by stratum, then by slot, predicted, labelled and expired.

    For sampled labels, weights and their squares by stratum and label follow. Where ranks are estimated,
    pending predictions by class and score bin follow.
    """
    j, k = shape.predicted, shape.labels
    parts = []
    for by in (shape.bins, SLOTS):
        for dimensions in ((j, by), (j, by, k), (j, by)):
            end = start + int(np.prod(dimensions))
            parts.append(count[start:end].reshape(dimensions))
            start = end
    for _ in range(2 * shape.sampled):
        end = start + j * shape.bins * k
        parts.append(count[start:end].view(np.float32).reshape(j, shape.bins, k))
        start = end
    if shape.ranked:
        parts.append(count[start : start + j * SCORE_BINS].reshape(j, SCORE_BINS))
    return parts


# ---- periods


def open_rows(expected: ExpectedTables, model: int) -> Ints32:
    """Rows of a model's periods that aren't closed, in order of time, (n,) int32."""
    return all_open_rows(expected, np.array([model]))[0]


def all_open_rows(expected: ExpectedTables, model_rows: Ints) -> tuple[Ints32, Ints]:
    """The rows of `open_rows` for many models, model by model; and the cumulative number of rows by model."""
    rows = np.empty(int(expected.models.periods[model_rows].sum()), dtype=np.int32)
    ends = np.empty(len(model_rows), dtype=np.int64)
    _open_rows(expected.pool, expected.models.first, expected.periods.block, model_rows, rows, ends)
    return rows, ends


@kernel
def _open_rows(pool: Pool, first: Ints32, block: Ints, model_rows: Ints, rows: Ints32, ends: Ints) -> None:
    """Put the open rows of lists into `rows`, each list's in order of their keys."""
    count = 0
    for m in range(len(model_rows)):
        begin, row = count, np.int64(first[model_rows[m]])
        while row:
            if block[row] > 0:
                rows[count] = row
                count += 1
            row = np.int64(pool.next[row])
        pools.sort_by_key(pool, rows[begin:count])
        ends[m] = count


def ends_of_periods(expected: ExpectedTables, rows: Ints32) -> Ints:
    """Ends (ms) of the periods in these rows of the pool, (n,) int64, by the calendars of their models."""
    models, owners = expected.models, expected.pool.owner[rows]
    return ends_of(expected.calendars, models.calendar[owners], models.width[owners], expected.pool.key[rows])


def close(expected: ExpectedTables, model: int, row: int) -> None:
    """Free the counters of a period that is final or dropped; its row stays."""
    if expected.periods.block[row]:
        give_period_block(expected, int(expected.models.size[model]), int(expected.periods.block[row]))
        pools.remove_all(expected.said_pool, int(expected.periods.first_said[row]))
        expected.periods.block[row] = expected.periods.first_said[row] = 0
        expected.models.periods[model] -= 1


def forget_before(expected: ExpectedTables, model_rows: Ints, starts: Ints) -> None:
    """Remove models' periods that begin before these times; open ones are closed first."""
    has_before = np.zeros(len(model_rows), dtype=np.uint8)
    _has_before(expected.pool, expected.models.first, model_rows, starts, has_before)
    models, pool = expected.models, expected.pool
    for model, start in zip(model_rows[has_before > 0].tolist(), starts[has_before > 0].tolist()):
        row, previous = int(models.first[model]), 0
        while row:
            if pool.key[row] < start:
                close(expected, model, row)
                row = pools.remove(pool, models.first, model, previous, row)
            else:
                previous, row = row, int(pool.next[row])
    models.begin[model_rows] = np.maximum(models.begin[model_rows], starts)


@kernel
def _has_before(pool: Pool, first: Ints32, model_rows: Ints, starts: Ints, has_before: Bytes) -> None:
    for m in range(len(model_rows)):
        row = np.int64(first[model_rows[m]])
        while row and pool.key[row] >= starts[m]:
            row = np.int64(pool.next[row])
        has_before[m] = row > 0


def with_room_for_period(expected: ExpectedTables, model: int) -> ExpectedTables:
    """The tables, maybe wider, with room for the row and the counters of one more period of a model."""
    pool = pools.with_free_row(expected.pool)
    size, places = int(expected.models.size[model]), shape_of(expected.models, model).of_period
    rows = free_blocks.needed_places(expected.blocks_of_periods, size, places)
    return expected._replace(
        pool=pool, periods=grown(expected.periods, len(pool.owner)),
        of_periods=grown(expected.of_periods, rows),
    )  # fmt: skip


@inner
def open_period(expected: ExpectedTables, model: int, start: int, places: int) -> int:
    """Give a period, by its start (ms), a row and so many counters; returns the row.

    Returns 0, and changes nothing, if there is no room for it (see `with_room_for_period`).
    """
    models, pool, periods = expected.models, expected.pool, expected.periods
    counts, size = expected.of_periods.counts, np.int64(models.size[model])
    has_row = not pools.is_full(pool) and len(periods.block) >= len(pool.owner)
    if not has_row or not free_blocks.has_block(expected.blocks_of_periods, counts, size, places):
        return 0
    block = free_blocks.take_block(expected.blocks_of_periods, counts, size, places)
    for place in range(block, block + places):
        counts[place] = 0
    row = pools.insert(pool, models.first, model, start)
    periods.block[row] = block
    periods.asked[row] = periods.first_said[row] = periods.alarmed[row] = 0
    models.periods[model] += 1
    models.next[model] = -NEVER
    return row
