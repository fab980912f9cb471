"""Ends the states of instances whose deadlines have passed when a stream's clock moves.

Predictions expire, or get the class of instances without a label by the horizon. Labels without predictions
count as unmatched, and settled or expired instances are forgotten.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import AHEAD, entry_at, remove, text_at
from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.choosing import first_with_segments, is_first_of_model, segment_row
from prequential.engine.join.closing import close, closes, in_order, why_not_closed
from prequential.engine.tables.calendar import NEVER, advance, earliest, schedule
from prequential.engine.tables.compact import deadline_of, drop_first, next_deadline, remove_compact
from prequential.engine.tables.events import EXPIRED as PREDICTION_EXPIRED
from prequential.engine.tables.logs import (
    DONE,
    DUE,
    EMIT,
    FULL,
    NO_LABEL,
    NO_PREDICTION,
    READ_AHEAD,
    REMEMBERED,
    REST,
    Logs,
    add_event,
    add_segment_event,
    has_capacity,
    note_end,
)
from prequential.engine.tables.settled import key_of_slot, remember_settled
from prequential.engine.tables.store import (
    EXPIRED,
    LABELLED,
    LABELS,
    NO_VERSION,
    SETTLED,
    UNKNOWN,
    WAITING,
    Store,
    count_of,
    drop_predictions,
    give_row,
)
from prequential.engine.tables.streams import Registry

#: Maximum lead of an event time over its record time that may move the stream's clock: in ms, and as a share
#: of the horizon (a divisor). A producer with a wrong clock must not make everything expire.
_MOST_LEAD, _HORIZON_BY_LEAD = 3_600_000, 10


@inlined
def lead_of(registry: Registry, stream: int) -> int:
    """The time (ms) by which one record may move the stream's clock beyond its own record time."""
    return min(_MOST_LEAD, registry.streams.horizon[stream] // _HORIZON_BY_LEAD)


@inner
def expire_states(registry: Registry, store: Store, logs: Logs, stream: int, record: int) -> int:
    """End the states whose deadlines the stream's clock has passed, before this row of the micro-batch.

    Returns DONE, or the reason why it stopped (see `engine.tables.logs`). In that case, call it
    again before other code uses the store: the remaining instances are in no wheel meanwhile.
    """
    streams, links, wheels = registry.streams, store.links, store.wheels
    clock = streams.clock[stream]
    instance = logs.used[REST]
    if not instance:
        _forget_compact(registry, store, logs, stream, clock)
        instance = advance(wheels, links, stream, streams.wheel[stream], clock)
        streams.wheel[stream] = clock
        if streams.at_horizon[stream]:
            instance = in_order(store.instances, links, store.ids, instance, clock)
    logs.used[REST] = 0
    ahead = 0  # number of instances that were read ahead
    while instance:
        following = links.next[instance]
        if not ahead:
            ahead = AHEAD
            if following:
                logs.used[READ_AHEAD] = _read_ahead(store, instance, clock)
        ahead -= 1
        if links.deadline[instance] >= clock:
            schedule(wheels, links, stream, instance, links.deadline[instance], clock)
        elif store.instances.state[instance] == WAITING:
            if closes(registry, store, stream, instance):
                why = why_not_closed(registry, store, logs, stream, instance)
                if why != DONE:
                    logs.used[REST] = instance
                    return why
                deadline = close(registry, store, logs, stream, instance, record)
                schedule(wheels, links, stream, instance, deadline, clock)
                if logs.used[DUE]:
                    logs.used[REST] = following
                    return EMIT
            else:
                count = count_of(store.predictions, store.instances.first[instance])
                if not has_capacity(logs, 0, count, count * streams.keys[stream]):
                    logs.used[REST] = instance
                    return FULL
                _end(registry, store, logs, stream, instance, clock)
        else:
            _end(registry, store, logs, stream, instance, clock)
        instance = following
    wheels.next_due[stream] = min(
        earliest(wheels, links, stream, clock), next_deadline(store.compact, stream, clock, NEVER)
    )
    return DONE


@inner
def _forget_compact(registry: Registry, store: Store, logs: Logs, stream: int, clock: int) -> None:
    """Forget the compact instances of a stream whose deadlines its clock has passed."""
    compact, wheel = store.compact, registry.streams.wheel[stream]
    row = compact.ends.first[stream]
    while row:
        key, deadline = compact.rows.hash[row], deadline_of(compact, row, wheel)
        if key:
            if deadline >= clock:
                return
            until = deadline + registry.streams.horizon[stream]
            remember_settled(store.settled, key, stream, until)
            remove_compact(compact, row)
            logs.used[REMEMBERED] -= 1
        drop_first(compact, stream)
        row = compact.ends.first[stream]


@inner
def _read_ahead(store: Store, first: int, clock: int) -> int:
    """Read ahead the data for ending the next `AHEAD` instances of a list, so that they are in the cache.

    The returned number has no meaning. It depends on the reads, so that the compiler keeps them.
    """
    links, instances, read = store.links, store.instances, np.int64(0)
    instance, left = first, AHEAD
    while instance and left:
        if links.deadline[instance] < clock:
            read ^= np.int64(text_at(store.ids, instance))
            read ^= np.int64(store.predictions.next[instances.first[instance]])
            read ^= np.int64(store.labels.next[instances.label[instance]])
        instance = links.next[instance]
        left -= 1
    instance, left = first, AHEAD
    while instance and left:
        if links.deadline[instance] < clock:
            read ^= entry_at(store.ids, instance)
        instance = links.next[instance]
        left -= 1
    return read


@inner
def forget(registry: Registry, store: Store, logs: Logs, slot: int) -> None:
    """Remove an instance and its id."""
    store.instances.state[slot] = UNKNOWN
    remove(store.ids, slot)
    logs.used[REMEMBERED] -= 1


@inner
def drop_label(store: Store, slot: int) -> None:
    """Free an instance's label."""
    give_row(store.pools, LABELS, store.labels.next, store.instances.label[slot])
    store.instances.label[slot] = 0


@inner
def _end(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, clock: int) -> None:
    """End an instance's state, whose deadline has passed."""
    streams, instances = registry.streams, store.instances
    state, deadline = instances.state[slot], store.links.deadline[slot]
    if state == WAITING:
        if instances.first[slot]:
            note_end(logs, NO_LABEL, store.ids, slot, stream, deadline - streams.horizon[stream])
        _expire(registry, store, logs, stream, slot)
        instances.state[slot] = EXPIRED
        instances.version[slot] = deadline - streams.horizon[stream]
        schedule(store.wheels, store.links, stream, slot, clock + streams.horizon[stream], clock)
        return
    if state == LABELLED:
        note_end(logs, NO_PREDICTION, store.ids, slot, stream, deadline - streams.horizon[stream])
        streams.waiting_labels[stream] -= 1
        streams.unmatched_label[stream] += 1
        streams.instances_without_predictions[stream] += instances.version[slot] != NO_VERSION
        drop_label(store, slot)
    elif state == SETTLED:
        until = deadline + streams.horizon[stream]
        key = key_of_slot(store.ids, slot, streams.name[stream])
        remember_settled(store.settled, key, stream, until)
        drop_predictions(store.pools, store.predictions, store.probabilities, instances.first[slot])
        drop_label(store, slot)
    forget(registry, store, logs, slot)


@inner
def _expire(registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> None:
    """Count all pending predictions as expired: the label horizon has passed."""
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    first = store.instances.first[slot]
    if not first:
        streams.instances_without_predictions[stream] += 1
    keys = streams.keys[stream]
    row = first
    while row:
        model = predictions.model[row]
        if store.instances.version[slot] == NO_VERSION:
            streams.predictions_without_instance[stream] += 1
        if entities.retired[model]:
            row = predictions.next[row]
            continue
        entities.expired[model] += 1
        event = add_event(logs, PREDICTION_EXPIRED, model, predictions.ts[row])
        logs.events.prediction[event] = predictions.label[row]
        logs.events.bin[event] = predictions.bin[row]
        if keys and is_first_of_model(predictions, first, row):
            carrier = first_with_segments(store, first, model, keys)
            for key in range(keys):
                segment = segment_row(registry, store, stream, slot, model, carrier, key)
                if segment >= 0:
                    add_segment_event(logs, model, segment, 0)
        row = predictions.next[row]
    drop_predictions(store.pools, predictions, store.probabilities, first)
    store.instances.first[slot] = 0
