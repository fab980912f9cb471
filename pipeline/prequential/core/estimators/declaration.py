"""What an estimator is: a memory of outcomes over a payload. Here is what both of them declare.

A *memory* says how much each outcome of a sequence counts: all alike, the last W, or less and less. A
*payload* says what an outcome adds: 1 to one of `width` counts, or numbers to `width` sums. Rows of a log are
first made into what they add (`Codes`, `Additions`), once for all estimators; loops of memories take it over.
A new memory is a module here and a line of the registry; a new payload makes `Codes` or `Additions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Bytes, Floats, Ints, Ints32

#: Kinds of payloads: of counts, or of sums; these of losses of 0 and 1, of any losses, of scores of classes,
#: and of numbers, whose residuals are by bin of the prediction.
COUNTS, RIGHT_OR_WRONG, LOSSES, CLASS_SCORES, NUMBER_SCORES, RESIDUALS = range(6)

#: In `Codes`: the row adds nothing; its outcome is no former one.
NO_CELL = -1

#: In `Additions`: the row isn't an outcome.
NO_OUTCOME = -1


#: Flag in `Additions` of losses: the row is no new outcome; its values are what a former one, now revised,
#: adds more.
REVISED = 64


class Payload(NamedTuple):
    """What is remembered of each sequence: so many counts, or sums, of a kind."""

    kind: int
    width: int  # counts, or sums
    kept: int = 0  # of sums: numbers of each outcome that a window keeps to make them of


class Codes(NamedTuple):
    """By row of a log: which count it adds 1 to. All columns have equal length."""

    sequence: Ints32
    t1: Ints  # label time, ms
    cell: Ints32  # NO_CELL: none
    revised: Ints32  # where a former outcome moves to from `cell`; NO_CELL: it is a new one
    number: Ints  # of that outcome in its sequence, from 1
    known: Bytes  # whether baselines had a label to predict by


class Additions(NamedTuple):
    """By row of a log: what it adds to sums; all columns have equal length."""

    sequence: Ints32  # NO_OUTCOME: it isn't one
    t1: Ints  # label time, ms
    flags: Bytes  # what there is of it (`prequential.core.estimators.sums`); 0: time passes, nothing is added
    values: Floats  # (rows, the payload's `kept`)
    number: Ints  # of a revision: which outcome of its sequence it is of, from 1


class Counted(NamedTuple):
    """What counts are read into, or found; by row of a log, or by sequence."""

    cells: Floats  # (rows, width): counts, or weights
    n: Floats  # their sum
    known: Bytes  # whether baselines had a label to predict by at any outcome in memory


class Loops(NamedTuple):
    """What a memory does with payloads of one sort, counts or sums; `parameter` is the memory's.

    A reading is of the sequence's newest outcome, and changes nothing: else the bits would tell when it was.
    """

    #: new_table(rows, payload, parameter): of so many sequences without outcomes, all zeros. Columns `n`:
    #: outcomes seen; `began`, where revisions reach: outcomes before, which they don't.
    new_table: Callable[[int, Payload, float], Any]
    #: Of counts: update(table, codes, parameter, into); of sums: update(table, kind, additions, parameter,
    #: into). With the reading after each row if `into` has rows.
    update: Callable[..., None]
    #: Of counts: read(table, sequences, parameter, into); of sums: read(table, kind, sequences, parameter,
    #: into), with the spread of labels of numbers in the last of them.
    read: Callable[..., None]
    #: Columns that have a place for each count, and those in which counts are numbered.
    by_cell: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    #: Columns that are of no use to readings but by their width.
    unread: tuple[str, ...] = ()


class Memory(NamedTuple):
    """A memory as the registry has it."""

    name: str
    #: How its names look, as errors say it; and one that forgets within few outcomes, for compiling loops.
    expected: str
    example: str
    #: The parameter of what stands behind `name:`, "" without a colon; None if it says none. Raises
    #: ValueError saying what is expected of one that is out of range.
    parse: Callable[[str], float | None]
    #: The parameter in one spelling; "" if there is none.
    spelled: Callable[[float], str]
    counts: Loops
    sums: Loops
    #: Columns that say where in its course a sequence is.
    clock: tuple[str, ...] = ("n",)
    #: Whether every outcome in memory counts 1, and whether any outcome is ever forgotten.
    whole: bool = True
    forgets: bool = True
    #: Whether what is known of parts of a sequence, as of one label time, adds up to what is known of it.
    adds_up: bool = False
    #: effective(table of counts, sequence, parameter, n): how many equal outcomes a memory of weight n is
    #: worth, n²/Σw² of its outcomes' weights w.
    effective: Callable[[Any, int, float, float], float] = lambda table, q, parameter, n: n
    #: weight_left(parameter, outcomes, ms): the weight of an outcome, at most, that is older than the newest
    #: one by so many outcomes and so much label time.
    weight_left: Callable[[float, int, int], float] = lambda parameter, outcomes, ms: 1.0
    #: rank(table of sums, kind, sequences, positives, additions, values, reasons): measures of ranks of the
    #: outcomes that it has kept (`prequential.core.estimators.window`); None: it keeps none.
    rank: Callable[..., None] | None = None


#: Where no row is to be read after each.
UNREAD_COUNTS = Counted(np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.uint8))
UNREAD_SUMS: Floats = np.zeros((0, 0))


def no_parameter(text: str) -> float | None:
    """The parameter of a memory that has none.

    >>> no_parameter(""), no_parameter("5")
    (0.0, None)
    """
    return None if text else 0.0
