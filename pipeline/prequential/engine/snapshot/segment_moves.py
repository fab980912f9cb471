"""The places of a snapshot's segments under the present configuration.

A model has a place for each key and position of a value, so other `segments` or `segments_per_key` move them.
A value with a segment of its own in both configurations keeps it, and the segment of a key's other values
also continues. Values beyond a lower limit belong to those others from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inner, kernel
from prequential.engine.join.choosing import first_with_segments, is_first_of_model
from prequential.engine.tables.rows import RowAllocator
from prequential.engine.tables.store import Store


class SegmentMoves:
    """Moves segments to their present places; streams have their values already."""

    def __init__(
        self, catalog: Catalog, saved: Sequence[dict[str, Any]], origin: Any, rows: Ints, entities: Ints32
    ) -> None:
        """`rows` are the first ones of models, `entities` those of segments, all as they were saved."""
        self._catalog, self._saved, self._rows, self._entities = catalog, saved, rows, entities
        self._offsets = [
            _offsets(stream, former) for stream, former in zip(catalog.streams, saved)
        ]
        self._place = {row: place for place, row in enumerate(entities.tolist()) if row}
        #: Whether all have the places that they had.
        self.same = all(map(self.is_same, catalog.streams))
        #: The previous place for each present one; 0: there was none.
        self.former = np.arange(len(origin)) if self.same else np.zeros(1, dtype=np.int64)
        if self.same:
            catalog.segment_origin = [tuple(one) for one in origin]
            catalog.segment_numbers = RowAllocator(len(origin))
            catalog.make_segment_rows()

    def is_same(self, stream: Stream) -> bool:
        """Whether a stream's segments have their previous places."""
        saved, config = self._saved[stream.code], stream.config
        return tuple(saved["segments"]) == config.segments and saved["slots"] == config.segments_per_key + 1

    def stays_evaluated(self, about: Entity) -> bool:
        """Whether a segment that was evaluated still is."""
        offset = self._place[about.row] - int(self._rows[self._model(about)])
        return bool((self._offsets[about.stream] == offset).any())

    def _model(self, about: Entity) -> int:
        return self._catalog.streams[about.stream].models[about.model]

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
        evaluated = np.array([about is not None for about in self._catalog.entities])
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
        _forget_numbers(store, slots[store.instances.label[slots] > 0], kept)
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
def _forget_numbers(store: Store, slots: Ints32, kept: Bytes) -> None:
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
    for model, places in groupby(range(1, len(origin)), lambda place: origin[place][0]):
        block = list(places)
        if catalog.entities[model] is None:
            catalog.segment_numbers.free(block[0], len(block))
            rows += block
    return rows
