"""Memories in which an outcome counts less and less: what they share, but for how fast that is.

S = x + w·S at each outcome, x = 1 in a count that the outcome is in and else 0, w the weight that is left of
what was before. Decay is lazy: what is held is S at the outcome that touched it last, and S now is that times
what is left since. A memory has a clock, which outcomes advance, and says how much is left after a gap of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prequential.core.compiled.kernel import Floats, Function, inlined, inner, named
from prequential.core.estimators.loops import CountSteps, SumSteps
from prequential.core.estimators.sums import copied, finish, fold
from prequential.core.tables.scores import NO_WEIGHT


class Clock(NamedTuple):
    """How a memory forgets; compiled for loops (`inner`)."""

    #: advance(table, q, t1, parameter): sequence `q` has one more outcome, of label time `t1`; in a table of
    #: counts, and in one of sums.
    advance_counts: Callable[..., None]
    advance_sums: Callable[..., None]
    #: now(table, q): where the clock is.
    now: Callable[..., int]
    #: left(gap, parameter): of a weight of 1, after so much of the clock.
    left: Callable[..., float]


@inner
def keep(table: Any, q: int, number: int, cell: int, now: int) -> None:
    """It keeps what it saw of outcomes whose label is revised."""


@inner
def keep_sums(table: Any, q: int, number: int, values: Floats) -> None:
    """As `keep`, of sums."""


def steps_of(
    memory: str, clock: Clock, note: Callable[..., None], knows: Callable[..., bool]
) -> tuple[CountSteps, SumSteps]:
    """What a memory does with counts and with sums.

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
            fold(kind, table.sums[q], flags, values, decay)

    @whole
    def read_sums(table: Any, kind: int, q: int, parameter: float, sums: Floats) -> None:
        copied(table.sums[q], sums)
        finish(kind, sums, left(now(table, q) - table.touched[q], parameter))

    return CountSteps(add, keep, note, read, knows), SumSteps(add_sums, keep_sums, read_sums)
