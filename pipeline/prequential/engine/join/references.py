"""References: repeats an instance's earlier outcomes in the log when another model's outcome joins them.

Models are compared on instances for which both have an outcome, and the log is read only once.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import inner
from prequential.engine.join.choosing import (
    chosen_at_age,
    first_model_of,
    first_with_segments,
    is_first_of_model,
    segment_row,
)
from prequential.engine.join.completing import all_corrected, number_at_age
from prequential.engine.join.outcome_rows import (
    CORRECTED,
    OWN,
    PERSISTENT,
    Place,
    outcome_of,
    put,
    write_outcomes,
)
from prequential.engine.tables.logs import Logs
from prequential.engine.tables.outcomes import REFERENCE
from prequential.engine.tables.store import Store
from prequential.engine.tables.streams import Registry


@inner
def refer(
    registry: Registry, store: Store, logs: Logs, place: Place, joined: int
) -> None:
    """Write references to all outcomes of an instance except those of the last prediction, `joined`.

    The present label decides, so that both models are judged by the same label.
    """
    stream, slot = place.stream, place.slot
    predictions, entities = store.predictions, registry.entities
    first = store.instances.first[slot]
    label = store.instances.label[slot]
    y, t0 = store.labels.label[label], store.labels.t0[label]
    row = first
    while row != joined:
        model = predictions.model[row]
        if is_first_of_model(predictions, first, row) and not entities.retired[model]:
            outcome = outcome_of(model, 0, OWN, y, y, REFERENCE)
            write_outcomes(registry, store, logs, place, outcome, model, first)
            shadow = entities.corrected[model]
            if shadow and all_corrected(registry, store, stream, slot, model, first):
                outcome = outcome_of(shadow, 0, CORRECTED, y, y, REFERENCE)
                write_outcomes(registry, store, logs, place, outcome, model, first)
            for key in range(registry.streams.keys[stream]):
                if store.values.segment_numbers[row, key]:
                    carrier = first_with_segments(store, first, model, registry.streams.keys[stream])
                    its = segment_row(registry, store, stream, slot, model, carrier, key)
                    entity = registry.segment_rows.entity[its]
                    outcome = outcome_of(entity, 0, OWN, y, y, REFERENCE)
                    write_outcomes(registry, store, logs, place, outcome, model, first)
            for stage in range(registry.streams.age_count[stream]):
                if store.values.after_numbers[row, stage]:
                    age = registry.ages.age[registry.streams.ages[stream] + stage]
                    chosen = chosen_at_age(predictions, first, model, age, t0, store.labels.t1[label])
                    outcome = outcome_of(entities.after[model] + stage, 0, OWN, y, y, REFERENCE)
                    put(registry, store, logs, place, outcome, 0, chosen)
        row = predictions.next[row]
    _refer_to_baselines(registry, store, logs, place, first)


@inner
def _refer_to_baselines(
    registry: Registry, store: Store, logs: Logs, place: Place, first: int
) -> None:
    """Write references to the outcomes of the evaluated baselines."""
    stream, slot = place.stream, place.slot
    streams, entities = registry.streams, registry.entities
    label = store.instances.label[slot]
    y, t0 = store.labels.label[label], store.labels.t0[label]
    reference = first_model_of(store.predictions, first)
    for which in range(2):
        entity = (streams.majority_entity if which else streams.persistent_entity)[stream]
        if not entity:
            continue
        if store.labels.completed[label] > entities.began[entity]:
            outcome = outcome_of(entity, 0, PERSISTENT + which, y, y, REFERENCE)
            write_outcomes(registry, store, logs, place, outcome, reference, first)
        for stage in range(streams.age_count[stream]):
            aged = entities.after[entity] + stage
            if number_at_age(registry, store, stream, label, aged, stage) > 0:
                age = registry.ages.age[streams.ages[stream] + stage]
                chosen = chosen_at_age(store.predictions, first, reference, age, t0, store.labels.t1[label])
                outcome = outcome_of(aged, 0, PERSISTENT + which, y, y, REFERENCE)
                put(registry, store, logs, place, outcome, 0, chosen)
