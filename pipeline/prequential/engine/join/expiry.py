"""Ends the states of instances whose deadlines have passed; some get a class at the end of their horizon.

*Class at the horizon.* The class is a label with the time t0 + horizon, and the prediction's outcome is like
any other. A label that comes later is a revision: the instance is remembered for another horizon.

*Expiry.* Predictions expire, or get the class of instances without a label by the horizon. Labels without
predictions count as unmatched, and settled or expired instances are forgotten.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import AHEAD, Ids, entry_at, remove, text_at
from prequential.engine.compiled.kernel import inner
from prequential.engine.join.completing import drop_late, lacks_segment, separates, settle
from prequential.engine.join.outcome_rows import Origin, first_with_segments, is_first_of_model, segment_row
from prequential.engine.join.scoring import note_value
from prequential.engine.tables import logs as log
from prequential.engine.tables import store as stores
from prequential.engine.tables.compact import (
    deadline_of,
    drop_first,
    key_of_slot,
    next_deadline,
    remember_settled,
    remove_compact,
)
from prequential.engine.tables.logs import Logs
from prequential.engine.tables.store import Instances, Links, Store
from prequential.engine.tables.streams import Registry, count_label


@inner
def closes(registry: Registry, store: Store, stream: int, slot: int) -> bool:
    """Whether a waiting instance has a prediction that a label at the end of the horizon would meet."""
    if not registry.streams.at_horizon[stream]:
        return False
    row = store.instances.first[slot]
    while row:
        if store.predictions.ts[row] <= store.links.deadline[slot]:
            return True
        row = store.predictions.next[row]
    return False


@inner
def why_not_closed(registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> int:
    """Why an instance can't be closed yet: the reason why the join stops, as for a label's record.

    DONE: it can be closed.
    """
    streams, closings = registry.streams, logs.closings
    count = stores.count_of(store.predictions, store.instances.first[slot])
    outcomes = count * streams.rows_per_prediction[stream] + streams.rows_per_label[stream]
    if not log.has_capacity(logs, outcomes, 2 * count + 2, count * streams.keys[stream]):
        return log.FULL
    used = logs.used[log.CLOSINGS]
    end = closings.end[used - 1] if used else 0
    if used == len(closings.end) or end + log.size_of(store.ids, slot) > len(closings.text):
        logs.used[log.NEEDED] = 1
        return log.FULL
    if lacks_segment(registry, store, logs, stream, slot):
        return log.NEW_SEGMENT
    if count > 1 and separates(registry, store, logs, stream, slot, store.links.deadline[slot]):
        return log.NEW_STAGE
    return log.DONE


@inner
def close(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, record: int) -> int:
    """Give an instance its label; returns until when (ms) the outcome is remembered.

    `record` is the row of the micro-batch before which the instance is closed.
    """
    streams, instances, labels = registry.streams, store.instances, store.labels
    t1, y = store.links.deadline[slot], streams.at_horizon[stream] - 1
    label = stores.take_row(store.pools, stores.LABELS, labels.next)
    instances.label[slot] = label
    labels.t1[label], labels.t0[label] = t1, t1 - streams.horizon[stream]
    labels.label[label] = labels.first[label] = y
    labels.number[label] = 0.0
    if store.label_values.value.shape[1]:
        note_value(store.label_values.value, label, -1.0)
    labels.persistent[label], labels.majority[label] = streams.persistent[stream], streams.majority[stream]
    labels.at_horizon[label] = 1
    count_label(streams, registry.classes, registry.pairs, stream, y)
    drop_late(registry, store, logs, stream, slot, t1)
    number, used, closings = log.number_of(logs, record), logs.used[log.CLOSINGS], logs.closings
    closings.record[used] = number
    begin = closings.end[used - 1] if used else 0
    closings.end[used] = log.copy_text(store.ids, slot, closings.text, begin)
    settle(registry, store, logs, Origin(number, stream, slot))
    logs.used[log.CLOSINGS] = used + 1
    return streams.clock[stream] + max(streams.horizon[stream], streams.settle[stream])


# ---- order


@inner
def in_order(instances: Instances, links: Links, ids: Ids, first: int, clock: int) -> int:
    """Sort the instances whose deadlines may have passed, a list by `next`; returns the first of the list.

    Waiting instances that are due come first, ordered by deadline, then by id. The other instances follow;
    their order doesn't matter.
    """
    due, not_due, instance = 0, 0, first
    while instance:
        following = links.next[instance]
        if instances.state[instance] == stores.WAITING and links.deadline[instance] < clock:
            links.next[instance] = due
            due = instance
        else:
            links.next[instance] = not_due
            not_due = instance
        instance = following
    width = 1
    merges = 2
    while merges > 1:  # bottom up, by lists of 1, 2, 4, …
        merges = 0
        left, due, last = due, 0, 0
        while left:
            merges += 1
            right, lefts = left, 0
            while right and lefts < width:
                lefts += 1
                right = links.next[right]
            rights = width
            while lefts or (rights and right):
                if not lefts:
                    takes_left = False
                elif not rights or not right:
                    takes_left = True
                else:
                    takes_left = not _ends_before(links, ids, right, left)
                if takes_left:
                    chosen, left, lefts = left, links.next[left], lefts - 1
                else:
                    chosen, right, rights = right, links.next[right], rights - 1
                if last:
                    links.next[last] = chosen
                else:
                    due = chosen
                last = chosen
            left = right
        if last:
            links.next[last] = 0
        width *= 2
    if not due:
        return not_due
    last = due
    while links.next[last]:
        last = links.next[last]
    links.next[last] = not_due
    return due


@inner
def _ends_before(links: Links, ids: Ids, instance: int, other_instance: int) -> bool:
    """Whether an instance's horizon ends before that of another one; if the ends are equal, ids decide."""
    if links.deadline[instance] != links.deadline[other_instance]:
        return links.deadline[instance] < links.deadline[other_instance]
    return log.is_before(ids, instance, other_instance)


#: Maximum lead of an event time over its record time that may move the stream's clock: in ms, and as a share
#: of the horizon (a divisor). A producer with a wrong clock must not make everything expire.
_MOST_LEAD, _HORIZON_BY_LEAD = 3_600_000, 10


@inner
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
    instance = logs.used[log.REST]
    if not instance:
        _forget_compact(registry, store, logs, stream, clock)
        instance = stores.advance(wheels, links, stream, streams.wheel[stream], clock)
        streams.wheel[stream] = clock
        if streams.at_horizon[stream]:
            instance = in_order(store.instances, links, store.ids, instance, clock)
    logs.used[log.REST] = 0
    ahead = 0  # number of instances that were read ahead
    while instance:
        following = links.next[instance]
        if not ahead:
            ahead = AHEAD
            if following:
                logs.used[log.READ_AHEAD] = _read_ahead(store, instance, clock)
        ahead -= 1
        if links.deadline[instance] >= clock:
            stores.schedule(wheels, links, stream, instance, links.deadline[instance], clock)
        elif store.instances.state[instance] == stores.WAITING:
            if closes(registry, store, stream, instance):
                why = why_not_closed(registry, store, logs, stream, instance)
                if why != log.DONE:
                    logs.used[log.REST] = instance
                    return why
                deadline = close(registry, store, logs, stream, instance, record)
                stores.schedule(wheels, links, stream, instance, deadline, clock)
                if logs.used[log.DUE]:
                    logs.used[log.REST] = following
                    return log.EMIT
            else:
                count = stores.count_of(store.predictions, store.instances.first[instance])
                if not log.has_capacity(logs, 0, count, count * streams.keys[stream]):
                    logs.used[log.REST] = instance
                    return log.FULL
                _end(registry, store, logs, stream, instance, clock)
        else:
            _end(registry, store, logs, stream, instance, clock)
        instance = following
    of_compact = next_deadline(store.compact, stream, clock, stores.NEVER)
    wheels.next_due[stream] = min(stores.earliest(wheels, links, stream, clock), of_compact)
    return log.DONE


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
            logs.used[log.REMEMBERED] -= 1
        drop_first(compact, stream)
        row = compact.ends.first[stream]


@inner
def _read_ahead(store: Store, first: int, clock: int) -> int:
    """Read ahead the data for ending the next `AHEAD` instances of a list, so that they are in the cache.

    The returned number has no meaning. It depends on the reads, so that the compiler keeps them.
    """
    links, instances, read = store.links, store.instances, np.int64(0)
    instance, remaining = first, AHEAD
    while instance and remaining:
        if links.deadline[instance] < clock:
            read ^= np.int64(text_at(store.ids, instance))
            read ^= np.int64(store.predictions.next[instances.first[instance]])
            read ^= np.int64(store.labels.next[instances.label[instance]])
        instance = links.next[instance]
        remaining -= 1
    instance, remaining = first, AHEAD
    while instance and remaining:
        if links.deadline[instance] < clock:
            read ^= entry_at(store.ids, instance)
        instance = links.next[instance]
        remaining -= 1
    return read


@inner
def forget(registry: Registry, store: Store, logs: Logs, slot: int) -> None:
    """Remove an instance and its id."""
    store.instances.state[slot] = stores.UNKNOWN
    remove(store.ids, slot)
    logs.used[log.REMEMBERED] -= 1


@inner
def drop_label(store: Store, slot: int) -> None:
    """Free an instance's label."""
    stores.give_row(store.pools, stores.LABELS, store.labels.next, store.instances.label[slot])
    store.instances.label[slot] = 0


@inner
def _end(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, clock: int) -> None:
    """End an instance's state, whose deadline has passed."""
    streams, instances = registry.streams, store.instances
    state, deadline = instances.state[slot], store.links.deadline[slot]
    if state == stores.WAITING:
        if instances.first[slot]:
            log.note_end(logs, log.NO_LABEL, store.ids, slot, stream, deadline - streams.horizon[stream])
        _expire(registry, store, logs, stream, slot)
        instances.state[slot] = stores.EXPIRED
        instances.version[slot] = deadline - streams.horizon[stream]
        stores.schedule(store.wheels, store.links, stream, slot, clock + streams.horizon[stream], clock)
        return
    if state == stores.LABELLED:
        log.note_end(logs, log.NO_PREDICTION, store.ids, slot, stream, deadline - streams.horizon[stream])
        streams.waiting_labels[stream] -= 1
        streams.unmatched_label[stream] += 1
        streams.instances_without_predictions[stream] += instances.version[slot] != stores.NO_VERSION
        drop_label(store, slot)
    elif state == stores.SETTLED:
        until = deadline + streams.horizon[stream]
        key = key_of_slot(store.ids, slot, streams.name[stream])
        remember_settled(store.settled, key, stream, until)
        stores.drop_predictions(store.pools, store.predictions, store.probabilities, instances.first[slot])
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
        if store.instances.version[slot] == stores.NO_VERSION:
            streams.predictions_without_instance[stream] += 1
        if entities.retired[model]:
            row = predictions.next[row]
            continue
        entities.expired[model] += 1
        event = log.add_event(logs, log.EXPIRED, model, predictions.ts[row])
        logs.events.prediction[event] = predictions.label[row]
        logs.events.bin[event] = predictions.bin[row]
        logs.events.score[event] = predictions.score[row]
        if keys and is_first_of_model(predictions, first, row):
            carrier = first_with_segments(store, first, model, keys)
            for key in range(keys):
                segment = segment_row(registry, store, stream, slot, model, carrier, key)
                if segment >= 0:
                    log.add_segment_event(logs, model, segment, 0)
        row = predictions.next[row]
    stores.drop_predictions(store.pools, predictions, store.probabilities, first)
    store.instances.first[slot] = 0


#: Results of a handler in place of a deadline. NOTHING: the deadline stays. MEETS: the label meets the
#: pending predictions.
NOTHING, MEETS = -(1 << 62), -(1 << 62) + 1


@inner
def run_until(registry: Registry, store: Store, stream: int, slot: int, deadline: int) -> None:
    """The instance's present state ends once the clock is above `deadline`."""
    if store.links.bucket[slot]:
        stores.unschedule(store.wheels, store.links, stream, slot)
    stores.schedule(store.wheels, store.links, stream, slot, deadline, registry.streams.wheel[stream])


@inner
def count_late_label(registry: Registry, logs: Logs, stream: int, beyond: int) -> None:
    """Count a label that came `beyond` ms after the horizon of its instance."""
    registry.streams.late_label[stream] += 1
    log.add_latency(logs, stream, beyond, registry.streams.clock[stream], 1)


@inner
def label_was_late(
    registry: Registry, store: Store, logs: Logs, stream: int, slot: int, deadline: int
) -> None:
    """Drop a waiting label that turned out to be later than the horizon; the instance continues to wait."""
    count_late_label(registry, logs, stream, store.labels.t1[store.instances.label[slot]] - deadline)
    registry.streams.waiting_labels[stream] -= 1
    drop_label(store, slot)
    store.instances.state[slot] = stores.WAITING
