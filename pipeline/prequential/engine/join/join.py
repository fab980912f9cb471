"""The join: delayed labels meet the pending predictions, record by record.

`semantics-time.md` specifies the effect of each record in each state of its instance. The module
`changes` implements it.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import AHEAD, LOW, find_hashed, find_or_add_hashed, warm
from prequential.engine.compiled.kernel import inner, kernel
from prequential.engine.join import changes
from prequential.engine.join.compacting import compact_again, compacted, expand
from prequential.engine.join.completing import lacks_segment, separates, settle, wants
from prequential.engine.join.expiry import MEETS, NOTHING, expire_states, lead_of, run_until
from prequential.engine.join.outcome_rows import Origin
from prequential.engine.tables import logs as log
from prequential.engine.tables import store as stores
from prequential.engine.tables.compact import find_compact, key_of, was_settled
from prequential.engine.tables.logs import Logs
from prequential.engine.tables.records import INSTANCE, LABEL, PREDICTION, Rows
from prequential.engine.tables.store import Store
from prequential.engine.tables.streams import Registry, Streams

#: Why a record is refused.
TAKEN, TOO_MANY_INSTANCES, TOO_MANY_PREDICTIONS = range(3)


@kernel
def join(
    rows: Rows, start: int, stop: int, registry: Registry, store: Store, logs: Logs, most_instances: int,
    most_predictions: int,
) -> tuple[int, int]:  # fmt: skip
    """Process the rows from `start` up to `stop` - 1, in order.

    Parameters
    ----------
    rows
        The rows of a micro-batch; `hashes` and `refused` are written.
    start, stop
        The first row, and the one after the last.
    registry, store, logs
        The state, which is updated, and the logs, to which outcomes and events are appended.
    most_instances
        The maximum number of instances that the shard may hold.
    most_predictions
        The maximum number of predictions that may wait for one label.

    Returns
    -------
    row : int
        The next row.
    why : int
        Why the join stopped there. DONE: all rows are processed. EMIT: messages are due. FULL: a log has no
        room. NEW_NAMES or NEW_SEGMENT: names or a segment must be registered first. NEW_STAGE: `initial` must
        be separated from `final` first.
    """
    streams, wheels, used = registry.streams, store.wheels, logs.used
    if used[log.OVERDUE]:
        why = expire_states(registry, store, logs, used[log.OVERDUE] - 1, start)
        if why != log.DONE:
            return start, why
        used[log.OVERDUE] = 0
    unread = start  # rows from here on haven't been read ahead yet
    for i in range(start, stop):
        if i >= unread:
            unread = min(i + AHEAD, stop)
            used[log.READ_AHEAD] = read_ahead(rows, store, i, unread)
        stream = np.int64(rows.stream[i])  # as in `expiry`: else `settle` is compiled twice
        # 1. The clock that the record gives the stream; a refused prediction leaves the clock unchanged.
        clock = _clock_at(rows, i, registry, stream)
        slot = _slot_of(rows, i, store, stream)
        if slot and _too_many(rows, i, store, stream, slot, clock, most_predictions, registry):
            rows.refused[i] = TOO_MANY_PREDICTIONS
            continue
        # 2. What is due by this clock expires, maybe the record's own instance.
        _set_clock(streams, stream, clock)
        if wheels.next_due[stream] < clock:
            why = _expire(registry, store, logs, stream, i)
            if why != log.DONE:
                return i, why
            slot = _slot_of(rows, i, store, stream)
        # 3. The instance has a slot, is compact, or is new. With too many instances, new ones are refused.
        row = 0 if slot else _compact_row(rows, i, registry, store, stream)
        if not slot and not row and used[log.REMEMBERED] >= most_instances:
            rows.refused[i] = TOO_MANY_INSTANCES
            continue
        # 4. If names, room, a segment or a stage are missing, the row begins again once they are there.
        why = _lacks(rows, i, registry, store, logs, stream, slot, row)
        if why != log.DONE:
            return i, why
        # 5. The record changes its instance.
        streams.changes[stream] += 1
        if not slot and not row and _is_dropped(rows, i, registry, store, logs, stream, clock):
            continue
        if not slot:
            slot = _add_instance(rows, i, registry, store, logs, stream, row)
        deadline = _take(rows, i, registry, store, logs, stream, slot)
        # 6. A label meets the pending predictions. What is left of the instance may become compact.
        if deadline == MEETS:
            settle(registry, store, logs, Origin(log.number_of(logs, i), stream, slot))
            deadline = clock + streams.settle[stream]
            if compacted(registry, store, stream, slot, deadline):
                deadline = NOTHING
        elif row:
            deadline = compact_again(registry, store, stream, slot, row, deadline)
        # 7. The instance gets its deadline, which the clock may have passed already.
        if deadline != NOTHING:
            run_until(registry, store, stream, slot, deadline)
        if wheels.next_due[stream] < clock:
            why = _expire(registry, store, logs, stream, i + 1)
            if why != log.DONE:
                return i + 1, why
        # 8. Due messages are written before the next record.
        if used[log.DUE]:
            return i + 1, log.EMIT
    return stop, log.DONE


@inner
def read_ahead(rows: Rows, store: Store, first: int, last: int) -> int:
    """Hash the ids of these rows, and read their data ahead, so that they are in the cache when needed.

    The returned number has no meaning. It depends on the reads, so that the compiler keeps them.
    """
    read = warm(store.ids, rows.stream, rows.text, rows.starts, first, last, rows.hashes)
    entries, mask = store.ids.entries, len(store.ids.entries) - 1
    instances, predictions = store.instances, store.predictions
    for i in range(first, last):
        slot = entries[rows.hashes[i] & mask] & LOW
        read ^= np.int64(instances.first[slot])
        read ^= store.links.deadline[slot]
    for i in range(first, last):
        slot = entries[rows.hashes[i] & mask] & LOW
        read ^= predictions.ts[instances.first[slot]]
    return read


# ---- the clock


@inner
def _clock_at(rows: Rows, i: int, registry: Registry, stream: int) -> int:
    """The stream's clock once a row is processed: it never goes back, nor far ahead of the row's time."""
    streams = registry.streams
    clock = min(rows.ts[i], rows.time[i] + lead_of(registry, stream))
    return max(clock, streams.clock[stream]) if streams.started[stream] else clock


@inner
def _set_clock(streams: Streams, stream: int, clock: int) -> None:
    """Set a stream's clock, which its first record starts."""
    if not streams.started[stream]:
        streams.started[stream] = 1
        streams.wheel[stream] = clock
    if streams.clock[stream] != clock:
        streams.changes[stream] += 1
    streams.clock[stream] = clock


@inner
def _expire(registry: Registry, store: Store, logs: Logs, stream: int, i: int) -> int:
    """Let a stream's due instances expire before row i; returns DONE, or why the join must stop before it."""
    why = expire_states(registry, store, logs, stream, i)
    if why != log.DONE:
        logs.used[log.OVERDUE] = stream + 1
    return why


# ---- before anything changes


@inner
def _slot_of(rows: Rows, i: int, store: Store, stream: int) -> int:
    """The slot of a row's instance; 0: it has none."""
    return find_hashed(store.ids, rows.hashes[i], stream, rows.text, rows.starts[i], rows.starts[i + 1])


@inner
def _too_many(
    rows: Rows, i: int, store: Store, stream: int, slot: int, clock: int, most: int, registry: Registry
) -> bool:
    """Whether a prediction's instance continues to wait and already has the maximum number of predictions."""
    if rows.kind[i] != PREDICTION:
        return False
    if store.instances.state[slot] != stores.WAITING or store.links.deadline[slot] < clock:
        return False
    if stores.count_of(store.predictions, store.instances.first[slot]) < most:
        return False
    return not changes.repeats(rows, i, registry, store, stream, slot)


@inner
def _lacks(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int, row: int
) -> int:
    """What must be registered or emptied before a row is taken, as `join` returns it; DONE: nothing."""
    if rows.asks[i]:
        return log.NEW_NAMES
    streams, is_label = registry.streams, rows.kind[i] == LABEL
    count = stores.count_of(store.predictions, store.instances.first[slot]) + 1 if slot else 1 + (row > 0)
    keys = streams.keys[stream]
    outcomes = count * streams.rows_per_prediction[stream] + streams.rows_per_label[stream]
    if is_label and (row or (slot and store.instances.state[slot] == stores.SETTLED)):
        outcomes *= 2  # each revised outcome also as it was before
    if not log.has_capacity(logs, outcomes, 2 * count + 2, count * keys):
        return log.FULL
    if rows.kind[i] == INSTANCE or _withdraws(rows, i):
        return log.DONE
    if keys and (slot or row) and _lacks_segment(rows, i, registry, store, logs, stream, slot):
        return log.NEW_SEGMENT
    if is_label and count > 2 and separates(registry, store, logs, stream, slot, rows.ts[i]):
        return log.NEW_STAGE
    return log.DONE


@inner
def _withdraws(rows: Rows, i: int) -> bool:
    """Whether a row is a label that withdraws the one before."""
    return rows.kind[i] == LABEL and rows.label[i] == stores.NO_CLASS


@inner
def _lacks_segment(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> bool:
    """Whether an outcome that the row may cause is in a segment that can't be registered here (`wants`)."""
    if rows.kind[i] == PREDICTION:
        for key in range(registry.streams.keys[stream]):
            value = rows.segments[i, key] or store.marks.segments[slot, key]
            if value and wants(registry, logs, stream, rows.model[i], key, value):
                return True
    return lacks_segment(registry, store, logs, stream, slot)


@inner
def _compact_row(rows: Rows, i: int, registry: Registry, store: Store, stream: int) -> int:
    """The compact row of a row's instance; 0: it has none."""
    if not store.compact.ends.first[stream]:
        return 0
    return find_compact(store.compact, _key(rows, i, registry, stream))


@inner
def _key(rows: Rows, i: int, registry: Registry, stream: int) -> np.uint64:
    """The hash by which compact and forgotten instances are found."""
    return key_of(registry.streams.name[stream], rows.text, rows.starts[i], rows.starts[i + 1])


# ---- the change


@inner
def _is_dropped(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, clock: int
) -> bool:
    """Whether a row of an unknown instance is a label that changes nothing; counts it."""
    if rows.kind[i] != LABEL:
        return False
    if was_settled(store.settled, _key(rows, i, registry, stream), clock):
        registry.streams.after_settle[stream] += 1
        log.note_dropped(logs, log.AFTER_SETTLE, i)
        return True
    if _withdraws(rows, i):
        changes.repeat_label(registry.streams, logs, stream, i)
        return True
    return False


@inner
def _take(rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> int:
    """Let a row change its instance; returns the instance's new deadline, NOTHING or MEETS."""
    if rows.kind[i] == INSTANCE:
        return changes.take_instance(rows, i, registry, store, logs, stream, slot)
    if rows.kind[i] == PREDICTION:
        return changes.take_prediction(rows, i, registry, store, logs, stream, slot)
    return changes.take_label(rows, i, registry, store, logs, stream, slot)


@inner
def _add_instance(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, row: int
) -> int:
    """Give a row's instance a slot, with the content of its compact `row` if it has one; returns the slot."""
    slot = abs(
        find_or_add_hashed(store.ids, rows.hashes[i], stream, rows.text, rows.starts[i], rows.starts[i + 1])
    )
    instances, marks = store.instances, store.marks
    instances.state[slot] = stores.UNKNOWN
    instances.version[slot] = stores.NO_VERSION
    instances.first[slot] = 0
    instances.label[slot] = 0
    store.links.bucket[slot] = 0
    for key in range(marks.segments.shape[1]):
        marks.segments[slot, key] = 0
    if marks.propensity.shape[1]:
        marks.propensity[slot, 0] = 0.0
    if row:
        expand(registry, store, stream, slot, row)
    else:
        logs.used[log.REMEMBERED] += 1
    return slot
