"""The measures' kernels: against fractions, and without the compiler."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from compiled import from_python
from hypothesis import assume, example, given
from hypothesis import strategies as st
from oracle_measures import FURTHER, MEASURES, Kind, Measured, measures
from prequential.engine.compiled import mathematics
from prequential.engine.compiled.kernel import Bytes, Floats, Ints
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.measuring import measured as measured_by
from prequential.engine.measures import probabilistic
from prequential.engine.measures.costs import COST, SUMS, VALUED, sum_up_stakes
from prequential.engine.measures.declaration import NO_POSITIVE, REASONS, UNSEEN_POSITIVE
from prequential.engine.measures.per_class import PER_OUTCOME, PER_VALUE, Positives, new_classes
from prequential.engine.measures.probabilistic import Ranks
from prequential.engine.measures.registry import INDEX, NAMES
from prequential.engine.measures.table import InMemory, measure_cells, measure_numbers
from prequential.engine.tables import scores
from prequential.engine.tables.outcomes import JointCells, keys_of
from prequential.engine.tables.streams import OTHER

_RANKS = (probabilistic.auc, probabilistic.pr_auc, probabilistic.group)
area, average_precision, group = map(from_python, _RANKS)
power, kth_root = from_python(mathematics.power), from_python(mathematics.root)
halved = from_python(mathematics.halved)
bin_of, log_loss_of = from_python(scores.bin_of), from_python(scores.log_loss_of)

NO_SUMS = np.zeros(scores.SIZE)

OF_MATRIX = (*MEASURES, *FURTHER)

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


def positives_of(capacity: int, *codes: int) -> Positives:
    """Sequences with a stream each, where these are configured; nothing is said of the classes' names."""
    streams = np.arange(len(codes), dtype=np.int32)
    return Positives(
        streams, np.array(codes, dtype=np.int32), np.zeros_like(streams), np.full_like(streams, capacity),
        np.full(capacity, OTHER, dtype=np.uint8),
    )  # fmt: skip


def measured(cells: Floats, positive: int = 0) -> Table:
    """The table of a matrix in joint cells; its class with this code is the positive one."""
    capacity = math.isqrt(len(cells) // 4)
    classes, positives = new_classes(capacity), positives_of(capacity, positive)
    memory = InMemory(JointCells(cells), True, NO_SUMS, False)
    return table(measure_cells, memory, classes, positives, 0, False)


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


def memory_of(cells: Floats, names: str) -> dict[Kind, float]:
    """The weight of each kind of outcome; classes have names of one letter."""
    k = len(names)
    return {
        Kind(names[at // 4 // k], names[at // 4 % k], bool(at & 2), bool(at & 1)): float(weight)
        for at, weight in enumerate(cells)
    }


def assert_of_matrix(found: Table, want: Measured) -> None:
    """Measures of the matrix are those of fractions; what others say isn't looked at."""
    values, reasons = want
    assert {name: why for name, why in found[1].items() if name in OF_MATRIX} == reasons
    for name, value in values.items():
        if name == "kappa_plus":  # a root, which makes 1e-8 of 1e-16
            assert found[0][name] ** 2 == pytest.approx(value**2, abs=1e-12)
        else:
            assert found[0][name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


@given(memories(), POSITIVES)
@example(cells_of("all", 2, []), "1")
def test_measures_of_classes_are_those_of_fractions(cells: Floats, configured: str | None) -> None:
    capacity = math.isqrt(len(cells) // 4)
    assume(configured != "6" or capacity == 8)
    want = measures(memory_of(cells, "01234567"[:capacity]), configured)
    assert_of_matrix(measured(cells, positive_of(configured, cells)), want)


@pytest.mark.parametrize(
    ("outcomes", "undefined"),
    [([], []), ([(1.0, 1.0)], ["r2"]), ([(1.0, 1.0), (1.0, 2.0)], ["r2"]),
     ([(0.0, 0.0)], ["mape", "r2"]), ([(0.0, 1e160), (1e-160, 1e160)], ["mse", "rmse", "r2", "mape"])],
)  # fmt: skip
def test_measures_of_numbers_are_never_infinite(
    outcomes: list[tuple[float, float]], undefined: list[str]
) -> None:
    sums, labels = np.zeros(scores.SIZE), [y for y, _ in outcomes]
    for y, prediction in outcomes:
        with np.errstate(over="ignore"):
            error = np.float64(prediction - y)
            places = [scores.SCORED, scores.ABSOLUTE_ERRORS, scores.SQUARED_ERRORS, scores.BIAS]
            sums[places] += [1, abs(error), error**2, error]
            if y:
                sums[[scores.RELATIVE, scores.RELATIVE_ERRORS]] += [1, abs(error) / abs(y)]
    mean = sum(labels) / max(1, len(labels))
    spread = sum((y - mean) ** 2 for y in labels)
    values, reasons = table(measure_numbers, sums, bool(outcomes), spread, 0.75)
    if not outcomes:
        assert set(reasons.values()) == {"empty"}
        return
    of_numbers = {"mae", "mse", "rmse", "r2", "bias", "mape", "pinball"}
    assert values.keys() == of_numbers - set(undefined)
    assert {reasons[name] for name in undefined} <= {"zero_denominator"}
    assert reasons["interval_width"] == reasons["interval_coverage"] == "no_intervals"
    errors = [prediction - y for y, prediction in outcomes]
    assert values["mae"] == pytest.approx(sum(map(abs, errors)) / len(errors), rel=1e-12)
    assert values["bias"] == pytest.approx(sum(errors) / len(errors), rel=1e-12)


def priced(costs: Floats, basis: int) -> Positives:
    """Two streams with a sequence each. The second one has costs; its classes come after the first one's."""
    streams = np.array([0, 1], dtype=np.int32)
    first, classes = np.array([0, 1], dtype=np.int32), np.array([1, len(costs)], dtype=np.int32)
    return Positives(
        streams, np.zeros_like(streams), first, classes, np.full(1 + len(costs), OTHER, dtype=np.uint8),
        np.array([0, basis], dtype=np.uint8), np.concatenate([np.full((1, len(costs)), np.nan), costs]),
    )  # fmt: skip


@pytest.mark.parametrize("price", [2.5, -1e307, 1.7e308])
@pytest.mark.parametrize(("chance", "listed"), [(False, False), (False, True), (True, False), (True, True)])
def test_costs_are_those_of_a_plain_loop_and_never_infinite(price: float, chance: bool, listed: bool) -> None:
    outcomes, costs = (
        [(0, 1), (0, 1), (1, 0), (1, 1), (2, 1)],
        np.array([[0, price, 1], [3, 0, 5], [7, 9, 0.0]]),
    )
    cells = np.zeros((9, 4))
    for label, prediction in outcomes:
        cells[3 * label + prediction, 0] += 1
    some = np.flatnonzero(cells)
    joint = JointCells(cells.ravel()[some], keys_of(some, 3)) if listed else JointCells(cells.ravel())
    memory = InMemory(joint, True, NO_SUMS, False)
    with np.errstate(over="ignore"):
        values, reasons = table(measure_cells, memory, new_classes(3), priced(costs, PER_OUTCOME), 1, chance)
    drawn = (
        [(label, prediction) for label, _ in outcomes for _, prediction in outcomes] if chance else outcomes
    )
    total = sum(5 / len(drawn) * float(costs[pair]) for pair in drawn)
    if math.isfinite(total):
        assert values["cost_total"] == pytest.approx(total, rel=1e-12)
        assert values["cost"] == pytest.approx(total / 5, rel=1e-12)
    else:
        assert reasons["cost"] == reasons["cost_total"] == "zero_denominator"
    assert math.isfinite(total) == (price != 1.7e308)


def test_sums_of_costs_by_value_are_those_of_a_plain_loop() -> None:
    """Outcomes without a value count neither in the costs nor in their number."""
    costs = np.array([[0.5, 2.0], [3.0, -1.0]])
    outcomes = [(0, 0, 4.0), (0, 1, 10.0), (0, 1, 0.5), (1, 0, 7.0), (1, 0, None), (1, 1, None)]
    stakes, sums = np.zeros((4, 2)), np.zeros(SUMS)
    for label, prediction, value in outcomes:
        stakes[2 * label + prediction] += (0.0, 0.0) if value is None else (value, 1.0)
    from_python(sum_up_stakes)(priced(costs, PER_VALUE), 1, stakes, 2, sums)
    valued = [(float(costs[y, prediction]) * value) for y, prediction, value in outcomes if value is not None]
    assert (sums[COST], sums[VALUED]) == (pytest.approx(sum(valued), rel=1e-12), len(valued))


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


def ranks_of(p: Floats, sides: Bytes, n: int) -> Ranks:
    """The first n scores as measures of ranks have them."""
    positives, negatives = np.zeros(n), np.zeros(n)
    return Ranks(positives, negatives, group(p, sides, n, np.empty(2 * n), positives, negatives))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=7))
def test_average_precision_is_that_of_all_orders_of_ties(pairs: list[tuple[int, bool]]) -> None:
    p = np.array([rank / 3 for rank, _ in pairs])
    sides = np.array([side for _, side in pairs], dtype=np.uint8)
    value, reason = average_precision(ranks_of(p, sides, len(pairs)))
    if not sides.any():
        assert REASONS[reason] == "no_positives"
        return
    found = []
    for order in itertools.permutations(pairs):
        if all(a[0] >= b[0] for a, b in itertools.pairwise(order)):
            at = [i for i, (_, side) in enumerate(order) if side]
            found.append(sum(Fraction(hits, i + 1) for hits, i in enumerate(at, 1)) / len(at))
    assert value == pytest.approx(float(sum(found) / len(found)), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_area_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    p = np.array([rank / 5 for rank, _ in pairs] + [9.0])
    sides = np.array([side for _, side in pairs] + [True], dtype=np.uint8)
    if not pairs:
        return  # of nothing nobody asks
    value, reason = area(ranks_of(p, sides, len(pairs)))
    positive = [rank for rank, side in pairs if side]
    negative = [rank for rank, side in pairs if not side]
    if positive and negative:
        right = sum(Fraction(2 * (a > b) + (a == b), 2) for a in positive for b in negative)
        assert (value, reason) == (float(right / (len(positive) * len(negative))), 0)
    else:
        assert REASONS[reason] == ("no_negatives" if positive else "no_positives")


@pytest.mark.parametrize("regression", [False, True])
def test_sequences_are_measured_each_by_itself(regression: bool) -> None:
    generator = np.random.default_rng(1)
    cells = np.floor(generator.random((5, 64)) * 9)
    sums, spreads = generator.random((5, scores.SIZE)), generator.random(5)
    codes, scored = [0, 3, UNSEEN_POSITIVE, NO_POSITIVE, 9], np.array([0, 1, 1, 0, 1], dtype=np.uint8)
    positives = positives_of(4, *codes)
    estimator = Estimator("all", 5, 4, regression)
    estimator.score()
    counts, summed = estimator.cells.table, estimator.sums.table
    counts.cells[:], counts.n[:] = cells, cells.sum(axis=1)
    counts.known[:] = 1
    sums[:, scores.SCORED] = 4
    summed.sums[:, : scores.SIZE] = sums * scored[:, None]
    if regression:  # the sum of labels is 0, so their squares are the spread
        summed.sums[:, scores.REST] = spreads
    sequences = np.array([2, 0, 4, 3, 1, 2])
    found = measured_by(estimator, sequences, positives)
    assert found.n.tolist() == cells.sum(axis=1)[sequences].tolist()
    for row, q in enumerate(sequences.tolist()):
        value, reason = np.empty(len(NAMES)), np.empty(len(NAMES), dtype=np.int64)
        if regression:
            measure_numbers(sums[q], bool(scored[q]), spreads[q], 0.0, value, reason)
        else:
            memory = InMemory(JointCells(cells[q]), True, sums[q], bool(scored[q]))
            measure_cells(memory, new_classes(4), positives_of(4, codes[q]), 0, False, value, reason)
        assert (found.values[row].tobytes(), found.reasons[row].tobytes()) == (
            value.tobytes(), reason.tobytes(),
        )  # fmt: skip


@pytest.mark.parametrize(("code", "positive"), [(NO_POSITIVE, None), (UNSEEN_POSITIVE, "never"), (1, "b")])
def test_cells_are_measured_with_the_positive_class_of_their_sequence(
    code: int, positive: str | None
) -> None:
    """What is configured is the positive class, here of the second sequence; by chance, too."""
    cells, classes = np.arange(16.0), new_classes(2)
    memory = memory_of(cells, "ab")
    given = (classes, positives_of(2, 0, code), 1)
    without_sums = [InMemory(JointCells(cells), True, NO_SUMS, scored) for scored in (False, True)]
    found = table(measure_cells, without_sums[1], *given, False)
    assert_of_matrix(found, measures(memory, positive))
    unscored = table(measure_cells, without_sums[0], *given, False)
    assert unscored[1]["auc"] == ("no_positive_class" if positive is None else "no_probabilities")
    assert found == unscored  # of no outcome there are probabilities
    with_some = InMemory(JointCells(cells), True, scores.sums_of({scores.SCORED: 1}), True)
    some = table(measure_cells, with_some, *given, False)
    assert some[1]["auc"] == ("no_positive_class" if positive is None else "no_ranks")

    # By chance: each label with each prediction, while the baselines stay as they are.
    pairs: dict[Kind, float] = defaultdict(float)
    for (one, weight), (other, times) in itertools.product(memory.items(), memory.items()):
        pairs[one._replace(y_pred=other.y_pred)] += weight * times
    values, reasons = measures(pairs, positive)
    values["kappa_se"] *= math.sqrt(cells.sum())  # of as many outcomes as there are, not of all pairs
    chance = table(measure_cells, without_sums[1], *given, True)
    assert_of_matrix(chance, (values, reasons))
    assert chance == table(measure_cells, without_sums[0], *given, True)
    others = unscored[1].keys() - set(OF_MATRIX)
    assert {name: chance[1][name] for name in others} == {name: unscored[1][name] for name in others}


@pytest.mark.parametrize("factor", [1e-3, 1e-6, 1e-9])
def test_kappa_keeps_its_digits_where_little_is_right(factor: float) -> None:
    """Of a tiny fading factor: the last outcome is wrong, and what is right has next to no weight."""
    for places in ([0, 3, 1], [3, 0, 2], [0, 1, 2, 1], [3, 3, 0, 1], [2, 0, 1]):
        cells = cells_of(f"fading:{factor}", 2, [4 * place for place in places])
        exact = measures(memory_of(cells, "ab"), None)[0]
        found = measured(cells)[0]
        for name in ("kappa", "kappa_z"):
            assert found[name] == pytest.approx(exact[name], rel=1e-9, abs=0), (name, places)


@pytest.mark.parametrize("known", [True, False])
def test_measures_of_baselines_without_a_label(known: bool) -> None:
    given = new_classes(2), positives_of(2, 0), 0
    memory = InMemory(JointCells(np.arange(1.0, 17.0)), known, NO_SUMS, False)
    for chance in (False, True):
        undefined = table(measure_cells, memory, *given, chance)[1]
        without = {name for name, why in undefined.items() if why == "no_label_known"}
        assert without == (set() if known else {"p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"})
    nothing = table(measure_cells, memory._replace(cells=JointCells(np.zeros(16))), *given, False)[1]
    assert set(nothing.values()) == {"empty"}


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


@given(st.integers(1, 36_525 * 86_400_000), st.floats(0, 1000))
def test_what_is_left_after_half_lives(half_life: int, count: float) -> None:
    gap = int(count * half_life)
    assert halved(gap, half_life) == pytest.approx(2.0 ** -(gap / half_life), rel=1e-12)
    assert halved(7 * half_life, half_life) == 2.0**-7
    assert halved(gap + 1, half_life) <= halved(gap, half_life) * (1 + 1e-15)
    assert halved(-gap, half_life) == 1.0
    assert halved(1_200 * half_life, half_life) == 0.0


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


def digest() -> str:
    """The bits of all kernels for inputs that are always the same, in hexadecimal."""
    generator = np.random.default_rng(7)
    bits: list[str] = []
    for k in (2, 4, 8):
        for row in range(12):
            joint = generator.random(4 * k * k) * (generator.random(4 * k * k) < 0.7)
            cells: Floats = np.floor(joint * 9) if row % 2 else joint * 10.0 ** -(row % 5)
            values, reasons = np.empty(len(NAMES)), np.empty(len(NAMES), dtype=np.int64)
            classes, sums = new_classes(k), generator.random(scores.SIZE)
            positives = positives_of(k, row % 4 - 2)
            for chance in (False, True):
                memory = InMemory(JointCells(cells), row % 4 > 0, sums, row % 3 > 0)
                measure_cells(memory, classes, positives, 0, chance, values, reasons)
                bits += [values.tobytes().hex(), reasons.tobytes().hex()]
            measure_numbers(sums, row % 3 > 0, float(row % 2), 0.25 * (row % 4), values, reasons)
            bits += [values.tobytes().hex(), reasons.tobytes().hex()]
    for x in (10 ** (600 * generator.random(300) - 300)).tolist():
        small = math.remainder(x, 700)
        bits += [float(value).hex() for value in (mathematics.log(x), mathematics.exp(small))]
        bits += [float(kth_root(x, k)).hex() for k in (1, 2, 3, 8, 200)]
        bits += [float(power(small, k)).hex() for k in (0, 1, 7, 30)]
        bits += [float(halved(int(abs(small) * 1e6), half)).hex() for half in (1_000_000, 3_600_000)]
        bits.append(float(log_loss_of(x / (1 + x))).hex())
    p = np.round(generator.random(50), 1)
    sides: Ints = (generator.random(50) < 0.4).astype(np.uint8)
    ranks = ranks_of(p, sides, 50)
    bits += [float(measure(ranks)[0]).hex() for measure in (area, average_precision)]
    return "\n".join(bits)
