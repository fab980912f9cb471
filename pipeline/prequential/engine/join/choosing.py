"""Chooses which of an instance's predictions counts for a model in a stage.

The stages are those of Grzenda et al. 2020, section III. `initial` is the earliest prediction, `final` the
latest one. An instance arrived at t0, and its label has the time t1. Bin b of B then has the last prediction
made by t0 + (t1 - t0)·b/B, or else the initial one. A stage at the age D has the last prediction made by
t0 + D, and one with the lead D the last one made by t1 - D. If times are equal, the prediction delivered
first is the earliest; in all other cases, the one delivered last counts.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import inner
from prequential.engine.tables.store import Predictions, Store
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
def chosen_at_age(predictions: Predictions, first: int, model: int, age: int, t0: int, t1: int) -> int:
    """A model's prediction in a stage at an age or, below 0, with a lead of -1 - age; 0 if there is none.

    There is none at an age that the instance reached after its label, either.
    """
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
