"""How the counters for estimates of periods (see `expected`) follow the log of events."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner, kernel
from prequential.engine.compiled.pool import find
from prequential.engine.delay.calendars import end_of, start_of
from prequential.engine.delay.expected import (
    BUCKETS,
    EDGES,
    EIGHT,
    LABELS,
    LEVEL,
    NUMBERS,
    PREDICTED,
    RIGHT_WRONG,
    SLOTS,
    ExpectedModels,
    ExpectedTables,
    begin,
    counters_of,
    give_block,
    open_period,
    open_rows,
    parts_of,
    shape_of,
    take_block,
)
from prequential.engine.tables.events import EXPIRED, LATE, MET, REVISED, WAITS, Events
from prequential.engine.tables.outcomes import SCORED as HAS_SCORE
from prequential.engine.tables.outcomes import WEIGHTED as HAS_WEIGHT
from prequential.engine.tables.store import NO_CLASS

#: Why an update stops: the tables need a model's block, more classes, or a period.
_BLOCK, _CLASSES, _PERIOD = range(1, 4)

#: After this many outcomes of a model, all of its counts fade at once, with a memory of about 20,000
#: outcomes.
FADE_EVERY = 256
_MEMORY = 20_000


def _fading() -> float:
    """(1 - 1/20,000)^256, by multiplication: the same on every machine."""
    factor = 1.0
    for _ in range(FADE_EVERY):
        factor *= 1.0 - 1.0 / _MEMORY
    return factor


FADING = _fading()


def update(expected: ExpectedTables, events: Events, start: int, stop: int) -> ExpectedTables:
    """Follow the events of predictions in rows `start` to `stop` of the log.

    Returns the tables, maybe with more rows.

    >>> from prequential.engine.delay.expected import new_expected, with_model
    >>> from prequential.engine.tables.events import new_events
    >>> tables, _ = with_model(
    ...     new_expected(), 0, 1_000, horizon=8_000, settle=0, numbers=False, binned=False, scored=False
    ... )
    >>> events = new_events(4)
    >>> events.kind[:], events.ts[:] = [WAITS, WAITS, MET, EXPIRED], [10, 20, 10, 20]
    >>> events.t1[2], events.label[2] = 1_010, 1
    >>> tables = update(tables, events, 0, 4)
    >>> own = counters_of(tables, 0)
    >>> own.classes[0, 0].tolist(), own.expired.tolist(), int(own.delays[0, 1].argmax())
    ([0.0, 1.0], [[1.0], [0.0]], 24)
    """
    while (start := _update(expected, EDGES, events, start, stop)) < stop:
        model, wants = int(events.model[start]), int(expected.wants[0])
        if wants == _BLOCK:
            expected = begin(expected, model)
            expected.models.since[model] = events.ts[start]
        elif wants == _CLASSES:
            expected = _widen(expected, model)
        else:
            models = expected.models
            calendar, width = int(models.calendar[model]), int(models.width[model])
            begins = start_of(expected.calendars, calendar, width, int(events.ts[start]))
            expected = open_period(expected, model, int(begins))
    return expected


@inner
def _place_of(models: ExpectedModels, model: int, code: int, capacity: int) -> int:
    """Place of a class among those of a model; a new class gets the next place. -1: none is left."""
    count = np.int64(models.classes[model])
    for place in range(count):
        if models.codes[model, place] == code:
            return place
    if count == capacity:
        return -1
    models.codes[model, count] = code
    models.classes[model] = count + 1
    return count


@inner
def bucket_of(edges: Floats, share: float) -> int:
    """The bucket of a delay, as a share of the horizon: edges[a] <= share < edges[a + 1]."""
    low, high = 0, len(edges) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if share >= edges[middle]:
            low = middle
        else:
            high = middle
    return low


@kernel
def _update(expected: ExpectedTables, edges: Floats, events: Events, start: int, stop: int) -> int:
    """Follow the log; returns the row that needs something in the tables, or `stop`."""
    models, pool, periods, wants = expected.models, expected.pool, expected.periods, expected.wants
    calendars = expected.calendars
    faded, whole = expected.of_models.counts, expected.of_periods.counts
    weights = whole.view(np.float32)
    for i in range(start, stop):
        model, kind = np.int64(events.model[i]), np.int64(events.kind[i])
        width = models.width[model]
        if width == 0:
            continue
        at = models.block[model]
        if at == 0:
            wants[0] = _BLOCK
            return i
        layout = np.int64(models.layout[model])
        bins, losses = np.int64(models.bins[model]), np.int64(models.losses[model])
        sampled = np.int64(models.sampled[model])
        judged = kind in (MET, REVISED)
        predicted, labels = PREDICTED[layout], LABELS[layout]
        j = k = revised = 0
        had = kind == MET or (kind == REVISED and events.label[i] != NO_CLASS)  # else it was withdrawn
        has = kind == REVISED and events.revised[i] != NO_CLASS
        if layout == RIGHT_WRONG:
            k = 1 if judged and events.label[i] == events.prediction[i] else 0
            revised = 1 if kind == REVISED and events.revised[i] == events.prediction[i] else 0
        elif layout != NUMBERS:
            j = _place_of(models, model, np.int64(events.prediction[i]), predicted)
            if had:
                k = _place_of(models, model, np.int64(events.label[i]), predicted)
            if has:
                revised = _place_of(models, model, np.int64(events.revised[i]), predicted)
            if min(j, k, revised) < 0:
                wants[0] = _CLASSES
                return i
        b = np.int64(events.bin[i]) if bins > 1 else 0
        stratum = j * bins + b
        expired = at + predicted * bins * labels
        weight = 1.0
        if sampled and judged and events.scored[i] & HAS_WEIGHT:
            weight = events.weight[i]
        if kind == MET:
            faded[at + stratum * labels + k] += weight
            delays = expired + predicted * bins
            if not events.at_horizon[i]:  # else it has no delay: it is known at the horizon
                delay = float(events.t1[i] - events.ts[i]) / float(models.horizon[model])
                faded[delays + (j * labels + k) * BUCKETS + bucket_of(edges, delay)] += 1.0
            if losses and events.scored[i] & HAS_SCORE:
                sums = delays + predicted * labels * (BUCKETS + LEVEL) + stratum * (1 + losses)
                faded[sums] += 1.0
                if layout == NUMBERS:
                    faded[sums + 1] += abs(events.error[i])
                    faded[sums + 2] += events.error[i] * events.error[i]
                    faded[sums + 3] += events.error[i]
                else:
                    faded[sums + 1] += events.log_loss[i]
                    faded[sums + 2] += events.brier[i]
            if sampled:
                faded[delays + predicted * labels * (BUCKETS + LEVEL) + stratum] += weight * weight
            models.outcomes[model] += 1
            if models.outcomes[model] % FADE_EVERY == 0:
                _fade(faded, at, predicted, labels, bins, 1 + losses if losses else sampled)
        elif kind == EXPIRED:
            faded[expired + stratum] += 1.0
        elif kind == REVISED:
            moved = weight
            if had:
                moved = min(weight, faded[at + stratum * labels + k])
                faded[at + stratum * labels + k] -= moved
            if has:
                faded[at + stratum * labels + revised] += moved
        calendar = np.int64(models.calendar[model])
        begins = start_of(calendars, calendar, width, events.ts[i])
        if begins < models.begin[model]:
            continue
        row = find(pool, model, begins)
        if row == 0:
            if kind == WAITS:
                # This event has only added 0 so far, so it can be processed again.
                wants[0] = _PERIOD
                return i
            continue
        first = periods.block[row]
        if first == 0:
            continue
        slot = (events.ts[i] - begins) * SLOTS // (end_of(calendars, calendar, width, begins) - begins)
        for part in range(2):
            by = bins if part == 0 else SLOTS
            place = j * (bins if part == 0 else SLOTS) + (b if part == 0 else slot)
            if kind == WAITS:
                whole[first + place] += 1
            elif kind == LATE:
                whole[first + place] -= 1
            elif kind == EXPIRED:
                whole[first + predicted * by * (1 + labels) + place] += 1
            else:
                cell = first + predicted * by + place * labels
                if kind == MET:
                    whole[cell + k] += 1
                elif not had or whole[cell + k]:  # else it met its label before the counters existed
                    if had:
                        whole[cell + k] -= 1
                    if has:
                        whole[cell + revised] += 1
            first += predicted * by * (labels + 2)
        if sampled and judged:
            cell, squares = first + stratum * labels, predicted * bins * labels
            if kind == MET:
                weights[cell + k] += weight
                weights[cell + squares + k] += weight * weight
            elif not had or weights[cell + k] > 0.0:
                for place, moved in ((cell, weight), (cell + squares, weight * weight)):
                    if had:
                        moved = min(moved, float(weights[place + k]))
                        weights[place + k] -= moved
                    if has:
                        weights[place + revised] += moved
    return stop


@inner
def _fade(faded: Floats, at: int, predicted: int, labels: int, bins: int, beyond: int) -> None:
    """Fade all of a model's counts, also those `beyond` its levels (by stratum); the levels stay."""
    levels = at + predicted * bins * (labels + 1) + predicted * labels * BUCKETS
    for place in range(at, levels):
        faded[place] *= FADING
    first = levels + predicted * labels * LEVEL
    for place in range(first, first + predicted * bins * beyond):
        faded[place] *= FADING


# ---- more classes


def _widen(expected: ExpectedTables, model: int) -> ExpectedTables:
    """Make room for more classes in the blocks; beyond the largest number, only right and wrong remain."""
    models = expected.models
    before, old_size, old = shape_of(models, model), int(models.size[model]), int(models.block[model])
    counters = [part.copy() for part in counters_of(expected, model)]
    give_block(expected, 0, old_size, old)
    merged = models.layout[model] == EIGHT
    models.layout[model] = RIGHT_WRONG if merged else models.layout[model] + 1
    expected = begin(expected, model)
    shape, wider = shape_of(models, model), counters_of(expected, model)
    _move(wider.classes, counters[0], 2, merged)
    _move(wider.expired, counters[1], None, merged)
    _move(wider.delays, counters[2], 1, merged)
    if not merged:
        wider.levels[: before.predicted, : before.labels] = counters[3]
    if shape.losses:
        _move(wider.losses, counters[4], None, merged)
    if shape.sampled:
        _move(wider.squares, counters[5], None, merged)
    size = int(models.size[model])
    for row in open_rows(expected, model).tolist():
        at = int(expected.periods.block[row])
        parts = [part.copy() for part in parts_of(before, expected.of_periods.counts, at)]
        give_block(expected, 1, old_size, at)
        expected, at = take_block(expected, 1, size, shape.of_period)
        expected.periods.block[row] = at
        for place, (to, part) in enumerate(zip(parts_of(shape, expected.of_periods.counts, at), parts)):
            _move(to, part, 2 if place % 3 == 1 or place > 5 else None, merged)
    if merged:
        models.classes[model] = 0
    return expected


def _move(to: Any, counts: Any, labels: int | None, merged: bool) -> None:
    """Copy counts to a wider table, or `merged` into its one row. `labels`: the axis of labels, if any."""
    if not merged:
        to[tuple(slice(length) for length in counts.shape)] = counts
        return
    for j in range(len(counts)):
        if labels is None:
            to[0] += counts[j]
            continue
        former, target = np.moveaxis(counts[j], labels - 1, 0), np.moveaxis(to[0], labels - 1, 0)
        for k in range(len(former)):
            target[int(k == j)] += former[k]
