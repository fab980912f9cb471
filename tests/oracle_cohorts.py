"""Cohorts of predictions, values that wait for them, and blocks of values: by definition."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

OPEN, LEAST, LENGTHS = 32, 6, 16

DAY = 86_400_000


class Place(NamedTuple):
    """Where an outcome's prediction lies in its stream's timeline, now that its label is there."""

    cohort: int | None = None  # None: it was closed before …
    epoch: int = 0
    frontier: int = 0  # cohorts before this one are closed
    late: int | None = None  # … and its cluster began then, ms
    ts: int | None = None  # of the prediction


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
    configured: int | None = None  # length of clusters, ms; None: `auto`; 0: `off`
    oldest: int | None = None
    outcomes: int = 0  # labelled instances
    cluster: int | None = None  # length of clusters now; None: cohorts go by the number of predictions
    span: int = 0  # … and of a cohort
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

    def place_of(self, ts: int) -> Place:
        """Where a prediction of this time lies, before anything is closed."""
        number = self.number_of(ts)
        late = None if self.cluster is None or number is not None else ts // self.cluster * self.cluster
        return Place(number, self.epoch, self.first, late, ts)

    def find_length(self) -> None:
        """Clusters have the configured length, or are days once there are 20 with 8 labelled instances."""
        cluster = self.configured or (DAY if self.cluster == DAY and self.configured is None else None)
        if self.configured is None and self.newest is not None and self.oldest is not None:
            days = (self.newest - self.oldest) / DAY
            if days >= 20 and self.outcomes >= 8 * days:
                cluster = DAY
        if cluster != self.cluster:
            self.cluster, self.span = cluster, cluster or 0

    def _is_full(self, ts: int) -> bool:
        """Whether the newest cohort takes no later prediction of this time."""
        if self.cluster is None:
            return self.cohorts[-1].made >= 2**self.epoch
        return ts - self.cohorts[-1].begin >= self.span

    def _open(self, ts: int) -> None:
        begin = ts if self.cluster is None else ts // self.cluster * self.cluster
        self.cohorts.append(Cohort(begin if self.closed is None else max(begin, self.closed + 1)))

    def follow(self, kind: str, ts: int, clock: int) -> None:
        """Something became of a prediction."""
        if kind == "waits":
            if self.oldest is None:
                self.find_length()
            self.oldest = ts if self.oldest is None else min(self.oldest, ts)
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
        newest, self.newest = self.newest, ts if self.newest is None else max(self.newest, ts)
        if not self.cohorts:
            self._open(ts)
            return
        assert newest is not None
        later = ts > newest if self.cluster is None else ts // self.cluster > newest // self.cluster
        if not later or not self._is_full(ts):
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
            self.span *= 2
        if self.cohorts and not self._is_full(ts):
            self.cohorts[-1].made += 1
        else:
            self._open(ts)

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
            if last and not aged and (self.cluster is not None or cohort.made < 2**self.epoch):
                break
            if aged or all_known:
                self.old.append((cohort.made, cohort.met))
            self.closed = end
            self.cohorts = self.cohorts[1:]
            self.first += 1
        return self.first


Sums = tuple[int, float, float]  # outcomes, Σ d, Σ d²

Value = tuple[float, int]  # and its cluster


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
        if of_values <= 1e-9 * squares or spread <= 0:
            continue
        r = (math.fsum(x * y for x, y in pairwise(b)) - total * total / k) / spread - k**-0.5
        r = min(0.9, max(0.0, r))
        found.append(spread / of_values * (1 + 3 / k) * (1 + r) / (1 - r))
    return max(found) if 2 * known >= n else None


@dataclass
class Waiting:
    """Values of a sequence that don't count yet, by cohort."""

    epoch: int | None = None
    pending: dict[int, list[Value]] = field(default_factory=dict)
    late: list[Value] = field(default_factory=list)  # whose clusters were closed before
    clusters: list[int] = field(default_factory=list)  # newest ones of the cohorts that `add` has returned
    newest_late: int = 0  # begin of the newest of these clusters

    def add(self, x: float, at: Place, cluster: int = 0) -> list[Sums]:
        """Take a value of a cluster (0: it has none): the cohorts that count since."""
        cohorts = self._cohorts((x, cluster), at)
        self.clusters = [max(number for _, number in values) for values in cohorts]
        return [_sums([x for x, _ in values]) for values in cohorts]

    def _cohorts(self, value: Value, at: Place) -> list[list[Value]]:
        while self.epoch is not None and self.epoch < at.epoch:
            pending: dict[int, list[Value]] = {}
            for number, values in sorted(self.pending.items()):
                pending.setdefault(number // 2, []).extend(values)
            self.pending = pending
            self.epoch += 1
        self.epoch = at.epoch
        if at.cohort is not None:
            self.pending.setdefault(at.cohort, []).append(value)
        found = []
        for number in sorted(self.pending):
            if number < at.frontier:
                found.append(self.pending.pop(number))
        if at.cohort is not None:
            return found
        if at.late is not None and at.late > self.newest_late:
            if self.late:
                found.append(self.late)
            self.late, self.newest_late = [], at.late
        self.late.append(value)
        if at.late is None:
            found.append(self.late)
            self.late = []
        return found


def _sums(values: list[float]) -> Sums:
    return len(values), math.fsum(values), math.fsum(x * x for x in values)
