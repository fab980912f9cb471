"""Expected histograms of scores, against dicts of counts and factors of odds found by bisection."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from prequential.engine.delay import expected as engine
from prequential.engine.delay.calendars import PeriodSettings
from prequential.engine.delay.expected import ExpectedTables, open_rows
from prequential.engine.delay.following import update
from prequential.engine.delay.periods import new_periods
from prequential.engine.output.period_ranks import OpenRanks, expected_histograms
from prequential.engine.tables.logs import EXPIRED, LATE, MET, REVISED, WAITS, Events
from prequential.engine.tables.scores import NEGATIVES, POSITIVES
from test_coverage import assert_same
from test_expected_tables import HORIZON, WIDTH, events_of

from tests.one_model import look


def scored_events(seed: int, rows: int, classes: int) -> tuple[Events, list[int]]:
    """The events of other tests, most of them with a score that depends on the bin of confidence."""
    events, clocks = events_of(seed, rows, classes)
    for i in range(rows):
        rng = random.Random(int(events.ts[i]) * 100 + int(events.prediction[i]) * 11 + int(events.bin[i]))
        events.score[i] = 1 + rng.randrange(15 * int(events.bin[i])) if events.bin[i] else 0
    return events, clocks


def run(events: Events, vectors: list[int]) -> ExpectedTables:
    settings = PeriodSettings(WIDTH, HORIZON, ranked=True)
    tables, _ = engine.with_model(engine.new_expected(), 0, settings, binned=True, scored=True)
    before = 0
    for vector in vectors:
        tables, before = update(tables, events, before, vector), vector
    return tables


class Plain:
    """The counters by score of one model with two classes."""

    def __init__(self, events: Events, stop: int) -> None:
        self.places: dict[int, int] = {}
        self.labels: Counter[Any] = Counter()  # by predicted class, score and label
        self.waiting: Counter[Any] = Counter()  # by period, predicted class and score
        outcomes = 0
        for i in range(stop):
            kind, s = int(events.kind[i]), int(events.score[i]) - 1
            j = self.place(int(events.prediction[i]))
            k = self.place(int(events.label[i])) if kind in (MET, REVISED) else 0
            now = self.place(int(events.revised[i])) if kind == REVISED else 0
            outcomes += kind == MET
            if s >= 0:
                period = int(events.ts[i]) // WIDTH
                self.waiting[period, j, s] += {WAITS: 1, MET: -1, LATE: -1, EXPIRED: -1}.get(kind, 0)
                if kind == MET:
                    self.labels[j, s, k] += 1
                elif kind == REVISED:
                    moved = min(1.0, self.labels[j, s, k])
                    self.labels[j, s, k] -= moved  # type: ignore[assignment]
                    self.labels[j, s, now] += moved  # type: ignore[assignment]
            if kind == MET and outcomes % 256 == 0:
                for place in self.labels:
                    self.labels[place] *= (1 - 1 / 5_000) ** 256  # type: ignore[assignment]

    def place(self, code: int) -> int:
        return self.places.setdefault(code, len(self.places))

    def share(self, j: int, s: int, positive: int) -> float:
        """The share of the positive class among labels with about this score."""
        near = {k: sum(0.8 ** abs(s - t) * self.labels[j, t, k] for t in range(200)) for k in (0, 1)}
        every = {k: sum(self.labels[j, t, k] for t in range(200)) for k in (0, 1)}
        whole = (every[positive] + 0.5) / (sum(every.values()) + 1)
        return (near[positive] + whole) / (sum(near.values()) + 1)

    def coming(self, period: int, j: int, by_label: Any, positive: int) -> Any:
        """Labels to come of predictions of class j by score: of the positive class, and of the other."""
        wait = np.array([max(0, self.waiting[period, j, s]) for s in range(200)])
        p = np.array([self.share(j, s, positive) for s in range(200)])
        total = sum(by_label)
        low, high = 0.0, 1.0
        for _ in range(80):  # of o/(1 + o), for the factor o of the odds
            middle = (low + high) / 2
            tilted = p * middle / (p * middle + (1 - p) * (1 - middle))
            if (wait * tilted).sum() / wait.sum() < by_label[positive] / total:
                low = middle
            else:
                high = middle
        return total * wait / wait.sum() * tilted, total * wait / wait.sum() * (1 - tilted)


@pytest.mark.parametrize("seed", range(3))
def test_labels_to_come_are_spread_by_score(seed: int) -> None:
    events, clocks = scored_events(seed, 2_000, 2)
    tables, plain, compared = run(events, [2_000]), Plain(events, 2_000), 0
    rows = open_rows(tables, 0)
    found = look(tables, 0, rows, clocks[-1])
    models = np.zeros(len(rows), dtype=np.int64)
    for code in (0, 1):
        account = OpenRanks(
            models, models, tables.periods.block[rows], found.coming, np.full(len(rows), code)
        )
        histograms = expected_histograms(new_periods(), tables, account)
        for i, period in enumerate((tables.pool.key[rows] // WIDTH).tolist()):
            wanted = np.zeros(402)
            for j in (0, 1):
                by_label = found.coming[i, j, 1:].sum(axis=0).tolist()
                if any(plain.waiting[period, j, s] > 0 for s in range(200)):
                    own = plain.coming(period, j, by_label, plain.place(code))
                    wanted[POSITIVES : POSITIVES + 200] += own[0]
                    wanted[NEGATIVES : NEGATIVES + 200] += own[1]
                    compared += 1
            assert histograms[i] == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert compared > 4


def test_cuts_change_no_bit_and_a_third_class_ends_it() -> None:
    events, _ = scored_events(7, 1_500, 2)
    rng = random.Random(1)
    whole, cut = run(events, [1_500]), run(events, [*sorted(rng.sample(range(1_500), 30)), 1_500])
    assert_same(engine.counters_of(whole, 0), engine.counters_of(cut, 0))
    assert engine.counters_of(whole, 0).ranks.sum() > 100
    events, clocks = scored_events(7, 1_500, 3)
    wide, narrow = run(events, [1_500]), engine.new_expected()
    narrow, _ = engine.with_model(narrow, 0, PeriodSettings(WIDTH, HORIZON), binned=True, scored=True)
    narrow = update(narrow, events, 0, 1_500)
    assert engine.counters_of(wide, 0).ranks.size == 0
    rows = open_rows(wide, 0)
    assert_same(look(wide, 0, rows, clocks[-1]), look(narrow, 0, open_rows(narrow, 0), clocks[-1]))
