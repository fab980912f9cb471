"""Measurements of each model in clusters of prediction time: outcomes, and predictions.

One stage of each model (and of its temporal correction) is *watched*: `final` where it is evaluated, or else
the first. Its clusters count outcomes and add up their losses by label, predicted class, segment, label
latency, version and confidence. These sums distinguish causes. Next to them are clusters of the model's
predictions: by predicted class, the number of predictions, and how many of them have their label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from prequential.engine.compiled import kernel as loops
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, grown, inner, records
from prequential.engine.incidents import clusters
from prequential.engine.incidents.clusters import (
    ClusterPool,
    KeptCells,
    kept_cells,
    lay_out,
    more_places,
    new_pool,
)
from prequential.engine.incidents.lasting import Scratch, new_scratch
from prequential.engine.tables.rows import Key, StateTable

#: Classes with columns of their own; all others share the last one.
MOST_CLASSES = 16

#: Classes that there are columns for from the first outcome on.
_LEAST_CLASSES = 2

#: Segments of a model with columns of their own, the first ones that have outcomes.
MOST_SEGMENTS = 64

#: Versions of a model that are distinguished at a time.
VERSIONS = 4

#: Label latencies: below 64 ms, 256 ms, 1 s, 4 s, 16 s, 1 min, … 50 d, and longer, each four times the last.
LATENCIES = 15
_SHORTEST_BITS = 6

#: Equal bins of confidence, the probability that the prediction was given: eight for two classes.
CONFIDENCES = 16

#: Columns of a cluster's cells: latencies, versions, confidences, then those of classes and of segments.
LATENCY, LATENCY_LOSS = 0, LATENCIES
VERSION, VERSION_LOSS = 2 * LATENCIES, 2 * LATENCIES + VERSIONS
CONFIDENCE = VERSION_LOSS + VERSIONS
CONFIDENCE_LOSS = CONFIDENCE + CONFIDENCES
CLASSES = CONFIDENCE_LOSS + CONFIDENCES

#: Columns of a class: outcomes with this label and their losses; of them those whose label repeats the one
#: before; outcomes with this prediction, and their losses.
LABELLED, LABELLED_LOSS, REPEATED, REPEATED_LOSS, PREDICTED, PREDICTED_LOSS = range(6)
PER_CLASS = 6

#: Segments that there are columns for from the first outcome in a segment on.
_LEAST_SEGMENTS = 8

#: Columns of a segment: outcomes, losses.
PER_SEGMENT = 2

#: Columns of a predicted class in clusters of predictions: predictions, and those of them that have a label.
MADE, MET_LABEL = range(2)
PER_PREDICTED = 2

#: In place of a time or number at which to check: never.
NEVER = 1 << 62

#: Positions in `ClusterHistory.notes`: owners due; examples; of NEEDS_ROOM the owner, which of its pools
#: lacks it, and how many classes and segments must have columns; the record that made owners due; rows and
#: cells that the pool must have.
DUE_COUNT, EXAMPLE_COUNT, WANTING, POOL, WANTED_CLASSES, WANTED_SEGMENTS, DUE_RECORD = range(7)
NEEDED_ROWS, NEEDED_CELLS = range(7, 9)
OF_OUTCOMES, OF_PREDICTIONS, OF_PARTS = range(3)


class Owners(NamedTuple):
    """By entity."""

    position: Ints32  # 1 + place of the watched stage among the entity's; 0: it has none
    owner: Ints32  # the entity whose clusters have its outcomes; of segments their model
    measure: Ints32  # column of the measure that is the mean of the watched losses
    loss_identity: Ints  # these losses, and the settings that they depend on
    binary: Bytes  # whether these losses are 0 or 1
    of_classes: Bytes  # whether labels are classes
    fixed: Ints  # configured length of clusters (ms); 0: it follows from the data
    budget: Floats  # ms for one incident
    horizon: Ints  # after which no label counts, ms
    slot: Ints32  # of segments: 1 + its columns' place; 0: none yet, -1: there are none left
    #: Of owners:
    model: Ints32  # whose predictions they are
    classes: Ints32  # with columns
    segments: Ints32  # with columns
    slots: Ints32  # that are given away
    label: Ints32  # 1 + the label before
    outcomes: Ints  # number of the newest
    newest: Ints  # largest label time that isn't ahead of the stream's clock, ms
    loss: Floats  # of the outcome before that has one
    cluster: Ints  # number of the newest outcome's; NEVER: it has no loss, or lies before all that is kept
    example: Ints  # number of the first outcome of the cluster that has an example
    predictions: Ints  # of a model
    is_open: Bytes  # whether an incident is open
    check_time: Ints  # a cluster is closed when label time is so late, ms
    closed: Ints  # begin of the newest cluster that is closed, ms


class ClusterHistory(NamedTuple):
    """The clusters of all models of a shard."""

    owners: Owners
    versions: Ints32  # (owners, VERSIONS): codes of versions, by column
    outcomes: ClusterPool
    predictions: ClusterPool
    parts: ClusterPool  # of clusters of outcomes
    due: Ints32  # owners
    examples: Ints32  # rows of the log
    notes: Ints
    scratch: Scratch


def new_history() -> ClusterHistory:
    """A history without any model."""
    return ClusterHistory(
        records(Owners, 16), np.zeros((16, VERSIONS), np.int32),
        new_pool(summed=True), new_pool(summed=False), new_pool(summed=True),
        np.zeros(16, np.int32), np.zeros(16, np.int32), np.zeros(9, np.int64),
        new_scratch(clusters.MOST_CLUSTERS, LATENCIES),
    )  # fmt: skip


#: Columns of owners that the configuration decides.
OWNER_SETTINGS = (
    "position", "owner", "measure", "loss_identity", "binary", "of_classes", "fixed", "budget",
    "horizon", "model",
)  # fmt: skip

#: The pools of clusters.
POOLS = ("outcomes", "predictions", "parts")


def tables(history: ClusterHistory, entities: int) -> Iterator[StateTable]:
    """The tables that are state of so many entities, and what their rows stand for."""
    links = {"owner": Key.ENTITY, "model": Key.ENTITY}
    yield StateTable("incidents|owners|", Key.ENTITY, history.owners, entities, links=links)
    yield StateTable("incidents|versions", Key.ENTITY, history.versions, entities)
    links = {"first": Key.BLOCK, "cells": Key.BLOCK_CELL}
    for name in POOLS:
        pool: ClusterPool = getattr(history, name)
        blocks, cells = pool.used.tolist()
        yield StateTable(f"incidents|{name}|lines|", Key.ENTITY, pool.lines, entities, links=links)
        yield StateTable(f"incidents|{name}|blocks|", Key.BLOCK, pool.blocks, blocks, (name,))
        if len(pool.sums):
            yield StateTable(f"incidents|{name}|sums|", Key.BLOCK, pool.sums, blocks, (name,))
        yield StateTable(f"incidents|{name}|cells", Key.BLOCK_CELL, pool.cells, cells, (name,))
        yield StateTable(f"incidents|{name}|used", Key.NONE, pool.used)


def with_entities(history: ClusterHistory, entities: int) -> ClusterHistory:
    """The history with rows for so many entities."""
    pools: Any = {name: clusters.with_owners(getattr(history, name), entities) for name in POOLS}
    return history._replace(
        owners=grown(history.owners, entities), versions=grown(history.versions, entities), **pools
    )


def without(history: ClusterHistory, entities: Sequence[int]) -> ClusterHistory:
    """The history without these entities; their later records are passed over."""
    for column in loops.columns_of(history.owners).values():
        column[entities] = 0
    history.versions[entities] = 0
    pools: Any = {name: clusters.without_owners(getattr(history, name), entities) for name in POOLS}
    return history._replace(**pools)


def columns(classes: int, segments: int) -> int:
    """Cells of a cluster of outcomes."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segments


@inner
def column_of_segment(classes: int, segment: int) -> int:
    """The first column of a segment among those of a cluster."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segment


@inner
def latency_column(latency: int) -> int:
    """The column of a label latency (ms)."""
    remaining, column = latency >> _SHORTEST_BITS, 0
    while remaining > 0 and column < LATENCIES - 1:
        remaining >>= 2
        column += 1
    return column


@inner
def class_column(code: int, classes: int) -> int:
    """The place of a class's columns, among so many."""
    return min(max(code, 0), classes - 1)


@inner
def make_room(history: ClusterHistory) -> bool:
    """Give an owner what it lacks by the notes; False if its pool must grow first (`with_room`)."""
    owners, notes = history.owners, history.notes
    owner, wanted = notes[WANTING], notes[WANTED_CLASSES]
    if owners.of_classes[owner]:
        wanted = max(_LEAST_CLASSES, wanted)  # one more is soon to come, and costs as much again
    if notes[POOL] == OF_PARTS:
        parts = history.parts
        places = more_places(np.int64(parts.lines.places[owner]), clusters.MOST_PARTS)
        return _laid_out(history, parts, owner, places, 0, kept_cells(0, 0, 0, 0))
    if notes[POOL] == OF_PREDICTIONS:
        pool = history.predictions
        before = np.int64(pool.lines.width[owner])
        width = max(before, PER_PREDICTED * _power_of_two(wanted))
        return _laid_out(history, pool, owner, _places(pool, owner), width, kept_cells(before, 0, 0, 0))
    pool = history.outcomes
    classes, segments = np.int64(owners.classes[owner]), np.int64(owners.segments[owner])
    more, more_segments = classes, segments
    if wanted > classes:
        more = _power_of_two(wanted)
    if notes[WANTED_SEGMENTS] > segments:
        more_segments = _power_of_two(max(_LEAST_SEGMENTS, notes[WANTED_SEGMENTS]))
    old, new = 0, 0
    if pool.lines.width[owner]:
        old, new = column_of_segment(classes, 0), column_of_segment(more, 0)
    kept = kept_cells(old, old, new, PER_SEGMENT * segments)
    width = column_of_segment(more, more_segments)
    if not _laid_out(history, pool, owner, _places(pool, owner), width, kept):
        return False
    owners.classes[owner], owners.segments[owner] = more, more_segments
    return True


@inner
def _laid_out(
    history: ClusterHistory, pool: ClusterPool, owner: int, places: int, width: int, kept: KeptCells
) -> bool:
    """As `clusters.lay_out`; without room, notes how many rows and cells the pool must have."""
    history.notes[NEEDED_ROWS] = pool.used[0] + places
    history.notes[NEEDED_CELLS] = pool.used[1] + places * width
    return lay_out(pool, owner, places, width, kept)


@inner
def _places(pool: ClusterPool, owner: int) -> int:
    """Places that an owner gets: twice as many, if it has none left."""
    places = np.int64(pool.lines.places[owner])
    if pool.lines.used[owner] < places:
        return places
    return more_places(places, clusters.MOST_CLUSTERS)


@inner
def _power_of_two(least: int) -> int:
    power = 1
    while power < least:
        power *= 2
    return power


def with_room(history: ClusterHistory) -> ClusterHistory:
    """The history with room for what the owner lacked at which `follow` stopped."""
    notes = history.notes
    name = ("outcomes", "predictions", "parts")[notes[POOL]]
    pool: ClusterPool = getattr(history, name)
    rows, cells = (notes[NEEDED_ROWS : NEEDED_CELLS + 1] - pool.used).tolist()
    grown_pool: Any = {name: clusters.with_more(pool, rows, cells)}
    return history._replace(**grown_pool)


class OrderedClusters(NamedTuple):
    """An owner's clusters in order, the oldest first."""

    number: Ints
    n: Ints
    key: Ints
    mark: Ints
    persistent: Ints
    majority: Ints
    t1: Ints
    lag: Floats
    loss: Floats
    squares: Floats
    products: Floats
    ts: Ints  # begin, ms
    cells: Any  # (clusters, columns)

    def part(self, rows: Any) -> OrderedClusters:
        """These rows alone."""
        return OrderedClusters._make(column[rows] for column in self)


def read_parts(history: ClusterHistory, owner: int) -> OrderedClusters:
    """The parts that are kept of an owner's clusters of outcomes; they have no cells."""
    length = clusters.part_length(int(history.owners.fixed[owner]))
    return read(history.parts, owner, length, clusters.PART_HALVINGS)


def read(pool: ClusterPool, owner: int, fixed: int, halved: int = 0) -> OrderedClusters:
    """An owner's clusters; of predictions sums are 0.

    `fixed` is their configured length (ms) or 0: it follows from the data, and is `halved` so often.
    """
    lines = pool.lines
    first, used, places = int(lines.first[owner]), int(lines.used[owner]), int(lines.places[owner])
    width, start = int(lines.width[owner]), int(lines.cells[owner])
    order = pool.blocks.order[first : first + used].astype(np.int64)
    rows = first + order
    cells = pool.cells[start : start + places * width].reshape(places, width)[order].astype(np.float64)
    clusters, sums = cast("Any", pool.blocks), cast("Any", pool.sums)
    sums = sums[rows] if len(sums) else np.zeros(used, sums.dtype)
    by_name = loops.columns_of(clusters[rows]) | loops.columns_of(sums)
    fields: Any = (by_name[name] for name in OrderedClusters._fields[:-2])
    wide = [field.astype(np.int64) if field.dtype == np.int32 else field for field in fields]
    doubled = int(lines.doubled[owner]) - halved
    begins = [begin_of(key, fixed, doubled) for key in by_name["key"].tolist()]
    return OrderedClusters._make((*wide, np.array(begins, dtype=np.int64), cells))


def begin_of(key: int, fixed: int, doubled: int) -> int:
    """The first time (ms) of a cluster; see `clusters.key_of`."""
    if fixed:
        return key * fixed
    halvings = clusters.HALVINGS - doubled
    return (key << -halvings) * clusters.DAY if halvings < 0 else -(-key * clusters.DAY >> halvings)


def mark_clusters(pool: ClusterPool, owner: int, places: Sequence[int], mark: int) -> None:
    """Mark these of an owner's clusters, by their places in order of time."""
    first = int(pool.lines.first[owner])
    rows = first + pool.blocks.order[first + np.asarray(places, dtype=np.int64)].astype(np.int64)
    pool.blocks.mark[rows] = mark
