"""What was measured of each model, as far back as a change may lie: outcomes in blocks, and predictions.

Of a model (and of its temporal correction) one stage is *watched*: `final` where it is evaluated, or else the
first. Its blocks hold what may tell causes apart, by label, predicted class, segment, label latency, version
and confidence: how many outcomes, and the sum of their losses. Beside them lie blocks of the model's
predictions: by predicted class how many there were, and how many of them have got their label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from prequential.core.compiled.kernel import (
    Bytes,
    Floats,
    Ints,
    Ints32,
    columns_of,
    grown,
    inlined,
    records,
)
from prequential.core.detectors.signals import WRONG
from prequential.core.incidents.blocks import (
    FEW_BLOCKS,
    MOST_BLOCKS,
    Pool,
    has_place,
    laid_out,
    new_pool,
    with_owners,
    without_owners,
)
from prequential.core.tables.keys import Key, Table

#: Classes with columns of their own; all others share the last one.
MOST_CLASSES = 16

#: Classes that there are columns for from the first outcome on.
_LEAST_CLASSES = 2

#: Segments of a model with columns of their own, the first ones that have outcomes.
MOST_SEGMENTS = 64

#: Versions of a model that are told apart at a time.
VERSIONS = 4

#: Label latencies: below 64 ms, 256 ms, 1 s, 4 s, 16 s, 1 min, … 3 d, and longer, each four times the last.
LATENCIES = 14
_SHORTEST_BITS = 6

#: Equal bins of confidence, the probability that the prediction was given: eight for two classes.
CONFIDENCES = 16

#: Columns of a block's cells: latencies, versions, confidences, then those of classes and of segments.
LATENCY, LATENCY_LOSS = 0, LATENCIES
VERSION, VERSION_LOSS = 2 * LATENCIES, 2 * LATENCIES + VERSIONS
CONFIDENCE = VERSION_LOSS + VERSIONS
CONFIDENCE_LOSS = CONFIDENCE + CONFIDENCES
CLASSES = CONFIDENCE_LOSS + CONFIDENCES

#: Columns of a class: outcomes with this label and their losses; of them those whose label repeats the one
#: before; outcomes with this prediction, and their losses.
LABELLED, LABELLED_LOSS, REPEATED, REPEATED_LOSS, PREDICTED, PREDICTED_LOSS = range(6)
PER_CLASS = 6

#: Columns of a segment: outcomes, losses.
PER_SEGMENT = 2

#: Columns of a predicted class in blocks of predictions: predictions, and those of them that have a label.
MADE, MET_LABEL = range(2)
PER_PREDICTED = 2

#: No time or number to look at it.
NEVER = 1 << 62

#: Positions in `History.notes`: owners due; examples; of NEEDS_ROOM the owner, which of its pools lacks it,
#: and how many classes and segments must have columns; the record that made owners due.
DUE_COUNT, EXAMPLE_COUNT, WANTING, POOL, WANTED_CLASSES, WANTED_SEGMENTS, DUE_RECORD = range(7)
OF_OUTCOMES, OF_PREDICTIONS = range(2)


class Owners(NamedTuple):
    """By entity."""

    position: Ints32  # 1 + place of the watched stage among the entity's; 0: it has none
    owner: Ints32  # the entity whose blocks have its outcomes; of segments their model
    kind: Bytes  # of the loss
    slot: Ints32  # of segments: 1 + its columns' place; 0: none yet, -1: there are none left
    #: Of owners:
    model: Ints32  # whose predictions they are
    classes: Ints32  # with columns
    segments: Ints32  # with columns
    slots: Ints32  # that are given away
    label: Ints32  # 1 + the label before
    outcomes: Ints  # number of the newest
    newest: Ints  # largest label time that isn't ahead of the stream's clock, ms
    loss: Floats  # of the outcome before
    example: Ints  # number of the first outcome of the block that has an example
    predictions: Ints  # of a model
    newest_prediction: Ints  # likewise of prediction times
    check_number: Ints  # look at it when there are so many outcomes
    check_time: Ints  # … or label time is so late, ms


class History(NamedTuple):
    """All of a shard."""

    owners: Owners
    versions: Ints32  # (owners, VERSIONS): codes of versions, by column
    outcomes: Pool
    predictions: Pool
    due: Ints32  # owners
    examples: Ints32  # rows of the log
    notes: Ints


def new_history() -> History:
    """Nobody is known."""
    return History(
        records(Owners, 16), np.zeros((16, VERSIONS), np.int32),
        new_pool(summed=True), new_pool(summed=False),
        np.zeros(16, np.int32), np.zeros(16, np.int32), np.zeros(7, np.int64),
    )  # fmt: skip


#: Columns of owners that the configuration decides.
OWNER_SETTINGS = ("position", "owner", "kind", "model")

#: The pools of blocks.
POOLS = ("outcomes", "predictions")


def tables(history: History, entities: int) -> Iterator[Table]:
    """The tables that are state of so many entities, and what their rows stand for."""
    links = {"owner": Key.ENTITY, "model": Key.ENTITY}
    yield Table("incidents|owners|", Key.ENTITY, history.owners, entities, links=links)
    yield Table("incidents|versions", Key.ENTITY, history.versions, entities)
    links = {"first": Key.BLOCK, "cells": Key.BLOCK_CELL}
    for name in POOLS:
        pool: Pool = getattr(history, name)
        blocks, cells = pool.used.tolist()
        yield Table(f"incidents|{name}|lines|", Key.ENTITY, pool.lines, entities, links=links)
        yield Table(f"incidents|{name}|blocks|", Key.BLOCK, pool.blocks, blocks, (name,))
        if len(pool.sums):
            yield Table(f"incidents|{name}|sums|", Key.BLOCK, pool.sums, blocks, (name,))
        yield Table(f"incidents|{name}|cells", Key.BLOCK_CELL, pool.cells, cells, (name,))
        yield Table(f"incidents|{name}|used", Key.NONE, pool.used)


def with_entities(history: History, entities: int) -> History:
    """The history with rows for so many entities."""
    return history._replace(
        owners=grown(history.owners, entities), versions=grown(history.versions, entities),
        outcomes=with_owners(history.outcomes, entities),
        predictions=with_owners(history.predictions, entities),
    )  # fmt: skip


def without(history: History, entities: Sequence[int]) -> History:
    """The history without these entities; what comes of them is passed over."""
    for column in columns_of(history.owners).values():
        column[entities] = 0
    history.versions[entities] = 0
    return history._replace(
        outcomes=without_owners(history.outcomes, entities),
        predictions=without_owners(history.predictions, entities),
    )


def columns(classes: int, segments: int) -> int:
    """Cells of a block of outcomes."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segments


def column_of_segment(classes: int, segment: int) -> int:
    """The first column of a segment."""
    return CLASSES + PER_CLASS * classes + PER_SEGMENT * segment


@inlined
def latency_column(latency: int) -> int:
    """The column of a label latency (ms)."""
    left, column = latency >> _SHORTEST_BITS, 0
    while left > 0 and column < LATENCIES - 1:
        left >>= 2
        column += 1
    return column


@inlined
def class_column(code: int, classes: int) -> int:
    """The place of a class's columns, among so many."""
    return min(max(code, 0), classes - 1)


def with_room(history: History) -> History:
    """The history with what the owner lacked at which `follow` stopped."""
    owners, notes = history.owners, history.notes
    owner, wanted = int(notes[WANTING]), int(notes[WANTED_CLASSES])
    if owners.kind[owner] == WRONG:
        wanted = max(_LEAST_CLASSES, wanted)  # one more is soon to come, and costs as much again
    if notes[POOL] == OF_PREDICTIONS:
        pool = history.predictions
        before = int(pool.lines.width[owner])
        width = max(before, PER_PREDICTED * _power_of_two(wanted))
        same = [(cell, cell) for cell in range(before)]
        return history._replace(predictions=laid_out(pool, owner, _places(pool, owner), same, width))
    pool = history.outcomes
    classes, segments = int(owners.classes[owner]), int(owners.segments[owner])
    more, more_segments = max(classes, wanted), max(segments, int(notes[WANTED_SEGMENTS]))
    now = (
        _power_of_two(more) if more > classes else classes,
        _power_of_two(more_segments) if more_segments > segments else segments,
    )
    kept = [(cell, cell) for cell in range(CLASSES + PER_CLASS * classes)]
    old, new = column_of_segment(classes, 0), column_of_segment(now[0], 0)
    kept += [(old + cell, new + cell) for cell in range(PER_SEGMENT * segments)]
    pool = laid_out(
        pool, owner, _places(pool, owner), kept if pool.lines.width[owner] else [], columns(*now)
    )
    owners.classes[owner], owners.segments[owner] = now
    return history._replace(outcomes=pool)


def _places(pool: Pool, owner: int) -> int:
    """Places that an owner gets: more, if it has none left."""
    places = int(pool.lines.places[owner])
    return places if has_place(pool, owner) else MOST_BLOCKS if places else FEW_BLOCKS


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


class Blocks(NamedTuple):
    """An owner's blocks in order, the oldest first."""

    number: Ints
    n: Ints
    persistent: Ints
    majority: Ints
    t1: Ints
    ts: Ints
    lag: Floats
    loss: Floats
    squares: Floats
    products: Floats
    cells: Any  # (blocks, columns)


def read(pool: Pool, owner: int) -> Blocks:
    """An owner's blocks; of predictions sums are 0."""
    lines = pool.lines
    first, used, places = int(lines.first[owner]), int(lines.used[owner]), int(lines.places[owner])
    width, start = int(lines.width[owner]), int(lines.cells[owner])
    order = pool.blocks.order[first : first + used].astype(np.int64)
    rows = first + order
    cells = pool.cells[start : start + places * width].reshape(places, width)[order].astype(np.float64)
    blocks, sums = cast("Any", pool.blocks), cast("Any", pool.sums)
    sums = sums[rows] if len(sums) else np.zeros(used, sums.dtype)
    known = columns_of(blocks[rows]) | columns_of(sums)
    fields: Any = (known[name] for name in Blocks._fields[:-1])
    wide = [field.astype(np.int64) if field.dtype == np.int32 else field for field in fields]
    return Blocks._make((*wide, cells))
