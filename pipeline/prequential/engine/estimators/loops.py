"""The loops of a memory, made from its steps for one outcome: one factory for all memories.

The steps are in the loops' closures. Each loop's name begins with the name of its memory
(`engine.compiled.kernel.named`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Floats, Ints, inner, kernel, named
from prequential.engine.estimators.declaration import NO_CELL, RESIDUALS, Additions, CountCodes, Counted


class CountSteps(NamedTuple):
    """The steps of a memory for counts, of one sequence q; compiled for loops (`inner`)."""

    #: add(table, q, cell, t1, parameter): add an outcome in `cell`.
    add: Callable[..., None]
    #: revise(table, q, number, cell, now): move the outcome of this number from `cell` to `now`; WITHDRAWN
    #: stands for no cell.
    revise: Callable[..., None]
    #: note(table, q): note that baselines had a label to predict from at its newest outcome.
    note: Callable[..., None]
    #: read(table, q, parameter, cells): write counts or weights into `cells`.
    read: Callable[..., None]
    #: The function `knows(table, q, parameter)`: whether baselines had such a label at any outcome in memory.
    knows: Callable[..., bool]


class SumSteps(NamedTuple):
    """The steps of a memory for sums, of one sequence q; compiled for loops (`inner`)."""

    #: add(table, kind, q, t1, flags, values, parameter): add an outcome.
    add: Callable[..., None]
    #: revise(table, kind, q, number, flags, values): remove the outcome -number, or bring back the outcome
    #: `number` with these flags and values.
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
    """`update` and `read` of counts (`engine.estimators.declaration.Loops`) of a memory."""
    add, revise, note, read, knows = steps

    def put(table: Any, q: int, parameter: float, into: Counted, i: int) -> None:
        cells = into.cells[i]
        read(table, q, parameter, cells)
        into.n[i] = total_of(cells)
        into.known[i] = knows(table, q, parameter)

    put = inner(named(put, memory))

    def update_counts(table: Any, codes: CountCodes, parameter: float, into: Counted) -> None:
        reading = len(into.n) > 0
        for i in range(len(codes.cell)):
            cell = codes.cell[i]
            if cell == NO_CELL:
                continue
            q = codes.sequence[i]
            if codes.revised[i] != NO_CELL:
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
    """`update` and `read` of sums (`engine.estimators.declaration.Loops`) of a memory."""
    add, revise, read = steps

    def update_sums(table: Any, kind: int, rows: Additions, parameter: float, into: Floats) -> None:
        reading = len(into) > 0
        for i in range(len(rows.sequence)):
            q = rows.sequence[i]
            if q >= 0:
                if rows.number[i]:
                    if kind != RESIDUALS:
                        revise(table, kind, q, rows.number[i], rows.flags[i], rows.values[i])
                    continue
                add(table, kind, q, rows.t1[i], rows.flags[i], rows.values[i], parameter)
                if reading:
                    read(table, kind, q, parameter, into[i])

    def read_sums(table: Any, kind: int, sequences: Ints, parameter: float, into: Floats) -> None:
        for i in range(len(sequences)):
            read(table, kind, sequences[i], parameter, into[i])

    return kernel(named(update_sums, memory)), kernel(named(read_sums, memory))
