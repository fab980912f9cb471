"""The oracle's verdicts: cohorts of predictions, blocks of outcomes, and both bounds, by definition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from oracle import Result
from oracle_comparisons import Joint
from scipy import optimize, special

OPEN, LEAST, FEWEST, STRIDE, PRIOR = 32, 6, 100, 8, 20
LENGTHS = 16


@dataclass
class Cohort:
    """Predictions that were made about the same time."""

    begin: int
    made: int = 1
    met: int = 0
    expired: int = 0


@dataclass
class Timeline:
    """Of one stream; `kind` of an event is waits, met, late or expired."""

    horizon: int
    cohorts: list[Cohort] = field(default_factory=list)  # that are open
    first: int = 0  # number of the first of them
    epoch: int = 0
    newest: int | None = None
    closed: int | None = None  # up to here
    old: list[tuple[int, int]] = field(default_factory=list)  # made and met, where no more can come

    def number_of(self, ts: int) -> int | None:
        """The number of the open cohort that a prediction of this time is in."""
        places = [place for place, cohort in enumerate(self.cohorts) if cohort.begin <= ts]
        return self.first + places[-1] if places else None

    def follow(self, kind: str, ts: int, clock: int) -> None:
        """Something became of a prediction."""
        if kind == "waits":
            if self.closed is None or ts > self.closed:
                self._add(ts, clock)
            return
        number = self.number_of(ts)
        if number is not None:
            cohort = self.cohorts[number - self.first]
            cohort.met += kind == "met"
            cohort.expired += kind == "expired"
            cohort.made -= kind == "late"

    def _add(self, ts: int, clock: int) -> None:
        size = 2**self.epoch
        newest, self.newest = self.newest, ts if self.newest is None else max(self.newest, ts)
        if not self.cohorts:
            self.cohorts = [Cohort(ts)]
            return
        assert newest is not None
        if ts <= newest or self.cohorts[-1].made < size:
            cohort = next((c for c in reversed(self.cohorts) if c.begin <= ts), self.cohorts[0])
            cohort.made += 1
            cohort.begin = min(cohort.begin, ts)
            return
        if len(self.cohorts) == OPEN:
            self.newest = newest
            self.close(clock)
            self.newest = ts
        if len(self.cohorts) == OPEN:
            by_number: dict[int, list[Cohort]] = {}
            for number, cohort in enumerate(self.cohorts, self.first):
                by_number.setdefault(number // 2, []).append(cohort)
            self.cohorts = [
                Cohort(c[0].begin, sum(x.made for x in c), sum(x.met for x in c), sum(x.expired for x in c))
                for c in by_number.values()
            ]
            self.first //= 2
            self.epoch += 1
        if self.cohorts and self.cohorts[-1].made < 2**self.epoch:
            self.cohorts[-1].made += 1
        else:
            self.cohorts.append(Cohort(ts))

    def close(self, clock: int) -> int:
        """Close what is complete; returns the number of the first open cohort."""
        assert self.newest is not None
        while self.cohorts:
            cohort, last = self.cohorts[0], len(self.cohorts) == 1
            end = self.newest if last else self.cohorts[1].begin - 1
            aged = end < clock - self.horizon
            all_known = cohort.met + cohort.expired >= cohort.made
            made, met = (sum(column) for column in zip(*self.old)) if self.old else (0, 0)
            share = met / made if made else 1.0
            if not (aged or all_known or cohort.met >= 0.95 * share * cohort.made):
                break
            if last and not aged and cohort.made < 2**self.epoch:
                break
            if aged or all_known:
                self.old.append((cohort.made, cohort.met))
            self.closed = end
            self.cohorts = self.cohorts[1:]
            self.first += 1
        return self.first


Sums = tuple[int, float, float]  # outcomes, Σ d, Σ d²


def added(sums: Iterable[Sums]) -> Sums:
    """All of them together."""
    sums = list(sums)
    return sum(one[0] for one in sums), math.fsum(one[1] for one in sums), math.fsum(one[2] for one in sums)


def blocks_of(cohorts: Iterable[Sums]) -> list[list[Sums]]:
    """By j: the blocks of at least 2^j values, and fewer than 2^(j+1), one after the other."""
    found: list[list[Sums]] = [[] for _ in range(LENGTHS)]
    waiting: dict[int, Sums] = {}
    for cohort in cohorts:
        block = cohort
        natural = min(LENGTHS - 1, block[0].bit_length() - 1)
        for j in range(natural):
            block = added([block, waiting.pop(j)]) if j in waiting else block
        j = natural
        while True:
            found[j].append(block)
            if j == LENGTHS - 1:
                break
            if j not in waiting:
                waiting[j] = block
                break
            block = added([waiting.pop(j), block])
            j += 1
    return found


def inflation(blocks: list[list[Sums]], n: int) -> float | None:
    """f of the definition, of n values; None: not known."""
    found, known = [1.0], 0
    for of_length in blocks:
        k = len(of_length)
        if k < LEAST:
            continue
        values, total, squares = added(of_length)
        known = max(known, values)
        b = [one[1] for one in of_length]
        spread = math.fsum(x * x for x in b) - total * total / k
        of_values = squares - total * total / values
        if of_values <= 0 or spread <= 0:
            continue
        r = (math.fsum(x * y for x, y in pairwise(b)) - total * total / k) / spread - k**-0.5
        r = min(0.9, max(0.0, r))
        found.append(spread / of_values * (1 + 3 / k) * (1 + r) / (1 - r))
    return max(found) if 2 * known >= n else None


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
        if of_values > 0:
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
    epoch: int | None = None
    pending: dict[int, list[float]] = field(default_factory=dict)
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

    def step(self, difference: float, cohort: int | None, epoch: int, frontier: int) -> None:
        """The next outcome."""
        self.n += 1
        while self.epoch is not None and self.epoch < epoch:
            pending: dict[int, list[float]] = {}
            for number, values in sorted(self.pending.items()):
                pending.setdefault(number // 2, []).extend(values)
            self.pending = pending
            self.epoch += 1
        self.epoch = epoch
        d = difference / self.largest
        if cohort is not None:
            self.pending.setdefault(cohort, []).append(d)
        closed = []
        for number in sorted(self.pending):
            if number < frontier:
                values = self.pending.pop(number)
                closed.append((len(values), math.fsum(values), math.fsum(x * x for x in values)))
        if cohort is None:
            closed.append((1, d, d * d))
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


def states(
    result: Result, stream: str, joint: list[Joint], horizon: int, sequence: Sequence
) -> Iterator[Sequence]:
    """A stream's only pair, after each of its outcomes."""
    timeline, events = Timeline(horizon), iter(result.events[stream])
    followed = 0
    for one in joint:
        for event in islice(events, one.at.events - followed):
            timeline.follow(*event)
        followed = one.at.events
        cohort = timeline.number_of(one.at.ts)
        assert one.a is not None
        assert one.b is not None
        sequence.step(one.a - one.b, cohort, timeline.epoch, timeline.close(one.at.clock))
        yield sequence
