"""The measures' kernels: against the core's functions, against fractions, and without the compiler."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from prequential.core import measures as core
from prequential.core.classes import Classes
from prequential.core.measures.matrix import Matrix, PositiveClass
from prequential.core.memories import Memory, build_memory
from prequential.core.scores import CLIP, Scores, score_number, score_probabilities, weighted
from prequential.core.sums import AllSums
from prequential.engine import mathematics, scores
from prequential.engine.kernel import Floats, Ints
from prequential.engine.measures import INDEX, NAMES, NO_POSITIVE, REASONS, UNSEEN_POSITIVE
from prequential.engine.measures.auc import area
from prequential.engine.measures.per_class import new_classes
from prequential.engine.measures.positive import Positives
from prequential.engine.measures.table import by_chance, measure, measure_cells, measure_numbers, measure_rows

#: What 1 - x of a faded share x near 1 may be for the core's difference to have 1e-12 of its digits.
NEAR = 1e-3

NO_SUMS = np.zeros(scores.SIZE)

#: Values and reasons by the measure's name.
Table = tuple[dict[str, float], dict[str, str]]


def table(run: object, *arguments: object) -> Table:
    """Values and reasons, as the core has them."""
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


def check(got: Table, core: Table) -> None:
    """Reasons are equal, values to 1e-12 (relative to 1, where values are larger, to them)."""
    assert got[1] == core[1]
    for name, value in core[0].items():
        if name == "kappa_plus":  # a root, which makes 1e-8 of 1e-16
            assert got[0][name] ** 2 == pytest.approx(value**2, abs=1e-12)
        else:
            assert got[0][name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def memory_of(estimator: str, capacity: int, places: list[int]) -> Memory:
    memory = build_memory(estimator)
    memory.grow(capacity)
    memory.update(np.array(places, dtype=np.int64))
    return memory


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Memories of random outcomes; of few kinds, so that classes, rows and baselines are also missing."""
    capacity = draw(st.sampled_from([2, 4, 8]))
    cell = st.integers(0, 4 * capacity * capacity - 1)
    kinds = draw(st.lists(cell, min_size=1, max_size=12))
    estimators = "all", "window:7", "window:50", "fading:0.9", "fading:0.99", "fading:1"
    places = draw(st.lists(st.sampled_from(kinds), max_size=80))
    return memory_of(draw(st.sampled_from(estimators)), capacity, places)


def near_one(cells: Floats) -> bool:
    """Whether a share is so near to 1, but isn't, that the core's difference has lost digits."""
    square = cells.reshape(math.isqrt(len(cells) // 4), -1, 4)
    matrix = square.sum(axis=2)
    shares = [
        *matrix.sum(axis=0), *matrix.sum(axis=1), matrix.trace(),
        square[:, :, 2:].sum(), square[:, :, 1::2].sum(),
    ]  # fmt: skip
    n = matrix.sum()
    return any(share != n and n - share < NEAR * n for share in shares)


CLASSES = Classes(limit=8)
for name in "01234567":
    CLASSES.code(name)


def positive_of(configured: str | None, memory: Memory) -> tuple[PositiveClass, int]:
    """The core's positive class, and the engine's code of it."""
    positive = PositiveClass(configured, CLASSES)
    labels = memory.counts.reshape(memory.capacity, -1).sum(axis=1)
    code = positive.code(labels.tolist())
    return positive, NO_POSITIVE if code is None else code


POSITIVES = st.sampled_from([None, "0", "1", "6", "never"])


@given(memories(), POSITIVES)
@example(memory_of("all", 2, []), "1")
def test_measures_of_classes_are_those_of_the_core(memory: Memory, configured: str | None) -> None:
    cells = memory.counts.astype(np.float64)
    assume(memory.counts.dtype == np.int64 or not near_one(cells))
    positive, code = positive_of(configured, memory)
    check(measured(cells, code), core.compute(memory, NAMES, positive))
    classes = new_classes(memory.capacity)
    chance = core.compute_by_chance(memory, NAMES, positive)
    check(table(by_chance, cells, classes, code), chance)


def engine_sums(core_sums: Floats, *, numbers: bool = False) -> Floats:
    """The core's sums, where the engine has them."""
    sums = np.zeros(scores.SIZE)
    if numbers:
        sums[scores.SCORED] = core_sums[0]
        sums[scores.ABSOLUTE : scores.BIAS + 1] = core_sums[1:4]
    else:
        sums[: scores.WEIGHT] = core_sums[: scores.WEIGHT]
        sums[scores.WEIGHT : scores.WEIGHT_SQUARED + 1] = core_sums[-3:]
    return sums


probabilities = st.floats(0, 1)
scored = st.tuples(
    st.sampled_from("ab"), st.sampled_from("ab"), st.none() | probabilities, st.none() | st.floats(1e-9, 1)
)


@given(st.lists(scored, max_size=30))
def test_measures_of_probabilities_and_weights_are_those_of_the_core(
    outcomes: list[tuple[str, str, float | None, float | None]],
) -> None:
    found = {}
    for row, (y, h, p, propensity) in enumerate(outcomes):
        score = None if p is None else score_probabilities(y, h, ("a", p, "b", 1 - p))
        if propensity is not None:
            score = weighted(score, propensity, right=y == h)
        if score is not None:
            found[row] = score
    memory = memory_of("all", 2, [0] * 5)
    sums = AllSums() if found else None
    if sums is not None:
        sums.update(Scores.of(len(outcomes), found))
    check(
        measured(memory.counts.astype(np.float64), UNSEEN_POSITIVE, sums and engine_sums(sums.sums)),
        core.compute(memory, NAMES, PositiveClass("never", CLASSES), sums),
    )


numbers = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(numbers, numbers), max_size=20))
@example([(1.0, 1.0), (1.0, 2.0)])
@example([(0.0, 1e160), (1e-160, 1e160)])
def test_measures_of_numbers_are_those_of_the_core(outcomes: list[tuple[float, float]]) -> None:
    sums = AllSums.of(*(score_number(y, prediction) for y, prediction in outcomes), numbers=True)
    memory = memory_of("all", 2, [0] * len(outcomes))
    with np.errstate(all="ignore"):
        want = core.compute_numbers(memory, NAMES, sums if outcomes else None)
    for name in [name for name, value in want[0].items() if not math.isfinite(value)]:
        del want[0][name]
        want[1][name] = "zero_denominator"  # the core has infinity
    got = table(measure_numbers, engine_sums(sums.sums, numbers=True), bool(outcomes), sums.spread)
    check(got, want)


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


def test_the_digits_that_the_core_lost() -> None:
    """All but 1e-13 of the weight is in one cell: of the core's kappa two digits were right."""
    rows = [[0.37, 4.44e-15], [1.11e-14, 5.92e-15]]
    cells = np.zeros(16)
    cells[::4] = np.ravel(rows)
    want = 1 - exactly(cells)["kappa"]
    assert abs(Fraction(measured(cells)[0]["kappa"]) - want) < Fraction(1e-15)
    assert abs(Fraction(core.OF_MATRIX["kappa"](Matrix.of(rows, exact=False))) - want) > Fraction(1e-3)


@given(memories(), POSITIVES)
def test_room_for_more_classes_changes_no_bit(memory: Memory, configured: str | None) -> None:
    _, code = positive_of(configured, memory)
    narrow = measured(memory.counts.astype(np.float64), code)
    memory.grow(2 * memory.capacity)
    assert measured(memory.counts.astype(np.float64), code) == narrow


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_area_is_that_of_the_core(pairs: list[tuple[int, bool]]) -> None:
    p = np.array([rank / 5 for rank, _ in pairs] + [9.0])
    sides = np.array([side for _, side in pairs] + [True], dtype=np.uint8)
    value, reason = area(p, sides, len(pairs), np.empty(2 * len(pairs)))
    try:
        want = core.auc.area(p[:-1][sides[:-1] == 1], p[:-1][sides[:-1] == 0])
        why = ""
    except core.Undefined as undefined:
        want, why = 0.0, str(undefined)
    assert (value, REASONS[reason]) == (want, why)


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
    found = mathematics.root(x, k)
    exact = Fraction(found) ** k / Fraction(x)
    assert abs(exact - 1) < 4e-16 * k


@given(st.floats(-3, 3), st.integers(0, 40))
def test_powers(base: float, exponent: int) -> None:
    assert mathematics.power(base, exponent) == pytest.approx(float(Fraction(base) ** exponent), rel=1e-14)


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


@given(probabilities)
def test_scores_are_those_of_the_core(p: float) -> None:
    places, values = score_probabilities("a", "a", ("a", p))
    assert scores.IN_BIN + scores.bin_of(p) == places[3]
    assert scores.log_loss_of(p) == pytest.approx(values[1], rel=4e-16)
    assert scores.CLIP == CLIP


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
        bits += [float(mathematics.root(x, k)).hex() for k in (1, 2, 3, 8, 200)]
        bits += [float(mathematics.power(small, k)).hex() for k in (0, 1, 7, 30)]
        bits.append(float(scores.log_loss_of(x / (1 + x))).hex())
    p = np.round(generator.random(50), 1)
    sides: Ints = (generator.random(50) < 0.4).astype(np.uint8)
    value, _ = area(p, sides, 50, np.empty(100))
    return "\n".join([*bits, float(value).hex()])


def test_without_the_compiler_the_bits_are_the_same() -> None:
    here = Path(__file__)
    root = here.parents[2]
    path = os.pathsep.join(map(str, (here.parent, root / "pipeline", root / "topics")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import test_measure_kernels as t; print(t.fixed())"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == fixed().split()
