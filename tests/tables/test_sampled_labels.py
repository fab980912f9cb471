"""What is expected of periods whose labels are a sample, against the formulas of the reference."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import test_expected_tables as counts
from prequential.engine.delay import expected as engine
from prequential.engine.delay import records
from prequential.engine.delay.expected import counters_of, open_rows
from prequential.engine.delay.following import update
from prequential.engine.tables.logs import MET, REVISED, Events
from prequential.engine.tables.outcomes import WEIGHTED

from tests.one_model import graded, look


def sampled_events(seed: int, rows: int, classes: int) -> tuple[Events, list[int]]:
    """As `events_of`, labels with weights by the confidence; some have none, which counts 1."""
    events, clocks = counts.events_of(seed, rows, classes)
    for i in range(rows):
        if events.kind[i] in (MET, REVISED) and events.bin[i]:
            events.scored[i] |= WEIGHTED
            events.weight[i] = (20.0, 4.0)[int(events.bin[i]) % 2]
    return events, clocks


class Sampled(counts.Plain):
    """One model whose labels are a sample."""

    sampled = True

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.squares: Counter[Any] = Counter()
        self.levels = {cell: [0.0, 1e-4, 1e-5, None] for cell in self.levels}

    def see(self, events: Events, i: int) -> None:
        weight = float(events.weight[i]) if events.scored[i] & WEIGHTED else 1.0
        prediction, label = int(events.prediction[i]), int(events.label[i])
        before = self.c.copy()
        faded = self.outcomes
        super().see(events, i)
        if events.kind[i] not in (MET, REVISED):
            return
        j = 0 if self.merged else self.place(prediction)
        b, number = int(events.bin[i]), int(events.ts[i]) // 1_000
        k = int(label == prediction) if self.merged else self.place(label)
        own = self.periods[number]
        if events.kind[i] == MET:
            fading = (1 - 1 / 20_000) ** 256 if self.outcomes % 256 == 0 and self.outcomes > faded else 1.0
            self.c[j, b, k] += (weight - 1) * fading  # type: ignore[assignment]
            self.squares[j, b] += weight**2  # type: ignore[assignment]
            for one in self.squares:
                self.squares[one] *= fading  # type: ignore[assignment]
            own["weight", j, b, k] += weight  # type: ignore[assignment]
            own["square", j, b, k] += weight**2  # type: ignore[assignment]
            return
        revised = int(events.revised[i])
        new = int(revised == prediction) if self.merged else self.place(revised)
        self.c = before
        moved = min(weight, self.c[j, b, k])
        self.c[j, b, k] -= moved  # type: ignore[assignment]
        self.c[j, b, new] += moved  # type: ignore[assignment]
        own["weight", j, b, k] -= weight  # type: ignore[assignment]
        own["weight", j, b, new] += weight  # type: ignore[assignment]
        own["square", j, b, k] -= weight**2  # type: ignore[assignment]
        own["square", j, b, new] += weight**2  # type: ignore[assignment]

    def counts_as(self, j: int, k: int) -> float:
        return 1.0

    def worth(self, j: int, strata: Iterable[int]) -> float:
        weights = sum(self.c[j, b, k] for b in strata for k in range(self.size))
        squares = sum(self.squares[j, b] for b in strata)
        return weights / squares if squares else 0.0

    def past(self, j: int, b: int) -> float:
        return sum(self.c[j, b, k] for k in range(self.size))

    def expect(self, numbers: list[int], clock: int, closing: bool = False) -> dict[int, Any]:
        rows, size, strata = range(self.rows), range(self.size), range(11)
        self.clock = clock
        m, e = self.calibrated()
        levels = {cell: list(level) for cell, level in self.levels.items()}
        found = {}
        for number in numbers:
            own, f = self.periods[number], self.arrived_by_slot(number, clock)
            every = [(j, b, slot) for j in rows for b in strata for slot in range(8)]
            labelled = sum(own[("met", *one, k)] for one in every for k in size)
            n = sum(own[("made", *one)] for one in every)
            if n <= 0:
                continue
            matrix, weight, variance, gap, chance = {}, 0.0, 0.0, 0.0, 0.0
            for j in rows:
                made = {b: sum(own["made", j, b, slot] for slot in range(8)) for b in strata}
                met = {
                    (b, k): sum(own["met", j, b, slot, k] for slot in range(8)) for b in strata for k in size
                }
                mean, square = {}, {}
                for y in size:
                    outcomes = [sum(own["met", j, b, slot, y] for b in strata) for slot in range(8)]
                    shares = [min(1, max(0.02, f[slot, j, y])) for slot in range(8)]
                    mean[y] = sum(o / s for o, s in zip(outcomes, shares)) / (sum(outcomes) or 1)
                    square[y] = sum(o / s**2 for o, s in zip(outcomes, shares)) / (sum(outcomes) or 1)
                w = {(b, y): own["weight", j, b, y] * mean[y] for b in strata for y in size}
                w2 = {(b, y): own["square", j, b, y] * square[y] for b in strata for y in size}
                of_class, has = sum(made.values()), sum(met.values())
                known = labelled >= 5 and sum(w.values()) > 0
                each = of_class / sum(w.values()) if known else 0.0
                left = 1 - has / of_class if of_class else 0.0
                for k in size:
                    q = sum(made[b] * m[j, b, k] for b in strata) / n
                    v = sum(made[b] * m[j, b, k] * (1 - m[j, b, k]) for b in strata) / n**2
                    delta, s2 = 0.0, 1.0
                    if known:
                        delta = sum(w[b, y] * ((y == k) - m[j, b, k]) for b, y in w) * each / n
                        s2 = sum(w2[b, y] * m[j, b, k] * (1 - m[j, b, k]) for b, y in w2)
                        s2 *= (each / n) ** 2 * left
                        if k == self.right(j):
                            gap, chance = gap + delta, chance + s2 + v
                    mean_k, p, noise, last = levels[j, k]
                    off = delta - mean_k
                    p += noise
                    far = known and off**2 > 9 * (p + s2 + v)
                    lam = (p + v + far * off**2) / (p + v + s2 + far * off**2)
                    if closing:
                        matrix[j, k] = n * (q + delta)
                        variance += s2 / self.size if known else 0.0
                    else:
                        matrix[j, k] = n * (q + mean_k + lam * off)
                        weight += lam * of_class / (n * self.size)
                        variance += lam * s2 / self.size
                    p += far * (off**2 - (p + s2 + v))
                    gain = p / (p + v + s2)
                    if closing and not known:
                        continue
                    if closing and last is not None:
                        noise = 0.95 * noise + 0.05 * ((delta - last) ** 2 / 2 - v - 1.25 * s2)
                        noise = max(noise, 0.05 * s2 + 1e-7)
                    levels[j, k] = [mean_k + gain * off, p * (1 - gain), noise, delta if closing else last]
                of_labels = {(j, b, k): met[b, k] for b, k in met}
                coming = {(j, b): made[b] - sum(met[b, k] for k in size) for b in strata}
                matrix |= self._beyond(j, matrix, of_labels, coming, m, n, made)
            concept = gap / math.sqrt(chance) if chance else math.nan
            found[number] = (
                matrix, weight, math.sqrt(variance + 1e-7), (concept, *self.deviations(number, m, e, f))
            )  # fmt: skip
        if closing:
            self.levels = levels
        return found

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


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3, 8, 12])
def test_expected_matrices_are_those_of_plain_loops(classes: int) -> None:
    events, clocks = sampled_events(classes, 2_000, classes)
    plain, tables, before, compared = Sampled(classes), counts.begun(classes, sampled=True), 0, 0
    for vector in (150, 700, 1_200, 2_000):
        tables = update(tables, events, before, vector)
        for i in range(before, vector):
            plain.see(events, i)
        before = vector
        compared += counts.assert_expects(plain, tables, clocks[vector - 1])
        rows = open_rows(tables, 0)[:2]
        numbers = (tables.pool.key[rows] // counts.WIDTH).tolist()
        final = look(tables, 0, rows, clocks[vector - 1], closing=True)
        wanted = plain.expect(numbers, clocks[vector - 1], closing=True)
        for place, number in enumerate(numbers):
            matrix, _, scale, _ = wanted[number]
            for (j, k), cell in matrix.items():
                assert final.cells[place, j, k] == pytest.approx(cell, rel=1e-9, abs=1e-9)
            assert final.summary[place, 4] == pytest.approx(scale, rel=1e-9)
        for row in rows.tolist():
            engine.close(tables, 0, row)
    assert compared >= 12


def test_cuts_change_no_bit() -> None:
    counts.assert_cuts_change_no_bit(random.Random(1), *sampled_events(7, 1_500, 5), 5, sampled=True)


def digest() -> str:
    """Of all that is known of some predictions, and expected of their periods."""
    return counts.digest_of_periods(*sampled_events(3, 600, 3), sampled=True)


def test_with_equal_weights_calibration_is_that_of_counts() -> None:
    """Whatever the weight: 5% of all labels are worth no more than the labels that there are."""
    events, _ = counts.events_of(5, 800, 2)
    plain = update(counts.begun(2), events, 0, 800)
    for i in range(800):
        if events.kind[i] in (MET, REVISED):
            events.scored[i] |= WEIGHTED
            events.weight[i] = 16.0
    weighted = update(counts.begun(2, sampled=True), events, 0, 800)
    assert (counters_of(weighted, 0).classes == 16.0 * counters_of(plain, 0).classes).all()
    assert (counters_of(weighted, 0).squares == 256.0 * counters_of(plain, 0).classes.sum(2)).sum() >= 15


def test_a_final_that_is_an_estimate_is_known_to_be_off_by_chance() -> None:
    """Errors that its own chance explains say nothing against what was said."""
    rng, table, said = random.Random(2), records.new_records(1), records.new_reported_estimates(1)
    records.begin(table, 0)
    for _ in range(400):
        truth = rng.gauss(0, 1)
        final = truth + rng.gauss(0, 3)
        said.what[0] = math.nan
        # What is said is off by 1, and has seen none of the labels that make the final value.
        half = graded(table, 0, 0, 1.0).half
        records.say(said, 0, 0, 0.0, 1.0, half, math.nan, math.nan, 0.0)
        records.grade(table, 0, said.what[0], final, 9.0)
    half, record = graded(table, 0, 0, 1.0)
    assert record is not None
    assert 1.2 < half < 2.2  # 1.64, not 5.2
