"""The declarations of estimators: an estimator is a memory of outcomes over a payload.

A *memory* determines the weight of each outcome of a sequence: all equal, only the last W, or fading. A
*payload* determines what an outcome adds: 1 to one of `width` counts, or numbers to `width` sums. Rows of a
log are first converted to these additions (`CountCodes`, `Additions`), once for all estimators; then the
loops of memories add them. A new memory is a module here and a line of the registry; a new payload makes
`CountCodes` or `Additions`.

The factory of loops puts the steps of a memory in the loops' closures. Each loop's name begins with the name
of its memory (`engine.compiled.kernel.named`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inlined, inner, kernel, named

#: Kinds of payloads: counts; sums of losses of 0 and 1, of any losses, of scores for classification, of
#: scores for regression, and of residuals by bin of the prediction.
COUNTS, RIGHT_OR_WRONG, LOSSES, CLASS_SCORES, NUMBER_SCORES, RESIDUALS = range(6)

#: In `CountCodes`: there is no cell, so the row adds no count, or is no revision.
NO_CELL = -1

#: In `Codes`, and in place of an outcome's entry in a window: its label is withdrawn.
WITHDRAWN = -2

#: In `Additions`: the row isn't an outcome.
NO_OUTCOME = -1


class Payload(NamedTuple):
    """The remembered numbers of each sequence: counts or sums of a kind."""

    kind: int
    width: int  # counts, or sums
    kept: int = 0  # of sums: the numbers of each outcome that a window keeps to compute them
    rests: int = 0  # of sums: rests that make them exact where all outcomes count the same


class CountCodes(NamedTuple):
    """By row of a log: which count it adds 1 to. All columns have equal length."""

    sequence: Ints32
    t1: Ints  # label time, ms
    cell: Ints32  # NO_CELL: none; of a revision, WITHDRAWN where the outcome had no label before
    revised: Ints32  # where an earlier outcome moves to from `cell`, or WITHDRAWN; NO_CELL: it is a new one
    number: Ints  # of that outcome in its sequence, from 1
    known: Bytes  # whether baselines had a label to predict from


class Additions(NamedTuple):
    """By row of a log: the numbers that it adds to sums; all columns have equal length."""

    sequence: Ints32  # NO_OUTCOME: it isn't one
    t1: Ints  # label time, ms
    flags: Bytes  # which numbers it has (`engine.estimators.sums`); 0: none, only time passes
    values: Floats  # (rows, the payload's `kept`)
    number: Ints  # 0: a new outcome; n: the n-th outcome of its sequence comes back; -n: it is removed


class Counted(NamedTuple):
    """Readings of counts, by row of a log or by sequence."""

    cells: Floats  # (rows, width): counts, or weights
    n: Floats  # their sum
    known: Bytes  # whether baselines had a label to predict from at any outcome in memory that has its label


class Loops(NamedTuple):
    """The functions of a memory for payloads of one sort, counts or sums; `parameter` is the memory's.

    A reading is as of the sequence's newest outcome, and changes no state: otherwise the last bits would
    depend on when it was read.
    """

    #: new_table(rows, payload, parameter): the table of sequences without outcomes, all zeros. Its column `n`
    #: has the outcomes seen. If it follows revisions, its column `began` has the earlier outcomes, whose
    #: revisions are ignored.
    new_table: Callable[[int, Payload, float], Any]
    #: For counts: update(table, codes, parameter, into); for sums: update(table, kind, additions, parameter,
    #: into). It writes the reading after each row if `into` has rows.
    update: Callable[..., None]
    #: For counts: read(table, sequences, parameter, into); for sums: read(table, kind, sequences, parameter,
    #: into). For regression, the last sum is the spread of labels.
    read: Callable[..., None]
    #: Columns that have a place for each count, and those that have entries of outcomes (`entry_of`).
    by_cell: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    #: Columns that have a place for each outcome of a window. They have few places at first, and get more
    #: before a sequence has more outcomes, up to the parameter.
    by_outcome: tuple[str, ...] = ()
    #: Columns of which readings need only the width.
    unread: tuple[str, ...] = ()


class Memory(NamedTuple):
    """A memory in the registry."""

    name: str
    #: The form of its names, for error messages; and an example that forgets within few outcomes, for
    #: compiling loops.
    expected: str
    example: str
    #: Converts the text after `name:` ("" without a colon) to the parameter; None if it isn't one. Raises
    #: ValueError with the expected range for one that is out of range.
    parse: Callable[[str], float | None]
    #: The parameter in one spelling; "" if there is none.
    spelled: Callable[[float], str]
    counts: Loops
    sums: Loops
    #: Columns with a sequence's position in its course.
    clock: tuple[str, ...] = ("n",)
    #: Whether every outcome in memory counts 1, and whether any outcome is ever forgotten.
    whole: bool = True
    forgets: bool = True
    #: Whether it is additive: readings of the parts of a sequence, as of one label time, sum to its own.
    adds_up: bool = False
    #: effective(table of counts, sequence, parameter, n): the effective sample size of a memory of weight n,
    #: n²/Σw² with its outcomes' weights w.
    effective: Callable[[Any, int, float, float], float] = lambda table, q, parameter, n: n
    #: weight_left(parameter, outcomes, ms): the largest weight of an outcome that is older than the newest
    #: one by this number of outcomes and this label time.
    weight_left: Callable[[float, int, int], float] = lambda parameter, outcomes, ms: 1.0
    #: rank(table of sums, kind, sequences, positives, additions, values, reasons): computes measures of ranks
    #: of the kept outcomes (`engine.estimators.window`); None: it keeps none.
    rank: Callable[..., None] | None = None


#: For updates without a reading after each row.
UNREAD_COUNTS = Counted(np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.uint8))
UNREAD_SUMS: Floats = np.zeros((0, 0))


def no_parameter(text: str) -> float | None:
    """The parameter of a memory that has none.

    >>> no_parameter(""), no_parameter("5")
    (0.0, None)
    """
    return None if text else 0.0


class CountSteps(NamedTuple):
    """The steps of a memory for counts, of one sequence q; compiled for loops (`inner`)."""

    #: add(table, q, cell, had_label, t1, parameter): add an outcome in `cell`; `had_label`: 1 if baselines
    #: had a label to predict from, else 0.
    add: Callable[..., None]
    #: revise(table, q, number, cell, now, had_label): move the outcome of this number from `cell` to `now`;
    #: WITHDRAWN stands for no cell. `had_label` is as it was when the outcome was added.
    revise: Callable[..., None]
    #: read(table, q, parameter, cells): write counts or weights into `cells`.
    read: Callable[..., None]
    #: The function `knows(table, q, parameter)`: whether baselines had such a label at any outcome in memory
    #: that counts.
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


@inlined
def entry_of(cell: int, had_label: int) -> int:
    """The entry of an outcome in a window: its cell, and 1 if baselines had a label to predict from."""
    return 2 * cell + had_label


@inlined
def cell_in(entry: int) -> int:
    """The cell in an entry that isn't WITHDRAWN."""
    return entry >> 1


@inlined
def had_label_of(entry: int) -> int:
    """Whether baselines had a label to predict from, by such an entry: 1 or 0."""
    return entry & 1


def moved_entries(entries: Ints32, places: Ints) -> Ints:
    """The entries of outcomes whose cells have other places now, `places` by cell.

    >>> moved_entries(np.array([3, 0, WITHDRAWN]), np.array([5, 4])).tolist()
    [9, 10, -2]
    """
    return np.where(entries < 0, entries, 2 * places[entries >> 1] + (entries & 1))


@inner
def knows_any(table: Any, q: int, parameter: float) -> bool:
    """The step `knows` of memories that count the outcomes at which baselines had a label."""
    return table.known[q] > 0


@inner
def read_cells(table: Any, q: int, parameter: float, cells: Floats) -> None:
    """The step `read` of memories with a count of each cell."""
    for cell in range(table.cells.shape[1]):
        cells[cell] = table.cells[q, cell]


def count_loops(
    memory: str, new_table: Callable[[int, Payload, float], Any], steps: CountSteps,
    by_cell: tuple[str, ...], entries: tuple[str, ...] = (), unread: tuple[str, ...] = (),
    by_outcome: tuple[str, ...] = (),
) -> Loops:  # fmt: skip
    """The loops of a memory for counts, from its steps; see `Loops` for columns."""
    add, revise, read, knows = steps

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
            q, had_label = codes.sequence[i], np.int64(codes.known[i])
            if codes.revised[i] != NO_CELL:
                revise(table, q, codes.number[i], cell, codes.revised[i], had_label)
                continue
            add(table, q, cell, had_label, codes.t1[i], parameter)
            if reading:
                put(table, q, parameter, into, i)

    def read_counts(table: Any, sequences: Ints, parameter: float, into: Counted) -> None:
        for i in range(len(sequences)):
            put(table, sequences[i], parameter, into, i)

    update, read_all = kernel(named(update_counts, memory)), kernel(named(read_counts, memory))
    return Loops(new_table, update, read_all, by_cell, entries, by_outcome, unread)


def sum_loops(
    memory: str, new_table: Callable[[int, Payload, float], Any], steps: SumSteps,
    by_outcome: tuple[str, ...] = (),
) -> Loops:  # fmt: skip
    """The loops of a memory for sums, from its steps; see `Loops` for columns."""
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

    loops = kernel(named(update_sums, memory)), kernel(named(read_sums, memory))
    return Loops(new_table, *loops, by_outcome=by_outcome)
