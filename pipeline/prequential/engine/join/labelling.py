"""Applies a label to the pending predictions, whether a record or the end of the horizon gives the label."""

from __future__ import annotations

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.choosing import first_model_of, first_with_segments, has_two_predictions
from prequential.engine.join.completing import complete, remember_numbers
from prequential.engine.join.outcome_rows import Place
from prequential.engine.tables.events import LATE
from prequential.engine.tables.logs import WANTED, Logs, add_event
from prequential.engine.tables.store import (
    NO_VERSION,
    PREDICTIONS,
    SETTLED,
    WAITING,
    Predictions,
    Store,
    count_of,
    drop_probabilities,
    give_row,
)
from prequential.engine.tables.streams import Registry, is_beyond_horizon

# ---- before anything changes


@inner
def lacks_segment(registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> bool:
    """Whether an outcome of a pending prediction is in a segment without an entity; notes the segment."""
    predictions = store.predictions
    for key in range(registry.streams.keys[stream]):
        shared = store.marks.segments[slot, key]
        row = store.instances.first[slot]
        while row:
            stated = store.values.segments[row, key]
            if stated and wants(registry, logs, stream, predictions.model[row], key, stated):
                return True
            if shared and wants(registry, logs, stream, predictions.model[row], key, shared):
                return True
            row = predictions.next[row]
    return False


@inner
def wants(registry: Registry, logs: Logs, stream: int, model: int, key: int, value: int) -> bool:
    """Whether a model's segment has no entity yet; notes the segment in `Logs.used[WANTED]`."""
    if registry.entities.retired[model]:  # its segments have no rows any more
        return False
    row = registry.entities.segments[model] + key * registry.streams.slots[stream] + value - 1
    if registry.segment_rows.entity[row]:
        return False
    logs.used[WANTED] = row
    return True


@inner
def separates(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, t1: int) -> bool:
    """Whether a label with the time t1 gives an entity its first outcome with two predictions.

    From that outcome on, `initial` and `final` are different sequences; until then they were one. Notes the
    entity in `Logs.used[WANTED]`.
    """
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    horizon = streams.horizon[stream]
    if store.instances.state[slot] != WAITING:
        return False
    if is_beyond_horizon(store.links.deadline[slot] - horizon, t1, horizon):
        return False
    first = store.instances.first[slot]
    row = first
    while row:
        model = predictions.model[row]
        if entities.initial_is_final[model] and has_two_predictions(predictions, first, model, t1):
            logs.used[WANTED] = model
            return True
        row = predictions.next[row]
    if has_two_predictions(predictions, first, first_model_of(predictions, first), t1):
        for which in range(2):
            entity = (streams.majority_entity if which else streams.persistent_entity)[stream]
            if entity and entities.initial_is_final[entity]:
                logs.used[WANTED] = entity
                return True
    return False


# ---- the label meets them


@inlined
def drop_late(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, t1: int) -> None:
    """Drop predictions made after the label; they count as late."""
    predictions = store.predictions
    keys = registry.streams.keys[stream]
    if keys:
        _keep_segments(store, slot, keys, t1)
    before, row = 0, store.instances.first[slot]
    while row:
        following = predictions.next[row]
        if predictions.ts[row] > t1:
            model = predictions.model[row]
            registry.entities.late[model] += 1
            event = add_event(logs, LATE, model, predictions.ts[row])
            logs.events.prediction[event] = predictions.label[row]
            logs.events.bin[event] = predictions.bin[row]
            if before:
                predictions.next[before] = following
            else:
                store.instances.first[slot] = following
            drop_probabilities(store.pools, store.probabilities, predictions.probabilities[row])
            give_row(store.pools, PREDICTIONS, predictions.next, row)
        else:
            before = row
        row = following


@inner
def _keep_segments(store: Store, slot: int, keys: int, t1: int) -> None:
    """Copy segments from the first prediction of a model that has some, even if that prediction is late.

    They go to the model's first delivered prediction that isn't late.
    """
    predictions, segments = store.predictions, store.values.segments
    first = store.instances.first[slot]
    row = first
    while row:
        if predictions.ts[row] <= t1 and _first_in_time(predictions, first, row, t1):
            source = first_with_segments(store, first, predictions.model[row], keys)
            if source:
                for key in range(keys):
                    segments[row, key] = segments[source, key]
        row = predictions.next[row]


@inner
def _first_in_time(predictions: Predictions, first: int, prediction: int, t1: int) -> bool:
    """Whether a prediction is the first delivered one of its model that isn't late."""
    row = first
    while row != prediction:
        if predictions.model[row] == predictions.model[prediction] and predictions.ts[row] <= t1:
            return False
        row = predictions.next[row]
    return True


@inlined
def settle(registry: Registry, store: Store, logs: Logs, place: Place) -> None:
    """Let an instance's label meet all pending predictions."""
    streams, instances, predictions = registry.streams, store.instances, store.predictions
    stream, slot = place.stream, place.slot
    instances.state[slot] = SETTLED
    store.labels.first[instances.label[slot]] = store.labels.label[instances.label[slot]]
    if instances.version[slot] == NO_VERSION:
        streams.predictions_without_instance[stream] += count_of(predictions, instances.first[slot])
    complete(registry, store, logs, place)
    remember_numbers(registry, store, instances.first[slot])
