"""The measures: from an estimator's joint counts to values, or to the reason why there is none.

Counts are integers (whole history, window) or faded weights. A measure that has no value is named
with its reason, never replaced by a number (contract, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.core.memories import Memory

#: A float share is 1 when this little is missing: a difference of two floats near 1 below it holds
#: no correct digit. Integer counts are compared exactly.
_ONE = 1e-14


#: Classes up to which plain sums are faster than numpy's.
_FEW = 4


class Undefined(Exception):
    """A measure has no value; the argument is the contract's reason."""


class Totals(NamedTuple):
    """The sums that the measures are made of; all in the counts' own unit (integers or weights)."""

    n: float  # all outcomes
    right: float  # outcomes with the label predicted
    chance: float  # Σ_i labels of i · predictions of i  (n² times p_ran)
    persistent: float  # outcomes that the persistent baseline had right
    majority: float  # outcomes that the majority baseline had right
    exact: bool  # integers


def totals(memory: Memory) -> Totals:
    """Sum up a memory; the same bits however many classes there is room for."""
    capacity = memory.capacity
    counts = memory.counts
    exact = counts.dtype == np.int64
    if exact and capacity > _FEW:
        square = counts.reshape(capacity, capacity, 4)
        matrix = square.sum(axis=2)
        bits = square.sum(axis=(0, 1)).tolist()
        labels, predictions = matrix.sum(axis=1).tolist(), matrix.sum(axis=0).tolist()
        chance = sum(a * b for a, b in zip(labels, predictions))  # Python's integers: no overflow
        return Totals(memory.n, int(np.trace(matrix)), chance, bits[2] + bits[3], bits[1] + bits[3], True)
    cells = counts.tolist()
    # `fsum` is correctly rounded, hence independent of order and of empty cells.
    add = sum if exact else math.fsum
    row = 4 * capacity
    labels = [add(cells[start : start + row]) for start in range(0, len(cells), row)]
    predictions = [add(_fours(cells, 4 * h, row)) for h in range(capacity)]
    return Totals(
        add(cells),
        add(_fours(cells, 0, row + 4)),
        add([a * b for a, b in zip(labels, predictions)]),
        add(cells[2::4] + cells[3::4]),
        add(cells[1::4] + cells[3::4]),
        exact,
    )


def _fours(cells: list[float], start: int, step: int) -> list[float]:
    """Four cells at `start` and at every `step` from there."""
    return cells[start::step] + cells[start + 1 :: step] + cells[start + 2 :: step] + cells[start + 3 :: step]


def _beyond(p: float, reference: float, whole: float, exact: bool, reason: str) -> float:
    """(p - reference)/(1 - reference) where both are shares of `whole`."""
    missing = whole - reference
    if missing <= (0 if exact else _ONE * whole):
        raise Undefined(reason)
    return (p - reference) / missing


def error(t: Totals) -> float:
    """Share of outcomes that are wrong (2013 paper, section 3.2)."""
    return (t.n - t.right) / t.n


def accuracy(t: Totals) -> float:
    """p: share of outcomes that are right."""
    return t.right / t.n


def kappa(t: Totals) -> float:
    """Cohen's kappa, (p - p_ran)/(1 - p_ran) (2015 paper, eq. 9 and 10)."""
    return _beyond(t.right * t.n, t.chance, t.n * t.n, t.exact, "p_ran_one")


def p_per(t: Totals) -> float:
    """Accuracy of the persistent baseline (2015 paper, section 4.1)."""
    return t.persistent / t.n


def kappa_per(t: Totals) -> float:
    """Kappa-Temporal, (p - p_per)/(1 - p_per) (2015 paper, eq. 13)."""
    return _beyond(t.right, t.persistent, t.n, t.exact, "p_per_one")


def p_maj(t: Totals) -> float:
    """Accuracy of the majority baseline (2015 paper, section 4.1)."""
    return t.majority / t.n


def kappa_maj(t: Totals) -> float:
    """(p - p_maj)/(1 - p_maj): eq. 13's form against the majority baseline."""
    return _beyond(t.right, t.majority, t.n, t.exact, "p_maj_one")


def kappa_plus(t: Totals) -> float:
    """The combined measure sqrt(max(0, kappa)·max(0, kappa_per)) (2015 paper, eq. 14)."""
    return math.sqrt(max(0.0, kappa(t)) * max(0.0, kappa_per(t)))


#: Measures that can be computed, by their name in messages.
MEASURES: dict[str, Callable[[Totals], float]] = {
    function.__name__: function
    for function in (error, accuracy, kappa, p_per, kappa_per, p_maj, kappa_maj, kappa_plus)
}


def compute(memory: Memory, names: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Values of the named measures, and reasons for those without a value.

    >>> from pipeline.core.memories import build_memory
    >>> compute(build_memory("all"), ["accuracy"])
    ({}, {'accuracy': 'empty'})
    """
    if not memory.n:
        return {}, dict.fromkeys(names, "empty")
    sums = totals(memory)
    values, undefined = {}, {}
    for name in names:
        try:
            values[name] = MEASURES[name](sums)
        except Undefined as reason:
            undefined[name] = str(reason)
    return values, undefined
