"""The measures from an estimator's state, for many sequences in one call."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.calls import Repeated, Run, run
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, allocating, viewed, zeros
from prequential.engine.estimators import score_histogram
from prequential.engine.estimators.declaration import Additions, Counted, Payload, total_of
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import CellIndex, put_in_order
from prequential.engine.estimators.sums import OF_CLASSES, additions, is_any
from prequential.engine.measures.costs import SUMS
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import Positives, new_classes, positive_of, quantile_of
from prequential.engine.measures.registry import NAMES
from prequential.engine.measures.table import InMemory, measure_cells, measure_numbers
from prequential.engine.tables import scores
from prequential.engine.tables.outcomes import JointCells
from prequential.engine.tables.scores import SPREAD

#: Numbers that are read at once; with more, sequences are measured block by block.
BLOCK = 1 << 18

#: For estimators without sums, and for ranking without a further outcome.
NO_SUMS: Floats = np.zeros((0, 0))

#: Where each joint cell of all classes has its place.
_NO_NUMBERS: CellIndex = zeros(CellIndex, 1, keys=0, slots=0)

NOTHING_ADDED: Additions = additions(0, OF_CLASSES)


class MeasureRequest(NamedTuple):
    """What to measure: the task, the classes, and whose predictions."""

    capacity: int  # k, the room for classes
    positives: Positives  # determines the positive class
    numbers: bool  # whether the task is regression
    chance: bool  # whether the measures are those of random predictions with the model's distribution
    whole: bool  # whether every outcome in memory counts 1
    numbers_of_cells: CellIndex


class MeasuredValues(NamedTuple):
    """By sequence: outcomes in memory, and values or reasons by measure (columns as `NAMES`)."""

    n: Floats
    values: Floats
    reasons: Ints


@allocating
def measure(
    counted: Counted, summed: Floats, paid: Floats, sequences: Ints, asked: MeasureRequest,
    into: MeasuredValues, positive: Ints,
) -> None:  # fmt: skip
    """Compute measures from readings of counts and sums, a row for each of `sequences`.

    `counted`: their joint cells, (n, 4·k²) or by number. `summed`, `paid`: (n, width) sums of scores, and
    (n, 3) of costs by value; no rows where none are kept. It writes `into`, and the code of each positive
    class into `positive`, (n,) int64.
    """
    classes, nothing = new_classes(asked.capacity), np.zeros(scores.SIZE)
    unpaid, by_label = np.zeros(SUMS), new_classes(asked.positives.members.shape[1])
    index, places = asked.numbers_of_cells, asked.numbers_of_cells.keys.shape[1]
    ordered = JointCells(np.empty(places), np.empty(places, np.int32), asked.whole)
    between = JointCells(np.empty(places), np.empty(places, np.int32), asked.whole)
    starts = np.empty(4 * asked.capacity if places else 0, np.int64)
    for i in range(len(sequences)):
        into.n[i] = counted.n[i]
        sums, scored = nothing, False
        if len(summed):
            sums = summed[i]
            scored = is_any(sums)
        if asked.numbers:
            spread = sums[SPREAD] if len(summed) else 0.0
            quantile = quantile_of(asked.positives, asked.positives.owner[sequences[i]])
            measure_numbers(sums, scored, spread, quantile, into.values[i], into.reasons[i])
            positive[i] = NO_POSITIVE
        else:
            q, positives = sequences[i], asked.positives
            costs = paid[i] if len(paid) else unpaid
            knows_labels = counted.known[i] != 0
            cells = JointCells(counted.cells[i], index.keys[0, :0], asked.whole)
            if places:
                keys, used = index.keys[q], np.int64(index.used[q])
                count = put_in_order(keys, used, cells.weights, ordered, between, starts)
                cells = JointCells(ordered.weights[:count], ordered.keys[:count], asked.whole)
                into.n[i] = total_of(cells.weights)
            memory = InMemory(cells, knows_labels, sums, scored, asked.whole, costs, by_label)
            measure_cells(memory, classes, positives, q, asked.chance, into.values[i], into.reasons[i])
            positive[i] = NO_POSITIVE if asked.chance else positive_of(positives, q, classes.labels)


def measure_joint(
    joint: Floats, positives: Positives, into: tuple[Floats, Ints], *, numbers: bool = False,
    chance: bool = False, whole: bool = True, known: Bytes | None = None, summed: Floats = NO_SUMS,
    paid: Floats = NO_SUMS,
) -> Ints:  # fmt: skip
    """Measure joint cells that no estimator has, by the loop that estimators use; return positive classes.

    Parameters
    ----------
    joint
        (n, 4·k²) counts or weights; for regression (`numbers`) without columns.
    positives
        Their rows are those of `joint`.
    into
        (n, measures) values and reasons, which are written: columns as `NAMES`.
    numbers, chance, whole
        As in `MeasureRequest`.
    known
        (n,) whether baselines had a label to predict from; None: all had.
    summed, paid
        As in `measure`; `summed` has `SPREAD` + 1 columns.

    Returns
    -------
    positive
        (n,) codes of positive classes; NO_POSITIVE: there is none.
    """
    values, reasons = into
    n = len(values)
    known = np.ones(n, dtype=np.uint8) if known is None else known
    capacity = math.isqrt(joint.shape[1] // 4)
    asked = MeasureRequest(capacity, positives, numbers, chance, whole, _NO_NUMBERS)
    weights, positive = np.zeros(n), np.empty(n, dtype=np.int64)
    measured_rows = MeasuredValues(weights, values, reasons)
    measure(Counted(joint, weights, known), summed, paid, np.arange(n), asked, measured_rows, positive)
    return positive


def new_measured(rows: int) -> MeasuredValues:
    """Zeros for the measures of sequences: (rows,) weights, (rows, measures) values and reasons."""
    shape = rows, len(NAMES)
    return MeasuredValues(np.zeros(rows), np.zeros(shape), np.zeros(shape, dtype=np.int64))


def block_of(*payloads: Payload) -> int:
    """How many sequences of these payloads are read at once: at least one, up to about 2 MiB."""
    return max(1, BLOCK // max(payload.width for payload in payloads))


def measured(
    estimator: Estimator, sequences: Ints, positives: Positives, chance: bool = False, *,
    ranked: bool = True, into: MeasuredValues | None = None, run: Run = run,
) -> MeasuredValues:  # fmt: skip
    """The measures of these sequences of an estimator, (n,) int64, in as many rows, with columns as `NAMES`.

    With `chance`, they are those of random predictions with the model's distribution. `ranked`: whether to
    compute measures of ranks, such as `auc`; for these, windows are sorted, and other memories have
    histograms. `into`: zeros of `new_measured` that are written to (None: new ones). `run` calls each loop.
    """
    into = into or new_measured(len(sequences))
    rank = estimator.memory.rank
    ranked = ranked and estimator.summed and not estimator.numbers and not chance
    estimator.widen()
    asked = MeasureRequest(
        estimator.capacity, positives, estimator.numbers, chance, estimator.memory.whole,
        estimator.joint.table,
    )  # fmt: skip
    step = block_of(*(accumulator.payload for accumulator in estimator.accumulators()))
    for start in range(0, len(sequences), step):
        chosen = sequences[start : start + step]
        block = viewed(into, slice(start, start + step))
        positive = np.empty(len(chosen), dtype=np.int64)
        summed = estimator.sums.summed(chosen, run) if estimator.summed else NO_SUMS
        paid = estimator.paid.summed(chosen, run) if estimator.paid is not None else NO_SUMS
        run(measure, estimator.cells.counted(chosen, run), summed, paid, chosen, asked, block, positive)
        if ranked and rank is None and estimator.histogram is not None:
            cells = estimator.histogram.counted(chosen, run).cells
            selected = np.ones(len(chosen), np.uint8)
            run(score_histogram.rank_bins, cells, positive, selected, block.values, block.reasons)
        elif ranked and rank is not None:
            table, kind = estimator.sums.table, estimator.sums.payload.kind
            run(rank, table, kind, chosen, positive, NOTHING_ADDED, block.values, block.reasons)
    return into


class SequenceMeasures:
    """The measures of one sequence by one estimator, as often as they are asked for.

    It is invalid once a table of the estimator has been replaced, such as by one with more rows.
    """

    def __init__(self, estimator: Estimator, sequence: int, positives: Positives, *, ranked: bool) -> None:
        self._estimator, self._sequence = estimator, np.array([sequence])
        self._positives, self._ranked = positives, ranked
        self._into = new_measured(1)
        self._repeated: Repeated | None = None
        self._summed = False

    def now(self) -> MeasuredValues:
        """The measures now, in one row: the same arrays each time."""
        into = self._into
        into.values.fill(0.0)
        into.reasons.fill(0)
        may_move = self._summed != self._estimator.summed or self._estimator.joint.places > 0
        if self._repeated is None or may_move:
            self._repeated, self._summed = Repeated(), self._estimator.summed
            measured(
                self._estimator, self._sequence, self._positives, ranked=self._ranked, into=into,
                run=self._repeated.run,
            )  # fmt: skip
        else:
            self._repeated.again()
        return into
