"""What was measured of each model, as far back as a change may lie: outcomes in blocks, and predictions.

Of a model (and of its temporal correction) one stage is *watched*: `final` where it is evaluated, or else the
first. Its blocks hold what may tell causes apart, by label, predicted class, segment, label latency, version
and confidence: how many outcomes, and the sum of their losses. Beside them lie blocks of the model's
predictions: by predicted class how many there were, and how many of them have got their label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from prequential.core.compiled.kernel import (
    Bytes,
    Floats,
    Ints,
    Ints32,
    columns_of,
    grown,
    inlined,
    inner,
    kernel,
    records,
)
from prequential.core.detectors.signals import SQUARED_LOSS, WRONG
from prequential.core.incidents.blocks import (
    FEW_BLOCKS,
    MOST_BLOCKS,
    Pool,
    begin_block,
    cells_of,
    find_block,
    has_place,
    is_full,
    laid_out,
    new_pool,
    place_of,
    with_owners,
    without_owners,
)
from prequential.core.tables.events import MET, WAITS, Events
from prequential.core.tables.keys import Key, Table
from prequential.core.tables.outcomes import OUTCOME, SCORED, Log
from prequential.core.tables.streams import Entities

#: Classes with columns of their own; all others share the last one.
MOST_CLASSES = 16

#: Classes that there are columns for from the first outcome on.
_LEAST_CLASSES = 2

#: Segments of a model with columns of their own, the first ones that have outcomes.
MOST_SEGMENTS = 64

#: Versions of a model that are told apart at a time.
VERSIONS = 4

#: Label latencies: below 64 ms, 256 ms, 1 s, 4 s, 16 s, 1 min, … 3 d, and longer, each four times the last.
LATENCIES = 14
_SHORTEST_BITS = 6

#: Equal bins of confidence, the probability that the prediction was given: eight for two classes.
CONFIDENCES = 16

#: Columns of a block's cells: latencies, versions, confidences, then those of classes and of segments.
LATENCY, LATENCY_LOSS = 0, LATENCIES
VERSION, VERSION_LOSS = 2 * LATENCIES, 2 * LATENCIES + VERSIONS
CONFIDENCE = VERSION_LOSS + VERSIONS
CONFIDENCE_LOSS = CONFIDENCE + CONFIDENCES
CLASSES = CONFIDENCE_LOSS + CONFIDENCES

#: Columns of a class: outcomes with this label and their losses; of them those whose label repeats the one
#: before; outcomes with this prediction, and their losses.
LABELLED, LABELLED_LOSS, REPEATED, REPEATED_LOSS, PREDICTED, PREDICTED_LOSS = range(6)
PER_CLASS = 6

#: Columns of a segment: outcomes, losses.
PER_SEGMENT = 2

#: Columns of a predicted class in blocks of predictions: predictions, and those of them that have a label.
MADE, MET_LABEL = range(2)
PER_PREDICTED = 2

#: Why `follow` stops: all was read; an owner needs more columns or places; it is time to look at owners.
FOLLOWED, NEEDS_ROOM, LOOK_DUE = range(3)

#: A loss beyond it counts as it: sums of so large ones, and of their squares, stay finite.
LARGEST_LOSS = 1e30

#: No time or number to look at it.
NEVER = 1 << 62

#: Positions in `History.notes`: owners due; examples; of ROOM the owner, which of its pools lacks it, and how
#: many classes and segments must have columns; the record that made owners due.
DUE_COUNT, EXAMPLE_COUNT, WANTING, POOL, WANTED_CLASSES, WANTED_SEGMENTS, DUE_RECORD = range(7)
_OF_OUTCOMES, _OF_PREDICTIONS = range(2)


class Owners(NamedTuple):
    """By entity."""

    position: Ints32  # 1 + place of the watched stage among the entity's; 0: it has none
    owner: Ints32  # the entity whose blocks have its outcomes; of segments their model
    kind: Bytes  # of the loss
    slot: Ints32  # of segments: 1 + its columns' place; 0: none yet, -1: there are none left
    #: Of owners:
    model: Ints32  # whose predictions they are
    classes: Ints32  # with columns
    segments: Ints32  # with columns
    slots: Ints32  # that are given away
    label: Ints32  # 1 + the label before
    outcomes: Ints  # number of the newest
    newest: Ints  # largest label time that isn't ahead of the stream's clock, ms
    loss: Floats  # of the outcome before
    example: Ints  # number of the first outcome of the block that has an example
    predictions: Ints  # of a model
    newest_prediction: Ints  # likewise of prediction times
    check_number: Ints  # look at it when there are so many outcomes
    check_time: Ints  # … or label time is so late, ms


class History(NamedTuple):
    """All of a shard."""

    owners: Owners
    versions: Ints32  # (owners, VERSIONS): codes of versions, by column
    outcomes: Pool
    predictions: Pool
    due: Ints32  # owners
    examples: Ints32  # rows of the log
    notes: Ints


def new_history() -> History:
    """Nobody is known."""
    return History(
        records(Owners, 16), np.zeros((16, VERSIONS), np.int32),
        new_pool(summed=True), new_pool(summed=False),
        np.zeros(16, np.int32), np.zeros(16, np.int32), np.zeros(7, np.int64),
    )  # fmt: skip


#: Columns of owners that the configuration decides.
OWNER_SETTINGS = ("position", "owner", "kind", "model")

#: The pools of blocks.
POOLS = ("outcomes", "predictions")


def tables(history: History, entities: int) -> Iterator[Table]:
    """The tables that are state of so many entities, and what their rows stand for."""
    links = {"owner": Key.ENTITY, "model": Key.ENTITY}
    yield Table("incidents|owners|", Key.ENTITY, history.owners, entities, links=links)
    yield Table("incidents|versions", Key.ENTITY, history.versions, entities)
    links = {"first": Key.BLOCK, "cells": Key.BLOCK_CELL}
    for name in POOLS:
        pool: Pool = getattr(history, name)
        blocks, cells = pool.used.tolist()
        yield Table(f"incidents|{name}|lines|", Key.ENTITY, pool.lines, entities, links=links)
        yield Table(f"incidents|{name}|blocks|", Key.BLOCK, pool.blocks, blocks, (name,))
        if len(pool.sums):
            yield Table(f"incidents|{name}|sums|", Key.BLOCK, pool.sums, blocks, (name,))
        yield Table(f"incidents|{name}|cells", Key.BLOCK_CELL, pool.cells, cells, (name,))
        yield Table(f"incidents|{name}|used", Key.NONE, pool.used)


def with_entities(history: History, entities: int) -> History:
    """The history with rows for so many entities."""
    return history._replace(
        owners=grown(history.owners, entities), versions=grown(history.versions, entities),
        outcomes=with_owners(history.outcomes, entities),
        predictions=with_owners(history.predictions, entities),
    )  # fmt: skip


def without(history: History, entities: Sequence[int]) -> History:
    """The history without these entities; what comes of them is passed over."""
    for column in columns_of(history.owners).values():
        column[entities] = 0
    history.versions[entities] = 0
    return history._replace(
        outcomes=without_owners(history.outcomes, entities),
        predictions=without_owners(history.predictions, entities),
    )


def columns(classes: int, segments: int) -> int:
    """Cells of a block of outcomes."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segments


def column_of_segment(classes: int, segment: int) -> int:
    """The first column of a segment."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segment


def with_room(history: History) -> History:
    """The history with what the owner lacked at which `follow` stopped."""
    owners, notes = history.owners, history.notes
    owner, wanted = int(notes[WANTING]), int(notes[WANTED_CLASSES])
    if owners.kind[owner] == WRONG:
        wanted = max(_LEAST_CLASSES, wanted)  # one more is soon to come, and costs as much again
    if notes[POOL] == _OF_PREDICTIONS:
        pool = history.predictions
        before = int(pool.lines.width[owner])
        width = max(before, PER_PREDICTED * _power_of_two(wanted))
        same = [(cell, cell) for cell in range(before)]
        return history._replace(predictions=laid_out(pool, owner, _places(pool, owner), same, width))
    pool = history.outcomes
    classes, segments = int(owners.classes[owner]), int(owners.segments[owner])
    more, more_segments = max(classes, wanted), max(segments, int(notes[WANTED_SEGMENTS]))
    now = (
        _power_of_two(more) if more > classes else classes,
        _power_of_two(more_segments) if more_segments > segments else segments,
    )
    kept = [(cell, cell) for cell in range(CLASSES + PER_CLASS * classes)]
    old, new = column_of_segment(classes, 0), column_of_segment(now[0], 0)
    kept += [(old + cell, new + cell) for cell in range(PER_SEGMENT * segments)]
    pool = laid_out(
        pool, owner, _places(pool, owner), kept if pool.lines.width[owner] else [], columns(*now)
    )
    owners.classes[owner], owners.segments[owner] = now
    return history._replace(outcomes=pool)


def _places(pool: Pool, owner: int) -> int:
    """Places that an owner gets: more, if it has none left."""
    places = int(pool.lines.places[owner])
    return places if has_place(pool, owner) else MOST_BLOCKS if places else FEW_BLOCKS


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


@inner
def _lacks(history: History, owner: int, pool: int, classes: int, segments: int) -> bool:
    """Note what an owner lacks; False, as there is no room."""
    notes = history.notes
    notes[WANTING], notes[POOL] = owner, pool
    notes[WANTED_CLASSES], notes[WANTED_SEGMENTS] = classes, segments
    return False


@inlined
def latency_column(latency: int) -> int:
    """The column of a label latency (ms)."""
    left, column = latency >> _SHORTEST_BITS, 0
    while left > 0 and column < LATENCIES - 1:
        left >>= 2
        column += 1
    return column


@inlined
def class_column(code: int, classes: int) -> int:
    """The place of a class's columns, among so many."""
    return min(max(code, 0), classes - 1)


@kernel
def follow(
    history: History, log: Log, start: int, stop: int, events: Events, first: int, last: int,
    entities: Entities,
) -> tuple[int, int, int]:  # fmt: skip
    """Take over rows `start` to `stop` - 1 of the outcome log, and the events that came before each.

    Parameters
    ----------
    history
        The tables; updated.
    log, start, stop
        Outcomes.
    events, first, last
        What became of predictions; rows `first` to `last` - 1.
    entities
        The catalog's.

    Returns
    -------
    row, event : int
        The next ones.
    why : int
        Why it stopped: DONE; DUE, at the end of a record when owners are due; ROOM, if a table is full.
    """
    owners, notes = history.owners, history.notes
    i, e = start, first
    while i < stop:
        if notes[DUE_COUNT] and log.record[i] != notes[DUE_RECORD]:
            return i, e, LOOK_DUE
        while e < last and events.before[e] <= i:
            if not _event(history, events, e):
                return i, e, NEEDS_ROOM
            e += 1
        entity = log.entity[i]
        place = owners.position[entity]
        if place and log.kind[i] == OUTCOME and log.sequence[i] - entities.first[entity] == place - 1:
            owner = owners.owner[entity]
            if owner == entity:
                if not _outcome(history, log, i, owner):
                    return i, e, NEEDS_ROOM
            elif not _in_segment(history, log, i, owner, entity):
                return i, e, NEEDS_ROOM
        i += 1
    return i, e, LOOK_DUE if notes[DUE_COUNT] else FOLLOWED


@kernel
def follow_events(history: History, events: Events, first: int, last: int) -> tuple[int, int]:
    """Take over events `first` to `last` - 1, behind all outcomes.

    Returns the next one, and why it stopped: DONE, or ROOM, if a table is full.
    """
    for e in range(first, last):
        if not _event(history, events, e):
            return e, NEEDS_ROOM
    return last, FOLLOWED


@inlined
def _loss(log: Log, i: int, kind: int) -> float:
    if kind == WRONG:
        return 1.0 if log.label[i] != log.prediction[i] else 0.0
    error = min(abs(log.error[i]), LARGEST_LOSS)
    return min(error * error, LARGEST_LOSS) if kind == SQUARED_LOSS else error


@inlined
def _add(pool: Pool, cell: int, by: float) -> None:
    pool.cells[cell] = np.float64(pool.cells[cell]) + by


@inlined
def _outcome(history: History, log: Log, i: int, owner: int) -> bool:
    """An outcome of an owner; False if there is no room for it."""
    owners, pool = history.owners, history.outcomes
    blocks, sums, kind = pool.blocks, pool.sums, owners.kind[owner]
    classes = owners.classes[owner]
    wanted = min(MOST_CLASSES, 1 + max(log.label[i], log.prediction[i])) if kind == WRONG else 0
    full = is_full(pool, owner)
    # One wrong time, in µs for instance, would have all others behind it.
    t1, ts = min(log.t1[i], log.clock[i]), min(log.ts[i], log.clock[i])
    if wanted > classes or pool.lines.width[owner] == 0 or (full and not has_place(pool, owner)):
        return _lacks(history, owner, _OF_OUTCOMES, wanted, 0)
    if full:
        place = begin_block(pool, owner, log.number[i])
        sums.t1[place], blocks.ts[place] = t1, ts
    else:
        place = place_of(pool, owner, pool.lines.used[owner] - 1)
    loss, before = _loss(log, i, kind), owners.loss[owner]
    number, bits = log.number[i], log.bits[i]
    blocks.n[place] += 1
    sums.persistent[place] += bits >> 1
    sums.majority[place] += bits & 1
    sums.lag[place] += t1 - ts
    sums.loss[place] += loss
    sums.squares[place] += loss * loss
    sums.products[place] += loss * before
    start = cells_of(pool, owner, place)
    latency = latency_column(log.latency[i])
    _add(pool, start + LATENCY + latency, 1.0)
    _add(pool, start + LATENCY_LOSS + latency, loss)
    if log.version[i]:
        version = _version_column(history, owner, log.version[i])
        _add(pool, start + VERSION + version, 1.0)
        _add(pool, start + VERSION_LOSS + version, loss)
    if classes:
        if log.scored[i] & SCORED:
            confidence = min(CONFIDENCES - 1, int(CONFIDENCES * log.confidence[i]))
            _add(pool, start + CONFIDENCE + confidence, 1.0)
            _add(pool, start + CONFIDENCE_LOSS + confidence, loss)
        column = start + CLASSES + PER_CLASS * class_column(log.label[i], classes)
        _add(pool, column + LABELLED, 1.0)
        _add(pool, column + LABELLED_LOSS, loss)
        if owners.label[owner] == log.label[i] + 1:
            _add(pool, column + REPEATED, 1.0)
            _add(pool, column + REPEATED_LOSS, loss)
        other = start + CLASSES + PER_CLASS * class_column(log.prediction[i], classes)
        _add(pool, other + PREDICTED, 1.0)
        _add(pool, other + PREDICTED_LOSS, loss)
    owners.label[owner] = log.label[i] + 1
    owners.loss[owner] = loss
    owners.outcomes[owner] = number
    if number == 1 or t1 > owners.newest[owner]:
        owners.newest[owner] = t1
    if _is_example(history, owner, place, loss, kind):
        owners.example[owner] = blocks.number[place]
        history.examples[history.notes[EXAMPLE_COUNT]] = i
        history.notes[EXAMPLE_COUNT] += 1
    if number >= owners.check_number[owner] or owners.newest[owner] >= owners.check_time[owner]:
        owners.check_number[owner] = owners.check_time[owner] = NEVER
        history.due[history.notes[DUE_COUNT]] = owner
        history.notes[DUE_COUNT] += 1
        history.notes[DUE_RECORD] = log.record[i]
    return True


@inlined
def _is_example(history: History, owner: int, place: int, loss: float, kind: int) -> bool:
    """Whether an outcome is the first bad one of its block: wrong, or of a loss above the block's mean."""
    blocks, sums = history.outcomes.blocks, history.outcomes.sums
    if history.owners.example[owner] == blocks.number[place]:
        return False
    return loss > 0.0 and (kind == WRONG or loss * blocks.n[place] > sums.loss[place])


@inner
def _version_column(history: History, owner: int, version: int) -> int:
    """The column of a version; one that has none gets that of the one known longest, which is forgotten."""
    codes = history.versions
    oldest = 0
    for column in range(VERSIONS):
        if codes[owner, column] == version:
            return column
        if codes[owner, column] < codes[owner, oldest]:
            oldest = column
    if codes[owner, oldest]:
        pool = history.outcomes
        for k in range(pool.lines.used[owner]):
            start = cells_of(pool, owner, place_of(pool, owner, k))
            pool.cells[start + VERSION + oldest] = pool.cells[start + VERSION_LOSS + oldest] = 0.0
    codes[owner, oldest] = version
    return oldest


@inner
def _in_segment(history: History, log: Log, i: int, owner: int, entity: int) -> bool:
    """The owner's newest outcome is in a segment, too; False if there is no column for it."""
    owners, pool = history.owners, history.outcomes
    if owners.slot[entity] == 0:
        if owners.slots[owner] >= MOST_SEGMENTS:
            owners.slot[entity] = -1
        else:
            owners.slots[owner] += 1
            owners.slot[entity] = owners.slots[owner]
    slot = owners.slot[entity]
    if slot < 0:
        return True
    if slot > owners.segments[owner]:
        return _lacks(history, owner, _OF_OUTCOMES, 0, slot)
    used = pool.lines.used[owner]
    if used:
        start = cells_of(pool, owner, place_of(pool, owner, used - 1))
        column = start + CLASSES + PER_CLASS * owners.classes[owner] + PER_SEGMENT * (slot - 1)
        _add(pool, column, 1.0)
        _add(pool, column + 1, _loss(log, i, owners.kind[owner]))
    return True


@inlined
def _event(history: History, events: Events, e: int) -> bool:
    """A prediction was made or got its label; False if there is no room for it."""
    owners, pool = history.owners, history.predictions
    model, kind = events.model[e], events.kind[e]
    if (kind != WAITS and kind != MET) or not owners.position[model]:
        return True
    classes = pool.lines.width[model] // PER_PREDICTED
    code = events.prediction[e] if owners.kind[model] == WRONG else 0
    full = kind == WAITS and is_full(pool, model)
    if (code >= classes and classes < MOST_CLASSES) or (full and not has_place(pool, model)):
        return _lacks(history, model, _OF_PREDICTIONS, min(MOST_CLASSES, code + 1), 0)
    column = PER_PREDICTED * class_column(code, classes)
    if kind == WAITS:
        ts = min(events.ts[e], events.t1[e])
        if full:
            place = begin_block(pool, model, owners.predictions[model] + 1)
            if owners.predictions[model] == 0 or ts > owners.newest_prediction[model]:
                owners.newest_prediction[model] = ts
            pool.blocks.ts[place] = owners.newest_prediction[model]
        else:
            place = place_of(pool, model, pool.lines.used[model] - 1)
        owners.predictions[model] += 1
        pool.blocks.n[place] += 1
        owners.newest_prediction[model] = max(owners.newest_prediction[model], ts)
        _add(pool, cells_of(pool, model, place) + column + MADE, 1.0)
    else:
        place = find_block(pool, model, events.ts[e])
        if place >= 0:
            _add(pool, cells_of(pool, model, place) + column + MET_LABEL, 1.0)
    return True


# ---- read


class Blocks(NamedTuple):
    """An owner's blocks in order, the oldest first."""

    number: Ints
    n: Ints
    persistent: Ints
    majority: Ints
    t1: Ints
    ts: Ints
    lag: Floats
    loss: Floats
    squares: Floats
    products: Floats
    cells: Any  # (blocks, columns)


def read(pool: Pool, owner: int) -> Blocks:
    """An owner's blocks; of predictions sums are 0."""
    lines = pool.lines
    first, used, places = int(lines.first[owner]), int(lines.used[owner]), int(lines.places[owner])
    width, start = int(lines.width[owner]), int(lines.cells[owner])
    order = pool.blocks.order[first : first + used].astype(np.int64)
    rows = first + order
    cells = pool.cells[start : start + places * width].reshape(places, width)[order].astype(np.float64)
    blocks, sums = cast("Any", pool.blocks), cast("Any", pool.sums)
    sums = sums[rows] if len(sums) else np.zeros(used, sums.dtype)
    known = columns_of(blocks[rows]) | columns_of(sums)
    fields: Any = (known[name] for name in Blocks._fields[:-1])
    wide = [field.astype(np.int64) if field.dtype == np.int32 else field for field in fields]
    return Blocks._make((*wide, cells))
