"""Processes a prediction's record (`docs/reference/semantics-time.md`).

Models are compared on instances for which both have an outcome, and the log is read only once. So an outcome
that comes later than others of its instance brings references to those (`refer`).
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.completing import all_corrected, complete_late, number_at_age, remember_numbers
from prequential.engine.join.expiry import MEETS, NOTHING, label_was_late
from prequential.engine.join.outcome_rows import (
    CORRECTED,
    OWN,
    PERSISTENT,
    Place,
    chosen_at_age,
    first_model_of,
    first_with_segments,
    is_first_of_model,
    outcome_of,
    put,
    segment_row,
    write_outcomes,
)
from prequential.engine.join.scoring import estimate, note_seen, see_less
from prequential.engine.tables.logs import (
    DUPLICATE,
    EXPIRED_PREDICTION,
    LATE_PREDICTION,
    WAITS,
    Logs,
    add_event,
    note_dropped,
    number_of,
)
from prequential.engine.tables.outcomes import REFERENCE
from prequential.engine.tables.records import PREDICTION, Rows
from prequential.engine.tables.scores import confidence_bin
from prequential.engine.tables.store import (
    EXPIRED,
    LABELLED,
    NO_CLASS,
    NO_VERSION,
    PREDICTIONS,
    PROBABILITIES,
    SETTLED,
    UNKNOWN,
    WAITING,
    Predictions,
    Store,
    take_row,
)
from prequential.engine.tables.streams import Registry, is_beyond_horizon, lift


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


@inlined
def take_prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process a prediction; returns the deadline of its instance's state, `MEETS` or `NOTHING`."""
    streams, entities = registry.streams, registry.entities
    instances, labels = store.instances, store.labels
    horizon, ts, model = streams.horizon[stream], rows.ts[i], rows.model[i]
    state = instances.state[slot]
    if state == EXPIRED:
        entities.expired[model] += 1
        note_dropped(logs, EXPIRED_PREDICTION, i)
        return NOTHING
    if state in (LABELLED, SETTLED) and ts > labels.t1[instances.label[slot]]:
        entities.late[model] += 1
        note_dropped(logs, LATE_PREDICTION, i)
        return NOTHING
    if (state == WAITING and repeats(rows, i, registry, store, stream, slot)) or (
        state == SETTLED and _has_prediction(store.predictions, instances.first[slot], model)
    ):
        entities.duplicate[model] += 1
        note_dropped(logs, DUPLICATE + PREDICTION, i)
        return NOTHING
    if state == SETTLED and labels.label[instances.label[slot]] == NO_CLASS:  # its label is withdrawn
        entities.expired[model] += 1
        note_dropped(logs, EXPIRED_PREDICTION, i)
        return NOTHING
    unbounded = instances.version[slot] == NO_VERSION
    t0 = ts
    if state == LABELLED:
        label = instances.label[slot]
        t0 = ts if unbounded else labels.t0[label]
        if is_beyond_horizon(t0, labels.t1[label], horizon):
            label_was_late(registry, store, logs, stream, slot, t0 + horizon)
            _add_prediction(rows, i, registry, store, logs, stream, slot)
            return t0 + horizon
    row = _add_prediction(rows, i, registry, store, logs, stream, slot)
    if state == UNKNOWN:
        instances.state[slot] = WAITING
        return ts + horizon
    if state == WAITING:
        sooner = unbounded and ts + horizon < store.links.deadline[slot]
        return ts + horizon if sooner else NOTHING
    _take_labels_baselines(registry, store, stream, slot, row)
    if state == LABELLED:
        streams.waiting_labels[stream] -= 1
        labels.t0[instances.label[slot]] = t0
        return MEETS
    if unbounded:
        streams.predictions_without_instance[stream] += 1
    complete_late(registry, store, logs, Place(number_of(logs, i), stream, slot), row)
    if streams.compared[stream]:
        refer(registry, store, logs, Place(number_of(logs, i), stream, slot), row)
    remember_numbers(registry, store, row)
    return NOTHING


@inner
def repeats(rows: Rows, i: int, registry: Registry, store: Store, stream: int, slot: int) -> bool:
    """Whether a prediction has the same content as the model's last pending prediction with the same time.

    The content is the class or number and, if the stream's measures need them, the probabilities, further
    numbers or the quantiles.
    """
    predictions = store.predictions
    same, row = 0, store.instances.first[slot]
    while row:
        if predictions.model[row] == rows.model[i] and predictions.ts[row] == rows.ts[i]:
            same = row
        row = predictions.next[row]
    if not same:
        return False
    if registry.streams.regression[stream]:
        reads = registry.streams.reads[stream]
        for k in range(store.values.numbers.shape[1]):
            if reads >> k & 1:
                number, other = store.values.numbers[same, k], rows.numbers[i, k]
                if number != other and (number == number or other == other):
                    return False
        if store.values.number[same, 0] != rows.number[i]:
            return False
    elif predictions.label[same] != rows.label[i]:
        return False
    given = registry.streams.probabilities[stream] or registry.streams.quantiles[stream]
    return not given or _gives(rows, i, store, predictions.probabilities[same])


@inner
def _gives(rows: Rows, i: int, store: Store, first: int) -> bool:
    """Whether a record's probabilities or quantiles equal those in the pool from row `first` on, in order."""
    probabilities, row = store.probabilities, first
    for k in range(rows.probabilities[i], rows.probabilities[i + 1]):
        if not row or probabilities.name[row] != rows.names[k] or probabilities.p[row] != rows.p[k]:
            return False
        row = probabilities.next[row]
    return not row


@inner
def _has_prediction(predictions: Predictions, first: int, model: int) -> bool:
    """Whether a list has a prediction of a model."""
    row = first
    while row:
        if predictions.model[row] == model:
            return True
        row = predictions.next[row]
    return False


@inner
def _take_labels_baselines(registry: Registry, store: Store, stream: int, slot: int, prediction: int) -> None:
    """Give a prediction that is processed after its label the baselines from just before the label."""
    label = store.instances.label[slot]
    store.predictions.persistent[prediction] = store.labels.persistent[label]
    store.predictions.majority[prediction] = store.labels.majority[label]
    if registry.streams.season[stream]:
        see_less(store, stream, prediction, store.labels.t1[label])


@inlined
def _add_prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Append a prediction to the list of its instance; it is pending, if only for a moment."""
    streams, predictions, values = registry.streams, store.predictions, store.values
    row = take_row(store.pools, PREDICTIONS, predictions.next)
    predictions.model[row] = rows.model[i]
    predictions.ts[row] = rows.ts[i]
    predictions.label[row] = rows.label[i]
    predictions.persistent[row] = streams.persistent[stream]
    predictions.majority[row] = streams.majority[stream]
    predictions.judged[row] = 0
    predictions.corrected[row] = 0
    predictions.version[row] = rows.version[i]
    predictions.bin[row] = predictions.outcome[row] = 0
    predictions.probabilities[row] = 0
    if streams.regression[stream]:
        values.number[row, 0] = rows.number[i]
        if streams.season[stream]:
            note_seen(registry, store, stream, row)
    if streams.probabilities[stream] or streams.quantiles[stream]:
        predictions.probabilities[row] = _keep_probabilities(rows, i, store)
    if streams.expects[stream]:
        predictions.bin[row] = _bin_of(rows, i, registry, stream)
    if streams.correction[stream]:
        predictions.corrected[row] = 1 + _corrected(rows, i, registry, stream)
    for k in range(values.numbers.shape[1]):  # all: the row may have numbers of an earlier prediction
        values.numbers[row, k] = rows.numbers[i, k] if streams.reads[stream] >> k & 1 else np.nan
    for key in range(streams.keys[stream]):
        values.segments[row, key] = rows.segments[i, key]
    last = store.instances.first[slot]
    if not last:
        store.instances.first[slot] = row
    else:
        while predictions.next[last]:
            last = predictions.next[last]
        predictions.next[last] = row
    if values.estimate.shape[1]:  # always: as above
        values.estimate[row, 0] = 0.0
        if streams.estimates[stream]:
            estimate(registry, store, stream, slot, row)
    event = add_event(logs, WAITS, rows.model[i], rows.ts[i])
    logs.events.prediction[event] = rows.label[i]
    logs.events.bin[event] = predictions.bin[row]
    logs.events.t1[event] = streams.clock[stream]
    return row


@inner
def _bin_of(rows: Rows, i: int, registry: Registry, stream: int) -> int:
    """The bin of a record's confidence in the class that it predicts; 0: it has no probabilities."""
    first, end = rows.probabilities[i], rows.probabilities[i + 1]
    if first == end:
        return 0
    confidence = 0.0
    answer = registry.classes.name[registry.streams.classes[stream] + rows.label[i]]
    for k in range(first, end):
        if rows.names[k] == answer:
            confidence = rows.p[k]
    return confidence_bin(confidence)


@inner
def _keep_probabilities(rows: Rows, i: int, store: Store) -> int:
    """Put a record's probabilities or quantiles into the pool; returns the first, 0 if there are none."""
    probabilities = store.probabilities
    first = last = 0
    for k in range(rows.probabilities[i], rows.probabilities[i + 1]):
        row = take_row(store.pools, PROBABILITIES, probabilities.next)
        probabilities.name[row], probabilities.p[row] = rows.names[k], rows.p[k]
        if last:
            probabilities.next[last] = row
        else:
            first = row
        last = row
    return first


@inner
def _corrected(rows: Rows, i: int, registry: Registry, stream: int) -> int:
    """The class of the largest P(y|x)·P(y|y')/P(y), y' the latest label (Žliobaitė et al. 2015, eq. 3).

    If several classes have the largest value, the first one in the record counts. -1: no class in it is
    known.
    """
    streams, classes = registry.streams, registry.classes
    start = streams.classes[stream]
    best, most = -1, -1.0
    for k in range(rows.probabilities[i], rows.probabilities[i + 1]):
        for code in range(rows.classes[i]):
            if classes.name[start + code] == rows.names[k]:
                value = rows.p[k] * lift(streams, classes, registry.pairs, stream, code)
                if value > most:
                    best, most = code, value
                break
    return best
