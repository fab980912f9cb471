"""Writes rows of the log of outcomes: chooses the prediction that counts in a stage, and scores it.

The stages are those of Grzenda et al. 2020, section III. `initial` is the earliest prediction, `final` the
latest one. An instance arrived at t0, and its label has the time t1. Bin b of B then has the last prediction
made by t0 + (t1 - t0)·b/B, or else the initial one. A stage at the age D has the last prediction made by
t0 + D, and one with the lead D the last one made by t1 - D. If times are equal, the prediction delivered
first is the earliest; in all other cases, the one delivered last counts.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import inner
from prequential.engine.detectors.budgets import due
from prequential.engine.join.scoring import estimate_of, note_stake, score, weigh
from prequential.engine.tables.logs import OUTCOMES, REVISED, Logs, add_event
from prequential.engine.tables.logs import UNREVISED as UNREVISED_EVENT
from prequential.engine.tables.outcomes import OUTCOME, REFERENCE, REVISION, UNREVISED
from prequential.engine.tables.store import NO_CLASS, Predictions, Store
from prequential.engine.tables.streams import Registry


@inner
def earliest_of(predictions: Predictions, first: int, model: int) -> int:
    """A model's earliest prediction in a list; ties: the one delivered first."""
    chosen, row = 0, first
    while row:
        if predictions.model[row] == model and (not chosen or predictions.ts[row] < predictions.ts[chosen]):
            chosen = row
        row = predictions.next[row]
    return chosen


@inner
def latest_of(predictions: Predictions, first: int, model: int, end: int) -> int:
    """A model's latest prediction made by `end`; ties: the one delivered last; 0 if there is none."""
    chosen, row = 0, first
    while row:
        ts = predictions.ts[row]
        if predictions.model[row] == model and ts <= end and (not chosen or ts >= predictions.ts[chosen]):
            chosen = row
        row = predictions.next[row]
    return chosen


@inner
def chosen_at_age(
    registry: Registry, store: Store, origin: Origin, model: int, first: int, stage: int
) -> int:
    """A model's prediction in a stage at an age, or with a lead, from a list; 0: there is none.

    `stage` is the place among the stream's stages at an age. There is none at an age that the instance
    reached after its label, either.
    """
    streams, labels, predictions = registry.streams, store.labels, store.predictions
    label, age = store.instances.label[origin.slot], registry.ages.age[streams.ages[origin.stream] + stage]
    t0, t1 = labels.t0[label], labels.t1[label]
    if age < 0:
        return latest_of(predictions, first, model, t1 + 1 + age)
    return latest_of(predictions, first, model, t0 + age) if t1 - t0 >= age else 0


@inner
def end_of_bin(t0: int, t1: int, b: int, bins: int) -> int:
    """t0 + (t1 - t0)·b/B, rounded down; the product itself could be too large for 64 bits."""
    span = t1 - t0
    return t0 + (span // bins) * b + ((span % bins) * b) // bins


@inner
def is_first_of_model(predictions: Predictions, first: int, prediction: int) -> bool:
    """Whether no prediction of the same model is before this one in the list."""
    row = first
    while row != prediction:
        if predictions.model[row] == predictions.model[prediction]:
            return False
        row = predictions.next[row]
    return True


@inner
def has_two_predictions(predictions: Predictions, first: int, model: int, end: int) -> bool:
    """Whether a list has two predictions of a model made by `end`: an initial and a final one."""
    count, row = 0, first
    while row:
        count += predictions.model[row] == model and predictions.ts[row] <= end
        row = predictions.next[row]
    return count > 1


@inner
def first_model_of(predictions: Predictions, first: int) -> int:
    """The model that predicted first: evaluated baselines (`@persistent`, …) know the labels that it knew.

    It has the prediction with the earliest `ts`; if times are equal, it was registered first. Predictions
    that came after the label had met others don't count.
    """
    chosen, row = 0, first
    while row:
        if not predictions.judged[row]:
            ts, model = predictions.ts[row], predictions.model[row]
            if (
                not chosen
                or ts < predictions.ts[chosen]
                or (ts == predictions.ts[chosen] and model < predictions.model[chosen])
            ):
                chosen = row
        row = predictions.next[row]
    return predictions.model[chosen]


@inner
def first_with_segments(store: Store, first: int, model: int, keys: int) -> int:
    """The first prediction of a model in a list that has segments; 0: none has."""
    row = first
    while row:
        if store.predictions.model[row] == model:
            for key in range(keys):
                if store.values.segments[row, key]:
                    return row
        row = store.predictions.next[row]
    return 0


@inner
def segment_row(
    registry: Registry, store: Store, stream: int, slot: int, model: int, carrier: int, key: int
) -> int:
    """The row in `SegmentRows` of a model's outcome for a key; -1: the outcome is in no segment of the key.

    The prediction `carrier` (0: none) decides the segment if it has one for the key, else the instance does.
    """
    value = 0
    if carrier:
        value = store.values.segments[carrier, key]
    if not value:
        value = store.marks.segments[slot, key]
    if not value:
        return -1
    return registry.entities.segments[model] + key * registry.streams.slots[stream] + value - 1


#: The source of an outcome's class: the prediction, its correction, or a baseline.
OWN, CORRECTED, PERSISTENT, MAJORITY = range(4)

#: A time after all times: no limit.
EVER = 1 << 62


class Origin(NamedTuple):
    """The origin of outcomes: the record that causes them (`logs.Closings`), its stream, and the slot."""

    record: int
    stream: int
    slot: int


class Outcome(NamedTuple):
    """The values of an entity's outcome in the rows of all stages; made by `outcome_of`.

    `predictor` is the source of its class. `old` is the label before a revision, or else the label. `judged`
    is the label that decides whether baselines were right. `kind` is the kind of row.
    """

    entity: int
    number: int
    predictor: int
    old: int
    judged: int
    kind: int


@inner
def outcome_of(entity: int, number: int, predictor: int, old: int, judged: int, kind: int) -> Outcome:
    """An outcome with 64-bit numbers: several widths would make numba compile loops for several types."""
    return Outcome(entity, number, predictor, old, judged, kind)


@inner
def write_outcomes(
    registry: Registry, store: Store, logs: Logs, origin: Origin, outcome: Outcome, model: int, first: int
) -> None:
    """Write an entity's rows for all stages except those at an age, from a model's predictions in a list.

    `initial` has no row as long as it is the same as `final`.
    """
    write_here(registry, store, logs, origin, outcome, model, first)


@inner
def put(
    registry: Registry, store: Store, logs: Logs, origin: Origin, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """Write one row, of the outcome's kind, for an entity's stage at `position`."""
    _put(registry, store, logs, origin, outcome, position, prediction)


@inner
def write_here(
    registry: Registry, store: Store, logs: Logs, origin: Origin, outcome: Outcome, model: int, first: int
) -> None:
    """As `write_outcomes`, but inlined in the loop that calls it."""
    streams, predictions, labels = registry.streams, store.predictions, store.labels
    stream, label = origin.stream, store.instances.label[origin.slot]
    t0, t1, bins = labels.t0[label], labels.t1[label], streams.bins[stream]
    initial = earliest_of(predictions, first, model)
    before_bins = int(streams.initial[stream]) + int(streams.final[stream])
    for position in range(before_bins + bins):
        if position == 0 and streams.initial[stream]:
            if registry.entities.initial_is_final[outcome.entity]:
                continue
            chosen = initial
        elif position < before_bins:
            chosen = latest_of(predictions, first, model, EVER)
        else:
            end = end_of_bin(t0, t1, position - before_bins + 1, bins)
            chosen = latest_of(predictions, first, model, end) or initial
        _put(registry, store, logs, origin, outcome, position, chosen)


@inner
def _put(
    registry: Registry, store: Store, logs: Logs, origin: Origin, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """As `put`, but inlined in the loop that calls it."""
    log, labels, stream, kind = logs.outcomes, store.labels, origin.stream, outcome.kind
    entity, number, predictor = outcome.entity, outcome.number, outcome.predictor
    label = store.instances.label[origin.slot]
    row = logs.used[OUTCOMES]
    logs.used[OUTCOMES] = row + 1
    log.kind[row] = kind
    log.plan[row] = registry.entities.plan[entity]
    log.entity[row] = entity
    log.sequence[row] = registry.entities.first[entity] + position
    log.number[row] = number
    log.label[row] = outcome.old
    log.revised[row] = labels.label[label] if kind == REVISION else registry.entities.revisions[entity]
    log.prediction[row] = _class_of(registry, store.predictions, stream, prediction, predictor)
    log.bits[row] = bits_of(store.predictions, prediction, outcome.judged)
    log.known[row] = knows(store.predictions, prediction)
    log.record[row] = origin.record
    log.t1[row] = labels.t1[label]
    log.ts[row] = store.predictions.ts[prediction]
    log.clock[row] = registry.streams.clock[stream]
    log.latency[row] = max(0, labels.t1[label] - labels.t0[label])
    log.version[row] = store.predictions.version[prediction]
    log.scored[row] = log.valued[row] = 0
    log.gap[row] = log.estimate[row] = 0.0
    if registry.streams.valued[stream]:
        note_stake(log, row, store.values.numbers, prediction, store.label_values.value, label)
    if kind == OUTCOME:
        if store.values.estimate.shape[1] and entity == store.predictions.model[prediction]:
            log.estimate[row] = estimate_of(registry, store, prediction)
        streams = registry.streams
        if streams.sequence_outcomes[stream] == 0:
            streams.first_outcome[stream] = streams.clock[stream]
        streams.sequence_outcomes[stream] += 1
        if due(number):
            passed = streams.clock[stream] - streams.first_outcome[stream]
            log.gap[row] = passed / streams.sequence_outcomes[stream]
    if kind == REFERENCE:
        scores = registry.streams.regression[stream] != 0
    else:
        scores = predictor == OWN and labels.label[label] != NO_CLASS
    if scores:
        score(log, row, registry, store, stream, origin.slot, prediction, labels.label[label])


@inner
def _class_of(
    registry: Registry, predictions: Predictions, stream: int, prediction: int, predictor: int
) -> int:
    """The class of an outcome; baselines predict at the time when the prediction was made."""
    if predictor == OWN:
        return predictions.label[prediction]
    if predictor == CORRECTED:
        return predictions.corrected[prediction] - 1
    if predictor == PERSISTENT:
        code = predictions.persistent[prediction]
    else:
        code = predictions.majority[prediction]
    return registry.streams.nothing[stream] if code == NO_CLASS else code


@inner
def bits_of(predictions: Predictions, prediction: int, judged: int) -> int:
    """Which baselines were right, by the label at the time when it met the prediction."""
    persistent, majority = predictions.persistent[prediction], predictions.majority[prediction]
    return 2 * (persistent == judged) + (majority == judged)


@inner
def knows(predictions: Predictions, prediction: int) -> bool:
    """Whether baselines had a label to predict from when a prediction was made."""
    return predictions.persistent[prediction] != NO_CLASS


# ---- outcomes that an instance has already

#: The bits of an outcome's number that are stored.
LOW = 0xFFFFFFFF


@inner
def number_at_age(registry: Registry, store: Store, stream: int, label: int, aged: int, stage: int) -> int:
    """The number of a baseline's outcome at an age; 0 or less if it had none, because it began later.

    The stored number is that of the baseline which began first. Once both have begun, they have the same
    outcomes.
    """
    number = store.label_values.after_numbers[label, stage]
    if not number:
        return 0
    streams, entities, most = registry.streams, registry.entities, 0
    for baseline in range(2):
        entity = (streams.majority_entity if baseline else streams.persistent_entity)[stream]
        if entity:
            most = max(most, entities.outcomes[entities.after[entity] + stage])
    return number - (most - entities.outcomes[aged])


@inner
def all_corrected(registry: Registry, store: Store, stream: int, slot: int, model: int, first: int) -> bool:
    """Whether all predictions that count in a stage have a corrected class."""
    streams, predictions = registry.streams, store.predictions
    label = store.instances.label[slot]
    initial = earliest_of(predictions, first, model)
    if not predictions.corrected[initial]:
        return False
    if not predictions.corrected[latest_of(predictions, first, model, EVER)]:
        return False
    bins = streams.bins[stream]
    for b in range(1, bins + 1):
        end = end_of_bin(store.labels.t0[label], store.labels.t1[label], b, bins)
        chosen = latest_of(predictions, first, model, end)
        if chosen and not predictions.corrected[chosen]:
            return False
    return True


@inner
def note_unrevised(registry: Registry, store: Store, logs: Logs, origin: Origin) -> None:
    """Write outcomes of a settled instance as they are, before its label changes; see `UNREVISED`."""
    streams, stream = registry.streams, origin.stream
    label = store.labels.label[store.instances.label[origin.slot]]
    scored = streams.regression[stream] or streams.probabilities[stream] or streams.weights[stream]
    if label != NO_CLASS and (scored or streams.valued[stream]):
        write_again(registry, store, logs, origin, label, UNREVISED, 0)


@inner
def write_again(
    registry: Registry, store: Store, logs: Logs, origin: Origin, old: int, kind: int, end: int
) -> None:
    """Write rows of a kind for the outcomes that a settled instance has already.

    A REVISION moves outcomes from the label `old` to the present one; NO_CLASS stands for no label, on either
    side. UNREVISED rows come before the label changes (`note_unrevised`). A REFERENCE is for comparisons with
    the prediction `end`, the last one of the list, and not for that prediction itself. There the present
    label decides, so that both models are judged by the same label. For other kinds, `end` is 0.
    """
    stream, slot = origin.stream, origin.slot
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    label, first, keys = store.instances.label[slot], store.instances.first[slot], streams.keys[stream]
    y = store.labels.label[label]
    at_first = y if kind == REFERENCE else store.labels.first[label]
    if kind != REFERENCE:
        _write_events(registry, store, logs, origin, old, kind)
    row = first
    while row != end:
        model = predictions.model[row]
        if is_first_of_model(predictions, first, row) and not entities.retired[model]:
            judged = _judged(predictions, earliest_of(predictions, first, model), at_first, kind)
            outcomes = entities.outcomes[model]
            number = outcomes - ((outcomes - predictions.outcome[row]) & LOW)
            outcome = _again(registry, model, number, OWN, old, judged, kind)
            write_outcomes(registry, store, logs, origin, outcome, model, first)
            shadow = entities.corrected[model] if kind == REFERENCE else 0
            if shadow and all_corrected(registry, store, stream, slot, model, first):
                outcome = outcome_of(shadow, 0, CORRECTED, y, y, REFERENCE)
                write_outcomes(registry, store, logs, origin, outcome, model, first)
            for key in range(keys):
                number = store.values.segment_numbers[row, key]
                if number:
                    carrier = first_with_segments(store, first, model, keys)
                    its = segment_row(registry, store, stream, slot, model, carrier, key)
                    entity = registry.segment_rows.entity[its]
                    outcome = _again(registry, entity, number, OWN, old, judged, kind)
                    write_outcomes(registry, store, logs, origin, outcome, model, first)
            for stage in range(streams.age_count[stream]):
                number = store.values.after_numbers[row, stage]
                if number:
                    chosen = chosen_at_age(registry, store, origin, model, first, stage)
                    judged = _judged(predictions, chosen, at_first, kind)
                    outcome = _again(registry, entities.after[model] + stage, number, OWN, old, judged, kind)
                    put(registry, store, logs, origin, outcome, 0, chosen)
        row = predictions.next[row]
    _write_baselines(registry, store, logs, origin, old, at_first, kind)


@inner
def _write_events(registry: Registry, store: Store, logs: Logs, origin: Origin, old: int, kind: int) -> None:
    """Write the events that predictions of an instance are revised, or as they are before that."""
    stream, slot, predictions = origin.stream, origin.slot, store.predictions
    label = store.instances.label[slot]
    y, row = store.labels.label[label], store.instances.first[slot]
    while row:
        event_kind = REVISED if kind == REVISION else UNREVISED_EVENT
        event = add_event(logs, event_kind, predictions.model[row], predictions.ts[row])
        logs.events.prediction[event] = predictions.label[row]
        logs.events.bin[event] = predictions.bin[row]
        logs.events.score[event] = predictions.score[row]
        logs.events.label[event] = old
        logs.events.revised[event] = y
        logs.events.at_horizon[event] = store.labels.at_horizon[label]
        judged = _judged(predictions, row, store.labels.first[label], kind)
        logs.events.bits[event] = bits_of(predictions, row, judged)
        logs.events.known[event] = knows(predictions, row)
        if registry.streams.valued[stream]:
            stakes = store.label_values.value
            note_stake(logs.events, event, store.values.numbers, row, stakes, label)
        if y == NO_CLASS:
            weigh(logs.events, event, registry, store, stream, slot)
        else:
            score(logs.events, event, registry, store, stream, slot, row, y)
        row = predictions.next[row]


@inner
def _write_baselines(
    registry: Registry, store: Store, logs: Logs, origin: Origin, old: int, judged: int, kind: int
) -> None:
    """Write the outcomes of the evaluated baselines again."""
    stream, slot = origin.stream, origin.slot
    streams, entities, label = registry.streams, registry.entities, store.instances.label[slot]
    first = store.instances.first[slot]
    reference = first_model_of(store.predictions, first)
    for baseline in range(2):
        entity = (streams.majority_entity if baseline else streams.persistent_entity)[stream]
        if not entity:
            continue
        number = store.labels.completed[label] - entities.began[entity]
        if number > 0:
            outcome = _again(registry, entity, number, PERSISTENT + baseline, old, judged, kind)
            write_outcomes(registry, store, logs, origin, outcome, reference, first)
        for stage in range(streams.age_count[stream]):
            aged = entities.after[entity] + stage
            number = number_at_age(registry, store, stream, label, aged, stage)
            if number > 0:
                chosen = chosen_at_age(registry, store, origin, reference, first, stage)
                outcome = _again(registry, aged, number, PERSISTENT + baseline, old, judged, kind)
                put(registry, store, logs, origin, outcome, 0, chosen)


@inner
def _judged(predictions: Predictions, prediction: int, at_first: int, kind: int) -> int:
    """The label that a prediction met: that of the instance, unless the prediction met it after others."""
    alone = predictions.judged[prediction] and kind != REFERENCE
    return predictions.judged[prediction] - 1 if alone else at_first


@inner
def _again(
    registry: Registry, entity: int, number: int, predictor: int, old: int, judged: int, kind: int
) -> Outcome:
    """An entity's earlier outcome, whose revision counts; references have no number."""
    if kind == REVISION:
        entities = registry.entities
        entities.revisions[entity] += 1
        entities.changed[entity] = 1
        entities.newest_change[entity] = registry.streams.changes[entities.stream[entity]]
    return outcome_of(entity, 0 if kind == REFERENCE else number, predictor, old, judged, kind)
