"""Fading memories: the part that they share, without the speed of fading.

At each outcome S = x + w·S. Here x is 1 in the outcome's own count and else 0, and w is the remaining weight
of earlier outcomes. Decay is lazy: a table has S as of the outcome that last changed it. The present S is
that value times the weight that remains since then. A memory has a clock, which outcomes advance, and gives
the remaining weight after a gap of this clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Floats, Function, inlined, inner, named
from prequential.engine.estimators.declaration import CountSteps, SumSteps
from prequential.engine.estimators.sums import copied, finish, fold
from prequential.engine.tables.scores import NO_WEIGHT


class Clock(NamedTuple):
    """How a memory forgets; compiled for loops (`inner`)."""

    #: advance(table, q, t1, parameter): add one outcome with label time `t1` to sequence `q`, in a table of
    #: counts, and in one of sums.
    advance_counts: Callable[..., None]
    advance_sums: Callable[..., None]
    #: now(table, q): where the clock is.
    now: Callable[..., int]
    #: left(gap, parameter): what remains of a weight of 1 after a gap of the clock.
    left: Callable[..., float]


@inner
def keep(table: Any, q: int, number: int, cell: int, now: int) -> None:
    """Ignore a revision: outcomes keep their first label."""


@inner
def keep_sums(table: Any, kind: int, q: int, number: int, flags: int, values: Floats) -> None:
    """Ignore a revision, as `keep`, for sums."""


def steps_of(
    memory: str, clock: Clock, note: Callable[..., None], knows: Callable[..., bool]
) -> tuple[CountSteps, SumSteps]:
    """The steps of a memory for counts and for sums.

    Tables of counts have columns `weights` and `touched`, (sequences, cells); those of sums have `sums`,
    (sequences, sums), and `touched`, by sequence.
    """
    advance_counts, advance_sums, now, left = clock

    def owned(function: Function) -> Function:
        return inner(named(function, memory))

    def whole(function: Function) -> Function:
        return inlined(named(function, memory))

    @owned
    def weight(table: Any, q: int, cell: int, parameter: float) -> float:
        kept = table.weights[q, cell]
        if kept == 0.0:
            return 0.0
        kept *= left(now(table, q) - table.touched[q, cell], parameter)
        return kept if kept >= NO_WEIGHT else 0.0

    @owned
    def add(table: Any, q: int, cell: int, t1: int, parameter: float) -> None:
        advance_counts(table, q, t1, parameter)
        table.weights[q, cell] = 1.0 + weight(table, q, cell, parameter)
        table.touched[q, cell] = now(table, q)

    @owned
    def read(table: Any, q: int, parameter: float, cells: Floats) -> None:
        for cell in range(table.weights.shape[1]):
            cells[cell] = weight(table, q, cell, parameter)

    @whole
    def add_sums(
        table: Any, kind: int, q: int, t1: int, flags: int, values: Floats, parameter: float
    ) -> None:
        advance_sums(table, q, t1, parameter)
        if flags:
            at = now(table, q)
            decay = left(at - table.touched[q], parameter)
            table.touched[q] = at
            fold(kind, table.sums[q], table.sums[:, :0], flags, values, decay)

    @whole
    def read_sums(table: Any, kind: int, q: int, parameter: float, sums: Floats) -> None:
        copied(table.sums[q], sums)
        finish(kind, sums, left(now(table, q) - table.touched[q], parameter))

    return CountSteps(add, keep, note, read, knows), SumSteps(add_sums, keep_sums, read_sums)
