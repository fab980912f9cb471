"""Moves settled instances to the table of compact ones, and back while a record changes one."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import remove
from prequential.engine.compiled.kernel import inner
from prequential.engine.join.expiry import NOTHING, drop_label
from prequential.engine.join.outcome_rows import LOW
from prequential.engine.tables import store as stores
from prequential.engine.tables.compact import (
    CHUNK,
    add_row,
    deadline_of,
    enter_row,
    key_of_slot,
    remove_compact,
)
from prequential.engine.tables.store import Store
from prequential.engine.tables.streams import Registry

#: A row's codes are the digits of a number to this base, whose last value stands for no class: the label as
#: it is, and as it first was, the prediction, and both baselines at the time of either. The bit beyond these
#: seven digits: an instance record has come.
_BASE = 21
_NONE, _HAS_INSTANCE = _BASE - 1, 1 << 31


@inner
def compacted(registry: Registry, store: Store, stream: int, slot: int, deadline: int) -> bool:
    """Move an instance that was just settled to a compact row, if it fits; its slot is free then."""
    codes = _codes_of(registry, store, stream, slot)
    if codes < 0:
        return False
    compact, predictions, labels = store.compact, store.predictions, store.labels
    first, label = store.instances.first[slot], store.instances.label[slot]
    model, t1 = predictions.model[first], labels.t1[label]
    lag, latency, age = deadline - t1, t1 - labels.t0[label], t1 - predictions.ts[first]
    if min(lag, latency, age) < 0 or max(lag, latency, age) > LOW:
        return False
    key = key_of_slot(store.ids, slot, registry.streams.name[stream])
    wheel = registry.streams.wheel[stream]
    row = add_row(compact, stream, key, deadline, wheel, labels.completed[label], model, False)
    if not row:
        return False
    if not enter_row(compact, row):
        remove_compact(compact, row)
        return False
    rows = compact.rows
    rows.lag[row], rows.latency[row], rows.age[row] = lag, latency, age
    rows.codes[row], rows.outcome[row] = codes, np.int64(predictions.outcome[first]) & LOW
    if deadline < store.wheels.next_due[stream]:
        store.wheels.next_due[stream] = deadline
    _free(store, stream, slot)
    return True


@inner
def compact_again(registry: Registry, store: Store, stream: int, slot: int, row: int, deadline: int) -> int:
    """Move an instance back to its compact row, after a record, or take it out of there for good.

    Returns the deadline of its state in the store, or `NOTHING`.
    """
    codes = _codes_of(registry, store, stream, slot)
    if deadline == NOTHING and codes >= 0:
        store.compact.rows.codes[row] = codes
        _free(store, stream, slot)
        return NOTHING
    remove_compact(store.compact, row)
    return store.links.deadline[slot] if deadline == NOTHING else deadline


@inner
def expand(registry: Registry, store: Store, stream: int, slot: int, row: int) -> None:
    """Fill a new slot with the instance of a compact row, which stays."""
    compact, instances, predictions, labels = store.compact, store.instances, store.predictions, store.labels
    rows, codes, chunk = compact.rows, np.int64(compact.rows.codes[row]), row // CHUNK
    first = stores.take_row(store.pools, stores.PREDICTIONS, predictions.next)
    label = stores.take_row(store.pools, stores.LABELS, labels.next)
    instances.state[slot], instances.first[slot], instances.label[slot] = stores.SETTLED, first, label
    if codes & _HAS_INSTANCE:
        instances.version[slot] = 0
    deadline = deadline_of(compact, row, registry.streams.wheel[stream])
    store.links.deadline[slot] = deadline
    t1 = deadline - np.int64(rows.lag[row])
    labels.t1[label], labels.t0[label] = t1, t1 - np.int64(rows.latency[row])
    labels.label[label], labels.first[label] = _class_at(codes, 0), _class_at(codes, 1)
    labels.persistent[label], labels.majority[label] = _class_at(codes, 2), _class_at(codes, 3)
    labels.number[label] = 0.0
    labels.completed[label] = compact.chunks.completed[chunk] + np.int64(rows.completed[row])
    labels.at_horizon[label] = 0
    number = np.int64(rows.outcome[row])
    predictions.outcome[first] = number - (LOW + 1) if number > LOW >> 1 else number
    predictions.ts[first] = t1 - np.int64(rows.age[row])
    predictions.model[first] = compact.chunks.model[chunk] + np.int64(rows.model[row])
    predictions.label[first] = _class_at(codes, 4)
    predictions.persistent[first], predictions.majority[first] = _class_at(codes, 5), _class_at(codes, 6)
    predictions.judged[first] = predictions.corrected[first] = predictions.version[first] = 0
    predictions.probabilities[first] = predictions.bin[first] = predictions.score[first] = 0
    _clear(store, first, label)


@inner
def _clear(store: Store, prediction: int, label: int) -> None:
    """Empty what only some streams need: by now this stream may, by a new configuration."""
    values, label_values = store.values, store.label_values
    for column in range(values.numbers.shape[1]):
        values.numbers[prediction, column] = np.nan
    for table in (values.number, values.estimate, values.season):
        for column in range(table.shape[1]):
            table[prediction, column] = 0.0
    for column in range(values.segments.shape[1]):
        values.segments[prediction, column] = 0
        values.segment_numbers[prediction, column] = 0
    for column in range(values.after_numbers.shape[1]):
        values.after_numbers[prediction, column] = 0
        label_values.after_numbers[label, column] = 0
    for column in range(label_values.value.shape[1]):
        label_values.value[label, column] = 0.0


@inner
def _free(store: Store, stream: int, slot: int) -> None:
    """Free the slot and the rows of an instance that is compact now, and still remembered."""
    stores.unschedule(store.wheels, store.links, stream, slot)
    stores.drop_predictions(store.pools, store.predictions, store.probabilities, store.instances.first[slot])
    drop_label(store, slot)
    store.instances.first[slot] = 0
    store.instances.state[slot] = stores.UNKNOWN
    remove(store.ids, slot)


@inner
def _codes_of(registry: Registry, store: Store, stream: int, slot: int) -> int:
    """The codes of an instance; -1: it has something for which compact rows have no place."""
    streams, predictions, labels = registry.streams, store.predictions, store.labels
    row, label = store.instances.first[slot], store.instances.label[slot]
    version = store.instances.version[slot]
    if streams.regression[stream] or streams.valued[stream] or streams.weights[stream]:
        return -1
    if streams.keys[stream] or streams.age_count[stream] or streams.estimates[stream]:
        return -1
    if predictions.next[row] or predictions.probabilities[row] or predictions.bin[row]:
        return -1
    if predictions.judged[row] or predictions.corrected[row] or predictions.version[row]:
        return -1
    if labels.at_horizon[label] or version not in (stores.NO_VERSION, 0):
        return -1
    codes = _with_class(0, predictions.majority[row])
    codes = _with_class(codes, predictions.persistent[row])
    codes = _with_class(codes, predictions.label[row])
    codes = _with_class(codes, labels.majority[label])
    codes = _with_class(codes, labels.persistent[label])
    codes = _with_class(codes, labels.first[label])
    codes = _with_class(codes, labels.label[label])
    return codes if codes < 0 or version == stores.NO_VERSION else codes | _HAS_INSTANCE


@inner
def _with_class(codes: int, code: int) -> int:
    """The codes and one more class; -1 if one has no place."""
    if codes < 0 or (code >= _NONE and code != stores.NO_CLASS):
        return -1
    return codes * _BASE + min(np.int64(code), _NONE)


@inner
def _class_at(codes: int, position: int) -> int:
    """The class at a place among the codes."""
    code = (codes & (_HAS_INSTANCE - 1)) // _BASE**position % _BASE
    return stores.NO_CLASS if code == _NONE else code
