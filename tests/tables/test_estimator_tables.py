"""Cells and sums over all history, windows and fading against plain loops over lists of outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import outcome_logs as logs
import pytest
from compiled import from_python
from oracle_ranks import bin_of
from outcome_logs import consumed, random_cuts, random_log
from prequential.engine.compiled.kernel import Floats, grown
from prequential.engine.estimators import outcome_pairs, window
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.declaration import COUNTS, Payload
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import LogRows, unrevised
from prequential.engine.estimators.sums import OF_CLASSES, OF_NUMBERS, SPREAD, is_any
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import OUTCOME, REVISION, Log

from tests.nightly import few, scaled

sides = from_python(window._sides)

ROWS = scaled(500, 1_200)


def cell(label: int, prediction: int, bits: int, capacity: int = logs.CAPACITIES[1]) -> int:
    """The place of a joint cell, as docs/reference/semantics-estimators.md has it."""
    return (label * capacity + prediction) * 4 + bits


def sequences_of(log: Log) -> list[list[dict[str, float]]]:
    """The outcomes of each sequence with their labels as revised, and as they came (`first`)."""
    found: list[list[dict[str, float]]] = [[] for _ in range(int(log.sequence.max()) + 1)]
    for row in range(len(log.kind)):
        one = {name: getattr(log, name)[row].item() for name in Log._fields}
        of = found[log.sequence[row]]
        if one["kind"] == REVISION:
            of[int(one["number"]) - 1]["label"] = one["revised"]
        else:
            of.append(one | {"first": one["label"]})
    return found


def tally(of: list[dict[str, float]]) -> list[int]:
    counts = [0] * (4 * logs.CAPACITIES[1] ** 2)
    for one in of:
        counts[cell(int(one["label"]), int(one["prediction"]), int(one["bits"]))] += 1
    return counts


def additions(one: dict[str, float], *, numbers: bool) -> Iterator[tuple[int, float]]:
    """(place, value) of what an outcome adds to sums, from docs/reference/measures.md."""
    if numbers:
        error = one["error"]
        yield from ((scores.SCORED, 1.0), (scores.ABSOLUTE_ERRORS, abs(error)))
        yield from ((scores.SQUARED_ERRORS, error * error), (scores.BIAS, error))
        if one["value"]:
            yield from ((scores.RELATIVE_ERRORS, abs(error) / abs(one["value"])), (scores.RELATIVE, 1.0))
        return
    right = one["first"] == one["prediction"]
    if int(one["scored"]) & 1:
        place = min(14, max(0, math.ceil(one["confidence"] * 15) - 1))
        yield from ((scores.SCORED, 1.0), (scores.LOG_LOSS, one["log_loss"]), (scores.BRIER, one["brier"]))
        yield from ((scores.IN_BIN + place, 1.0), (scores.CONFIDENCE + place, one["confidence"]))
        yield (scores.RIGHT + place, float(right))
    if int(one["scored"]) & 2:
        weight = one["weight"]
        yield from ((scores.WEIGHT, weight), (scores.WEIGHT_RIGHT, weight * right))
        yield (scores.WEIGHT_SQUARED, weight * weight)


def added(of: list[dict[str, float]], decays: list[float] | float = 1.0, *, numbers: bool) -> list[float]:
    """S = x + A·S, outcome by outcome, of all sums."""
    found = [0.0] * scores.SIZE
    for place, one in enumerate(of):
        factor = decays[place] if isinstance(decays, list) else decays
        found = [factor * value for value in found]
        for place, value in additions(one, numbers=numbers):
            found[place] += value
    return found


def exactly(of: list[dict[str, float]], *, numbers: bool) -> list[float]:
    """The sums of all outcomes, each rounded once."""
    terms: list[list[float]] = [[] for _ in range(scores.SIZE)]
    for one in of:
        for place, value in additions(one, numbers=numbers):
            terms[place].append(value)
    return [math.fsum(values) for values in terms]


def decays_of(of: list[dict[str, float]]) -> list[float]:
    """2^(-Δt/H) at each outcome, Δt from the latest label time before it."""
    found, latest = [], -math.inf
    for one in of:
        found.append(0.0 if latest == -math.inf else 2.0 ** (-max(0.0, one["t1"] - latest) / logs.HALF_LIFE))
        latest = max(latest, one["t1"])
    return found


def spread(of: list[dict[str, float]], decays: list[float] | float = 1.0) -> float:
    """Σw(y - ȳ)² in fractions, as Σwy² - (Σwy)² / Σw: one division of long numbers."""
    values, weights = [Fraction(one["value"]) for one in of], [Fraction(1)]
    for decay in (decays if isinstance(decays, list) else [decays] * len(of))[:0:-1]:
        weights.insert(0, weights[0] * Fraction(decay))
    total, first, second = (sum(w * y**power for w, y in zip(weights, values)) for power in range(3))
    return float(second - first**2 / total)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("seed", few(range(4)))
def test_all_state_is_that_of_plain_loops(seed: int, numbers: bool) -> None:
    log = random_log(seed, ROWS, numbers=numbers)
    consumers = consumed(log, random_cuts(seed, ROWS), numbers=numbers)
    for of, said in zip(sequences_of(log), consumers.read()):
        assert said["all"][0].tolist() == tally(of)
        assert said["window"][0].tolist() == tally(of[-logs.SIZE :])
        decays = {"fading": [logs.FACTOR] * len(of), "decay": decays_of(of)}
        for name, by_outcome in decays.items():
            weights = [0.0] * (4 * logs.CAPACITIES[1] ** 2)
            for one, decay in zip(of, by_outcome):
                weights = [decay * weight for weight in weights]
                weights[cell(int(one["first"]), int(one["prediction"]), int(one["bits"]))] += 1.0
            np.testing.assert_allclose(said[name][0], weights, rtol=1e-11, atol=1e-199)
            sums = added(of, by_outcome, numbers=numbers)
            np.testing.assert_allclose(said[name][1][: scores.SIZE], sums, rtol=1e-11, atol=1e-13)
            assert is_any(said[name][1])
        assert said["all"][1][: scores.SIZE].tolist() == exactly(of, numbers=numbers)
        assert said["window"][1][: scores.SIZE].tolist() == exactly(of[-logs.SIZE :], numbers=numbers)
        assert is_any(said["all"][1])
        assert is_any(said["window"][1]) == any(one["scored"] for one in of[-logs.SIZE :])
        if numbers:
            found = [said[name][1][SPREAD] for name in ("all", "window", "fading", "decay")]
            expected = [spread(of), spread(of[-logs.SIZE :]), *(spread(of, one) for one in decays.values())]
            np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("numbers", [False, True])
def test_cuts_reading_and_snapshots_change_no_bit(numbers: bool) -> None:
    log = random_log(11, ROWS, numbers=numbers)
    halves = [np.arange(ROWS // 2, dtype=np.int32), np.arange(ROWS // 2, ROWS, dtype=np.int32)]
    expected = consumed(log, halves, numbers=numbers).bits()
    for seed in range(3):
        vectors = random_cuts(seed, ROWS)
        assert consumed(log, vectors, numbers=numbers, snapshots=seed > 0).bits() == expected
    one_by_one = [np.array([row], dtype=np.int32) for row in range(ROWS)]
    assert consumed(log, one_by_one, numbers=numbers).bits() == expected


def test_what_began_later_is_not_reached_by_revisions_of_outcomes_before() -> None:
    began = 40
    log = random_log(3, ROWS, sequences=2)
    reached = [outcome[began:] for outcome in sequences_of(log)]
    fed = []
    outcomes_so_far = [0, 0]
    for row in range(ROWS):
        q = log.sequence[row]
        outcomes_so_far[q] += log.kind[row] == OUTCOME
        if outcomes_so_far[q] > began:
            fed.append(row)
    rows = np.array(fed, dtype=np.int32)
    assert (log.number[rows[log.kind[rows] == REVISION]] <= began).any()
    taken = LogRows(log, rows, logs.CAPACITIES[1], numbers=False)
    for name in ("all", "window"):
        estimator = Estimator(logs.ESTIMATORS[name], 2, logs.CAPACITIES[1], False)
        estimator.begin(np.arange(2), np.full(2, began))
        estimator.update(taken)
        for q, of in enumerate(reached):
            assert estimator.cells_of(q).weights.tolist() == tally(of if name == "all" else of[-logs.SIZE :])


def counting(name: str, cells: list[int], times: list[int] | None = None) -> Accumulator:
    """What is remembered of one sequence whose outcomes are in these of 16 cells."""
    of = Accumulator(name, Payload(COUNTS, 16), 1)
    count(of, cells, times)
    return of


def count(of: Accumulator, cells: list[int], times: list[int] | None = None) -> None:
    places = np.zeros(len(cells), dtype=np.int32)
    at = np.array(times, dtype=np.int64) if times else places.astype(np.int64)
    of.count(unrevised(places, at, np.array(cells, dtype=np.int32)))


def read(of: Accumulator) -> Floats:
    return of.counted(np.zeros(1, dtype=np.int64)).cells[0]


def test_without_fading_weights_are_counts() -> None:
    touches = np.random.default_rng(1).integers(0, 16, 5000).tolist()
    counts = np.bincount(touches, minlength=16).tolist()
    assert read(counting("fading:1.0", touches)).tolist() == counts
    assert read(counting("decay:1h", touches)).tolist() == counts  # all at one time


def test_a_weight_next_to_nothing_is_none() -> None:
    of = counting("fading:0.5", [3] + [0] * 700)
    assert read(of)[3] == 0.0
    assert read(of)[0] == 2.0
    count(of, [3])
    assert of.table.weights[0, 3] == 1.0
    of.table.n[0] += 1 << 60  # takes no longer
    assert not read(of).any()


@pytest.mark.parametrize("factor", [1e-300, 1e-10, 0.5, 0.9999, 1.0])
def test_no_weight_is_infinite_and_no_outcome_without_one(factor: float) -> None:
    of = counting("fading:1", [])
    of.parameter = factor
    for between in (0, 1, 10, 1000, 10**6, 10**12):
        count(of, [0])
        of.table.n[0] += between
        count(of, [1])
        weights = read(of)
        assert np.isfinite(weights).all()
        assert weights[1] >= 1
        assert weights[0] == 0 or weights[0] >= 1e-200


@pytest.mark.parametrize("first", [-8_640_000_000_000_000, -5, 0, 1_700_000_000_000, 8_640_000_000_000_000])
def test_weights_halve_by_time(first: int) -> None:
    """Exactly after whole half-lives; what comes late counts 1, and lets nothing decay."""
    of = counting("decay:10ms", [0], [first])
    assert read(of)[0] == 1.0
    count(of, [1, 2, 0], [first + 20, first + 10, first + 30])
    assert read(of)[:3].tolist() == [1.125, 0.5, 0.5]
    assert of.effective(0, 2.125) == 2.125**2 / (1 + 0.125**2 + 0.5**2 + 0.5**2)
    count(of, [5], [first + 10_000])
    assert read(of).tolist() == [0.0] * 5 + [1.0] + [0.0] * 10


def test_a_memory_by_time_counts_as_a_plain_loop_does() -> None:
    random = np.random.default_rng(3)
    times = np.cumsum(random.integers(-40, 200, 500)).tolist()
    cells = random.integers(0, 16, 500).tolist()
    weights, squares, latest = np.zeros(16), 0.0, times[0]
    of = Accumulator("decay:300ms", Payload(COUNTS, 16), 1)
    for cell_now, time in zip(cells, times):
        decay = 2.0 ** (-max(0, time - latest) / 300)
        latest = max(latest, time)
        weights, squares = weights * decay, squares * decay**2 + 1.0
        weights[cell_now] += 1.0
        count(of, [cell_now], [time])
        np.testing.assert_allclose(read(of), weights, rtol=1e-12)
        n = float(weights.sum())
        assert of.effective(0, n) == pytest.approx(n * n / squares, rel=1e-12)


def test_faded_sums_without_weight_are_none() -> None:
    log = random_log(1, 8)
    log.kind[:], log.sequence[:], log.scored[:] = OUTCOME, 0, 0
    log.scored[0] = outcomes.SCORED
    of = Accumulator("fading:1e-30", OF_CLASSES, 1)
    of.add(LogRows(log, np.array([0, 1], dtype=np.int32), 4, numbers=False).scores)
    sums = of.summed(np.zeros(1, dtype=np.int64))[0]
    assert is_any(sums)
    assert sums[scores.SCORED] == pytest.approx(1e-30)
    of.add(LogRows(log, np.arange(2, 8, dtype=np.int32), 4, numbers=False).scores)
    assert not of.summed(np.zeros(1, dtype=np.int64)).any()


def test_sides_are_the_scored_probabilities_of_the_window() -> None:
    log = random_log(5, ROWS)
    consumers = consumed(log, random_cuts(5, ROWS))
    p, is_positive = np.zeros(logs.SIZE), np.zeros(logs.SIZE, np.uint8)
    for q, of in enumerate(sequences_of(log)):
        n = sides(consumers.estimators["window"].sums.table, q, p, is_positive)
        scored = [one for one in of[-logs.SIZE :] if int(one["scored"]) & 1]
        expected = [(one["positive"], one["is_positive"]) for one in scored]
        assert list(zip(p[:n].tolist(), is_positive[:n].tolist())) == expected


@pytest.mark.parametrize(("size", "numbers"), few([(512, False), (700, True), (700, False), (512, True)], 2))
def test_long_windows_are_exact(size: int, numbers: bool) -> None:
    """Wherever they are read, full or not, and however outcomes are cut: what a plain loop says."""
    log = random_log(size, 4_000, sequences=2, numbers=numbers)
    payload, both, seen = OF_NUMBERS if numbers else OF_CLASSES, np.arange(2), 0
    windows = [Accumulator(f"window:{size}", payload, 2) for _ in range(2)]
    for rows in random_cuts(size, 4_000):
        for row in rows.tolist():
            windows[0].add(LogRows(log, np.array([row], dtype=np.int32), 4, numbers=numbers).scores)
        windows[1].add(LogRows(log, rows, 4, numbers=numbers).scores)
        found = windows[1].summed(both)
        assert windows[0].summed(both).tobytes() == found.tobytes()
        for q, of in enumerate(sequences_of(log[: rows[-1] + 1]) if len(rows) else ()):
            assert found[q, : scores.SIZE].tolist() == exactly(of[-size:], numbers=numbers)
            seen += len(of) > size
    assert seen > 10
    windows[0].leave_out(np.array([1]), (scores.RANKED, scores.IN_TOP), outcomes.RANKED | outcomes.IN_TOP)
    left = windows[0].summed(both)
    kept = np.delete(np.arange(left.shape[1]), (scores.RANKED, scores.IN_TOP))
    if not numbers:
        assert left[1, [scores.RANKED, scores.IN_TOP]].tolist() == [0.0, 0.0]
        assert left[1, kept].tolist() == found[1, kept].tolist()
    assert left[0].tolist() == found[0].tolist()


def place_in_histogram(one: dict[str, float]) -> int:
    """The place of an outcome's count in a histogram, as docs/reference/measures.md has it."""
    if not int(one["scored"]) & outcomes.SCORED:
        return scores.WITHOUT_SCORE
    if int(one["scored"]) & outcomes.NO_POSITIVE:
        return scores.WITHOUT_POSITIVE
    return int(one["is_positive"]) * 200 + bin_of(one["positive"])


def test_histograms_are_of_the_scores_in_memory() -> None:
    log = random_log(7, ROWS)
    log.scored[::50] |= outcomes.NO_POSITIVE
    consumers = consumed(log, random_cuts(7, ROWS))
    for q, of in enumerate(sequences_of(log)):
        places = [place_in_histogram(one) for one in of]
        said = {name: consumers.histograms(name)[q] for name in logs.ESTIMATORS}
        assert said["all"].tolist() == np.bincount(places, minlength=scores.SCORE_WIDTH).tolist()
        last = np.bincount(places[-logs.SIZE :], minlength=scores.SCORE_WIDTH)
        assert said["window"].tolist() == last.tolist()
        for name, decays in {"fading": [logs.FACTOR] * len(of), "decay": decays_of(of)}.items():
            weights = np.zeros(scores.SCORE_WIDTH)
            for place, decay in zip(places, decays):
                weights *= decay
                weights[place] += 1.0
            np.testing.assert_allclose(said[name], weights, rtol=1e-11, atol=1e-199)


def test_a_spread_of_numbers_that_are_the_same_is_0() -> None:
    log = random_log(5, 50, sequences=1, numbers=True)
    log.value[:] = 0.1
    log.kind[:] = OUTCOME
    consumers = consumed(log, random_cuts(5, 50), numbers=True)
    assert [summed[SPREAD] for _, summed in consumers.read()[0].values()] == [0.0] * 4


def test_pairs_are_those_of_neighbours() -> None:
    log = random_log(6, ROWS)
    consumers = consumed(log, random_cuts(6, ROWS))
    for q, of in enumerate(sequences_of(log)):
        of_sign: list[list[int]] = [[], [], [], []]
        for one in of:
            of_sign[outcome_pairs.WRONG].append(int(one["first"] != one["prediction"]))
            of_sign[outcome_pairs.PERSISTENT].append(int(one["bits"]) >> 1)
            of_sign[outcome_pairs.MAJORITY].append(int(one["bits"]) & 1)
            of_sign[outcome_pairs.CELL].append(2 * (one["first"] == 1) + (one["prediction"] == 1))
        for sign, seen in enumerate(of_sign):
            kinds = 4 if sign == outcome_pairs.CELL else 2
            codes = [kinds * before + now for before, now in pairwise(seen)]
            counts = np.bincount(codes, minlength=kinds**2)
            pairs = {name: estimator.pairs[sign] for name, estimator in consumers.estimators.items()}
            cells = {name: pair.counted(np.array([q])).cells[0] for name, pair in pairs.items()}
            assert cells["all"].tolist() == counts.tolist()
            last = np.bincount(codes[-logs.SIZE :], minlength=kinds**2)
            assert cells["window"].tolist() == last.tolist()
            weights = logs.FACTOR ** np.arange(len(codes) - 1, -1, -1)
            np.testing.assert_allclose(
                cells["fading"], np.bincount(codes, weights, minlength=kinds**2), rtol=1e-12, atol=1e-13
            )
        assert consumers.tables["error pairs"].counts[q].tolist() == np.bincount(
            [2 * a + b for a, b in pairwise(of_sign[0])], minlength=4
        ).tolist()


def test_tables_grow_by_rows() -> None:
    of = Accumulator(logs.ESTIMATORS["window"], Payload(COUNTS, 16), 1)
    of.table = grown(of.table, 40)
    of.count(unrevised(np.array([39], np.int32), np.zeros(1, np.int64), np.array([7], np.int32)))
    assert of.table.cells[39, 7] == of.table.n[39] == 1


@pytest.mark.parametrize("payload", [Payload(COUNTS, 64), OF_CLASSES])
def test_a_window_has_places_for_its_outcomes_only(payload: Payload) -> None:
    """As many as its longest sequence needs, up to its size; readings are as with all from the start."""
    log, both = random_log(11, 3_000, sequences=2), np.arange(2)
    window, whole, adopting = (Accumulator("window:1000", payload, 2) for _ in range(3))
    whole.make_room(1_000)
    assert (window.places, whole.places) == (16, 1_000)
    widths = []
    for rows in np.array_split(np.arange(3_000, dtype=np.int32), 60):
        read = LogRows(log, rows, 4, numbers=False)
        for one in (window, whole):
            if payload.kind == COUNTS:
                one.count(read.cells)
            else:
                one.add(read.scores)
        adopting.adopt(window, both, both)
        widths.append(window.places)
        assert window.places >= min(1_000, int(window.table.n.max()))
        for one in (window, adopting):
            if payload.kind == COUNTS:
                assert one.counted(both).cells.tolist() == whole.counted(both).cells.tolist()
            else:
                assert one.summed(both).tobytes() == whole.summed(both).tobytes()
    assert sorted(set(widths)) == [32, 64, 128, 256, 512, 1_000]
