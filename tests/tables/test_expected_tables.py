"""What is expected of periods, against dicts of counts and the formulas of the reference."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from prequential.engine.delay import calibrating, records
from prequential.engine.delay import expected as engine
from prequential.engine.delay.calendars import PeriodSettings
from prequential.engine.delay.calibrating import PeriodEstimates
from prequential.engine.delay.expected import ExpectedTables, open_rows
from prequential.engine.delay.expecting import look_together
from prequential.engine.delay.following import update
from prequential.engine.measures.registry import INDEX, OF_RANKS
from prequential.engine.output.intervals import scales_of
from prequential.engine.output.pending_estimates import all_waiting
from prequential.engine.tables.logs import EXPIRED, LATE, MET, REVISED, WAITS, Events, new_events
from prequential.engine.tables.outcomes import SCORED
from test_coverage import assert_same, digest_of

from tests.one_model import graded, look, waiting_of

WIDTH, HORIZON = 1_000, 7_000


def events_of(seed: int, rows: int, classes: int) -> tuple[Events, list[int]]:
    """Predictions of one model and what became of them, and the clock at each; 0 classes: numbers."""
    rng = random.Random(seed)
    events, clock, clocks = new_events(rows), 100_000, []
    waiting: list[tuple[int, int, int]] = []
    met: list[int] = []
    for i in range(rows):
        clock += rng.randrange(12)
        clocks.append(clock)
        if met and rng.random() < 0.05:
            former = rng.choice(met)
            for column in (events.ts, events.t1, events.prediction, events.bin):
                column[i] = column[former]
            events.kind[i], events.label[i] = REVISED, events.revised[former]
            events.revised[i] = events.revised[former] = rng.randrange(classes or 1)
        elif waiting and rng.random() < 0.48:
            ts, prediction, b = waiting.pop(rng.randrange(len(waiting)))
            events.ts[i], events.prediction[i], events.bin[i] = ts, prediction, b
            events.kind[i] = rng.choice((MET,) * 8 + (LATE, EXPIRED, EXPIRED))
            right = rng.random() < 0.4 + b / 20
            events.label[i] = prediction if right else rng.randrange(classes or 1)
            events.t1[i] = ts + int(rng.expovariate(1 / (800 if right else 2_500)))
            events.revised[i] = events.label[i]
            events.scored[i] = SCORED if b or not classes else 0
            events.log_loss[i], events.brier[i], events.error[i] = rng.random(), rng.random(), rng.gauss(0, 1)
            if events.kind[i] == MET:
                met.append(i)
        else:
            prediction = i % classes if i < 3 * classes else rng.randrange(classes or 1)
            one = clock - rng.randrange(300), prediction, rng.randrange(11) if classes else 0
            events.kind[i], (events.ts[i], events.prediction[i], events.bin[i]) = WAITS, one
            waiting.append(one)
    return events, clocks


def begun(classes: int, *, sampled: bool = False, at_horizon: int = 0) -> ExpectedTables:
    settings = PeriodSettings(WIDTH, HORIZON, numbers=not classes)
    tables, _ = engine.with_model(
        engine.new_expected(), 0, settings, binned=True, scored=True, sampled=sampled, at_horizon=at_horizon
    )
    return tables


def run(
    events: Events, vectors: list[int], classes: int, *, sampled: bool = False, at_horizon: int = 0
) -> ExpectedTables:
    tables, before = begun(classes, sampled=sampled, at_horizon=at_horizon), 0
    for vector in vectors:
        tables = update(tables, events, before, vector)
        before = vector
    return tables


class Plain:
    """One model, as the documentation has it."""

    #: Whether labels are a sample: what has no label is expected, too, whether it waits or not.
    sampled = False

    #: Whether a class is known at the horizon alone.
    closes = False

    def __init__(self, classes: int) -> None:
        self.merged = classes > 8
        self.size = 2 if self.merged else next(size for size in (1, 2, 4, 8) if size >= classes)
        self.rows = 1 if self.merged else self.size
        self.c: Counter[Any] = Counter()
        self.x: Counter[Any] = Counter()
        self.d: Counter[Any] = Counter()
        self.outcomes = 0
        self.places: dict[int, int] = {}
        #: By period the fate of its predictions: (kind, j, b, k, slot), how many.
        self.periods: defaultdict[int, Counter[Any]] = defaultdict(Counter)
        self.since: int | None = None
        cells = [(j, k) for j in range(self.rows) for k in range(self.size)]
        #: By cell the mean, the variance, that of a step and of a period's own deviation.
        self.levels: Any = {cell: [0.0, 0.05, 0.0005, 0.00175] for cell in cells}
        #: By cell d of final periods with its variance by chance.
        self.finals: Any = {cell: [] for cell in cells}

    def knows(self, clock: int) -> bool:
        """Whether anything is said of what waits."""
        return True

    def place(self, code: int) -> int:
        return self.places.setdefault(code, len(self.places))

    def see(self, events: Events, i: int) -> None:
        kind, prediction, b = int(events.kind[i]), int(events.prediction[i]), int(events.bin[i])
        label, revised, ts = int(events.label[i]), int(events.revised[i]), int(events.ts[i])
        if self.since is None:
            self.since = ts
        if self.merged:
            j, k, new = 0, int(label == prediction), int(revised == prediction)
        elif self.size == 1:
            j = k = new = b = 0
        else:
            j = self.place(prediction)
            k = self.place(label) if kind in (MET, REVISED) else 0
            new = self.place(revised) if kind == REVISED else 0
        slot = ts % WIDTH * 8 // WIDTH
        own = self.periods[ts // WIDTH]
        if kind == WAITS:
            own["made", j, b, slot] += 1
        elif kind == LATE:
            own["made", j, b, slot] -= 1
        elif kind == EXPIRED:
            own["gone", j, b, slot] += 1
            self.x[j, b] += 1
        elif kind == MET:
            own["met", j, b, slot, k] += 1
            self.c[j, b, k] += 1
            delay = (int(events.t1[i]) - ts) / HORIZON
            bucket = sum(_bounds(a)[1] <= delay for a in range(63))
            self.d[j, k, bucket] += not events.at_horizon[i]
            self.outcomes += 1
            if self.outcomes % 256 == 0:
                for counts, memory in ((self.c, 20_000), (self.x, 20_000), (self.d, 10_000)):
                    for name in counts:
                        counts[name] *= (1 - 1 / memory) ** 256  # type: ignore[assignment]
        else:
            # By stratum and by slot alike: the same prediction.
            own["met", j, b, slot, k] -= 1
            own["met", j, b, slot, new] += 1
            moved = min(1.0, self.c[j, b, k])
            self.c[j, b, k] -= moved  # type: ignore[assignment]
            self.c[j, b, new] += moved  # type: ignore[assignment]

    def arrived(self, j: int, k: int, age: float) -> float:
        """F(j, k) at an age, as a share of the horizon."""
        if age >= 1:
            return 1.0
        below = every = 0.0
        for a in range(64):
            low, high = _bounds(a)
            count = self.d[j, k, a] * self.factor(a, 10_000)
            below += count * min(1.0, max(0.0, (age - low) / (high - low)))
            every += count
        return (below + age) / (every + 1)

    def factor(self, a: int, memory: int) -> float:
        """How much longer than a bucket's delays the shortest ones could be seen."""
        assert self.since is not None
        life, delay = self.clock - self.since, HORIZON * sum(_bounds(a)) / 2
        if life <= delay or not self.outcomes:
            return 20.0
        rate = self.outcomes / life / memory
        return min(20.0, math.expm1(-life * rate) / math.expm1(-(life - delay) * rate))

    def expect(self, numbers: list[int], clock: int, closing: bool = False) -> dict[int, Any]:
        """By period the expected matrix, the weight, the scale, and deviations."""
        rows, size, strata = range(self.rows), range(self.size), range(11)
        self.clock = clock
        m, e = self.calibrated()
        levels, found = {cell: list(level) for cell, level in self.levels.items()}, {}
        for number in numbers:
            own, f = self.periods[number], self.arrived_by_slot(number, clock)
            every = [(j, b, slot) for j in rows for b in strata for slot in range(8)]
            labelled = sum(own[("met", *one, k)] for one in every for k in size)
            deviations = self.deviations(number, m, e, f)
            evidence = self.evidence(own, m, e, f, levels)
            trusted = self.trust(own, f, m, levels, labelled)
            f = {place: min(1.0, trusted * share) for place, share in f.items()}
            matrix: dict[Any, float] = {}
            weight = variance = slope = information = waiting = 0.0
            for j in rows:
                right = self.right(j)
                others = [k for k in size if k != right]
                part = _Part(j, own, m, e, f, self.size)
                at_zero = part.slopes([0.0] * self.size)
                slope, information = slope + at_zero[0][right], information + at_zero[1][right]
                for k in others:
                    levels[j, k][1] += levels[j, k][2]
                prior = {k: (levels[j, k][0], levels[j, k][1] + levels[j, k][3]) for k in others}
                d, learned = part.mode(prior)
                if labelled < 5 and not closing and not self.closes:  # neither labels nor absent ones count
                    d, learned = [prior[k][0] if k != right else 0.0 for k in size], [0.0] * self.size
                coming = part.coming(d)
                for k in size:
                    matrix[j, k] = sum(part.met[b, k] + coming[b, k] for b in strata)
                waiting += sum(part.wait.values())
                shares = [learned[k] / (learned[k] + 1 / prior[k][1]) for k in others]
                weight += sum(part.rows.values()) * (sum(shares) / len(shares) if shares else 0.0)
                for k in others:
                    moved = [
                        coming[b, right] * coming[b, k] / sum(coming[b, y] for y in size)
                        for b in strata if sum(coming[b, y] for y in size)
                    ]  # fmt: skip
                    left = 1 / (learned[k] + 1 / prior[k][1])
                    variance += sum(moved) + sum(moved) ** 2 * left
                    self._move(levels[j, k], self.finals[j, k], d[k], learned[k], closing)
            n = sum(matrix.values())
            if n <= 0:
                continue
            concept = slope / math.sqrt(information) if labelled >= 5 and information > 0 else math.nan
            scale = math.sqrt(variance / n**2 + 1e-7)
            found[number] = (
                matrix, weight / (labelled + waiting), scale, (concept, *deviations), evidence
            )  # fmt: skip
        if closing:
            self.levels = levels
        return found

    def evidence(self, own: Any, m: Any, e: Any, f: Any, levels: Any) -> list[float]:
        """Labels by 1/F, predictions that will have one, the variance, and how many should have come."""
        slots, strata, size = range(8), range(11), range(self.size)
        total = due = chance = now = 0.0
        for j in range(self.rows):
            made = [sum(own["made", j, b, slot] for b in strata) for slot in slots]
            odds = [math.exp(levels[j, k][0]) if k != self.right(j) else 1.0 for k in size]
            for k in size if sum(made) else ():
                here = 0.0
                for b in strata:
                    rows = sum(own["made", j, b, slot] for slot in slots) * (1 - e[j, b])
                    here += rows * m[j, b, k] * odds[k] / sum(m[j, b, y] * odds[y] for y in size)
                share = sum(made[slot] * min(1, f[slot, j, k]) for slot in slots) / sum(made)
                came = sum(own["met", j, b, slot, k] for b in strata for slot in slots)
                due, now = due + here, now + here * share
                if share < 0.05 or self.delays_of(j, k) < 1:
                    chance = math.inf
                else:
                    total, chance = total + came / share, chance + max(came, here * share) / share**2
        return [total, due, chance, now]

    def _move(self, level: Any, finals: Any, d: float, learned: float, closing: bool) -> None:
        """Move a level by a period's d."""
        mean, p, step, own = level
        width, off = p + own, d - mean
        if closing and learned > 0.5:
            alone = off * (learned + 1 / width) / learned
            finals.append((mean + max(-3.0, min(3.0, alone)), 1 / learned))
            if len(finals) > 1:
                near, far = _moment(finals, 1, 0.004), _moment(finals, 2, 0.0045)
                step = max(0.02 * near, min(near, far - near))
                own = (near - step) / 2
        gain = p / width
        left = 1 / (learned + 1 / width)
        level[:] = [mean + gain * off, p + gain**2 * (left - width), step, own]

    def trust(self, own: Any, f: Any, m: Any, levels: Any, labelled: int) -> float:
        """How much of F has come, whatever the classes are."""
        rows, size, strata = range(self.rows), range(self.size), range(11)
        if self.size == 1:
            return 1.0
        if labelled < 5:
            return 0.0
        shares = []
        for k in size:
            came = sum(own["met", j, b, slot, k] for j in rows for b in strata for slot in range(8))
            least = sum(self._least(own, f, m, levels, j, k) for j in rows)
            if max(came, least) >= 5:
                shares.append(1.0 if came >= least - 3 * math.sqrt(least) else came / least)
        return max(shares, default=1.0)

    def _least(self, own: Any, f: Any, m: Any, levels: Any, j: int, k: int) -> float:
        """How many labels k of class j there are at least by now."""
        right, size, strata = self.right(j), range(self.size), range(11)
        slots = [
            sum(own["made", j, b, slot] - own["gone", j, b, slot] for b in strata) for slot in range(8)
        ]
        if not sum(slots):
            return 0.0
        share = sum(count * min(1, f[slot, j, k]) for slot, count in enumerate(slots)) / sum(slots)
        odds = [math.exp(levels[j, y][0]) if y != right else 1.0 for y in size]
        lower = [sum(levels[j, y][1:]) for y in size if y != right and k in (right, y)]
        odds[k] *= math.exp(-max(2.0, *(3 * math.sqrt(width) for width in lower), 2.0))
        least = 0.0
        for b in strata:
            here = sum(own["made", j, b, slot] - own["gone", j, b, slot] for slot in range(8))
            least += here * m[j, b, k] * odds[k] / sum(m[j, b, y] * odds[y] for y in size)
        return least * share

    def right(self, j: int) -> int:
        """The label that is right where j is predicted."""
        return j if self.rows == self.size else 1

    def calibrated(self) -> tuple[Any, Any]:
        """m(j, b, k) and e(j, b)."""
        rows, size, strata = range(self.rows), range(self.size), range(11)
        m, e = {}, {}
        for j in rows:
            counts = {(b, k): self.c[j, b, k] * self.counts_as(j, k) for b in strata for k in size}
            by_label = [sum(counts[b, k] for b in strata) for k in size]
            gone = sum(self.x[j, b] for b in strata)
            by_label = [count * self.worth(j, strata) for count in by_label]
            every = sum(by_label)
            for b in strata:
                worth = self.worth(j, [b])
                n = sum(counts[b, k] for k in size) * worth
                e[j, b] = (self.x[j, b] + gone / (gone + every + 1)) / (self.x[j, b] + n + 1)
                for k in size:
                    of_class = (by_label[k] + 1 / self.size) / (every + 1)
                    m[j, b, k] = (counts[b, k] * worth + of_class) / (n + 1)
        return m, e

    def counts_as(self, j: int, k: int) -> float:
        """How many labels one of them counts as."""
        every = sum(self.d[j, k, a] for a in range(64))
        return sum(self.d[j, k, a] * self.factor(a, 20_000) for a in range(64)) / every if every else 1.0

    def delays_of(self, j: int, k: int) -> float:
        """Labels k of predictions of class j, as far as their delays are remembered."""
        return sum(self.d[j, k, a] * self.factor(a, 10_000) for a in range(64))

    def worth(self, j: int, strata: Iterable[int]) -> float:
        """How many labels a weight of 1 is worth in these strata."""
        return 1.0

    def arrived_by_slot(self, number: int, clock: int) -> Any:
        """F(slot, j, k): means over ages of a period's slots."""
        f = {}
        for slot in range(8):
            start = number * WIDTH
            old = max(0, clock - start - WIDTH * slot // 8)
            new = max(0, clock - start - WIDTH * (slot + 1) // 8)
            # `WIDTH * (slot + 1) // 8` is rounded down. Between bounds of buckets F is a straight line.
            young, old = new / HORIZON, old / HORIZON
            between = (one for a in range(64) for one in _bounds(a) if young < one < old)
            bounds = sorted({young, old, *between})
            pieces = list(pairwise(bounds))
            for j in range(self.rows):
                for k in range(self.size):
                    areas = [(high - low) * self.arrived(j, k, (low + high) / 2) for low, high in pieces]
                    f[slot, j, k] = sum(areas) / (old - young) if pieces else float(young >= 1)
        return f

    def past(self, j: int, b: int) -> float:
        """Predictions of a stratum before."""
        return sum(self.c[j, b, k] for k in range(self.size)) + self.x[j, b]

    def deviations(self, number: int, m: Any, e: Any, f: Any) -> tuple[float, float]:
        """Delays and inputs."""
        own, strata, size = self.periods[number], range(11), range(self.size)
        every = [(j, b, slot) for j in range(self.rows) for b in strata for slot in range(8)]
        off = sum(own["met", j, b, slot, k] for j, b, slot in every for k in size)
        variance = 0.0
        for j in range(self.rows):
            made = {b: sum(own["made", j, b, slot] for slot in range(8)) for b in strata}
            for slot in range(8):
                here = sum(own["made", j, b, slot] for b in strata)
                p = sum(
                    made[b] * (1 - e[j, b]) * m[j, b, k] * min(1, f[slot, j, k]) for b in strata for k in size
                ) / (sum(made.values()) or 1)
                off -= here * p
                variance += here * p * (1 - p)
        strata_of = {(j, b) for j, b, _ in every}
        now = {one: sum(own[("made", *one, slot)] for slot in range(8)) for one in strata_of}
        before = {one: self.past(*one) for one in strata_of if now[one] or self.past(*one)}
        total = sum(count + 0.5 for count in before.values())
        wanted = {one: sum(now.values()) * (count + 0.5) / total for one, count in before.items()}
        common = [one for one, count in wanted.items() if count >= 5]
        squares = sum((now[one] - wanted[one]) ** 2 / wanted[one] for one in common)
        if len(common) < len(wanted):
            rare = sum(count for one, count in wanted.items() if count < 5)
            beyond = sum(now[one] - count for one, count in wanted.items() if count < 5)
            squares += beyond**2 / max(5, rare)
        cells = len(common) + (len(common) < len(wanted))
        return (
            off / math.sqrt(variance) if variance > 1e-9 else math.nan,
            math.sqrt(2 * squares) - math.sqrt(2 * cells - 3) if cells > 1 else math.nan,
        )


def _bounds(a: int) -> tuple[float, float]:
    """Those of a bucket of delays."""
    upper = [0.25 * 0.8 ** (32 - a) if a < 33 else 0.25 + 0.75 * (a - 32) / 31 for a in (a - 1, a)]
    return (upper[0] if a else 0.0), upper[1]


def _moment(finals: Any, apart: int, first: float) -> float:
    """The mean square of what d differs by between final periods, beyond chance; `first` is given."""
    total = weights = 0.0
    pairs = list(zip(finals, finals[apart:]))
    for age, ((before, doubt), (now, chance)) in enumerate(reversed(pairs)):
        weight = 0.95**age / (chance + doubt + 0.004) ** 2
        total += weight * ((now - before) ** 2 - chance - doubt)
        weights += weight
    # It is given ± 0.02, or as much more as the others exceed 0.
    own = 2 / (0.02 + max(0.0, total / weights if weights else 0.0)) ** 2
    return max(1e-6, (total + own * first) / (weights + own))


class _Part:
    """The predictions of a class in a period: by stratum b, and by slot."""

    def __init__(self, j: int, own: Any, m: Any, e: Any, f: Any, size: int) -> None:
        strata, slots = range(11), range(8)
        self.size = size
        self.m = {(b, k): m[j, b, k] for b in strata for k in range(size)}
        self.f = {(slot, k): f[slot, j, k] for slot in slots for k in range(size)}
        self.never = {b: e[j, b] for b in strata}
        self.met = {
            (b, k): sum(own["met", j, b, slot, k] for slot in slots) for b in strata for k in range(size)
        }
        there = {
            (b, slot): own["made", j, b, slot] - own["gone", j, b, slot] for b in strata for slot in slots
        }
        waits = {
            (b, slot): count - sum(own["met", j, b, slot, k] for k in range(size))
            for (b, slot), count in there.items()
        }
        self.rows = {b: max(0, sum(there[b, slot] for slot in slots)) for b in strata}
        self.wait = {b: max(0, sum(waits[b, slot] for slot in slots)) for b in strata}
        self.slots = [max(0, sum(there[b, slot] for b in strata)) for slot in slots]
        self.waits = [max(0, sum(waits[b, slot] for b in strata)) for slot in slots]

    def p(self, b: int, d: Any) -> list[float]:
        odds = [self.m[b, k] * math.exp(d[k]) for k in range(self.size)]
        return [one / sum(odds) for one in odds]

    def slopes(self, d: Any) -> tuple[list[float], list[float]]:
        """Of the log likelihood by d, and what is known of each d."""
        slope, known = [0.0] * self.size, [0.0] * self.size
        for b, rows in self.rows.items():
            if not rows:
                continue
            p = self.p(b, d)
            count = sum(self.met[b, k] for k in range(self.size))
            for k in range(self.size):
                slope[k] += self.met[b, k] - count * p[k]
                if not self.wait[b]:
                    known[k] += count * p[k] * (1 - p[k])
            if not self.wait[b]:
                continue
            for slot in range(8):
                came = sum(p[k] * self.f[slot, k] for k in range(self.size))
                left = max(1e-9, 1 - came + self.never[b] / (1 - self.never[b]))
                here = rows * self.slots[slot] / sum(self.slots) if sum(self.slots) else 0.0
                wait = self.wait[b] * self.waits[slot] / sum(self.waits) if sum(self.waits) else 0.0
                for k in range(self.size) if self.slots[slot] else ():
                    off = p[k] * (self.f[slot, k] - came)
                    slope[k] -= wait * off / left
                    # The squares of slopes of each label, and of none, by their probabilities.
                    squares = sum(p[y] * self.f[slot, y] * ((y == k) - p[k]) ** 2 for y in range(self.size))
                    known[k] += here * (squares + off**2 / left)
        return slope, known

    def mode(self, prior: Any) -> tuple[list[float], list[float]]:
        """The most probable d, and what the labels know of it."""
        d, known = [0.0] * self.size, self.slopes([0.0] * self.size)[1]
        for _ in range(12):
            slope, known = self.slopes(d)
            moves = {
                k: max(-1.0, min(1.0, (slope[k] - (d[k] - mean) / width) / (known[k] + 1 / width)))
                for k, (mean, width) in prior.items()
            }
            for k, move in moves.items():
                d[k] += move
            if max(map(abs, moves.values()), default=0.0) < 1e-4:
                break
        return d, known

    def coming(self, d: Any) -> Any:
        """Labels to come by stratum."""
        found = {(b, k): 0.0 for b in self.rows for k in range(self.size)}
        for b, wait in self.wait.items():
            p = self.p(b, d)
            for slot in range(8) if wait and sum(self.waits) else ():
                here = wait * self.waits[slot] / sum(self.waits)
                later = [(1 - self.never[b]) * p[k] * (1 - self.f[slot, k]) for k in range(self.size)]
                if sum(later) > 0:
                    for k in range(self.size):
                        found[b, k] += here * later[k] / (sum(later) + self.never[b])
        return found


def assert_expects(plain: Plain, tables: ExpectedTables, clock: int) -> int:
    """Tables say of open periods what plain loops say; returns of how many."""
    rows = open_rows(tables, 0)
    numbers = (tables.pool.key[rows] // WIDTH).tolist()
    found: PeriodEstimates = look(tables, 0, rows, clock)
    wanted = plain.expect(numbers, clock)
    for place, number in enumerate(numbers):
        if number not in wanted:
            assert not found.cells[place].any()
            continue
        matrix, weight, scale, deviations, *evidence = wanted[number]
        for (j, k), cell in matrix.items():
            assert found.cells[place, j, k] == pytest.approx(cell, rel=1e-9, abs=1e-9)
        assert found.summary[place, 3] == pytest.approx(weight, rel=1e-9)
        assert found.summary[place, 4] == pytest.approx(scale, rel=1e-9)
        own = found.summary[place, 5:8].tolist()
        assert own == pytest.approx(deviations, rel=1e-7, abs=1e-7, nan_ok=True)
        if evidence:  # labels that aren't sampled
            assert found.summary[place, 8:12].tolist() == pytest.approx(evidence[0], rel=1e-7, abs=1e-7)
    assert_waits(plain, tables, clock, {number: one[0] for number, one in wanted.items()})
    return len(wanted)


def assert_waits(plain: Plain, tables: ExpectedTables, clock: int, matrices: dict[int, Any]) -> None:
    """… and of what waits in them, all together: predictions, labels to come, and right ones of these."""
    found = waiting_of(tables, 0, clock)
    if plain.size == 1 or not plain.knows(clock):
        assert found is None
        return
    predictions, labels, right = 0, 0.0, 0.0
    for number in (tables.pool.key[open_rows(tables, 0)] // WIDTH).tolist():
        kinds: Counter[str] = Counter()
        met: Counter[Any] = Counter()
        for (kind, j, _, _, *k), count in plain.periods[number].items():
            kinds[kind] += count
            met[(j, *k)] += count * (kind == "met")
        waits = kinds["made"] - kinds["met"] - (0 if plain.sampled else kinds["gone"])
        predictions += waits
        if number in matrices and waits:
            labels += sum(matrices[number].values()) - kinds["met"]
            diagonal = [(0, 1)] if plain.merged else [(j, j) for j in range(plain.size)]
            right += sum(matrices[number][cell] - met[cell] for cell in diagonal)
    assert found is not None
    assert (found.predictions, found.half) == (predictions, None)
    assert found.labels == pytest.approx(labels, rel=1e-9, abs=1e-6)
    assert found.right == pytest.approx(right, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("classes", [0, 1, 2, 3, 5, 8, 12])
def test_expected_matrices_are_those_of_plain_loops(classes: int) -> None:
    events, clocks = events_of(classes, 2_400, classes)
    assert_matrices(Plain(max(2, classes) if classes else 1), begun(classes), events, clocks)


def assert_matrices(plain: Plain, tables: ExpectedTables, events: Events, clocks: list[int]) -> None:
    """Plain loops say the same of the events, some periods of which become final."""
    before = compared = 0
    for vector in (150, 700, 1_200, 2_400):
        tables = update(tables, events, before, vector)
        for i in range(before, vector):
            plain.see(events, i)
        before = vector
        compared += assert_expects(plain, tables, clocks[vector - 1])
        rows = open_rows(tables, 0)[:2]
        look(tables, 0, rows, clocks[vector - 1], closing=True)
        plain.expect((tables.pool.key[rows] // WIDTH).tolist(), clocks[vector - 1], closing=True)
        for row in rows.tolist():
            engine.close(tables, 0, row)
    assert compared >= 15


@pytest.mark.parametrize("classes", [0, 2, 5, 12])
def test_cuts_change_no_bit(classes: int) -> None:
    rng = random.Random(classes)
    assert_cuts_change_no_bit(rng, *events_of(7, 1_500, classes), classes)


def assert_cuts_change_no_bit(
    rng: random.Random, events: Events, clocks: list[int], classes: int, *, sampled: bool = False,
    at_horizon: int = 0,
) -> None:  # fmt: skip
    """Neither of what is known nor of what is expected, wherever the log of events is cut."""
    stop = len(clocks)
    how: Any = {"sampled": sampled, "at_horizon": at_horizon}
    whole = run(events, [stop], classes, **how)
    cut = run(events, [*sorted(rng.sample(range(stop), 30)), stop], classes, **how)
    rows = open_rows(whole, 0)
    assert_same(look(whole, 0, rows, clocks[-1]), look(cut, 0, rows, clocks[-1]))
    assert_same(engine.counters_of(whole, 0), engine.counters_of(cut, 0))


def digest() -> str:
    """Of all that is known of some predictions, and expected of their periods."""
    return digest_of_periods(*events_of(3, 600, 3))


def digest_of_periods(events: Events, clocks: list[int], *, sampled: bool = False) -> str:
    """… of three classes, of which two periods are closed."""
    tables = run(events, [len(clocks)], 3, sampled=sampled)
    rows = open_rows(tables, 0)
    closed = look(tables, 0, rows[:2], clocks[-1], closing=True)
    return digest_of(tables, closed, look(tables, 0, rows[2:], clocks[-1]))


# ---- the record


def test_a_record_is_that_of_the_last_fifty() -> None:
    rng = random.Random(1)
    table, said = records.new_records(1), records.new_reported_estimates(1)
    records.begin(table, 0)
    level, ratios, covered, errors = 0.9, [], [], []
    for i in range(90):
        scale, estimate, final = 0.5 + rng.random(), rng.random(), rng.random()
        half, record = graded(table, 0, 0, scale)
        if i < 20:
            assert record is None
            assert half == 1.645 * 1.3 * scale
        else:
            assert record is not None
            last = sorted(ratios[-50:])
            wanted = level * (len(last) + 1) - 1e-9
            enough = [one for i, one in enumerate(last, 1) if i >= wanted] or last[-1:]
            assert half == pytest.approx(enough[0] * scale, rel=1e-6)
            assert record.finals == min(50, i)
            assert record.coverage == pytest.approx(np.mean(covered[-50:]))
        if record is not None and i <= 50:
            assert record.mean_error == pytest.approx(np.mean(errors), rel=1e-6)
        said.what[0] = np.nan
        records.say(said, 0, 0, estimate, scale, half, math.nan, math.nan, 0.5)
        records.grade(table, 0, said.what[0], final)
        errors.append(abs(estimate - final))
        ratios.append(errors[-1] / scale)
        covered.append(errors[-1] <= half)
        level = min(1, max(0.85, level + 0.05 * (0.9 - covered[-1])))
    assert not math.isfinite(graded(table, 0, 0, 1.0).record.labelled_so_far)  # type: ignore[union-attr]
    assert graded(table, 0, 1, 1.0).record is None


def test_what_four_bytes_dont_hold_is_not_graded_and_scores_stay_finite() -> None:
    said, table = records.new_reported_estimates(1), records.new_records(1)
    said.what[:] = np.nan
    records.begin(table, 0)
    with np.errstate(over="raise", invalid="raise"):
        records.say(said, 0, 0, 1e300, 1e299, 1e299, 1.0, 2.0, 0.5)
        records.say(said, 0, 1, 1.0, 1.0, 1.0, 1e300, 2.0, 0.5)
        for _ in range(records.LEAST):
            records.grade(table, 0, said.what[0], -1e300)
    assert table.finals[0].tolist() == [0, records.LEAST, *[0] * (records.STAGES - 2)]
    assert np.isfinite(table.scores).all()
    half, record = graded(table, 0, 1, 1.0)
    assert record is not None
    assert math.isfinite(half)
    assert record.mean_error == record.last_final == 1e300
    assert math.isnan(record.labelled_so_far)  # it couldn't be kept


def test_the_latest_maturity_with_enough_finals_gives_the_interval() -> None:
    """Of many values at once as of each alone; periods that haven't ended give none."""
    rng, rows = np.random.default_rng(7), 30
    table = records.new_records(rows)
    records.begin(table, np.arange(rows))
    table.finals[:] = rng.integers(0, 60, table.finals.shape) * (rng.random(table.finals.shape) < 0.5)
    table.scores[:] = rng.random(table.scores.shape)
    stages, scales = rng.integers(0, records.STAGES, rows), rng.random(rows)
    halves = records.latest_halves(table, np.arange(rows), stages, scales, np.zeros(rows, dtype=np.bool_))
    for row, (stage, scale) in enumerate(zip(stages.tolist(), scales.tolist())):
        own = [graded(table, row, stage, scale) for stage in range(records.BEFORE_END, stage + 1)]
        based = [grade.half for grade in own if grade.record is not None]
        assert (halves[row] == based[-1]) if based else math.isnan(halves[row])
    assert {math.isnan(half) for half in halves.tolist()} == {False, True}
    lacking = records.graded(table, np.arange(rows), stages, scales, np.ones(rows, dtype=np.bool_))
    assert (lacking.halves >= 1.645 * 1.3 * scales * (1 - 1e-12)).all()


def test_scales_of_many_values_are_those_of_each() -> None:
    """The formula of each kind of measure, for values that are mixed."""
    rng, names = np.random.default_rng(8), ["accuracy", "prevalence", "auc", "log_loss", "cost", "f1"]
    for _ in range(50):
        measures = rng.integers(0, len(names), 40)
        summaries = np.abs(rng.normal(size=(40, calibrating.COLUMNS))) + 1e-9
        values, left = rng.random(40), rng.random(40) * (rng.random(40) < 0.5)
        columns = np.array([INDEX[names[measure]] for measure in measures.tolist()])
        scales = scales_of(columns, values, summaries, left)
        for i, measure in enumerate(measures.tolist()):
            own = scale_of(names[measure], float(values[i]), summaries[i].tolist(), float(left[i]))
            assert scales[i] == own


def scale_of(name: str, value: float, summary: list[float], left: float) -> float:
    """The scale of one value."""
    if name in OF_RANKS:
        count = max(1.0, summary[calibrating.RARER])
        unknown = 1.0 - (1.0 - left) * (1.0 - summary[calibrating.RARER_COMING] / count)
        return math.sqrt(value * (1.0 - value) * max(0.0, unknown) / count + 1e-3**2)
    n = summary[calibrating.EXPECTED]
    if name in ("log_loss", "cost"):
        unknown = 1.0 - (1.0 - left) * summary[calibrating.LABELLED] / n
        return abs(value) * (1e-3 + max(0.0, unknown)) + 1e-3**4
    scale = summary[calibrating.SCALE]
    if name == "prevalence":
        scale = max(scale, summary[calibrating.SCALE_OF_LABELS])
    return math.sqrt(scale * scale + 0.25 * left / n)


@pytest.mark.parametrize("sampled", [False, True])
def test_models_together_are_as_they_are_alone(sampled: bool) -> None:
    """Whatever classes others have: to the bit; one without periods among them."""
    kinds, tables = (2, 5, 0, 2, 12, 2), engine.new_expected()
    for model, classes in enumerate(kinds):
        settings = PeriodSettings(WIDTH, HORIZON, numbers=not classes)
        tables, _ = engine.with_model(
            tables, model, settings, binned=True, scored=True, sampled=sampled and bool(classes)
        )
    clocks = np.zeros(len(kinds), dtype=np.int64)
    for model, classes in enumerate(kinds[:-1]):  # the last one has no predictions
        events, vectors = events_of(model, 600, classes)
        events.model[:], events.weight[:] = model, 2.0
        tables = update(tables, events, 0, 600)
        clocks[model] = vectors[-1]
    whose = np.array([3, 0, 5, 4, 1, 2])
    rows, ends = engine.all_open_rows(tables, whose)
    seen = 0
    for group in look_together(tables, whose, rows, ends, clocks[whose]):
        first = 0
        for place, last in zip(group.places.tolist(), group.ends.tolist()):
            model = int(whose[place])
            own = open_rows(tables, model)
            assert rows[group.rows[first:last]].tolist() == own.tolist()
            if len(own):
                alone = look(tables, model, own, int(clocks[model]))
                for together, one in zip(group.look, alone):
                    assert together[first:last].tobytes() == one.tobytes()
            first, seen = last, seen + 1
    assert seen == len(kinds)
    waiting = all_waiting(tables, whose, clocks[whose])
    assert waiting == [waiting_of(tables, model, int(clocks[model])) for model in whose.tolist()]
    assert sum(one is not None for one in waiting) == 4
