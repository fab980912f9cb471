"""Processes a label's record (`docs/reference/semantics-time.md`)."""

from __future__ import annotations

from prequential.core.compiled.kernel import inlined
from prequential.core.join.deadlines import MEETS, NOTHING
from prequential.core.join.labelling import drop_late
from prequential.core.join.outcome_rows import Place
from prequential.core.join.revisions import revise
from prequential.core.join.stakes import note_value, revise_value
from prequential.core.tables.logs import DUPLICATE, LATE_LABEL, Logs, add_latency, note_dropped, number_of
from prequential.core.tables.records import LABEL, Rows
from prequential.core.tables.store import (
    EXPIRED,
    LABELLED,
    LABELS,
    SETTLED,
    UNKNOWN,
    WAITING,
    Store,
    take_row,
)
from prequential.core.tables.streams import Registry, count_label


@inlined
def take_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process a label; returns the deadline of its instance's state, `MEETS` or `NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, y = instances.state[slot], rows.label[i]
    if state in (UNKNOWN, WAITING):
        return _first_label(rows, i, registry, store, logs, stream, slot)
    if state == EXPIRED:
        streams.late_label[stream] += 1
        deadline = instances.version[slot] + streams.horizon[stream]
        add_latency(logs, stream, rows.ts[i] - deadline, registry.streams.clock[stream], 1)
        note_dropped(logs, LATE_LABEL, i)
        return NOTHING
    label = instances.label[slot]
    regression = streams.regression[stream]
    if (labels.number[label] == rows.number[i]) if regression else (labels.label[label] == y):
        streams.duplicate_labels[stream] += 1
        note_dropped(logs, DUPLICATE + LABEL, i)
        return NOTHING
    old = labels.label[label]
    labels.label[label], labels.number[label], labels.at_horizon[label] = y, rows.number[i], 0
    if streams.valued[stream]:
        revise_value(store.label_values.value, label, rows.value[i, 0])
    streams.revisions[stream] += 1
    if state == SETTLED:
        revise(registry, store, logs, Place(number_of(logs, i), stream, slot), old)
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
    if t1 - t0 > horizon:
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
        value = rows.value[i, 0] if streams.valued[stream] else -1.0
        note_value(store.label_values.value, label, value)
    labels.persistent[label], labels.majority[label] = streams.persistent[stream], streams.majority[stream]
    if not streams.regression[stream]:
        count_label(streams, registry.classes, registry.pairs, stream, rows.label[i])
    drop_late(registry, store, logs, stream, slot, t1)
    if instances.first[slot]:
        return MEETS
    instances.state[slot] = LABELLED
    streams.waiting_labels[stream] += 1
    return t1 + horizon
