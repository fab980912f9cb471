"""What measures are made of: the sums over an estimator's joint counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from prequential.core.classes import Classes
from prequential.core.memories import Memory

#: A float share is 1 when this little is missing: a difference of two floats near 1 below it holds
#: no correct digit. Integer counts are compared exactly.
_ONE = 1e-14

#: Classes up to which plain sums are faster than numpy's.
_FEW = 4

#: The positive class where none is configured: of labels that are booleans, or 0 and 1.
_USUAL = ({"true", "false"}, "true"), ({"0", "1"}, "1")


class Undefined(Exception):
    """A measure has no value; the argument is the contract's reason."""


class Matrix(NamedTuple):
    """A confusion matrix in its sums; all in the counts' own unit (integers or weights)."""

    n: float  # all outcomes
    right: float  # outcomes with the label predicted
    chance: float  # Σ_i labels of i · predictions of i  (n² times p_ran)
    persistent: float  # outcomes that the persistent baseline had right
    majority: float  # outcomes that the majority baseline had right
    exact: bool  # integers
    # By class code:
    labels: Sequence[float]
    predictions: Sequence[float]
    hits: Sequence[float]  # the diagonal
    present: Sequence[int]  # codes of the classes with a label or a prediction

    @classmethod
    def of(
        cls,
        cells: Sequence[Sequence[float]],
        persistent: float = 0,
        majority: float = 0,
        exact: bool = True,
    ) -> Matrix:
        """The sums of cells[label][prediction] and of what the baselines had right.

        >>> m = Matrix.of([[40, 10], [5, 45]])
        >>> m.n, m.right, m.chance, m.labels, m.predictions
        (100, 85, 5000, [50, 50], [45, 55])
        """
        # `fsum` is correctly rounded, hence independent of order and of empty cells.
        add = sum if exact else math.fsum
        labels, predictions = [add(row) for row in cells], [add(column) for column in zip(*cells)]
        hits = [row[code] for code, row in enumerate(cells)]
        chance = add([y * h for y, h in zip(labels, predictions)])
        return cls(
            add(labels), add(hits), chance, persistent, majority, exact,
            labels, predictions, hits, _present(labels, predictions),
        )  # fmt: skip

    def by_chance(self) -> Matrix:
        """What is expected of random predictions with the same distribution, in n-fold counts.

        The cell (i, j) has labels of i · predictions of j (2015 paper, section 4.1: the random classifier).

        >>> m = Matrix.of([[40, 10], [5, 45]]).by_chance()
        >>> m.right / m.n, m.labels, m.hits  # p_ran
        (0.5, [5000, 5000], [2250, 2750])
        """
        return Matrix(
            self.n * self.n, self.chance, self.chance * self.n * self.n,
            self.persistent * self.n, self.majority * self.n, self.exact,
            [self.n * y for y in self.labels], [self.n * h for h in self.predictions],
            [y * h for y, h in zip(self.labels, self.predictions)], self.present,
        )  # fmt: skip

    def share_is_one(self, part: float, whole: float) -> bool:
        """Whether nothing of `whole` is outside `part`, as far as its digits tell.

        >>> Matrix.of([[1]]).share_is_one(99, 100), Matrix.of([[1.0]], exact=False).share_is_one(1 - 1e-15, 1)
        (False, True)
        """
        return whole - part <= (0 if self.exact else _ONE * whole)


def matrix_of(memory: Memory) -> Matrix:
    """Sum up a memory; the same bits however many classes there is room for.

    >>> from prequential.core.memories import build_memory
    >>> memory = build_memory("all")
    >>> memory.update(np.array([0, 7, 14]))  # label 0 predicted as 0, 0 as 1, 1 as 1
    >>> matrix_of(memory)[:5]  # n, right, chance, persistent, majority
    (3, 2, 4, 2, 1)
    """
    capacity = memory.capacity
    counts = memory.counts
    exact = counts.dtype == np.int64
    if exact and capacity > _FEW:
        square = counts.reshape(capacity, capacity, 4)
        cells2 = square.sum(axis=2)
        bits = square.sum(axis=(0, 1)).tolist()
        labels, predictions = cells2.sum(axis=1).tolist(), cells2.sum(axis=0).tolist()
        chance = sum(a * b for a, b in zip(labels, predictions))  # Python's integers: no overflow
        hits = cells2.diagonal().tolist()
        return Matrix(
            memory.n, sum(hits), chance, bits[2] + bits[3], bits[1] + bits[3], True,
            labels, predictions, hits, _present(labels, predictions),
        )  # fmt: skip
    cells = counts.tolist()
    add = sum if exact else math.fsum
    matrix = [add(cells[start : start + 4]) for start in range(0, len(cells), 4)]
    rows = [matrix[start : start + capacity] for start in range(0, len(matrix), capacity)]
    return Matrix.of(rows, add(cells[2::4] + cells[3::4]), add(cells[1::4] + cells[3::4]), exact)


def _present(labels: Sequence[float], predictions: Sequence[float]) -> list[int]:
    return [code for code, (y, h) in enumerate(zip(labels, predictions)) if y or h]


class PositiveClass:
    """Which class of a stream is the positive one.

    `configured`, or `true` or `1` where all labels in an estimator's memory are booleans, or 0 and 1.

    >>> classes = Classes(limit=9)
    >>> classes.code("0"), classes.code("1"), classes.code("x")
    (0, 1, 2)
    >>> PositiveClass(None, classes).code([5, 0, 0]), PositiveClass(None, classes).code([5, 0, 1])
    (1, None)
    >>> PositiveClass("y", classes).code([5, 0, 0]), PositiveClass(None, classes).codes
    (-1, [1])
    """

    def __init__(self, configured: str | None, classes: Classes) -> None:
        self._configured = configured
        self.classes = classes

    @property
    def codes(self) -> list[int]:
        """Codes of the classes that it may turn out to be, as far as they are known."""
        names = [positive for _, positive in _USUAL] if self._configured is None else [self._configured]
        return [self.classes.codes[name] for name in names if name in self.classes.codes]

    def code(self, labels: Sequence[float]) -> int | None:
        """Its code, given the labels of each class; -1 if it has none yet, None if there is no such class."""
        codes, name = self.classes.codes, self._configured
        if name is not None:
            return codes.get(name, -1)
        found = {known for known, count in zip(self.classes.names, labels) if count}
        for usual, positive in _USUAL:
            if found <= usual:
                return codes.get(positive, -1)
        return None


class Binary(NamedTuple):
    """A matrix as the positive class against all others (2019 paper, Table I)."""

    tp: float
    positives: float  # labels: tp + fn
    predicted: float  # predictions: tp + fp
    n: float

    @property
    def tn(self) -> float:
        """Outcomes that are negative and predicted so."""
        return max(0, self.n - self.positives - self.predicted + self.tp)


def binary(matrix: Matrix, positive: int) -> Binary:
    """The matrix with the class `positive` (-1: one that nothing has) against all others.

    >>> binary(Matrix.of([[40, 10], [5, 45]]), 1)
    Binary(tp=45, positives=50, predicted=55, n=100)
    """
    if positive < 0 or positive >= len(matrix.labels):
        return Binary(0, 0, 0, matrix.n)
    return Binary(
        matrix.hits[positive], matrix.labels[positive], matrix.predictions[positive], matrix.n
    )
