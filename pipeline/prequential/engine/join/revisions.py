"""Revisions: applies a corrected or withdrawn label to outcomes that may still change.

The outcomes move to their new cells; without a label they are in none. Where there is more than a cell, such
as scores or a stake, rows of the kind `UNREVISED` come first: by them, consumers remove what they added.
Baselines keep the labels that they saw, and the judgement by these labels.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import inner
from prequential.engine.join.choosing import (
    chosen_at_age,
    earliest_of,
    first_model_of,
    first_with_segments,
    is_first_of_model,
    segment_row,
)
from prequential.engine.join.completing import LOW, number_at_age
from prequential.engine.join.outcome_rows import (
    OWN,
    PERSISTENT,
    Outcome,
    Place,
    bits_of,
    outcome_of,
    put,
    write_outcomes,
)
from prequential.engine.join.scoring import score, weigh
from prequential.engine.join.stakes import note_stake
from prequential.engine.tables.events import REVISED
from prequential.engine.tables.events import UNREVISED as UNREVISED_EVENT
from prequential.engine.tables.logs import Logs, add_event
from prequential.engine.tables.outcomes import REVISION, UNREVISED
from prequential.engine.tables.store import NO_CLASS, Store
from prequential.engine.tables.streams import Registry


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
