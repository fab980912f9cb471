"""How labels follow each other: the counts that measure a stream's temporal dependence (2015 paper)."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Ints

#: Labels up to which a plain loop is faster than arrays.
_FEW = 32

#: A pair's key is `previous << _SHIFT | label`; class codes are far below 2^32.
_SHIFT = 32


class Transitions:
    """Counts of labels and of pairs of neighbours, and the probabilities that they estimate.

    The labels are class codes y_1 … y_n, and n(j, i) is the number of labels i immediately after j. Then
    P(i) = n(i)/n and P(i, j) = n(j, i)/(n - 1) (sections 2.3 and 4.1). All labels have equal weight. Counts
    are integers, so the division of labels into arrays has no effect. Undefined values are None.

    With a `lag` above 1, the pairs are the n - lag pairs of labels at this distance, instead of neighbours.

    >>> transitions = Transitions()
    >>> transitions.update_many(np.array([0, 0, 0, 1, 1, 0]))
    >>> transitions.majority_share, transitions.persistence
    (0.666..., 0.6)
    >>> transitions.prior(1), transitions.joint(1, 0), transitions.repeat(1), transitions.conditional(1, 0)
    (0.333..., 0.2, 0.5, 0.333...)
    """

    def __init__(self, lag: int = 1) -> None:
        self.lag = lag
        self.n = 0
        self._latest: deque[int] = deque(maxlen=lag)  # oldest first
        self._counts: dict[int, int] = {}
        self._pairs: dict[int, int] = {}
        self._followed: dict[int, int] = {}  # n(j, ·): how many labels came after a j
        self._repeats = 0

    def update(self, label: int) -> None:
        """Add the next label, a class code from 0 on."""
        if self.n >= self.lag:
            previous = self._latest[0]
            pair = previous << _SHIFT | label
            self._pairs[pair] = self._pairs.get(pair, 0) + 1
            self._followed[previous] = self._followed.get(previous, 0) + 1
            self._repeats += label == previous
        self._counts[label] = self._counts.get(label, 0) + 1
        self.n += 1
        self._latest.append(label)

    def update_many(self, labels: Ints) -> None:
        """Add labels, (n,) class codes, in order: as `update` with each."""
        if len(labels) <= _FEW:
            for label in labels.tolist():
                self.update(label)
            return
        labels = labels.astype(np.int64)
        whole: Ints = np.concatenate((np.array(self._latest, dtype=np.int64), labels))
        previous, later = whole[: -self.lag], whole[self.lag :]
        _count(self._pairs, previous << _SHIFT | later)
        _count(self._followed, previous)
        _count(self._counts, labels)
        self._repeats += int((previous == later).sum())
        self.n += len(labels)
        self._latest.extend(labels[-self.lag :].tolist())

    @property
    def last(self) -> int | None:
        """The latest label; None before the first one."""
        return self._latest[-1] if self._latest else None

    @property
    def majority_share(self) -> float | None:
        """P(M) of the most frequent class M: the accuracy of always predicting it (eq. 6)."""
        return max(self._counts.values()) / self.n if self.n else None

    @property
    def persistence(self) -> float | None:
        """Σ_i P(i, i): the accuracy of repeating the previous label (eq. 7).

        If it is above `majority_share`, the persistent baseline is the better one (proposition 7).
        """
        return self._repeats / (self.n - self.lag) if self.n > self.lag else None

    def prior(self, i: int) -> float | None:
        """P(i), the share of labels with code i: 0 for a class without labels, None without any label."""
        return self._counts.get(i, 0) / self.n if self.n else None

    def joint(self, i: int, previous: int) -> float | None:
        """P(i, previous): the share of pairs in which i comes after `previous`."""
        return self._pair(i, previous) / (self.n - self.lag) if self.n > self.lag else None

    def repeat(self, i: int) -> float | None:
        """P(i|i) by the counts, without smoothing; None if no label has come after i."""
        followed = self._followed.get(i)
        return self._pair(i, i) / followed if followed else None

    def conditional(self, i: int, previous: int) -> float | None:
        """P(i|previous), smoothed: (n(previous, i) + P(i))/(n(previous, ·) + 1).

        The smoothing adds one successor of `previous`, which is divided among the classes by their priors.
        After a class without successors, the result is therefore P(i). The sum over all i is 1.
        """
        if not self.n:
            return None
        prior = self._counts.get(i, 0) / self.n
        return (self._pair(i, previous) + prior) / (self._followed.get(previous, 0) + 1)

    def lift(self, i: int, previous: int) -> float:
        """P(i|previous)/P(i), the correction factor of eq. 3; above 1 the dependence is positive.

        It is smoothed: (n(previous, i) + 1)/(n(previous, ·)·P(i) + 1). This adds one pair to the observed
        number and one to the number that independent labels would give. If that number is small, the result
        stays near 1: a rare class isn't unlikely only because it hasn't come after `previous` yet. The
        quotient of `conditional` and `prior` would be 1/(n(previous, ·) + 1) there, however rare the class
        is. The result is 1 for a class without labels, and before the first label.
        """
        if not self.n:
            return 1.0
        expected = self._followed.get(previous, 0) * self._counts.get(i, 0) / self.n
        return (self._pair(i, previous) + 1) / (expected + 1)

    def _pair(self, i: int, previous: int) -> int:
        return self._pairs.get(previous << _SHIFT | i, 0)

    def snapshot(self) -> list[object]:
        """The last `lag` labels, and the counts of labels and of pairs, in order, for `restore`."""
        return [list(self._latest), sorted(self._counts.items()), sorted(self._pairs.items())]

    def restore(self, state: Any) -> None:
        """Restore the counts from a snapshot of an object with the same `lag`."""
        latest, counts, pairs = state
        self._latest = deque(latest, maxlen=self.lag)
        self._counts, self._pairs = dict(counts), dict(pairs)
        self.n = sum(self._counts.values())
        self._repeats = sum(self._pair(i, i) for i in self._counts)
        self._followed = {}
        for pair, count in self._pairs.items():
            self._followed[pair >> _SHIFT] = self._followed.get(pair >> _SHIFT, 0) + count


def _count(counts: dict[int, int], values: Ints) -> None:
    """Add to `counts` the number of times that each of `values` occurs."""
    for value, count in zip(*(part.tolist() for part in np.unique(values, return_counts=True))):
        counts[value] = counts.get(value, 0) + count
