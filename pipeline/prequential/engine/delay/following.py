"""How the counters for estimates of periods (see `expected`) lie in blocks, and follow the log of events.

There are J predicted classes, K labels, B confidence bins and S slots. The last axis varies fastest.

```
block of a model, floats
    classes  expired  delays       levels     losses                  or squares  ranks
    J·B·K    J·B      J·K·BUCKETS  J·K·LEVEL  J·B·K·(1 + their number)   J·B      J·SCORE_BINS·K

block of a period, integers
    by stratum (j, b)       by class and slot       floats of four bytes
    made  met    expired    made  met    expired    weights  squares      waiting
    J·B   J·B·K  J·B        J·S   J·S·K  J·S        J·B·K    J·B·K        J·SCORE_BINS
```

Weights and squares are there if labels are sampled, ranks and waiting if ranks are estimated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints32, inner, kernel
from prequential.engine.compiled.pool import find
from prequential.engine.delay import expected as blocks
from prequential.engine.delay.calendars import end_of, start_of
from prequential.engine.delay.expected import BUCKETS, SLOTS, ExpectedModels, ExpectedTables
from prequential.engine.tables.logs import EXPIRED, LATE, MET, REVISED, WAITS, Events
from prequential.engine.tables.outcomes import SCORED as HAS_SCORE
from prequential.engine.tables.outcomes import WEIGHTED as HAS_WEIGHT
from prequential.engine.tables.scores import SCORE_BINS
from prequential.engine.tables.store import NO_CLASS


class ModelPlaces(NamedTuple):
    """The first place of each part of a model's block."""

    classes: int
    expired: int
    delays: int
    levels: int
    beyond: int  # losses or squares


class PeriodPlaces(NamedTuple):
    """The first place of each part of a period's block."""

    made: int
    met: int
    expired: int
    slot_made: int
    slot_met: int
    slot_expired: int
    weights: int
    squares: int


@inner
def places_of_model(block: int, predicted: int, labels: int, bins: int) -> ModelPlaces:
    """The parts of a model's block, which begins at `block`."""
    expired = block + predicted * bins * labels
    delays = expired + predicted * bins
    levels = delays + predicted * labels * BUCKETS
    return ModelPlaces(block, expired, delays, levels, levels + predicted * labels * blocks.LEVEL)


@inner
def places_of_period(block: int, predicted: int, labels: int, bins: int) -> PeriodPlaces:
    """The parts of a period's block, which begins at `block`."""
    strata, slots = predicted * bins, predicted * SLOTS
    by_slot = block + strata * (labels + 2)
    weights = by_slot + slots * (labels + 2)
    return PeriodPlaces(
        block, block + strata, block + strata * (labels + 1),
        by_slot, by_slot + slots, by_slot + slots * (labels + 1),
        weights, weights + strata * labels,
    )  # fmt: skip


#: Why an update stops: the tables need a model's block, more classes, or room for a period.
_BLOCK, _CLASSES, _PERIOD = range(1, 4)

#: After this many outcomes of a model, all of its counts fade at once.
FADE_EVERY = 256

#: How many outcomes counts remember, and how many delays and scores do: those change sooner. A period's own
#: `auc` varies far more than that of so many outcomes.
MEMORY, MEMORY_OF_DELAYS, MEMORY_OF_RANKS = 20_000, 10_000, 5_000


def _fading(memory: int) -> float:
    """(1 - 1/memory)^256, by multiplication: the same on every machine."""
    factor = 1.0
    for _ in range(FADE_EVERY):
        factor *= 1.0 - 1.0 / memory
    return factor


FADING, FADING_OF_DELAYS, FADING_OF_RANKS = map(_fading, (MEMORY, MEMORY_OF_DELAYS, MEMORY_OF_RANKS))


def update(expected: ExpectedTables, events: Events, start: int, stop: int) -> ExpectedTables:
    """Follow the events of predictions in rows `start` to `stop` of the log.

    Returns the tables, maybe with more rows.

    >>> from prequential.engine.delay.calendars import PeriodSettings
    >>> from prequential.engine.delay.expected import new_expected, with_model
    >>> from prequential.engine.tables.logs import new_events
    >>> settings = PeriodSettings(width=1_000, horizon=8_000)
    >>> tables, _ = with_model(new_expected(), 0, settings, binned=False, scored=False)
    >>> events = new_events(4)
    >>> events.kind[:], events.ts[:] = [WAITS, WAITS, MET, EXPIRED], [10, 20, 10, 20]
    >>> events.t1[2], events.label[2] = 1_010, 1
    >>> tables = update(tables, events, 0, 4)
    >>> own = blocks.counters_of(tables, 0)
    >>> own.classes[0, 0].tolist(), own.expired.tolist(), int(own.delays[0, 1].argmax())
    ([0.0, 1.0], [[1.0], [0.0]], 29)
    """
    while (start := _update(expected, blocks.EDGES, events, start, stop)) < stop:
        model, wants = int(events.model[start]), int(expected.wants[0])
        if wants == _BLOCK:
            expected = blocks.begin(expected, model)
            expected.models.since[model] = events.ts[start]
        elif wants == _CLASSES:
            expected = _widen(expected, model)
        else:
            expected = blocks.with_room_for_period(expected, model)
    return expected


@inner
def _place_of(models: ExpectedModels, model: int, code: int, capacity: int) -> int:
    """Place of a class among those of a model; a new class gets the next place. -1: none is left."""
    count = np.int64(models.classes[model])
    for index in range(count):
        if models.codes[model, index] == code:
            return index
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


class _Followed(NamedTuple):
    """An event by the places of its classes, and the sizes of its model's blocks."""

    kind: int
    j: int  # of the predicted class
    k: int  # of the label that it got, or had before a revision
    revised: int  # of the label that a revision gave it
    stratum: int  # j·B + its confidence bin
    rank: int  # j·SCORE_BINS + its score bin; -1: ranks aren't estimated, or it has no score
    had: bool  # whether `k` is there; else the label was withdrawn before, or there is none
    has: bool  # whether `revised` is there
    weight: float  # of its label: 1/π
    predicted: int  # J, as in a block's layout
    labels: int  # K
    bins: int  # B


@kernel
def _update(expected: ExpectedTables, edges: Floats, events: Events, start: int, stop: int) -> int:
    """Follow the log; returns the row that needs something in the tables, or `stop`."""
    models, wants = expected.models, expected.wants
    weights = expected.of_periods.counts.view(np.float32)
    for i in range(start, stop):
        model = np.int64(events.model[i])
        if models.width[model] == 0:
            continue
        if models.block[model] == 0:
            wants[0] = _BLOCK
            return i
        event = _read(models, model, events, i)
        if min(event.j, event.k, event.revised) < 0:
            wants[0] = _CLASSES
            return i
        _count_in_model(models, model, expected.of_models.counts, edges, events, i, event)
        if not _count_in_period(expected, model, weights, events, i, event):
            # The event has only added 0 so far, so it can be processed again.
            wants[0] = _PERIOD
            return i
    return stop


@inner
def _read(models: ExpectedModels, model: int, events: Events, i: int) -> _Followed:
    """Find the places of an event's classes; a place of -1: the model's blocks have too few."""
    layout, kind = np.int64(models.layout[model]), np.int64(events.kind[i])
    predicted, labels, bins = blocks.PREDICTED[layout], blocks.LABELS[layout], np.int64(models.bins[model])
    had = kind == MET or (kind == REVISED and events.label[i] != NO_CLASS)
    has = kind == REVISED and events.revised[i] != NO_CLASS
    j = k = revised = 0
    if layout == blocks.RIGHT_WRONG:
        k = 1 if had and events.label[i] == events.prediction[i] else 0
        revised = 1 if has and events.revised[i] == events.prediction[i] else 0
    elif layout != blocks.NUMBERS:
        j = _place_of(models, model, np.int64(events.prediction[i]), predicted)
        if had:
            k = _place_of(models, model, np.int64(events.label[i]), predicted)
        if has:
            revised = _place_of(models, model, np.int64(events.revised[i]), predicted)
    stratum = j * bins + (np.int64(events.bin[i]) if bins > 1 else 0)
    rank = -1
    if models.ranked[model] and layout == blocks.TWO and events.score[i]:
        rank = j * SCORE_BINS + np.int64(events.score[i]) - 1
    weight = 1.0
    if models.sampled[model] and kind in (MET, REVISED) and events.scored[i] & HAS_WEIGHT:
        weight = events.weight[i]
    return _Followed(kind, j, k, revised, stratum, rank, had, has, weight, predicted, labels, bins)


@inner
def _count_in_model(
    models: ExpectedModels, model: int, faded: Floats, edges: Floats, events: Events, i: int,
    event: _Followed,
) -> None:  # fmt: skip
    """Add an event to its model's counters."""
    places = places_of_model(models.block[model], event.predicted, event.labels, event.bins)
    losses, sampled = np.int64(models.losses[model]), np.int64(models.sampled[model])
    of_stratum = event.labels * (1 + losses) if losses else sampled
    beyond = event.predicted * event.bins * of_stratum
    cell = places.classes + event.stratum * event.labels
    rank = places.beyond + beyond + event.rank * event.labels
    if event.kind == EXPIRED:
        faded[places.expired + event.stratum] += 1.0
    elif event.kind == REVISED:
        _move_label(faded, cell, event, event.weight)
        if event.rank >= 0:
            _move_label(faded, rank, event, 1.0)
    elif event.kind == MET:
        faded[cell + event.k] += event.weight
        if event.rank >= 0:
            faded[rank + event.k] += 1.0
        if not events.at_horizon[i]:  # else it has no delay: it is known at the horizon
            delay = float(events.t1[i] - events.ts[i]) / float(models.horizon[model])
            delays = places.delays + (event.j * event.labels + event.k) * BUCKETS
            faded[delays + bucket_of(edges, delay)] += 1.0
        if losses and events.scored[i] & HAS_SCORE:
            sums = places.beyond + (event.stratum * event.labels + event.k) * (1 + losses)
            _add_losses(faded, sums, events, i, models.layout[model] == blocks.NUMBERS)
        if sampled:
            faded[places.beyond + event.stratum] += event.weight * event.weight
        models.outcomes[model] += 1
        if models.outcomes[model] % FADE_EVERY == 0:
            is_ranked = models.ranked[model] and models.layout[model] == blocks.TWO
            _fade(faded, places, beyond, event.predicted * SCORE_BINS * event.labels if is_ranked else 0)


@inner
def _add_losses(faded: Floats, sums: int, events: Events, i: int, numbers: bool) -> None:
    """Add an outcome's losses to the sums of its stratum and label: how many, then each loss."""
    faded[sums] += 1.0
    if numbers:
        faded[sums + 1] += abs(events.error[i])
        faded[sums + 2] += events.error[i] * events.error[i]
        faded[sums + 3] += events.error[i]
    else:
        faded[sums + 1] += events.log_loss[i]
        faded[sums + 2] += events.brier[i]


@inner
def _count_in_period(
    expected: ExpectedTables, model: int, weights: Any, events: Events, i: int, event: _Followed
) -> bool:
    """Add an event to its period, which a prediction opens; returns False if there is no room for it."""
    models, calendars, counts = expected.models, expected.calendars, expected.of_periods.counts
    calendar, width = np.int64(models.calendar[model]), models.width[model]
    begins = start_of(calendars, calendar, width, events.ts[i])
    if begins < models.begin[model]:
        return True
    row = find(expected.pool, model, begins)
    if row == 0 and event.kind == WAITS:
        ranked = models.ranked[model] if models.layout[model] == blocks.TWO else 0
        length = blocks.length_of_period(
            event.predicted, event.labels, event.bins, np.int64(models.sampled[model]), np.int64(ranked)
        )
        row = blocks.open_period(expected, model, begins, length)
    if row == 0:
        return event.kind != WAITS
    block = expected.periods.block[row]
    if block == 0:
        return True
    places = places_of_period(block, event.predicted, event.labels, event.bins)
    slot = (events.ts[i] - begins) * SLOTS // (end_of(calendars, calendar, width, begins) - begins)
    _count_in(counts, places.made, places.met, places.expired, event.stratum, event)
    _count_in(counts, places.slot_made, places.slot_met, places.slot_expired, event.j * SLOTS + slot, event)
    if event.rank >= 0:  # labels aren't sampled
        counts[places.weights + event.rank] += _more_waiting(event)
    if models.sampled[model] and event.kind in (MET, REVISED):
        cell, square = (
            places.weights + event.stratum * event.labels,
            places.squares + event.stratum * event.labels,
        )
        if event.kind == MET:
            weights[cell + event.k] += event.weight
            weights[square + event.k] += event.weight * event.weight
        elif not event.had or weights[cell + event.k] > 0.0:
            _move_label(weights, cell, event, event.weight)
            _move_label(weights, square, event, event.weight * event.weight)
    return True


@inner
def _count_in(counts: Ints32, made: int, met: int, expired: int, position: int, event: _Followed) -> None:
    """Count an event in a stratum or slot, which is at `position` in each of these parts of its period."""
    cell = met + position * event.labels
    if event.kind == WAITS:
        counts[made + position] += 1
    elif event.kind == LATE:
        counts[made + position] -= 1
    elif event.kind == EXPIRED:
        counts[expired + position] += 1
    elif event.kind == MET:
        counts[cell + event.k] += 1
    elif not event.had or counts[cell + event.k]:  # else it met its label before the counters existed
        if event.had:
            counts[cell + event.k] -= 1
        if event.has:
            counts[cell + event.revised] += 1


@inner
def _more_waiting(event: _Followed) -> int:
    """By how many an event changes the number of pending predictions."""
    if event.kind == WAITS:
        return 1
    if event.kind == REVISED:
        return int(event.had) - int(event.has)
    return -1


@inner
def _move_label(sums: Any, cell: int, event: _Followed, amount: float) -> None:
    """Move an amount from the label before a revision, as far as it has one, to the label now."""
    if event.had:
        amount = min(amount, float(sums[cell + event.k]))
        sums[cell + event.k] -= amount
    if event.has:
        sums[cell + event.revised] += amount


@inner
def _fade(faded: Floats, places: ModelPlaces, beyond: int, of_ranks: int) -> None:
    """Fade all of a model's counts, also those `beyond` its levels and those of ranks; the levels stay."""
    for cell in range(places.classes, places.delays):
        faded[cell] *= FADING
    for cell in range(places.delays, places.levels):
        faded[cell] *= FADING_OF_DELAYS
    for cell in range(places.beyond, places.beyond + beyond):
        faded[cell] *= FADING
    for cell in range(places.beyond + beyond, places.beyond + beyond + of_ranks):
        faded[cell] *= FADING_OF_RANKS


# ---- more classes


def _widen(expected: ExpectedTables, model: int) -> ExpectedTables:
    """Make room for more classes in the blocks; beyond the largest number, only right and wrong remain."""
    models = expected.models
    before, old_size, old = blocks.shape_of(models, model), int(models.size[model]), int(models.block[model])
    counters = [part.copy() for part in blocks.counters_of(expected, model)]
    blocks.give_model_block(expected, old_size, old)
    merged = models.layout[model] == blocks.EIGHT
    models.layout[model] = blocks.RIGHT_WRONG if merged else models.layout[model] + 1
    expected = blocks.begin(expected, model)
    shape, wider = blocks.shape_of(models, model), blocks.counters_of(expected, model)
    _move(wider.classes, counters[0], 2, merged)
    _move(wider.expired, counters[1], None, merged)
    _move(wider.delays, counters[2], 1, merged)
    if not merged:
        wider.levels[: before.predicted, : before.labels] = counters[3]
    if shape.losses:
        _move(wider.losses, counters[4], 2, merged)
    if shape.sampled:
        _move(wider.squares, counters[5], None, merged)
    size = int(models.size[model])
    for row in blocks.open_rows(expected, model).tolist():
        block = int(expected.periods.block[row])
        parts = [part.copy() for part in blocks.parts_of(before, expected.of_periods.counts, block)]
        blocks.give_period_block(expected, old_size, block)
        expected, block = blocks.take_period_block(expected, size, shape.of_period)
        expected.periods.block[row] = block
        wide = blocks.parts_of(shape, expected.of_periods.counts, block)
        for index, (to, part) in enumerate(zip(wide, parts)):
            _move(to, part, 2 if index % 3 == 1 or index > 5 else None, merged)
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
