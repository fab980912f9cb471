"""Enter a shard's outcomes, and the fate of its predictions, in the clusters of its models."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import inlined, inner, kernel
from prequential.engine.incidents.closing import is_due
from prequential.engine.incidents.clusters import (
    NO_PLACE,
    ClusterPool,
    cells_of,
    find_cluster,
    key_of,
    part_for,
    place_for,
    place_of,
)
from prequential.engine.incidents.history import (
    CLASSES,
    CONFIDENCE,
    CONFIDENCE_LOSS,
    CONFIDENCES,
    DUE_COUNT,
    DUE_RECORD,
    EXAMPLE_COUNT,
    LABELLED,
    LABELLED_LOSS,
    LATENCY,
    LATENCY_LOSS,
    MADE,
    MET_LABEL,
    MOST_CLASSES,
    MOST_SEGMENTS,
    NEVER,
    OF_OUTCOMES,
    OF_PARTS,
    OF_PREDICTIONS,
    PER_CLASS,
    PER_PREDICTED,
    PER_SEGMENT,
    POOL,
    PREDICTED,
    PREDICTED_LOSS,
    REPEATED,
    REPEATED_LOSS,
    VERSION,
    VERSION_LOSS,
    VERSIONS,
    WANTED_CLASSES,
    WANTED_SEGMENTS,
    WANTING,
    ClusterHistory,
    class_column,
    latency_column,
)
from prequential.engine.incidents.lasting import LEAST_OUTCOMES, LEAST_USUAL
from prequential.engine.measures.losses import own_loss
from prequential.engine.measures.positive import Positives
from prequential.engine.tables.events import MET, WAITS, Events
from prequential.engine.tables.outcomes import OUTCOME, SCORED, Log
from prequential.engine.tables.streams import Entities

#: Why `follow` stops: all was read; an owner needs more columns or places; clusters are closed.
FOLLOWED, NEEDS_ROOM, LOOK_DUE = range(3)

#: A loss beyond it counts as it: sums of so large ones, and of their squares, stay finite.
LARGEST_LOSS = 1e30


@kernel
def follow(
    history: ClusterHistory, log: Log, start: int, stop: int, events: Events, first: int, last: int,
    entities: Entities, positives: Positives, untimed: bool,
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
    entities, positives
        The catalog's, by streams.
    untimed
        Whether times are numbers of rows.

    Returns
    -------
    row, event : int
        The next ones.
    why : int
        FOLLOWED; LOOK_DUE, at the end of a record when owners are due; NEEDS_ROOM, if a table is full.
    """
    owners, notes = history.owners, history.notes
    i, e = start, first
    while i < stop:
        if notes[DUE_COUNT] and log.record[i] != notes[DUE_RECORD]:
            return i, e, LOOK_DUE
        while e < last and events.before[e] <= i:
            if not _event(history, events, e, untimed):
                return i, e, NEEDS_ROOM
            e += 1
        entity = log.entity[i]
        place = owners.position[entity]
        if place and log.kind[i] == OUTCOME and log.sequence[i] - entities.first[entity] == place - 1:
            owner = owners.owner[entity]
            if owner == entity:
                if not _outcome(history, log, i, owner, positives, entities.stream[owner], untimed):
                    return i, e, NEEDS_ROOM
            elif not _in_segment(history, owner, entity):
                return i, e, NEEDS_ROOM
        i += 1
    return i, e, LOOK_DUE if notes[DUE_COUNT] else FOLLOWED


@kernel
def follow_events(
    history: ClusterHistory, events: Events, first: int, last: int, untimed: bool
) -> tuple[int, int]:
    """Take over events `first` to `last` - 1, behind all outcomes.

    Returns the next one, and why it stopped: FOLLOWED, or NEEDS_ROOM, if a table is full.
    """
    for e in range(first, last):
        if not _event(history, events, e, untimed):
            return e, NEEDS_ROOM
    return last, FOLLOWED


@inner
def _lacks(history: ClusterHistory, owner: int, pool: int, classes: int, segments: int) -> bool:
    """Note what an owner lacks; False, as there is no room."""
    notes = history.notes
    notes[WANTING], notes[POOL] = owner, pool
    notes[WANTED_CLASSES], notes[WANTED_SEGMENTS] = classes, segments
    return False


@inlined
def _times(log: Log, i: int, untimed: bool) -> tuple[int, int]:
    """Prediction and label time (ms) of an outcome; where records have no times, its number.

    One wrong time, in µs for instance, would have all others behind it: none is ahead of the clock.
    """
    if untimed:
        return log.number[i], log.number[i]
    return min(log.ts[i], log.clock[i]), min(log.t1[i], log.clock[i])


@inlined
def _outcome(
    history: ClusterHistory, log: Log, i: int, owner: int, positives: Positives, stream: int, untimed: bool
) -> bool:
    """An outcome of an owner, which counts if it has the watched loss; False if there is no room for it."""
    owners, pool = history.owners, history.outcomes
    ts, t1 = _times(log, i, untimed)
    loss, counts = own_loss(owners.measure[owner], log, i, positives, stream)
    owners.cluster[owner] = NEVER
    if counts:
        classes, wanted = owners.classes[owner], 0
        if owners.of_classes[owner]:
            wanted = min(MOST_CLASSES, 1 + max(log.label[i], log.prediction[i]))
        if wanted > classes or pool.lines.width[owner] == 0:
            return _lacks(history, owner, OF_OUTCOMES, wanted, 0)
        place = place_for(pool, owner, ts, log.number[i], owners.fixed[owner], untimed)
        if place == NO_PLACE:
            return _lacks(history, owner, OF_OUTCOMES, wanted, 0)
        part = part_for(
            history.parts, owner, ts, log.number[i], owners.fixed[owner], pool.lines.doubled[owner]
        )
        if part == NO_PLACE:
            return _lacks(history, owner, OF_PARTS, 0, 0)
        loss = min(max(loss, -LARGEST_LOSS), LARGEST_LOSS)
        if part >= 0:
            _add_to_part(history.parts, part, t1, loss)
        if place >= 0:
            owners.cluster[owner] = pool.blocks.key[place]
            _measure(history, log, i, owner, place, loss, untimed)
        owners.loss[owner] = loss
    owners.label[owner] = log.label[i] + 1
    owners.outcomes[owner] = log.number[i]
    if log.number[i] == 1 or t1 > owners.newest[owner]:
        owners.newest[owner] = t1
    enough = pool.lines.entries[owner] >= LEAST_USUAL * LEAST_OUTCOMES
    if enough and owners.newest[owner] >= owners.check_time[owner] and is_due(history, owner, untimed):
        history.due[history.notes[DUE_COUNT]] = owner
        history.notes[DUE_COUNT] += 1
        history.notes[DUE_RECORD] = log.record[i]
    return True


@inlined
def _add_to_part(parts: ClusterPool, part: int, t1: int, loss: float) -> None:
    """Add an outcome to a part of its cluster."""
    if parts.blocks.n[part] == 0:
        parts.sums.t1[part] = t1
    parts.blocks.n[part] += 1
    parts.sums.loss[part] += loss


@inner
def _measure(
    history: ClusterHistory, log: Log, i: int, owner: int, place: int, loss: float, untimed: bool
) -> None:
    """Add an outcome to its cluster."""
    owners, pool = history.owners, history.outcomes
    blocks, sums, classes = pool.blocks, pool.sums, owners.classes[owner]
    ts, t1 = _times(log, i, untimed)
    if blocks.n[place] == 0:
        sums.t1[place] = t1
    before, bits = owners.loss[owner], log.bits[i]
    blocks.n[place] += 1
    pool.lines.entries[owner] += 1
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
    if _is_example(history, owner, place, loss, owners.binary[owner] > 0):
        owners.example[owner] = blocks.number[place]
        history.examples[history.notes[EXAMPLE_COUNT]] = i
        history.notes[EXAMPLE_COUNT] += 1


@inlined
def _add(pool: ClusterPool, cell: int, by: float) -> None:
    pool.cells[cell] = np.float64(pool.cells[cell]) + by


@inlined
def _is_example(history: ClusterHistory, owner: int, place: int, loss: float, binary: bool) -> bool:
    """Whether an outcome is the first bad one of its cluster: wrong, or of a loss above its mean."""
    blocks, sums = history.outcomes.blocks, history.outcomes.sums
    if history.owners.example[owner] == blocks.number[place]:
        return False
    return loss > 0.0 and (binary or loss * blocks.n[place] > sums.loss[place])


@inner
def _version_column(history: ClusterHistory, owner: int, version: int) -> int:
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
def _in_segment(history: ClusterHistory, owner: int, entity: int) -> bool:
    """Also count the owner's newest outcome in a segment; False if there is no column for it."""
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
        return _lacks(history, owner, OF_OUTCOMES, 0, slot)
    place = find_cluster(pool, owner, owners.cluster[owner]) if owners.cluster[owner] != NEVER else -1
    if place >= 0:
        start = cells_of(pool, owner, place)
        column = start + CLASSES + PER_CLASS * owners.classes[owner] + PER_SEGMENT * (slot - 1)
        _add(pool, column, 1.0)
        _add(pool, column + 1, owners.loss[owner])
    return True


@inlined
def _event(history: ClusterHistory, events: Events, e: int, untimed: bool) -> bool:
    """A prediction was made or got its label; False if there is no room for it.

    Where records have no times, nothing is known of when predictions were made.
    """
    if untimed:
        return True
    owners, pool = history.owners, history.predictions
    model, kind = events.model[e], events.kind[e]
    if (kind != WAITS and kind != MET) or not owners.position[model]:
        return True
    classes = pool.lines.width[model] // PER_PREDICTED
    code = events.prediction[e] if owners.of_classes[model] else 0
    if code >= classes and classes < MOST_CLASSES:
        return _lacks(history, model, OF_PREDICTIONS, min(MOST_CLASSES, code + 1), 0)
    column = PER_PREDICTED * class_column(code, classes)
    fixed = owners.fixed[model]
    if kind == WAITS:
        ts = min(events.ts[e], events.t1[e])
        place = place_for(pool, model, ts, owners.predictions[model] + 1, fixed, untimed)
        if place == NO_PLACE:
            return _lacks(history, model, OF_PREDICTIONS, min(MOST_CLASSES, code + 1), 0)
        owners.predictions[model] += 1
        if place >= 0:
            pool.blocks.n[place] += 1
            pool.lines.entries[model] += 1
            _add(pool, cells_of(pool, model, place) + column + MADE, 1.0)
    else:
        place = find_cluster(pool, model, key_of(events.ts[e], fixed, pool.lines.doubled[model]))
        if place >= 0:
            _add(pool, cells_of(pool, model, place) + column + MET_LABEL, 1.0)
    return True
