"""The measures' kernels: against fractions, and without the compiler."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from compiled import from_python
from hypothesis import assume, example, given
from hypothesis import strategies as st
from oracle_measures import MEASURES as OF_MATRIX
from oracle_measures import Kind, measures
from prequential.core import mathematics, scores
from prequential.core.kernel import Floats, Ints
from prequential.core.measures import INDEX, NAMES, NO_POSITIVE, REASONS, UNSEEN_POSITIVE, auc
from prequential.core.measures import table as kernels
from prequential.core.measures.per_class import new_classes
from prequential.core.measures.positive import Positives
from prequential.core.measures.table import measure_cells, measure_numbers

measure, by_chance = from_python(kernels.measure), from_python(kernels.by_chance)
measure_rows, area = from_python(kernels.measure_rows), from_python(auc.area)
power, kth_root = from_python(mathematics.power), from_python(mathematics.root)
bin_of, log_loss_of = from_python(scores.bin_of), from_python(scores.log_loss_of)

NO_SUMS = np.zeros(scores.SIZE)

#: Values and reasons by the measure's name.
Table = tuple[dict[str, float], dict[str, str]]


def table(run: object, *arguments: object) -> Table:
    """Values and reasons."""
    values, reasons = np.full(len(NAMES), np.nan), np.full(len(NAMES), -1)
    run(*arguments, values, reasons)  # type: ignore[operator]
    assert np.isfinite(values).all()
    assert not values[reasons != 0].any()
    defined = {name: float(values[at]) for name, at in INDEX.items() if not reasons[at]}
    return defined, {name: REASONS[reasons[at]] for name, at in INDEX.items() if reasons[at]}


def measured(
    cells: Floats, positive: int = 0, sums: Floats | None = None
) -> Table:
    """The table of a matrix in joint cells."""
    classes = new_classes(math.isqrt(len(cells) // 4))
    return table(measure, cells, classes, positive, NO_SUMS if sums is None else sums, sums is not None)


def cells_of(estimator: str, capacity: int, places: list[int]) -> Floats:
    """The joint cells that an estimator has after outcomes in these places."""
    kind, _, parameter = estimator.partition(":")
    cells = np.zeros(4 * capacity * capacity)
    for place in places[-int(parameter) :] if kind == "window" else places:
        if kind == "fading":
            cells *= float(parameter)
        cells[place] += 1.0
    return cells


@st.composite
def memories(draw: st.DrawFn) -> Floats:
    """Cells of random outcomes; of few kinds, so that classes, rows and baselines are also missing."""
    capacity = draw(st.sampled_from([2, 4, 8]))
    cell = st.integers(0, 4 * capacity * capacity - 1)
    kinds = draw(st.lists(cell, min_size=1, max_size=12))
    estimators = "all", "window:7", "window:50", "fading:0.9", "fading:0.99", "fading:1"
    places = draw(st.lists(st.sampled_from(kinds), max_size=80))
    return cells_of(draw(st.sampled_from(estimators)), capacity, places)


#: What is configured: nothing, a class, one that never comes.
POSITIVES = st.sampled_from([None, "0", "1", "6", "never"])


def positive_of(configured: str | None, cells: Floats) -> int:
    """The code of the positive class where the classes' names are their codes."""
    if configured is not None:
        return UNSEEN_POSITIVE if configured == "never" else int(configured)
    labels = np.flatnonzero(cells.reshape(math.isqrt(len(cells) // 4), -1).sum(axis=1))
    return 1 if set(labels.tolist()) <= {0, 1} else NO_POSITIVE


@given(memories(), POSITIVES)
@example(cells_of("all", 2, []), "1")
def test_measures_of_classes_are_those_of_fractions(cells: Floats, configured: str | None) -> None:
    capacity = math.isqrt(len(cells) // 4)
    assume(configured != "6" or capacity == 8)
    weights = {
        Kind(str(at // 4 // capacity), str(at // 4 % capacity), bool(at & 2), bool(at & 1)): float(weight)
        for at, weight in enumerate(cells)
    }
    values, reasons = measures(weights, configured)
    mine = measured(cells, positive_of(configured, cells))
    assert {name: why for name, why in mine[1].items() if name in OF_MATRIX} == reasons
    for name, value in values.items():
        if name == "kappa_plus":  # a root, which makes 1e-8 of 1e-16
            assert mine[0][name] ** 2 == pytest.approx(value**2, abs=1e-12)
        else:
            assert mine[0][name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize(
    ("outcomes", "undefined"),
    [([], []), ([(1.0, 1.0)], ["r2"]), ([(1.0, 1.0), (1.0, 2.0)], ["r2"]),
     ([(0.0, 1e160), (1e-160, 1e160)], ["mse", "rmse", "r2"])],
)  # fmt: skip
def test_measures_of_numbers_are_never_infinite(
    outcomes: list[tuple[float, float]], undefined: list[str]
) -> None:
    sums, labels = np.zeros(scores.SIZE), [y for y, _ in outcomes]
    for y, prediction in outcomes:
        with np.errstate(over="ignore"):
            error = np.float64(prediction - y)
            places = [scores.SCORED, scores.ABSOLUTE, scores.SQUARED, scores.BIAS]
            sums[places] += [1, abs(error), error**2, error]
    mean = sum(labels) / max(1, len(labels))
    spread = sum((y - mean) ** 2 for y in labels)
    values, reasons = table(measure_numbers, sums, bool(outcomes), spread)
    if not outcomes:
        assert set(reasons.values()) == {"empty"}
        return
    of_numbers = {"mae", "mse", "rmse", "r2", "bias"}
    assert values.keys() == of_numbers - set(undefined)
    assert {reasons[name] for name in undefined} <= {"zero_denominator"}
    errors = [prediction - y for y, prediction in outcomes]
    assert values["mae"] == pytest.approx(sum(map(abs, errors)) / len(errors), rel=1e-12)
    assert values["bias"] == pytest.approx(sum(errors) / len(errors), rel=1e-12)


def exactly(cells: Floats) -> dict[str, Fraction]:
    """1 - kappa and its relatives in fractions, and mcc² with its sign; without what is undefined."""
    k = math.isqrt(len(cells) // 4)
    whole = [Fraction(float(cell)) for cell in cells]
    matrix = [[sum(whole[(y * k + h) * 4 :][:4]) for h in range(k)] for y in range(k)]
    n, right = sum(map(sum, matrix)), sum(matrix[i][i] for i in range(k))
    labels, predictions = [sum(row) for row in matrix], [sum(column) for column in zip(*matrix)]
    chance = sum(y * h for y, h in zip(labels, predictions))
    outside = {
        "kappa": (n * n - chance) / n,
        "kappa_per": n - sum(whole[2::4] + whole[3::4]),
        "kappa_maj": n - sum(whole[1::4] + whole[3::4]),
    }
    found = {name: (n - right) / part for name, part in outside.items() if part}
    spreads = (n * n - sum(y * y for y in labels)) * (n * n - sum(h * h for h in predictions))
    if spreads:
        covariance = right * n - chance
        found["mcc"] = covariance * abs(covariance) / spreads
    return found


weights = st.floats(1e-16, 1e-12) | st.sampled_from(
    [0.0, 1e-13, 3e-15, 0.7e-14, 1e-9, 1e-40, 1e-190, 0.3, 1.0]
)


@given(st.sampled_from([2, 4]).flatmap(lambda k: st.lists(weights, min_size=4 * k * k, max_size=4 * k * k)))
@example([1000.0, *[0.0] * 3, 1e-10, *[0.0] * 6, 3e-11, 2e-11, *[0.0] * 3])
def test_faded_measures_keep_their_digits_where_nearly_all_is_one_class(given: list[float]) -> None:
    """All but 1e-13 of the weight, or all but 1e-190, in one cell or few."""
    cells = np.array([100.0, *given[1:]])
    values, _ = measured(cells)
    exact = exactly(cells)
    assert {"kappa", "kappa_per", "kappa_maj", "mcc"} & values.keys() == exact.keys()
    for name, want in exact.items():
        if name == "mcc":
            root = math.copysign(math.sqrt(abs(want)), want)
            assert values[name] == pytest.approx(root, rel=1e-12, abs=1e-12)
        else:  # 1 - kappa; near 0 it has the digits that a float near 1 leaves it
            error = abs(Fraction(values[name]) - (1 - want))
            assert error <= Fraction(1e-12) * want + Fraction(2e-16), name
    assert values["error"] == pytest.approx(1 - float(Fraction(values["accuracy"])), abs=1e-15)


def test_two_digits_are_not_enough() -> None:
    """All but 1e-13 of the weight is in one cell: 1 - p_ran as a difference has two digits that are right."""
    rows = [[0.37, 4.44e-15], [1.11e-14, 5.92e-15]]
    cells = np.zeros(16)
    cells[::4] = np.ravel(rows)
    want = 1 - exactly(cells)["kappa"]
    assert abs(Fraction(measured(cells)[0]["kappa"]) - want) < Fraction(1e-15)


@given(memories(), POSITIVES)
def test_room_for_more_classes_changes_no_bit(cells: Floats, configured: str | None) -> None:
    code = positive_of(configured, cells)
    capacity = math.isqrt(len(cells) // 4)
    assume(code < capacity)
    wide = np.zeros((2 * capacity, 2 * capacity, 4))
    wide[:capacity, :capacity] = cells.reshape(capacity, capacity, 4)
    assert measured(wide.ravel(), code) == measured(cells, code)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_area_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    p = np.array([rank / 5 for rank, _ in pairs] + [9.0])
    sides = np.array([side for _, side in pairs] + [True], dtype=np.uint8)
    value, reason = area(p, sides, len(pairs), np.empty(2 * len(pairs)))
    positive = [rank for rank, side in pairs if side]
    negative = [rank for rank, side in pairs if not side]
    if positive and negative:
        right = sum(Fraction(2 * (a > b) + (a == b), 2) for a in positive for b in negative)
        assert (value, reason) == (float(right / (len(positive) * len(negative))), 0)
    else:
        assert REASONS[reason] == ("no_negatives" if positive else "no_positives")


@pytest.mark.parametrize("regression", [False, True])
def test_rows_are_measured_each_by_itself(regression: bool) -> None:
    generator = np.random.default_rng(1)
    cells = np.floor(generator.random((5, 64)) * 9)
    sums, spreads = generator.random((5, scores.SIZE)), generator.random(5)
    positives, scored = np.array([0, 3, -1, -2, 9]), np.array([0, 1, 1, 0, 1], dtype=np.uint8)
    values, reasons = np.empty((5, len(NAMES))), np.empty((5, len(NAMES)), dtype=np.int64)
    measure_rows(cells, 4, positives, sums, scored, spreads, values, reasons, regression)
    for row in range(5):
        value, reason = np.empty(len(NAMES)), np.empty(len(NAMES), dtype=np.int64)
        if regression:
            measure_numbers(sums[row], bool(scored[row]), spreads[row], value, reason)
        else:
            classes = new_classes(4)
            measure(cells[row], classes, positives[row], sums[row], bool(scored[row]), value, reason)
        assert (values[row].tobytes(), reasons[row].tobytes()) == (value.tobytes(), reason.tobytes())


@pytest.mark.parametrize("code", [NO_POSITIVE, UNSEEN_POSITIVE, 1])
def test_cells_are_measured_with_the_positive_class_of_their_sequence(code: int) -> None:
    """Nothing is said of the classes' names here, so what is configured is the positive class."""
    cells, classes = np.arange(16.0), new_classes(2)
    none = np.zeros(1, dtype=np.int32)
    positives = Positives(none, np.array([code], dtype=np.int32), none, none + 2, np.zeros(2, dtype=np.uint8))
    given = (cells, classes, positives, 0)
    assert table(measure_cells, *given, False, NO_SUMS, True) == measured(cells, code, NO_SUMS)
    chance = table(by_chance, cells, classes, code)
    assert table(measure_cells, *given, True, NO_SUMS, True) == chance


def test_geometric_mean_of_many_small_recalls() -> None:
    """Their product is smaller than any float."""
    matrix = np.full((256, 256, 4), 0.0)
    matrix[:, :, 0] = 1.0
    assert measured(matrix.ravel())[0]["g_mean"] == pytest.approx(1 / 256, rel=1e-14)


@given(st.floats(5e-324, 1.7e308))
def test_logarithm(x: float) -> None:
    assert mathematics.log(x) == pytest.approx(math.log(x), rel=4e-16, abs=0)


@given(st.floats(-708, 709))
def test_exponential(x: float) -> None:
    assert mathematics.exp(x) == pytest.approx(math.exp(x), rel=4e-16, abs=0)


@given(st.floats(1e-280, 1e299), st.integers(1, 300))
def test_roots_are_inverse_to_powers(x: float, k: int) -> None:
    found = kth_root(x, k)
    exact = Fraction(found) ** k / Fraction(x)
    assert abs(exact - 1) < 4e-16 * k


@given(st.floats(-3, 3), st.integers(0, 40))
def test_powers(base: float, exponent: int) -> None:
    assert power(base, exponent) == pytest.approx(float(Fraction(base) ** exponent), rel=1e-14)


@pytest.mark.parametrize("x", [0.0, -1.0, math.inf, math.nan])
def test_logarithms_of_what_has_none(x: float) -> None:
    want = {0.0: -math.inf, math.inf: math.inf}.get(x, math.nan)
    assert mathematics.log(x) == pytest.approx(want, nan_ok=True)


@pytest.mark.parametrize(
    ("x", "want"), [(-math.inf, 0.0), (math.inf, math.inf), (-746.0, 0.0), (710.0, math.inf)]
)
def test_exponentials_out_of_range(x: float, want: float) -> None:
    assert mathematics.exp(x) == want
    assert math.isnan(mathematics.exp(math.nan))
    assert mathematics.exp(709.782712893384) == pytest.approx(math.exp(709.782712893384), rel=4e-16)
    assert 0 < mathematics.exp(-745.0) < 1e-320


@given(st.floats(0, 1))
def test_bins_and_losses_of_a_probability(p: float) -> None:
    place = bin_of(p)
    assert 0 <= place < scores.BINS
    assert place / 15 <= p + 1e-15 <= (place + 1) / 15 + 2e-15
    assert log_loss_of(p) == pytest.approx(-math.log(min(max(p, 1e-15), 1 - 1e-15)), rel=4e-16)


def fixed() -> str:
    """The bits of all kernels for inputs that are always the same, in hexadecimal."""
    generator = np.random.default_rng(7)
    bits: list[str] = []
    for k in (2, 4, 8):
        for row in range(12):
            joint = generator.random(4 * k * k) * (generator.random(4 * k * k) < 0.7)
            cells: Floats = np.floor(joint * 9) if row % 2 else joint * 10.0 ** -(row % 5)
            values, reasons = np.empty(len(NAMES)), np.empty(len(NAMES), dtype=np.int64)
            classes, sums = new_classes(k), generator.random(scores.SIZE)
            measure(cells, classes, row % 4 - 2, sums, row % 3 > 0, values, reasons)
            bits += [values.tobytes().hex(), reasons.tobytes().hex()]
            by_chance(cells, classes, row % 4 - 2, values, reasons)
            bits += [values.tobytes().hex(), reasons.tobytes().hex()]
            measure_numbers(sums, row % 3 > 0, float(row % 2), values, reasons)
            bits += [values.tobytes().hex(), reasons.tobytes().hex()]
    for x in (10 ** (600 * generator.random(300) - 300)).tolist():
        small = math.remainder(x, 700)
        bits += [float(value).hex() for value in (mathematics.log(x), mathematics.exp(small))]
        bits += [float(kth_root(x, k)).hex() for k in (1, 2, 3, 8, 200)]
        bits += [float(power(small, k)).hex() for k in (0, 1, 7, 30)]
        bits.append(float(log_loss_of(x / (1 + x))).hex())
    p = np.round(generator.random(50), 1)
    sides: Ints = (generator.random(50) < 0.4).astype(np.uint8)
    value, _ = area(p, sides, 50, np.empty(100))
    return "\n".join([*bits, float(value).hex()])


def test_without_the_compiler_the_bits_are_the_same() -> None:
    here = Path(__file__)
    root = here.parents[2]
    path = os.pathsep.join(map(str, (here.parent, here.parents[1], root / "pipeline", root / "topics")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import test_measure_kernels as t; print(t.fixed())"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == fixed().split()
