"""Estimators, signals and detectors, step by step, against loops that are obviously right."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import ENDED, SIGNALS, alarms_of, batch_of, dead_letters_of, examples, vector
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.state import new_store
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats, grown
from prequential.engine.delay import latency
from prequential.engine.delay.latency import BOUNDS, new_latencies, with_streams
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.all_history import AllCounts
from prequential.engine.estimators.declaration import COUNTS, Additions, Payload
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.naming import parse_signal
from prequential.engine.estimators.rows import unrevised
from prequential.engine.estimators.sums import losses
from prequential.engine.estimators.window import WindowCounts
from prequential.engine.input.fields import class_name
from prequential.engine.measures.losses import ERROR
from prequential.engine.shard import Shard
from prequential.engine.tables import calendar, streams
from prequential.engine.tables.alarms import new_alarms
from prequential.engine.tables.calendar import BEGINNING, NEVER
from prequential.engine.tables.errors import Unusable
from prequential.engine.tables.outcomes import SCORED, new_log
from prequential.engine.tables.records import INSTANCE, LABEL
from sequences import NO_CLASS, Codes, Outcomes, log_of, positives_of, random_outcomes

from tests.tables.compiled import from_python

count_label = from_python(streams.count_label)
schedule, unschedule = from_python(calendar.schedule), from_python(calendar.unschedule)
advance, earliest = from_python(calendar.advance), from_python(calendar.earliest)

CLASS_COUNTS = [2, 7]
ESTIMATORS = [
    "all", "window:1", "window:3", "window:64", "window:65", "window:500",
    "fading:0.5", "fading:0.9", "fading:0.999", "fading:1",
]  # fmt: skip

#: (label, prediction, persistent right, majority right): what a memory counts.
Cell = tuple[int, int, bool, bool]


def cell(codes: Codes) -> Cell:
    y, h, per, maj = codes
    return y, h, per == y, maj == y


def plain_memory(estimator: str, outcomes: Sequence[Codes]) -> dict[Cell, float]:
    """The weight of each cell after all outcomes."""
    kind, _, parameter = estimator.partition(":")
    if kind == "fading":
        weights: dict[Cell, float] = {}
        for codes in outcomes:
            for known in weights:
                weights[known] *= float(parameter)
            weights[cell(codes)] = weights.get(cell(codes), 0.0) + 1.0
        return weights
    last = outcomes[-int(parameter) :] if kind == "window" else outcomes
    return dict(Counter(map(cell, last)))


def remembering(estimator: str, capacity: int = 8) -> Outcomes:
    """A sequence with one estimator, and room for so many classes."""
    return Outcomes(StreamConfig(estimators=(estimator,), detectors=()), capacity)


def cells_of(memory: Outcomes) -> Floats:
    """The weights of all cells."""
    (estimator,) = memory.plan.estimators
    return memory.cells(estimator.name)


def n_of(memory: Outcomes) -> float:
    """The weight of all outcomes."""
    (estimator,) = memory.plan.estimators
    return memory.measured(estimator.name).n


def state_of(memory: Outcomes) -> dict[str, bytes]:
    """All that a snapshot would hold."""
    return {
        name: column.tobytes() for table in memory.plan.tables() for name, column in table.columns().items()
    }


def weights_of(memory: Outcomes) -> dict[Cell, float]:
    """The weights that a memory holds, without the cells that have none."""
    capacity = memory.plan.capacity
    counts = cells_of(memory).reshape(capacity, capacity, 2, 2)
    return {
        (int(y), int(h), bool(per), bool(maj)): counts[y, h, per, maj].item()
        for y, h, per, maj in np.argwhere(counts)
    }


def assert_weights(memory: Outcomes, expected: dict[Cell, float], estimator: str) -> None:
    if estimator.startswith("fading"):
        found = {cell: weight for cell, weight in weights_of(memory).items() if weight > 1e-190}
        wanted = {cell: weight for cell, weight in expected.items() if weight > 1e-190}
        assert found.keys() == wanted.keys()
        assert all(math.isclose(found[cell], wanted[cell], rel_tol=1e-12) for cell in wanted)
    else:
        assert weights_of(memory) == expected
        assert n_of(memory) == sum(expected.values())
    assert n_of(memory) == pytest.approx(math.fsum(expected.values()), rel=1e-12)


def bits(values: Any) -> list[str]:
    return [value.hex() for value in np.asarray(values, dtype=np.float64).tolist()]


class TestMemories:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("classes", CLASS_COUNTS)
    def test_each_step_is_that_of_the_plain_loop(self, estimator: str, classes: int) -> None:
        outcomes = random_outcomes(random.Random(classes), 130, classes)
        memory = remembering(estimator)
        for step in range(len(outcomes)):
            memory.update(outcomes[step : step + 1])
            assert_weights(memory, plain_memory(estimator, outcomes[: step + 1]), estimator)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("classes", CLASS_COUNTS)
    def test_batches_are_bit_equal_to_single_steps(self, estimator: str, classes: int) -> None:
        """Also where a batch is longer than a window."""
        rng = random.Random(classes)
        outcomes = random_outcomes(rng, 1300, classes)
        one_by_one, by_batch = remembering(estimator), remembering(estimator)
        for piece in vector(rng, len(outcomes), (1, 3, 60, 70, 500, 1100)):
            for codes in outcomes[piece]:
                one_by_one.update([codes])
            by_batch.update(outcomes[piece])
            assert bits(cells_of(by_batch)) == bits(cells_of(one_by_one))
            assert n_of(by_batch) == n_of(one_by_one)
            assert state_of(by_batch) == state_of(one_by_one)
        assert_weights(by_batch, plain_memory(estimator, outcomes), estimator)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_classes_may_come_late(self, estimator: str) -> None:
        rng = random.Random(3)
        memory = remembering(estimator, 2)
        outcomes: list[Codes] = []
        for classes, capacity in ((2, 2), (3, 4), (7, 8), (7, 16)):
            if capacity > memory.plan.capacity:
                before = weights_of(memory)
                memory.grow(capacity)
                assert len(cells_of(memory)) == 4 * capacity * capacity
                assert weights_of(memory) == before
            new = random_outcomes(rng, 40, classes)
            outcomes += new
            for piece in vector(rng, len(new)):
                memory.update(new[piece])
            assert_weights(memory, plain_memory(estimator, outcomes), estimator)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_room_for_classes_changes_no_measure(self, estimator: str) -> None:
        outcomes = random_outcomes(random.Random(5), 300, 3)
        found = []
        for capacity in (4, 64):
            memory = remembering(estimator, capacity)
            memory.update(outcomes)
            n, values, undefined, _ = memory.measured(estimator)
            names = ["error", "kappa", "kappa_per", "kappa_plus"]
            found.append((n, [values.get(name, undefined.get(name)) for name in names]))
        assert found[0] == found[1]

    def test_a_window_of_any_size_holds_what_is_in_it(self) -> None:
        rng = random.Random(11)
        for size in (1, 2, 64, 1000):
            outcomes = random_outcomes(rng, 2200, 2)
            memory = remembering(f"window:{size}")
            seen = 0
            for piece in vector(rng, len(outcomes), (1, 20, size, size + 1, 3 * size)):
                seen = piece.stop
                memory.update(outcomes[piece])
                assert n_of(memory) == min(seen, size)
                assert weights_of(memory) == plain_memory(f"window:{size}", outcomes[:seen])

    def test_faded_weights_vanish_without_denormal_numbers(self) -> None:
        memory = remembering("fading:0.5", 2)
        memory.update([(0, 1, 0, 0)])
        memory.update([(1, 1, 1, 1)] * 800)  # 2^-800 could still be held
        assert weights_of(memory) == {(1, 1, True, True): 2.0}
        assert n_of(memory) == 2.0

    def test_fading_by_1_forgets_nothing(self) -> None:
        outcomes = random_outcomes(random.Random(2), 5000, 2)
        faded, whole = remembering("fading:1", 2), remembering("all", 2)
        for memory in (faded, whole):
            memory.update(outcomes)
        assert cells_of(faded).tolist() == cells_of(whole).tolist()


class TestRevision:
    @pytest.mark.parametrize("estimator", ["all", "window:1", "window:7", "window:64"])
    def test_the_outcome_moves_where_it_is_still_remembered(self, estimator: str) -> None:
        """Also what comes after it: a window must later let the new cell go, not the old one."""
        rng = random.Random(4)
        memory = remembering(estimator)
        outcomes: list[Cell] = []
        for _ in range(300):
            new = random_outcomes(rng, rng.choice([1, 1, 5]), 7)
            memory.update(new)
            outcomes += map(cell, new)
            age = rng.choice([0, 0, 3, 6, 7, 63, 64])
            if age < len(outcomes):
                old = outcomes[-1 - age]
                revised = (rng.randrange(7), *old[1:])
                memory.revise(len(outcomes) - age, revised[0], codes_of(old))
                outcomes[-1 - age] = revised
            kept = outcomes if estimator == "all" else outcomes[-int(estimator[7:]) :]
            assert weights_of(memory) == Counter(kept)

    def test_faded_memories_keep_what_they_saw(self) -> None:
        outcomes = random_outcomes(random.Random(1), 50, 2)
        memory = remembering("fading:0.9")
        memory.update(outcomes)
        memory.revise(50, 1 - outcomes[-1][0], outcomes[-1])
        assert_weights(memory, plain_memory("fading:0.9", outcomes), "fading:0.9")


def codes_of(what: Cell) -> Codes:
    """An outcome that is in a cell."""
    y, h, per, maj = what
    return y, h, y if per else NO_CLASS, y if maj else NO_CLASS


class Faded:
    """Fading sum and count of a signal, and the average that they make."""

    def __init__(self, factor: float) -> None:
        self._of = Accumulator(f"fading:{factor!r}", losses(1), 1)

    def update(self, x: Floats) -> list[float]:
        """The average after each of the values."""
        none, read = np.zeros(len(x), dtype=np.int64), np.zeros((len(x), 2))
        flags = np.full(len(x), SCORED, dtype=np.uint8)
        self._of.add(Additions(none.astype(np.int32), none, flags, x[:, None].copy(), none), read)
        return (read[:, 0] / read[:, 1]).tolist()

    @property
    def now(self) -> tuple[float, float]:
        """Sum and count."""
        total, count = self._of.summed(np.zeros(1, dtype=np.int64))[0].tolist()
        return total, count


class TestFading:
    def test_the_fading_average_of_the_paper(self) -> None:
        """2013 paper, eq. 1, with α = 1/2: 1, 1/3, 1/7 after 1, 0, 0."""
        average = Faded(0.5).update(np.array([1.0, 0.0, 0.0]))
        assert average == [1, 0.5 / 1.5, 0.25 / 1.75]

    @pytest.mark.parametrize("factor", [0.01, 0.5, 0.9, 0.9994, 1.0])
    def test_every_value_is_that_of_the_recursion(self, factor: float) -> None:
        rng = random.Random(1)
        x = np.array([rng.choice([0.0, 1.0, rng.random()]) for _ in range(2500)])
        one_by_one, by_piece = Faded(factor), Faded(factor)
        averages = []
        for piece in vector(rng, len(x), (1, 10, 1500)):
            averages += by_piece.update(x[piece])
        s = n = 0.0
        for place, (value, average) in enumerate(zip(x.tolist(), averages)):
            assert one_by_one.update(x[place : place + 1]) == [average]
            got, count = one_by_one.now
            s = value + factor * s
            n = 1.0 + factor * n
            assert math.isclose(got, s, rel_tol=1e-12)
            assert math.isclose(count, n, rel_tol=1e-12)
            assert math.isclose(average, s / n, rel_tol=1e-12)
        assert by_piece.now == one_by_one.now

    @examples(30)
    @given(
        st.sampled_from([0.2, 0.5, 0.97, 0.9994, 1.0]),
        st.lists(st.integers(1, 400), min_size=1, max_size=12),
        st.integers(0, 100),
    )
    def test_cuts_change_no_bit(self, factor: float, pieces: list[int], seed: int) -> None:
        x = np.random.default_rng(seed).random(sum(pieces))
        whole, by_piece = Faded(factor), Faded(factor)
        averages = whole.update(x)
        ends = np.cumsum(pieces)[:-1]
        assert bits([one for part in np.split(x, ends) for one in by_piece.update(part)]) == bits(averages)
        assert bits(by_piece.now) == bits(whole.now)

    @pytest.mark.parametrize("factor", [1e-300, 1e-10, 0.5, 0.9999, 1.0])
    def test_no_weight_is_infinite_and_no_outcome_without_one(self, factor: float) -> None:
        of = Accumulator("fading:1", Payload(COUNTS, 2), 1)
        of.parameter = factor
        first = np.zeros(1, dtype=np.int64)
        for between in (0, 1, 10, 1000, 10**6, 10**12):
            of.count(unrevised(first.astype(np.int32), first, np.zeros(1, dtype=np.int32)))
            of.table.n[0] += between
            of.count(unrevised(first.astype(np.int32), first, np.ones(1, dtype=np.int32)))
            weights = of.counted(first).cells[0]
            assert np.isfinite(weights).all()
            assert weights[1] >= 1
            assert weights[0] == 0 or weights[0] >= 1e-200


# ---- signals


def plain_signal(name: str, min_outcomes: int, outcomes: Sequence[Codes]) -> list[float | None]:
    """The signal after each outcome; None where the detector isn't fed."""
    found: list[float | None] = []
    for seen in range(1, len(outcomes) + 1):
        so_far = outcomes[:seen]
        estimator, _, measure = name.rpartition(":")
        if name == "error":
            y, h, _, _ = so_far[-1]
            found.append(float(y != h))
        elif "/" in name:
            short, long = (plain_error(part, so_far) for part in name.split("/"))
            fed = long > 0 and seen >= min_outcomes
            found.append(short / long if fed else None)
        elif measure in ("kappa", "kappa_per", "accuracy", "p_maj"):
            value = plain_measure(measure, plain_memory(estimator, so_far))
            found.append(None if value is None else 1 - value)
        else:
            found.append(plain_error(name, so_far))
    return found


def plain_error(estimator: str, outcomes: Sequence[Codes]) -> float:
    weights = plain_memory(estimator, outcomes)
    wrong = math.fsum(w for (y, h, _, _), w in weights.items() if y != h)
    return wrong / math.fsum(weights.values())


def plain_measure(name: str, weights: dict[Cell, float]) -> float | None:
    n = math.fsum(weights.values())
    p = math.fsum(w for (y, h, _, _), w in weights.items() if y == h) / n
    if name == "accuracy":
        return p
    if name == "p_maj":
        return math.fsum(w for (_, _, _, maj), w in weights.items() if maj) / n
    if name == "kappa_per":
        chance = math.fsum(w for (_, _, per, _), w in weights.items() if per) / n
    else:
        chance = math.fsum(
            math.fsum(w for (y, _, _, _), w in weights.items() if y == c)
            * math.fsum(w for (_, h, _, _), w in weights.items() if h == c)
            for c in range(7)
        ) / (n * n)  # fmt: skip
    return None if 1 - chance < 1e-12 else (p - chance) / (1 - chance)


class Watched:
    """A signal over one sequence."""

    def __init__(self, name: str, min_outcomes: int = 30, capacity: int = 8) -> None:
        self._name, self._min_outcomes = name, min_outcomes
        self._of = self._new(capacity)

    def _new(self, capacity: int) -> Signal:
        self._capacity = capacity
        return Signal(self._name, self._min_outcomes, 1, capacity, ERROR)

    def grow(self, capacity: int) -> None:
        """Have room for more classes, as the plan has that a stream moves to."""
        old, self._of = self._of, self._new(capacity)
        row = np.zeros(1, dtype=np.int64)
        self._of.adopt(old, row, row)

    def update(self, outcomes: Sequence[Codes]) -> list[float | None]:
        """The value after each outcome; None where the detector isn't fed."""
        log, rows = log_of(outcomes), np.arange(len(outcomes), dtype=np.int32)
        taken = WatchedRows(log, rows, self._capacity, ERROR, positives_of(["a", "b"]))
        values, fed = self._of.update(taken)
        return [value if one else None for value, one in zip(values.tolist(), fed.tolist())]


MEASURE_SIGNALS = ("all:kappa", "window:20:kappa_per", "fading:0.9:accuracy", "window:3:kappa")


class TestSignals:
    @pytest.mark.parametrize("name", [*SIGNALS, *MEASURE_SIGNALS])
    @pytest.mark.parametrize("classes", CLASS_COUNTS)
    def test_each_value_is_that_of_the_plain_loop(self, name: str, classes: int) -> None:
        rng = random.Random(classes)
        outcomes = random_outcomes(rng, 150, classes)
        # At first without a mistake, and then only some: ratios wait for the first one.
        outcomes[:12] = [(0, 0, 0, 0)] * 12
        expected = plain_signal(name, 10, outcomes)
        got: list[float | None] = []
        signal = Watched(name, 10)
        for piece in vector(rng, len(outcomes)):
            got += signal.update(outcomes[piece])
        assert [value is None for value in got] == [value is None for value in expected]
        wanted = [value for value in expected if value is not None]
        assert [value for value in got if value is not None] == pytest.approx(wanted, abs=1e-9)
        if "/" in name:
            assert got[:12] == [None] * 12

    @pytest.mark.parametrize("name", [*SIGNALS, *MEASURE_SIGNALS])
    def test_batches_are_bit_equal_to_single_steps(self, name: str) -> None:
        rng = random.Random(8)
        outcomes = random_outcomes(rng, 150 if name in MEASURE_SIGNALS else 1300, 2)
        one_by_one, by_batch = Watched(name), Watched(name)
        singles = [value for codes in outcomes for value in one_by_one.update([codes])]
        values: list[float | None] = []
        for piece in vector(rng, len(outcomes), (1, 7, 99, 1300)):
            values += by_batch.update(outcomes[piece])
        assert [value is None for value in values] == [value is None for value in singles]
        assert bits([v for v in values if v is not None]) == bits([v for v in singles if v is not None])

    def test_a_late_class_is_no_trouble_to_a_measure(self) -> None:
        signal = Watched("window:50:kappa", capacity=2)
        outcomes = [*random_outcomes(random.Random(1), 30, 2), (6, 6, 6, 6), (5, 6, 5, 5)]
        got = signal.update(outcomes[:30])
        signal.grow(8)
        got += signal.update(outcomes[30:])
        wanted = [v for v in plain_signal("window:50:kappa", 1, outcomes) if v is not None]
        assert [value for value in got if value is not None] == pytest.approx(wanted)

    @pytest.mark.parametrize(
        "name",
        ["", "kappa", "errors", "all/", "/all", "all/all/all", "window", "window:0", "window:-1",
         "window:x", "fading:0", "fading:1.5", "fading:nan", "all:1", "all:f3", "error/all",
         "window:5:nothing", "fading:0.9:", "ALL"],
    )  # fmt: skip
    def test_what_is_no_signal_is_quoted(self, name: str) -> None:
        with pytest.raises(ValueError, match="expected") as raised:
            parse_signal(name)
        offenders = {repr(name), *(repr(part) for part in name.split("/"))}
        assert any(offender in str(raised.value) for offender in offenders)


# ---- Page-Hinkley


def plain_page_hinkley(
    x: Sequence[Any], delta: Any, threshold: Any, min_outcomes: int
) -> list[tuple[int, Any]]:
    """(place, statistic) of each alarm, in the arithmetic of the values given."""
    found = []
    t, total, m, lowest = 0, 0 * delta, 0 * delta, 0 * delta
    for index, value in enumerate(x):
        t += 1
        total += value
        m += value - total / t - delta
        lowest = min(lowest, m)
        if m - lowest > threshold and t >= min_outcomes:
            found.append((index, m - lowest))
            t, total, m, lowest = 0, 0 * delta, 0 * delta, 0 * delta
    return found


def drifting(seed: int, length: int, before: float, after: float) -> list[float]:
    """Errors (0 or 1) that become more probable in the middle."""
    rng = random.Random(seed)
    return [
        float(rng.random() < (before if place < length // 2 else after)) for place in range(length)
    ]


class PageHinkley:
    """The test over one sequence."""

    def __init__(self, delta: float, threshold: float, min_outcomes: int) -> None:
        self._of = DETECTORS["page-hinkley"]
        self._settings = self._of.configured(
            {"delta": delta, "lambda": threshold, "min_outcomes": min_outcomes}
        )
        self._table = self._of.new_table(1, self._settings)

    def update(self, x: Floats) -> list[tuple[int, float]]:
        """Feed values; returns (place in `x`, statistic) of each alarm."""
        rows, fed, alarms = np.arange(len(x), dtype=np.int32), np.ones(len(x), np.uint8), new_alarms(len(x))
        self._of.run(self._table, self._settings, new_log(len(x)), rows, x, fed, 0, alarms)
        count = int(alarms.raised[0])
        return list(zip(alarms.place[:count].tolist(), alarms.statistic[:count].tolist()))


class TestPageHinkley:
    @pytest.mark.parametrize("threshold", [0.0501, 0.5003, 5.03, 50.3])
    @pytest.mark.parametrize("seed", range(4))
    def test_places_and_bits_of_the_plain_loop(self, seed: int, threshold: float) -> None:
        rng = random.Random(seed)
        x = [rng.choice([0.0, 1.0, rng.random()]) for _ in range(1500)] + drifting(
            seed, 1500, 0.1, 0.8
        )
        expected = plain_page_hinkley(x, 0.005, threshold, 30)
        detector = PageHinkley(0.005, threshold, 30)
        alarms = []
        for piece in vector(rng, len(x), (1, 5, 100, 1023, 1024, 1025, 2500)):
            alarms += [
                (piece.start + place, statistic)
                for place, statistic in detector.update(np.array(x[piece]))
            ]
        assert [(place, s.hex()) for place, s in alarms] == [(p, s.hex()) for p, s in expected]
        assert expected, "a test of no alarm says little"

    @pytest.mark.parametrize(
        ("seed", "before", "after", "threshold", "places"),
        [
            (1, 0.1, 0.6, 10.01, [1014, 1699]),
            (2, 0.2, 0.4, 10.01, [153, 552, 982, 1102, 1313, 1559, 1853]),
            (3, 0.05, 0.9, 50.01, [1062]),
            (4, 0.3, 0.3, 50.01, []),
            (5, 0.9, 0.1, 50.01, []),  # an error that falls is no alarm
        ],
    )
    def test_exact_places_on_seeded_streams(
        self, seed: int, before: float, after: float, threshold: float, places: list[int]
    ) -> None:
        x = drifting(seed, 2000, before, after)
        alarms = PageHinkley(0.005, threshold, 30).update(np.array(x))
        assert [place for place, _ in alarms] == places
        exact = plain_page_hinkley(
            list(map(Fraction, map(int, x))), Fraction("0.005"), Fraction(str(threshold)), 30
        )
        assert [place for place, _ in exact] == places
        for (_, statistic), (_, true) in zip(alarms, exact):
            assert statistic == pytest.approx(float(true), rel=1e-9)

    def test_no_alarm_before_min_outcomes_and_none_right_after_one(self) -> None:
        x = np.array([0.0] * 5 + [1.0] * 200)
        for min_outcomes in (1, 6, 30, 50):
            places = [place for place, _ in PageHinkley(0.005, 0.5, min_outcomes).update(x)]
            # Once reset, a constant signal gives no alarm, however high it is.
            assert places == [max(5, min_outcomes - 1)]

    def test_it_starts_anew_after_an_alarm(self) -> None:
        x = drifting(7, 3000, 0.1, 0.7)
        detector = PageHinkley(0.005, 5.01, 30)
        first, _ = detector.update(np.array(x))[0]
        rest = PageHinkley(0.005, 5.01, 30).update(np.array(x[first + 1 :]))
        again = PageHinkley(0.005, 5.01, 30).update(np.array(x))
        assert [place for place, _ in again[1:]] == [first + 1 + place for place, _ in rest]

    def test_the_threshold_itself_is_no_alarm(self) -> None:
        """m - M is exactly 1/2 after 0, 1 with δ = 0."""
        x = np.array([0.0, 1.0])
        assert PageHinkley(0.0, 0.5, 1).update(x) == []
        assert PageHinkley(0.0, 0.4999, 1).update(x) == [(1, 0.5)]


class TestDetection:
    def test_alarms_of_a_signal_with_gaps_are_placed_at_their_outcomes(self) -> None:
        """The ratio isn't fed before the first mistake: its places aren't those of its values."""
        rng = random.Random(6)
        outcomes: list[Codes] = [(0, 0, 0, 0)] * 40
        outcomes += [(0, int(error), 0, 0) for error in drifting(3, 400, 0.02, 0.9)]
        name = "fading:0.9/all"
        signal = plain_signal(name, 5, outcomes)
        fed = [(place, value) for place, value in enumerate(signal) if value is not None]
        expected = [
            (fed[place][0], statistic)
            for place, statistic in plain_page_hinkley([v for _, v in fed], 0.1, 3.0011, 5)
        ]
        assert len(expected) >= 2
        config = DetectorConfig(
            signal=name, params={"delta": 0.1, "lambda": 3.0011, "min_outcomes": 5}
        )
        sequence = Outcomes(StreamConfig(estimators=("all",), detectors=(config,)), 2)
        alarms = []
        for piece in vector(rng, len(outcomes), (1, 10, 100)):
            alarms += [
                (piece.start + place, statistic)
                for place, statistic, _ in sequence.update(outcomes[piece])
            ]
        assert alarms == [(place, pytest.approx(statistic)) for place, statistic in expected]
        (watch,) = sequence.plan.watches
        assert watch.table.alarms[0] == len(expected)

    def test_params_name_what_is_not_the_default(self) -> None:
        config = DetectorConfig(params={"delta": 0.1, "lambda": 7})
        assert params_of(config) == {"delta": 0.1, "lambda": 7}
        other = DetectorConfig(params={**config.params, "min_outcomes": 5})
        assert params_of(other) == {"delta": 0.1, "lambda": 7, "min_outcomes": 5}

    def test_a_sequence_names_detector_and_place(self) -> None:
        detectors = (
            DetectorConfig(params={"lambda": 10.01}), DetectorConfig(signal="all", params={"lambda": 10.01}),
        )  # fmt: skip
        sequence = Outcomes(StreamConfig(detectors=detectors), 2)
        errors = drifting(1, 2000, 0.1, 0.6)
        outcomes = [(0, int(error), 0, 0) for error in errors]
        raised = sequence.update(outcomes[:700])
        raised += [alarm._replace(place=700 + alarm.place) for alarm in sequence.update(outcomes[700:])]
        wanted = {
            config: plain_page_hinkley(
                plain_fast(config.signal, errors), 0.005, 10.01, 30
            )
            for config in detectors
        }
        for config, expected in wanted.items():
            found = [(r.place, r.statistic) for r in raised if r.detector == config]
            assert found == [(place, pytest.approx(s)) for place, s in expected]
        assert sequence.measured("all").n == 2000


def params_of(config: DetectorConfig) -> dict[str, Any]:
    """The parameters that an alarm names, of a model that is right at first and then always wrong."""
    settings = StreamConfig(detectors=(config,), stages=("final",), emit_every=None)
    shard = Shard(Config(defaults=settings))
    about = [{"stream": "s", "instance_id": i, "ts": i} for i in range(200)]
    predictions: list[Any] = [(i, {**one, "model": "m", "y_pred": i >= 100}) for i, one in enumerate(about)]
    labels: list[Any] = [(i, {**one, "y_true": False}) for i, one in enumerate(about)]
    for kind, rows in enumerate(([], predictions, labels)):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    while shard.advance([ENDED] * 3, 1000):
        pass
    shard.last_set()
    (alarm,) = alarms_of(shard.flush()[0])
    return alarm.params


def plain_fast(signal: str, errors: Sequence[float]) -> list[float]:
    if signal == "error":
        return list(errors)
    total = 0.0
    found = []
    for n, error in enumerate(errors, start=1):
        total += error
        found.append(total / n)
    return found


# ---- baselines, classes


@examples(60)
@given(st.lists(st.integers(0, 6), max_size=60))
def test_baselines(labels: list[int]) -> None:
    catalog = Catalog(Config(defaults=StreamConfig(baselines=())))
    stream = catalog.add_stream("s")
    for code in range(7):
        catalog.add_class(stream, str(code))
    registry = catalog.registry
    baselines = registry.streams
    assert (baselines.persistent[0], baselines.majority[0]) == (NO_CLASS, NO_CLASS)
    for seen in range(1, len(labels) + 1):
        count_label(registry.streams, registry.classes, registry.pairs, 0, labels[seen - 1])
        so_far = labels[:seen]
        most = max(map(so_far.count, so_far))
        majority = next(y for y in so_far if so_far.count(y) == most)  # ties: seen first
        assert (baselines.persistent[0], baselines.majority[0]) == (so_far[-1], majority)


class Classes:
    """The classes of a stream, as labels bring them."""

    def __init__(self, limit: int) -> None:
        limits = Limits(classes_per_stream=limit)
        self._shard = Shard(Config(defaults=StreamConfig(baselines=()), limits=limits))
        self._added = [0, 0, 0]
        self._add(INSTANCE)

    def _add(self, kind: int, **fields: Any) -> None:
        number = sum(self._added)
        about = {"stream": "s", "instance_id": number, "ts": number, **fields}
        added = self._added[kind]
        rows: list[Any] = [(0, b"")] * added + [(number, about)]
        self._shard.add(batch_of(kind, rows, added, added + 1))
        self._added[kind] += 1
        while self._shard.advance([ENDED] * 3, 1):
            pass

    def code(self, value: Any) -> int:
        """The code of a class as it stands in a message; raises Unusable."""
        self._add(LABEL, y_true=value)
        self._shard.last_set()
        for letter in dead_letters_of(self._shard.flush()[0]):
            raise Unusable(letter.reason)
        return self._stream.classes[class_name(value, "y_true")]

    @property
    def _stream(self) -> Stream:
        return self._shard.catalog.by_name["s"]

    @property
    def names(self) -> list[str]:
        return self._stream.class_names

    @property
    def capacity(self) -> int:
        return int(self._shard.catalog.registry.streams.class_capacity[self._stream.code])


class TestClasses:
    def test_codes_in_order_of_first_sight(self) -> None:
        classes = Classes(10)
        assert [classes.code(v) for v in ("b", "a", "b", 7, "7", True, "true", False, 1)] == [
            0, 1, 0, 2, 2, 3, 3, 4, 3,
        ]  # fmt: skip
        assert classes.names == ["b", "a", "7", "true", "false"]

    def test_names(self) -> None:
        values: list[Any] = ["", "0", 0, -5, 1 << 80, True, False, "größer"]
        assert [class_name(value, "y_true") for value in values] == [
            "", "0", "0", "-5", str(1 << 80), "true", "false", "größer",
        ]  # fmt: skip

    @pytest.mark.parametrize("value", [0.5, 1.0, -0.0])
    def test_a_fraction_is_no_class(self, value: float) -> None:
        with pytest.raises(Unusable, match=f"class {value!r} is a fraction"):
            Classes(10).code(value)

    def test_the_limit_leaves_known_classes_usable(self) -> None:
        classes = Classes(2)
        assert (classes.code("a"), classes.code("b")) == (0, 1)
        with pytest.raises(Unusable, match=r"'c' .* limits.classes_per_stream is 2"):
            classes.code("c")
        assert (classes.code("a"), classes.code("b"), classes.names) == (0, 1, ["a", "b"])

    def test_capacity_is_the_next_power_of_two(self) -> None:
        classes = Classes(100)
        found = [classes.capacity]
        for name in range(9):
            classes.code(name)
            found.append(classes.capacity)
        assert found == [2, 2, 2, 4, 4, 8, 8, 8, 8, 16]


# ---- expiry, latency


class Expiry:
    """Ids by their deadlines, in the wheels of one stream, as the join expires them."""

    def __init__(self) -> None:
        store = new_store()
        self._wheels, self._links = store.wheels, grown(store.links, 2_000)
        self._slots: dict[str, int] = {}
        self._clock = BEGINNING

    @property
    def next_due(self) -> int:
        """Nothing is due while the clock is at or below this."""
        return int(self._wheels.next_due[0])

    def add(self, deadline: int, name: str) -> None:
        """Let an id run out once the clock is above `deadline`, and not when it was to before."""
        slot = self._slots.setdefault(name, len(self._slots) + 1)
        unschedule(self._wheels, self._links, 0, slot)
        schedule(self._wheels, self._links, 0, slot, deadline, self._clock)

    def remove(self, name: str) -> None:
        """Let an id not run out."""
        unschedule(self._wheels, self._links, 0, self._slots[name])

    def due(self, clock: int) -> Iterator[str]:
        """Take out the ids whose deadline lies before `clock`."""
        names = {slot: name for name, slot in self._slots.items()}
        while self.next_due < clock:
            slot = advance(self._wheels, self._links, 0, self._clock, clock)
            self._clock = clock
            while slot:
                following, deadline = int(self._links.next[slot]), int(self._links.deadline[slot])
                if deadline < clock:
                    yield names[slot]
                else:
                    schedule(self._wheels, self._links, 0, slot, deadline, clock)
                slot = following
            self._wheels.next_due[0] = earliest(self._wheels, self._links, 0, clock)


@pytest.mark.parametrize("seed", range(12))
def test_expiry_against_a_sweep(seed: int) -> None:
    """Deadlines move both ways, ids come back, the clock stands, goes and jumps."""
    rng = random.Random(seed)
    expiry = Expiry()
    deadlines: dict[str, int] = {}
    clock = -50
    for step in range(600):
        for _ in range(rng.choice([0, 1, 3])):
            name = f"i{rng.randrange(60)}" if rng.random() < 0.7 else f"n{step}"
            deadlines[name] = clock + rng.choice([-5, 0, 1, 10, 50, 300, rng.randrange(1000)])
            expiry.add(deadlines[name], name)
        if deadlines and rng.random() < 0.2:
            gone = rng.choice(list(deadlines))
            del deadlines[gone]
            expiry.remove(gone)
        clock += rng.choice([0, 0, 1, 2, 20, 20, 500 if rng.random() < 0.05 else 3])
        due = sorted((deadline, name) for name, deadline in deadlines.items() if deadline < clock)
        if clock <= expiry.next_due:
            assert due == [], "the wheels said that nothing is due"
        found = []
        again = rng.random() < 0.3  # ids run out in their next state, perhaps at once
        for name in expiry.due(clock):
            found.append((deadlines.pop(name), name))
            if again and rng.random() < 0.9:
                deadlines[name] = clock + rng.choice([-1, 0, 40])
                expiry.add(deadlines[name], name)
                if deadlines[name] < clock:
                    due.append((deadlines[name], name))
        assert sorted(found) == sorted(due)
    left = sorted((deadline, name) for name, deadline in deadlines.items())
    last = expiry.due(clock + 10_000)
    assert sorted((deadlines.pop(name), name) for name in last) == left
    assert expiry.next_due == NEVER


class Latencies:
    """The latencies of one stream."""

    def __init__(self) -> None:
        self._of = with_streams(new_latencies(), 1)

    def update(self, values: Sequence[int]) -> None:
        """Add latencies in ms."""
        of = np.zeros(len(values), dtype=np.int32)
        clocks = np.zeros(len(values), dtype=np.int64)
        self._of = latency.update(self._of, of, np.array(values, dtype=np.int64), clocks)

    @property
    def counts(self) -> list[int]:
        return self._of.streams.counts[0].tolist()

    @property
    def total(self) -> int:
        return int(self._of.streams.total[0])

    @property
    def quantiles(self) -> dict[str, int]:
        return latency.quantiles(self._of, np.zeros(1, dtype=np.int64))[0]


def test_latencies_fall_into_their_bounds() -> None:
    rng = random.Random(1)
    latencies = [
        rng.choice([-1, 0, 10 ** rng.randrange(1, 11), rng.randrange(10**8)]) for _ in range(500)
    ]
    latencies += [int(bound * 1000) for bound in BOUNDS]  # a bound belongs to what is below it
    latencies += [int(bound * 1000) + 1 for bound in BOUNDS]
    histogram = Latencies()
    for piece in vector(rng, len(latencies)):
        histogram.update(latencies[piece])
    expected = [0] * (len(BOUNDS) + 1)
    for value in latencies:
        if value >= 0:
            expected[bisect_left(BOUNDS, value / 1000)] += 1
    assert histogram.counts == expected
    assert histogram.total == sum(value for value in latencies if value >= 0)
    histogram.update([])
    assert histogram.counts == expected


def test_memories_are_what_their_names_say() -> None:
    whole, window = (Estimator(name, 1, 2, False, False).cells.table for name in ("all", "window:12"))
    assert isinstance(whole, AllCounts)
    assert isinstance(window, WindowCounts)
    assert window.ring.shape == (1, 12)


def test_quantiles_of_latencies_are_right_to_one_per_cent() -> None:
    """Whatever the batches, and 0 exactly."""
    rng = random.Random(3)
    values = [rng.choice([0, 1, 2, 40, int(rng.lognormvariate(8, 3))]) for _ in range(3_000)]
    latencies, other = Latencies(), Latencies()
    for piece in vector(rng, len(values)):
        latencies.update(values[piece])
        latencies.quantiles  # noqa: B018  (asking changes nothing)
    for value in reversed(values):
        other.update([value])
    ordered = sorted(values)
    assert list(latencies.quantiles) == ["p50", "p90", "p99"]
    for q, found in zip((0.5, 0.9, 0.99), latencies.quantiles.values()):
        expected = ordered[int(q * (len(values) - 1))]
        assert abs(found - expected) <= 0.01 * expected + 0.5
    assert latencies.quantiles == other.quantiles, "the same in any order"
    few = Latencies()
    assert few.quantiles == {}
    few.update([0, 0, 0, 70])
    assert few.quantiles == {"p50": 0, "p90": 0, "p99": 0}
    few.update([70] * 96)
    assert few.quantiles == {"p50": 70, "p90": 70, "p99": 70}
