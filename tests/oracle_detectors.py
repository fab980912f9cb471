"""Detectors for the test oracle, each by its definition over the values since its last alarm.

Each has `add(x)`, which returns the alarm's statistic and threshold, or None; after an alarm it begins anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any

from oracle_cohorts import Place, Sums, Waiting, added, blocks_of, inflation

Alarm = tuple[float, float]


class Test:
    """What looks at all values since the last alarm, `seen`, the newest last."""

    def __init__(self, params: Mapping[str, Any], seed: int) -> None:
        self.params, self.seed = params, seed
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self.seen: list[float] = []

    def add(self, x: float) -> Alarm | None:
        """The alarm, if x raises one."""
        self.seen.append(max(-1e100, min(1e100, x)))
        alarm = self.look()
        if alarm is not None:
            self.restart()
        return alarm

    def look(self) -> Alarm | None:
        """The alarm, if there is one now."""
        raise NotImplementedError


class Adwin(Test):
    """Windows of buckets: sizes are powers of two, and no more than `max_buckets` of one size."""

    def look(self) -> Alarm | None:
        given = {
            "delta": 0.002, "clock": 32, "max_buckets": 5, "min_window_length": 5, "grace_period": 10,
            **self.params,
        }  # fmt: skip
        n = len(self.seen)
        if n < 2 or n % given["clock"] or n <= given["grace_period"]:
            return None
        variance = statistics.pvariance(map(Fraction, self.seen))
        strict = math.log(2 * math.log(n) / given["delta"])
        for vector in self.boundaries(n, given["max_buckets"]):
            left, right = self.seen[:vector], self.seen[vector:]
            least = given["min_window_length"]
            if min(len(left), len(right)) >= least:
                off = abs(math.fsum(left) / len(left) - math.fsum(right) / len(right))
                m = 1 / (len(left) - least + 1) + 1 / (len(right) - least + 1)
                bound = math.sqrt(2 * m * float(variance) * strict) + 2 / 3 * strict * m
                if off > bound:
                    return off, bound
        return None

    @staticmethod
    def boundaries(n: int, most: int) -> list[int]:
        """Where buckets of n values meet.

        >>> Adwin.boundaries(9, 2)  # of sizes 4, 2, 2, 1
        [4, 6, 8]
        """
        sizes: list[int] = []  # the newest first
        for _ in range(n):
            sizes.insert(0, 1)
            size = 1
            while sizes.count(size) > most:
                last = len(sizes) - 1 - sizes[::-1].index(size)
                sizes[last - 1 : last + 1] = [2 * size]
                size *= 2
        return [sum(sizes[place:]) for place in range(len(sizes) - 1, 0, -1)]


class Ddm(Test):
    """The error rate against its best."""

    def restart(self) -> None:
        super().restart()
        self.best: tuple[float, float] | None = None

    def look(self) -> Alarm | None:
        n = len(self.seen)
        if n <= self.params.get("warm_start", 30):
            return None
        p = sum(self.seen) / n
        s = math.sqrt(p * (1 - p) / n)
        if self.best is None or p + s <= sum(self.best):
            self.best = p, s
        bound = self.best[0] + self.params.get("drift_threshold", 3.0) * self.best[1]
        return (p + s, bound) if p + s > bound else None


class Eddm(Test):
    """Distances between errors."""

    def restart(self) -> None:
        super().restart()
        self.largest = 0.0

    def look(self) -> Alarm | None:
        least = self.params.get("warm_start", 30)
        if not self.seen[-1] or len(self.seen) <= least:
            return None
        errors = [0, *(place for place, x in enumerate(self.seen, start=1) if x)]
        distances = [after - before for before, after in pairwise(errors)]
        reach = statistics.fmean(distances)
        if len(distances) > 1:
            reach += 2 * statistics.stdev(distances)
        if reach > self.largest:
            self.largest = reach
            return None
        level, beta = reach / self.largest, self.params.get("beta", 0.9)
        return (level, beta) if level < beta and len(distances) > least else None


class HddmA(Test):
    """Hoeffding's bounds for the mean up to the best cut, and for its difference from that of all."""

    def look(self) -> Alarm | None:
        confidence = self.params.get("drift_confidence", 0.001)
        both = self.params.get("two_sided_test", False)
        for sign in (1, -1) if both else (1,):
            x = [sign * value for value in self.seen]
            n, total, vector, lowest = len(x), 0.0, 0, math.inf
            for m, value in enumerate(x, start=1):
                total += value
                upper = total / m + math.sqrt(math.log(1 / confidence) / (2 * m))
                if upper <= lowest:
                    lowest, vector = upper, m
            if vector < n:
                off = sum(x) / n - sum(x[:vector]) / vector
                bound = math.sqrt((1 / vector - 1 / n) / 2 * math.log(2 / confidence))
                if off >= bound:
                    return off, bound
        return None


class HddmW(Test):
    """McDiarmid's bounds for exponentially weighted means before and after the best cut."""

    def look(self) -> Alarm | None:
        confidence = self.params.get("drift_confidence", 0.001)
        both = self.params.get("two_sided_test", False)
        for sign in (1, -1) if both else (1,):
            x = [sign * value for value in self.seen]
            vector, lowest = 0, math.inf
            for m, (mean, squares) in enumerate(self.weighted(x), start=1):
                upper = mean + math.sqrt(squares * math.log(1 / confidence) / 2)
                if upper < lowest:
                    lowest, vector = upper, m
            if vector < len(x):
                before, of_before = self.weighted(x[:vector])[-1]
                after, of_after = self.weighted(x[vector:])[-1]
                bound = math.sqrt((of_before + of_after) * math.log(1 / confidence) / 2)
                if after - before > bound:
                    return after - before, bound
        return None

    def weighted(self, x: list[float]) -> list[tuple[float, float]]:
        """The mean after each value, and the sum of squared weights, which begins with 1."""
        weight, found = self.params.get("lambda_val", 0.05), list[tuple[float, float]]()
        squares = 1.0
        for value in x:
            mean = weight * value + (1 - weight) * found[-1][0] if found else value
            squares = weight**2 + (1 - weight) ** 2 * squares
            found.append((mean, squares))
        return found


class Kswin(Test):
    """Newest values against a sample of those before."""

    def restart(self) -> None:
        super().restart()
        self.r = 1 + self.seed % (2**31 - 2)

    def look(self) -> Alarm | None:
        alpha = self.params.get("alpha", 0.005)
        size, count = self.params.get("window_size", 100), self.params.get("stat_size", 30)
        if len(self.seen) < size:
            return None
        window = self.seen[-size:]
        older, newest, sample = window[:-count], window[-count:], list[float]()
        for left, value in zip(range(len(older), 0, -1), older):
            self.r = self.r * 48_271 % (2**31 - 1)
            if Fraction(self.r, 2**31 - 1) * left < count - len(sample):
                sample.append(value)
        apart = max(abs(sum(x <= edge for x in sample) - sum(x <= edge for x in newest)) for edge in window)
        if apart / count <= 0.1:
            return None
        p = 2 * sum(
            (-1) ** (k - 1) * Fraction(math.comb(2 * count, count - k * apart), math.comb(2 * count, count))
            for k in range(1, count // apart + 1)
        )
        return (float(p), alpha) if p <= alpha else None


class Cusum(Test):
    """Sums of deviations in standard deviations of the values before."""

    def restart(self) -> None:
        super().restart()
        self.up = self.down = 0.0

    def look(self) -> Alarm | None:
        *before, value = self.seen
        k, h = self.params.get("k", 0.1), self.params.get("h", 60.0)
        if len(before) < self.params.get("min_outcomes", 30):
            return None
        mean, z = statistics.fmean(before), 0.0
        spread = statistics.stdev(before) * math.sqrt(1 + 1 / len(before))
        if spread > 1e-12 * abs(mean):
            z = max(-10.0, min(10.0, (value - mean) / spread))
        self.up, self.down = max(0.0, self.up + z - k), max(0.0, self.down - z - k)
        direction = self.params.get("direction", "increase")
        sums = {"increase": self.up, "decrease": self.down, "both": max(self.up, self.down)}
        return (sums[direction], h) if sums[direction] > h else None


LIMITS = {
    100: {0: 2.76, 1: -6.23, 3: 18.12, 5: -312.45, 7: 1002.18},
    400: {0: 3.97, 1: -6.56, 3: 48.73, 5: -330.13, 7: 848.18},
}


class Ecdd(Test):
    """Exponentially weighted error rate."""

    def look(self) -> Alarm | None:
        n, p = len(self.seen), sum(self.seen) / len(self.seen)
        if n < self.params.get("min_outcomes", 30):
            return None
        z = sum(0.2 * 0.8**age * x for age, x in enumerate(reversed(self.seen)))
        spread = math.sqrt(p * (1 - p) * 0.2 / 1.8 * (1 - 0.64**n))
        limits = LIMITS[self.params.get("average_run_length", 400)]
        bound = p + spread * sum(c * p**power for power, c in limits.items())
        return (z, bound) if z > bound else None


def plus(one: Sums, other: Sums) -> Sums:
    """Two of them together."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


class Harm(Test):
    """Risk above what was agreed: of all values, and since ranges of 2,000 and more were full."""

    REST, FEWEST = 1_000, 100

    def __init__(self, params: Mapping[str, Any], seed: int) -> None:
        self.before = [0, 0, 0, 0]  # tests by range
        self.reference: list[Sums] = []
        self.theta = 0.0 if params.get("reference", 0) else params.get("bound", 0.1)
        self.resting = False
        self.waiting = Waiting()
        super().__init__(params, seed)
        self.theta += self.params.get("tolerance", 0.0) if self.theta else 0.0

    def restart(self) -> None:
        super().restart()
        self.rested: Sums = 0, 0.0, 0.0
        self.ranges: list[list[Sums]] = [[], [], [], []]  # cohorts of d = x/θ - 1
        self.totals: list[Sums] = [(0, 0.0, 0.0)] * 4  # of the ranges
        self.known: list[float | None] = []  # f of all when their number had doubled …
        self.known_n = 0  # … to this at last

    def add(self, x: float) -> Alarm | None:
        """The alarm, if x raises one; it counts at once."""
        return self.add_at(x, Place())

    def add_at(self, x: float, place: Place) -> Alarm | None:
        """The same of a prediction at this place."""
        found = None
        for cohort in self.waiting.add(min(max(x, 0.0), 1e100), place):
            found = self.count(cohort, found is None) or found
        return found

    def count(self, cohort: Sums, look: bool) -> Alarm | None:
        """A cohort of losses counts."""
        if not self.theta:
            self.reference.append(cohort)
            self.refer()
            return None
        n, x, x2 = cohort
        if self.resting:
            self.rested = plus(self.rested, cohort)
            if self.rested[0] >= self.REST:
                self.resting = self.rested[1] / self.rested[0] > self.theta
                self.restart()
            return None
        of_d = n, x / self.theta - n, x2 / self.theta**2 - 2 * x / self.theta + n
        for own in self.ranges:
            own.append(of_d)
        self.totals = [plus(total, of_d) for total in self.totals]
        found = [one for r in range(4) if look and (one := self.of_range(r)) is not None]
        if found:
            self.before = [one + 1 for one in self.before]
            self.resting = True
            self.restart()
            return max(found), self.theta
        n = self.totals[0][0]
        if n >= max(512, 2 * self.known_n):
            self.known_n = n
            self.known.append(inflation(blocks_of(self.ranges[0]), n))
        for r in range(1, 4):
            if self.totals[r][0] >= 8 ** (r - 1) * self.params.get("restart", 2_000):
                self.ranges[r], self.totals[r] = [], (0, 0.0, 0.0)
                self.before[r] += 1
        return None

    def of_range(self, r: int) -> float | None:
        """The lower bound of the mean of a range, if it is above θ."""
        theta, restart = self.theta, self.params.get("restart", 2_000)
        level, scale = self.params.get("level", 0.01), self.params.get("scale", 1.0)
        n, s, v = self.totals[r]
        if n < self.FEWEST or s <= 0 or (r and not restart):
            return None
        share = ((1 / 6 if r else 1 / 2) if restart else 1) * (0.5 if self.reference else 1)
        alpha = share * level / ((self.before[r] + 1) * (self.before[r] + 2))
        rho = 8 * max(1.0, (scale / theta) ** 2)
        start = math.lgamma(rho) + rho - rho * math.log(rho)
        normed = math.log(1.0001) + math.log(0.5 + 1 / (3 * math.sqrt(2 * math.pi * rho))) + start

        def beyond(s: float, v: float) -> bool:
            a, x = v + rho, v + rho + s
            of_s = math.lgamma(a) - a * math.log(x) + x
            return of_s >= math.log(math.exp(normed) / alpha + 1 / (s + 1))

        if not beyond(s, v):
            return None  # nor is it with any f above 1
        f = inflation(blocks_of(self.ranges[r]), n)
        if f is not None:
            f = min([f, *(known for known in self.known[-2:] if known is not None)])
        if f is None or not beyond(s / f, v / f):
            return None
        below, above = 0.0, s / f
        for _ in range(100):
            middle = (below + above) / 2
            below, above = (below, middle) if beyond(middle, v / f) else (middle, above)
        return theta + theta * (s / f - above) * f / n

    def refer(self) -> None:
        """The upper bound of the risk of the reference period, once it is over."""
        scale = self.params.get("scale", 1.0)
        x = [(n, total / scale, squares / scale**2) for n, total, squares in self.reference]
        n, total, _ = added(x)
        f = inflation(blocks_of(x), n)
        if n < self.params["reference"] or f is None:
            return
        mean, alpha = min(1.0, total / n), self.params.get("level", 0.01) / 2
        below, above = mean, 1.0
        for _ in range(100):
            p = (below + above) / 2
            apart = sum(a * math.log(a / b) for a, b in ((mean, p), (1 - mean, 1 - p)) if a > 0 and b > 0)
            below, above = (p, above) if n / f * apart <= -math.log(alpha) else (below, p)
        self.theta = scale * above + self.params.get("tolerance", 0.0)


class PageHinkley(Test):
    """In either direction, or both (the contract's is in `oracle_detection`)."""

    def look(self) -> Alarm | None:
        raise NotImplementedError  # see `add`

    def restart(self) -> None:
        super().restart()
        self.sums: dict[int, list[float]] = {1: [0.0], -1: [0.0]}
        self.total = 0.0

    def add(self, x: float) -> Alarm | None:
        self.seen.append(x)
        self.total += x
        t = len(self.seen)
        for sign, m in self.sums.items():
            m.append(m[-1] + sign * (x - self.total / t) - self.params.get("delta", 0.005))
        direction, threshold = self.params["direction"], self.params.get("lambda", 50.0)
        signs = {"increase": (1,), "decrease": (-1,), "both": (1, -1)}[direction]
        statistic = max(self.sums[sign][-1] - min(self.sums[sign]) for sign in signs)
        if statistic > threshold and t >= self.params.get("min_outcomes", 30):
            self.restart()
            return statistic, threshold
        return None


def variance_by_clusters(losses: Sequence[float], keys: Sequence[int]) -> float:
    """The long-run variance of losses by clusters, of equal keys, as `detectors.budgets` defines it.

    The newest cluster isn't closed. 0: there are too few with enough losses.
    """
    groups = [[losses[i] for i in own] for _, own in groupby(range(len(keys)), keys.__getitem__)][:-1]
    groups = [group for group in groups if len(group) >= 8]
    if len(groups) < 20:
        return 0.0
    means = [statistics.fmean(group) for group in groups]
    one, two = (statistics.fmean((y - x) ** 2 for x, y in zip(means, means[n:])) for n in (1, 2))
    r = min(0.8, max(0.0, two / one - 1))
    size = statistics.fmean(map(len, groups))
    return size * one / 2 * (1 + r) / (1 - r) ** 2 / (1 + 6 / len(means) ** 0.5)


TESTS: dict[str, type[Test]] = {
    "adwin": Adwin, "ddm": Ddm, "eddm": Eddm, "hddm-a": HddmA, "hddm-w": HddmW, "kswin": Kswin,
    "cusum": Cusum, "ecdd": Ecdd, "harm": Harm, "page-hinkley": PageHinkley,
}  # fmt: skip


def seed_of(*names: str | None) -> int:
    """What random numbers of a sequence begin with: a function of its names."""
    content = json.dumps(names, separators=(",", ":"), ensure_ascii=False).encode()
    return int(hashlib.sha256(content).hexdigest()[:15], 16)
