"""`fading:A`: older outcomes count less and less, by outcome (2013 paper, section 3.2.1); `decay` shares it.

At each outcome S = x + w·S. Here x is 1 in the outcome's own count and else 0, and w is the remaining weight
of earlier outcomes. Decay is lazy: a table has S as of the outcome that last changed it. The present S is
that value times the weight that remains since then. A memory has a clock, which outcomes advance, and gives
the remaining weight after a gap of this clock.

At each outcome S = x + A·S and N = 1 + A·N; the estimate is S/N. Every outcome decays every cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Floats, Function, Ints, inlined, inner, named, zeros
from prequential.engine.compiled.mathematics import power
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import Loops, Memory, Payload
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
    #: weight_left(gap, parameter): what remains of a weight of 1 after a gap of the clock.
    weight_left: Callable[..., float]


@inner
def keep(table: Any, q: int, number: int, cell: int, now: int, had_label: int) -> None:
    """Ignore a revision: outcomes keep their first label."""


@inner
def keep_sums(table: Any, kind: int, q: int, number: int, flags: int, values: Floats) -> None:
    """Ignore a revision, as `keep`, for sums."""


def faded_loops(
    memory: str, counts: type[Any], sums: type[Any], clock: Clock, note: Callable[..., None],
    knows: Callable[..., bool],
) -> tuple[Loops, Loops]:  # fmt: skip
    """The loops of a memory for counts and for sums, in tables of these schemas.

    `note(table, q)` notes that baselines had a label to predict from at the newest outcome; `knows` is the
    step of `CountSteps`. Tables of counts have columns `weights` and `touched`, (sequences, cells); those of
    sums have `sums`, (sequences, sums), and `touched`, by sequence.
    """
    advance_counts, advance_sums, now, remaining_weight = clock

    def owned(function: Function) -> Function:
        return inner(named(function, memory))

    def whole(function: Function) -> Function:
        return inlined(named(function, memory))

    @owned
    def weight(table: Any, q: int, cell: int, parameter: float) -> float:
        kept = table.weights[q, cell]
        if kept == 0.0:
            return 0.0
        kept *= remaining_weight(now(table, q) - table.touched[q, cell], parameter)
        return kept if kept >= NO_WEIGHT else 0.0

    @owned
    def add(table: Any, q: int, cell: int, had_label: int, t1: int, parameter: float) -> None:
        advance_counts(table, q, t1, parameter)
        table.weights[q, cell] = 1.0 + weight(table, q, cell, parameter)
        table.touched[q, cell] = now(table, q)
        if had_label:
            note(table, q)

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
            present = now(table, q)
            decay = remaining_weight(present - table.touched[q], parameter)
            table.touched[q] = present
            fold(kind, table.sums[q], table.sums[:, :0], flags, values, decay)

    @whole
    def read_sums(table: Any, kind: int, q: int, parameter: float, sums: Floats) -> None:
        copied(table.sums[q], sums)
        finish(kind, sums, remaining_weight(now(table, q) - table.touched[q], parameter))

    def new_counts(rows: int, payload: Payload, parameter: float) -> Any:
        return zeros(counts, rows, weights=payload.width, touched=payload.width)

    def new_sums(rows: int, payload: Payload, parameter: float) -> Any:
        return zeros(sums, rows, sums=payload.width)

    count_steps = declaration.CountSteps(add, keep, read, knows)
    return (
        declaration.count_loops(memory, new_counts, count_steps, by_cell=("weights", "touched")),
        declaration.sum_loops(memory, new_sums, declaration.SumSteps(add_sums, keep_sums, read_sums)),
    )


#: The smallest fading factor: smaller ones forget everything at once.
_SMALLEST = 1e-30

# One spelling, as far as possible, because names are in messages. Python's own numbers may have blanks,
# signs, underscores and the digits of all scripts.
_FACTOR = re.compile(r"(?=[.0-9])(?:0|[1-9][0-9]*)?(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class FadingCounts(NamedTuple):
    """By sequence: the weight of each cell."""

    weights: Floats  # (sequences, cells), as of the outcome that touched the cell last
    touched: Ints  # (sequences, cells), the number of that outcome
    n: Ints  # outcomes seen
    known: Ints  # the last outcome at which baselines had a label to predict from, from 1; 0: none


class FadingSums(NamedTuple):
    """By sequence: S = x + A·S at each outcome, as of the last one that added something."""

    sums: Floats  # (sequences, sums)
    touched: Ints  # the number of that outcome
    n: Ints  # outcomes seen


@inner
def advance(table: Any, q: int, t1: int, parameter: float) -> None:
    """Advance by one outcome."""
    table.n[q] += 1


@inner
def now(table: Any, q: int) -> int:
    """Outcomes seen."""
    return table.n[q]


@inner
def weight_left(gap: int, parameter: float) -> float:
    """A^gap."""
    return power(parameter, gap)


@inner
def note(table: FadingCounts, q: int) -> None:
    """Note that baselines had a label to predict from at the newest outcome."""
    table.known[q] = table.n[q]


@inner
def knows(table: FadingCounts, q: int, parameter: float) -> bool:
    """Whether baselines had a label to predict from at any outcome that still has a weight."""
    return table.known[q] > 0 and power(parameter, table.n[q] - table.known[q]) >= NO_WEIGHT


def effective(n: float, factor: float) -> float:
    """The effective sample size of a memory of weight `n`: N²/Σw² with its outcomes' weights w.

    For a fading factor A after t outcomes, N = (1 - A^t)/(1 - A) and Σw² = (1 - A^2t)/(1 - A²).

    >>> effective(1.5, 0.5)  # (1 + 1/2)² / (1 + 1/4)
    1.8
    """
    if factor == 1 or not n:
        return n
    forgotten = max(0.0, 1 - n * (1 - factor))  # A^t
    return n * n * (1 - factor * factor) / (1 - forgotten * forgotten)


def parse(text: str) -> float | None:
    """The factor; None if it is none.

    >>> parse("0.999"), parse("1e-3"), parse("2"), parse("+1"), parse("")
    (0.999, 0.001, None, None, None)
    """
    if text and _FACTOR.fullmatch(text) and _SMALLEST <= (factor := float(text)) <= 1:
        return factor
    return None


MEMORY = Memory(
    "fading",
    "fading:A (0 < A <= 1)",
    "fading:0.9",
    parse,
    repr,
    *faded_loops("fading", FadingCounts, FadingSums, Clock(advance, advance, now, weight_left), note, knows),
    whole=False,
    effective=lambda table, q, parameter, n: effective(n, parameter),
    weight_left=lambda parameter, outcomes, ms: weight_left(outcomes, parameter),
)
