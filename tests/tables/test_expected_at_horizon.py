"""What is expected of periods where a class is known at the horizon alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import test_expected_tables as plain
from prequential.engine.delay.expected import counters_of, known_of
from prequential.engine.tables.logs import MET, REVISED, WAITS, Events, new_events

#: The class of what has no label by the horizon.
LAST = 1


def clicks(seed: int, rows: int, classes: int) -> tuple[Events, list[int]]:
    """Predictions of one model, a third of which have another label than LAST soon; and the clock at each."""
    rng = random.Random(seed)
    events, clock, clocks = new_events(rows), 100_000, []
    due: list[tuple[int, int, int, int, int, int]] = []  # when, ts, prediction, bin, label, at the horizon
    met: list[int] = []
    for i in range(rows):
        clock += rng.randrange(14)
        due.sort()
        if met and rng.random() < 0.03:
            former = rng.choice(met)
            for column in (events.ts, events.t1, events.prediction, events.bin):
                column[i] = column[former]
            events.kind[i], events.label[i] = REVISED, events.revised[former]
            events.revised[i] = events.revised[former] = rng.randrange(classes)
        elif due and due[0][0] < clock:
            t1, ts, prediction, b, label, at_horizon = due.pop(0)
            events.kind[i], events.ts[i], events.t1[i], events.prediction[i] = MET, ts, t1, prediction
            events.bin[i], events.label[i], events.revised[i] = b, label, label
            events.at_horizon[i] = at_horizon
            met.append(i)
        else:
            ts, prediction, b = clock - rng.randrange(300), rng.randrange(classes), rng.randrange(11)
            events.kind[i], events.ts[i], events.prediction[i], events.bin[i] = WAITS, ts, prediction, b
            if rng.random() < (0.5 if prediction != LAST else 0.2):
                label = rng.choice([k for k in range(classes) if k != LAST])
                came = ts + int(rng.expovariate(1 / 1_500)) % plain.HORIZON
                due.append((came, ts, prediction, b, label, 0))
            elif rng.random() < 0.05:  # said before
                due.append((ts + rng.randrange(plain.HORIZON), ts, prediction, b, LAST, 0))
            else:
                due.append((ts + plain.HORIZON, ts, prediction, b, LAST, 1))
        clocks.append(clock)
    return events, clocks


class AtHorizon(plain.Plain):
    """One model where a class is known at the horizon alone."""

    since: int | None = None

    def knows(self, clock: int) -> bool:
        return self.since is not None and clock > self.since + plain.HORIZON

    def see(self, events: Events, i: int) -> None:
        if self.since is None:
            self.since = int(events.ts[i])
        super().see(events, i)

    def arrived(self, j: int, k: int, age: float) -> float:
        if k == self.last:
            return float(age >= 1)
        return super().arrived(j, k, age)

    @property
    def last(self) -> int | None:
        return None if self.merged else self.places.get(LAST)

    def labels_say(
        self, j: int, k: int, own: Any, f: Any, met: Any, coming: Any, m: Any, closing: bool
    ) -> tuple[float, float, float]:
        if k == self.last:
            every = [y for y in range(self.size) if y != k]
            others = [self.labels_say(j, y, own, f, met, coming, m, closing) for y in every]
            deltas, variances, seen = zip(*others)
            return -sum(deltas), sum(variances), max(seen)
        here = [
            sum(own["made", j, b, slot] - own["gone", j, b, slot] for b in range(11)) for slot in range(8)
        ]
        known = [count * min(1.0, f[slot, j, k]) for slot, count in enumerate(here)]
        if self.merged:
            known = [float(count) for count in here] if closing else [0.0]
        if sum(known) <= 0:
            return 0.0, 0.0, 0.0
        share = sum(known) / sum(here)
        came = sum(met[j, b, k] for b in range(11))
        wanted = sum(
            (coming[j, b] + sum(met[j, b, y] for y in range(self.size))) * m[j, b, k] for b in range(11)
        )
        return came / share - wanted, wanted * (1 - share) / share, sum(known)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_expected_matrices_are_those_of_plain_loops(classes: int) -> None:
    events, clocks = clicks(classes, 2_400, classes)
    plain.assert_matrices(AtHorizon(classes), plain.begun(classes, at_horizon=1 + LAST), events, clocks)


@pytest.mark.parametrize("classes", [2, 12])
def test_cuts_change_no_bit(classes: int) -> None:
    rng = random.Random(classes)
    plain.assert_cuts_change_no_bit(rng, *clicks(7, 1_500, classes), classes, at_horizon=1 + LAST)


def test_what_the_horizon_says_has_no_delay() -> None:
    events, clocks = clicks(1, 2_000, 2)
    tables = plain.run(events, [len(clocks)], 2, at_horizon=1 + LAST)
    own, met = counters_of(tables, 0), events.kind[: len(clocks)] == MET
    at_horizon = int(events.at_horizon[: len(clocks)][met].sum())
    assert at_horizon > 100
    assert own.delays.sum() == pytest.approx(own.classes.sum() * (1 - at_horizon / met.sum()), rel=0.01)


def test_nothing_is_known_in_the_first_horizon() -> None:
    events, _ = clicks(1, 10, 2)
    tables = plain.run(events, [10], 2, at_horizon=1 + LAST)
    since = int(events.ts[0])
    whose, ends = np.array([0, 0]), since + plain.HORIZON + np.array([0, 1])
    assert known_of(tables.models, whose, ends).tolist() == [False, True]
    tables = plain.run(events, [10], 2)
    assert known_of(tables.models, whose, np.array([since, since])).all()
