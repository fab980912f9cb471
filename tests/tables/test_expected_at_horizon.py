"""What is expected of periods where a class is known at the horizon alone."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import test_expected_tables as plain
from prequential.engine.delay.expected import counters_of, known_of
from prequential.engine.delay.following import FADE_EVERY
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

    closes = True

    def knows(self, clock: int) -> bool:
        return self.since is not None and clock > self.since + plain.HORIZON

    def arrived(self, j: int, k: int, age: float) -> float:
        if k == self.last:
            return float(age >= 1)
        return super().arrived(j, k, age)

    @property
    def last(self) -> int | None:
        return None if self.merged else self.places.get(LAST)

    def trust(self, own: Any, f: Any, m: Any, levels: Any, labelled: int) -> float:
        return 0.0 if self.last is None else 1.0

    def evidence(self, own: Any, m: Any, e: Any, f: Any, levels: Any) -> list[float]:
        total, due, _, now = super().evidence(own, m, e, f, levels)
        return [total, due, math.inf, now]  # labels of one class alone show no pace


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
    events, _ = clicks(1, 2_000, 2)
    met = events.kind == MET
    stop = int(np.searchsorted(met.cumsum(), FADE_EVERY))  # before counts fade
    at_horizon = int(events.at_horizon[:stop][met[:stop]].sum())
    assert at_horizon > 10
    own = counters_of(plain.run(events, [stop], 2, at_horizon=1 + LAST), 0)
    assert own.delays.sum() == own.classes.sum() - at_horizon


def test_nothing_is_known_in_the_first_horizon() -> None:
    events, _ = clicks(1, 10, 2)
    tables = plain.run(events, [10], 2, at_horizon=1 + LAST)
    since = int(events.ts[0])
    whose, ends = np.array([0, 0]), since + plain.HORIZON + np.array([0, 1])
    assert known_of(tables.models, whose, ends).tolist() == [False, True]
    tables = plain.run(events, [10], 2)
    assert known_of(tables.models, whose, np.array([since, since])).all()
