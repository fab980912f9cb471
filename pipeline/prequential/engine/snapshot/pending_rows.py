"""Pending predictions and labels of a snapshot under the present configuration: segments move, rows follow.

A model has a place for each key and position of a value, so other `segments` or `segments_per_key` move them.
A value with a segment of its own in both configurations keeps it, and the segment of a key's other values
also continues. Values beyond a lower limit belong to those others from now on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.state import ensure_rows, load, load_seasons
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inner, kernel
from prequential.engine.join.outcome_rows import first_with_segments, is_first_of_model
from prequential.engine.tables.compact import CompactRows, load_compact
from prequential.engine.tables.logs import WAITS, Events, new_events
from prequential.engine.tables.rows import RowAllocator
from prequential.engine.tables.store import SETTLED, UNKNOWN, WAITING, Store, schedule


class SegmentMoves:
    """Moves segments to their present places; streams have their values already."""

    def __init__(
        self, catalog: Catalog, saved: Sequence[dict[str, Any]], origin: Any, rows: Ints, entities: Ints32
    ) -> None:
        """`rows` are the first ones of models, `entities` those of segments, all as they were saved."""
        self._catalog, self._saved, self._rows, self._entities = catalog, saved, rows, entities
        self._offsets = [_offsets(stream, former) for stream, former in zip(catalog.streams, saved)]
        self._segment_row = {row: segment_row for segment_row, row in enumerate(entities.tolist()) if row}
        #: Whether all have the places that they had.
        self.same = all(map(self.is_same, catalog.streams))
        #: The previous place for each present one; 0: there was none.
        self.former = np.arange(len(origin)) if self.same else np.zeros(1, dtype=np.int64)
        if self.same:
            catalog.segment_origin = [tuple(row_origin) for row_origin in origin]
            catalog.segment_numbers = RowAllocator(len(origin))
            catalog.make_segment_rows()

    def is_same(self, stream: Stream) -> bool:
        """Whether a stream's segments have their previous places."""
        saved, config = self._saved[stream.code], stream.config
        return tuple(saved["segments"]) == config.segments and saved["slots"] == config.segments_per_key + 1

    def stays_evaluated(self, entity: Entity) -> bool:
        """Whether a segment that was evaluated still is."""
        offset = self._segment_row[entity.row] - int(self._rows[self._model(entity)])
        return bool((self._offsets[entity.stream] == offset).any())

    def _model(self, entity: Entity) -> int:
        return self._catalog.streams[entity.stream].models[entity.model]

    def add_model(self, stream: Stream, row: int) -> None:
        """A model has places for its segments."""
        before, entities = int(self._rows[row]), self._catalog.registry.entities
        if self.same:
            entities.segments[row] = before
        elif stream.config.segments:
            self._catalog.add_segment_rows(stream, row)
            offsets = self._offsets[stream.code]
            self.former = np.append(self.former, np.where(offsets < 0, 0, before + offsets))

    def attach(self) -> None:
        """Segments that are evaluated are found in their places."""
        rows = self._entities[self.former]
        evaluated = np.array([entry is not None for entry in self._catalog.entities])
        entity = self._catalog.registry.segment_rows.entity
        entity[: len(rows)] = np.where(evaluated[rows], rows, 0)

    def move_columns(
        self, store: Store, stream: Stream, slots: Ints32, marks: Ints, predictions: Ints
    ) -> None:
        """Move what is kept by key of a stream: of its instances in `slots`, in these rows of the tables."""
        saved, keys = self._saved[stream.code], stream.config.segments
        if self.is_same(stream) or not (saved["segments"] or keys):
            return
        kept = np.zeros((len(saved["segments"]), saved["slots"] + 1), dtype=np.uint8)
        offsets = self._offsets[stream.code]
        for offset in offsets[offsets >= 0].tolist():
            key, position = divmod(offset, saved["slots"])
            kept[key, 1 + position] = 1
        forget_segment_numbers(store, slots[store.instances.label[slots] > 0], kept)
        former = saved["segments"]
        places = {new: former.index(key) for new, key in enumerate(keys) if key in former}
        permute(store.values.segment_numbers, predictions, places)
        permute(store.marks.segments, marks, places)
        permute(store.values.segments, predictions, places)
        most = stream.config.segments_per_key + 1
        for new, old in places.items():
            positions = np.full(saved["slots"] + 1, most, dtype=np.int64)
            positions[0] = 0
            for i, value in enumerate(saved["values"][old], 1):
                positions[i] = stream.values[new].get(value, most)
            for column, rows in ((store.marks.segments, marks), (store.values.segments, predictions)):
                column[rows, new] = positions[column[rows, new]]


def permute(column: Any, rows: Any, places: dict[int, int]) -> None:
    """Columns of these rows take the values of previous columns, by place; others are 0."""
    former = column[rows].copy()
    column[rows] = 0
    for new, old in places.items():
        column[rows, new] = former[:, old]


def _offsets(stream: Stream, saved: dict[str, Any]) -> Ints:
    """By place among a model's segments the one that it was before, from 0; -1: there was none."""
    slots, before = stream.config.segments_per_key + 1, saved["slots"]
    offsets = np.full(len(stream.config.segments) * slots, -1, dtype=np.int64)
    for new, key in enumerate(stream.config.segments):
        if key in saved["segments"]:
            old = saved["segments"].index(key)
            for i, value in enumerate(saved["values"][old]):
                if value in stream.values[new]:
                    offsets[new * slots + stream.values[new][value] - 1] = old * before + i
            offsets[new * slots + slots - 1] = old * before + before - 1
    return offsets


@kernel
def forget_segment_numbers(store: Store, slots: Ints32, kept: Bytes) -> None:
    """Of these instances' outcomes those are unknown whose segment isn't `kept`, by key and position."""
    predictions = store.predictions
    for i in range(len(slots)):
        first = store.instances.first[slots[i]]
        row = first
        while row:
            if is_first_of_model(predictions, first, row):
                _forget_numbers_of(store, slots[i], row, kept)
            row = predictions.next[row]


@inner
def _forget_numbers_of(store: Store, slot: int, row: int, kept: Bytes) -> None:
    """Do so for the outcomes of a model, whose first prediction is in `row`."""
    values, keys = store.values, len(kept)
    model = store.predictions.model[row]
    segments_row = first_with_segments(store, store.instances.first[slot], model, keys)
    for key in range(keys):
        value = values.segments[segments_row, key] or store.marks.segments[slot, key]
        if not kept[key, value]:
            values.segment_numbers[row, key] = 0


def freed_segment_rows(catalog: Catalog) -> list[int]:
    """Free the rows for segments of models that weren't restored; returns them, ascending."""
    origin, rows = catalog.segment_origin, list[int]()
    for model, places in groupby(range(1, len(origin)), lambda row: origin[row][0]):
        block = list(places)
        if catalog.entities[model] is None:
            catalog.segment_numbers.free(block[0], len(block))
            rows += block
    return rows


def restore(
    store: Store, catalog: Catalog, saved: Sequence[dict[str, Any]], arrays: Mapping[str, Any],
    moves: SegmentMoves,
) -> Store:  # fmt: skip
    """The store with what a snapshot has of it, `saved` being the streams as they were then."""
    store = load_seasons(ensure_rows(load(store, arrays), catalog), catalog, arrays)
    slots, streams = arrays["ids|slots"], arrays["ids|streams"]
    _move_columns(store, catalog, saved, moves, slots, streams)
    horizons = [
        present.config.label_horizon - former["horizon"] for present, former in zip(catalog.streams, saved)
    ]
    later = np.array([*horizons, 0], dtype=np.int64)[streams]
    states = store.instances.state[slots]
    remembered = states != UNKNOWN
    deadlines = arrays["deadline"][slots] + np.where(states != SETTLED, later, 0)
    wheel, compact = catalog.registry.streams.wheel, store.compact
    if "compact|stream" in arrays:  # snapshots of earlier versions lack it
        columns = {name: arrays[f"compact|{name}"] for name in ("stream", *CompactRows.__annotations__)}
        compact = load_compact(columns, wheel, store.wheels.next_due)
    _schedule(store, wheel, slots[remembered], streams[remembered], deadlines[remembered])
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
    row, list_number = first.astype(np.int64), np.arange(len(first))
    rows, lists = [row[:0]], [list_number[:0]]
    while (is_row := row > 0).any():
        row, list_number = row[is_row], list_number[is_row]
        rows.append(row)
        lists.append(list_number)
        row = following[row].astype(np.int64)
    all_rows = np.concatenate(rows)
    order = np.argsort(all_rows)
    return all_rows[order], np.concatenate(lists)[order]
