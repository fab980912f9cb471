"""The oracle's verdicts: both bounds of blocks of outcomes, by definition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from oracle_cohorts import LENGTHS, Place, Sums, Waiting, added, blocks_of, inflation
from oracle_comparisons import Joint
from scipy import optimize

FEWEST, STRIDE, PRIOR = 100, 8, 20


def local_inflation(blocks: list[list[Sums]], n: int) -> float | None:
    """The same by differences of neighbours."""
    found, known = [1.0], 0
    for of_length in blocks:
        k = len(of_length)
        if k < 16:
            continue
        values, total, squares = added(of_length)
        known = max(known, values)
        of_values = squares - total * total / values
        if of_values > 1e-9 * squares:
            b = [one[1] for one in of_length]
            apart = math.fsum(x * x for x in b) - math.fsum(x * y for x, y in pairwise(b))
            found.append(apart / of_values * (1 + 2 / math.sqrt(k)))
    return max(found) if 2 * known >= n else None


def radius(v: float, level: float) -> float:
    """The s where the bound is."""
    return math.sqrt((v + 40) * math.log((v + 40) / 40 / level**2))


def bound_of_ratio(k: int, level: float) -> float:
    """The S²/V of k clusters where the mixture of t-tests is 1/level."""
    return (k + 1) * (1 - (level**2 / (k + 1)) ** (1 / k))


def leader(s: float, wide: float) -> str:
    """Who is better, by a sum and where its bound is."""
    return "undecided" if abs(s) < wide else "b_better" if s > 0 else "a_better"


@dataclass
class Sequence:
    """Of one pair: what was counted, and what was decided by it."""

    level: float
    signs: bool = True
    length: int | None = None  # of a cluster, ms; None: there are none
    margin_of_equivalence: float = 0.0
    n: int = 0
    largest: float = 0.0
    judged_largest: float = 0.0
    largest_by_cluster: float = 0.0
    waiting: Waiting = field(default_factory=Waiting)
    counted: list[Sums] = field(default_factory=list)  # cohort by cohort
    judged: int = 0
    f: float | None = None
    verdict: str = "undecided"
    since: int | None = None
    alone: str = "undecided"
    interval: tuple[float, float] | None = None
    effective: float = 0.0
    margin: float = 1.0  # how far from its bound the sum was
    judged_sums: Sums = (0, 0.0, 0.0)
    recent: str = "undecided"
    before: int = 0
    kept: list[Sums] = field(default_factory=list)  # from before the change was confirmed
    new: list[Sums] = field(default_factory=list)  # … and since
    f_at_change: float | None = None
    clusters: list[Sums] = field(default_factory=list)  # that are over
    open: list[Sums] = field(default_factory=list)  # cohorts of the newest cluster
    newest: int = 0  # its number

    def __post_init__(self) -> None:
        self.interval = self._widest()
        self.largest = float(self.signs)

    def _widest(self) -> tuple[float, float] | None:
        return (-1.0, 1.0) if self.signs else None

    def step(self, difference: float, at: Place) -> None:
        """The next outcome."""
        self.n += 1
        self.largest = max(self.largest, abs(difference))
        cluster = 0 if self.length is None else 1 + (at.ts or 0) // self.length
        closed = self.waiting.add(difference, at, cluster)
        before = self.counted_n()
        self.counted += closed
        over = self._clusters_over(closed) if cluster else []
        self.new += over if cluster else closed
        due = self.counted_n() // STRIDE != self.judged // STRIDE
        if due:
            self._judge()
        if over:
            self.clusters += over
            self.largest_by_cluster = self.largest
        if due or over:
            self._decide()
        if over or (not cluster and closed and self.judged == self.counted_n() and self.judged != before):
            self._forget()

    def _clusters_over(self, closed: list[Sums]) -> list[Sums]:
        found = []
        for cohort, number in zip(closed, self.waiting.clusters):
            if number > self.newest:
                found += [added(self.open)] if self.open else []
                self.open, self.newest = [], number
            self.open.append(cohort)
        return found

    def counted_n(self) -> int:
        """Outcomes that count."""
        return added(self.counted)[0]

    def _judge(self) -> None:
        n, _, _ = added(self.counted)
        self.judged, self.f = n, inflation(blocks_of(self.counted), n)
        self.judged_largest, self.judged_sums = self.largest, added(self.counted)
        if self.f is not None:
            self.f *= 1 + 0.4 * min(1, max(0, n / 1_000 - 1))

    def _decide(self) -> None:
        self.interval, self.effective, self.alone = self._widest(), 0.0, "undecided"
        n, s, v = self.judged_sums
        b = self.judged_largest
        if self.f is not None and b > 0:
            self.effective = n / self.f
            if n >= FEWEST:
                wide = self.f * b * radius(v / self.f / b / b, self.level)
                self.margin = abs(abs(s) - wide) / wide
                self.alone = leader(s, wide)
                self.interval = self._within((s - wide) / n, (s + wide) / n)
        verdict = self.alone
        if self.length is not None:
            verdict = self._by_clusters()
        within = self.margin_of_equivalence
        if within and self.interval and -within <= self.interval[0] <= self.interval[1] <= within:
            verdict = "equivalent"
        if verdict != self.verdict:
            self.verdict, self.since = verdict, self.n if verdict != "undecided" else None

    def _within(self, low: float, high: float) -> tuple[float, float]:
        return (max(-1.0, low), min(1.0, high)) if self.signs else (low, high)

    def dependence(self) -> float:
        """The factor of clusters that depend on their neighbours."""
        k, (n, s, _) = len(self.clusters), added(self.clusters)
        apart = [total - s / n * count for count, total, _ in self.clusters]
        spread = math.fsum(x * x for x in apart)
        if spread <= 1e-9 * math.fsum(total * total for _, total, _ in self.clusters):
            return 1.0
        r = min(0.9, max(0.0, math.fsum(x * y for x, y in pairwise(apart)) / spread + 2 / k))
        return (1 + r) / (1 - r)

    def _by_clusters(self) -> str:
        self.interval, self.effective, k = self._widest(), 0.0, len(self.clusters)
        if k < 8 or not self.largest_by_cluster:
            return "undecided"
        n, s, v = added(self.clusters)
        factor = self.dependence()
        g, sizes = factor * bound_of_ratio(k, self.level), math.fsum(one[0] ** 2 for one in self.clusters)
        if n * n <= g * sizes:
            return "undecided"

        def excess(mean: float) -> float:
            """Beyond the bound above 0, if the mean difference is this one."""
            apart = [total - mean * count for count, total, _ in self.clusters]
            return math.fsum(apart) ** 2 - g * math.fsum(x * x for x in apart)

        mean, b = s / n, self.largest_by_cluster
        reach = 1.0 + abs(mean)
        while excess(mean - reach) < 0 or excess(mean + reach) < 0:
            reach *= 2
        low = optimize.brentq(excess, mean - reach, mean, xtol=1e-14)
        high = optimize.brentq(excess, mean, mean + reach, xtol=1e-14)
        wide = b * radius(v / b / b, self.level) / n
        low, high = min(low, mean - wide), max(high, mean + wide)
        self.interval = self._within(low, high)
        self.margin = min(abs(low), abs(high)) / (high - low)
        alone = v - s * s / n
        if alone > 0:
            between = math.fsum((total - mean * count) ** 2 for count, total, _ in self.clusters)
            between = 0.0 if factor == 1.0 and between <= 1e-9 * v else between
            self.effective = n / max(1.0, factor * between * k / (k - 1) / alone)
        else:
            self.effective = float(n)
        return "b_better" if low > 0 else "a_better" if high < 0 else "undecided"

    def _marks(self) -> list[tuple[float, int]]:
        """Sums of deviations, with how many cohorts there were: before the latest multiples of 2^j; now."""
        deviation = 0.0
        n, s, _ = added(self.kept)
        path = [(n, deviation, len(self.kept))]
        for i, (count, total, _) in enumerate(self.new, 1):
            deviation += total - count * s / (n + PRIOR)
            n, s = n + count, s + total
            path.append((n, deviation, len(self.kept) + i))
        found = []
        for j in range(LENGTHS):
            passed = [path[0]] * 2 + [y for x, y in pairwise(path) if x[0] >> j != y[0] >> j]
            found.append(passed[-2][1:])
        return [*found, path[-1][1:]]

    def _forget(self) -> None:
        cohorts, blocks, b = self.kept + self.new, blocks_of(self.new), self.largest
        n, _, v = added(cohorts)
        least = n if self.f_at_change is None else min(n, 2 * FEWEST)
        f = local_inflation(blocks, least) or self.f_at_change
        if f is not None and n >= FEWEST and b > 0:
            *marks, (now, _) = self._marks()
            best = 0.0, 0
            for deviation, at in marks:
                since, _, v_since = added(cohorts[at:])
                s = abs(now - deviation)
                if 2 * since < FEWEST or s * s / (v_since + b * b) <= best[0] * (1 + 1e-9):
                    continue
                if s >= f * b * radius(v_since / f / b / b, self.level / (1 + v / f / b / b)):
                    best = s * s / (v_since + b * b), at
            if best[0]:
                at = best[1]
                self.before += added(cohorts[:at])[0]
                self.kept, self.new, self.f_at_change = cohorts[at:], [], f
        self.recent = self._recently(least) if b > 0 else "undecided"

    def _recently(self, least: int) -> str:
        cohorts, b = self.kept + self.new, self.largest
        n, s, v = added(cohorts)
        if self.length is not None:
            k, squares = len(cohorts), math.fsum(total * total for _, total, _ in cohorts)
            if k < 8:
                return "undecided"
            g = self.dependence() * bound_of_ratio(k, self.level)
            if g >= k or s * s < g * squares:
                return "undecided"
            return leader(s, b * radius(v / b / b, self.level))
        f = inflation(blocks_of(self.new), least) or self.f_at_change
        if f is None or n < FEWEST:
            return "undecided"
        return leader(s, f * b * radius(v / f / b / b, self.level))


def states(joint: list[Joint], sequence: Sequence) -> Iterator[Sequence]:
    """A stream's only pair, after each of its outcomes."""
    for one in joint:
        assert one.a is not None
        assert one.b is not None
        sequence.step(one.a - one.b, one.at.place)
        yield sequence
