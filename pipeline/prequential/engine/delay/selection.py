"""Whether labelled predictions are like the rest: counts of predictions with a label, and of expired ones.

The counts are by model and predicted class, and by segment. Models predict from 2 to 65,534 classes, so their
counts are in blocks of a pool: 2, 4, 8, … rows, one for each class code. They move to a larger block when a
class doesn't fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled import free_blocks
from prequential.engine.compiled import kernel as loops
from prequential.engine.compiled.free_blocks import give_block, has_block, take_block
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, copy_of_rows, grown, inner, kernel, zeros
from prequential.engine.compiled.mathematics import log
from prequential.engine.tables.logs import EXPIRED, MET, Events, SegmentEvents
from prequential.engine.tables.rows import Key, StateTable

#: Added to every count, so that a group that lacks a value has a finite index.
_SMOOTHING = 0.5

#: Columns of counts: with a label, without one.
_LABELLED, _EXPIRED = range(2)

#: In place of the block of a model that isn't evaluated any more.
_GONE = -1

#: Sizes of blocks are 2^1 … 2^16.
_SIZES = 17


class SelectionModels(NamedTuple):
    """By model (row)."""

    block: Ints  # first row of its block; -1: it isn't evaluated any more
    capacity: Ints32  # rows of it; 0: no block yet


class SelectionCounts(NamedTuple):
    """By model and class code, or by segment."""

    counts: Ints  # (rows, 2): with a label, without one


class Selection(NamedTuple):
    """The tables of a shard; `blocks`: counters of `compiled.free_blocks` for `classes`."""

    models: SelectionModels
    classes: SelectionCounts
    segments: SelectionCounts  # by (model, segment), rows that the caller gives out
    blocks: Ints


def new_selection() -> Selection:
    """Empty tables."""
    classes, segments = (zeros(SelectionCounts, rows, counts=2) for rows in (16, 0))
    return Selection(zeros(SelectionModels, 0), classes, segments, free_blocks.new_counters(_SIZES))


def tables(selection: Selection) -> Iterator[StateTable]:
    """What their rows stand for."""
    links = {"block": Key.PREDICTED}
    yield StateTable("selection|models.", Key.ENTITY, selection.models, links=links)
    yield StateTable("selection|classes.", Key.PREDICTED, selection.classes)
    yield StateTable("selection|segments.", Key.SEGMENT, selection.segments)
    yield StateTable("selection|", Key.NONE, {"blocks": selection.blocks})


def with_rows(selection: Selection, models: int, segments: int) -> Selection:
    """The tables with at least this many models and rows of segments."""
    return selection._replace(
        models=grown(selection.models, models), segments=grown(selection.segments, segments)
    )


def update(selection: Selection, events: Events, start: int, stop: int) -> Selection:
    """Count predictions that met their label, or expired, in rows `start` to `stop` of the log.

    >>> from prequential.engine.tables.logs import new_events
    >>> events = new_events(4)
    >>> events.kind[:], events.prediction[:] = [MET, MET, MET, EXPIRED], [0, 0, 1, 1]
    >>> shares(update(with_rows(new_selection(), 1, 0), events, 0, 4), 0, ["up", "down"])
    {'up': 1.0, 'down': 0.5}
    """
    while (start := _update(selection, events, start, stop)) < stop:
        length = _capacity(int(events.prediction[start]))
        rows = free_blocks.needed_places(selection.blocks, _size(length), length)
        selection = selection._replace(classes=grown(selection.classes, rows))
    return selection


def part(selection: Selection, models: Ints, segments: Ints) -> Selection:
    """A read-only copy of the data of these models and segments (rows)."""
    table = loops.of_rows(selection.models, models)
    # Their counts by class, one after the other.
    lengths = table.capacity[models].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    rows = np.repeat(table.block[models] - starts, lengths) + np.arange(int(lengths.sum()))
    table.block[models] = starts
    classes, of_segments = copy_of_rows(selection.classes, rows), loops.of_rows(selection.segments, segments)
    return selection._replace(models=table, classes=classes, segments=of_segments)


def forget(selection: Selection, models: Iterable[int], segments: Ints) -> Selection:
    """The tables, with the blocks of these models free; later events of their predictions are ignored.

    The rows of `segments` are empty and can be reused.
    """
    selection.segments.counts[segments] = 0
    for model in models:
        _free(selection, model, _GONE)
    return selection


@kernel
def count_segments(selection: Selection, events: SegmentEvents, start: int, stop: int) -> None:
    """Count predictions by segment, in rows `start` to `stop` of their log."""
    for i in range(start, stop):
        selection.segments.counts[events.segment[i], _LABELLED if events.labelled[i] else _EXPIRED] += 1


def by_class(selection: Selection, model: int) -> Ints:
    """(classes, 2): by predicted class code, the predictions with a label, and the expired ones."""
    start = int(selection.models.block[model])
    return selection.classes.counts[start : start + int(selection.models.capacity[model])]


def shares(selection: Selection, model: int, classes: Sequence[str]) -> dict[str, float]:
    """By predicted class: the share with a label among a model's labelled and expired predictions, in [0, 1].

    Classes (by code) that the model has never predicted are left out.
    """
    counts = by_class(selection, model).tolist()
    return {
        name: labelled / (labelled + expired)
        for name, (labelled, expired) in zip(classes, counts)
        if labelled + expired
    }


def indices(selection: Selection, models: Ints) -> list[float | None]:
    """Each model's stability index of predicted classes: labelled predictions against expired ones.

    `models` are rows, (n,) int64. None without labels, or if all predictions have one. See `stability_index`.
    """
    return [None if value != value else value for value in index_column(selection, models).tolist()]


def index_column(selection: Selection, models: Ints) -> Floats:
    """As `indices`, (n,); NaN instead of None."""
    values = np.zeros(len(models))
    _indices(selection, models, values)
    return values


def segment_index(selection: Selection, rows: slice | list[int]) -> float | None:
    """The stability index of a model's segments with one key, by their rows; None as for `indices`."""
    return stability_index(selection.segments.counts[rows])


def stability_index(counts: Ints) -> float | None:
    """The population stability index of two groups, from their counts (values, 2) of the same values.

    PSI = Σ (a - b)·ln(a/b) over the values' shares a and b, with 0.5 added to each count. Values that neither
    group has are left out. 0: the same distribution; above 0.25 is usually called a large difference. None if
    a group is empty.

    >>> stability_index(np.array([[50, 50], [50, 50]])), stability_index(np.array([[1, 0], [1, 0]]))
    (0.0, None)
    >>> round(stability_index(np.array([[80, 50], [20, 50]])), 3)
    0.406
    """
    value = float(_stability_index(counts))
    return None if np.isnan(value) else value


@kernel
def _indices(selection: Selection, models: Ints, values: Floats) -> None:
    """The index of each model's classes."""
    table, counts = selection.models, selection.classes.counts
    for i in range(len(models)):
        start = np.int64(table.block[models[i]])
        values[i] = _stability_index(counts[start : start + table.capacity[models[i]]])


@kernel
def _stability_index(counts: Ints) -> float:
    """The index, NaN where a group is empty."""
    values, n_first, n_second = 0, 0, 0
    for row in range(len(counts)):
        values += counts[row, 0] > 0 or counts[row, 1] > 0
        n_first += counts[row, 0]
        n_second += counts[row, 1]
    if n_first == 0 or n_second == 0:
        return np.nan
    of_first, of_second = n_first + _SMOOTHING * values, n_second + _SMOOTHING * values
    total = 0.0
    for row in range(len(counts)):
        if counts[row, 0] or counts[row, 1]:
            a, b = (counts[row, 0] + _SMOOTHING) / of_first, (counts[row, 1] + _SMOOTHING) / of_second
            total += (a - b) * log(a / b)
    return total


@inner
def _capacity(code: int) -> int:
    """Rows of the smallest block that has one for a class code."""
    rows = 2
    while rows <= code:
        rows *= 2
    return rows


@inner
def _size(rows: int) -> int:
    """Binary logarithm of a power of two."""
    size = 0
    while rows > 1:
        rows >>= 1
        size += 1
    return size


@kernel
def _update(selection: Selection, events: Events, start: int, stop: int) -> int:
    """Follow the log; returns the row before which the pool must grow, or `stop`."""
    models, counts = selection.models, selection.classes.counts
    for i in range(start, stop):
        kind = events.kind[i]
        if kind != MET and kind != EXPIRED:
            continue
        model, code = events.model[i], events.prediction[i]
        if models.block[model] == _GONE:
            continue
        if code >= models.capacity[model] and not _allocate(selection, model, _capacity(code)):
            return i
        counts[models.block[model] + code, _LABELLED if kind == MET else _EXPIRED] += 1
    return stop


@inner
def _allocate(selection: Selection, model: int, rows: int) -> bool:
    """Move a model's counts to a block of this size; False if the pool is full."""
    models, counts, size = selection.models, selection.classes.counts, _size(rows)
    if not has_block(selection.blocks, counts[:, 0], size, rows):
        return False
    block = take_block(selection.blocks, counts[:, 0], size, rows)
    before, present = models.block[model], np.int64(models.capacity[model])
    for row in range(rows):
        for column in range(2):
            counts[block + row, column] = counts[before + row, column] if row < present else 0
    _free(selection, model, block)
    models.capacity[model] = rows
    return True


@kernel
def _free(selection: Selection, model: int, block: int) -> None:
    """Free a model's block, if it has one; its own is this one now, and has no rows yet."""
    models = selection.models
    if models.capacity[model]:
        size, before = _size(np.int64(models.capacity[model])), models.block[model]
        give_block(selection.blocks, selection.classes.counts[:, 0], size, before)
    models.block[model], models.capacity[model] = block, 0
