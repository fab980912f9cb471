"""Writes rows of the log of outcomes when a label and a prediction have met."""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import inlined, inner
from prequential.engine.detectors.budgets import due
from prequential.engine.join.choosing import earliest_of, end_of_bin, latest_of
from prequential.engine.join.estimating import estimate_of
from prequential.engine.join.scoring import score
from prequential.engine.join.stakes import note_stake
from prequential.engine.tables.logs import OUTCOMES, Logs
from prequential.engine.tables.outcomes import OUTCOME, REFERENCE, REVISION
from prequential.engine.tables.store import NO_CLASS, Predictions, Store
from prequential.engine.tables.streams import Registry

#: The source of an outcome's class: the prediction, its correction, or a baseline.
OWN, CORRECTED, PERSISTENT, MAJORITY = range(4)

#: A time after all times: no limit.
EVER = 1 << 62


class Place(NamedTuple):
    """The origin of outcomes: the record that causes them (`logs.Closings`), its stream, and the slot."""

    record: int
    stream: int
    slot: int


class Outcome(NamedTuple):
    """The values of an entity's outcome in the rows of all stages; made by `outcome_of`.

    `whose` is the source of its class. `old` is the label before a revision, or else the label. `judged` is
    the label that decides whether baselines were right. `kind` is the kind of row.
    """

    entity: int
    number: int
    whose: int
    old: int
    judged: int
    kind: int


@inlined
def outcome_of(entity: int, number: int, whose: int, old: int, judged: int, kind: int) -> Outcome:
    """An outcome with 64-bit numbers: several widths would make numba compile loops for several types."""
    return Outcome(entity, number, whose, old, judged, kind)


@inner
def write_outcomes(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, model: int, first: int
) -> None:
    """Write an entity's rows for all stages except those at an age, from a model's predictions in a list.

    `initial` has no row as long as it is the same as `final`.
    """
    write_here(registry, store, logs, place, outcome, model, first)


@inner
def put(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """Write one row, of the outcome's kind, for an entity's stage at `position`."""
    _put(registry, store, logs, place, outcome, position, prediction)


@inlined
def write_here(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, model: int, first: int
) -> None:
    """As `write_outcomes`, but inlined in the loop that calls it."""
    streams, predictions, labels = registry.streams, store.predictions, store.labels
    stream, label = place.stream, store.instances.label[place.slot]
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
        _put(registry, store, logs, place, outcome, position, chosen)


@inlined
def _put(
    registry: Registry, store: Store, logs: Logs, place: Place, outcome: Outcome, position: int,
    prediction: int,
) -> None:  # fmt: skip
    """As `put`, but inlined in the loop that calls it."""
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
        scores = whose == OWN and labels.label[label] != NO_CLASS
    if scores:
        score(log, row, registry, store, stream, place.slot, prediction, labels.label[label])


@inner
def _class_of(
    registry: Registry, predictions: Predictions, stream: int, prediction: int, whose: int
) -> int:
    """The class of an outcome; baselines predict at the time when the prediction was made."""
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
    """Which baselines were right, by the label at the time when it met the prediction."""
    persistent, majority = predictions.persistent[prediction], predictions.majority[prediction]
    return 2 * (persistent == judged) + (majority == judged)


@inner
def knows(predictions: Predictions, prediction: int) -> bool:
    """Whether baselines had a label to predict from when a prediction was made."""
    return predictions.persistent[prediction] != NO_CLASS
