"""How far back labels depend on each other: the gain from each further label (2015 paper)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Ints

#: Labels up to which a plain loop is faster than arrays.
_FEW = 32


class Increments:
    """Δ(ℓ), the gain from knowing an ℓ-th label, for the orders ℓ = 1 … `highest` (section 6.8, figure 5).

    Let P(i; ℓ) be the probability of class i after (at least) ℓ labels i in a row, with P(i; 0) = P(i). Then
    Δ_i(ℓ) = P(i; ℓ) - P(i; ℓ - 1), so Δ_i(1) = P(i|i) - P(i). Where the dependence is of order ℓ, Δ_i(ℓ)
    isn't 0; it is above 0 where this dependence is positive. The paper prints P(i; ℓ) - P(i; ℓ + 1). This has
    the other sign, and the first order is at ℓ = 0. But the paper's results for Elec2 (strong first order,
    Δ(48) = 0.02) agree with the definition here.

    Memory: 2·(highest + 1) counts for each class, whatever the labels.

    >>> increments = Increments(highest=2)
    >>> increments.update_many(np.array([0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1]))
    >>> increments.values(0)
    [0.0833..., -0.0833...]
    """

    def __init__(self, highest: int = 8) -> None:
        self.highest = highest
        self.n = 0
        self._last = -1  # no class
        self._run = 0  # labels `_last` in a row
        # By class and r = 0 … highest (there: or more), in one list: labels of the class that came
        # after r labels of it in a row, and other labels that did.
        self._same: list[int] = []
        self._other: list[int] = []

    def update(self, label: int) -> None:
        """The next label."""
        self._grow(label)
        if label == self._last:
            self._same[self._place(label, self._run)] += 1
        else:
            self._same[self._place(label, 0)] += 1
            if self.n:
                self._other[self._place(self._last, self._run)] += 1
            self._last, self._run = label, 0
        self._run += 1
        self.n += 1

    def update_many(self, labels: Ints) -> None:
        """`update` with each of `labels`, (n,)."""
        if len(labels) <= _FEW:
            for label in labels.tolist():
                self.update(label)
            return
        labels = labels.astype(np.int64)
        self._grow(int(labels.max()))
        previous = np.concatenate(([self._last], labels[:-1]))
        changed = labels != previous
        at = np.arange(len(labels))
        # How many of the same stand immediately before each label; the first run may have begun earlier.
        before = at - np.maximum.accumulate(np.where(changed, at, -self._run))
        ended = np.concatenate(([self._run], before[:-1] + 1))
        changed[0] &= self.n > 0
        self._add(self._same, labels, before)
        self._add(self._other, previous[changed], ended[changed])
        self._last, self._run = int(labels[-1]), int(before[-1]) + 1
        self.n += len(labels)

    def given(self, i: int, length: int) -> float | None:
        """P(i; length), length <= `highest`; None where no label came after so many i in a row."""
        same = sum(self._counts(self._same, i, length))
        if length == 0:
            return same / self.n if self.n else None
        whole = same + sum(self._counts(self._other, i, length))
        return same / whole if whole else None

    def values(self, i: int) -> list[float | None]:
        """Δ_i(1) … Δ_i(highest), None where undefined."""
        given = [self.given(i, length) for length in range(self.highest + 1)]
        return [
            None if less is None or more is None else more - less for less, more in pairwise(given)
        ]

    def snapshot(self) -> list[object]:
        """The number of labels, the last one, its run, and both counts, for `restore`."""
        return [self.n, self._last, self._run, list(self._same), list(self._other)]

    def restore(self, state: Any) -> None:
        """Restore from a snapshot with the same `highest`."""
        self.n, self._last, self._run, same, other = state
        self._same, self._other = list(same), list(other)

    def _place(self, i: int, run: int) -> int:
        return i * (self.highest + 1) + min(run, self.highest)

    def _counts(self, counts: list[int], i: int, length: int) -> list[int]:
        return counts[self._place(i, length) : self._place(i + 1, 0)]

    def _add(self, counts: list[int], classes: Ints, runs: Ints) -> None:
        places = classes * (self.highest + 1) + np.minimum(runs, self.highest)
        for place, count in enumerate(np.bincount(places).tolist()):
            counts[place] += count

    def _grow(self, label: int) -> None:
        missing = self._place(label + 1, 0) - len(self._same)
        if missing > 0:
            self._same += [0] * missing
            self._other += [0] * missing
