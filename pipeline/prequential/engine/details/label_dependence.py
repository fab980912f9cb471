"""How the labels of a sequence depend on each other, and how they follow each other (2015 paper)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Ints

#: A pair's key is `previous << _SHIFT | label`; class codes are far below 2^32.
_SHIFT = 32


class Transitions:
    """Counts of labels and of pairs of neighbours, and the probabilities that they estimate.

    The labels are class codes y_1 … y_n, and n(j, i) is the number of labels i immediately after j. Then
    P(i) = n(i)/n and P(i, i) = n(i, i)/(n - 1) (sections 2.3 and 4.1). All labels have equal weight. Counts
    are integers, so the division of labels into arrays has no effect. Undefined values are None.

    With a `lag` above 1, the pairs are the n - lag pairs of labels at this distance, instead of neighbours.

    >>> transitions = Transitions()
    >>> transitions.update_many(np.array([0, 0, 0, 1, 1, 0]))
    >>> transitions.majority_share, transitions.persistence
    (0.666..., 0.6)
    >>> transitions.repeat(1), transitions.lift(1, 0)
    (0.5, 1.0)
    """

    def __init__(self, lag: int = 1) -> None:
        self.lag = lag
        self.n = 0
        self._latest: deque[int] = deque(maxlen=lag)  # oldest first
        self._counts: Counter[int] = Counter()
        self._pairs: Counter[int] = Counter()
        self._followed: Counter[int] = Counter()  # n(j, ·): how many labels came after a j
        self._repeats = 0

    def update(self, label: int) -> None:
        """Add the next label, a class code from 0 on."""
        self.update_many(np.array([label]))

    def update_many(self, labels: Ints) -> None:
        """Add labels, (n,) class codes, in order: as `update` with each."""
        new = labels.tolist()
        whole = [*self._latest, *new]
        neighbours = list(zip(whole, whole[self.lag :]))
        self._pairs.update(previous << _SHIFT | later for previous, later in neighbours)
        self._followed.update(previous for previous, _ in neighbours)
        self._counts.update(new)
        self._repeats += sum(previous == later for previous, later in neighbours)
        self.n += len(new)
        self._latest.extend(new)

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

    def repeat(self, i: int) -> float | None:
        """P(i|i) by the counts, without smoothing; None if no label has come after i."""
        return self._pair(i, i) / self._followed[i] if self._followed[i] else None

    def lift(self, i: int, previous: int) -> float:
        """P(i|previous)/P(i), the correction factor of eq. 3; above 1 the dependence is positive.

        It is smoothed: (n(previous, i) + 1)/(n(previous, ·)·P(i) + 1). This adds one pair to the observed
        number and one to the number that independent labels would give. If that number is small, the result
        stays near 1: a rare class isn't unlikely only because it hasn't come after `previous` yet. The result
        is 1 for a class without labels, and before the first label.
        """
        if not self.n:
            return 1.0
        expected = self._followed[previous] * self._counts[i] / self.n
        return (self._pair(i, previous) + 1) / (expected + 1)

    def _pair(self, i: int, previous: int) -> int:
        return self._pairs[previous << _SHIFT | i]

    def snapshot(self) -> list[object]:
        """The last `lag` labels, and the counts of labels and of pairs, in order, for `restore`."""
        return [list(self._latest), sorted(self._counts.items()), sorted(self._pairs.items())]

    def restore(self, state: Any) -> None:
        """Restore the counts from a snapshot of an object with the same `lag`."""
        latest, counts, pairs = state
        self._latest = deque(latest, maxlen=self.lag)
        self._counts, self._pairs, self._followed = Counter(dict(counts)), Counter(dict(pairs)), Counter()
        self.n = sum(self._counts.values())
        self._repeats = sum(self._pair(i, i) for i in self._counts)
        for pair, count in self._pairs.items():
            self._followed[pair >> _SHIFT] += count


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

    def update_many(self, labels: Ints) -> None:
        """Add labels, (n,) class codes, in order."""
        if not len(labels):
            return
        labels = labels.astype(np.int64)
        self._grow(int(labels.max()))
        previous = np.concatenate(([self._last], labels[:-1]))
        changed = labels != previous
        indices = np.arange(len(labels))
        # How many of the same stand immediately before each label; the first run may have begun earlier.
        before = indices - np.maximum.accumulate(np.where(changed, indices, -self._run))
        ended = np.concatenate(([self._run], before[:-1] + 1))
        changed[0] &= self.n > 0
        self._add(self._same, labels, before)
        self._add(self._other, previous[changed], ended[changed])
        self._last, self._run = int(labels[-1]), int(before[-1]) + 1
        self.n += len(labels)

    def conditional_share(self, i: int, length: int) -> float | None:
        """P(i; length), length <= `highest`; None where no label came after so many i in a row."""
        same = sum(self._counts(self._same, i, length))
        if length == 0:
            return same / self.n if self.n else None
        whole = same + sum(self._counts(self._other, i, length))
        return same / whole if whole else None

    def values(self, i: int) -> list[float | None]:
        """Δ_i(1) … Δ_i(highest), None where undefined."""
        shares = [self.conditional_share(i, length) for length in range(self.highest + 1)]
        return [None if less is None or more is None else more - less for less, more in pairwise(shares)]

    def snapshot(self) -> list[object]:
        """The number of labels, the last one, its run, and both counts, for `restore`."""
        return [self.n, self._last, self._run, list(self._same), list(self._other)]

    def restore(self, state: Any) -> None:
        """Restore from a snapshot with the same `highest`."""
        self.n, self._last, self._run, same, other_counts = state
        self._same, self._other = list(same), list(other_counts)

    def _index(self, i: int, run: int) -> int:
        return i * (self.highest + 1) + min(run, self.highest)

    def _counts(self, counts: list[int], i: int, length: int) -> list[int]:
        return counts[self._index(i, length) : self._index(i + 1, 0)]

    def _add(self, counts: list[int], classes: Ints, runs: Ints) -> None:
        places = classes * (self.highest + 1) + np.minimum(runs, self.highest)
        for index, count in enumerate(np.bincount(places).tolist()):
            counts[index] += count

    def _grow(self, label: int) -> None:
        missing = self._index(label + 1, 0) - len(self._same)
        if missing > 0:
            self._same += [0] * missing
            self._other += [0] * missing


#: "A small sample of data (100 observations or so)" (section 7).
_SAMPLE = 100


class FirstOrder(NamedTuple):
    """The accuracies of both baselines on a sample, and whether the persistent one's is higher."""

    p_maj: float
    p_per: float
    present: bool


class RecentDependence:
    """The easy test for temporal dependence worth taking into account (section 7), on recent labels.

    Let y be the last `size` labels. p_maj = P(M) is the share of their most frequent class, and p_per the
    share of pairs of neighbours that are equal. Dependence is `present` where p_per > p_maj (proposition 7).
    This is no test of independence: in unbalanced classes a weak dependence, and always a negative one,
    leaves the majority ahead. And 100 labels are few: the test finds dependence in 97% of Elec2's samples of
    this size, and in 13% of them when Elec2 is shuffled.

    >>> import numpy as np
    >>> recent = RecentDependence(size=5)
    >>> recent.update_many(np.array([7, 0, 0, 1, 1, 1]))
    >>> recent.test()
    FirstOrder(p_maj=0.6, p_per=0.75, present=True)
    """

    def __init__(self, size: int = _SAMPLE) -> None:
        self.size = size
        self._labels: deque[int] = deque(maxlen=size)

    def update_many(self, labels: Ints) -> None:
        """Add labels, (n,) class codes, in order."""
        self._labels.extend(labels[-self.size :].tolist())

    def test(self) -> FirstOrder | None:
        """The test's result; None before there are `size` labels."""
        labels = self._labels
        if len(labels) < self.size:
            return None
        p_maj = max(Counter(labels).values()) / self.size
        p_per = sum(a == b for a, b in pairwise(labels)) / (self.size - 1)
        return FirstOrder(p_maj, p_per, p_per > p_maj)

    def snapshot(self) -> list[int]:
        """The latest labels, at most `size` of them, in order."""
        return list(self._labels)

    def restore(self, state: Iterable[int]) -> None:
        """Restore from a snapshot; from one with a larger `size`, only the latest labels."""
        self._labels = deque(state, maxlen=self.size)


class LabelDependence:
    """Transitions, increments up to `order`, and the test on recent labels, of one sequence of labels.

    >>> import numpy as np
    >>> dependence = LabelDependence(order=1)
    >>> dependence.update_many(np.array([0, 0, 0, 1, 1]))
    >>> found = dependence.report(["UP", "DOWN"])
    >>> found["majority_share"], found["persistence"], found["repeat"], found["increments"]["UP"]
    (0.6, 0.75, {'UP': 0.666..., 'DOWN': 1.0}, [0.0666...])
    """

    def __init__(self, order: int) -> None:
        self._transitions = Transitions()
        self._increments = Increments(order)
        self._recent = RecentDependence()

    def update_many(self, labels: Ints) -> None:
        """Add the next labels, (n,) int64 class codes in the order of outcomes."""
        self._transitions.update_many(labels)
        self._increments.update_many(labels)
        self._recent.update_many(labels)

    def report(self, names: list[str]) -> dict[str, Any]:
        """The dependence of the labels, as messages have it, without values that aren't defined yet.

        These are `majority_share` and `persistence` (shares), `repeat` and `increments` by class (`names` by
        code), and `recent`, the test on the latest labels.
        """
        report: dict[str, Any] = {
            "majority_share": self._transitions.majority_share,
            "persistence": self._transitions.persistence,
        }
        repeats = {name: self._transitions.repeat(code) for code, name in enumerate(names)}
        report["repeat"] = {name: value for name, value in repeats.items() if value is not None}
        increments = {name: self._increments.values(code) for code, name in enumerate(names)}
        # The highest orders aren't defined until as many labels of the class have come in a row.
        defined = {name: [v for v in values if v is not None] for name, values in increments.items()}
        report["increments"] = {name: values for name, values in defined.items() if values}
        test = self._recent.test()
        if test is not None:
            report["recent"] = test._asdict()
        return {name: value for name, value in report.items() if value is not None}

    def snapshot(self) -> list[object]:
        """The snapshots of transitions, increments and recent labels, for `restore`."""
        return [self._transitions.snapshot(), self._increments.snapshot(), self._recent.snapshot()]

    def restore(self, state: Any) -> None:
        """Restore the state from a snapshot that was made with the same order."""
        transitions, increments, recent = state
        self._transitions.restore(transitions)
        self._increments.restore(increments)
        self._recent.restore(recent)
