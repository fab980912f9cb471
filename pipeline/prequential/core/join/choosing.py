"""Which of an instance's predictions counts.

Of a model in a stage (Grzenda et al. 2020, section III): `initial` is the earliest, `final` the latest; bin b
of an instance that arrived at t0 and whose label is of t1 has the last one made by t0 + (t1 - t0)·b/B, or
else the initial one; a stage at the age D the last one made by t0 + D. Ties of time: the earliest is the one
delivered first, else the one delivered last counts.
"""

from __future__ import annotations

from prequential.core.compiled.kernel import inner
from prequential.core.tables.store import Predictions, Store
from prequential.core.tables.streams import Registry


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
