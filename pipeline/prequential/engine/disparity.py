"""Disparity between the segments of a key: one sequential test over all groups, fed by the outcome log.

`error`, `recall` and `selection_rate` are each the mean of a value x, 0 or 1, over some outcomes. Outcomes
are cut into *strata* of at least `STRATUM`/2 that follow each other. In a stratum of n outcomes with mean x̄,
a group has n_g of them with the sum O_g. Suppose that the group makes no difference: given the outcomes of a
stratum, any n_g of them may be the group's. Then O_g is hypergeometric, and so a sum of independent variables
of 0 or 1 (Vatutin and Mikhailov 1982). With Bennett's inequality, over all strata so far

    S = Σ O_g - n_g·x̄,     V = Σ n_g·(n - n_g)/(n - 1)·x̄·(1 - x̄)

|S| ever exceeds the bound of `engine.detectors.confidence_sequence` for V with probability at most α. This
is the test of Mantel and Haenszel (1959), or of log ranks, under repeated looks. What moves all groups alike,
such as a bad day, has no effect on S, nor has the time at which a group has its outcomes.

S/W with W = Σ n_g·(n - n_g)/n is the difference between the means of the group and of all other groups. Its
interval is (S ± bound)/W. The bound is for V, enlarged if the group's own variance p·(1 - p) is larger than
the one expected of it. The interval is exact at a difference of 0, and approximate elsewhere.

*Order and dependence.* Outcomes count in the order of their predictions' time, one cohort at a time (see
`engine.delay.cohorts`); no cohort is divided. Outcomes of a group that depend on each other count as f
times fewer, with f from the variances of O_g - n_g·x̄ over blocks (see
`engine.detectors.confidence_sequence`). With many groups, one's f is too small by chance now and then. So f
is at least its mean over groups, weighted by their outcomes. No theorem covers f.

*One test over all groups.* A model has G = `segments_per_key` + 1 possible groups by key. The interval of
each one has the level α = level/(K·M·G), with K keys and M measures. Groups differ if an interval is beyond
`tolerance`. So without any disparity a model ever gets this verdict in a stage with probability at most
`level`. The others' mean is between the means of groups, so that two groups differ at least as much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DISPARITY_MEASURES, DisparityConfig, StreamConfig
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.engine.delay import cohorts
from prequential.engine.detectors.confidence_sequence import (
    LENGTHS,
    RHO,
    Blocks,
    add_block,
    inflation,
    needed_for,
    radius,
)
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.losses import ERROR, RECALL, is_positive, own_loss
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables.outcomes import OUTCOME, Log
from prequential.engine.tables.streams import MODEL, OTHER, SEGMENT, Registry

#: Verdicts by code: too few groups have enough outcomes; no difference was found; groups differ.
TOO_FEW, NO_DIFFERENCE, DIFFERS = range(3)
VERDICTS = ("too_few", "no_difference_found", "differs")


#: A group counts from so many outcomes on: fewer can't show how they depend on each other either.
FEWEST = 100

#: Groups are compared after so many outcomes, if half as many count: fewer have few of each group, and more
#: may span a change.
STRATUM = 64


class GroupTables(NamedTuple):
    """By sequence, and by place: of a segment by measure, of a model by key and measure."""

    key: Ints32  # of a segment: place of its key among those of `disparity`, from 1; 0: not known yet
    outcomes: Ints  # of a model: number of its newest outcome …
    newest: Ints  # … its label time, ms …
    revised: Ints  # … and the model's revisions until then
    reported: Ints  # of a model: its outcomes at its last messages
    verdict: Bytes  # (sequences, places) of a model
    since: Ints  # of a model: the outcome at which the verdict `differs` began; 0: it is another one
    received: Ints  # of a model: outcomes since groups were compared
    begun: Bytes
    fresh: Ints  # outcomes that count, but are in no stratum yet …
    fresh_total: Floats  # … Σ x
    counted: Ints  # outcomes in strata …
    total: Floats  # … Σ x
    excess: Floats  # S
    variance: Floats  # V
    weight: Floats  # W
    inflation: Floats  # f; 0: not known
    judged: Ints  # whether there is an interval
    low: Floats
    high: Floats
    # Outcomes that don't count yet (`PendingCohorts`), and blocks (`Blocks`), place by place:
    oldest: Ints
    epoch: Ints
    late: Ints
    waiting: Ints
    waiting_total: Floats
    waiting_squares: Floats
    waiting_cluster: Ints
    block_number: Ints
    block_total: Floats
    block_squares: Floats
    block_neighbours: Floats
    block_values: Ints
    block_variance: Floats
    block_previous: Floats
    block_half: Floats
    block_half_variance: Floats
    block_half_values: Ints


#: Columns that have a single number for a sequence.
_BY_SEQUENCE = ("key", "outcomes", "newest", "revised", "reported")


class GroupMeans(NamedTuple):
    """Views of `GroupTables` by row sequence·places + place, as the loops take them."""

    begun: Bytes
    fresh: Ints
    fresh_total: Floats
    counted: Ints
    total: Floats
    excess: Floats
    variance: Floats
    weight: Floats
    inflation: Floats
    judged: Ints
    low: Floats
    high: Floats
    pending: cohorts.PendingCohorts
    blocks: Blocks
    closed: cohorts.Closed  # to write to


def new_groups(rows: int, places: int) -> GroupTables:
    """Return sequences without outcomes."""
    widths = {name: places for name in GroupTables._fields if name not in _BY_SEQUENCE}
    widths |= {name: places * cohorts.PLACES for name in widths if name.startswith("waiting")}
    widths |= {name: places * LENGTHS for name in widths if name.startswith("block_")}
    return zeros(GroupTables, rows, **widths)


def means_of(table: GroupTables) -> GroupMeans:
    """Return the views of a table; they are valid until it grows."""
    flat: dict[str, Any] = {name: column.reshape(-1) for name, column in table._asdict().items()}
    waiting = (flat[name].reshape(-1, cohorts.PLACES) for name in table._fields if name.startswith("waiting"))
    blocks = (flat[name].reshape(-1, LENGTHS) for name in table._fields if name.startswith("block_"))
    flat["pending"] = cohorts.PendingCohorts(flat["oldest"], flat["epoch"], flat["late"], *waiting)
    flat["blocks"], flat["closed"] = Blocks(*blocks), cohorts.new_closed()
    return GroupMeans(**{name: flat[name] for name in GroupMeans._fields})


def needed_of(config: StreamConfig) -> float:
    """Return the N of each interval's bound (`needed_for`), two-sided, by a stream's level of disparity.

    >>> from prequential.configuration.settings.streams import DisparityConfig
    >>> config = StreamConfig(disparity=DisparityConfig(("region",), ("error",), 0.05), segments_per_key=20)
    >>> round(needed_of(config) / needed_for(0.05 / 21 / 2), 9)
    1.0
    """
    wanted = config.disparity
    if wanted is None:
        return 0.0
    intervals = len(wanted.segments) * len(wanted.measures) * (config.segments_per_key + 1)
    return needed_for(wanted.level / intervals / 2.0)


@inner
def take(means: GroupMeans, row: int, x: float, position: cohorts.Position) -> None:
    """Take the next outcome of a group, x in [0, 1], whose prediction is at `position`."""
    if not means.begun[row]:
        means.begun[row] = 1
        cohorts.begin(means.pending, row, position)
    _note(means, row, cohorts.add_outcome(means.pending, row, position, x, means.closed))


@inner
def close(means: GroupMeans, row: int, position: cohorts.Position) -> None:
    """Let a group's outcomes count whose cohorts are closed as of `position`."""
    if means.begun[row]:
        _note(means, row, cohorts.close_cohorts(means.pending, row, position, means.closed))


@inner
def _note(means: GroupMeans, row: int, count: int) -> None:
    for i in range(count):
        means.fresh[row] += means.closed.n[i]
        means.fresh_total[row] += means.closed.total[i]


@inner
def compare(means: GroupMeans, row: int, n: int, total: float) -> None:
    """Compare a group's fresh outcomes with those of the stratum, of n outcomes with this total.

    >>> means = means_of(new_groups(1, 1))
    >>> for stratum in range(40):
    ...     means.fresh[0], means.fresh_total[0] = 10, 4.0
    ...     compare(means, 0, 100, 20.0)
    >>> judge(means, 0, 1.0, needed_for(0.001))
    >>> round(float(means.excess[0] / means.weight[0]), 4)  # 40% less 16 of 90
    0.2222
    >>> round(float(means.low[0]), 3), round(float(means.high[0]), 3)
    (0.1..., 0.3...)
    """
    own, mean = means.fresh[row], total / n
    if own == 0:
        return
    excess, variance = means.fresh_total[row] - own * mean, own * (n - own) / (n - 1.0) * mean * (1.0 - mean)
    weight = own * (n - own) / n
    # A constant difference isn't dependence, however many outcomes of a stratum are the group's.
    difference = means.excess[row] / means.weight[row] if means.weight[row] > 0.0 else 0.0
    add_block(means.blocks, row, own, excess - difference * weight, variance)
    means.counted[row] += own
    means.total[row] += means.fresh_total[row]
    means.excess[row] += excess
    means.variance[row] += variance
    means.weight[row] += weight
    means.fresh[row], means.fresh_total[row] = 0, 0.0
    means.inflation[row] = inflation(means.blocks, row, means.counted[row])


@inner
def judge(means: GroupMeans, row: int, least: float, needed: float) -> None:
    """Compute a group's interval, with f of at least `least`."""
    counted = means.counted[row]
    f = max(means.inflation[row], least) if means.inflation[row] > 0.0 else 0.0
    means.judged[row] = counted >= FEWEST and f > 0.0 and means.weight[row] > 0.0
    if means.judged[row]:
        p, expected = means.total[row] / counted, (means.total[row] - means.excess[row]) / counted
        v = means.variance[row]
        if p * (1.0 - p) > expected * (1.0 - expected) > 0.0:
            v *= p * (1.0 - p) / (expected * (1.0 - expected))
        wide = f * radius(v / f, needed, RHO)
        means.low[row] = max((means.excess[row] - wide) / means.weight[row], -1.0)
        means.high[row] = min((means.excess[row] + wide) / means.weight[row], 1.0)


#: Codes of measures.
_ERROR, _SELECTION_RATE = map(DISPARITY_MEASURES.index, ("error", "selection_rate"))


class GroupSettings(NamedTuple):
    """What follows from the configuration, and room for what a loop reports."""

    keys: Ints  # by key of `disparity`: its place among the stream's keys of segments
    measures: Ints  # their codes
    bounds: Floats  # N of the intervals' bound; the tolerance
    due: Ints  # the sequence of the model whose verdict has changed


class ComparedGroups:
    """The groups of all sequences of a plan."""

    def __init__(self, config: StreamConfig, wanted: DisparityConfig, rows: int) -> None:
        self.keys, self.measures = wanted.segments, wanted.measures
        self.places = len(self.keys) * len(self.measures)
        #: The subject of the state: it is kept only while this stays the same.
        self.subject = [list(self.keys), list(self.measures), config.positive_class]
        self.table = new_groups(rows, self.places)
        self._places = [config.segments.index(key) for key in self.keys]
        self._codes = [DISPARITY_MEASURES.index(name) for name in self.measures]
        self._bounds = needed_of(config), wanted.tolerance

    def consume(self, log: Log, rows: Ints32, registry: Registry, positives: Positives) -> tuple[int, int]:
        """Take these rows of the log up to one that changes a verdict: its messages come first.

        Returns how many it has taken, and the sequence of the model whose verdict has changed, or -1.
        """
        places, codes = (np.array(numbers, dtype=np.int64) for numbers in (self._places, self._codes))
        settings = GroupSettings(places, codes, np.array(self._bounds), np.zeros(1, dtype=np.int64))
        done = _follow(means_of(self.table), self.table, settings, log, rows, registry, positives)
        return done, int(settings.due[0])


@inner
def _value(measure: int, log: Log, row: int, positives: Positives) -> tuple[float, bool]:
    """The value of an outcome that a measure is the mean of, and whether the outcome counts for it."""
    stream = positives.owner[log.sequence[row]]
    if measure == _SELECTION_RATE:  # without a positive class, no prediction selects anything
        of_class = positives.sort[positives.first[stream] + log.label[row]] != OTHER
        counts = of_class or positives.configured[stream] != NO_POSITIVE
        return (1.0 if is_positive(positives, stream, log.prediction[row]) else 0.0), counts
    loss, counts = own_loss(ERROR if measure == _ERROR else RECALL, log, row, positives, stream)
    return (loss if measure == _ERROR else 1.0 - loss), counts


@inner
def _key_of(registry: Registry, keys: Ints, model: int, segment: int) -> int:
    """The place of a segment's key in `keys`, from 1; -1: it is none of these."""
    entities = registry.entities
    slots = np.int64(registry.streams.slots[entities.stream[model]])
    for index in range(len(keys)):
        first = entities.segments[model] + keys[index] * slots
        for row in range(first, first + slots):
            if registry.segment_rows.entity[row] == segment:
                return index + 1
    return -1


@inner
def _compare(
    means: GroupMeans, settings: GroupSettings, registry: Registry, model: int, q: int, key: int, m: int,
    position: cohorts.Position,
) -> int:  # fmt: skip
    """Compare the groups of a key by a measure (its place), in the model's sequence `q`.

    Returns the verdict, or -1: too few outcomes count for a comparison.
    """
    entities, places = registry.entities, len(settings.keys) * len(settings.measures)
    slots = np.int64(registry.streams.slots[entities.stream[model]])
    first, stage = entities.segments[model] + settings.keys[key] * slots, q - entities.first[model]
    n, total = 0, 0.0
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + stage) * places + m
            close(means, row, position)
            n += means.fresh[row]
            total += means.fresh_total[row]
    if 2 * n < STRATUM:
        return -1
    counted, inflated = 0, 0.0
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + stage) * places + m
            compare(means, row, n, total)
            if means.inflation[row] > 0.0:
                counted += means.counted[row]
                inflated += means.counted[row] * means.inflation[row]
    least = inflated / counted if counted else 0.0
    groups, apart, tolerance = 0, False, settings.bounds[1]
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + stage) * places + m
            judge(means, row, least, settings.bounds[0])
            if means.judged[row]:
                groups += 1
                apart |= means.low[row] > tolerance or means.high[row] < -tolerance
    if groups < 2:
        return TOO_FEW
    return DIFFERS if apart else NO_DIFFERENCE


@kernel
def _follow(
    means: GroupMeans, state: GroupTables, settings: GroupSettings, log: Log, rows: Ints32,
    registry: Registry, positives: Positives,
) -> int:  # fmt: skip
    entities, measures = registry.entities, len(settings.measures)
    places = len(settings.keys) * measures
    settings.due[0] = -1
    for i in range(len(rows)):
        row = rows[i]
        entity, q = np.int64(log.entity[row]), np.int64(log.sequence[row])
        if log.kind[row] != OUTCOME:
            continue
        if entities.kind[entity] == MODEL:  # its row comes before those of its segments
            state.outcomes[q], state.newest[q] = log.number[row], log.t1[row]
            state.revised[q] = log.revised[row]
        if entities.kind[entity] != SEGMENT:
            continue
        model = np.int64(entities.model[entity])
        if state.key[q] == 0:
            state.key[q] = _key_of(registry, settings.keys, model, entity)
        if state.key[q] < 0:
            continue
        key, whole = state.key[q] - 1, entities.first[model] + q - entities.first[entity]
        position = cohorts.Position(log.cohort[row] - 1, log.epoch[row], log.frontier[row], 0)
        for m in range(measures):
            x, counts = _value(settings.measures[m], log, row, positives)
            if not counts:
                continue
            column = key * measures + m
            take(means, q * places + m, x, position)
            state.received[whole, column] += 1
            if state.received[whole, column] < STRATUM:
                continue
            state.received[whole, column] = 0
            before = state.verdict[whole, column]
            verdict = _compare(means, settings, registry, model, whole, key, m, position)
            if verdict == -1 or verdict == before:
                continue
            state.verdict[whole, column] = verdict
            state.since[whole, column] = state.outcomes[whole] if verdict == DIFFERS else 0
            if verdict == DIFFERS or before == DIFFERS:
                settings.due[0] = whole
        if settings.due[0] >= 0:
            return i + 1
    return len(rows)
