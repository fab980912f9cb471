"""Processes the record of an instance, a prediction or a label (`docs/reference/semantics-time.md`).

Models are compared on instances for which both have an outcome, and the log is read only once. So an outcome
that comes later than others of its instance brings references to those.

A revised label moves the instance's outcomes to their new cells; without a label they are in none. Where
there is more than a cell, such as scores or a stake, rows of the kind `UNREVISED` come first: by them,
consumers remove what they added. Baselines keep the labels that they saw, and the judgement by these labels.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import inner
from prequential.engine.join import scoring
from prequential.engine.join.completing import complete_late, drop_late, remember_numbers
from prequential.engine.join.expiry import (
    MEETS,
    NOTHING,
    count_late_label,
    drop_label,
    forget,
    label_was_late,
)
from prequential.engine.join.outcome_rows import Origin, is_first_of_model, note_unrevised, write_again
from prequential.engine.tables import logs as log
from prequential.engine.tables import store as stores
from prequential.engine.tables.logs import Logs
from prequential.engine.tables.outcomes import REFERENCE, REVISION
from prequential.engine.tables.records import INSTANCE, LABEL, PREDICTION, Rows
from prequential.engine.tables.scores import confidence_bin, score_bin
from prequential.engine.tables.store import Predictions, Store
from prequential.engine.tables.streams import (
    Registry,
    Streams,
    count_label,
    is_beyond_horizon,
    lift,
    positive_name,
)


@inner
def take_instance(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process an instance; returns the deadline of its state, or `NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    horizon, ts, version = streams.horizon[stream], rows.ts[i], rows.version[i]
    state, stored_version = instances.state[slot], instances.version[slot]
    if state == stores.UNKNOWN:
        instances.state[slot] = stores.WAITING
        instances.version[slot] = version
        _note_instance(rows, i, registry, store, stream, slot)
        return ts + horizon
    is_old = stored_version != stores.NO_VERSION and version <= stored_version
    if state == stores.EXPIRED or (state == stores.SETTLED and is_old):
        streams.duplicate_instances[stream] += 1
        log.note_dropped(logs, log.DUPLICATE + INSTANCE, i)
        return NOTHING
    if state == stores.SETTLED:
        instances.version[slot] = version
        return NOTHING
    label = instances.label[slot]
    t0 = store.links.deadline[slot] - horizon if state == stores.WAITING else labels.t0[label]
    if is_old and ts >= t0:
        streams.duplicate_instances[stream] += 1
        log.note_dropped(logs, log.DUPLICATE + INSTANCE, i)
        return NOTHING
    _note_instance(rows, i, registry, store, stream, slot)
    t0 = ts if stored_version == stores.NO_VERSION else min(t0, ts)
    instances.version[slot] = version if stored_version == stores.NO_VERSION else max(version, stored_version)
    if state == stores.WAITING:
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


@inner
def take_prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process a prediction; returns the deadline of its instance's state, `MEETS` or `NOTHING`."""
    streams, entities = registry.streams, registry.entities
    instances, labels = store.instances, store.labels
    horizon, ts, model = streams.horizon[stream], rows.ts[i], rows.model[i]
    state = instances.state[slot]
    if state == stores.EXPIRED:
        entities.expired[model] += 1
        log.note_dropped(logs, log.EXPIRED_PREDICTION, i)
        return NOTHING
    if state in (stores.LABELLED, stores.SETTLED) and ts > labels.t1[instances.label[slot]]:
        entities.late[model] += 1
        log.note_dropped(logs, log.LATE_PREDICTION, i)
        return NOTHING
    if (state == stores.WAITING and repeats(rows, i, registry, store, stream, slot)) or (
        state == stores.SETTLED and _has_prediction(store.predictions, instances.first[slot], model)
    ):
        entities.duplicate[model] += 1
        log.note_dropped(logs, log.DUPLICATE + PREDICTION, i)
        return NOTHING
    if state == stores.SETTLED and labels.label[instances.label[slot]] == stores.NO_CLASS:  # withdrawn
        entities.expired[model] += 1
        log.note_dropped(logs, log.EXPIRED_PREDICTION, i)
        return NOTHING
    unbounded = instances.version[slot] == stores.NO_VERSION
    t0 = ts
    if state == stores.LABELLED:
        label = instances.label[slot]
        t0 = ts if unbounded else labels.t0[label]
        if is_beyond_horizon(t0, labels.t1[label], horizon):
            label_was_late(registry, store, logs, stream, slot, t0 + horizon)
            _add_prediction(rows, i, registry, store, logs, stream, slot)
            return t0 + horizon
    row = _add_prediction(rows, i, registry, store, logs, stream, slot)
    if state == stores.UNKNOWN:
        instances.state[slot] = stores.WAITING
        return ts + horizon
    if state == stores.WAITING:
        sooner = unbounded and ts + horizon < store.links.deadline[slot]
        return ts + horizon if sooner else NOTHING
    _take_labels_baselines(registry, store, stream, slot, row)
    if state == stores.LABELLED:
        streams.waiting_labels[stream] -= 1
        labels.t0[instances.label[slot]] = t0
        return MEETS
    if unbounded:
        streams.predictions_without_instance[stream] += 1
    origin = Origin(log.number_of(logs, i), stream, slot)
    complete_late(registry, store, logs, origin, row)
    if streams.compared[stream]:
        write_again(registry, store, logs, origin, labels.label[instances.label[slot]], REFERENCE, row)
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
                number, new_number = store.values.numbers[same, k], rows.numbers[i, k]
                if number != new_number and (number == number or new_number == new_number):
                    return False
        if store.values.number[same, 0] != rows.number[i]:
            return False
    elif predictions.label[same] != rows.label[i]:
        return False
    has_probabilities = registry.streams.probabilities[stream] or registry.streams.quantiles[stream]
    return not has_probabilities or _gives(rows, i, store, predictions.probabilities[same])


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
        scoring.see_less(store, stream, prediction, store.labels.t1[label])


@inner
def _add_prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Append a prediction to the list of its instance; it is pending, if only for a moment."""
    streams, predictions, values = registry.streams, store.predictions, store.values
    row = stores.take_row(store.pools, stores.PREDICTIONS, predictions.next)
    predictions.model[row] = rows.model[i]
    predictions.ts[row] = rows.ts[i]
    predictions.label[row] = rows.label[i]
    predictions.persistent[row] = streams.persistent[stream]
    predictions.majority[row] = streams.majority[stream]
    predictions.judged[row] = 0
    predictions.corrected[row] = 0
    predictions.version[row] = rows.version[i]
    predictions.bin[row] = predictions.score[row] = predictions.outcome[row] = 0
    predictions.probabilities[row] = 0
    if streams.regression[stream]:
        values.number[row, 0] = rows.number[i]
        if streams.season[stream]:
            scoring.note_seen(registry, store, stream, row)
    if streams.probabilities[stream] or streams.quantiles[stream]:
        predictions.probabilities[row] = _keep_probabilities(rows, i, store)
    if streams.expects[stream]:
        predictions.bin[row] = _bin_of(rows, i, registry, stream)
    if streams.ranks[stream]:
        predictions.score[row] = _score_of(rows, i, registry, stream)
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
        if streams.paired[stream]:
            _note_encounters(registry, store, logs, Origin(log.number_of(logs, i), stream, slot), row)
    if values.estimate.shape[1]:  # always: as above
        values.estimate[row, 0] = 0.0
        if streams.estimates[stream]:
            scoring.estimate(registry, store, stream, slot, row)
    event = log.add_event(logs, log.WAITS, rows.model[i], rows.ts[i])
    logs.events.prediction[event] = rows.label[i]
    logs.events.bin[event] = predictions.bin[row]
    logs.events.score[event] = predictions.score[row]
    logs.events.t1[event] = streams.clock[stream]
    return row


@inner
def _note_encounters(registry: Registry, store: Store, logs: Logs, origin: Origin, row: int) -> None:
    """Note which models had predicted an instance before a prediction, the last one of its list.

    Of each model, its prediction that was delivered first counts, and the others don't.
    """
    predictions, first = store.predictions, store.instances.first[origin.slot]
    model, clock = predictions.model[row], registry.streams.clock[origin.stream]
    if not is_first_of_model(predictions, first, row):
        if not registry.entities.repeats[model]:
            log.add_encounter(logs, model, model, False, 0, origin.record)
        return
    other = first
    while other != row:
        if is_first_of_model(predictions, first, other):
            differs = predictions.label[row] != predictions.label[other]
            ts = min(predictions.ts[row], predictions.ts[other], clock)
            log.add_encounter(logs, model, predictions.model[other], differs, ts, origin.record)
        other = predictions.next[other]


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
def _score_of(rows: Rows, i: int, registry: Registry, stream: int) -> int:
    """1 + the bin of a record's probability of the positive class; 0: there is none of them.

    Without a configured positive class, the kind of the predicted class shows which one it is.
    """
    first, end = rows.probabilities[i], rows.probabilities[i + 1]
    positive = positive_name(registry.streams, registry.classes, stream, rows.label[i])
    if first == end or not positive:
        return 0
    score = 0.0
    for k in range(first, end):
        if rows.names[k] == positive:
            score = rows.p[k]
    return 1 + score_bin(score)


@inner
def _keep_probabilities(rows: Rows, i: int, store: Store) -> int:
    """Put a record's probabilities or quantiles into the pool; returns the first, 0 if there are none."""
    probabilities = store.probabilities
    first = last = 0
    for k in range(rows.probabilities[i], rows.probabilities[i + 1]):
        row = stores.take_row(store.pools, stores.PROBABILITIES, probabilities.next)
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


@inner
def take_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process a label; returns the deadline of its instance's state, `MEETS` or `NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, y = instances.state[slot], rows.label[i]
    if y == stores.NO_CLASS:
        return _withdraw(i, registry, store, logs, stream, slot)
    if state in (stores.UNKNOWN, stores.WAITING):
        return _first_label(rows, i, registry, store, logs, stream, slot)
    if state == stores.EXPIRED:
        deadline = instances.version[slot] + streams.horizon[stream]
        count_late_label(registry, logs, stream, rows.ts[i] - deadline)
        log.note_dropped(logs, log.LATE_LABEL, i)
        return NOTHING
    label = instances.label[slot]
    old = labels.label[label]
    if old == y and (not streams.regression[stream] or labels.number[label] == rows.number[i]):
        repeat_label(streams, logs, stream, i)
        return NOTHING
    origin = Origin(log.number_of(logs, i), stream, slot)
    if state == stores.SETTLED:
        note_unrevised(registry, store, logs, origin)
    labels.label[label], labels.number[label], labels.at_horizon[label] = y, rows.number[i], 0
    if streams.valued[stream] and rows.numbers[i, scoring.AMOUNT] >= 0.0:  # else the label keeps its value
        scoring.note_value(store.label_values.value, label, rows.numbers[i, scoring.AMOUNT])
    streams.revisions[stream] += 1
    if state == stores.SETTLED:
        write_again(registry, store, logs, origin, old, REVISION, 0)
    return NOTHING


@inner
def repeat_label(streams: Streams, logs: Logs, stream: int, i: int) -> None:
    """Count a label's record, in row `i`, that changes nothing."""
    streams.duplicate_labels[stream] += 1
    log.note_dropped(logs, log.DUPLICATE + LABEL, i)


@inner
def _withdraw(i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> int:
    """Withdraw an instance's label, by the record in row `i`; returns as `take_label`.

    Outcomes lose their label, and wait for another one at least until the horizon ends. Without outcomes the
    instance waits as if no label had come; without an instance's record nothing is known of it.
    """
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, label = instances.state[slot], instances.label[slot]
    if state not in (stores.LABELLED, stores.SETTLED) or labels.label[label] == stores.NO_CLASS:
        repeat_label(streams, logs, stream, i)
        return NOTHING
    streams.withdrawn[stream] += 1
    end = labels.t0[label] + streams.horizon[stream]
    if state == stores.SETTLED:
        origin, old = Origin(log.number_of(logs, i), stream, slot), labels.label[label]
        note_unrevised(registry, store, logs, origin)
        labels.label[label] = stores.NO_CLASS
        if streams.valued[stream]:
            scoring.note_value(store.label_values.value, label, -1.0)
        write_again(registry, store, logs, origin, old, REVISION, 0)
        return end if end > store.links.deadline[slot] else NOTHING
    streams.waiting_labels[stream] -= 1
    drop_label(store, slot)
    if instances.version[slot] != stores.NO_VERSION:
        instances.state[slot] = stores.WAITING
        return end
    stores.unschedule(store.wheels, store.links, stream, slot)
    forget(registry, store, logs, slot)
    return NOTHING


@inner
def _first_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Process an instance's first label: it is late, meets pending predictions, or waits for predictions."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    horizon, t1 = streams.horizon[stream], rows.ts[i]
    waited = instances.state[slot] == stores.WAITING
    t0 = store.links.deadline[slot] - horizon if waited else t1
    if is_beyond_horizon(t0, t1, horizon):
        count_late_label(registry, logs, stream, t1 - t0 - horizon)
        log.note_dropped(logs, log.LATE_LABEL, i)
        return NOTHING
    label = stores.take_row(store.pools, stores.LABELS, labels.next)
    labels.at_horizon[label] = 0
    instances.label[slot] = label
    labels.t1[label], labels.t0[label] = t1, t0
    labels.label[label] = labels.first[label] = rows.label[i]
    labels.number[label] = rows.number[i]
    if store.label_values.value.shape[1]:
        value = rows.numbers[i, scoring.AMOUNT] if streams.valued[stream] else -1.0
        scoring.note_value(store.label_values.value, label, value)
    labels.persistent[label], labels.majority[label] = streams.persistent[stream], streams.majority[stream]
    if not streams.regression[stream]:
        count_label(streams, registry.classes, registry.pairs, stream, rows.label[i])
    elif streams.season[stream]:
        scoring.note_label(registry, store, stream, t1, rows.number[i])
    drop_late(registry, store, logs, stream, slot, t1)
    if instances.first[slot]:
        return MEETS
    instances.state[slot] = stores.LABELLED
    streams.waiting_labels[stream] += 1
    return t1 + horizon
