"""A label meets pending predictions: it is applied to them, and writes outcomes of all that is evaluated."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import inner
from prequential.engine.join import outcome_rows as outcomes
from prequential.engine.join.outcome_rows import Origin
from prequential.engine.join.scoring import find_baseline, note_stake, score
from prequential.engine.tables import logs as log
from prequential.engine.tables import store as stores
from prequential.engine.tables.logs import Logs
from prequential.engine.tables.outcomes import OUTCOME
from prequential.engine.tables.store import Predictions, Store
from prequential.engine.tables.streams import SEGMENT, Registry, is_beyond_horizon


@inner
def _count(registry: Registry, logs: Logs, stream: int, entity: int, t1: int) -> int:
    """Count one more outcome of an entity; returns the outcome's number."""
    entities = registry.entities
    number = entities.outcomes[entity] + 1
    entities.outcomes[entity] = number
    entities.newest_ts[entity] = t1
    entities.newest_change[entity] = registry.streams.changes[stream]
    entities.changed[entity] = 1
    emit = registry.streams.emit_outcomes[stream]
    if emit and number % emit == 0:
        logs.due[logs.used[log.DUE]] = entity
        logs.used[log.DUE] += 1
    return number


@inner
def _note_version(registry: Registry, store: Store, model: int, number: int, first: int) -> None:
    """Update a model's version: the version of its newest prediction that has met its label.

    The newest prediction is the one with the latest time: labels for predictions of an earlier version may
    still come.
    """
    entities, predictions = registry.entities, store.predictions
    latest = outcomes.latest_of(predictions, first, model, outcomes.EVER)
    version, ts = predictions.version[latest], predictions.ts[latest]
    if version and (not entities.version[model] or ts >= entities.version_ts[model]):
        entities.version_ts[model] = ts
        if version != entities.version[model]:
            entities.version[model], entities.version_since[model] = version, number


@inner
def _complete_model(
    registry: Registry, store: Store, logs: Logs, origin: Origin, model: int, first: int
) -> None:
    """Write a model's outcome in all stages, then the outcomes of its correction and in its segments."""
    stream, slot = origin.stream, origin.slot
    streams, entities = registry.streams, registry.entities
    predictions, values = store.predictions, store.values
    label = store.instances.label[slot]
    y, t1, keys = store.labels.label[label], store.labels.t1[label], streams.keys[stream]
    corrected = entities.corrected[model]
    head = first
    while predictions.model[head] != model:
        head = predictions.next[head]
    with_segments = outcomes.first_with_segments(store, first, model, keys) if keys else 0
    for part in range(2 + keys):  # the model, its correction, its segments
        entity, predictor, key = model, outcomes.OWN, part - 2
        if part == 1:
            if not corrected or not outcomes.all_corrected(registry, store, stream, slot, model, first):
                continue
            entity, predictor = corrected, outcomes.CORRECTED
        elif part > 1:
            values.segment_numbers[head, key] = 0
            row = outcomes.segment_row(registry, store, stream, slot, model, with_segments, key)
            if row < 0:
                continue
            log.add_segment_event(logs, model, row, 1)
            entity = registry.segment_rows.entity[row]
        number = _count(registry, logs, stream, entity, t1)
        if part == 0:
            if streams.versions[stream]:
                _note_version(registry, store, model, number, first)
            if outcomes.has_two_predictions(predictions, first, model, t1):
                entities.twofold[model] = 1
        elif part > 1:
            values.segment_numbers[head, key] = number
        outcome = outcomes.outcome_of(entity, number, predictor, y, y, OUTCOME)
        outcomes.write_here(registry, store, logs, origin, outcome, model, first)


@inner
def _complete_ages(
    registry: Registry, store: Store, logs: Logs, origin: Origin, model: int, first: int
) -> None:
    """Write a model's outcomes at an age, unless the label came before it or all predictions after it."""
    stream, slot = origin.stream, origin.slot
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    label = store.instances.label[slot]
    t1, y = store.labels.t1[label], store.labels.label[label]
    head = first
    while predictions.model[head] != model:
        head = predictions.next[head]
    for stage in range(streams.age_count[stream]):
        store.values.after_numbers[head, stage] = 0
        chosen = outcomes.chosen_at_age(registry, store, origin, model, first, stage)
        if chosen:
            entity = entities.after[model] + stage
            number = _count(registry, logs, stream, entity, t1)
            store.values.after_numbers[head, stage] = number
            outcome = outcomes.outcome_of(entity, number, outcomes.OWN, y, y, OUTCOME)
            outcomes.put(registry, store, logs, origin, outcome, 0, chosen)


@inner
def _complete_baselines(registry: Registry, store: Store, logs: Logs, origin: Origin, first: int) -> None:
    """Write the baselines' outcomes of an instance, at the times of the first model's predictions."""
    stream, slot = origin.stream, origin.slot
    streams, entities = registry.streams, registry.entities
    label = store.instances.label[slot]
    t1, y = store.labels.t1[label], store.labels.label[label]
    for stage in range(streams.age_count[stream]):
        store.label_values.after_numbers[label, stage] = 0
    reference = outcomes.first_model_of(store.predictions, first)
    twofold = outcomes.has_two_predictions(store.predictions, first, reference, t1)
    for baseline in range(2):
        entity = (streams.majority_entity if baseline else streams.persistent_entity)[stream]
        if entity:
            if twofold:
                entities.twofold[entity] = 1
            number = _count(registry, logs, stream, entity, t1)
            outcome = outcomes.outcome_of(entity, number, outcomes.PERSISTENT + baseline, y, y, OUTCOME)
            outcomes.write_outcomes(registry, store, logs, origin, outcome, reference, first)
            for stage in range(streams.age_count[stream]):
                chosen = outcomes.chosen_at_age(registry, store, origin, reference, first, stage)
                if chosen:
                    aged = entities.after[entity] + stage
                    number = _count(registry, logs, stream, aged, t1)
                    former_number = store.label_values.after_numbers[label, stage]
                    store.label_values.after_numbers[label, stage] = max(former_number, number)
                    outcome = outcomes.outcome_of(aged, number, outcomes.PERSISTENT + baseline, y, y, OUTCOME)
                    outcomes.put(registry, store, logs, origin, outcome, 0, chosen)


@inner
def meet(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, prediction: int) -> None:
    """Write the event that a prediction meets its label, with its scores."""
    predictions, labels = store.predictions, store.labels
    label = store.instances.label[slot]
    y = labels.label[label]
    row = log.add_event(logs, log.MET, predictions.model[prediction], predictions.ts[prediction])
    logs.events.t1[row] = labels.t1[label]
    logs.events.prediction[row] = predictions.label[prediction]
    logs.events.bin[row] = predictions.bin[prediction]
    logs.events.score[row] = predictions.score[prediction]
    logs.events.label[row] = y
    logs.events.bits[row] = outcomes.bits_of(predictions, prediction, y)
    logs.events.known[row] = outcomes.knows(predictions, prediction)
    logs.events.at_horizon[row] = labels.at_horizon[label]
    if labels.at_horizon[label]:
        registry.entities.at_horizon[predictions.model[prediction]] += 1
    if registry.streams.valued[stream]:
        note_stake(logs.events, row, store.values.numbers, prediction, store.label_values.value, label)
    if registry.streams.season[stream]:
        find_baseline(registry, store, stream, prediction, labels.t1[label])
    score(logs.events, row, registry, store, stream, slot, prediction, y)


@inner
def complete(registry: Registry, store: Store, logs: Logs, origin: Origin) -> None:
    """Write all outcomes of an instance whose label has just met its predictions.

    The outcomes are in the order of the models' first predictions.
    """
    stream, slot = origin.stream, origin.slot
    predictions = store.predictions
    label = store.instances.label[slot]
    clock = registry.streams.clock[stream]
    log.add_latency(logs, stream, max(0, store.labels.t1[label] - store.labels.t0[label]), clock, 0)
    registry.streams.completed[stream] += 1
    store.labels.completed[label] = registry.streams.completed[stream]
    first = store.instances.first[slot]
    row = first
    while row:
        meet(registry, store, logs, stream, slot, row)
        row = predictions.next[row]
    row = first
    while row:
        model = predictions.model[row]
        if outcomes.is_first_of_model(predictions, first, row) and not registry.entities.retired[model]:
            _complete_model(registry, store, logs, origin, model, first)
        row = predictions.next[row]
    _complete_baselines(registry, store, logs, origin, first)
    row = first
    while row:
        model = predictions.model[row]
        if outcomes.is_first_of_model(predictions, first, row) and not registry.entities.retired[model]:
            _complete_ages(registry, store, logs, origin, model, first)
        row = predictions.next[row]


@inner
def complete_late(registry: Registry, store: Store, logs: Logs, origin: Origin, prediction: int) -> None:
    """Write a model's outcomes for the last prediction in a list, which came after the label met others."""
    stream, slot = origin.stream, origin.slot
    model = store.predictions.model[prediction]
    label = store.instances.label[slot]
    store.predictions.judged[prediction] = store.labels.label[label] + 1
    meet(registry, store, logs, stream, slot, prediction)
    _complete_model(registry, store, logs, origin, model, prediction)
    _complete_ages(registry, store, logs, origin, model, prediction)


@inner
def remember_numbers(registry: Registry, store: Store, first: int) -> None:
    """Store the numbers of the models' outcomes, by which revisions find them."""
    predictions = store.predictions
    row = first
    while row:
        number = registry.entities.outcomes[predictions.model[row]] & outcomes.LOW
        predictions.outcome[row] = number - (outcomes.LOW + 1) if number > outcomes.LOW >> 1 else number
        row = predictions.next[row]


# ---- before anything changes


@inner
def lacks_segment(registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> bool:
    """Whether an outcome of a pending prediction is in a segment that can't be registered here (`wants`)."""
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
    """Whether a model's segment has no entity, and there is no row for one.

    It is registered here if there is a row; if not, it is noted in `Logs.used[WANTED]`.
    """
    if registry.entities.retired[model]:  # its segments have no rows any more
        return False
    row = registry.entities.segments[model] + key * registry.streams.slots[stream] + value - 1
    if registry.segment_rows.entity[row] or _register(registry, logs, stream, model, row):
        return False
    logs.used[log.WANTED] = row
    return True


@inner
def _register(registry: Registry, logs: Logs, stream: int, model: int, row: int) -> bool:
    """Register the entity of a model's segment (a row in `SegmentRows`); False if there is no row for it.

    The catalog names it when the join stops (`Catalog.name_segments`).
    """
    entities, streams, next_rows = registry.entities, registry.streams, registry.next_rows
    entity, plan, count = next_rows.entity[0], entities.plan[model], logs.used[log.SEGMENTS]
    first, stages = next_rows.sequence[plan], np.int64(entities.stages[model])
    initial_is_final = np.int64(entities.initial_is_final[model])
    is_free = next_rows.free[plan] >> initial_is_final & 1
    if is_free or entity == len(entities.stream) or count == len(logs.segments):
        return False
    first -= initial_is_final  # which has no row
    next_rows.entity[0], next_rows.sequence[plan] = entity + 1, first + stages
    logs.segments[count] = row
    logs.used[log.SEGMENTS] = count + 1
    registry.segment_rows.entity[row] = entity
    entities.stream[entity], entities.model[entity], entities.kind[entity] = stream, model, SEGMENT
    entities.plan[entity], entities.first[entity], entities.stages[entity] = plan, first, stages
    entities.began[entity] = streams.completed[stream]
    entities.initial_is_final[entity] = initial_is_final
    return True


@inner
def separates(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, t1: int) -> bool:
    """Whether a label with the time t1 gives an entity its first outcome with two predictions.

    From that outcome on, `initial` and `final` are different sequences; until then they were one. Notes the
    entity in `Logs.used[WANTED]`.
    """
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    horizon = streams.horizon[stream]
    if store.instances.state[slot] != stores.WAITING:
        return False
    if is_beyond_horizon(store.links.deadline[slot] - horizon, t1, horizon):
        return False
    first = store.instances.first[slot]
    row = first
    while row:
        model = predictions.model[row]
        if entities.initial_is_final[model] and outcomes.has_two_predictions(predictions, first, model, t1):
            logs.used[log.WANTED] = model
            return True
        row = predictions.next[row]
    if outcomes.has_two_predictions(predictions, first, outcomes.first_model_of(predictions, first), t1):
        for baseline in range(2):
            entity = (streams.majority_entity if baseline else streams.persistent_entity)[stream]
            if entity and entities.initial_is_final[entity]:
                logs.used[log.WANTED] = entity
                return True
    return False


# ---- the label meets them


@inner
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
            event = log.add_event(logs, log.LATE, model, predictions.ts[row])
            logs.events.prediction[event] = predictions.label[row]
            logs.events.bin[event] = predictions.bin[row]
            logs.events.score[event] = predictions.score[row]
            if before:
                predictions.next[before] = following
            else:
                store.instances.first[slot] = following
            stores.drop_probabilities(store.pools, store.probabilities, predictions.probabilities[row])
            stores.give_row(store.pools, stores.PREDICTIONS, predictions.next, row)
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
            source = outcomes.first_with_segments(store, first, predictions.model[row], keys)
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


@inner
def settle(registry: Registry, store: Store, logs: Logs, origin: Origin) -> None:
    """Let an instance's label meet all pending predictions."""
    streams, instances, predictions = registry.streams, store.instances, store.predictions
    stream, slot = origin.stream, origin.slot
    instances.state[slot] = stores.SETTLED
    store.labels.first[instances.label[slot]] = store.labels.label[instances.label[slot]]
    if instances.version[slot] == stores.NO_VERSION:
        streams.predictions_without_instance[stream] += stores.count_of(predictions, instances.first[slot])
    complete(registry, store, logs, origin)
    remember_numbers(registry, store, instances.first[slot])
