"""An estimator's state, and the measures of it: for many sequences in one call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints, allocating, inner, inner_allocating
from prequential.core.estimators import all_history, fading, sums, window
from prequential.core.estimators.all_history import AllHistory
from prequential.core.estimators.estimator import Estimator
from prequential.core.estimators.fading import Fading
from prequential.core.estimators.naming import ALL, FADING, WINDOW
from prequential.core.estimators.sums import AllSums, FadedSums, WindowSums
from prequential.core.estimators.window import Window
from prequential.core.measures import INDEX, NAMES, NO_POSITIVE, NO_POSITIVE_CLASS
from prequential.core.measures.auc import area
from prequential.core.measures.per_class import Classes, new_classes
from prequential.core.measures.positive import Positives, positive_of
from prequential.core.measures.table import measure_cells, measure_numbers
from prequential.core.tables.scores import SIZE

_AUC = INDEX["auc"]


class Measured(NamedTuple):
    """Of each sequence: outcomes in memory, and values or reasons by measure (columns as `NAMES`)."""

    n: Floats
    values: Floats
    reasons: Ints


class Scratch(NamedTuple):
    """What one estimator is read into."""

    cells: Floats
    sums: Floats
    classes: Classes
    p: Floats
    is_positive: np.ndarray
    sorted: Floats


@inner_allocating
def new_scratch(capacity: int, size: int) -> Scratch:
    """For `capacity` classes and windows of `size` outcomes."""
    return Scratch(
        np.zeros(4 * capacity * capacity), np.zeros(SIZE), new_classes(capacity), np.empty(size),
        np.empty(size, np.uint8), np.empty(2 * size),
    )  # fmt: skip


@inner
def total_of(cells: Floats) -> float:
    """The weight of all outcomes."""
    total = 0.0
    for weight in cells:
        total += weight
    return total


@inner
def _measure(
    of: Scratch, positives: Positives, q: int, numbers: bool, chance: bool, known: bool, scored: bool,
    spread: float, values: Floats, reasons: Ints,
) -> None:  # fmt: skip
    if numbers:
        measure_numbers(of.sums, scored, spread, values, reasons)
    else:
        measure_cells(of.cells, of.classes, positives, q, chance, known, of.sums, scored, values, reasons)


@allocating
def measure_all(
    table: AllHistory, summed: AllSums, sequences: Ints, capacity: int, positives: Positives, numbers: bool,
    chance: bool, has_sums: bool, into: Measured,
) -> None:  # fmt: skip
    """Measures of `all`; with `chance`, those of random predictions with the model's distribution."""
    of = new_scratch(capacity, 1)
    scored, spread = False, 0.0
    for i in range(len(sequences)):
        q = sequences[i]
        all_history.read(table, q, of.cells)
        into.n[i] = table.n[q]
        if has_sums:
            scored, spread = sums.read_all(summed, q, of.sums), sums.spread_all(summed, q)
        known = all_history.knows(table, q)
        _measure(
            of, positives, q, numbers, chance, known, scored, spread, into.values[i], into.reasons[i]
        )


@allocating
def measure_window(
    table: Window, summed: WindowSums, sequences: Ints, capacity: int, positives: Positives, numbers: bool,
    chance: bool, has_sums: bool, ranked: bool, into: Measured,
) -> None:  # fmt: skip
    """Measures of `window:W`; if there are sums and it is `ranked`, AUC, too, which sorts the window."""
    size = table.ring.shape[1]
    of = new_scratch(capacity, size)
    scored, spread = False, 0.0
    for i in range(len(sequences)):
        q = sequences[i]
        window.read(table, q, of.cells)
        into.n[i] = min(size, table.n[q])
        if has_sums:
            scored = sums.read_window(summed, q, numbers, of.sums)
            spread = sums.spread_window(summed, q) if numbers else 0.0
        known = window.knows(table, q)
        _measure(
            of, positives, q, numbers, chance, known, scored, spread, into.values[i], into.reasons[i]
        )
        if (
            ranked
            and scored
            and not numbers
            and not chance
            and positive_of(positives, q, of.classes.labels) != NO_POSITIVE
        ):
            n = sums.sides(summed, q, of.p, of.is_positive)
            if n < 0:
                into.values[i, _AUC], into.reasons[i, _AUC] = 0.0, NO_POSITIVE_CLASS
            elif n:
                into.values[i, _AUC], into.reasons[i, _AUC] = area(of.p, of.is_positive, n, of.sorted)


@allocating
def measure_fading(
    table: Fading, summed: FadedSums, sequences: Ints, capacity: int, positives: Positives, numbers: bool,
    chance: bool, has_sums: bool, factor: float, into: Measured,
) -> None:  # fmt: skip
    """Measures of `fading:A`."""
    of = new_scratch(capacity, 1)
    scored, spread = False, 0.0
    for i in range(len(sequences)):
        q = sequences[i]
        fading.read(table, q, factor, of.cells)
        into.n[i] = total_of(of.cells)
        if has_sums:
            scored = sums.read_faded(summed, q, factor, of.sums)
            spread = sums.spread_faded(summed, q, factor)
        known = fading.knows(table, q, factor)
        _measure(
            of, positives, q, numbers, chance, known, scored, spread, into.values[i], into.reasons[i]
        )


def new_measured(rows: int) -> Measured:
    """Zeros to measure into."""
    shape = rows, len(NAMES)
    return Measured(np.zeros(rows), np.zeros(shape), np.zeros(shape, dtype=np.int64))


def measured(
    estimator: Estimator, sequences: Ints, positives: Positives, chance: bool = False, *,
    ranked: bool = True, into: Measured | None = None,
) -> Measured:  # fmt: skip
    """The measures of these sequences, one row each; AUC of windows only if it is asked for (`ranked`).

    `into`: zeros that they are to be written to.
    """
    into = into or new_measured(len(sequences))
    given = (
        estimator.cells, estimator.sums, sequences, estimator.capacity, positives, estimator.numbers, chance,
        estimator.summed,
    )  # fmt: skip
    if estimator.kind == ALL:
        measure_all(*given, into)
    elif estimator.kind == WINDOW:
        measure_window(*given, ranked, into)
    else:
        assert estimator.kind == FADING
        measure_fading(*given, estimator.parameter, into)
    return into


def cells_of(estimator: Estimator, sequence: int) -> Floats:
    """The joint cells of one sequence."""
    cells = np.zeros(estimator.cells[0].shape[1])
    if estimator.kind == FADING:
        fading.read(estimator.cells, sequence, estimator.parameter, cells)
    else:
        (all_history.read, window.read)[estimator.kind](estimator.cells, sequence, cells)
    return cells


def knows_labels(estimator: Estimator, sequence: int) -> bool:
    """Whether baselines had a label to predict by at any outcome in the memory of one sequence."""
    if estimator.kind == FADING:
        return bool(fading.knows(estimator.cells, sequence, estimator.parameter))
    return bool((all_history.knows, window.knows)[estimator.kind](estimator.cells, sequence))


def pairs_of(estimator: Estimator, sequence: int) -> list[Floats]:
    """Counts or weights of the pairs of neighbouring outcomes of one sequence, by sign."""
    found = []
    for table in estimator.pairs:
        cells = np.zeros(table[0].shape[1])
        if estimator.kind == FADING:
            fading.read(table, sequence, estimator.parameter, cells)
        else:
            (all_history.read, window.read)[estimator.kind](table, sequence, cells)
        found.append(cells)
    return found
