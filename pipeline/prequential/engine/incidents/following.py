"""Enter a shard's outcomes, and the fate of its predictions, in clusters; and close labelled clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner, kernel
from prequential.engine.incidents import clusters
from prequential.engine.incidents import history as layout
from prequential.engine.incidents.clusters import ClusterPool, cells_of, key_of, length_of, place_of
from prequential.engine.incidents.evidence import WHOLE_DAYS
from prequential.engine.incidents.history import NEVER, ClusterHistory
from prequential.engine.incidents.lasting import LEAST_OUTCOMES, LEAST_USUAL, Decision, decide
from prequential.engine.measures.losses import own_loss
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables.logs import MET, WAITS, Events
from prequential.engine.tables.outcomes import OUTCOME, SCORED, Log
from prequential.engine.tables.streams import Entities

#: Share of the labels that have come when a cluster is closed: those that come later still count in it, but
#: they don't delay decisions. (The same share is missing from each cluster.)
MATURE = 0.9

#: Days that predictions span from which on a cluster is a day.
DAYS = 20

#: Rows without times in which one incident is within the budget: without times there are no 30 days.
ROWS_OF_BUDGET = 1_000_000.0

#: Where predictions span less (ms), hours aren't known yet, and a level may be back at once.
YOUNG = clusters.DAY / 4


@inner
def age_of_labels(latencies: Floats) -> float:
    """The age (ms) by which a share `MATURE` of the labels has come; `latencies`: outcomes by column."""
    wanted, high, low = MATURE * latencies.sum(), 64.0, 0.0
    for count in latencies:
        if count > 0.0 and wanted <= count:
            return low + (high - low) * wanted / count
        wanted -= count
        low, high = high, 4.0 * high
    return low


@inner
def end_of(pool: ClusterPool, owner: int, key: int, fixed: int) -> float:
    """The end (ms) of a cluster."""
    return (key + 1) * length_of(fixed, pool.lines.doubled[owner])


@inner
def closed_clusters(history: ClusterHistory, owner: int, age: float, untimed: bool) -> int:
    """How many of the owner's clusters are closed, the oldest first, if labels come up to this age (ms)."""
    pool, owners = history.outcomes, history.owners
    until = float(owners.newest[owner]) - (0.0 if untimed else age)
    stop = np.int64(pool.lines.used[owner])
    while stop:
        newest = pool.blocks.key[place_of(pool, owner, stop - 1)]
        if end_of(pool, owner, newest, owners.fixed[owner]) <= until:
            break
        stop -= 1
    return stop


@inner
def is_due(history: ClusterHistory, owner: int, untimed: bool) -> bool:
    """Whether a closed cluster opens an incident, or an open incident needs it.

    Also sets the time at which the next cluster is to be closed.
    """
    pool, owners = history.outcomes, history.owners
    fixed = owners.fixed[owner]
    _become_days(history, owner, untimed)
    latencies = history.scratch.latencies
    latencies[:] = 0.0
    for k in range(pool.lines.used[owner]):
        start = cells_of(pool, owner, place_of(pool, owner, k)) + layout.LATENCY
        for column in range(layout.LATENCIES):
            latencies[column] += pool.cells[start + column]
    age = 0.0 if untimed else min(age_of_labels(latencies), float(owners.horizon[owner]))
    stop = closed_clusters(history, owner, age, untimed)
    if stop < pool.lines.used[owner]:
        key = pool.blocks.key[place_of(pool, owner, stop)]
    else:
        key = key_of(owners.newest[owner], fixed, pool.lines.doubled[owner])
    due = np.int64(np.ceil(end_of(pool, owner, key, fixed) + age))
    owners.check_time[owner] = max(due, owners.newest[owner] + 1)
    if not stop:
        return False
    newest = pool.blocks.key[place_of(pool, owner, stop - 1)]
    begin = np.int64(end_of(pool, owner, newest - 1, fixed))
    if begin <= owners.closed[owner]:
        return False
    owners.closed[owner] = begin
    return owners.is_open[owner] > 0 or _decide(history, owner, stop, untimed).is_lasting


@inner
def _become_days(history: ClusterHistory, owner: int, untimed: bool) -> None:
    """Make clusters days where predictions span enough of them, with enough outcomes each."""
    pool = history.outcomes
    lines = pool.lines
    if untimed or history.owners.fixed[owner] or lines.doubled[owner] >= clusters.HALVINGS:
        return
    used = lines.used[owner]
    first, last = pool.blocks.key[place_of(pool, owner, 0)], pool.blocks.key[place_of(pool, owner, used - 1)]
    days = (last - first) * length_of(0, lines.doubled[owner]) / clusters.DAY
    if days >= DAYS and lines.entries[owner] >= clusters.LEAST_ENTRIES * days:
        while lines.doubled[owner] < clusters.HALVINGS:
            clusters.double_length(pool, owner)


@inner
def _decide(history: ClusterHistory, owner: int, stop: int, untimed: bool) -> Decision:
    """What the owner's first `stop` clusters show; they are put into the scratch."""
    owners, pool, means = history.owners, history.outcomes, history.scratch.means
    length = length_of(owners.fixed[owner], pool.lines.doubled[owner])
    budget = ROWS_OF_BUDGET if untimed else owners.budget[owner]
    for k in range(stop):
        row = place_of(pool, owner, k)
        means.n[k], means.loss[k] = pool.blocks.n[row], pool.sums.loss[row]
        means.squares[k], means.products[k] = pool.sums.squares[row], pool.sums.products[row]
        means.mark[k] = pool.blocks.mark[row]
    days = WHOLE_DAYS
    if stop and length < clusters.DAY and owners.fixed[owner] == 0 and not untimed:
        first = pool.blocks.key[place_of(pool, owner, 0)]
        last = pool.blocks.key[place_of(pool, owner, stop - 1)]
        days = (last + 1 - first) * length / clusters.DAY
    return decide(history.scratch, stop, owners.binary[owner] > 0, budget / length, days)


@kernel
def decision(history: ClusterHistory, owner: int, untimed: bool) -> tuple[int, Decision]:
    """How many of the owner's clusters are closed, and what they show; the scratch's `means` are these."""
    pool, newest, stop = history.outcomes, history.owners.closed[owner], 0
    fixed = history.owners.fixed[owner]
    used = np.int64(pool.lines.used[owner])
    while stop < used:
        key = pool.blocks.key[place_of(pool, owner, stop)]
        if np.int64(end_of(pool, owner, key - 1, fixed)) > newest:
            break
        stop += 1
    return stop, _decide(history, owner, stop, untimed)


#: Why `follow` stops: all was read; an owner needs more columns or places; clusters are closed.
FOLLOWED, NEEDS_ROOM, LOOK_DUE = range(3)

#: A loss beyond it counts as it: sums of so large ones, and of their squares, stay finite.
LARGEST_LOSS = 1e30


class UnreadRows(NamedTuple):
    """Rows that are to be taken over: of the log of outcomes, and of the events."""

    outcome: int  # the first one
    outcomes_end: int  # … and the one behind the last
    event: int
    events_end: int


@kernel
def follow(
    history: ClusterHistory, log: Log, events: Events, unread: UnreadRows, entities: Entities,
    positives: Positives, untimed: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Take over rows of the outcome log, and the events that came before each.

    `events` have what became of predictions. `entities` and `positives` are the catalog's. If `untimed`,
    times are numbers of rows. Returns the next row, the next event, and why it stops: FOLLOWED; LOOK_DUE, at
    the end of a record when owners are due; NEEDS_ROOM, if a pool must grow.
    """
    owners, notes = history.owners, history.notes
    i, e = unread.outcome, unread.event
    while i < unread.outcomes_end:
        if notes[layout.DUE_COUNT] and log.record[i] != notes[layout.DUE_RECORD]:
            return i, e, LOOK_DUE
        while e < unread.events_end and events.before[e] <= i:
            if _event(history, events, e, untimed):
                e += 1
            elif not layout.make_room(history):
                return i, e, NEEDS_ROOM
        entity = log.entity[i]
        position = owners.position[entity]
        is_watched = position and log.sequence[i] - entities.first[entity] == position - 1
        is_new = is_watched and log.kind[i] == OUTCOME
        if not is_new or _entered(history, log, i, positives, entities, untimed):
            i += 1
        elif not layout.make_room(history):
            return i, e, NEEDS_ROOM
    return i, e, LOOK_DUE if notes[layout.DUE_COUNT] else FOLLOWED


@kernel
def follow_events(
    history: ClusterHistory, events: Events, first: int, last: int, untimed: bool
) -> tuple[int, int]:
    """Take over events `first` to `last` - 1, behind all outcomes.

    Returns the next one, and why it stopped: FOLLOWED, or NEEDS_ROOM, if a pool must grow.
    """
    e = first
    while e < last:
        if _event(history, events, e, untimed):
            e += 1
        elif not layout.make_room(history):
            return e, NEEDS_ROOM
    return last, FOLLOWED


@inner
def _entered(
    history: ClusterHistory, log: Log, i: int, positives: Positives, entities: Entities, untimed: bool
) -> bool:
    """Enter an outcome of an owner, or of a segment of its; False if there is no room for it."""
    entity = log.entity[i]
    owner = history.owners.owner[entity]
    if owner != entity:
        return _in_segment(history, owner, entity)
    segments = 1 if entities.segments[owner] > 0 else 0
    return _outcome(history, log, i, owner, segments, positives, entities.stream[owner], untimed)


@inner
def _lacks(history: ClusterHistory, owner: int, pool: int, classes: int, segments: int) -> bool:
    """Note what an owner lacks; False, as there is no room."""
    notes = history.notes
    notes[layout.WANTING], notes[layout.POOL] = owner, pool
    notes[layout.WANTED_CLASSES], notes[layout.WANTED_SEGMENTS] = classes, segments
    return False


@inner
def _times(log: Log, i: int, untimed: bool) -> tuple[int, int]:
    """Prediction and label time (ms) of an outcome; where records have no times, its number.

    One wrong time, in µs for instance, would have all others behind it: none is ahead of the clock.
    """
    if untimed:
        return log.number[i], log.number[i]
    return min(log.ts[i], log.clock[i]), min(log.t1[i], log.clock[i])


@inner
def _outcome(
    history: ClusterHistory, log: Log, i: int, owner: int, segments: int, positives: Positives, stream: int,
    untimed: bool,
) -> bool:  # fmt: skip
    """An outcome of an owner, which counts if it has the watched loss; False if there is no room for it.

    `segments`: 1 if its outcomes are in segments, else 0.
    """
    owners, pool = history.owners, history.outcomes
    ts, t1 = _times(log, i, untimed)
    loss, counts = own_loss(owners.measure[owner], log, i, positives, stream)
    owners.cluster[owner] = NEVER
    if counts:
        classes, wanted = owners.classes[owner], 0
        if owners.of_classes[owner]:
            wanted = min(layout.MOST_CLASSES, 1 + max(log.label[i], log.prediction[i]))
        if wanted > classes or pool.lines.width[owner] == 0:
            return _lacks(history, owner, layout.OF_OUTCOMES, wanted, segments)
        row = clusters.place_for(pool, owner, ts, log.number[i], owners.fixed[owner], untimed)
        if row == clusters.NO_PLACE:
            return _lacks(history, owner, layout.OF_OUTCOMES, wanted, 0)
        part = clusters.part_for(
            history.parts, owner, ts, log.number[i], owners.fixed[owner], pool.lines.doubled[owner]
        )
        if part == clusters.NO_PLACE:
            return _lacks(history, owner, layout.OF_PARTS, 0, 0)
        loss = min(max(loss, -LARGEST_LOSS), LARGEST_LOSS)
        if part >= 0:
            parts = history.parts
            if parts.blocks.n[part] == 0:
                parts.sums.t1[part] = t1
            parts.blocks.n[part] += 1
            parts.sums.loss[part] += loss
        if row >= 0:
            owners.cluster[owner] = pool.blocks.key[row]
            _measure(history, log, i, owner, row, loss, untimed)
        owners.loss[owner] = loss
    owners.label[owner] = log.label[i] + 1
    owners.outcomes[owner] = log.number[i]
    if log.number[i] == 1 or t1 > owners.newest[owner]:
        owners.newest[owner] = t1
    enough = pool.lines.entries[owner] >= LEAST_USUAL * LEAST_OUTCOMES
    if enough and owners.newest[owner] >= owners.check_time[owner] and is_due(history, owner, untimed):
        history.due[history.notes[layout.DUE_COUNT]] = owner
        history.notes[layout.DUE_COUNT] += 1
        history.notes[layout.DUE_RECORD] = log.record[i]
    return True


@inner
def _measure(
    history: ClusterHistory, log: Log, i: int, owner: int, row: int, loss: float, untimed: bool
) -> None:
    """Add an outcome to its cluster."""
    owners, pool = history.owners, history.outcomes
    blocks, sums, classes = pool.blocks, pool.sums, owners.classes[owner]
    ts, t1 = _times(log, i, untimed)
    if blocks.n[row] == 0:
        sums.t1[row] = t1
    before, bits = owners.loss[owner], log.bits[i]
    blocks.n[row] += 1
    pool.lines.entries[owner] += 1
    sums.persistent[row] += bits >> 1
    sums.majority[row] += bits & 1
    sums.lag[row] += t1 - ts
    sums.loss[row] += loss
    sums.squares[row] += loss * loss
    sums.products[row] += loss * before
    start = cells_of(pool, owner, row)
    latency = layout.latency_column(log.latency[i])
    _add(pool, start + layout.LATENCY + latency, 1.0)
    _add(pool, start + layout.LATENCY_LOSS + latency, loss)
    if log.version[i]:
        version = _version_column(history, owner, log.version[i])
        _add(pool, start + layout.VERSION + version, 1.0)
        _add(pool, start + layout.VERSION_LOSS + version, loss)
    if classes:
        if log.scored[i] & SCORED:
            confidence = min(layout.CONFIDENCES - 1, int(layout.CONFIDENCES * log.confidence[i]))
            _add(pool, start + layout.CONFIDENCE + confidence, 1.0)
            _add(pool, start + layout.CONFIDENCE_LOSS + confidence, loss)
        column = start + layout.CLASSES + layout.PER_CLASS * layout.class_column(log.label[i], classes)
        _add(pool, column + layout.LABELLED, 1.0)
        _add(pool, column + layout.LABELLED_LOSS, loss)
        if owners.label[owner] == log.label[i] + 1:
            _add(pool, column + layout.REPEATED, 1.0)
            _add(pool, column + layout.REPEATED_LOSS, loss)
        predicted_column = (
            start + layout.CLASSES + layout.PER_CLASS * layout.class_column(log.prediction[i], classes)
        )
        _add(pool, predicted_column + layout.PREDICTED, 1.0)
        _add(pool, predicted_column + layout.PREDICTED_LOSS, loss)
    if _is_example(history, owner, row, loss, owners.binary[owner] > 0):
        owners.example[owner] = blocks.number[row]
        history.examples[history.notes[layout.EXAMPLE_COUNT]] = i
        history.notes[layout.EXAMPLE_COUNT] += 1


@inner
def _add(pool: ClusterPool, cell: int, by: float) -> None:
    pool.cells[cell] = np.float64(pool.cells[cell]) + by


@inner
def _is_example(history: ClusterHistory, owner: int, row: int, loss: float, binary: bool) -> bool:
    """Whether an outcome is the first bad one of its cluster: wrong, or of a loss above its mean."""
    blocks, sums = history.outcomes.blocks, history.outcomes.sums
    if history.owners.example[owner] == blocks.number[row]:
        return False
    return loss > 0.0 and (binary or loss * blocks.n[row] > sums.loss[row])


@inner
def _version_column(history: ClusterHistory, owner: int, version: int) -> int:
    """The column of a version; one that has none gets that of the one known longest, which is forgotten."""
    codes = history.versions
    oldest = 0
    for column in range(layout.VERSIONS):
        if codes[owner, column] == version:
            return column
        if codes[owner, column] < codes[owner, oldest]:
            oldest = column
    if codes[owner, oldest]:
        pool = history.outcomes
        for k in range(pool.lines.used[owner]):
            start = cells_of(pool, owner, place_of(pool, owner, k))
            for column in (layout.VERSION, layout.VERSION_LOSS):
                pool.cells[start + column + oldest] = 0.0
    codes[owner, oldest] = version
    return oldest


@inner
def _in_segment(history: ClusterHistory, owner: int, entity: int) -> bool:
    """Also count the owner's newest outcome in a segment; False if there is no column for it."""
    owners, pool = history.owners, history.outcomes
    if owners.slot[entity] == 0:
        if owners.slots[owner] >= layout.MOST_SEGMENTS:
            owners.slot[entity] = -1
        else:
            owners.slots[owner] += 1
            owners.slot[entity] = owners.slots[owner]
    slot = owners.slot[entity]
    if slot < 0:
        return True
    if slot > owners.segments[owner]:
        return _lacks(history, owner, layout.OF_OUTCOMES, 0, slot)
    cluster = owners.cluster[owner]
    row = clusters.find_cluster(pool, owner, cluster) if cluster != NEVER else -1
    if row >= 0:
        start = cells_of(pool, owner, row)
        column = start + layout.column_of_segment(owners.classes[owner], slot - 1)
        _add(pool, column, 1.0)
        _add(pool, column + 1, owners.loss[owner])
    return True


@inner
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
    classes = pool.lines.width[model] // layout.PER_PREDICTED
    code = events.prediction[e] if owners.of_classes[model] else 0
    if code >= classes and classes < layout.MOST_CLASSES:
        return _lacks(history, model, layout.OF_PREDICTIONS, min(layout.MOST_CLASSES, code + 1), 0)
    column = layout.PER_PREDICTED * layout.class_column(code, classes)
    fixed = owners.fixed[model]
    if kind == WAITS:
        ts = min(events.ts[e], events.t1[e])
        row = clusters.place_for(pool, model, ts, owners.predictions[model] + 1, fixed, untimed)
        if row == clusters.NO_PLACE:
            return _lacks(history, model, layout.OF_PREDICTIONS, min(layout.MOST_CLASSES, code + 1), 0)
        owners.predictions[model] += 1
        if row >= 0:
            pool.blocks.n[row] += 1
            pool.lines.entries[model] += 1
            _add(pool, cells_of(pool, model, row) + column + layout.MADE, 1.0)
    else:
        row = clusters.find_cluster(pool, model, key_of(events.ts[e], fixed, pool.lines.doubled[model]))
        if row >= 0:
            _add(pool, cells_of(pool, model, row) + column + layout.MET_LABEL, 1.0)
    return True
