"""Deadlines: the end of an instance's state, which the handlers of records return."""

from __future__ import annotations

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.expiry import drop_label
from prequential.engine.tables.calendar import schedule, unschedule
from prequential.engine.tables.logs import Logs, add_latency
from prequential.engine.tables.store import WAITING, Store
from prequential.engine.tables.streams import Registry

#: Results of a handler in place of a deadline. NOTHING: the deadline stays. MEETS: the label meets the
#: pending predictions.
NOTHING, MEETS = -(1 << 62), -(1 << 62) + 1


@inlined
def run_until(registry: Registry, store: Store, stream: int, slot: int, deadline: int) -> None:
    """The instance's present state ends once the clock is above `deadline`."""
    if store.links.bucket[slot]:
        unschedule(store.wheels, store.links, stream, slot)
    schedule(store.wheels, store.links, stream, slot, deadline, registry.streams.wheel[stream])


@inner
def label_was_late(
    registry: Registry, store: Store, logs: Logs, stream: int, slot: int, deadline: int
) -> None:
    """Drop a waiting label that turned out to be later than the horizon; the instance continues to wait."""
    registry.streams.late_label[stream] += 1
    beyond = store.labels.t1[store.instances.label[slot]] - deadline
    add_latency(logs, stream, beyond, registry.streams.clock[stream], 1)
    registry.streams.waiting_labels[stream] -= 1
    drop_label(store, slot)
    store.instances.state[slot] = WAITING
