"""Intervals: Wilson's, what faded and dependent outcomes are worth, and how often the truth is inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats, zeros
from prequential.engine.details.intervals import autocorrelation, less_one, precision_worth, shrunk, wilson
from prequential.engine.estimators import outcome_pairs
from prequential.engine.estimators.estimator import Estimator, KeptPayloads
from prequential.engine.estimators.outcome_pairs import LastSigns, codes_of
from prequential.engine.estimators.rows import unrevised
from scipy.stats import binomtest
from sequences import NO_CLASS, Outcomes, log_of, positives_of

from tests.nightly import few

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

Bools = npt.NDArray[np.bool_]


def rows_of(y: npt.ArrayLike, h: npt.ArrayLike, per: npt.ArrayLike, maj: npt.ArrayLike) -> Any:
    """Outcomes, a row of class codes for each, from their columns or what is the same in all of them."""
    return np.stack(np.broadcast_arrays(y, h, per, maj), axis=-1).astype(np.int64)


def with_intervals(estimator: str) -> Outcomes:
    """A sequence of the classes 0 and 1, with intervals of one estimator."""
    config = StreamConfig(estimators=(estimator,), details=("intervals",), detectors=())
    return Outcomes(config, 2, positive="1")


def cells_of(signs: npt.ArrayLike, kinds: int = 2) -> Any:
    """Outcomes that are wrong or not; of four kinds, those in the cells of the binary matrix."""
    of = np.asarray(signs, dtype=np.int64)
    return rows_of(of >> 1, of & 1 if kinds == 4 else of, NO_CLASS, NO_CLASS)


def pair_codes(signs: npt.ArrayLike, kinds: int = 2, last: LastSigns | None = None) -> list[int]:
    """Codes of the pairs of neighbours, of which `last` has what came before."""
    log = log_of(cells_of(signs, kinds))
    codes = np.empty((len(outcome_pairs.CODES), len(log.kind)), dtype=np.int32)
    rows = np.arange(len(log.kind), dtype=np.int32)
    codes_of(last or zeros(LastSigns, 1), log, rows, positives_of(["0", "1"], "1"), codes)
    own = codes[outcome_pairs.CELL if kinds == 4 else outcome_pairs.WRONG]
    return own[own != outcome_pairs.NO_PAIR].tolist()


class Pairs:
    """What an estimator remembers of the pairs of one sequence."""

    def __init__(self, estimator: str) -> None:
        self._of = Estimator(estimator, 1, 2, False, KeptPayloads(pairs=True))

    def update(self, codes: Sequence[int], sign: int) -> None:
        """Add pairs of these codes."""
        places = np.zeros(len(codes), dtype=np.int32)
        of_sign = unrevised(places, places.astype(np.int64), np.array(codes, dtype=np.int32))
        self._of.pairs[sign].count(of_sign)

    def counts(self, sign: int) -> Floats:
        return self._of.pairs[sign].counted(np.zeros(1, dtype=np.int64)).cells[0]


def remembered(estimator: str, codes: Sequence[int], sign: int) -> Floats:
    """Counts or weights of pairs."""
    pairs = Pairs(estimator)
    pairs.update(codes, sign)
    return pairs.counts(sign)


errors = st.lists(st.booleans(), min_size=1, max_size=60)


class TestWilson:
    @pytest.mark.parametrize(
        ("k", "n"), [(0, 1), (1, 1), (0, 10), (7, 10), (81, 263), (500, 500), (1, 10**6)]
    )
    def test_equals_scipys(self, k: int, n: int) -> None:
        theirs = binomtest(k, n).proportion_ci(0.95, method="wilson")
        assert wilson(k / n, n) == pytest.approx((theirs.low, theirs.high), rel=1e-9, abs=1e-12)

    @examples(100)
    @given(st.floats(0, 1), st.floats(1e-3, 1e9))
    def test_never_beyond_0_and_1_and_always_around_the_share(self, share: float, n: float) -> None:
        low, high = wilson(share, n)
        assert 0 <= low <= high <= 1
        assert low - 1e-12 <= share <= high + 1e-12

    @pytest.mark.parametrize("n", [5e-324, 1e-310, 1e-200, 1e-162, 1e-90, 1e-16])
    @pytest.mark.parametrize("share", [0.0, 1e-300, 0.5, 1.0])
    def test_hardly_any_weight_is_no_knowledge(self, share: float, n: float) -> None:
        """Faded weights may be so small that their squares are 0."""
        low, high = wilson(share, n)
        assert 0 <= low <= high <= 1
        assert high - low > 0.999


def worth_of(sequence: Outcomes) -> tuple[float, float]:
    """n of a sequence, and how many equal outcomes that is worth."""
    (estimator,) = sequence.plan.estimators
    n = sequence.measured(estimator.name).n
    return n, estimator.effective(0, n, False)


def worth_after(estimator: str, count: int) -> tuple[float, float]:
    """The same after so many outcomes."""
    sequence = with_intervals(estimator)
    sequence.update(rows_of(np.zeros(count), 0, NO_CLASS, NO_CLASS))
    return worth_of(sequence)


class TestEffective:
    @pytest.mark.parametrize("factor", [0.3, 0.5, 0.9, 0.995, 0.999, 0.99999])
    @pytest.mark.parametrize("count", [1, 2, 10, 1000, 5000])
    def test_equals_a_plain_sum_of_weights(self, factor: float, count: int) -> None:
        _, worth = worth_after(f"fading:{factor}", count)
        weights = [factor**age for age in range(count)]
        expected = math.fsum(weights) ** 2 / math.fsum(w * w for w in weights)
        assert worth == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize(("estimator", "worth"), [("all", 70), ("window:50", 50), ("fading:1", 70)])
    def test_equal_outcomes_are_worth_themselves(self, estimator: str, worth: float) -> None:
        assert worth_after(estimator, 70)[1] == pytest.approx(worth)


class TestAutocorrelation:
    @examples(200)
    @given(errors)
    def test_equals_numpys(self, wrong: list[bool]) -> None:
        array = np.array(wrong)
        pairs = np.bincount(np.array(pair_codes(array), dtype=np.int64), minlength=4)
        before, after = array[:-1], array[1:]
        if len(set(before.tolist())) < 2 or len(set(after.tolist())) < 2:
            assert math.isnan(autocorrelation(pairs))
        else:
            assert autocorrelation(pairs) == pytest.approx(np.corrcoef(before, after)[0, 1], abs=1e-12)

    @examples(60)
    @given(errors, st.sampled_from([0.5, 0.9, 0.999]))
    def test_faded_equals_numpys_with_weights(self, wrong: list[bool], factor: float) -> None:
        array = np.array(wrong)
        found = autocorrelation(remembered(f"fading:{factor}", pair_codes(array), outcome_pairs.WRONG))
        before, after = array[:-1].astype(float), array[1:].astype(float)
        if np.ptp(before) > 0 < np.ptp(after) if len(before) else False:
            weights = factor ** np.arange(len(before) - 1, -1, -1.0)
            (vb, c), (_, va) = np.cov(before, after, aweights=weights, bias=True)
            if min(va, vb) > 1e-9:
                assert found == pytest.approx(c / math.sqrt(va * vb), abs=1e-5)

    @examples(60)
    @given(errors, st.integers(0, 60))
    def test_pairs_do_not_depend_on_a_cut(self, wrong: list[bool], where: int) -> None:
        array = np.array(wrong)
        where = min(max(1, where), len(array))
        last = zeros(LastSigns, 1)
        parts = pair_codes(array[:where], last=last)
        if where < len(array):
            parts += pair_codes(array[where:], last=last)
        assert parts == [2 * a + b for a, b in pairwise(wrong)]


class TestShrunk:
    @pytest.mark.parametrize(
        ("correlation", "worth"),
        [
            (math.nan, 900), (0.0, 900), (0.5, 300), (0.8, 100),
            (-0.5, 900),  # not a gain
            (0.98, 900 * 0.02 / 1.98), (1.0, 900 * 0.02 / 1.98),  # and never nothing
        ],
    )  # fmt: skip
    def test_values(self, correlation: float, worth: float) -> None:
        assert shrunk(900, correlation) == pytest.approx(worth)


def product_of_chains(labels: tuple[float, float], errors: tuple[float, float]) -> npt.NDArray[np.float64]:
    """Shares of the pairs of cells, of labels and errors as independent chains (P(1), correlation)."""

    def shares(p: float, r: float) -> npt.NDArray[np.float64]:
        stay = r * np.eye(2) + (1 - r) * np.array([1 - p, p])
        return np.array([1 - p, p])[:, None] * stay

    of_labels, of_errors = shares(*labels), shares(*errors)
    found = np.zeros((4, 4))
    for (y0, y1, w0, w1), _ in np.ndenumerate(np.zeros((2, 2, 2, 2))):
        found[2 * y0 + (y0 ^ w0), 2 * y1 + (y1 ^ w1)] = of_labels[y0, y1] * of_errors[w0, w1]
    return found


class TestPrecisionWorth:
    @pytest.mark.parametrize("labels", [(0.3, 0.0), (0.3, 0.7), (0.1, 0.9)])
    @pytest.mark.parametrize("errors_", [(0.1, 0.0), (0.2, 0.5), (0.05, 0.8)])
    def test_is_one_in_the_sum_of_all_autocorrelations(
        self, labels: tuple[float, float], errors_: tuple[float, float]
    ) -> None:
        shares = product_of_chains(labels, errors_)
        m = shares.sum(axis=0)
        precision = m[3] / (m[1] + m[3])
        e = np.array([0, -precision, 0, 1 - precision])
        chain, ahead, total = shares / m[:, None], e, 0.0
        for _ in range(500):
            ahead = chain @ ahead
            total += (m * e * ahead).sum() / (m * e * e).sum()
        assert precision_worth(1e9 * shares.ravel()) == pytest.approx(1 / (1 + 2 * total), rel=1e-6)

    @examples(200)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sampled_from(["all", "fading:0.5"]))
    def test_any_cells_have_one(self, cells: list[int], estimator: str) -> None:
        pairs = remembered(estimator, pair_codes(cells, 4), outcome_pairs.CELL)
        assert 0.02 / 1.98 <= precision_worth(pairs) <= 1

    @pytest.mark.parametrize("cells", [[0] * 9, [3] * 9, [0, 0, 3, 3, 3, 0], [2, 1], [1] * 3 + [0] * 2000])
    def test_is_one_where_precision_does_not_vary(self, cells: list[int]) -> None:
        assert precision_worth(remembered("all", pair_codes(cells, 4), outcome_pairs.CELL)) == 1

    def test_forgotten_cells_do_no_harm(self) -> None:
        """Weights down to 1e-200 are divided by each other."""
        pairs = Pairs("fading:0.9")
        for cells in ([1, 3, 3, 1, 1, 3] * 5, *[[3] * 50] * 90, [0] * 50):
            last = zeros(LastSigns, 1)
            assert pair_codes([1], 4, last) == []
            pairs.update(pair_codes(cells, 4, last), outcome_pairs.CELL)
            assert 0.02 / 1.98 <= precision_worth(pairs.counts(outcome_pairs.CELL)) <= 1

    def test_one_is_taken_for_the_precision_itself(self) -> None:
        assert less_one(400) == pytest.approx(399, abs=0.01)
        assert 0 < less_one(0.01) < 0.01


outcomes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=50)


@examples(60)
@given(outcomes, st.lists(st.integers(1, 49), max_size=4), st.sampled_from(["1", "2", None]))
def test_pairs_of_cells_are_those_of_a_plain_loop(
    found: list[tuple[int, int]], vectors: list[int], positive: str | None
) -> None:
    """However outcomes are cut; also while there is no room yet for the positive class."""
    names: list[str] = []
    estimators = ("all", "window:7", "fading:0.9")
    config = StreamConfig(estimators=estimators, details=("intervals",), detectors=())
    sequence = Outcomes(config, 2, names=names, positive=positive)
    places = [0, *sorted({vector for vector in vectors if vector < len(found)}), len(found)]
    for start, stop in pairwise(places):
        for y, h in found[start:stop]:
            names += map(str, range(len(names), max(y, h) + 1))
        sequence.positives = positives_of(names, positive)
        if len(names) > sequence.plan.capacity:
            sequence.grow(4)
        sequence.update([(y, h, NO_CLASS, NO_CLASS) for y, h in found[start:stop]])
    one = 1 if positive is None else int(positive)
    cells = [2 * (y == one) + (h == one) for y, h in found]
    expected = [4 * before + cell for before, cell in pairwise(cells)]
    for name in estimators:
        found_pairs = sequence.pairs(name)[outcome_pairs.CELL]
        assert found_pairs.tolist() == remembered(name, expected, outcome_pairs.CELL).tolist()


# ---- coverage

#: Simulated streams for each case: the standard error of a coverage of 95% is 0.5%.
RUNS = 2000


def chains(seed: int, length: int, p: float, r: float) -> Bools:
    """Stationary binary chains, (RUNS, length): P(1) = p, correlation of neighbours r."""
    chance = np.random.default_rng(seed).random((length, RUNS))
    found = np.empty((length, RUNS), dtype=np.bool_)
    found[0] = chance[0] < p
    for step in range(1, length):
        found[step] = chance[step] < np.where(found[step - 1], p + r * (1 - p), p * (1 - r))
    return found.T


def coverage(estimator: str, length: int, p: float, r: float, batch: int = 1) -> dict[str, float]:
    """Share of the streams whose error rate p is within the interval, taken as it is published …

    … (`shrunk`), on the effective number of outcomes without the shrinking (`effective`), and on n (`n`).
    Labels of each `batch` outcomes come in any order.
    """
    inside = {"shrunk": 0, "effective": 0, "n": 0}
    rng = np.random.default_rng(12)
    for wrong in chains(11, length, p, r):
        if batch > 1:
            wrong = rng.permuted(wrong.reshape(-1, batch), axis=1).ravel()
        sequence = with_intervals(estimator)
        # Every label is 0: what is predicted is the error.
        sequence.update(rows_of(0, wrong, NO_CLASS, NO_CLASS))
        n, values, _, details = sequence.measured(estimator)
        intervals: dict[str, tuple[float, float]] = {
            "shrunk": details["intervals"]["error"],
            "effective": wilson(values["error"], worth_of(sequence)[1]),
            "n": wilson(values["error"], n),
        }
        for name, (low, high) in intervals.items():
            inside[name] += low <= p <= high
    return {name: count / RUNS for name, count in inside.items()}


class TestCoverage:
    """Of nominal 95%. Seeds are fixed, so these are exact numbers of one long experiment."""

    @pytest.mark.parametrize(("estimator", "length"), few([("window:500", 600), ("fading:0.995", 1500)]))
    @pytest.mark.parametrize("p", few([0.1, 0.3]))
    def test_independent_errors(self, estimator: str, length: int, p: float) -> None:
        found = coverage(estimator, length, p, 0.0)
        assert 0.935 < found["shrunk"] < 0.965
        assert found["effective"] == pytest.approx(found["shrunk"], abs=0.01)
        if estimator.startswith("fading"):
            # N = 200 of a fading factor of 0.995 is half of what it is worth (399): too careful.
            assert found["n"] > 0.985

    @pytest.mark.parametrize(("estimator", "length"), [("fading:0.995", 1500), ("window:500", 600)])
    @pytest.mark.parametrize("p", few([0.3, 0.1], 0))
    def test_dependent_errors(self, estimator: str, length: int, p: float) -> None:
        """Correlation 0.5: intervals that take outcomes for independent miss one time in four."""
        found = coverage(estimator, length, p, 0.5)
        assert 0.93 < found["shrunk"] < 0.965
        assert 0.70 < found["effective"] < 0.80

    @pytest.mark.nightly
    def test_strong_dependence(self) -> None:
        """Correlation 0.8: 500 outcomes are worth 56, and the correlation itself is less sure."""
        found = coverage("window:500", 600, 0.3, 0.8)
        assert 0.92 < found["shrunk"] < 0.965
        assert found["effective"] < 0.55

    @pytest.mark.parametrize(
        ("estimator", "batch", "share"), few([("window:100", 1, 0.903), ("window:500", 50, 0.548)], 0)
    )
    def test_few_outcomes_and_shuffled_labels_hide_dependence(
        self, estimator: str, batch: int, share: float
    ) -> None:
        """What docs/reference/measures.md says of correlation 0.8 and errors of 20%."""
        found = coverage(estimator, 600, 0.2, 0.8, batch)
        assert found["shrunk"] == pytest.approx(share, abs=0.005)


class Cells(NamedTuple):
    """Streams whose labels and errors come in runs: P(1) of labels, and errors by label; correlations."""

    positives: float
    labels: float
    missed: float  # of the positives
    false: float  # of the negatives
    errors: float

    @property
    def precision(self) -> float:
        hits = self.positives * (1 - self.missed)
        return hits / (hits + (1 - self.positives) * self.false)

    def streams(self, seed: int, length: int) -> tuple[Bools, Bools]:
        """Labels and predictions, (RUNS, length). What decides on an error stays with P = `errors`."""
        y = chains(seed, length, self.positives, self.labels)
        rng = np.random.default_rng(seed + 1)
        stays = rng.random((length, RUNS)) < self.errors
        luck = rng.random((length, RUNS))
        for step in range(1, length):
            luck[step][stays[step]] = luck[step - 1][stays[step]]
        rate = np.where(y, self.missed, self.false)
        return y, y ^ (rate > luck.T)


def coverage_of_precision(estimator: str, length: int, world: Cells) -> dict[str, float]:
    """Share of the streams whose precision is in the interval as published, and by simpler ones.

    By the errors' correlation (`errors`), and with every predicted positive independent (`plain`).
    """
    inside = {"published": 0, "errors": 0, "plain": 0}
    for y, h in zip(*world.streams(11, length)):
        sequence = with_intervals(estimator)
        sequence.update(rows_of(y, h, NO_CLASS, NO_CLASS))
        n, values, _, details = sequence.measured(estimator)
        counts = sequence.cells(estimator).reshape(2, 2, 4)
        predicted = counts[:, 1].sum() / n * worth_of(sequence)[1]
        r = autocorrelation(sequence.pairs(estimator)[outcome_pairs.WRONG])
        intervals = {
            "published": details["intervals"]["precision"],
            "errors": wilson(values["precision"], shrunk(predicted, r)),
            "plain": wilson(values["precision"], predicted),
        }
        for name, (low, high) in intervals.items():
            inside[name] += low <= world.precision <= high
    print(world, estimator, inside)
    return {name: count / RUNS for name, count in inside.items()}


PRECISION_WORLDS = [
    Cells(0.3, 0.0, 0.1, 0.1, 0.0),
    Cells(0.3, 0.9, 0.2, 0.2, 0.5),  # labels and errors come in runs
    Cells(0.1, 0.0, 0.3, 0.05, 0.0),
    Cells(0.3, 0.0, 0.1, 0.1, 0.5),  # errors do
    Cells(0.3, 0.7, 0.1, 0.1, 0.0),  # labels do
    Cells(0.1, 0.7, 0.1, 0.1, 0.0),
    Cells(0.5, 0.9, 0.1, 0.1, 0.0),
    Cells(0.3, 0.7, 0.1, 0.1, 0.5),  # both do
    Cells(0.1, 0.8, 0.05, 0.05, 0.5),  # some ten runs of positives in 500
    Cells(0.2, 0.8, 0.4, 0.02, 0.5),  # and of eight false ones
]


#: Labels come in runs, and the classes differ in their error rates; and where nothing of it is so.
ERROR_WORLDS = [
    Cells(0.5, 0.9, 0.35, 0.05, 0.0),
    Cells(0.5, 0.7, 0.4, 0.02, 0.0),
    Cells(0.3, 0.7, 0.4, 0.02, 0.0),
    Cells(0.5, 0.0, 0.35, 0.05, 0.0),
    Cells(0.3, 0.0, 0.1, 0.1, 0.5),
]


@pytest.mark.parametrize("names", [["0", "1"], ["UP", "DOWN"]], ids=["positive", "none"])
@pytest.mark.parametrize("world", few(ERROR_WORLDS))
def test_coverage_of_errors_where_labels_come_in_runs(world: Cells, names: list[str]) -> None:
    """Of nominal 95%; by the errors' own correlation alone, 77 to 90% where labels and errors depend."""
    rate = world.positives * world.missed + (1 - world.positives) * world.false
    config = StreamConfig(estimators=("window:500",), details=("intervals",), detectors=())
    published = alone = 0
    for y, h in zip(*world.streams(11, 600)):
        sequence = Outcomes(config, 2, names=names)
        sequence.update(rows_of(y, h, NO_CLASS, NO_CLASS))
        n, values, _, details = sequence.measured("window:500")
        low, high = details["intervals"]["error"]
        published += low <= rate <= high
        r = autocorrelation(sequence.pairs("window:500")[outcome_pairs.WRONG])
        low, high = wilson(values["error"], shrunk(n, r))
        alone += low <= rate <= high
    print(world, published / RUNS, alone / RUNS)
    assert 0.93 <= published / RUNS <= 0.975
    if world.labels and world.missed > 0.3:
        assert alone / RUNS < 0.91


class TestCoverageOfPrecision:
    """Of nominal 95%; the intervals are never too narrow, and too wide where only errors come in runs."""

    @pytest.mark.parametrize("world", few(PRECISION_WORLDS))
    def test_in_a_window(self, world: Cells) -> None:
        self.assert_93_percent("window:500", 600, world)

    @pytest.mark.parametrize(("estimator", "length"), few([("fading:0.995", 1500), ("all", 1000)]))
    @pytest.mark.parametrize("world", few(PRECISION_WORLDS[-2:]))  # the hardest ones
    def test_elsewhere(self, estimator: str, length: int, world: Cells) -> None:
        self.assert_93_percent(estimator, length, world)

    def assert_93_percent(self, estimator: str, length: int, world: Cells) -> None:
        found = coverage_of_precision(estimator, length, world)
        assert found["published"] >= 0.93
        if world.labels >= 0.9:
            assert found["plain"] < found["errors"] < 0.8
        if not world.labels and not world.errors:
            assert found["published"] == pytest.approx(found["plain"], abs=0.015)


def test_shares_of_right_ones_have_one() -> None:
    """A share of nothing has none."""
    sequence = with_intervals("all")
    sequence.update([(0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)])
    intervals = sequence.measured("all").details["intervals"]
    assert intervals.keys() == {"error", "accuracy", "p_per", "p_maj", "specificity", "precision"}
    assert intervals["accuracy"] == pytest.approx([1 - end for end in reversed(intervals["error"])])


@pytest.mark.parametrize("correlation", few([0.7, 0.0]))
def test_baselines_have_intervals_that_hold_where_labels_come_in_runs(correlation: float) -> None:
    """Their own runs count: errors are independent here, and `p_maj` would be missed two times in five."""
    rng = np.random.default_rng(11)
    inside = {"p_per": 0, "p_maj": 0}
    streams, length, share = 300, 600, 0.7
    for _ in range(streams):
        stays = rng.random(length + 1) < correlation
        fresh = (rng.random(length + 1) >= share).astype(np.int64)
        y = fresh.copy()
        for i in range(1, length + 1):
            if stays[i]:
                y[i] = y[i - 1]
        h = np.where(rng.random(length) < 0.9, y[1:], 1 - y[1:])
        sequence = with_intervals("window:500")
        sequence.update(rows_of(y[1:], h, y[:-1], 0))  # the majority is class 0
        intervals = sequence.measured("window:500").details["intervals"]
        same = share * share + (1 - share) * (1 - share)
        truths = {"p_maj": share, "p_per": correlation + (1 - correlation) * same}
        for name, truth in truths.items():
            lower, upper = intervals[name]
            inside[name] += lower <= truth <= upper
    print(correlation, inside)
    assert all(0.91 * streams <= count <= 0.985 * streams for count in inside.values()), inside
