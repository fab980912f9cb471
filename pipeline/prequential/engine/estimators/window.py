"""`window:W`: the last W outcomes of a sequence count, all the same (2013 paper, section 3.2.1)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, allocating, inlined, inner, zeros
from prequential.engine.estimators.declaration import (
    CLASS_SCORES,
    LOSSES,
    NUMBER_SCORES,
    RIGHT_OR_WRONG,
    WITHDRAWN,
    Additions,
    Loops,
    Memory,
    Payload,
)
from prequential.engine.estimators.loops import CountSteps, SumSteps, count_loops, sum_loops
from prequential.engine.estimators.sums import (
    IS_POSITIVE,
    POSITIVE,
    RIGHT,
    SPREAD,
    VALUE,
    add,
    copied,
)
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.ranking import Ranks, group
from prequential.engine.measures.table import put_ranks, refuse_ranks
from prequential.engine.tables import outcomes, scores

#: The longest window, in outcomes: each sequence has a ring of this size.
_LONGEST = 10_000_000

#: Outcomes of a block, and of the shortest window that has blocks.
_BLOCK = 128
_LEAST_WITH_BLOCKS = 4 * _BLOCK

# One spelling, because names are in messages.
_SIZE = re.compile("[1-9][0-9]*")


class WindowCounts(NamedTuple):
    """By sequence: how many of the last W outcomes are in each cell, and the cell of each outcome."""

    cells: Ints  # (sequences, cells)
    ring: Ints32  # (sequences, W), the m-th outcome that it has seen at (m - 1) mod W; or WITHDRAWN
    n: Ints  # outcomes seen, in the window or before it
    known: Ints  # the last outcome at which baselines had a label to predict from, from 1; 0: none
    began: Ints  # outcomes that the sequence had before: their revisions are ignored


class WindowSums(NamedTuple):
    """By sequence: the additions of the last W outcomes. Readings sum them up, so that sums can't drift.

    A long window of scores is read by its blocks: outcomes b·128 + 1 … (b + 1)·128 are block b, at b mod B.
    Instead of W outcomes, a reading adds fewer than 128 outcomes and W/128 sums of blocks.
    """

    flags: Bytes  # (sequences, W), the m-th outcome that it has seen at (m - 1) mod W
    values: Floats  # (sequences, W, kept of each)
    blocks: Floats  # (sequences, B, sums); for short windows, and other payloads, (sequences, 0, sums)
    sums: Floats  # (sequences, sums) for losses of 0 and 1, whose sums can be subtracted; else (sequences, 0)
    n: Ints  # outcomes seen, in the window or before it
    began: Ints  # as in `WindowCounts`


def new_counts(rows: int, payload: Payload, parameter: float) -> WindowCounts:
    """Empty windows of sequences."""
    return zeros(WindowCounts, rows, cells=payload.width, ring=int(parameter))


def new_sums(rows: int, payload: Payload, parameter: float) -> WindowSums:
    """Empty windows."""
    size, summed = int(parameter), payload.width if payload.kind == RIGHT_OR_WRONG else 0
    in_blocks = payload.kind in (CLASS_SCORES, NUMBER_SCORES) and size >= _LEAST_WITH_BLOCKS
    blocks = size // _BLOCK + 2 if in_blocks else 0  # the oldest block may be partly in the window
    return WindowSums(
        np.zeros((rows, size), np.uint8), np.zeros((rows, size, payload.kept)),
        np.zeros((rows, blocks, scores.SIZE)), np.zeros((rows, summed)), np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
    )  # fmt: skip


@inner
def add_count(table: WindowCounts, q: int, cell: int, t1: int, parameter: float) -> None:
    """Add an outcome of sequence `q` in `cell`; a full window drops its oldest outcome."""
    n, size = table.n[q], table.ring.shape[1]
    place = n % size
    if n >= size and table.ring[q, place] != WITHDRAWN:
        table.cells[q, table.ring[q, place]] -= 1
    table.ring[q, place] = cell
    table.cells[q, cell] += 1
    table.n[q] = n + 1


@inner
def revise(table: WindowCounts, q: int, number: int, cell: int, now: int) -> None:
    """Move an outcome to another cell, take it out or bring it back, if it is still in the window."""
    size = table.ring.shape[1]
    seen_before = number - table.began[q] - 1
    if seen_before >= max(0, table.n[q] - size):
        table.ring[q, seen_before % size] = now
        if cell != WITHDRAWN:
            table.cells[q, cell] -= 1
        if now != WITHDRAWN:
            table.cells[q, now] += 1


@inner
def note(table: WindowCounts, q: int) -> None:
    """Note that baselines had a label to predict from at the newest outcome."""
    table.known[q] = table.n[q]


@inner
def read(table: WindowCounts, q: int, parameter: float, cells: Floats) -> None:
    """Write the counts of sequence `q` into `cells`."""
    for cell in range(table.cells.shape[1]):
        cells[cell] = table.cells[q, cell]


@inner
def knows(table: WindowCounts, q: int, parameter: float) -> bool:
    """Whether baselines had a label to predict from at any outcome in the window."""
    return table.known[q] > max(0, table.n[q] - table.ring.shape[1])


@inlined
def add_sums(
    table: WindowSums, kind: int, q: int, t1: int, flags: int, values: Floats, parameter: float
) -> None:
    """Add an outcome of sequence `q`; a full window drops its oldest outcome."""
    n, size = table.n[q], table.flags.shape[1]
    place = n % size
    if kind == RIGHT_OR_WRONG:
        if n >= size:
            table.sums[q, 0] -= 0.0 if table.flags[q, place] & RIGHT else 1.0
            table.sums[q, 1] -= 1.0
        add(kind, table.sums[q], flags, values)
    elif flags:
        copied(values, table.values[q, place])
    table.flags[q, place] = flags
    table.n[q] = n + 1
    if table.blocks.shape[1]:
        sums = table.blocks[q, n // _BLOCK % table.blocks.shape[1]]
        if n % _BLOCK == 0:
            for i in range(len(sums)):
                sums[i] = 0.0
        if flags:
            add(kind, sums, flags, values)


@inner
def revise_sums(table: WindowSums, q: int, number: int, values: Floats) -> None:
    """Add the difference that a revision makes to an earlier outcome of `q`, if the window still has it."""
    size = table.flags.shape[1]
    seen_before = number - table.began[q] - 1
    if seen_before >= max(0, table.n[q] - size):
        for i in range(len(values)):
            table.values[q, seen_before % size, i] += values[i]


@inner
def _span(table: WindowSums, q: int) -> tuple[int, int]:
    """The outcomes in the window from the oldest to the newest: numbers first … last - 1, from 0."""
    return max(0, table.n[q] - table.flags.shape[1]), table.n[q]


@inlined
def _next(place: int, size: int) -> int:
    """The place of the next outcome in the ring: a division would take as long as all that is done there."""
    place += 1
    return 0 if place == size else place


@inner
def _add_losses(table: WindowSums, q: int, sums: Floats) -> None:
    """Add up losses from the oldest to the newest."""
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, start = last - first, first % size
    for i in range(table.values.shape[2]):
        total = 0.0
        for place in range(start, min(size, start + n)):
            total += table.values[q, place, i]
        for place in range(start + n - size):
            total += table.values[q, place, i]
        sums[i] = total
    sums[table.values.shape[2]] = float(n)


@inner
def _spread(table: WindowSums, q: int) -> float:
    """Σ(y - ȳ)² of the labels (numbers) in the window."""
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, total, origin, least, most, place = 0, 0.0, 0.0, np.inf, -np.inf, first % size
    for _ in range(first, last):
        if table.flags[q, place]:
            y = table.values[q, place, VALUE]
            if n == 0:
                origin = y  # labels may hardly differ and be far from 0: their differences have all digits
            n, total, least, most = n + 1, total + (y - origin), min(least, y), max(most, y)
        place = _next(place, size)
    if n == 0 or least == most:
        return 0.0
    mean, spread, rest, place = total / n, 0.0, 0.0, first % size
    for _ in range(first, last):
        if table.flags[q, place]:
            apart = (table.values[q, place, VALUE] - origin) - mean
            spread += apart * apart
            rest += apart
        place = _next(place, size)
    return spread - rest * rest / n


@inner
def read_sums(table: WindowSums, kind: int, q: int, parameter: float, sums: Floats) -> None:
    """Write the sums of sequence `q` into `sums`, from the oldest outcome on."""
    if kind == RIGHT_OR_WRONG:
        copied(table.sums[q], sums)
    elif kind == LOSSES:
        _add_losses(table, q, sums)
    else:
        for i in range(len(sums)):
            sums[i] = 0.0
        size, blocks = table.flags.shape[1], table.blocks.shape[1]
        first, last = _span(table, q)
        in_blocks = blocks > 0 and kind in (CLASS_SCORES, NUMBER_SCORES)
        begin = (first + _BLOCK - 1) // _BLOCK if in_blocks else last  # of the first block that is whole
        place = first % size
        for _ in range(first, min(last, begin * _BLOCK)):
            flags = table.flags[q, place]
            if flags:
                add(kind, sums, flags, table.values[q, place])
            place = _next(place, size)
        if in_blocks:
            for block in range(begin, (last + _BLOCK - 1) // _BLOCK):
                for i in range(scores.SIZE):
                    sums[i] += table.blocks[q, block % blocks, i]
        if kind == NUMBER_SCORES:
            sums[SPREAD] = _spread(table, q)


@inner
def _sides(table: WindowSums, q: int, p: Floats, is_positive: Bytes) -> int:
    """Write p of the positive class of the window's scored outcomes, and whether that was the label.

    They are written from the oldest on; there is room for W. Returns their number, or -1 if the labels at the
    time of scoring don't determine one positive class.
    """
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, said, place = 0, 0, first % size
    for _ in range(first, last):
        flags = np.int64(table.flags[q, place])
        if flags & outcomes.SCORED:
            which = flags & (outcomes.NO_POSITIVE | outcomes.POSITIVE_IS_ONE)
            if which & outcomes.NO_POSITIVE or (n and which != said):
                return -1
            said = which
            p[n] = table.values[q, place, POSITIVE]
            is_positive[n] = (flags & IS_POSITIVE) != 0
            n += 1
        place = _next(place, size)
    return n


@allocating
def rank(
    table: WindowSums, kind: int, sequences: Ints, positives: Ints, rows: Additions, values: Floats,
    reasons: Ints,
) -> None:  # fmt: skip
    """Measures of ranks (such as `auc`) of the windows of `sequences`, where these have scored outcomes.

    `positives`: the code of the positive class of each, or NO_POSITIVE. If there are additions, one for each
    of `sequences`, that is added before. `values`, `reasons`: (sequences, measures).
    """
    size = table.flags.shape[1]
    p, is_positive, ordered = np.empty(size), np.empty(size, np.uint8), np.empty(2 * size)
    of_positives, of_negatives = np.empty(size), np.empty(size)
    for i in range(len(sequences)):
        q = sequences[i]
        if len(rows.sequence):
            if rows.sequence[i] < 0:
                continue
            add_sums(table, kind, q, rows.t1[i], rows.flags[i], rows.values[i], 0.0)
        if positives[i] != NO_POSITIVE:
            n = _sides(table, q, p, is_positive)
            if n < 0:
                refuse_ranks(values[i], reasons[i])
            elif n:
                groups = group(p, is_positive, n, ordered, of_positives, of_negatives)
                put_ranks(Ranks(of_positives, of_negatives, groups, 0.0), values[i], reasons[i])


def parse(text: str) -> float | None:
    """The size; None if it is none. Raises ValueError for one that is too long.

    >>> parse("1000"), parse("0"), parse("0100"), parse("")
    (1000.0, None, None, None)
    """
    if not _SIZE.fullmatch(text):
        return None
    if len(text) > len(str(_LONGEST)) or int(text) > _LONGEST:
        raise ValueError(f"expected a window of at most {_LONGEST} outcomes")
    return float(text)


MEMORY = Memory(
    "window",
    "window:W (W >= 1)",
    "window:5",
    parse,
    lambda parameter: str(int(parameter)),
    Loops(
        new_counts, *count_loops("window", CountSteps(add_count, revise, note, read, knows)),
        by_cell=("cells",), numbered=("ring",), unread=("ring",),
    ),
    Loops(new_sums, *sum_loops("window", SumSteps(add_sums, revise_sums, read_sums))),
    weight_left=lambda parameter, outcomes, ms: float(outcomes < parameter),
    rank=rank,
)  # fmt: skip
