"""Gives instances without a label a class at the end of their horizon, if the configuration sets a class.

The class is a label with the time t0 + horizon, and the prediction's outcome is like any other. A label that
comes later is a revision: the instance is remembered for another horizon.
"""

from __future__ import annotations

from prequential.engine.compiled.id_texts import copy_text, is_before, size_of
from prequential.engine.compiled.ids import Ids
from prequential.engine.compiled.kernel import inner
from prequential.engine.join.labelling import drop_late, lacks_segment, separates, settle
from prequential.engine.join.outcome_rows import Place
from prequential.engine.join.stakes import note_value
from prequential.engine.tables.calendar import Links
from prequential.engine.tables.logs import (
    CLOSINGS,
    DONE,
    FULL,
    NEEDED,
    NEW_SEGMENT,
    NEW_STAGE,
    Logs,
    has_capacity,
    number_of,
)
from prequential.engine.tables.store import LABELS, WAITING, Instances, Store, count_of, take_row
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
    count = count_of(store.predictions, store.instances.first[slot])
    outcomes = count * streams.rows_per_prediction[stream] + streams.rows_per_label[stream]
    if not has_capacity(logs, outcomes, 2 * count + 2, count * streams.keys[stream]):
        return FULL
    used = logs.used[CLOSINGS]
    end = closings.end[used - 1] if used else 0
    if used == len(closings.end) or end + size_of(store.ids, slot) > len(closings.text):
        logs.used[NEEDED] = 1
        return FULL
    if lacks_segment(registry, store, logs, stream, slot):
        return NEW_SEGMENT
    if count > 1 and separates(registry, store, logs, stream, slot, store.links.deadline[slot]):
        return NEW_STAGE
    return DONE


@inner
def close(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, record: int) -> int:
    """Give an instance its label; returns until when (ms) the outcome is remembered.

    `record` is the row of the micro-batch before which the instance is closed.
    """
    streams, instances, labels = registry.streams, store.instances, store.labels
    t1, y = store.links.deadline[slot], streams.at_horizon[stream] - 1
    label = take_row(store.pools, LABELS, labels.next)
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
    number, used, closings = number_of(logs, record), logs.used[CLOSINGS], logs.closings
    closings.record[used] = number
    begin = closings.end[used - 1] if used else 0
    closings.end[used] = copy_text(store.ids, slot, closings.text, begin)
    settle(registry, store, logs, Place(number, stream, slot))
    logs.used[CLOSINGS] = used + 1
    return streams.clock[stream] + max(streams.horizon[stream], streams.settle[stream])


# ---- order


@inner
def in_order(instances: Instances, links: Links, ids: Ids, first: int, clock: int) -> int:
    """Sort the instances whose deadlines may have passed, a list by `next`; returns the first of the list.

    Waiting instances that are due come first, ordered by deadline, then by id. The other instances follow;
    their order doesn't matter.
    """
    due, others, instance = 0, 0, first
    while instance:
        following = links.next[instance]
        if instances.state[instance] == WAITING and links.deadline[instance] < clock:
            links.next[instance] = due
            due = instance
        else:
            links.next[instance] = others
            others = instance
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
        return others
    last = due
    while links.next[last]:
        last = links.next[last]
    links.next[last] = others
    return due


@inner
def _ends_before(links: Links, ids: Ids, one: int, other: int) -> bool:
    """Whether an instance's horizon ends before that of another one; if the ends are equal, ids decide."""
    if links.deadline[one] != links.deadline[other]:
        return links.deadline[one] < links.deadline[other]
    return is_before(ids, one, other)
