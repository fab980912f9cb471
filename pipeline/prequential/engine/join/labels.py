"""Processes a label's record (`docs/reference/semantics-time.md`)."""

from __future__ import annotations

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.deadlines import MEETS, NOTHING
from prequential.engine.join.expiry import drop_label, forget
from prequential.engine.join.labelling import drop_late
from prequential.engine.join.outcome_rows import Place
from prequential.engine.join.revisions import note_unrevised, revise
from prequential.engine.join.seasons import note_label
from prequential.engine.join.stakes import AMOUNT, note_value
from prequential.engine.tables.calendar import unschedule
from prequential.engine.tables.logs import DUPLICATE, LATE_LABEL, Logs, add_latency, note_dropped, number_of
from prequential.engine.tables.records import LABEL, Rows
from prequential.engine.tables.store import (
    EXPIRED,
    LABELLED,
    LABELS,
    NO_CLASS,
    NO_VERSION,
    SETTLED,
    UNKNOWN,
    WAITING,
    Store,
    take_row,
)
from prequential.engine.tables.streams import Registry, Streams, count_label, is_beyond_horizon


@inlined
def take_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process a label; returns the deadline of its instance's state, `MEETS` or `NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, y = instances.state[slot], rows.label[i]
    if y == NO_CLASS:
        return _withdraw(i, registry, store, logs, stream, slot)
    if state in (UNKNOWN, WAITING):
        return _first_label(rows, i, registry, store, logs, stream, slot)
    if state == EXPIRED:
        streams.late_label[stream] += 1
        deadline = instances.version[slot] + streams.horizon[stream]
        add_latency(logs, stream, rows.ts[i] - deadline, registry.streams.clock[stream], 1)
        note_dropped(logs, LATE_LABEL, i)
        return NOTHING
    label = instances.label[slot]
    old = labels.label[label]
    if old == y and (not streams.regression[stream] or labels.number[label] == rows.number[i]):
        repeat_label(streams, logs, stream, i)
        return NOTHING
    place = Place(number_of(logs, i), stream, slot)
    if state == SETTLED:
        note_unrevised(registry, store, logs, place)
    labels.label[label], labels.number[label], labels.at_horizon[label] = y, rows.number[i], 0
    if streams.valued[stream] and rows.numbers[i, AMOUNT] >= 0.0:  # else the label keeps its value
        note_value(store.label_values.value, label, rows.numbers[i, AMOUNT])
    streams.revisions[stream] += 1
    if state == SETTLED:
        revise(registry, store, logs, place, old)
    return NOTHING


@inner
def repeat_label(streams: Streams, logs: Logs, stream: int, i: int) -> None:
    """Count a label's record, in row `i`, that changes nothing."""
    streams.duplicate_labels[stream] += 1
    note_dropped(logs, DUPLICATE + LABEL, i)


@inner
def _withdraw(i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> int:
    """Withdraw an instance's label, by the record in row `i`; returns as `take_label`.

    Outcomes lose their label, and wait for another one at least until the horizon ends. Without outcomes the
    instance waits as if no label had come; without an instance's record nothing is known of it.
    """
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, label = instances.state[slot], instances.label[slot]
    if state not in (LABELLED, SETTLED) or labels.label[label] == NO_CLASS:
        repeat_label(streams, logs, stream, i)
        return NOTHING
    streams.withdrawn[stream] += 1
    end = labels.t0[label] + streams.horizon[stream]
    if state == SETTLED:
        place, old = Place(number_of(logs, i), stream, slot), labels.label[label]
        note_unrevised(registry, store, logs, place)
        labels.label[label] = NO_CLASS
        if streams.valued[stream]:
            note_value(store.label_values.value, label, -1.0)
        revise(registry, store, logs, place, old)
        return end if end > store.links.deadline[slot] else NOTHING
    streams.waiting_labels[stream] -= 1
    drop_label(store, slot)
    if instances.version[slot] != NO_VERSION:
        instances.state[slot] = WAITING
        return end
    unschedule(store.wheels, store.links, stream, slot)
    forget(registry, store, logs, slot)
    return NOTHING


@inlined
def _first_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process an instance's first label: it is late, meets pending predictions, or waits for predictions."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    horizon, t1 = streams.horizon[stream], rows.ts[i]
    waited = instances.state[slot] == WAITING
    t0 = store.links.deadline[slot] - horizon if waited else t1
    if is_beyond_horizon(t0, t1, horizon):
        streams.late_label[stream] += 1
        add_latency(logs, stream, t1 - t0 - horizon, streams.clock[stream], 1)
        note_dropped(logs, LATE_LABEL, i)
        return NOTHING
    label = take_row(store.pools, LABELS, labels.next)
    labels.at_horizon[label] = 0
    instances.label[slot] = label
    labels.t1[label], labels.t0[label] = t1, t0
    labels.label[label] = labels.first[label] = rows.label[i]
    labels.number[label] = rows.number[i]
    if store.label_values.value.shape[1]:
        value = rows.numbers[i, AMOUNT] if streams.valued[stream] else -1.0
        note_value(store.label_values.value, label, value)
    labels.persistent[label], labels.majority[label] = streams.persistent[stream], streams.majority[stream]
    if not streams.regression[stream]:
        count_label(streams, registry.classes, registry.pairs, stream, rows.label[i])
    elif streams.season[stream]:
        note_label(registry, store, stream, t1, rows.number[i])
    drop_late(registry, store, logs, stream, slot, t1)
    if instances.first[slot]:
        return MEETS
    instances.state[slot] = LABELLED
    streams.waiting_labels[stream] += 1
    return t1 + horizon
