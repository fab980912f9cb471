"""Processes a label's record, also a revision of a label (`docs/reference/semantics-time.md`).

A revised label moves the instance's outcomes to their new cells; without a label they are in none. Where
there is more than a cell, such as scores or a stake, rows of the kind `UNREVISED` come first: by them,
consumers remove what they added. Baselines keep the labels that they saw, and the judgement by these labels.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.completing import LOW, drop_late, number_at_age
from prequential.engine.join.expiry import MEETS, NOTHING, drop_label, forget
from prequential.engine.join.outcome_rows import (
    OWN,
    PERSISTENT,
    Outcome,
    Place,
    bits_of,
    chosen_at_age,
    earliest_of,
    first_model_of,
    first_with_segments,
    is_first_of_model,
    outcome_of,
    put,
    segment_row,
    write_outcomes,
)
from prequential.engine.join.scoring import AMOUNT, note_label, note_stake, note_value, score, weigh
from prequential.engine.tables.logs import (
    DUPLICATE,
    LATE_LABEL,
    REVISED,
    Logs,
    add_event,
    add_latency,
    note_dropped,
    number_of,
)
from prequential.engine.tables.logs import UNREVISED as UNREVISED_EVENT
from prequential.engine.tables.outcomes import REVISION, UNREVISED
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
    unschedule,
)
from prequential.engine.tables.streams import Registry, Streams, count_label, is_beyond_horizon


@inner
def _write_stages(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, model: int, first: int
) -> None:
    """Write one outcome of an entity in all stages except those at an age."""
    _touch(registry, outcome)
    write_outcomes(registry, store, logs, place, outcome, model, first)


@inner
def _touch(registry: Registry, outcome: Outcome) -> None:
    """Count a revision of an entity; the row before it isn't one."""
    if outcome.kind == REVISION:
        registry.entities.revisions[outcome.entity] += 1
        registry.entities.changed[outcome.entity] = 1


@inner
def note_unrevised(registry: Registry, store: Store, logs: Logs, place: Place) -> None:
    """Write outcomes of a settled instance as they are, before its label changes; see `UNREVISED`."""
    streams, stream = registry.streams, place.stream
    label = store.labels.label[store.instances.label[place.slot]]
    scored = streams.regression[stream] or streams.probabilities[stream] or streams.weights[stream]
    if label != NO_CLASS and (scored or streams.valued[stream]):
        _write(registry, store, logs, place, label, UNREVISED)


@inner
def revise(registry: Registry, store: Store, logs: Logs, place: Place, old: int) -> None:
    """Move the outcomes of a settled instance whose label was revised from `old` to its present label.

    NO_CLASS stands for no label, on either side. `note_unrevised` is called before the label changes.
    """
    _write(registry, store, logs, place, old, REVISION)


@inner
def _write(registry: Registry, store: Store, logs: Logs, place: Place, old: int, kind: int) -> None:
    """Write events and rows of a kind, REVISION or UNREVISED, for all outcomes of a settled instance."""
    stream, slot = place.stream, place.slot
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    label = store.instances.label[slot]
    y = store.labels.label[label]
    first, at_first = store.instances.first[slot], store.labels.first[label]
    row = first
    while row:
        judged = predictions.judged[row] - 1 if predictions.judged[row] else at_first
        which = REVISED if kind == REVISION else UNREVISED_EVENT
        event = add_event(logs, which, predictions.model[row], predictions.ts[row])
        logs.events.prediction[event] = predictions.label[row]
        logs.events.bin[event] = predictions.bin[row]
        logs.events.label[event] = old
        logs.events.revised[event] = y
        logs.events.at_horizon[event] = store.labels.at_horizon[label]
        logs.events.bits[event] = bits_of(predictions, row, judged)
        if streams.valued[stream]:
            stakes = store.label_values.value
            note_stake(logs.events, event, store.values.numbers, row, stakes, label)
        if y == NO_CLASS:
            weigh(logs.events, event, registry, store, stream, slot)
        else:
            score(logs.events, event, registry, store, stream, slot, row, y)
        row = predictions.next[row]
    row = first
    while row:
        model = predictions.model[row]
        if is_first_of_model(predictions, first, row) and not entities.retired[model]:
            initial = earliest_of(predictions, first, model)
            judged = predictions.judged[initial] - 1 if predictions.judged[initial] else at_first
            outcomes = entities.outcomes[model]
            number = outcomes - ((outcomes - predictions.outcome[row]) & LOW)
            outcome = outcome_of(model, number, OWN, old, judged, kind)
            _write_stages(registry, store, logs, place, outcome, model, first)
            for key in range(streams.keys[stream]):
                number = store.values.segment_numbers[row, key]
                if number:
                    carrier = first_with_segments(store, first, model, streams.keys[stream])
                    its = segment_row(registry, store, stream, slot, model, carrier, key)
                    entity = registry.segment_rows.entity[its]
                    outcome = outcome_of(entity, number, OWN, old, judged, kind)
                    _write_stages(registry, store, logs, place, outcome, model, first)
            for stage in range(streams.age_count[stream]):
                number = store.values.after_numbers[row, stage]
                if number:
                    age = registry.ages.age[streams.ages[stream] + stage]
                    t0, t1 = store.labels.t0[label], store.labels.t1[label]
                    chosen = chosen_at_age(predictions, first, model, age, t0, t1)
                    judged = predictions.judged[chosen] - 1 if predictions.judged[chosen] else at_first
                    outcome = outcome_of(entities.after[model] + stage, number, OWN, old, judged, kind)
                    _touch(registry, outcome)
                    put(registry, store, logs, place, outcome, 0, chosen)
        row = predictions.next[row]
    _write_baselines(registry, store, logs, place, first, old, kind)


@inner
def _write_baselines(
    registry: Registry, store: Store, logs: Logs, place: Place, first: int, old: int, kind: int
) -> None:
    """Write the outcomes of the evaluated baselines."""
    stream, slot = place.stream, place.slot
    streams, entities = registry.streams, registry.entities
    label = store.instances.label[slot]
    judged = store.labels.first[label]
    reference = first_model_of(store.predictions, first)
    for which in range(2):
        entity = (streams.majority_entity if which else streams.persistent_entity)[stream]
        if not entity:
            continue
        number = store.labels.completed[label] - entities.began[entity]
        if number > 0:
            outcome = outcome_of(entity, number, PERSISTENT + which, old, judged, kind)
            _write_stages(registry, store, logs, place, outcome, reference, first)
        for stage in range(streams.age_count[stream]):
            aged = entities.after[entity] + stage
            number = number_at_age(registry, store, stream, label, aged, stage)
            if number > 0:
                age = registry.ages.age[streams.ages[stream] + stage]
                t0, t1 = store.labels.t0[label], store.labels.t1[label]
                chosen = chosen_at_age(store.predictions, first, reference, age, t0, t1)
                outcome = outcome_of(aged, number, PERSISTENT + which, old, judged, kind)
                _touch(registry, outcome)
                put(registry, store, logs, place, outcome, 0, chosen)


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
