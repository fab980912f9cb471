"""Performance by the time of prediction, against dicts of periods, and the class that was there before."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from prequential.engine.compiled.kernel import grown
from prequential.engine.delay import periods as engine
from prequential.engine.delay.calendars import PeriodSettings
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.periods import PeriodTables, new_periods, with_model
from prequential.engine.tables.logs import EXPIRED, LATE, MET, REVISED, UNREVISED, WAITS, Events, new_events
from prequential.engine.tables.outcomes import NO_POSITIVE, SCORED, WEIGHTED
from prequential.engine.tables.scores import BIAS, EDGES, SPREAD
from test_coverage import assert_same, digest_of

from tests.one_model import due

CAPACITY = 4


class Settings(NamedTuple):
    width: int
    final_at: float
    horizon: int
    settle: int
    numbers: bool
    valued: bool = False
    ranked: bool = False


class Case(NamedTuple):
    events: Events
    clocks: list[int]
    settings: list[Settings | None]  # None: no periods


def case_of(seed: int, rows: int, *, jumps: bool = False) -> Case:
    """Predictions of a few models that meet labels, which may be revised, turn out to be late or expire."""
    rng = random.Random(seed)
    settings: list[Settings | None] = [
        Settings(
            rng.choice((1_000, 20_000) if valued else (50, 1_000, 60_000)),
            rng.choice((0.5, 0.95, 1.0)),
            1_000,
            seed % 2 * 500,
            number,
            valued,
            valued or seed % 2 > 0,
        )
        for number, valued in ((False, False), (False, True), (True, False))
    ]
    settings.insert(1, None)
    stakes = random.Random(seed)
    events, clocks, clock = new_events(rows), [], rng.randrange(-2_000, 1 << 40)
    pending: list[list[int]] = [[] for _ in settings]
    met: list[list[int]] = [[] for _ in settings]
    revised, now = None, dict[int, int]()  # a row of a first label; by such a row, the row of its last one
    for i in range(rows):
        model = rng.randrange(len(settings))
        clock += rng.randrange(30) if rng.random() < 0.5 else 0
        if rng.random() < 0.005:
            clock += rng.randrange(4_000)
        own = settings[model]
        if revised is not None:  # the row before has it as it was
            events.kind[i] = REVISED
            stake(stakes, events, i)
            now[revised] = i
            revised = None
            clocks.append(clock)
            continue
        events.model[i] = model
        if met[model] and i + 1 < rows and rng.random() < 0.1:
            revised = rng.choice(met[model])
            before = now.get(revised, revised)
            events[i] = events[i + 1] = events[before]
            events.kind[i] = UNREVISED
            events.label[i] = events.label[i + 1] = (
                events.revised[before] if rng.random() < 0.9 else rng.randrange(3)
            )
            events.revised[i + 1] = rng.randrange(3)
            events.log_loss[i + 1], events.error[i + 1] = rng.expovariate(1), rng.gauss(0, 1)
            events.is_positive[i + 1] = events.revised[i + 1] == 1
        elif pending[model] and rng.random() < 0.6:
            ts = pending[model].pop(rng.randrange(len(pending[model])))
            events.kind[i] = rng.choice((MET, MET, MET, MET, LATE, EXPIRED))
            events.ts[i], events.t1[i] = ts, ts + rng.randrange(1_000)
            events.label[i], events.prediction[i] = rng.randrange(3), rng.randrange(3)
            events.bits[i] = rng.randrange(4)
            if events.kind[i] == MET:
                events.scored[i] = rng.choice((0, SCORED, WEIGHTED, SCORED | WEIGHTED)) if own else 0
                if own and own.numbers:
                    events.scored[i] = SCORED
                events.log_loss[i], events.brier[i] = rng.expovariate(1), rng.random()
                events.confidence[i] = rng.choice((0.0, 1.0, 0.2, rng.random()))
                events.error[i], events.value[i] = rng.gauss(0, 1), rng.choice((1e6, rng.gauss(1e6, 1)))
                events.weight[i] = 1 / (0.01 + rng.random())
                events.revised[i] = events.label[i]
                events.positive[i], events.is_positive[i] = stakes.random(), events.label[i] == 1
                if events.scored[i] & SCORED and stakes.random() < 0.1:
                    events.scored[i] |= NO_POSITIVE
                stake(stakes, events, i)
                met[model].append(i)
        else:
            ts = clock - rng.choice((0, 0, rng.randrange(3_000)))
            if jumps and rng.random() < 0.3:
                ts += rng.randrange(-10, 200) * 1_000
            events.ts[i] = ts
            pending[model].append(ts)
        clocks.append(clock)
    return Case(events, clocks, settings)


def stake(rng: random.Random, events: Events, i: int) -> None:
    """Change what is at stake in row i now and then."""
    if not events.valued[i] or rng.random() < 0.5:
        events.stake[i] = rng.choice((0.0, 1.0, 2.5, 1e3, 2.0**-20))
        events.valued[i] = rng.random() < 0.7 or events.valued[i]


def begun(case: Case) -> PeriodTables:
    """Tables that know the models of a case."""
    tables = new_periods()
    tables = tables._replace(models=grown(tables.models, len(case.settings)))
    for model, own in enumerate(case.settings):
        if own is not None:
            settings = PeriodSettings(own.width, own.horizon, own.settle, own.numbers, own.ranked)
            tables, _ = with_model(tables, model, settings, final_at=own.final_at, valued=own.valued)
    return tables


def run(
    case: Case, vectors: list[int], ask: Callable[[PeriodTables, int], None] | None = None
) -> PeriodTables:
    """All events, in slices that end at the cuts; `ask` is called behind each of them."""
    tables, before = begun(case), 0
    for vector in [*vectors, len(case.clocks)]:
        tables = engine.update(tables, case.events, before, vector)
        if ask is not None and vector:
            ask(tables, vector)
        before = vector
    return tables


class Plain:
    """The periods of a model, by number, as the documentation has them."""

    def __init__(self, settings: Settings) -> None:
        self.own = settings
        self.predictions: Counter[int] = Counter()
        self.labelled: Counter[int] = Counter()
        self.cells: defaultdict[int, Counter[tuple[int, int, int]]] = defaultdict(Counter)
        self.stakes: defaultdict[int, dict[tuple[int, int, int], float]] = defaultdict(dict)
        self.valued: defaultdict[int, Counter[tuple[int, int, int]]] = defaultdict(Counter)
        self.newest: dict[int, int] = {}
        self.values: defaultdict[int, Counter[float]] = defaultdict(Counter)
        self.scores: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.sums: defaultdict[int, list[list[float]]] = defaultdict(lambda: [[], [], [], []])  # terms

    def see(self, events: Events, i: int) -> None:
        number, kind = int(events.ts[i]) // self.own.width, int(events.kind[i])
        cell = int(events.label[i]), int(events.prediction[i]), int(events.bits[i])
        if kind in (WAITS, LATE):
            self.predictions[number] += 1 if kind == WAITS else -1
        elif kind == MET:
            self.labelled[number] += 1
            self.cells[number][cell] += 1
            self.newest[number] = max(self.newest.get(number, -(1 << 62)), int(events.t1[i]))
            self.add(number, cell, events, i, 1)
        elif kind == UNREVISED and self.cells[number][cell]:
            self.add(number, cell, events, i, -1)
        elif kind == REVISED and self.cells[number][cell]:
            self.cells[number][cell] -= 1
            now = int(events.revised[i]), cell[1], cell[2]
            self.cells[number][now] += 1
            self.add(number, now, events, i, 1)

    def add(self, number: int, cell: tuple[int, int, int], events: Events, i: int, sign: int) -> None:
        """Add what an event scores and what is at stake in it, or remove it."""
        stakes, valued = self.stakes[number], self.valued[number]
        if self.own.valued and events.valued[i]:
            if sign < 0 and valued[cell] <= 1:  # of labels that weren't there, too
                stakes[cell], valued[cell] = 0.0, 0
            else:
                stakes[cell] = stakes.get(cell, 0.0) + sign * float(events.stake[i])
                valued[cell] += sign
        terms = self.sums[number] if events.scored[i] else []
        if events.scored[i] & SCORED:
            counts, place = self.scores[number], 200 * int(events.is_positive[i])
            place += sum(edge <= events.positive[i] for edge in EDGES.tolist())
            place = 400 if events.scored[i] & NO_POSITIVE else place
            counts[place] = max(0, counts[place] + sign)  # of labels that weren't there, too
            self.values[number].update({float(events.value[i]): sign})
            columns = (events.error,) if self.own.numbers else (events.log_loss, events.brier)
            for place, column in enumerate(columns):
                terms[place].append(sign * float(column[i]))
        if events.scored[i] & WEIGHTED:
            terms[2].append(sign * float(events.weight[i]))
            terms[3].append(sign * float(events.weight[i]) * (cell[0] == cell[1]))


def joint(cells: Counter[tuple[int, int, int]]) -> list[float]:
    counts = np.zeros((CAPACITY, CAPACITY, 4))
    for cell, count in cells.items():
        counts[cell] = count
    return [float(count) for count in counts.ravel()]


@pytest.mark.parametrize("seed", range(6))
def test_it_says_what_dicts_of_periods_say(seed: int) -> None:
    """Nothing is forgotten here: times hardly move."""
    case = case_of(seed, 2_500)
    case = case._replace(settings=[own and own._replace(settle=1 << 50) for own in case.settings])
    plains = {model: Plain(own) for model, own in enumerate(case.settings) if own is not None}
    seen = staked = ranked = 0

    def ask(tables: PeriodTables, vector: int) -> None:
        nonlocal seen, staked, ranked
        for i in range(seen, vector):
            if (plain := plains.get(int(case.events.model[i]))) is not None:
                plain.see(case.events, i)
        seen = vector
        for model, plain in plains.items():
            own = plain.own
            for state in due(tables, model, case.clocks[vector - 1], None, all_news=True):
                number = state.start // own.width
                assert state.end == state.start + own.width
                assert state.predictions == plain.predictions[number]
                assert state.labelled == plain.labelled[number]
                assert state.newest_ts == plain.newest.get(number, state.end)
                assert engine.cells_of(tables, state.row, CAPACITY).tolist() == joint(plain.cells[number])
                at_stake = engine.stakes_of(tables, state.row, CAPACITY).reshape(CAPACITY, CAPACITY, 2)
                wanted = np.zeros((2, CAPACITY, CAPACITY))
                for row, by_cell in zip(wanted, (plain.stakes[number], plain.valued[number])):
                    for (y, h, _), value in by_cell.items():
                        row[y, h] += value
                assert at_stake.tolist() == np.moveaxis(wanted, 0, 2).tolist()
                staked += int((at_stake[..., 1] > 1).sum())
                ranks = np.zeros(402)
                for place, count in plain.scores[number].items():
                    ranks[place] = count if own.ranked and not own.numbers else 0
                assert engine.read_ranks(tables, np.array([state.row]))[0].tolist() == ranks.tolist()
                ranked += int(ranks.sum())
                sums = engine.sums_of(tables, state.row)
                assert (sums is not None) == (number in plain.sums)
                if sums is not None and own.numbers:
                    assert sums[BIAS] == math.fsum(plain.sums[number][0])
                    values = list(plain.values[number].elements())
                    mean = math.fsum(values) / len(values)
                    spread = math.fsum((y - mean) ** 2 for y in values)
                    assert sums[SPREAD] == pytest.approx(spread, rel=1e-9, abs=1e-9)
                elif sums is not None:
                    assert sums[[1, 2, 48, 49]].tolist() == list(map(math.fsum, plain.sums[number]))
                    assert sums[0] == sums[3:18].sum() == plain.values[number].total()

    run(case, sorted(random.Random(seed).sample(range(1, 2_500), 40)), ask)
    assert staked > 3
    assert ranked > 100


def test_cuts_change_no_bit() -> None:
    for seed in range(4):
        case = case_of(seed, 4_000, jumps=seed % 2 == 1)
        asked = sorted(random.Random(seed).sample(range(1, 4_000), 20))
        vectors = sorted({*asked, *random.Random(seed + 1).sample(range(1, 4_000), 200)})
        said: list[list[PeriodState]] = [[], []]

        def asking(which: int) -> Callable[[PeriodTables, int], None]:
            def ask(tables: PeriodTables, vector: int) -> None:
                for model in (0, 2, 3):
                    if vector in asked:  # noqa: B023
                        said[which] += due(tables, model, case.clocks[vector - 1], 0.5)  # noqa: B023

            return ask

        assert_same(run(case, asked, asking(0)), run(case, vectors, asking(1)))
        assert said[0] == said[1] != []


class TestByHand:
    """Ten predictions and what becomes of them, under periods of 100 ms and a horizon of 1,000 ms."""

    def setup_method(self) -> None:
        self.tables, kept = with_model(new_periods(), 0, PeriodSettings(100, 1_000, 50), final_at=0.8)
        assert not kept

    def see(self, kind: int, *times: int, t1: int = 0, label: int = 0, revised: int = 0) -> None:
        events = new_events(len(times))
        events.kind[:], events.ts[:], events.t1[:] = kind, times, t1
        events.label[:], events.revised[:] = label, revised
        self.tables = engine.update(self.tables, events, 0, len(times))

    def due(self, clock: int, share: float | None) -> list[tuple[Any, ...]]:
        return [
            (one.start, one.predictions, one.labelled, one.status, one.corrections)
            for one in due(self.tables, 0, clock, share)
        ]

    def test_provisional_until_the_expected_share_then_final_then_corrected(self) -> None:
        """Half of ten predictions will get labels: final with 4, as 4/10 = 0.8 · 0.5."""
        self.see(WAITS, *range(10))
        assert self.due(50, 0.5) == []
        self.see(MET, 0, 1, 2, t1=60)
        assert self.due(100, 0.5) == [(0, 10, 3, "provisional", 0)]
        assert self.due(101, 0.5) == [], "nothing new"
        self.see(MET, 3, t1=110, label=1)
        assert self.due(110, 0.5) == [(0, 10, 4, "final", 0)]
        self.see(REVISED, 3, label=1, revised=0)
        assert self.due(120, 0.5) == [(0, 10, 4, "final", 1)]
        self.see(REVISED, 3, label=1, revised=0)
        assert self.due(121, 0.5) == [], "no such outcome"
        self.see(MET, 4, t1=130)
        assert self.due(130, 0.9) == [(0, 10, 5, "final", 2)]

    def test_a_running_period_is_never_final(self) -> None:
        self.see(WAITS, 10)
        self.see(MET, 10, t1=20)
        assert self.due(99, 0.1) == [(0, 1, 1, "provisional", 0)]
        assert self.due(100, 0.1) == [(0, 1, 1, "final", 0)]

    def test_nothing_is_said_twice(self) -> None:
        """A prediction goes and another one comes: as many as before, and yet it is another message."""
        self.see(WAITS, 1, 2, 3)
        self.see(MET, 1, t1=60)
        said = self.due(100, 0.3)
        for kind, clock in ((LATE, 110), (WAITS, 120)):
            self.see(kind, 2)
            said += self.due(clock, 0.3)
        assert [(predictions, corrections) for _, predictions, _, _, corrections in said] == [
            (3, 0), (2, 1), (3, 2)
        ]  # fmt: skip

    def test_what_didnt_change_is_looked_at_when_time_comes(self) -> None:
        """At the end of a period, at the end of the labels' time, and when another share is expected."""
        self.see(WAITS, 1, 2)
        self.see(MET, 1, t1=60)
        looks = [self.due(*look) for look in ((90, 0.6), (99, 0.6), (100, 0.6))]
        self.see(WAITS, 110, 210, 220)
        self.see(MET, 210, t1=260)
        looks += [self.due(*look) for look in ((300, 0.9), (310, 0.9), (320, 0.6), (1_201, 0.6))]
        assert [[(one[0], one[3]) for one in said] for said in looks] == [
            [(0, "provisional")], [], [(0, "final")],
            [(200, "provisional")], [], [(200, "final")], [(100, "final")],
        ]  # fmt: skip

    def test_without_labels_it_is_final_when_none_can_be_in_time(self) -> None:
        self.see(WAITS, 10)
        assert self.due(1_100, 0.5) == []
        assert self.due(1_101, 0.5) == [(0, 1, 0, "final", 0)]

    def test_a_prediction_that_is_two_horizons_late_has_no_period(self) -> None:
        self.see(WAITS, 10)
        assert self.due(2_149, None) == [(0, 1, 0, "final", 0)]
        assert self.tables.models.periods[0] == 1
        assert self.due(2_150, None) == []
        assert self.tables.models.periods[0] == 0
        for kind in (WAITS, MET, REVISED, LATE):
            self.see(kind, 20)
        assert self.due(2_151, None) == []
        assert self.tables.models.first[0] == 0

    def test_where_nothing_changed_time_goes_on_all_the_same(self) -> None:
        assert self.due(10_000, None) == []
        assert self.due(20_000, None) == []
        self.see(WAITS, 10_000)
        assert self.tables.models.periods[0] == 0

    def test_periods_to_come_that_were_too_many_never_begin_again(self) -> None:
        self.see(WAITS, *(100_000 + 100 * number for number in range(200)), 5)
        assert self.tables.models.periods[0] == 201
        assert self.due(50, None) == []
        assert self.tables.models.periods[0] == 1
        self.see(WAITS, 100_000)
        self.see(MET, 100_000, t1=100_001)
        assert self.tables.models.periods[0] == 1

    def test_what_is_forgotten_may_be_read_until_the_next_update(self) -> None:
        self.see(WAITS, 10, 110)
        self.see(MET, 10, 10, t1=20, label=1)
        self.see(MET, 10, 110, t1=20)
        (one, other) = due(self.tables, 0, 5_000, None)
        assert self.tables.models.periods[0] == 0
        counts = engine.cells_of(self.tables, one.row, 2).tolist()
        assert (counts[0], counts[8], sum(counts)) == (1, 2, 3)
        assert engine.cells_of(self.tables, other.row, 2).tolist()[0] == 1

    def test_under_another_width_they_begin_empty(self) -> None:
        self.see(WAITS, 10, 110)
        self.see(MET, 10, t1=20)
        tables, kept = with_model(self.tables, 0, PeriodSettings(100, 500), final_at=0.9)
        assert kept
        assert tables.models.periods[0] == 2
        tables, kept = with_model(tables, 0, PeriodSettings(200, 500), final_at=0.9)
        assert not kept
        assert tables.models.periods[0] == 0
        assert due(tables, 0, 100, None) == []


def test_rows_are_used_again() -> None:
    """An hour of periods of a second of which some are known at a time."""
    tables, _ = with_model(new_periods(), 0, PeriodSettings(1_000, 2_000), final_at=0.9)
    events = new_events(20)
    events.kind[:10], events.kind[10:] = WAITS, MET
    events.scored[:] = SCORED
    for second in range(3_600):
        events.ts[:], events.t1[:] = second * 1_000, second * 1_000 + 5
        events.label[10:] = np.arange(10) % 3
        tables = engine.update(tables, events, 0, 20)
        due(tables, 0, second * 1_000 + 5, 0.5)
    assert len(tables.pool.owner) == 16
    assert len(tables.cell_pool.owner) <= 32
    assert len(tables.sums.next) <= 16


def digest() -> str:
    """Of a fixed script."""
    said: list[Any] = []
    case = case_of(1, 2_500, jumps=True)

    def ask(tables: PeriodTables, vector: int) -> None:
        for model in (0, 2, 3):
            for state in due(tables, model, case.clocks[vector - 1], 0.4):
                said.append((state, engine.cells_of(tables, state.row, CAPACITY).tolist()))
                said.append(None if (sums := engine.sums_of(tables, state.row)) is None else sums.tolist())

    return digest_of(run(case, list(range(100, 2_500, 100)), ask), said=said)
