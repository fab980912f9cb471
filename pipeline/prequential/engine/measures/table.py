"""The table of measures: from cells and sums to all columns of values and reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, inner, kernel, written
from prequential.engine.compiled.mathematics import two_product, two_sum
from prequential.engine.measures import declaration
from prequential.engine.measures.agreement import Totals
from prequential.engine.measures.costs import SUMS, paid_by_chance, paid_of
from prequential.engine.measures.label_sets import LabelTotals, has_sets, sum_labels
from prequential.engine.measures.per_class import ClassCells, Positives, binary, new_classes, positive_of
from prequential.engine.measures.registry import INDEX, MEASURES, made_of
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import JointCells
from prequential.engine.tables.scores import NO_WEIGHT, PARTS, SCORED

# ---- a line for each measure

_KAPPA_SE = INDEX["kappa_se"]


def _computed(*inputs: declaration.Input) -> Iterator[str]:
    """Lines that fill the columns of the measures with these inputs."""
    for name in made_of(*inputs):
        column = INDEX[name]
        yield f"values[{column}], reasons[{column}] = {name}({MEASURES[name].inputs.arguments})"


def _refused(reason: str, *inputs: declaration.Input) -> Iterator[str]:
    """Lines that set the reason for a missing value of the measures with these inputs."""
    for name in made_of(*inputs):
        yield f"reasons[{INDEX[name]}] = {reason}"


def _withdrawn(reason: str, names: Iterable[str]) -> Iterator[str]:
    """Lines that take the values of these measures back, for this reason."""
    for name in names:
        yield f"values[{INDEX[name]}], reasons[{INDEX[name]}] = 0.0, {reason}"


def _loop(name: str, parameters: str, *lines: str) -> Any:
    namespace: dict[str, Any] = {measure.name: measure.function for measure in MEASURES.values()}
    namespace |= {name: code for name, code in vars(declaration).items() if isinstance(code, int)}
    namespace |= {"NOTHING": NO_WEIGHT, "SCORED": SCORED, "binary": binary}
    return inner(written(name, parameters, lines, namespace, __name__, __file__))


def _within(*lines: str) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


#: Fills the measures of the matrix, and the reasons of the others if there are no scores.
_put_matrix = _loop(
    "put_matrix", "t, c, s, positive, k, values, reasons",
    *_computed(declaration.MATRIX, declaration.CLASSES),
    "if s.is_used:", *_within(*_computed(declaration.LABEL_SETS)),
    "else:", *_within(*_refused("NOT_MULTILABEL", declaration.LABEL_SETS)),
    "if positive == NO_POSITIVE:",
    *_within(*_refused("NO_POSITIVE_CLASS", declaration.POSITIVE, declaration.RANKS)),
    "else:",
    *_within("b = binary(t.n, c, positive)", *_computed(declaration.POSITIVE)),
    *_within(*_refused("NO_PROBABILITIES", declaration.RANKS)),
    *_refused("NO_PROBABILITIES", declaration.PROBABILITIES, declaration.TOP),
    *_refused("NO_PROPENSITY", declaration.PROPENSITIES),
    "if k.reason == DEFINED:", *_within(*_computed(declaration.COSTS)),
    "else:", *_within(*_refused("k.reason", declaration.COSTS)),
)  # fmt: skip

#: Fills the measures of scores. There may be weights only.
_put_scores = _loop(
    "put_scores", "sums, positive, values, reasons",
    *_computed(declaration.PROBABILITIES, declaration.TOP, declaration.PROPENSITIES),
    "if positive != NO_POSITIVE and sums[SCORED] >= NOTHING:",
    *_within(*_refused("NO_RANKS", declaration.RANKS)),
)  # fmt: skip

#: Refuses the measures that need baselines, if these had no label to predict from.
_refuse_baselines = _loop(
    "refuse_baselines", "values, reasons",
    *_withdrawn("NO_LABEL_KNOWN", (measure.name for measure in MEASURES.values() if measure.needs_label)),
)  # fmt: skip

_put_numbers = _loop(
    "put_numbers", "sums, spread, quantile, values, reasons",
    *_computed(declaration.NUMBERS, declaration.SPREAD, declaration.RELATIVES),
    *chain.from_iterable(
        (f"if sums[{source.part.sums[0]}] >= NOTHING:", *_within(*_computed(source)),
         "else:", *_within(*_refused(str(source.absent[0]), source)))
        for source in dict.fromkeys(measure.inputs for measure in MEASURES.values())
        if source.part in PARTS
    ),
    "if quantile > 0.0:", *_within(*_computed(declaration.QUANTILES)),
    "else:", *_within(*_refused("NO_QUANTILE", declaration.QUANTILES)),
)  # fmt: skip

#: Fills the measures of the ranks of scores, or their reasons if there is no positive class.
put_ranks = _loop("put_ranks", "r, values, reasons", *_computed(declaration.RANKS))
refuse_ranks = _loop(
    "refuse_ranks", "values, reasons", *_withdrawn("NO_POSITIVE_CLASS", made_of(declaration.RANKS))
)


# ---- inputs of measures


@inner
def _sums_of_others(values: Floats, sums: Floats) -> None:
    """sums[i] = Σ_{j≠i} values[j], from both sides instead of as a difference from the whole."""
    before = after = 0.0
    for i in range(len(values)):
        sums[i] = before
        before += values[i]
    for i in range(len(values) - 1, -1, -1):
        sums[i] += after
        after += values[i]


@inner
def _add_all(cells: Floats, c: ClassCells) -> tuple[float, float, float, float]:
    """Add joint cells, (4·k²,), to `c`; returns the outcomes that the baselines had right and wrong."""
    k = len(c.labels)
    persistent = persistent_wrong = majority = majority_wrong = 0.0
    row = c.labels  # first it has a row of the matrix, and its own values only at the end
    for y in range(k):
        before = after = 0.0
        for h in range(k):
            first = (y * k + h) * 4
            none, only_majority = cells[first], cells[first + 1]
            only_persistent, both = cells[first + 2], cells[first + 3]
            cell = outcomes.weight_of(cells, y * k + h)
            row[h] = cell
            if cell > 0.0:
                persistent += only_persistent + both
                persistent_wrong += none + only_majority
                majority += only_majority + both
                majority_wrong += none + only_persistent
            if h == y:
                c.hits[y] = cell
            else:
                c.missed[y] += cell
                c.false[h] += cell
                c.neither[h] += before
            before += cell
        for h in range(k - 1, -1, -1):
            if h != y:
                c.neither[h] += after
            after += row[h]
    return persistent, persistent_wrong, majority, majority_wrong


@inner
def _add_listed(cells: JointCells, c: ClassCells) -> tuple[float, float, float, float]:
    """As `_add_all`, from the cells that have outcomes: the same sums in the same order, without zeros.

    If weights are whole numbers, it leaves `c.neither` to `sum_up`.
    """
    k, index = len(c.labels), 0
    persistent = persistent_wrong = majority = majority_wrong = 0.0
    row = c.labels
    while index < len(cells.keys):
        y, first = outcomes.label_of(cells.keys[index]), index
        own, before, begin = c.neither[y], 0.0, 0
        while index < len(cells.keys) and outcomes.label_of(cells.keys[index]) == y:
            h = outcomes.prediction_of(cells.keys[index])
            index, none, only_majority, only_persistent, both = outcomes.listed_at(cells, index)
            cell = row[h] = (none + only_majority) + (only_persistent + both)
            persistent += only_persistent + both
            persistent_wrong += none + only_majority
            majority += only_majority + both
            majority_wrong += none + only_persistent
            if h == y:
                c.hits[y] = cell
            else:
                c.missed[y] += cell
                c.false[h] += cell
            if not cells.whole:
                for i in range(begin, h + 1):
                    c.neither[i] += before
            before, begin = before + cell, h + 1
        if cells.whole:
            continue
        for i in range(begin, k):
            c.neither[i] += before
        after, end = 0.0, k
        for entry in range(index - 1, first - 1, -1):
            h = outcomes.prediction_of(cells.keys[entry])
            if h < end:
                for i in range(h, end):
                    c.neither[i] += after
                after, end = after + row[h], h
        for i in range(end):
            c.neither[i] += after
        c.neither[y] = own
    return persistent, persistent_wrong, majority, majority_wrong


@kernel
def sum_up(cells: JointCells, c: ClassCells) -> Totals:
    """Fill `c` with the matrix by class from joint cells; returns the sums over all of it.

    Sums follow the order of the classes, so room for more of them changes no bit.
    """
    k = len(c.labels)
    for i in range(k):
        c.hits[i] = c.missed[i] = c.false[i] = c.neither[i] = 0.0
    persistent, persistent_wrong, majority, majority_wrong = (
        _add_listed(cells, c) if outcomes.is_listed(cells) else _add_all(cells.weights, c)
    )
    right = wrong = 0.0
    for i in range(k):
        c.labels[i] = c.hits[i] + c.missed[i]
        c.predictions[i] = c.hits[i] + c.false[i]
        right += c.hits[i]
        wrong += c.missed[i]
    if cells.whole and outcomes.is_listed(cells):
        for i in range(k):
            c.neither[i] = (right + wrong) - c.labels[i] - c.false[i]
    _sums_of_others(c.labels, c.other_labels)
    _sums_of_others(c.predictions, c.other_predictions)
    chance = beyond = low = label_pairs = prediction_pairs = together = apart = 0.0
    for i in range(k):
        chance += c.labels[i] * c.predictions[i]
        pairs, pairs_low = two_product(c.labels[i], c.other_predictions[i])
        beyond, short = two_sum(beyond, pairs)
        low += short + pairs_low
        label_pairs += c.labels[i] * c.other_labels[i]
        prediction_pairs += c.predictions[i] * c.other_predictions[i]
        # hits·n - labels·predictions, with all that cancels left out:
        together += c.hits[i] * c.neither[i]
        apart += c.missed[i] * c.false[i]
    beyond, low = two_sum(beyond, low)
    return Totals(
        right + wrong, right, wrong, persistent, persistent_wrong, majority, majority_wrong, chance, beyond,
        low, label_pairs, prediction_pairs, together - apart, together + apart,
    )  # fmt: skip


@inner
def expect(t: Totals, c: ClassCells) -> Totals:
    """The expected totals of random predictions with the same distribution, in n-fold counts; updates `c`.

    The cell (i, j) has labels of i · predictions of j (2015 paper, section 4.1: the random classifier).
    """
    for i in range(len(c.labels)):
        y, h, not_y, not_h = c.labels[i], c.predictions[i], c.other_labels[i], c.other_predictions[i]
        c.hits[i], c.missed[i], c.false[i], c.neither[i] = y * h, y * not_h, not_y * h, not_y * not_h
        c.labels[i], c.predictions[i] = y * h + y * not_h, y * h + not_y * h
    n = t.chance + t.beyond_chance
    beyond, low = two_product(t.beyond_chance, n)
    return Totals(
        n, t.chance, t.beyond_chance,
        t.persistent * t.n, t.persistent_wrong * t.n, t.majority * t.n, t.majority_wrong * t.n,
        t.chance * n, beyond, low, t.label_pairs * n, t.prediction_pairs * n, 0.0, 0.0,
    )  # fmt: skip


@inner
def _fill(values: Floats, reasons: Ints, reason: int) -> None:
    """Set all measures to no value, for this reason."""
    for column in range(len(values)):
        values[column] = 0.0
        reasons[column] = reason


@inner
def _refuse_infinite(values: Floats, reasons: Ints) -> None:
    """Refuse infinite measures: sums of numbers near the largest float are infinite."""
    for column in range(len(values)):
        if not math.isfinite(values[column]):
            values[column] = 0.0
            reasons[column] = declaration.ZERO_DENOMINATOR


#: Sums for estimators without costs by value.
NOTHING_PAID: Floats = np.zeros(SUMS)

#: Scratch arrays where classes aren't sets of labels.
NO_LABELS = ClassCells(*np.zeros((len(ClassCells._fields), 0)))


class InMemory(NamedTuple):
    """The inputs of measures for classification: an estimator's memory of one sequence."""

    cells: JointCells
    known: bool  # whether baselines had a label to predict from at any of the outcomes
    sums: Floats  # (`SIZE`,) sums of scores …
    scored: bool  # … and whether there are any
    whole: bool = True  # whether each outcome counts 1
    paid: Floats = NOTHING_PAID  # (`costs.SUMS`,) sums of costs by value
    by_label: ClassCells = NO_LABELS  # scratch arrays, as wide as the members of sets (`Positives`)


@kernel
def measure_cells(
    memory: InMemory, c: ClassCells, positives: Positives, sequence: int, chance: bool, values: Floats,
    reasons: Ints,
) -> None:  # fmt: skip
    """Compute all measures for classification of one sequence, from joint cells and sums of scores, if any.

    The positive class is the configured one, or follows from the sequence's labels in memory. The caller
    fills in the measures of ranks of scores (see `put_ranks`). With `chance`, the measures are those of
    random predictions with the model's own distribution. They have no probabilities, and follow from the
    expected matrix in closed form, without random numbers.

    `c`: scratch arrays of capacity k; afterwards they have the matrix by class. `values`, `reasons`: written,
    (measures,) float64 and int64, columns as `NAMES`. A value counts where its reason is `DEFINED`.
    """
    t = sum_up(memory.cells, c)
    _fill(values, reasons, declaration.NOT_REGRESSION if t.n > 0.0 else declaration.EMPTY)
    if not t.n > 0.0:
        return
    positive = positive_of(positives, sequence, c.labels)
    s = LabelTotals(False, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
    if has_sets(positives, sequence):
        s = sum_labels(memory.cells, c, positives, sequence, chance, t.n, memory.by_label)
    classes = memory.by_label if s.is_used else c
    if chance:
        k = paid_by_chance(positives, sequence, c.labels, c.predictions, t.n, memory.whole)
        _put_matrix(expect(t, c), classes, s, positive, k, values, reasons)
        values[_KAPPA_SE] *= math.sqrt(t.n)  # of n outcomes; the expected matrix has n-fold counts
    else:
        k = paid_of(positives, sequence, memory.cells, len(c.labels), t.n, memory.whole, memory.paid)
        _put_matrix(t, classes, s, positive, k, values, reasons)
        if memory.scored:
            _put_scores(memory.sums, positive, values, reasons)
    _refuse_infinite(values, reasons)
    if not memory.known:
        _refuse_baselines(values, reasons)


@kernel
def measure_numbers(
    sums: Floats, scored: bool, spread: float, quantile: float, values: Floats, reasons: Ints
) -> None:
    """Compute all measures for regression of one sequence, from its sums of scores, (`SIZE`,), if any.

    `spread`: Σ(y - ȳ)² of the labels in memory. `quantile`: the one that predictions are, above 0 and below
    1; 0: none is configured. `values`, `reasons`: as in `measure_cells`.
    """
    has_scores = scored and sums[SCORED] >= NO_WEIGHT
    _fill(values, reasons, declaration.NOT_CLASSIFICATION if has_scores else declaration.EMPTY)
    if has_scores:
        _put_numbers(sums, spread, quantile, values, reasons)
        _refuse_infinite(values, reasons)


def classes_of(rows: Sequence[Sequence[float]]) -> ClassCells:
    """The matrix by class, from counts by label (rows) and prediction.

    >>> classes_of([[40, 10], [5, 45]]).predictions.tolist()
    [45.0, 55.0]
    """
    classes = new_classes(len(rows))
    sum_up(_cells_of(rows), classes)
    return classes


def totals_of(rows: Sequence[Sequence[float]], persistent: float = 0.0, majority: float = 0.0) -> Totals:
    """The totals of such a matrix, and how many outcomes the baselines had right.

    >>> t = totals_of([[40, 10], [5, 45]], persistent=60)
    >>> t.n, t.right, t.wrong, t.persistent_wrong, t.chance, t.beyond_chance
    (100.0, 85.0, 15.0, 40.0, 5000.0, 5000.0)
    """
    t = sum_up(_cells_of(rows), new_classes(len(rows)))
    return t._replace(
        persistent=persistent, persistent_wrong=t.n - persistent,
        majority=majority, majority_wrong=t.n - majority,
    )  # fmt: skip


def _cells_of(rows: Sequence[Sequence[float]]) -> JointCells:
    cells = np.zeros((len(rows) ** 2, 4))
    cells[:, 0] = np.ravel(rows)
    return JointCells(cells.ravel())
