"""Outcomes, once a label and predictions have met: of models, and of what is evaluated beside them.

Which of a model's predictions counts in which stage (Grzenda et al. 2020, section III): `initial` is the
earliest, `final` the latest; bin b of an instance that arrived at t0 and whose label is of t1 has the last
one made by t0 + (t1 - t0)·b/B, or else the initial one; a stage at the age D the last one made by t0 + D.
Ties of time: the earliest is the one delivered first, else the one delivered last counts.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.core.compiled.kernel import inlined, inner
from prequential.core.detectors.budgets import due
from prequential.core.join.scoring import score
from prequential.core.join.stakes import note_stake
from prequential.core.tables.events import MET
from prequential.core.tables.logs import DUE, OUTCOMES, Logs, add_event, add_latency, add_segment_event
from prequential.core.tables.outcomes import OUTCOME, REFERENCE, REVISION
from prequential.core.tables.store import NO_CLASS, Predictions, Store
from prequential.core.tables.streams import Registry

#: Whose class an outcome has: the prediction's own, the corrected one, or a baseline's.
OWN, CORRECTED, PERSISTENT, MAJORITY = range(4)

#: No bound of time.
_EVER = 1 << 62

#: The bits of an outcome's number that are kept of it.
LOW = 0xFFFFFFFF


# ---- which prediction counts


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
def end_of_bin(t0: int, t1: int, b: int, bins: int) -> int:
    """t0 + (t1 - t0)·b/B, rounded down; the product itself could be too large for 64 bits."""
    span = t1 - t0
    return t0 + (span // bins) * b + ((span % bins) * b) // bins


@inner
def is_first_of_model(predictions: Predictions, first: int, prediction: int) -> bool:
    """Whether no prediction of the same model stands before it in its list."""
    row = first
    while row != prediction:
        if predictions.model[row] == predictions.model[prediction]:
            return False
        row = predictions.next[row]
    return True


@inner
def is_twofold(predictions: Predictions, first: int, model: int, end: int) -> bool:
    """Whether a list has two predictions of a model made by `end`: an initial and a final one."""
    count, row = 0, first
    while row:
        count += predictions.model[row] == model and predictions.ts[row] <= end
        row = predictions.next[row]
    return count > 1


@inner
def reference_of(predictions: Predictions, first: int) -> int:
    """The model that baselines predict at the times of.

    Its prediction is the earliest, ties the one known longest; only of the predictions that the label met at
    once.
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


# ---- rows of the log


class Place(NamedTuple):
    """Where outcomes come from: what makes them (`logs.Closings`), its stream, and its instance's slot."""

    record: int
    stream: int
    slot: int


class Outcome(NamedTuple):
    """What a row says of an entity's outcome, in each stage; made by `outcome_of`.

    `whose` class it has; `old`, the label before a revision, else the label; `judged`, the label by which it
    is right or wrong; `kind` of row.
    """

    entity: int
    number: int
    whose: int
    old: int
    judged: int
    kind: int


@inlined
def outcome_of(entity: int, number: int, whose: int, old: int, judged: int, kind: int) -> Outcome:
    """An outcome, all of 64 bits: numbers of several widths would make loops of several types."""
    return Outcome(entity, number, whose, old, judged, kind)


@inner
def _class_of(
    registry: Registry, predictions: Predictions, stream: int, prediction: int, whose: int
) -> int:
    """The class that an outcome has of a prediction; baselines predict when it was made."""
    if whose == OWN:
        return predictions.label[prediction]
    if whose == CORRECTED:
        return predictions.corrected[prediction] - 1
    if whose == PERSISTENT:
        code = predictions.persistent[prediction]
    else:
        code = predictions.majority[prediction]
    return registry.streams.nothing[stream] if code == NO_CLASS else code


@inner
def bits_of(predictions: Predictions, prediction: int, judged: int) -> int:
    """Which baselines were right, by the label as it was when it met the prediction."""
    persistent, majority = predictions.persistent[prediction], predictions.majority[prediction]
    return 2 * (persistent == judged) + (majority == judged)


@inner
def knows(predictions: Predictions, prediction: int) -> bool:
    """Whether there was a label that baselines could predict by when a prediction was made."""
    return predictions.persistent[prediction] != NO_CLASS


@inlined
def _put(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """As `put`, a part of the loop that it stands in."""
    log, labels, stream, kind = logs.outcomes, store.labels, place.stream, outcome.kind
    entity, number, whose = outcome.entity, outcome.number, outcome.whose
    label = store.instances.label[place.slot]
    row = logs.used[OUTCOMES]
    logs.used[OUTCOMES] = row + 1
    log.kind[row] = kind
    log.plan[row] = registry.entities.plan[entity]
    log.entity[row] = entity
    log.sequence[row] = registry.entities.first[entity] + position
    log.number[row] = number
    log.label[row] = outcome.old
    log.revised[row] = (
        labels.label[label] if kind == REVISION else registry.entities.revisions[entity]
    )
    log.prediction[row] = _class_of(registry, store.predictions, stream, prediction, whose)
    log.bits[row] = bits_of(store.predictions, prediction, outcome.judged)
    log.known[row] = knows(store.predictions, prediction)
    log.record[row] = place.record
    log.t1[row] = labels.t1[label]
    log.ts[row] = store.predictions.ts[prediction]
    log.clock[row] = registry.streams.clock[stream]
    log.latency[row] = max(0, labels.t1[label] - labels.t0[label])
    log.version[row] = store.predictions.version[prediction]
    log.scored[row] = log.valued[row] = 0
    log.gap[row] = 0.0
    if registry.streams.valued[stream]:
        stakes = store.label_values.value
        note_stake(log, row, kind == REVISION, store.values.value, prediction, stakes, label)
    if kind == OUTCOME:
        streams = registry.streams
        if streams.sequence_outcomes[stream] == 0:
            streams.first_outcome[stream] = streams.clock[stream]
        streams.sequence_outcomes[stream] += 1
        if due(number):
            passed = streams.clock[stream] - streams.first_outcome[stream]
            log.gap[row] = passed / streams.sequence_outcomes[stream]
    if (kind == OUTCOME and whose == OWN) or (kind == REFERENCE and registry.streams.regression[stream]):
        score(log, row, registry, store, stream, place.slot, prediction, labels.label[label])


@inner
def put(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """One row: an outcome of an entity's stage at `position`, or its revision from the label `old`."""
    _put(registry, store, logs, place, outcome, position, prediction)


@inlined
def _write(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, model: int, first: int
) -> None:
    """As `write_outcomes`, a part of the loop that it stands in."""
    streams, predictions, labels = registry.streams, store.predictions, store.labels
    stream, label = place.stream, store.instances.label[place.slot]
    t0, t1, bins = labels.t0[label], labels.t1[label], streams.bins[stream]
    initial = earliest_of(predictions, first, model)
    before_bins = int(streams.initial[stream]) + int(streams.final[stream])
    for position in range(before_bins + bins):
        if position == 0 and streams.initial[stream]:
            if registry.entities.single[outcome.entity]:
                continue
            chosen = initial
        elif position < before_bins:
            chosen = latest_of(predictions, first, model, _EVER)
        else:
            end = end_of_bin(t0, t1, position - before_bins + 1, bins)
            chosen = latest_of(predictions, first, model, end) or initial
        _put(registry, store, logs, place, outcome, position, chosen)


@inner
def write_outcomes(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, model: int, first: int
) -> None:
    """An entity's rows for all stages but those at an age, from a model's predictions in a list.

    There is none for `initial` while it is the same as `final`.
    """
    _write(registry, store, logs, place, outcome, model, first)


@inner
def _count(registry: Registry, logs: Logs, stream: int, entity: int, t1: int) -> int:
    """An entity has one more outcome; returns its number."""
    entities = registry.entities
    number = entities.outcomes[entity] + 1
    entities.outcomes[entity] = number
    entities.newest_ts[entity] = t1
    entities.changed[entity] = 1
    emit = registry.streams.emit_outcomes[stream]
    if emit and number % emit == 0:
        logs.due[logs.used[DUE]] = entity
        logs.used[DUE] += 1
    return number


# ---- outcomes


@inner
def segment_row(
    registry: Registry, store: Store, stream: int, slot: int, model: int, carrier: int, key: int
) -> int:
    """Row in `SegmentRows` of a model's outcome for a key; -1: it is in no segment of the key.

    By the prediction `carrier` that carries segments (0: none), or else by its instance.
    """
    value = 0
    if carrier:
        value = store.values.segments[carrier, key]
    if not value:
        value = store.marks.segments[slot, key]
    if not value:
        return -1
    return registry.entities.segments[model] + key * registry.streams.slots[stream] + value - 1


@inner
def first_with_segments(store: Store, first: int, model: int, keys: int) -> int:
    """The first prediction of a model in a list that carries segments; 0: none does."""
    row = first
    while row:
        if store.predictions.model[row] == model:
            for key in range(keys):
                if store.values.segments[row, key]:
                    return row
        row = store.predictions.next[row]
    return 0


@inner
def _note_version(registry: Registry, store: Store, model: int, number: int, first: int) -> None:
    """A model's version is that of its newest prediction that has met its label.

    By the predictions' time: labels of a former version's predictions may still come after it.
    """
    entities, predictions = registry.entities, store.predictions
    latest = latest_of(predictions, first, model, _EVER)
    version, ts = predictions.version[latest], predictions.ts[latest]
    if version and (not entities.version[model] or ts >= entities.version_ts[model]):
        entities.version_ts[model] = ts
        if version != entities.version[model]:
            entities.version[model], entities.version_since[model] = version, number


@inlined
def _complete_model(
    registry: Registry, store: Store, logs: Logs, place: Place, model: int, first: int
) -> None:
    """A model's outcome in all stages, then those of its correction and in its segments."""
    stream, slot = place.stream, place.slot
    streams, entities = registry.streams, registry.entities
    predictions, values = store.predictions, store.values
    label = store.instances.label[slot]
    y, t1, keys = store.labels.label[label], store.labels.t1[label], streams.keys[stream]
    corrected = entities.corrected[model]
    head = first
    while predictions.model[head] != model:
        head = predictions.next[head]
    with_segments = first_with_segments(store, first, model, keys) if keys else 0
    for which in range(2 + keys):  # the model, its correction, its segments
        entity, whose, key = model, OWN, which - 2
        if which == 1:
            if not corrected or not all_corrected(registry, store, stream, slot, model, first):
                continue
            entity, whose = corrected, CORRECTED
        elif which > 1:
            values.segment_numbers[head, key] = 0
            row = segment_row(registry, store, stream, slot, model, with_segments, key)
            if row < 0:
                continue
            add_segment_event(logs, model, row, 1)
            entity = registry.segment_rows.entity[row]
        number = _count(registry, logs, stream, entity, t1)
        if which == 0:
            if streams.versions[stream]:
                _note_version(registry, store, model, number, first)
            if is_twofold(predictions, first, model, t1):
                entities.twofold[model] = 1
        elif which > 1:
            values.segment_numbers[head, key] = number
        _write(registry, store, logs, place, outcome_of(entity, number, whose, y, y, OUTCOME), model, first)


@inner
def all_corrected(registry: Registry, store: Store, stream: int, slot: int, model: int, first: int) -> bool:
    """Whether all predictions that count in a stage carry probabilities of a known class."""
    streams, predictions = registry.streams, store.predictions
    label = store.instances.label[slot]
    initial = earliest_of(predictions, first, model)
    if not predictions.corrected[initial]:
        return False
    if not predictions.corrected[latest_of(predictions, first, model, _EVER)]:
        return False
    bins = streams.bins[stream]
    for b in range(1, bins + 1):
        end = end_of_bin(store.labels.t0[label], store.labels.t1[label], b, bins)
        chosen = latest_of(predictions, first, model, end)
        if chosen and not predictions.corrected[chosen]:
            return False
    return True


@inner
def _complete_ages(
    registry: Registry, store: Store, logs: Logs, place: Place, model: int, first: int
) -> None:
    """A model's outcomes at an age; none where the label came sooner, or it had said nothing by then."""
    stream, slot = place.stream, place.slot
    streams, entities, predictions = registry.streams, registry.entities, store.predictions
    label = store.instances.label[slot]
    t0, t1, y = store.labels.t0[label], store.labels.t1[label], store.labels.label[label]
    head = first
    while predictions.model[head] != model:
        head = predictions.next[head]
    for stage in range(streams.age_count[stream]):
        store.values.after_numbers[head, stage] = 0
        age = registry.ages.age[streams.ages[stream] + stage]
        chosen = latest_of(predictions, first, model, t0 + age) if t1 - t0 >= age else 0
        if chosen:
            entity = entities.after[model] + stage
            number = _count(registry, logs, stream, entity, t1)
            store.values.after_numbers[head, stage] = number
            put(registry, store, logs, place, outcome_of(entity, number, OWN, y, y, OUTCOME), 0, chosen)


@inner
def number_at_age(registry: Registry, store: Store, stream: int, label: int, aged: int, stage: int) -> int:
    """Number of a baseline's outcome at an age; 0 or less where it had none, as it began later.

    Kept is that of the baseline which began first; from then on both have the same outcomes.
    """
    number = store.label_values.after_numbers[label, stage]
    if not number:
        return 0
    streams, entities, most = registry.streams, registry.entities, 0
    for which in range(2):
        entity = (streams.majority_entity if which else streams.persistent_entity)[stream]
        if entity:
            most = max(most, entities.outcomes[entities.after[entity] + stage])
    return number - (most - entities.outcomes[aged])


@inner
def _complete_baselines(
    registry: Registry, store: Store, logs: Logs, place: Place, first: int
) -> None:
    """The evaluated baselines' outcomes of an instance, at the times of the reference model's predictions."""
    stream, slot = place.stream, place.slot
    streams, entities = registry.streams, registry.entities
    label = store.instances.label[slot]
    t0, t1, y = store.labels.t0[label], store.labels.t1[label], store.labels.label[label]
    for stage in range(streams.age_count[stream]):
        store.label_values.after_numbers[label, stage] = 0
    reference = reference_of(store.predictions, first)
    twofold = is_twofold(store.predictions, first, reference, t1)
    for which in range(2):
        entity = (streams.majority_entity if which else streams.persistent_entity)[stream]
        if entity:
            if twofold:
                entities.twofold[entity] = 1
            number = _count(registry, logs, stream, entity, t1)
            outcome = outcome_of(entity, number, PERSISTENT + which, y, y, OUTCOME)
            write_outcomes(registry, store, logs, place, outcome, reference, first)
            for stage in range(streams.age_count[stream]):
                age = registry.ages.age[streams.ages[stream] + stage]
                chosen = latest_of(store.predictions, first, reference, t0 + age) if t1 - t0 >= age else 0
                if chosen:
                    aged = entities.after[entity] + stage
                    number = _count(registry, logs, stream, aged, t1)
                    known = store.label_values.after_numbers[label, stage]
                    store.label_values.after_numbers[label, stage] = max(known, number)
                    outcome = outcome_of(aged, number, PERSISTENT + which, y, y, OUTCOME)
                    put(registry, store, logs, place, outcome, 0, chosen)


@inner
def meet(registry: Registry, store: Store, logs: Logs, stream: int, slot: int, prediction: int) -> None:
    """A prediction meets its label: the event, and what of it is scored."""
    predictions, labels = store.predictions, store.labels
    label = store.instances.label[slot]
    y = labels.label[label]
    row = add_event(logs, MET, predictions.model[prediction], predictions.ts[prediction])
    logs.events.t1[row] = labels.t1[label]
    logs.events.prediction[row] = predictions.label[prediction]
    logs.events.bin[row] = predictions.bin[prediction]
    logs.events.label[row] = y
    logs.events.bits[row] = bits_of(predictions, prediction, y)
    logs.events.known[row] = knows(predictions, prediction)
    logs.events.at_horizon[row] = labels.at_horizon[label]
    if labels.at_horizon[label]:
        registry.entities.at_horizon[predictions.model[prediction]] += 1
    if registry.streams.valued[stream]:
        note_stake(
            logs.events, row, False, store.values.value, prediction, store.label_values.value, label
        )
    score(logs.events, row, registry, store, stream, slot, prediction, y)


@inlined
def complete(registry: Registry, store: Store, logs: Logs, place: Place) -> None:
    """All outcomes of an instance whose label has just met its predictions.

    They are in the order of the models' first ones.
    """
    stream, slot = place.stream, place.slot
    predictions = store.predictions
    label = store.instances.label[slot]
    clock = registry.streams.clock[stream]
    add_latency(logs, stream, max(0, store.labels.t1[label] - store.labels.t0[label]), clock, 0)
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
        if is_first_of_model(predictions, first, row) and not registry.entities.retired[model]:
            _complete_model(registry, store, logs, place, model, first)
        row = predictions.next[row]
    _complete_baselines(registry, store, logs, place, first)
    row = first
    while row:
        model = predictions.model[row]
        if is_first_of_model(predictions, first, row) and not registry.entities.retired[model]:
            _complete_ages(registry, store, logs, place, model, first)
        row = predictions.next[row]


@inner
def complete_late(
    registry: Registry, store: Store, logs: Logs, place: Place, prediction: int
) -> None:
    """The outcomes of a model whose prediction, the last in its list, comes after others met the label."""
    stream, slot = place.stream, place.slot
    model = store.predictions.model[prediction]
    label = store.instances.label[slot]
    store.predictions.judged[prediction] = store.labels.label[label] + 1
    meet(registry, store, logs, stream, slot, prediction)
    _complete_model(registry, store, logs, place, model, prediction)
    _complete_ages(registry, store, logs, place, model, prediction)


@inlined
def remember_numbers(registry: Registry, store: Store, first: int) -> None:
    """What was scored isn't needed any more: in its place, the numbers of the models' outcomes."""
    predictions = store.predictions
    row = first
    while row:
        number = registry.entities.outcomes[predictions.model[row]] & LOW
        predictions.extra[row] = number - (LOW + 1) if number > LOW >> 1 else number
        row = predictions.next[row]
