"""The loops of a memory, made from what it does with one outcome: one factory for all of them.

Functions are handed in and stay in the loops' closures; each loop has its memory's name before its own
(`prequential.core.compiled.kernel.named`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prequential.core.compiled.kernel import Floats, Ints, inner, kernel, named
from prequential.core.estimators.declaration import LOSSES, REVISED, Additions, Codes, Counted


class CountSteps(NamedTuple):
    """What a memory does with counts, of one sequence q; compiled for loops (`inner`)."""

    #: add(table, q, cell, t1, parameter): it has an outcome in `cell`.
    add: Callable[..., None]
    #: revise(table, q, number, cell, now): the outcome of that number, in `cell`, moves to `now`.
    revise: Callable[..., None]
    #: note(table, q): at its newest outcome baselines had a label to predict by.
    note: Callable[..., None]
    #: read(table, q, parameter, cells): write counts or weights into `cells`.
    read: Callable[..., None]
    #: knows(table, q, parameter): whether they had one at any outcome in memory.
    knows: Callable[..., bool]


class SumSteps(NamedTuple):
    """What a memory does with sums, of one sequence q; compiled for loops (`inner`)."""

    #: add(table, kind, q, t1, flags, values, parameter): it has an outcome.
    add: Callable[..., None]
    #: revise(table, q, number, values): a former outcome adds so much more, of losses of any size.
    revise: Callable[..., None]
    #: read(table, kind, q, parameter, sums): write sums into `sums`.
    read: Callable[..., None]


@inner
def total_of(cells: Floats) -> float:
    """The weight of all outcomes."""
    total = 0.0
    for weight in cells:
        total += weight
    return total


def count_loops(memory: str, steps: CountSteps) -> tuple[Callable[..., None], Callable[..., None]]:
    """`update` and `read` of counts (`prequential.core.estimators.declaration.Loops`) of a memory."""
    add, revise, note, read, knows = steps

    def put(table: Any, q: int, parameter: float, into: Counted, i: int) -> None:
        cells = into.cells[i]
        read(table, q, parameter, cells)
        into.n[i] = total_of(cells)
        into.known[i] = knows(table, q, parameter)

    put = inner(named(put, memory))

    def update_counts(table: Any, codes: Codes, parameter: float, into: Counted) -> None:
        reading = len(into.n) > 0
        for i in range(len(codes.cell)):
            cell = codes.cell[i]
            if cell < 0:
                continue
            q = codes.sequence[i]
            if codes.revised[i] >= 0:
                revise(table, q, codes.number[i], cell, codes.revised[i])
                continue
            add(table, q, cell, codes.t1[i], parameter)
            if codes.known[i]:
                note(table, q)
            if reading:
                put(table, q, parameter, into, i)

    def read_counts(table: Any, sequences: Ints, parameter: float, into: Counted) -> None:
        for i in range(len(sequences)):
            put(table, sequences[i], parameter, into, i)

    return kernel(named(update_counts, memory)), kernel(named(read_counts, memory))


def sum_loops(memory: str, steps: SumSteps) -> tuple[Callable[..., None], Callable[..., None]]:
    """`update` and `read` of sums (`prequential.core.estimators.declaration.Loops`) of a memory."""
    add, revise, read = steps

    def update_sums(table: Any, kind: int, rows: Additions, parameter: float, into: Floats) -> None:
        reading = len(into) > 0
        for i in range(len(rows.sequence)):
            q = rows.sequence[i]
            if q >= 0:
                if kind == LOSSES and rows.flags[i] & REVISED:
                    revise(table, q, rows.number[i], rows.values[i])
                    continue
                add(table, kind, q, rows.t1[i], rows.flags[i], rows.values[i], parameter)
                if reading:
                    read(table, kind, q, parameter, into[i])

    def read_sums(table: Any, kind: int, sequences: Ints, parameter: float, into: Floats) -> None:
        for i in range(len(sequences)):
            read(table, kind, sequences[i], parameter, into[i])

    return kernel(named(update_sums, memory)), kernel(named(read_sums, memory))
