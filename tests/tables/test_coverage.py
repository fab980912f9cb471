"""Coverage, against an account of every single prediction, and the class that was there before."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from prequential.engine.compiled.kernel import tables_of
from prequential.engine.delay import coverage as engine
from prequential.engine.delay import maturity
from prequential.engine.delay.coverage import Coverage, new_coverage, with_model
from prequential.engine.tables.logs import EXPIRED, LATE, MET, WAITS, Events, new_events

HORIZONS = (100, 12_800, 3_600_000, 90 * 86_400_000)

AGES = {
    "100ms": 100, "1s": 1_000, "10s": 10_000, "1m": 60_000, "5m": 300_000, "15m": 900_000, "1h": 3_600_000,
    "6h": 21_600_000, "1d": 86_400_000, "3d": 259_200_000, "7d": 604_800_000, "30d": 2_592_000_000,
}  # fmt: skip


def oldest(coverage: Coverage, model: int, clock: int) -> int:
    return engine.oldest(coverage, np.array([model]), np.array([clock]))[0]


def curve(coverage: Coverage, model: int, clock: int) -> dict[str, float]:
    return maturity.curves(coverage, np.array([model]), np.array([clock]))[0]


def labelled(coverage: Coverage, model: int, clock: int) -> dict[str, float]:
    return maturity.labelled(coverage, np.array([model]), np.array([clock]))[0]


class Case(NamedTuple):
    """Events with the stream's clock at each, and a model's horizon by its row."""

    events: Events
    clocks: list[int]
    horizons: list[int]


def case_of(seed: int, rows: int, *, jumps: bool = False) -> Case:
    """Predictions of a few models that meet labels, are late or expire; with `jumps` of clocks, too."""
    rng = random.Random(seed)
    horizons = [rng.choice(HORIZONS) for _ in range(4)]
    events, clocks = new_events(rows), []
    clock = rng.randrange(-10_000, 1 << 40)
    pending: list[list[int]] = [[] for _ in horizons]
    for i in range(rows):
        model = rng.randrange(len(horizons))
        horizon = horizons[model]
        clock += rng.randrange(1 + horizon // 50) if rng.random() < 0.3 else rng.randrange(3)
        events.model[i] = model
        if pending[model] and rng.random() < 0.5:
            ts = pending[model].pop(rng.randrange(len(pending[model])))
            events.kind[i] = rng.choice((MET, MET, MET, LATE, EXPIRED))
            events.t1[i] = ts + int(10 ** (rng.random() * np.log10(horizon))) - rng.randrange(2)
        else:
            ts = clock - rng.choice((0, 0, 0, rng.randrange(1 + horizon)))
            if jumps and rng.random() < 0.5:
                ts += rng.randrange(-100, 100) * horizon
            pending[model].append(ts)
        events.ts[i] = ts
        clocks.append(clock)
    return Case(events, clocks, horizons)


def run(case: Case, vectors: list[int], ask: Callable[[Coverage, int], None] | None = None) -> Coverage:
    """All events, in slices that end at the cuts; `ask` is called behind each of them."""
    coverage = new_coverage()
    for model, horizon in enumerate(case.horizons):
        coverage = with_model(coverage, model, horizon)
    before = 0
    for vector in [*vectors, len(case.clocks)]:
        coverage = engine.update(coverage, case.events, before, vector)
        if ask is not None and vector:
            ask(coverage, vector)
        before = vector
    return coverage


def assert_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """Bit by bit."""
    others = tables_of(other)
    for name, array in tables_of(one).items():
        assert array.tobytes() == others[name].tobytes(), name


def digest_of(*tables: tuple[Any, ...], said: object = None) -> str:
    """Of all bits of tables, and of what was said."""
    found = hashlib.sha256(repr(said).encode())
    for table in tables:
        for array in tables_of(table).values():
            found.update(array.tobytes())
    return found.hexdigest()


class Account:
    """Every prediction of a model: its time, what became of it, and at which age."""

    def __init__(self, horizon: int) -> None:
        self.horizon, self.width = horizon, max(1, horizon // 128)
        self.predictions: list[list[Any]] = []  # [cohort, ts, fate, age]
        self.step: int | None = None
        self.shares: dict[str, float] = {}

    def see(self, kind: int, ts: int, t1: int) -> None:
        if kind == WAITS:
            self.predictions.append([ts // self.width, ts, "waits", None])
            return
        one = next(p for p in self.predictions if p[1] == ts and p[2] == "waits")
        one[2:] = [{MET: "met", LATE: "late", EXPIRED: "expired"}[kind], t1 - ts]

    def oldest(self, clock: int) -> int:
        waiting = [p[0] for p in self.predictions if p[2] == "waits"]
        return max(0, clock - min(waiting) * self.width) if waiting else 0

    def curve(self, clock: int) -> dict[str, float]:
        found = {}
        ages = {name: age for name, age in AGES.items() if age < self.horizon}
        for name, age in (*ages.items(), ("horizon", self.horizon)):
            made = [p for p in self.predictions if p[2] != "late" and (p[0] + 1) * self.width + age <= clock]
            by_then = [p for p in made if p[2] == "met" and (name == "horizon" or p[3] <= age)]
            if made:
                found[name] = len(by_then) / len(made)
        return found

    def labelled(self, clock: int) -> dict[str, float]:
        if clock // (2 * self.width) != self.step:
            self.step, self.shares = clock // (2 * self.width), self.curve(clock)
        return self.shares


@pytest.mark.parametrize("seed", range(6))
def test_one_pass_and_model_by_model_say_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(seed, 3_000, jumps=seed % 2 == 1)
    models = np.arange(len(case.horizons))
    said: dict[bool, list[Any]] = {}
    left: dict[bool, Coverage] = {}
    for at_once in (False, True):
        monkeypatch.setattr(maturity, "_are_most", lambda *_, at_once=at_once: at_once)
        found: list[Any] = []

        def ask(coverage: Coverage, stop: int, found: list[Any] = found) -> None:
            clocks = np.full(len(models), max(case.clocks[:stop]))
            some = models if stop % 2 else models[1:]
            found.append(maturity.labelled(coverage, some, clocks[: len(some)]))

        left[at_once] = run(case, list(range(37, 3_000, 37)), ask)
        said[at_once] = found
    assert said[True] == said[False]
    assert any(said[True][-1])
    assert_same(left[True], left[False])
    assert left[True].models.folded.any()


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_the_account_of_every_prediction_says(seed: int) -> None:
    case = case_of(seed, 500)
    accounts = [Account(horizon) for horizon in case.horizons]
    seen = 0

    def ask(coverage: Coverage, vector: int) -> None:
        nonlocal seen
        for i in range(seen, vector):
            accounts[case.events.model[i]].see(
                int(case.events.kind[i]), int(case.events.ts[i]), int(case.events.t1[i])
            )
        seen, clock = vector, case.clocks[vector - 1]
        for model, account in enumerate(accounts):
            waiting = sum(p[2] == "waits" for p in account.predictions)
            assert coverage.models.waiting[model] == waiting
            assert oldest(coverage, model, clock) == account.oldest(clock)
            assert curve(coverage, model, clock) == account.curve(clock)
            assert labelled(coverage, model, clock) == account.labelled(clock)

    run(case, sorted(random.Random(seed).sample(range(1, 500), 60)), ask)


@pytest.mark.parametrize("jumps", [False, True])
def test_cuts_and_who_looks_on_change_no_bit(jumps: bool) -> None:
    for seed in range(3):
        case = case_of(seed, 6_000, jumps=jumps)
        asked = sorted(random.Random(seed).sample(range(1, 6_000), 10))

        def ask(coverage: Coverage, vector: int) -> None:
            for model in range(4):
                curve(coverage, model, case.clocks[vector - 1])  # noqa: B023
                oldest(coverage, model, case.clocks[vector - 1])  # noqa: B023
                if vector in asked:  # noqa: B023
                    labelled(coverage, model, case.clocks[vector - 1])  # noqa: B023

        vectors = sorted({*asked, *random.Random(seed + 1).sample(range(1, 6_000), 300)})
        assert_same(run(case, asked, ask), run(case, vectors, ask))


def test_the_number_of_cohorts_is_bounded() -> None:
    """One prediction expires in each step for ten thousand steps, and nobody asks."""
    rows = 20_000
    events = new_events(rows)
    events.kind[::2], events.kind[1::2] = WAITS, EXPIRED
    events.ts[:] = np.repeat(np.arange(rows // 2), 2) * 100
    coverage = engine.update(with_model(new_coverage(), 0, 12_800), events, 0, rows)
    assert coverage.models.cohorts[0] <= 5 * 128
    assert len(coverage.pool.owner) <= 1_024
    assert labelled(coverage, 0, 100 * rows) == {"100ms": 0.0, "1s": 0.0, "10s": 0.0, "horizon": 0.0}
    assert coverage.models.cohorts[0] == 0


def test_under_another_horizon_cohorts_go_to_the_new_steps_as_a_whole() -> None:
    """Two steps of 1 s of which one prediction each has met its label; then steps are of 10 s."""
    events = new_events(4)
    events.kind[:], events.ts[:], events.t1[:] = [WAITS, WAITS, WAITS, MET], [500, 1_500, 11_500, 500], 550
    coverage = engine.update(with_model(new_coverage(), 0, 128_000), events, 0, 4)
    coverage = with_model(coverage, 0, 1_280_000)
    assert int(coverage.models.cohorts[0]) == 2
    assert oldest(coverage, 0, 20_000) == 20_000
    assert labelled(coverage, 0, 10_099) == {}
    assert curve(coverage, 0, 10_100) == {"100ms": 0.5}
    assert labelled(coverage, 0, 20_000) == {"100ms": 0.5, "1s": 0.5, "10s": 0.5}


def digest() -> str:
    """Of a fixed script."""
    said: list[Any] = []

    def ask(coverage: Coverage, vector: int) -> None:
        for model in range(4):
            said.append((labelled(coverage, model, vector), oldest(coverage, model, vector)))

    return digest_of(run(case_of(1, 3_000, jumps=True), [100, 2_000], ask), said=said)
