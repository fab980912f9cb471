"""Cells and sums over all history, windows and fading against plain loops over lists of outcomes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from compiled import from_python
from outcome_logs import CAPACITIES, FACTOR, SIZE, consumed, random_cuts, random_log, read_faded
from prequential.core.compiled.kernel import Floats, grown
from prequential.core.estimators import all_history, fading, pairs, sums, window
from prequential.core.tables import outcomes, scores
from prequential.core.tables.outcomes import OUTCOME, REVISION, Log

add_to_window, add_to_fading = from_python(window.add), from_python(fading.add)
sides = from_python(sums.sides)

ROWS = 1200


def cell(label: int, prediction: int, bits: int, capacity: int = CAPACITIES[1]) -> int:
    """The place of a joint cell, as docs/semantics.md has it."""
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
    counts = [0] * (4 * CAPACITIES[1] ** 2)
    for one in of:
        counts[cell(int(one["label"]), int(one["prediction"]), int(one["bits"]))] += 1
    return counts


def additions(one: dict[str, float], *, numbers: bool) -> Iterator[tuple[int, float]]:
    """(place, value) of what an outcome adds to sums, from docs/measures.md."""
    if numbers:
        error = one["error"]
        yield from ((scores.SCORED, 1.0), (scores.ABSOLUTE, abs(error)))
        yield from ((scores.SQUARED, error * error), (scores.BIAS, error))
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


def added(of: list[dict[str, float]], factor: float = 1.0, *, numbers: bool) -> list[float]:
    """S = x + A·S, outcome by outcome, of all sums."""
    found = [0.0] * scores.SIZE
    for one in of:
        found = [factor * value for value in found]
        for place, value in additions(one, numbers=numbers):
            found[place] += value
    return found


def spread(of: list[dict[str, float]], factor: float = 1.0) -> float:
    """Σw(y - ȳ)² in fractions."""
    values = [Fraction(one["value"]) for one in of]
    weights = [Fraction(factor**age) for age in reversed(range(len(of)))]
    mean = sum(w * y for w, y in zip(weights, values)) / sum(weights)
    return float(sum(w * (y - mean) ** 2 for w, y in zip(weights, values)))


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_all_state_is_that_of_plain_loops(seed: int, numbers: bool) -> None:
    log = random_log(seed, ROWS, numbers=numbers)
    consumers = consumed(log, random_cuts(seed, ROWS), numbers=numbers)
    said = iter(consumers.read())
    for of in sequences_of(log):
        assert next(said).tolist() == tally(of)
        assert next(said).tolist() == tally(of[-SIZE:])
        weights = [0.0] * (4 * CAPACITIES[1] ** 2)
        for one in of:
            weights = [FACTOR * weight for weight in weights]
            weights[cell(int(one["first"]), int(one["prediction"]), int(one["bits"]))] += 1.0
        np.testing.assert_allclose(next(said), weights, rtol=1e-12)
        assert next(said).tolist() == added(of, numbers=numbers)
        assert next(said).tolist() == added(of[-SIZE:], numbers=numbers)
        np.testing.assert_allclose(next(said), added(of, FACTOR, numbers=numbers), rtol=1e-12, atol=1e-13)
        *spreads, any_in_all, any_in_window, any_faded = next(said).tolist()
        assert any_in_all
        assert any_faded
        assert any_in_window == any(one["scored"] for one in of[-SIZE:])
        if numbers:
            expected = (spread(of), spread(of[-SIZE:]), spread(of, FACTOR))
            np.testing.assert_allclose(spreads, expected, rtol=1e-9)


@pytest.mark.parametrize("numbers", [False, True])
def test_cuts_reading_and_snapshots_change_no_bit(numbers: bool) -> None:
    log = random_log(11, ROWS, numbers=numbers)
    halves = [np.arange(ROWS // 2, dtype=np.int32), np.arange(ROWS // 2, ROWS, dtype=np.int32)]
    expected = consumed(log, halves, numbers=numbers).bits()
    for seed in range(3):
        cuts = random_cuts(seed, ROWS)
        assert consumed(log, cuts, numbers=numbers, snapshots=seed > 0).bits() == expected
    one_by_one = [np.array([row], dtype=np.int32) for row in range(ROWS)]
    assert consumed(log, one_by_one, numbers=numbers).bits() == expected


def test_bits_are_those_of_the_same_loops_in_python() -> None:
    script = Path(__file__).parent / "outcome_logs.py"
    digests = [
        subprocess.run(
            [sys.executable, str(script)], check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_DISABLE_JIT": disabled},
        ).stdout
        for disabled in ("0", "1")
    ]  # fmt: skip
    assert len(digests[0].split()) == 2
    assert digests[0] == digests[1]


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
    capacity = CAPACITIES[1]
    whole = all_history.new_table(2, 4 * capacity**2)
    last = window.new_table(2, 4 * capacity**2, SIZE)
    for table in (whole, last):
        table.began[:] = began
    all_history.update(whole, log, rows, capacity)
    window.update(last, log, rows, capacity)
    cells = np.zeros(4 * capacity**2)
    for q, of in enumerate(reached):
        all_history.read(whole, q, cells)
        assert cells.tolist() == tally(of)
        window.read(last, q, cells)
        assert cells.tolist() == tally(of[-SIZE:])


def faded_after(factor: float, touches: list[int]) -> tuple[Floats, fading.Fading]:
    """Weights of one sequence whose outcomes are in these cells."""
    table = fading.new_table(1, 16)
    for at in touches:
        add_to_fading(table, 0, at, factor)
    cells = np.zeros(16)
    fading.read(table, 0, factor, cells)
    return cells, table


def test_without_fading_weights_are_counts() -> None:
    touches = np.random.default_rng(1).integers(0, 16, 5000).tolist()
    cells, _ = faded_after(1.0, touches)
    assert cells.tolist() == np.bincount(touches, minlength=16).tolist()


def test_a_weight_next_to_nothing_is_none() -> None:
    cells, table = faded_after(0.5, [3] + [0] * 700)
    assert cells[3] == 0.0
    assert cells[0] == 2.0
    add_to_fading(table, 0, 3, 0.5)
    assert table.weights[0, 3] == 1.0
    table.n[0] += 1 << 60  # takes no longer
    fading.read(table, 0, 0.5, cells)
    assert not cells.any()


def test_faded_sums_without_weight_are_none() -> None:
    log = random_log(1, 8)
    log.kind[:], log.sequence[:], log.scored[:] = OUTCOME, 0, 0
    log.scored[0] = outcomes.SCORED
    table, of = sums.new_faded(1), np.zeros(scores.SIZE)
    sums.update_faded(table, log, np.array([0, 1], dtype=np.int32), False, 1e-30)
    assert read_faded(table, 0, 1e-30, of)
    assert of[scores.SCORED] == pytest.approx(1e-30)
    sums.update_faded(table, log, np.arange(2, 8, dtype=np.int32), False, 1e-30)
    assert not read_faded(table, 0, 1e-30, of)
    assert not of.any()


def test_sides_are_the_scored_probabilities_of_the_window() -> None:
    log = random_log(5, ROWS)
    consumers = consumed(log, random_cuts(5, ROWS))
    p, is_positive = np.zeros(SIZE), np.zeros(SIZE, np.uint8)
    for q, of in enumerate(sequences_of(log)):
        n = sides(consumers.tables["window sums"], q, p, is_positive)
        expected = [(one["positive"], one["is_positive"]) for one in of[-SIZE:] if int(one["scored"]) & 1]
        assert list(zip(p[:n].tolist(), is_positive[:n].tolist())) == expected


def test_a_spread_of_numbers_that_are_the_same_is_0() -> None:
    log = random_log(5, 50, sequences=1, numbers=True)
    log.value[:] = 0.1
    log.kind[:] = OUTCOME
    consumers = consumed(log, random_cuts(5, 50), numbers=True)
    assert consumers.read()[-1][:3].tolist() == [0.0, 0.0, 0.0]


def test_pairs_are_those_of_neighbours() -> None:
    log = random_log(6, ROWS)
    consumers = consumed(log, random_cuts(6, ROWS))
    for q, of in enumerate(sequences_of(log)):
        of_sign: list[list[int]] = [[], [], [], []]
        for one in of:
            of_sign[pairs.WRONG].append(int(one["first"] != one["prediction"]))
            of_sign[pairs.PERSISTENT].append(int(one["bits"]) >> 1)
            of_sign[pairs.MAJORITY].append(int(one["bits"]) & 1)
            of_sign[pairs.CELL].append(2 * (one["first"] == 1) + (one["prediction"] == 1))
        for sign, seen in enumerate(of_sign):
            kinds = 4 if sign == pairs.CELL else 2
            codes = [kinds * before + now for before, now in pairwise(seen)]
            count = np.bincount(codes, minlength=kinds**2)
            cells = np.zeros(kinds**2)
            all_history.read(consumers.tables[f"all pairs {sign}"], q, cells)
            assert cells.tolist() == count.tolist()
            window.read(consumers.tables[f"window pairs {sign}"], q, cells)
            assert cells.tolist() == np.bincount(codes[-SIZE:], minlength=kinds**2).tolist()
            fading.read(consumers.tables[f"fading pairs {sign}"], q, FACTOR, cells)
            weights = FACTOR ** np.arange(len(codes) - 1, -1, -1)
            np.testing.assert_allclose(
                cells, np.bincount(codes, weights, minlength=kinds**2), rtol=1e-12, atol=1e-13
            )
        assert consumers.tables["error pairs"].counts[q].tolist() == np.bincount(
            [2 * a + b for a, b in pairwise(of_sign[0])], minlength=4
        ).tolist()


def test_tables_grow_by_rows() -> None:
    table = grown(window.new_table(1, 16, SIZE), 40)
    add_to_window(table, 39, 7)
    assert table.cells[39, 7] == table.n[39] == 1
