"""Moves settled instances to the table of compact ones, and back while a record changes one."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.ids import remove
from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.join.completing import LOW
from prequential.engine.join.deadlines import NOTHING
from prequential.engine.join.expiry import drop_label
from prequential.engine.tables.calendar import unschedule
from prequential.engine.tables.compact import CHUNK, add_row, deadline_of, enter_row, remove_compact
from prequential.engine.tables.settled import key_of_slot
from prequential.engine.tables.store import (
    LABELS,
    NO_CLASS,
    NO_VERSION,
    PREDICTIONS,
    SETTLED,
    UNKNOWN,
    Store,
    drop_predictions,
    take_row,
)
from prequential.engine.tables.streams import Registry

#: A class has 5 bits of a row's codes, whose last value stands for none. The bit after six classes: an
#: instance record has come.
_BITS = 5
_NONE = (1 << _BITS) - 1
_HAS_INSTANCE = 1 << (6 * _BITS)


@inlined
def compacted(registry: Registry, store: Store, stream: int, slot: int, deadline: int) -> bool:
    """Move an instance that was just settled to a compact row, if it fits; its slot is free then."""
    if not _is_plain(registry, store, stream, slot):
        return False
    compact, predictions, labels = store.compact, store.predictions, store.labels
    first, label = store.instances.first[slot], store.instances.label[slot]
    model, t1 = predictions.model[first], labels.t1[label]
    lag, latency, age = deadline - t1, t1 - labels.t0[label], t1 - predictions.ts[first]
    if min(lag, latency) < 0 or max(lag, latency, age) > LOW:
        return False
    # As in `revisions`: numbers of outcomes are stored without their upper half.
    outcomes = registry.entities.outcomes[model]
    number = outcomes - ((outcomes - predictions.outcome[first]) & LOW)
    key = key_of_slot(store.ids, slot, registry.streams.name[stream])
    wheel = registry.streams.wheel[stream]
    row = add_row(compact, stream, key, deadline, wheel, labels.completed[label], number, model, False)
    if not row:
        return False
    if not enter_row(compact, row):
        remove_compact(compact, row)
        return False
    rows = compact.rows
    rows.lag[row], rows.latency[row], rows.age[row] = lag, latency, age
    rows.codes[row] = _codes_of(store, slot)
    if deadline < store.wheels.next_due[stream]:
        store.wheels.next_due[stream] = deadline
    _free(store, stream, slot)
    return True


@inner
def compact_again(registry: Registry, store: Store, stream: int, slot: int, row: int, deadline: int) -> int:
    """Move an instance back to its compact row, after a record, or take it out of there for good.

    Returns the deadline of its state in the store, or `NOTHING`.
    """
    if deadline == NOTHING and _is_plain(registry, store, stream, slot):
        store.compact.rows.codes[row] = _codes_of(store, slot)
        _free(store, stream, slot)
        return NOTHING
    remove_compact(store.compact, row)
    return store.links.deadline[slot] if deadline == NOTHING else deadline


@inner
def expand(registry: Registry, store: Store, stream: int, slot: int, row: int) -> None:
    """Fill a new slot with the instance of a compact row, which stays."""
    compact, instances, predictions, labels = store.compact, store.instances, store.predictions, store.labels
    rows, codes, chunk = compact.rows, np.int64(compact.rows.codes[row]), row // CHUNK
    first = take_row(store.pools, PREDICTIONS, predictions.next)
    label = take_row(store.pools, LABELS, labels.next)
    instances.state[slot], instances.first[slot], instances.label[slot] = SETTLED, first, label
    if codes & _HAS_INSTANCE:
        instances.version[slot] = 0
    deadline = deadline_of(compact, row, registry.streams.wheel[stream])
    store.links.deadline[slot] = deadline
    t1 = deadline - np.int64(rows.lag[row])
    labels.t1[label], labels.t0[label] = t1, t1 - np.int64(rows.latency[row])
    labels.label[label] = labels.first[label] = _class_at(codes, 0)
    labels.persistent[label], labels.majority[label] = _class_at(codes, 1), _class_at(codes, 2)
    labels.number[label] = 0.0
    labels.completed[label] = compact.chunks.completed[chunk] + np.int64(rows.completed[row])
    labels.at_horizon[label] = 0
    number = (compact.chunks.outcome[chunk] + np.int64(rows.outcome[row])) & LOW
    predictions.outcome[first] = number - (LOW + 1) if number > LOW >> 1 else number
    predictions.ts[first] = t1 - np.int64(rows.age[row])
    predictions.model[first] = compact.chunks.model[chunk] + np.int64(rows.model[row])
    predictions.label[first] = _class_at(codes, 3)
    predictions.persistent[first] = _class_at(codes, 4)
    predictions.majority[first] = _class_at(codes, 5)
    predictions.judged[first] = predictions.corrected[first] = predictions.version[first] = 0
    predictions.probabilities[first] = predictions.bin[first] = 0
    _clear(store, first, label)


@inner
def _clear(store: Store, prediction: int, label: int) -> None:
    """Set to 0 what only some streams need: by now this stream may, by a new configuration."""
    values, others = store.values, store.label_values
    for table in (values.number, values.value, values.interval, values.estimate, values.season):
        for column in range(table.shape[1]):
            table[prediction, column] = 0.0
    for column in range(values.segments.shape[1]):
        values.segments[prediction, column] = 0
        values.segment_numbers[prediction, column] = 0
    for column in range(values.after_numbers.shape[1]):
        values.after_numbers[prediction, column] = 0
        others.after_numbers[label, column] = 0
    for column in range(others.value.shape[1]):
        others.value[label, column] = 0.0


@inner
def _free(store: Store, stream: int, slot: int) -> None:
    """Free the slot and the rows of an instance that is compact now, and still remembered."""
    unschedule(store.wheels, store.links, stream, slot)
    drop_predictions(store.pools, store.predictions, store.probabilities, store.instances.first[slot])
    drop_label(store, slot)
    store.instances.first[slot] = 0
    store.instances.state[slot] = UNKNOWN
    remove(store.ids, slot)


@inner
def _is_plain(registry: Registry, store: Store, stream: int, slot: int) -> bool:
    """Whether an instance has nothing that compact rows have no place for."""
    streams, predictions, labels = registry.streams, store.predictions, store.labels
    row, label = store.instances.first[slot], store.instances.label[slot]
    if streams.regression[stream] or streams.valued[stream] or streams.weights[stream]:
        return False
    if streams.keys[stream] or streams.age_count[stream] or streams.estimates[stream]:
        return False
    if predictions.next[row] or predictions.probabilities[row]:
        return False
    if predictions.judged[row] or predictions.corrected[row] or predictions.version[row]:
        return False
    if predictions.bin[row] or labels.at_horizon[label] or labels.label[label] != labels.first[label]:
        return False
    if store.instances.version[slot] not in (NO_VERSION, 0):
        return False
    return (
        _fits(labels.label[label]) and _fits(labels.persistent[label]) and _fits(labels.majority[label])
        and _fits(predictions.label[row]) and _fits(predictions.persistent[row])
        and _fits(predictions.majority[row])
    )  # fmt: skip


@inlined
def _fits(code: int) -> bool:
    """Whether a class has a place in a row's codes."""
    return code < _NONE or code == NO_CLASS


@inner
def _codes_of(store: Store, slot: int) -> int:
    """The classes of an instance, and whether its record has come."""
    predictions, labels = store.predictions, store.labels
    row, label = store.instances.first[slot], store.instances.label[slot]
    codes = 0 if store.instances.version[slot] == NO_VERSION else _HAS_INSTANCE
    codes |= _bits(labels.label[label], 0) | _bits(labels.persistent[label], 1)
    codes |= _bits(labels.majority[label], 2) | _bits(predictions.label[row], 3)
    return codes | _bits(predictions.persistent[row], 4) | _bits(predictions.majority[row], 5)


@inlined
def _bits(code: int, place: int) -> int:
    """A class at its place among the codes."""
    return min(np.int64(code), _NONE) << (_BITS * place)


@inlined
def _class_at(codes: int, place: int) -> int:
    """The class at a place among the codes."""
    code = (codes >> (_BITS * place)) & _NONE
    return NO_CLASS if code == _NONE else code
