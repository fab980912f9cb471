"""Processes an instance's record (`docs/reference/semantics-time.md`)."""

from __future__ import annotations

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.deadlines import NOTHING, label_was_late
from prequential.engine.tables.logs import DUPLICATE, Logs, note_dropped
from prequential.engine.tables.records import INSTANCE, Rows
from prequential.engine.tables.store import EXPIRED, NO_VERSION, SETTLED, UNKNOWN, WAITING, Store
from prequential.engine.tables.streams import Registry, is_beyond_horizon


@inlined
def take_instance(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process an instance; returns the deadline of its state, or `NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    horizon, ts, version = streams.horizon[stream], rows.ts[i], rows.version[i]
    state, known = instances.state[slot], instances.version[slot]
    if state == UNKNOWN:
        instances.state[slot] = WAITING
        instances.version[slot] = version
        _note_instance(rows, i, registry, store, stream, slot)
        return ts + horizon
    if state == EXPIRED or (state == SETTLED and known != NO_VERSION and version <= known):
        streams.duplicate_instances[stream] += 1
        note_dropped(logs, DUPLICATE + INSTANCE, i)
        return NOTHING
    if state == SETTLED:
        instances.version[slot] = version
        return NOTHING
    label = instances.label[slot]
    t0 = store.links.deadline[slot] - horizon if state == WAITING else labels.t0[label]
    if known != NO_VERSION and ts >= t0 and version <= known:
        streams.duplicate_instances[stream] += 1
        note_dropped(logs, DUPLICATE + INSTANCE, i)
        return NOTHING
    _note_instance(rows, i, registry, store, stream, slot)
    t0 = ts if known == NO_VERSION else min(t0, ts)
    instances.version[slot] = version if known == NO_VERSION else max(version, known)
    if state == WAITING:
        return t0 + horizon
    if is_beyond_horizon(t0, labels.t1[label], horizon):
        label_was_late(registry, store, logs, stream, slot, t0 + horizon)
        return t0 + horizon
    labels.t0[label] = t0
    return NOTHING


@inner
def _note_instance(rows: Rows, i: int, registry: Registry, store: Store, stream: int, slot: int) -> None:
    """Store an instance's segments and propensity; segments of other keys from an earlier record stay."""
    for key in range(registry.streams.keys[stream]):
        if rows.segments[i, key]:
            store.marks.segments[slot, key] = rows.segments[i, key]
    if registry.streams.weights[stream] and rows.propensity[i] > 0:
        store.marks.propensity[slot, 0] = rows.propensity[i]
