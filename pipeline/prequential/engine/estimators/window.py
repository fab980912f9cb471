"""`window:W`: the last W outcomes of a sequence count, all the same (2013 paper, section 3.2.1)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, allocating, inlined, inner, zeros
from prequential.engine.estimators import declaration
from prequential.engine.estimators.residuals import add_residual
from prequential.engine.estimators.sums import IS_POSITIVE, POSITIVE, add_with_label, copied
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.probabilistic import Ranks, group
from prequential.engine.measures.table import put_ranks, refuse_ranks
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.scores import ERROR, VALUE

#: The longest window, in outcomes.
_LONGEST = 10_000_000

#: Places of each sequence at first.
_FEWEST = 16

# One spelling, because names are in messages.
_SIZE = re.compile("[1-9][0-9]*")


class WindowCounts(NamedTuple):
    """By sequence: how many of the last W outcomes are in each cell, and the cell of each outcome.

    With P places, P is W, or no sequence has seen more than P outcomes yet.
    """

    cells: Ints  # (sequences, cells)
    ring: Ints32  # (sequences, P), the m-th outcome that it has seen at (m - 1) mod P, as `entry_of`; or
    # WITHDRAWN
    n: Ints  # outcomes seen, in the window or before it
    known: Ints  # those of the window in a cell at which baselines had a label to predict from
    began: Ints  # outcomes that the sequence had before: their revisions are ignored


class WindowSums(NamedTuple):
    """By sequence: the additions of the last W outcomes, and their sums.

    Losses, and residuals, have no sums here: readings compute them from the additions. P is as in
    `WindowCounts`.
    """

    flags: Bytes  # (sequences, P), the m-th outcome that it has seen at (m - 1) mod P; 0: nothing is scored
    values: Floats  # (sequences, P, kept of each)
    sums: Floats  # (sequences, sums), without losses (sequences, 0)
    rests: Floats  # (sequences, sums, rests), see `engine.compiled.mathematics`
    lost: Bytes  # whether sums have lost digits, because numbers in the window differ so much in size
    n: Ints  # outcomes seen, in the window or before it
    began: Ints  # as in `WindowCounts`


def places_at_first(parameter: float) -> int:
    """How many places a window has at first."""
    return min(_FEWEST, int(parameter))


def new_counts(rows: int, payload: declaration.Payload, parameter: float) -> WindowCounts:
    """Empty windows of counts."""
    return zeros(WindowCounts, rows, cells=payload.width, ring=places_at_first(parameter))


def new_sums(rows: int, payload: declaration.Payload, parameter: float) -> WindowSums:
    """Empty windows."""
    is_computed = payload.kind in (declaration.LOSSES, declaration.RESIDUALS)
    size, summed = places_at_first(parameter), 0 if is_computed else payload.width
    return WindowSums(
        np.zeros((rows, size), np.uint8), np.zeros((rows, size, payload.kept)), np.zeros((rows, summed)),
        np.zeros((rows, summed, payload.rests)), np.zeros(rows, np.uint8), np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
    )  # fmt: skip


@inlined
def _put_count(table: WindowCounts, q: int, slot: int, cell: int, had_label: int) -> None:
    """Put an outcome in `cell`, or WITHDRAWN, at a place that has none."""
    if cell == declaration.WITHDRAWN:
        table.ring[q, slot] = declaration.WITHDRAWN
    else:
        table.ring[q, slot] = declaration.entry_of(cell, had_label)
        table.cells[q, cell] += 1
        table.known[q] += had_label


@inlined
def _remove_count(table: WindowCounts, q: int, slot: int) -> None:
    """Take the outcome at a place out of its cell, if it is in one."""
    entry = np.int64(table.ring[q, slot])
    if entry != declaration.WITHDRAWN:
        table.cells[q, declaration.cell_in(entry)] -= 1
        table.known[q] -= declaration.had_label_of(entry)


@inner
def add_count(table: WindowCounts, q: int, cell: int, had_label: int, t1: int, parameter: float) -> None:
    """Add an outcome of sequence `q` in `cell`; a full window drops its oldest outcome."""
    n, size = table.n[q], table.ring.shape[1]
    slot = n % size
    if n >= size:
        _remove_count(table, q, slot)
    _put_count(table, q, slot, cell, had_label)
    table.n[q] = n + 1


@inner
def revise(table: WindowCounts, q: int, number: int, cell: int, now: int, had_label: int) -> None:
    """Move an outcome to another cell, take it out or bring it back, if it is still in the window."""
    size = table.ring.shape[1]
    seen_before = number - table.began[q] - 1
    if seen_before >= max(0, table.n[q] - size):
        _remove_count(table, q, seen_before % size)
        _put_count(table, q, seen_before % size, now, had_label)


@inlined
def _put(table: WindowSums, kind: int, q: int, slot: int, flags: int, values: Floats) -> None:
    """Put an outcome with these flags at a place that has none; 0: it has no scores."""
    table.flags[q, slot] = flags
    if kind == declaration.RIGHT_OR_WRONG or flags:
        copied(values, table.values[q, slot])
        is_summed = kind != declaration.LOSSES
        if is_summed and add_with_label(kind, table.sums[q], table.rests[q], flags, values, 1.0):
            table.lost[q] = 1


@inlined
def _remove(table: WindowSums, kind: int, q: int, slot: int) -> None:
    """Remove the outcome at a place."""
    flags, values = np.int64(table.flags[q, slot]), table.values[q, slot]
    table.flags[q, slot] = 0
    if kind == declaration.LOSSES:
        for i in range(len(values)):
            values[i] = 0.0
    elif kind == declaration.RIGHT_OR_WRONG or flags:
        add_with_label(kind, table.sums[q], table.rests[q], flags, values, -1.0)
        if table.lost[q]:
            _sum_up(table, kind, q)


@inner
def _sum_up(table: WindowSums, kind: int, q: int) -> None:
    """Compute sums again, after they had lost digits."""
    table.lost[q] = 0
    for i in range(table.sums.shape[1]):
        table.sums[q, i] = 0.0
        for rest in range(table.rests.shape[2]):
            table.rests[q, i, rest] = 0.0
    for slot in range(table.flags.shape[1]):
        flags = np.int64(table.flags[q, slot])
        if flags:
            values = table.values[q, slot]
            if add_with_label(kind, table.sums[q], table.rests[q], flags, values, 1.0):
                table.lost[q] = 1


@inlined
def add_sums(
    table: WindowSums, kind: int, q: int, t1: int, flags: int, values: Floats, parameter: float
) -> None:
    """Add an outcome of sequence `q`; a full window drops its oldest outcome."""
    n, size = table.n[q], table.flags.shape[1]
    slot = n % size
    if n >= size:
        _remove(table, kind, q, slot)
    _put(table, kind, q, slot, flags, values)
    table.n[q] = n + 1


@inner
def revise_sums(table: WindowSums, kind: int, q: int, number: int, flags: int, values: Floats) -> None:
    """Remove an earlier outcome of sequence `q`, or bring it back, if the window still has its place."""
    size = table.flags.shape[1]
    seen_before = abs(number) - table.began[q] - 1
    if seen_before >= max(0, table.n[q] - size):
        _remove(table, kind, q, seen_before % size)
        if number > 0:
            _put(table, kind, q, seen_before % size, flags, values)


@inner
def _span(table: WindowSums, q: int) -> tuple[int, int]:
    """The outcomes in the window from the oldest to the newest: numbers first … last - 1, from 0."""
    return max(0, table.n[q] - table.flags.shape[1]), table.n[q]


@inlined
def _next(slot: int, size: int) -> int:
    """The place of the next outcome in the ring: a division would take as long as all that is done there."""
    slot += 1
    return 0 if slot == size else slot


@inner
def _add_losses(table: WindowSums, q: int, sums: Floats) -> None:
    """Add up losses from the oldest to the newest."""
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, start = last - first, first % size
    for i in range(table.values.shape[2]):
        total = 0.0
        for slot in range(start, min(size, start + n)):
            total += table.values[q, slot, i]
        for slot in range(start + n - size):
            total += table.values[q, slot, i]
        sums[i] = total
    sums[table.values.shape[2]] = float(n)


@inner
def read_sums(table: WindowSums, kind: int, q: int, parameter: float, sums: Floats) -> None:
    """Write the sums of sequence `q` into `sums`."""
    if kind == declaration.RIGHT_OR_WRONG:
        copied(table.sums[q], sums)
    elif kind == declaration.LOSSES:
        _add_losses(table, q, sums)
    elif kind == declaration.RESIDUALS:
        for i in range(len(sums)):
            sums[i] = 0.0
        size = table.flags.shape[1]
        first, last = _span(table, q)
        slot = first % size
        for _ in range(first, last):
            if table.flags[q, slot]:
                add_residual(sums, table.values[q, slot, ERROR], table.values[q, slot, VALUE])
            slot = _next(slot, size)
    else:
        scores.read_exactly(table.sums[q], table.rests[q], sums)


@inner
def _sides(table: WindowSums, q: int, p: Floats, is_positive: Bytes) -> int:
    """Write p of the positive class of the window's scored outcomes, and whether that was the label.

    They are written from the oldest on; there is room for W. Returns their number, or -1 if the labels at the
    time of scoring don't determine one positive class.
    """
    size = table.flags.shape[1]
    first, last = _span(table, q)
    n, first_basis, slot = 0, 0, first % size
    for _ in range(first, last):
        flags = np.int64(table.flags[q, slot])
        if flags & outcomes.SCORED:
            basis = flags & (outcomes.NO_POSITIVE | outcomes.POSITIVE_IS_ONE)
            if basis & outcomes.NO_POSITIVE or (n and basis != first_basis):
                return -1
            first_basis = basis
            p[n] = table.values[q, slot, POSITIVE]
            is_positive[n] = (flags & IS_POSITIVE) != 0
            n += 1
        slot = _next(slot, size)
    return n


@allocating
def rank(
    table: WindowSums, kind: int, sequences: Ints, positives: Ints, rows: declaration.Additions,
    values: Floats, reasons: Ints,
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


MEMORY = declaration.Memory(
    "window",
    "window:W (W >= 1)",
    "window:5",
    parse,
    lambda parameter: str(int(parameter)),
    declaration.count_loops(
        "window",
        new_counts,
        declaration.CountSteps(add_count, revise, declaration.read_cells, declaration.knows_any),
        by_cell=("cells",), entries=("ring",), unread=("ring",), by_outcome=("ring",),
    ),
    declaration.sum_loops(
        "window", new_sums, declaration.SumSteps(add_sums, revise_sums, read_sums), ("flags", "values")
    ),
    weight_left=lambda parameter, outcomes, ms: float(outcomes < parameter),
    rank=rank,
)  # fmt: skip
