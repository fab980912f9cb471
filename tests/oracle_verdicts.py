"""The oracle's verdicts: both bounds of blocks of outcomes, by definition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from oracle_cohorts import LENGTHS, Place, Sums, Waiting, added, blocks_of, inflation
from oracle_comparisons import Joint
from scipy import optimize, special

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


def log_mixture(s: float, v: float, rho: float = 8.0) -> float:
    """ln M(s, v) of the bound of losses that aren't 0 or 1, with scipy's incomplete gamma function."""
    a, x = v + rho, s + v + rho
    start = rho * math.log(rho) - special.gammaln(rho) - math.log(special.gammainc(rho, rho)) - rho
    return float(start + special.gammaln(a) + math.log(special.gammainc(a, x)) - a * math.log(x) + x)


def radius(v: float, level: float, signs: bool) -> float:
    """The s where the bound is."""
    if signs:
        return math.sqrt((v + 40) * math.log((v + 40) / 40 / level**2))
    needed = math.log(2 / level)
    return float(optimize.brentq(lambda s: log_mixture(s, v) - needed, 0, 100 * v + 1e4, xtol=1e-12))


def leader(s: float, wide: float) -> str:
    """Who is better, by a sum and where its bound is."""
    return "undecided" if abs(s) < wide else "b_better" if s > 0 else "a_better"


@dataclass
class Sequence:
    """Of one pair: what was counted, and what was decided by it."""

    level: float
    signs: bool = True
    largest: float = 1.0
    n: int = 0
    waiting: Waiting = field(default_factory=Waiting)
    counted: list[Sums] = field(default_factory=list)  # cohort by cohort
    judged: int = 0
    f: float | None = None
    verdict: str = "undecided"
    since: int | None = None
    interval: tuple[float, float] = (-1.0, 1.0)
    effective: float = 0.0
    margin: float = 1.0  # how far from its bound the sum was
    recent: str = "undecided"
    before: int = 0
    kept: list[Sums] = field(default_factory=list)  # from before the change was confirmed
    new: list[Sums] = field(default_factory=list)  # … and since
    f_at_change: float | None = None

    def __post_init__(self) -> None:
        self.interval = -self.largest, self.largest

    def step(self, difference: float, at: Place) -> None:
        """The next outcome."""
        self.n += 1
        closed = self.waiting.add(difference / self.largest, at)
        before = self.counted_n()
        self.counted += closed
        self.new += closed
        if self.counted_n() // STRIDE != self.judged // STRIDE:
            self._judge()
        if closed and self.judged == self.counted_n() and self.judged != before:
            self._forget()

    def counted_n(self) -> int:
        """Outcomes that count."""
        return added(self.counted)[0]

    def _judge(self) -> None:
        n, s, v = added(self.counted)
        self.judged, self.f = n, inflation(blocks_of(self.counted), n)
        if self.f is not None:
            self.f *= 1 + 0.4 * min(1, max(0, n / 1_000 - 1))
        verdict, b = "undecided", self.largest
        self.interval, self.effective = (-b, b), 0.0 if self.f is None else n / self.f
        if self.f is not None and n >= FEWEST:
            wide = self.f * radius(v / self.f, self.level, self.signs)
            self.margin = abs(abs(s) - wide) / wide
            verdict = leader(s, wide)
            self.interval = max(-b, (s - wide) / n * b), min(b, (s + wide) / n * b)
        if verdict != self.verdict:
            self.verdict, self.since = verdict, self.n if verdict != "undecided" else None

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
        cohorts, blocks = self.kept + self.new, blocks_of(self.new)
        n, _, v = added(cohorts)
        least = n if self.f_at_change is None else min(n, 2 * FEWEST)
        f = local_inflation(blocks, least) or self.f_at_change
        if f is not None and n >= FEWEST:
            *marks, (now, _) = self._marks()
            best = 0.0, 0
            for deviation, at in marks:
                since, _, v_since = added(cohorts[at:])
                s = abs(now - deviation)
                if 2 * since < FEWEST or s * s / (v_since + 1) <= best[0] * (1 + 1e-9):
                    continue
                if s >= f * radius(v_since / f, self.level / (1 + v / f), self.signs):
                    best = s * s / (v_since + 1), at
            if best[0]:
                at = best[1]
                self.before += added(cohorts[:at])[0]
                self.kept, self.new, self.f_at_change = cohorts[at:], [], f
        n, s, v = added(self.kept + self.new)
        f = inflation(blocks_of(self.new), least) or self.f_at_change
        self.recent = "undecided"
        if f is not None and n >= FEWEST:
            self.recent = leader(s, f * radius(v / f, self.level, self.signs))


def states(joint: list[Joint], sequence: Sequence) -> Iterator[Sequence]:
    """A stream's only pair, after each of its outcomes."""
    for one in joint:
        assert one.a is not None
        assert one.b is not None
        sequence.step(one.a - one.b, one.at.place)
        yield sequence
