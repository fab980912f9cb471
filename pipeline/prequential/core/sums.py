"""Sums of scores over all history, a window, or faded: beside an estimator's matrix.

All are sums in the order of the outcomes, one after the other, so cutting a sequence into chunks
changes no bit. Of numbers there is also the labels' spread, Σ(y - ȳ)² with ȳ their mean in memory: it is
updated around the present mean, since a difference of large sums would have no correct digit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from prequential.core.arrays import Floats, Ints
from prequential.core.fading import fading_scale
from prequential.core.scores import (
    LABEL,
    OF_NEGATIVES,
    OF_POSITIVES,
    SCORED,
    SIDE,
    SIZE,
    WEIGHT,
    WIDTH,
    Score,
    Scores,
)

#: A faded weight below it is none: its digits would soon be gone, and arithmetic slow.
NOTHING = 1e-200

#: A spread of this share of the sum of squares is what rounding leaves of 0.
_NOISE = 1e-30


class Spread:
    """Weight, mean and spread of numbers under a fading factor (1: none), by Welford's recursion.

    The mean is two floats, the second what the first has no digits for: numbers may hardly differ and be
    far from 0.

    >>> spread = Spread(1.0)
    >>> for y in (1.0, 2.0, 3.0):
    ...     spread.add(y)
    >>> spread.mean, spread.total
    (2.0, 2.0)
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.weight = self.mean = self.total = 0.0
        self._rest = 0.0  # of the mean

    @property
    def value(self) -> float:
        """The spread, 0 where all numbers are the same as far as digits tell."""
        noise = _NOISE * self.weight * self.mean * self.mean
        return self.total if self.total > noise else 0.0

    def add(self, y: float) -> None:
        """The next number."""
        self.weight = 1.0 + self.factor * self.weight
        apart = y - self.mean - self._rest
        rest = self._rest + apart / self.weight
        mean = self.mean + rest
        self.mean, self._rest = mean, rest - (mean - self.mean)
        self.total = self.factor * self.total + apart * (y - self.mean - self._rest)

    def snapshot(self) -> list[float]:
        return [self.weight, self.mean, self.total, self._rest]

    def restore(self, state: Any) -> None:
        self.weight, self.mean, self.total, self._rest = state


class AllSums:
    """Sums over the whole sequence.

    >>> from prequential.core.scores import score_number
    >>> AllSums.of(score_number(3.0, 1.0), numbers=True).sums[:4].tolist()
    [1.0, 2.0, 4.0, -2.0]
    """

    def __init__(self, *, numbers: bool = False) -> None:
        self.sums: Floats = np.zeros(SIZE)
        self._spread = Spread(1.0) if numbers else None

    @classmethod
    def of(cls, *scores: Score, numbers: bool = False) -> AllSums:
        """The sums of a few scores."""
        sums = cls(numbers=numbers)
        sums.update(Scores.of(len(scores), dict(enumerate(scores))))
        return sums

    @property
    def spread(self) -> float:
        """Σ(y - ȳ)² of the labels."""
        return 0.0 if self._spread is None else self._spread.value

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes."""
        np.add.at(self.sums, scores.places.ravel(), scores.values.ravel())
        _add_to(self._spread, scores)

    def snapshot(self) -> list[object]:
        return [self.sums.tobytes(), self._spread and self._spread.snapshot()]

    def restore(self, state: Any) -> None:
        self.sums = np.frombuffer(state[0]).copy()
        if self._spread is not None:
            self._spread.restore(state[1])


class FadedSums:
    """Sums under a fading factor α: S = x + α·S at every outcome (see `prequential.core.fading`)."""

    def __init__(self, factor: float, outcomes: int = 0, *, numbers: bool = False) -> None:
        self._scale = fading_scale(factor)
        self._sums: Floats = np.zeros(SIZE)
        self._place = outcomes % self._scale.length  # into the present block
        self._spread = Spread(factor) if numbers else None

    @property
    def sums(self) -> Floats:
        """The faded sums."""
        return self._sums * self._scale.scales[self._place]

    @property
    def spread(self) -> float:
        """Σw(y - ȳ)² of the labels with their weights w."""
        return 0.0 if self._spread is None else self._spread.value

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes; those without one fade the others."""
        scale = self._scale
        start = 0
        while start < scores.length:
            stop = min(scores.length, start + scale.length - self._place)
            part = scores.between(start, stop)
            weights = scale.weights[self._place + 1 + part.rows]
            np.add.at(self._sums, part.places.ravel(), (part.values * weights[:, None]).ravel())
            self._place += stop - start
            if self._place == scale.length:
                self._sums *= scale.scales[-1]
                if max(self._sums[SCORED], self._sums[WEIGHT]) < NOTHING:
                    self._sums[:] = 0.0
                self._place = 0
            start = stop
        _add_to(self._spread, scores)

    def snapshot(self) -> list[object]:
        return [self._place, self._sums.tobytes(), self._spread and self._spread.snapshot()]

    def restore(self, state: Any) -> None:
        self._place = state[0]
        self._sums = np.frombuffer(state[1]).copy()
        if self._spread is not None:
            self._spread.restore(state[2])


class WindowSums:
    """Sums over the last `size` outcomes, added up anew when they are asked for: nothing drifts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._seen = 0
        self._rows: Ints = np.zeros(0, dtype=np.int64)  # numbers of the outcomes that have scores
        self._places: Ints = np.zeros((0, WIDTH), dtype=np.int64)
        self._values: Floats = np.zeros((0, WIDTH))

    @property
    def sums(self) -> Floats:
        """Sums of the scores in the window."""
        sums = np.zeros(SIZE)
        np.add.at(sums, self._places.ravel(), self._values.ravel())
        return sums

    @property
    def spread(self) -> float:
        """Σ(y - ȳ)² of the labels in the window."""
        labels = self._values[:, LABEL].tolist()
        if not labels or min(labels) == max(labels):
            return 0.0
        mean = math.fsum(labels) / len(labels)
        return math.fsum((y - mean) ** 2 for y in labels)

    def sides(self) -> tuple[Floats, Floats]:
        """p of the positive class, of the window's outcomes with that label, and of the others."""
        place, p = self._places[:, SIDE], self._values[:, SIDE]
        return p[place == OF_POSITIVES], p[place == OF_NEGATIVES]

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes; what is older than the window leaves."""
        rows = np.concatenate((self._rows, scores.rows + self._seen))
        self._seen += scores.length
        stay = slice(int(rows.searchsorted(self._seen - self.size)), None)
        self._rows = rows[stay]
        self._places = np.concatenate((self._places, scores.places))[stay]
        self._values = np.concatenate((self._values, scores.values))[stay]

    def snapshot(self) -> list[object]:
        return [self._seen, self._rows.tobytes(), self._places.tobytes(), self._values.tobytes()]

    def restore(self, state: Any) -> None:
        self._seen = state[0]
        self._rows = np.frombuffer(state[1], dtype=np.int64)
        self._places = np.frombuffer(state[2], dtype=np.int64).reshape(-1, WIDTH)
        self._values = np.frombuffer(state[3]).reshape(-1, WIDTH)


Sums = AllSums | WindowSums | FadedSums


def build_sums(estimator: str, outcomes: int = 0, *, numbers: bool = False) -> Sums:
    """The sums of an estimator that `build_memory` knows, after `outcomes` outcomes without a score."""
    kind, _, parameter = estimator.partition(":")
    if kind == "all":
        return AllSums(numbers=numbers)
    if kind == "window":
        return WindowSums(int(parameter))
    return FadedSums(float(parameter), outcomes, numbers=numbers)


def _add_to(spread: Spread | None, scores: Scores) -> None:
    if spread is not None:
        for y in scores.values[:, LABEL].tolist():
            spread.add(y)
