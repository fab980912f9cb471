"""What is expected of periods, against dicts of counts and the formulas of the reference."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from prequential.engine.delay import expected as engine
from prequential.engine.delay import records
from prequential.engine.delay.calibrating import PeriodEstimates
from prequential.engine.delay.expected import ExpectedTables, open_rows
from prequential.engine.delay.expecting import look_together
from prequential.engine.delay.following import update
from prequential.engine.output.waiting import all_waiting
from prequential.engine.tables.logs import EXPIRED, LATE, MET, REVISED, WAITS, Events, new_events
from prequential.engine.tables.outcomes import SCORED
from test_coverage import assert_same, digest_of

from tests.one_model import look, waiting_of

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
    tables, _ = engine.with_model(
        engine.new_expected(), 0, WIDTH, horizon=HORIZON, settle=0, numbers=not classes, binned=True,
        scored=True, sampled=sampled, at_horizon=at_horizon,
    )  # fmt: skip
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
        self.levels = {
            (j, k): [0.0, 1e-4, 1e-5, None] for j in range(self.rows) for k in range(self.size)
        }  # fmt: skip

    def knows(self, clock: int) -> bool:
        """Whether anything is said of what waits."""
        return True

    def place(self, code: int) -> int:
        return self.places.setdefault(code, len(self.places))

    def see(self, events: Events, i: int) -> None:
        kind, prediction, b = int(events.kind[i]), int(events.prediction[i]), int(events.bin[i])
        label, revised, ts = int(events.label[i]), int(events.revised[i]), int(events.ts[i])
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
            bucket = sum(0.75 ** (31 - a) <= delay for a in range(31))
            self.d[j, k, bucket] += not events.at_horizon[i]
            self.outcomes += 1
            if self.outcomes % 256 == 0:
                for counts in (self.c, self.x, self.d):
                    for name in counts:
                        counts[name] *= (1 - 1 / 20_000) ** 256  # type: ignore[assignment]
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

        below, every = self._below(self.d_all, age)
        own_below, own = self._below({a: self.d[j, k, a] for a in range(32) if self.d[j, k, a]}, age)
        return (own_below + (below + age) / (every + 1)) / (own + 1)

    def _below(self, counts: Any, age: float) -> tuple[float, float]:
        """Counts by bucket that are below an age, and all of them."""
        below = 0.0
        for a, count in counts.items():
            low, high = (0.75 ** (32 - a) if a else 0.0), 0.75 ** (31 - a)
            below += count * min(1.0, max(0.0, (age - low) / (high - low)))
        return below, sum(counts.values())

    def expect(self, numbers: list[int], clock: int, closing: bool = False) -> dict[int, Any]:
        """By period the expected matrix, the weight, the scale, and deviations."""
        rows, size, strata = range(self.rows), range(self.size), range(11)
        m, e = self.calibrated()
        levels = {cell: list(level) for cell, level in self.levels.items()}
        found = {}
        for number in numbers:
            own, f = self.periods[number], self.arrived_by_slot(number, clock)
            met = {
                (j, b, k): sum(own["met", j, b, slot, k] for slot in range(8))
                for j in rows for b in strata for k in size
            }  # fmt: skip
            coming, waiting = {}, 0
            for j in rows:
                by_slot = [
                    sum(
                        own["made", j, b, slot] - own["gone", j, b, slot]
                        - sum(own["met", j, b, slot, k] for k in size) for b in strata
                    ) for slot in range(8)
                ]  # fmt: skip
                for b in strata:
                    wait = sum(
                        own["made", j, b, slot] - own["gone", j, b, slot]
                        - sum(own["met", j, b, slot, k] for k in size) for slot in range(8)
                    )  # fmt: skip
                    share = 0.0
                    for slot in range(8):
                        come = sum(m[j, b, k] * (1 - f[slot, j, k]) for k in size) * (1 - e[j, b])
                        if come > 0 and wait:
                            share += by_slot[slot] / sum(by_slot) * come / (come + e[j, b])
                    coming[j, b] = wait * share
                    waiting += wait
            labelled = sum(met.values())
            n = labelled + sum(coming.values())
            if n <= 0:
                continue
            matrix, weight, variance, gap, chance = {}, 0.0, 0.0, 0.0, 0.0
            for j in rows:
                of_class = sum(coming[j, b] + sum(met[j, b, k] for k in size) for b in strata)
                for k in size:
                    here = {b: coming[j, b] + sum(met[j, b, y] for y in size) for b in strata}
                    q = sum(here[b] * m[j, b, k] for b in strata) / n
                    v = sum(here[b] * m[j, b, k] * (1 - m[j, b, k]) for b in strata) / n**2
                    delta, s2, seen = self.labels_say(j, k, own, f, met, coming, m, closing)
                    delta, s2 = delta / n, s2 / n**2
                    if not waiting:
                        s2 = 0.0
                    elif seen < 5:
                        delta, s2 = 0.0, 1.0
                    else:
                        s2 += v / seen
                    if seen >= 5 and k == self.right(j):
                        gap, chance = gap + delta, chance + s2 + v
                    mean, p, noise, last = levels[j, k]
                    off = delta - mean
                    p += noise
                    far = off**2 > 9 * (p + s2 + v)
                    lam = (p + v + far * off**2) / (p + v + s2 + far * off**2)
                    matrix[j, k] = n * (q + mean + lam * off)
                    weight += lam * of_class / (n * self.size)
                    variance += lam * s2 / self.size
                    p += far * (off**2 - (p + s2 + v))
                    gain = p / (p + v + s2)
                    if closing and seen < 5:
                        continue
                    if closing and last is not None:
                        noise = 0.95 * noise + 0.05 * max((delta - last) ** 2 / 2 - v, 1e-7)
                    levels[j, k] = [mean + gain * off, p * (1 - gain), noise, delta if closing else last]
                matrix |= self._beyond(j, matrix, met, coming, m, n, here)
            concept = gap / math.sqrt(chance) if chance else math.nan
            found[number] = (
                matrix, weight, math.sqrt(variance + 1e-7), (concept, *self.deviations(number, m, e, f))
            )  # fmt: skip
        if closing:
            self.levels = levels
        return found

    def labels_say(
        self, j: int, k: int, own: Any, f: Any, met: Any, coming: Any, m: Any, closing: bool
    ) -> tuple[float, float, float]:
        """How many more labels k of class j than calibration says, its variance, and of how many."""
        delta = s2 = 0.0
        for y in range(self.size):
            outcomes = [sum(own["met", j, b, slot, y] for b in range(11)) for slot in range(8)]
            shares = [min(1, max(0.02, f[slot, j, y])) for slot in range(8)]
            total = sum(outcomes) or 1
            inverse = sum(o / s for o, s in zip(outcomes, shares)) / total
            doubted = sum(o * (1 - s) / s**2 for o, s in zip(outcomes, shares)) / total
            for b in range(11):
                off = (y == k) - m[j, b, k]
                delta += met[j, b, y] * inverse * off
                s2 += met[j, b, y] * doubted * off**2
        return delta, s2, sum(met.values())

    def right(self, j: int) -> int:
        """The label that is right where j is predicted."""
        return j if self.rows == self.size else 1

    def calibrated(self) -> tuple[Any, Any]:
        """m(j, b, k) and e(j, b)."""
        rows, size, strata = range(self.rows), range(self.size), range(11)
        m, e = {}, {}
        self.d_all: Counter[int] = Counter()
        for (_, _, a), count in self.d.items():
            self.d_all[a] += count
        for j in rows:
            by_label = [sum(self.c[j, b, k] for b in strata) for k in size]
            gone = sum(self.x[j, b] for b in strata)
            by_label = [count * self.worth(j, strata) for count in by_label]
            every = sum(by_label)
            for b in strata:
                worth = self.worth(j, [b])
                n = sum(self.c[j, b, k] for k in size) * worth
                e[j, b] = (self.x[j, b] + gone / (gone + every + 1)) / (self.x[j, b] + n + 1)
                for k in size:
                    of_class = (by_label[k] + 1 / self.size) / (every + 1)
                    m[j, b, k] = (self.c[j, b, k] * worth + of_class) / (n + 1)
        return m, e

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
            # `WIDTH * (slot + 1) // 8` is rounded down.
            ages = [(new + (old - new) * (part + 0.5) / 4) / HORIZON for part in range(4)]
            for j in range(self.rows):
                for k in range(self.size):
                    f[slot, j, k] = sum(self.arrived(j, k, age) for age in ages) / 4
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

    def _beyond(self, j: int, matrix: Any, met: Any, coming: Any, m: Any, n: float, here: Any) -> Any:
        """The outcomes, and what is expected beyond them, as much as will come."""
        size, strata = range(self.size), range(11)
        outcomes = [sum(met[j, b, k] for b in strata) for k in size]
        beyond = [max(0.0, matrix[j, k] - outcomes[k]) for k in size]
        if not sum(beyond):
            beyond = [sum(here[b] * m[j, b, k] for b in strata) for k in size]
        come = sum(coming[j, b] for b in strata)
        return {
            (j, k): outcomes[k] + (come * beyond[k] / sum(beyond) if sum(beyond) else 0.0) for k in size
        }  # fmt: skip


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
        matrix, weight, scale, deviations = wanted[number]
        for (j, k), cell in matrix.items():
            assert found.cells[place, j, k] == pytest.approx(cell, rel=1e-9, abs=1e-9)
        assert found.about[place, 3] == pytest.approx(weight, rel=1e-9)
        assert found.about[place, 4] == pytest.approx(scale, rel=1e-9)
        assert found.about[place, 5:].tolist() == pytest.approx(deviations, rel=1e-7, abs=1e-7, nan_ok=True)
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
        half, record = records.graded(table, 0, 0, scale)
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
    assert not math.isfinite(records.graded(table, 0, 0, 1.0).record.labelled_so_far)  # type: ignore[union-attr]
    assert records.graded(table, 0, 1, 1.0).record is None


def test_what_four_bytes_dont_hold_is_not_graded_and_scores_stay_finite() -> None:
    said, table = records.new_reported_estimates(1), records.new_records(1)
    said.what[:] = np.nan
    records.begin(table, 0)
    with np.errstate(over="raise", invalid="raise"):
        records.say(said, 0, 0, 1e300, 1e299, 1e299, 1.0, 2.0, 0.5)
        records.say(said, 0, 1, 1.0, 1.0, 1.0, 1e300, 2.0, 0.5)
        for _ in range(records.LEAST):
            records.grade(table, 0, said.what[0], -1e300)
    assert table.finals[0].tolist() == [0, records.LEAST, 0, 0, 0]
    assert np.isfinite(table.scores).all()
    half, record = records.graded(table, 0, 1, 1.0)
    assert record is not None
    assert math.isfinite(half)
    assert record.mean_error == record.last_final == 1e300
    assert math.isnan(record.labelled_so_far)  # it couldn't be kept


@pytest.mark.parametrize("sampled", [False, True])
def test_models_together_are_as_they_are_alone(sampled: bool) -> None:
    """Whatever classes others have: to the bit; one without periods among them."""
    kinds, tables = (2, 5, 0, 2, 12, 2), engine.new_expected()
    for model, classes in enumerate(kinds):
        tables, _ = engine.with_model(
            tables, model, WIDTH, horizon=HORIZON, settle=0, numbers=not classes, binned=True, scored=True,
            sampled=sampled and bool(classes), at_horizon=0,
        )  # fmt: skip
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
