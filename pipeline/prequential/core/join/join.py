"""The join: labels that come late meet the predictions that wait for them, record by record.

See `docs/semantics.md` for what each record does in each state of its instance.
"""

from __future__ import annotations

import numpy as np
from prequential.core.compiled.ids import AHEAD, LOW, find_hashed, find_or_add_hashed, warm
from prequential.core.compiled.kernel import inlined, inner, kernel
from prequential.core.join.completing import Place, complete_late, remember_numbers
from prequential.core.join.expiry import CLOCK_TOLERANCE, drop_label, run_out
from prequential.core.join.labelling import drop_late, lacks_segment, separates, settle, wants
from prequential.core.join.references import refer
from prequential.core.join.revisions import revise
from prequential.core.join.stakes import note_value, revise_value
from prequential.core.tables.calendar import schedule, unschedule
from prequential.core.tables.events import WAITS
from prequential.core.tables.logs import (
    DONE,
    DUE,
    DUPLICATE,
    EMIT,
    EXPIRED_PREDICTION,
    FULL,
    LATE_LABEL,
    LATE_PREDICTION,
    NEW_NAMES,
    NEW_SEGMENT,
    NEW_STAGE,
    OVERDUE,
    READ_AHEAD,
    REMEMBERED,
    Logs,
    add_event,
    add_latency,
    has_capacity,
    note_dropped,
    number_of,
)
from prequential.core.tables.records import INSTANCE, LABEL, PREDICTION, Rows
from prequential.core.tables.scores import confidence_bin
from prequential.core.tables.store import (
    EXPIRED,
    LABELLED,
    LABELS,
    NO_VERSION,
    PREDICTIONS,
    PROBABILITIES,
    SETTLED,
    UNKNOWN,
    WAITING,
    Predictions,
    Store,
    count_of,
    drop_probabilities,
    take_row,
)
from prequential.core.tables.streams import Registry, count_label, lift

#: What follows from a record, in place of the time until which its instance's state lasts: nothing, or that
#: its label meets the predictions that wait.
_NOTHING, _MEETS = -(1 << 62), -(1 << 62) + 1

#: Why a record is refused.
TAKEN, TOO_MANY_INSTANCES, TOO_MANY_PREDICTIONS = range(3)


@kernel
def join(
    rows: Rows, start: int, stop: int, registry: Registry, store: Store, logs: Logs, most_instances: int,
    most_predictions: int,
) -> tuple[int, int]:  # fmt: skip
    """Process the rows from `start` up to `stop` - 1, in order.

    Parameters
    ----------
    rows
        Of a micro-batch; `hashes` and `refused` are written.
    start, stop
        The first row, and the one behind the last.
    registry, store, logs
        The state, which is updated, and what happens, which is appended.
    most_instances
        That the shard may hold.
    most_predictions
        That may wait for one label.

    Returns
    -------
    row : int
        The next row.
    why : int
        Why it stopped there: DONE; EMIT, where messages are due; FULL, where a log has no room; NEW_NAMES or
        NEW_SEGMENT, where something is to be registered first.
    """
    streams, wheels, used = registry.streams, store.wheels, logs.used
    if used[OVERDUE]:
        why = run_out(registry, store, logs, used[OVERDUE] - 1, start)
        if why != DONE:
            return start, why
        used[OVERDUE] = 0
    known = start  # rows from here on haven't been read ahead yet
    for i in range(start, stop):
        if i >= known:
            known = min(i + AHEAD, stop)
            used[READ_AHEAD] = read_ahead(rows, store, i, known)
        stream = np.int64(rows.stream[i])  # as whoever closes has it: else all of `settle` is compiled twice
        clock = min(rows.ts[i], rows.time[i] + CLOCK_TOLERANCE)
        if streams.started[stream]:
            clock = max(clock, streams.clock[stream])
        slot = find_hashed(
            store.ids, rows.hashes[i], stream, rows.text, rows.starts[i], rows.starts[i + 1]
        )
        if (
            rows.kind[i] == PREDICTION
            and slot
            and _too_many(rows, i, store, stream, slot, clock, most_predictions, registry)
        ):
            rows.refused[i] = TOO_MANY_PREDICTIONS
            continue
        if not streams.started[stream]:
            streams.started[stream] = 1
            streams.wheel[stream] = clock
        streams.clock[stream] = clock
        if wheels.next_due[stream] < clock:
            why = run_out(registry, store, logs, stream, i)
            if why != DONE:
                used[OVERDUE] = stream + 1
                return i, why
            slot = find_hashed(
                store.ids, rows.hashes[i], stream, rows.text, rows.starts[i], rows.starts[i + 1]
            )
        if not slot and used[REMEMBERED] >= most_instances:
            rows.refused[i] = TOO_MANY_INSTANCES
            continue
        if rows.asks[i]:
            return i, NEW_NAMES
        count = count_of(store.predictions, store.instances.first[slot]) + 1 if slot else 1
        keys = streams.keys[stream]
        outcomes = count * streams.rows_per_prediction[stream] + streams.rows_per_label[stream]
        if not has_capacity(logs, outcomes, 2 * count + 2, count * keys):
            return i, FULL
        if (
            keys
            and slot
            and rows.kind[i] != INSTANCE
            and _lacks_segment(rows, i, registry, store, logs, stream, slot)
        ):
            return i, NEW_SEGMENT
        if rows.kind[i] == LABEL and count > 2 and separates(registry, store, logs, stream, slot, rows.ts[i]):
            return i, NEW_STAGE
        if not slot:
            slot = _remember(rows, i, store, logs, stream)
        if rows.kind[i] == INSTANCE:
            deadline = _instance(rows, i, registry, store, logs, stream, slot)
        elif rows.kind[i] == PREDICTION:
            deadline = _prediction(rows, i, registry, store, logs, stream, slot)
        else:
            deadline = _label(rows, i, registry, store, logs, stream, slot)
        if deadline == _MEETS:
            settle(registry, store, logs, Place(number_of(logs, i), stream, slot))
            deadline = clock + streams.settle[stream]
        if deadline != _NOTHING:
            _run_until(registry, store, stream, slot, deadline)
        if wheels.next_due[stream] < clock:
            why = run_out(registry, store, logs, stream, i + 1)
            if why != DONE:
                used[OVERDUE] = stream + 1
                return i + 1, why
        if used[DUE]:
            return i + 1, EMIT
    return stop, DONE


@inlined
def read_ahead(rows: Rows, store: Store, first: int, last: int) -> int:
    """Hash the ids of these rows, and read what is known of them, so that it is in the cache in its turn.

    The number that is returned means nothing, but that the reads are needed.
    """
    read = warm(store.ids, rows.stream, rows.text, rows.starts, first, last, rows.hashes)
    entries, mask = store.ids.entries, len(store.ids.entries) - 1
    instances, predictions = store.instances, store.predictions
    for i in range(first, last):
        slot = entries[rows.hashes[i] & mask] & LOW
        read ^= np.int64(instances.first[slot])
        read ^= store.links.deadline[slot]
    for i in range(first, last):
        slot = entries[rows.hashes[i] & mask] & LOW
        read ^= predictions.ts[instances.first[slot]]
    return read


# ---- before anything changes


@inner
def _too_many(
    rows: Rows, i: int, store: Store, stream: int, slot: int, clock: int, most: int, registry: Registry
) -> bool:
    """Whether a prediction's instance has as many as it may, and will go on waiting."""
    if store.instances.state[slot] != WAITING or store.links.deadline[slot] < clock:
        return False
    if count_of(store.predictions, store.instances.first[slot]) < most:
        return False
    return not _repeats(rows, i, registry, store, stream, slot)


@inner
def _lacks_segment(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> bool:
    """Whether an outcome that the row may make is in a segment that has no entity yet; notes which."""
    if rows.kind[i] == PREDICTION:
        for key in range(registry.streams.keys[stream]):
            value = rows.segments[i, key] or store.marks.segments[slot, key]
            if value and wants(registry, logs, stream, rows.model[i], key, value):
                return True
    return lacks_segment(registry, store, logs, stream, slot)


@inlined
def _remember(rows: Rows, i: int, store: Store, logs: Logs, stream: int) -> int:
    """A slot for an id that isn't known."""
    slot = abs(
        find_or_add_hashed(
            store.ids, rows.hashes[i], stream, rows.text, rows.starts[i], rows.starts[i + 1]
        )
    )
    instances, marks = store.instances, store.marks
    instances.state[slot] = UNKNOWN
    instances.version[slot] = NO_VERSION
    instances.first[slot] = 0
    instances.label[slot] = 0
    store.links.bucket[slot] = 0
    for key in range(marks.segments.shape[1]):
        marks.segments[slot, key] = 0
    if marks.propensity.shape[1]:
        marks.propensity[slot, 0] = 0.0
    logs.used[REMEMBERED] += 1
    return slot


@inlined
def _run_until(registry: Registry, store: Store, stream: int, slot: int, deadline: int) -> None:
    """The instance's present state ends once the clock is above `deadline`."""
    if store.links.bucket[slot]:
        unschedule(store.wheels, store.links, stream, slot)
    schedule(store.wheels, store.links, stream, slot, deadline, registry.streams.wheel[stream])


# ---- instances


@inner
def _note_instance(rows: Rows, i: int, registry: Registry, store: Store, stream: int, slot: int) -> None:
    """Keep what an instance says beside its time; what an earlier record said of other keys stays."""
    for key in range(registry.streams.keys[stream]):
        if rows.segments[i, key]:
            store.marks.segments[slot, key] = rows.segments[i, key]
    if registry.streams.weights[stream] and rows.propensity[i] > 0:
        store.marks.propensity[slot, 0] = rows.propensity[i]


@inlined
def _instance(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """What an instance does; returns until when its state lasts, or `_NOTHING`."""
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
        return _NOTHING
    if state == SETTLED:
        instances.version[slot] = version
        return _NOTHING
    label = instances.label[slot]
    t0 = store.links.deadline[slot] - horizon if state == WAITING else labels.t0[label]
    if known != NO_VERSION and ts >= t0 and version <= known:
        streams.duplicate_instances[stream] += 1
        note_dropped(logs, DUPLICATE + INSTANCE, i)
        return _NOTHING
    _note_instance(rows, i, registry, store, stream, slot)
    t0 = ts if known == NO_VERSION else min(t0, ts)
    instances.version[slot] = version if known == NO_VERSION else max(version, known)
    if state == WAITING:
        return t0 + horizon
    if labels.t1[label] - t0 > horizon:
        _label_was_late(registry, store, logs, stream, slot, t0 + horizon)
        return t0 + horizon
    labels.t0[label] = t0
    return _NOTHING


@inner
def _label_was_late(
    registry: Registry, store: Store, logs: Logs, stream: int, slot: int, deadline: int
) -> None:
    """A waiting label turned out to be later than the horizon: the instance waits on without it."""
    registry.streams.late_label[stream] += 1
    beyond = store.labels.t1[store.instances.label[slot]] - deadline
    add_latency(logs, stream, beyond, registry.streams.clock[stream], 1)
    registry.streams.waiting_labels[stream] -= 1
    drop_label(store, slot)
    store.instances.state[slot] = WAITING


# ---- predictions


@inner
def _repeats(rows: Rows, i: int, registry: Registry, store: Store, stream: int, slot: int) -> bool:
    """Whether a prediction says what the model's latest one of this time says; others before may have."""
    predictions = store.predictions
    same, row = 0, store.instances.first[slot]
    while row:
        if predictions.model[row] == rows.model[i] and predictions.ts[row] == rows.ts[i]:
            same = row
        row = predictions.next[row]
    if not same:
        return False
    if registry.streams.regression[stream]:
        return store.values.number[same, 0] == rows.number[i]
    return predictions.label[same] == rows.label[i]


@inlined
def _add_prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """Append a prediction to its instance's; it waits, at least for a moment."""
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
    predictions.bin[row] = 0
    predictions.extra[row] = 0
    if streams.regression[stream]:
        values.number[row, 0] = rows.number[i]
        if streams.intervals[stream]:
            for column in range(3):
                values.interval[row, column] = rows.interval[i, column]
    elif streams.probabilities[stream]:
        predictions.extra[row] = _keep_probabilities(rows, i, store)
    if streams.expects[stream]:
        predictions.bin[row] = _bin_of(rows, i, registry, stream)
    if streams.correction[stream]:
        predictions.corrected[row] = 1 + _corrected(rows, i, registry, stream)
    if values.value.shape[1]:  # also where none is needed yet: the row may have a former prediction's
        note_value(values.value, row, rows.value[i, 0] if streams.valued[stream] else -1.0)
    for key in range(streams.keys[stream]):
        values.segments[row, key] = rows.segments[i, key]
    last = store.instances.first[slot]
    if not last:
        store.instances.first[slot] = row
    else:
        while predictions.next[last]:
            last = predictions.next[last]
        predictions.next[last] = row
    event = add_event(logs, WAITS, rows.model[i], rows.ts[i])
    logs.events.prediction[event] = rows.label[i]
    logs.events.bin[event] = predictions.bin[row]
    logs.events.t1[event] = streams.clock[stream]
    return row


@inner
def _bin_of(rows: Rows, i: int, registry: Registry, stream: int) -> int:
    """The bin of a record's confidence in the class that it predicts; 0: it gives no probabilities."""
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
    """Put a record's probabilities into the pool; returns the first, 0 if there are none."""
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

    Ties: the one named first. -1 if none of the classes is known, or none is named.
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


@inlined
def _prediction(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """What a prediction does; returns until when its instance's state lasts, `_MEETS` or `_NOTHING`."""
    streams, entities = registry.streams, registry.entities
    instances, labels = store.instances, store.labels
    horizon, ts, model = streams.horizon[stream], rows.ts[i], rows.model[i]
    state = instances.state[slot]
    if state == EXPIRED:
        entities.expired[model] += 1
        note_dropped(logs, EXPIRED_PREDICTION, i)
        return _NOTHING
    if state in (LABELLED, SETTLED) and ts > labels.t1[instances.label[slot]]:
        entities.late[model] += 1
        note_dropped(logs, LATE_PREDICTION, i)
        return _NOTHING
    if (state == WAITING and _repeats(rows, i, registry, store, stream, slot)) or (
        state == SETTLED and _has_said(store.predictions, instances.first[slot], model)
    ):
        entities.duplicate[model] += 1
        note_dropped(logs, DUPLICATE + PREDICTION, i)
        return _NOTHING
    unbounded = instances.version[slot] == NO_VERSION
    t0 = ts
    if state == LABELLED:
        label = instances.label[slot]
        t0 = ts if unbounded else labels.t0[label]
        if labels.t1[label] - t0 > horizon:
            _label_was_late(registry, store, logs, stream, slot, t0 + horizon)
            _add_prediction(rows, i, registry, store, logs, stream, slot)
            return t0 + horizon
    row = _add_prediction(rows, i, registry, store, logs, stream, slot)
    if state == UNKNOWN:
        instances.state[slot] = WAITING
        return ts + horizon
    if state == WAITING:
        sooner = unbounded and ts + horizon < store.links.deadline[slot]
        return ts + horizon if sooner else _NOTHING
    _take_labels_baselines(store, slot, row)
    if state == LABELLED:
        streams.waiting_labels[stream] -= 1
        labels.t0[instances.label[slot]] = t0
        return _MEETS
    if unbounded:
        streams.predictions_without_instance[stream] += 1
    complete_late(registry, store, logs, Place(number_of(logs, i), stream, slot), row)
    if streams.compared[stream]:
        refer(registry, store, logs, Place(number_of(logs, i), stream, slot), row)
    drop_probabilities(store.pools, store.probabilities, store.predictions.extra[row])
    remember_numbers(registry, store, row)
    return _NOTHING


@inner
def _has_said(predictions: Predictions, first: int, model: int) -> bool:
    """Whether a list has a prediction of a model."""
    row = first
    while row:
        if predictions.model[row] == model:
            return True
        row = predictions.next[row]
    return False


@inner
def _take_labels_baselines(store: Store, slot: int, prediction: int) -> None:
    """A prediction that is processed after its label is compared with the baselines just before that."""
    label = store.instances.label[slot]
    store.predictions.persistent[prediction] = store.labels.persistent[label]
    store.predictions.majority[prediction] = store.labels.majority[label]


# ---- labels


@inlined
def _label(rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int) -> int:
    """What a label does; returns until when its instance's state lasts, `_MEETS` or `_NOTHING`."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    state, y = instances.state[slot], rows.label[i]
    if state in (UNKNOWN, WAITING):
        return _first_label(rows, i, registry, store, logs, stream, slot)
    if state == EXPIRED:
        streams.late_label[stream] += 1
        deadline = instances.version[slot] + streams.horizon[stream]
        add_latency(logs, stream, rows.ts[i] - deadline, registry.streams.clock[stream], 1)
        note_dropped(logs, LATE_LABEL, i)
        return _NOTHING
    label = instances.label[slot]
    regression = streams.regression[stream]
    if (labels.number[label] == rows.number[i]) if regression else (labels.label[label] == y):
        streams.duplicate_labels[stream] += 1
        note_dropped(logs, DUPLICATE + LABEL, i)
        return _NOTHING
    old = labels.label[label]
    labels.label[label], labels.number[label], labels.at_horizon[label] = y, rows.number[i], 0
    if streams.valued[stream]:
        revise_value(store.label_values.value, label, rows.value[i, 0])
    streams.revisions[stream] += 1
    if state == SETTLED:
        revise(registry, store, logs, Place(number_of(logs, i), stream, slot), old)
    return _NOTHING


@inlined
def _first_label(
    rows: Rows, i: int, registry: Registry, store: Store, logs: Logs, stream: int, slot: int
) -> int:
    """An instance's first label: it is too late, meets what waits, or waits itself."""
    streams, instances, labels = registry.streams, store.instances, store.labels
    horizon, t1 = streams.horizon[stream], rows.ts[i]
    waited = instances.state[slot] == WAITING
    t0 = store.links.deadline[slot] - horizon if waited else t1
    if t1 - t0 > horizon:
        streams.late_label[stream] += 1
        add_latency(logs, stream, t1 - t0 - horizon, streams.clock[stream], 1)
        note_dropped(logs, LATE_LABEL, i)
        return _NOTHING
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
        return _MEETS
    instances.state[slot] = LABELLED
    streams.waiting_labels[stream] += 1
    return t1 + horizon
