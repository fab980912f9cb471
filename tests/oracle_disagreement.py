"""The oracle's disagreements: how often two models predict differently, and the bound of the share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle import Encounter
from oracle_cohorts import Sums, added, blocks_of, inflation
from oracle_verdicts import Sequence as Verdict
from oracle_verdicts import bound_of_ratio
from scipy import optimize, special


@dataclass
class Pair:
    """Of one pair: its encounters so far."""

    length: int | None = None  # of a cluster, ms; None: there are none
    values: list[float] = field(default_factory=list)
    clusters: list[list[float]] = field(default_factory=list)  # the last one isn't over
    newest: int = 0
    ts: int = 0

    def add(self, encounter: Encounter) -> None:
        """The next encounter."""
        value = float(encounter.differs)
        self.values.append(value)
        self.ts = encounter.ts
        if self.length is not None:
            number = 1 + max(encounter.ts, 0) // self.length
            if number > self.newest:
                self.clusters.append([])
                self.newest = number
            self.clusters[-1].append(value)

    @property
    def share(self) -> float:
        """How often the models differ."""
        return sum(self.values) / len(self.values)

    @property
    def over(self) -> list[Sums]:
        """The clusters that are over."""
        return [(len(values), sum(values), sum(values)) for values in self.clusters[:-1]]

    def at_most(self, level: float, fewest: int) -> float:
        """The bound; `fewest`: clusters from which on it is by clusters."""
        n, x = len(self.values), sum(self.values)
        over = self.over
        few = 1 + 9 / (x + 1)
        if self.length is not None and len(over) >= fewest:
            high = upper_end(over, level)
            return 1.0 if high is None else min(1.0, max(high, upper_bound(n / few, x / few, level)))
        f = inflation(blocks_of((1, value, value) for value in self.values), n)
        if f is None:
            return 1.0
        f *= few
        return upper_bound(n / f, x / f, level)


def upper_bound(n: float, x: float, level: float) -> float:
    """Where the mixture of likelihood ratios over Beta(1/2, 1/2) is 1/level, above x/n."""
    if x >= n:
        return 1.0

    def excess(p: float) -> float:
        mixture = special.betaln(x + 0.5, n - x + 0.5) - math.log(math.pi)
        likelihood = (x * math.log(p) if x else 0.0) + (n - x) * math.log1p(-p)
        return float(mixture - likelihood + math.log(level))

    low = x / n or 1e-300
    return float(optimize.brentq(excess, low, 1 - 1e-15, xtol=1e-14))


def upper_end(over: Sequence[Sums], level: float) -> float | None:
    """The upper end of the interval by clusters; None: there is none."""
    n, s, _ = added(over)
    g = Verdict(level, clusters=list(over)).dependence() * bound_of_ratio(len(over), level)
    if n * n <= g * math.fsum(count * count for count, _, _ in over):
        return None

    def excess(mean: float) -> float:
        apart = [total - mean * count for count, total, _ in over]
        return math.fsum(apart) ** 2 - g * math.fsum(value * value for value in apart)

    reach = 1.0
    while excess(s / n + reach) < 0:
        reach *= 2
    if excess(s / n) >= 0:
        return s / n
    return float(optimize.brentq(excess, s / n, s / n + reach, xtol=1e-14))
