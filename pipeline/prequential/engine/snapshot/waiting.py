"""Pending predictions and labels in a snapshot: the state store under the present configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.state import ensure_rows, load, load_seasons
from prequential.engine.compiled.kernel import Ints, Ints32, kernel
from prequential.engine.snapshot.segment_moves import SegmentMoves, permute
from prequential.engine.tables.calendar import schedule
from prequential.engine.tables.compact import CompactRows, load_compact
from prequential.engine.tables.events import WAITS, Events, new_events
from prequential.engine.tables.store import SETTLED, UNKNOWN, WAITING, Store


def restore(
    store: Store, catalog: Catalog, saved: Sequence[dict[str, Any]], arrays: Mapping[str, Any],
    moves: SegmentMoves,
) -> Store:  # fmt: skip
    """The store with what a snapshot has of it, `saved` being the streams as they were then."""
    store = load_seasons(ensure_rows(load(store, arrays), catalog), catalog, arrays)
    slots, streams = arrays["ids|slots"], arrays["ids|streams"]
    _move_columns(store, catalog, saved, moves, slots, streams)
    horizons = [now.config.label_horizon - one["horizon"] for now, one in zip(catalog.streams, saved)]
    later = np.array([*horizons, 0], dtype=np.int64)[streams]
    states = store.instances.state[slots]
    known = states != UNKNOWN
    deadlines = arrays["deadline"][slots] + np.where(states != SETTLED, later, 0)
    wheel, compact = catalog.registry.streams.wheel, store.compact
    if "compact|stream" in arrays:  # snapshots of earlier versions lack it
        columns = {name: arrays[f"compact|{name}"] for name in ("stream", *CompactRows.__annotations__)}
        compact = load_compact(columns, wheel, store.wheels.next_due)
    _schedule(store, wheel, slots[known], streams[known], deadlines[known])
    return store._replace(compact=compact)


def _move_columns(
    store: Store, catalog: Catalog, saved: Sequence[dict[str, Any]], moves: SegmentMoves, slots: Ints32,
    streams: Ints32,
) -> None:  # fmt: skip
    """Move segments by key, and numbers by stage, to the columns of their places in the configuration."""
    entities, models = catalog.registry.entities, store.predictions.model
    # Entities that aren't evaluated any more have lost their stream.
    of_prediction = np.where(entities.retired[models] > 0, -1, entities.stream[models])
    of_slot = np.full(len(store.instances.state), -1, dtype=np.int64)
    of_slot[slots] = streams
    for stream, then in zip(catalog.streams, saved):
        marks = np.flatnonzero(of_slot[: len(store.marks.segments)] == stream.code)
        rows = np.flatnonzero(of_prediction[: len(store.values.segments)] == stream.code)
        stream_slots, ages = slots[streams == stream.code], then["ages"]
        moves.move_columns(store, stream, stream_slots, marks, rows)
        if tuple(ages) != stream.ages and (ages or stream.ages):
            places = {stream.ages.index(age): i for i, age in enumerate(ages) if age in stream.ages}
            rows = np.flatnonzero(of_prediction[: len(store.values.after_numbers)] == stream.code)
            permute(store.values.after_numbers, rows, places)
            labels = store.instances.label[stream_slots]  # a label is known by its instance
            permute(store.label_values.after_numbers, labels[labels > 0], places)


@kernel
def _schedule(store: Store, wheel: Ints, slots: Ints32, streams: Ints32, deadlines: Ints) -> None:
    """Let these instances run out at their deadlines."""
    for i in range(len(slots)):
        store.links.bucket[slots[i]] = 0
        stream = streams[i]
        schedule(store.wheels, store.links, stream, slots[i], deadlines[i], wheel[stream])


def predictions_of(store: Store, models: list[int]) -> tuple[Events, int]:
    """The predictions of these models that wait, as a log of events, and how many there are."""
    if not models:
        return new_events(1), 0
    slots = np.flatnonzero(store.instances.state == WAITING)
    waiting, _ = rows_of_lists(store.instances.first[slots], store.predictions.next)
    waiting = waiting[np.isin(store.predictions.model[waiting], models)]
    model, ts = store.predictions.model[waiting], store.predictions.ts[waiting]
    order, count = np.lexsort((ts, model)), len(waiting)
    events = new_events(max(1, count))
    events.kind[:] = WAITS
    events.model[:count], events.ts[:count] = model[order], ts[order]
    return events, count


def rows_of_lists(first: Any, following: Any) -> tuple[Ints, Ints]:
    """The rows of lists that begin at these rows (0: none), ascending, and which list each is in.

    >>> rows_of_lists(np.array([3, 0, 1]), np.array([0, 0, 0, 2]))
    (array([1, 2, 3]), array([2, 0, 0]))
    """
    row, which = first.astype(np.int64), np.arange(len(first))
    rows, lists = [row[:0]], [which[:0]]
    while (is_row := row > 0).any():
        row, which = row[is_row], which[is_row]
        rows.append(row)
        lists.append(which)
        row = following[row].astype(np.int64)
    all_rows = np.concatenate(rows)
    order = np.argsort(all_rows)
    return all_rows[order], np.concatenate(lists)[order]
