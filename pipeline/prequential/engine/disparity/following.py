"""Follows the outcome log: outcomes of segments move the means of their groups, and these the verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DISPARITY_MEASURES, DisparityConfig, StreamConfig
from prequential.engine.cohorts.pending import Position
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.disparity import DIFFERS, NO_DIFFERENCE, TOO_FEW
from prequential.engine.disparity.group_means import (
    STRATUM,
    GroupMeans,
    close,
    compare,
    judge,
    means_of,
    needed_of,
    new_groups,
    take,
)
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.losses import ERROR, RECALL, is_positive, own_loss
from prequential.engine.measures.positive import Positives
from prequential.engine.tables.outcomes import OUTCOME, Log
from prequential.engine.tables.streams import MODEL, OTHER, SEGMENT, Registry

#: Codes of measures.
_ERROR, _SELECTION_RATE = map(DISPARITY_MEASURES.index, ("error", "selection_rate"))


class GroupSettings(NamedTuple):
    """What follows from the configuration, and room for what a loop reports."""

    keys: Ints  # by key of `disparity`: its place among the stream's keys of segments
    measures: Ints  # their codes
    bounds: Floats  # N of the intervals' bound; the tolerance
    due: Ints  # the sequence of the model whose verdict has changed


class GroupColumns(NamedTuple):
    """Columns of `GroupTables`."""

    key: Ints32
    outcomes: Ints
    newest: Ints
    revised: Ints
    verdict: Bytes
    since: Ints
    received: Ints


class ComparedGroups:
    """The groups of all sequences of a plan."""

    def __init__(self, config: StreamConfig, wanted: DisparityConfig, rows: int) -> None:
        self.keys, self.measures = wanted.segments, wanted.measures
        self.places = len(self.keys) * len(self.measures)
        #: What the state is about: it is kept only while this stays the same.
        self.about = [list(self.keys), list(self.measures), config.positive_class]
        self.table = new_groups(rows, self.places)
        self._places = [config.segments.index(key) for key in self.keys]
        self._codes = [DISPARITY_MEASURES.index(name) for name in self.measures]
        self._bounds = needed_of(config), wanted.tolerance

    def consume(self, log: Log, rows: Ints32, registry: Registry, positives: Positives) -> tuple[int, int]:
        """Take these rows of the log up to one that changes a verdict: its messages come first.

        Returns how many it has taken, and the sequence of the model whose verdict has changed, or -1.
        """
        table = self.table
        state = GroupColumns(*(getattr(table, name) for name in GroupColumns._fields))
        places, codes = (np.array(one, dtype=np.int64) for one in (self._places, self._codes))
        settings = GroupSettings(places, codes, np.array(self._bounds), np.zeros(1, dtype=np.int64))
        done = _follow(means_of(table), state, settings, log, rows, registry, positives)
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
    for place in range(len(keys)):
        first = entities.segments[model] + keys[place] * slots
        for row in range(first, first + slots):
            if registry.segment_rows.entity[row] == segment:
                return place + 1
    return -1


@inner
def _compare(
    means: GroupMeans, settings: GroupSettings, registry: Registry, model: int, q: int, key: int, m: int,
    at: Position,
) -> int:  # fmt: skip
    """Compare the groups of a key by a measure (its place), in the model's sequence `q`.

    Returns the verdict, or -1: too few outcomes count for a comparison.
    """
    entities, places = registry.entities, len(settings.keys) * len(settings.measures)
    slots = np.int64(registry.streams.slots[entities.stream[model]])
    first = entities.segments[model] + settings.keys[key] * slots
    n, total = 0, 0.0
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + q - entities.first[model]) * places + m
            close(means, row, at)
            n += means.fresh[row]
            total += means.fresh_total[row]
    if 2 * n < STRATUM:
        return -1
    counted, inflated = 0, 0.0
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + q - entities.first[model]) * places + m
            compare(means, row, n, total)
            if means.inflation[row] > 0.0:
                counted += means.counted[row]
                inflated += means.counted[row] * means.inflation[row]
    least = inflated / counted if counted else 0.0
    groups, apart, tolerance = 0, False, settings.bounds[1]
    for slot in range(first, first + slots):
        segment = registry.segment_rows.entity[slot]
        if segment:
            row = (entities.first[segment] + q - entities.first[model]) * places + m
            judge(means, row, least, settings.bounds[0])
            if means.judged[row]:
                groups += 1
                apart |= means.low[row] > tolerance or means.high[row] < -tolerance
    if groups < 2:
        return TOO_FEW
    return DIFFERS if apart else NO_DIFFERENCE


@kernel
def _follow(
    means: GroupMeans, state: GroupColumns, settings: GroupSettings, log: Log, rows: Ints32,
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
        at = Position(log.cohort[row] - 1, log.epoch[row], log.frontier[row])
        for m in range(measures):
            x, counts = _value(settings.measures[m], log, row, positives)
            if not counts:
                continue
            place = key * measures + m
            take(means, q * places + m, x, at)
            state.received[whole, place] += 1
            if state.received[whole, place] < STRATUM:
                continue
            state.received[whole, place] = 0
            before = state.verdict[whole, place]
            verdict = _compare(means, settings, registry, model, whole, key, m, at)
            if verdict < 0:
                continue
            if verdict == before:
                continue
            state.verdict[whole, place] = verdict
            state.since[whole, place] = state.outcomes[whole] if verdict == DIFFERS else 0
            if verdict == DIFFERS or before == DIFFERS:
                settings.due[0] = whole
        if settings.due[0] >= 0:
            return i + 1
    return len(rows)
