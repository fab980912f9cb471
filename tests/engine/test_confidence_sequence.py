"""Verdicts against their definitions (the oracle's loops), and at their edges.

As a program it prints what compiled loops, plain Python and another C library must say alike.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import oracle_verdicts as oracle
import pytest
from oracle_cases import lab, pred
from oracle_cohorts import Place
from prequential.engine.comparisons import (
    A_BETTER,
    B_BETTER,
    EQUIVALENT,
    UNDECIDED,
    VERDICTS,
    confidence_sequence,
)
from prequential.engine.comparisons import confidence_sequence as sequence
from prequential.engine.comparisons import updating as forgetting
from prequential.engine.comparisons.clusters import bound_of_ratio, needed_clusters, new_cluster_sums
from prequential.engine.comparisons.joint import OF_LOSSES, new_joint
from prequential.engine.comparisons.updating import PairSettings, PairVerdicts, Times, step_pairs
from prequential.engine.compiled.kernel import Floats, zeros
from prequential.engine.delay import cohorts
from prequential.engine.delay.cohorts import CLOSED, OPEN
from prequential.engine.detectors import confidence_sequence as bound
from prequential.engine.detectors.confidence_sequence import RHO, needed_for, new_blocks
from prequential.topics.outputs import Comparison, decoded
from scipy import optimize, special
from test_between_lives import Lives

from tests.nightly import few

_HERE = Path(__file__).resolve()


def begun(loss: str = "error", level: float = 0.05, rows: int = 1, margin: float = 0.0) -> PairVerdicts:
    table, sums = sequence.new_table(rows), new_cluster_sums(rows)
    for row in range(rows):
        sequence.declare(table, sums, np.array([row]), level, margin, loss == "error")
    pair = sequence.WholeRun(
        table, sums, cohorts.new_pending(rows), new_blocks(rows), cohorts.new_closed(), cohorts.new_closed()
    )
    return PairVerdicts(pair, forgetting.new_recent(rows), new_blocks(rows))


def interval_of(tables: PairVerdicts) -> sequence.Bounds:
    """The interval of row 0."""
    return sequence.interval(tables.pair.sequences, tables.pair.sums, 0)


def run(
    tables: PairVerdicts, row: int, d: Sequence[float] | Floats, cohorts: Sequence[int] | None = None,
    epoch: int = 0, frontiers: Sequence[int] | None = None, clusters: Sequence[int] | int = 0,
) -> None:  # fmt: skip
    """Differences of a row: each is a cohort that closes at once, unless something else is said."""
    n = len(d)
    joint = new_joint(n)
    first = int(tables.pair.sequences.n[row])
    joint.cluster[:] = clusters
    joint.sequence[:], joint.code[:], joint.a[:], joint.epoch[:] = row, OF_LOSSES, d, epoch
    joint.cohort[:] = np.arange(first, first + n) if cohorts is None else cohorts
    joint.frontier[:] = joint.cohort + 1 if frontiers is None else frontiers
    rows = len(tables.pair.sequences)
    settings = PairSettings(
        np.full(rows, -1), np.zeros(rows, np.int32), np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
    )  # is told anything
    places, due_rows = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    done = step_pairs(tables, zeros(Times, rows), settings, joint, places, due_rows)
    assert done == (n, 0)


def differences(seed: int, n: int, loss: str = "error") -> Floats:
    """Of one model against another that is better, then worse."""
    random_ = np.random.default_rng(seed)
    lean = np.repeat([0.3, -0.5, -0.5], -(-n // 3))[:n]
    if loss == "error":
        return (random_.random(n) < 0.25 + lean / 2).astype(float) - (random_.random(n) < 0.25 - lean / 2)
    return np.clip(random_.normal(lean, 0.5), -2, 2)


def check(tables: PairVerdicts, expected: oracle.Sequence) -> None:
    """All that is said of row 0."""
    table, recent = tables.pair.sequences, tables.recent
    known, low, high, effective = interval_of(tables)
    assert known == (expected.interval is not None)
    assert (table.n[0], table.counted[0], table.judged[0]) == (
        expected.n, expected.counted_n(), expected.judged,
    )  # fmt: skip
    assert table.inflation[0] == pytest.approx(expected.f or 0.0, rel=1e-9)
    assert effective == pytest.approx(expected.effective, rel=1e-9)
    if expected.interval is not None:
        wide = expected.interval[1] - expected.interval[0]
        assert (low, high) == pytest.approx(expected.interval, rel=1e-7, abs=1e-7 * wide)
    if expected.margin > 1e-4:
        assert VERDICTS[table.verdict[0]] == expected.verdict
        assert (int(table.since[0]) or None) == expected.since
    assert (table.verdict[0] in (A_BETTER, B_BETTER)) == (known and (low > 0 or high < 0))
    assert VERDICTS[recent.verdict[0]] == expected.recent
    assert recent.before[0] == expected.before


def test_a_change_is_where_the_deviation_is_the_largest_for_its_variance() -> None:
    """140²/21 is more than 100²/11; what fewer than 50 outcomes say is no change."""
    recent = forgetting.new_recent(1)
    recent.counted[0], recent.deviation[0], recent.variance[0] = 400, 100.0, 100.0
    recent.mark_counted[0, :3] = 380, 300, 200
    recent.mark_deviation[0, :3], recent.mark_variance[0, :3] = (-1_000.0, 0.0, -40.0), (90.0, 90.0, 80.0)
    assert forgetting._changed(recent, 0, 1.0, 20.0, 1.0) == 2


@pytest.mark.parametrize("level", [0.05, 0.005])
def test_step_by_step_it_is_the_definition(level: float) -> None:
    tables, expected, seen = begun("error", level), oracle.Sequence(level), set()
    for i, d in enumerate(differences(3, 900)):
        run(tables, 0, [d])
        expected.step(d, Place(i, 0, i + 1))
        check(tables, expected)
        seen.add((expected.verdict, expected.recent, expected.before > 0))
    assert {verdict for verdict, _, _ in seen} == {"undecided", "b_better"}, "a mean that moves is dependence"
    assert {recent for _, recent, changed in seen if changed} >= {"a_better"}


@pytest.mark.parametrize("seed", range(6))
def test_cohorts_of_any_size_that_close_in_any_steps(seed: int) -> None:
    rng = random.Random(seed)
    tables, expected = begun(), oracle.Sequence(0.05)
    frontier = epoch = 0
    for d in differences(seed, 700):
        if rng.random() < 0.02:
            epoch, frontier = epoch + 1, frontier // 2
        cohort = rng.choice([None, frontier, frontier + rng.randrange(OPEN)])
        late = rng.randrange(20) if seed % 2 and rng.random() < 0.9 else None  # begin of its cluster
        after = frontier + rng.choice([0, 0, 0, 0, 0, 1, 3, OPEN, 2 * OPEN])
        if cohort is not None and cohort < after:
            after = max(after, cohort + 1) if rng.random() < 0.5 else cohort
        if cohort is not None and cohort - after >= OPEN:
            after = cohort
        place = (CLOSED if late is None else CLOSED - 1 - late) if cohort is None else cohort
        run(tables, 0, [d], [place], epoch, [after])
        expected.step(d, Place(cohort, epoch, after, late))
        frontier, waiting = after, tables.pair.pending
        assert tables.pair.sequences.n[0] == tables.pair.sequences.counted[0] + waiting.n[0].sum()
        check(tables, expected)
    assert expected.counted_n() > 300


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["error", "squared"])
def test_clusters_of_any_size_are_the_definition(seed: int, loss: str) -> None:
    """Days of 1 to 60 outcomes whose effects depend on the day before, with labels in any order."""
    rng, level, effect = random.Random(seed), [0.05, 0.002][seed % 2], 0.0
    margin = 0.2 if seed == 3 else 0.0
    tables = begun(loss, level, margin=margin)
    expected = oracle.Sequence(level, loss == "error", 10, margin)
    frontier, seen = 0, set()
    for day in range(45):
        lean, effect = (0.4 if day < 30 else -0.5), 0.4 * effect + rng.gauss(0, 0.1)
        for _ in range(rng.choice([1, 5, 30, 60])):
            d = rng.gauss(lean + effect, 1.0) * 40
            if loss == "error":
                d = float(rng.random() < 0.3 + lean + effect) - float(rng.random() < 0.3)
            late = rng.random() < 0.1
            after = frontier if rng.random() < 0.5 else frontier + 1
            ts = 10 * (day if rng.random() < 0.95 else max(0, day - 1)) + rng.randrange(10)
            run(tables, 0, [d], [CLOSED if late else frontier], 0, [after], [1 + ts // 10])
            expected.step(d, Place(None if late else frontier, 0, after, ts=ts))
            frontier = after
            check(tables, expected)
            seen.add((expected.verdict, expected.recent))
    assert len(seen) > 1 or seed % 2 or loss != "error", "a verdict"
    assert tables.pair.sums.clusters[0] == len(expected.clusters) > 35
    assert tables.pair.sequences.alone[0] == VERDICTS.index(expected.alone)


def test_seven_days_are_no_week() -> None:
    """However large the difference is: days that were not seen yet may differ."""
    tables = begun()
    run(tables, 0, np.ones(800), clusters=np.repeat(np.arange(1, 9), 100).tolist())
    assert tables.pair.sums.clusters[0] == 7
    assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == UNDECIDED
    assert tables.pair.sequences.alone[0] == B_BETTER
    assert interval_of(tables) == (True, -1.0, 1.0, 0.0)
    run(tables, 0, [1.0], clusters=[9])
    assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == B_BETTER
    assert tables.pair.sequences.since[0] == 801


def test_a_level_that_eight_days_cannot_reach_needs_more() -> None:
    for level in (0.025, 0.05 / 30, 1e-4, 1e-9):
        needed = needed_clusters(level)
        assert bound_of_ratio(needed, 1 / level) < needed
        assert needed == 8 or bound_of_ratio(needed - 1, 1 / level) >= needed - 1
    assert [needed_clusters(level) for level in (0.025, 1e-4)] == [8, 10]


def test_the_bound_of_clusters_is_a_mixture_of_t_tests() -> None:
    """Of normal likelihoods with the mean ~ N(0, σ²/ρ), and the variance integrated out of both (Lai)."""
    for k, level in ((3, 0.3), (8, 0.05), (40, 0.002)):
        ratio = bound_of_ratio(k, 1 / level)
        assert ratio == pytest.approx(oracle.bound_of_ratio(k, level), rel=1e-12)
        # S² = ratio, V = 1: the marginal densities of the k values under either, up to the same factor.
        grid = np.linspace(-12, 12, 200_001)
        s, effects = math.sqrt(ratio), grid / math.sqrt(1.0)
        weights = np.exp(-grid * grid / 2) / math.sqrt(2 * math.pi)

        def density(delta: Floats, s: float = s, k: int = k) -> Floats:
            """∫ σ^-(k+1)·exp(-(1 - 2·σ·δ·s + k·σ²·δ²)/(2σ²)) dσ over u = 1/σ, numerically."""
            u = np.linspace(1e-3, 6 * math.sqrt(k) + 12, 4_001)
            inside = (k - 1) * np.log(u) - u * u / 2
            return np.array([np.exp(inside + u * x * s - k * x * x / 2).sum() for x in delta])

        few_effects = effects[::400]
        mixed = float((density(few_effects) * weights[::400]).sum() * (few_effects[1] - few_effects[0]))
        assert mixed / float(density(np.zeros(1))[0]) == pytest.approx(1 / level, rel=1e-3)


def test_within_the_margin_models_are_equivalent() -> None:
    rng = np.random.default_rng(3)
    d = rng.choice([1.0, 0.0, -1.0], 4_000, p=(0.05, 0.9, 0.05))
    for clusters in (0, np.repeat(np.arange(1, 41), 100).tolist()):
        tables = begun(margin=0.05)
        run(tables, 0, d, clusters=clusters)
        _, low, high, _ = interval_of(tables)
        assert -0.05 < low < 0 < high < 0.05
        assert tables.pair.sequences.verdict[0] == EQUIVALENT
        assert tables.pair.sequences.since[0] > 300
        assert sequence.declare(tables.pair.sequences, tables.pair.sums, np.array([0]), 0.05, 0.001, True)
        assert tables.pair.sequences.verdict[0] == UNDECIDED


def test_all_open_cohorts_and_that_of_the_outcome_close_at_once() -> None:
    tables = begun()
    run(tables, 0, [1.0] * OPEN, range(OPEN), 0, [0] * OPEN)
    assert tables.pair.sequences.counted[0] == 0
    run(tables, 0, [-1.0], [OPEN], 0, [OPEN + 1])
    assert tables.pair.sequences.counted[0] == OPEN + 1
    assert tables.pair.closed.n.tolist() == [1] * (OPEN + 1)
    assert tables.pair.blocks.number[0, 0] == tables.recent_blocks.number[0, 0] == OPEN + 1


def test_an_outcome_of_a_closed_cohort_counts_at_once() -> None:
    tables = begun()
    run(tables, 0, [1.0, 1.0], [CLOSED, 4], 0, [4, 4])
    assert tables.pair.sequences.counted[0] == 1
    assert tables.pair.pending.n[0].sum() == 1
    run(tables, 0, [-1.0], [CLOSED], 0, [5])
    assert tables.pair.sequences.counted[0] == 3
    assert tables.pair.closed.total[:2].tolist() == [1.0, -1.0]  # what was closed, then itself


@pytest.mark.parametrize(
    ("cluster", "verdict", "effective"),
    [(0, "a_better", 397), (25, "a_better", 325), (100, "undecided", 0)],
)
def test_predictions_that_come_after_their_labels_are_compared(
    cluster: int, verdict: str, effective: int
) -> None:
    """As of models that are run over the past: each cluster of it is one observation.

    The newest late cluster waits, and the one before it is open. Fewer than eight clusters tell nothing.
    """
    lives = Lives(
        estimators=("all",), compare="all", emit_outcomes=100, label_horizon=3_600_000, cluster=cluster
    )
    labels = [lab(i, i, "a") for i in range(400)]
    late = [pred(i, i, "ab"[i % 5 == 0], 1_000) for i in range(400)]
    later = [pred(i, i, "ab"[i % 2], 2_000, model="n") for i in range(400)]
    (*_, last) = (
        message
        for message in map(decoded, lives.go(*labels, *late, *later))
        if isinstance(message, Comparison) and message.stage == "final"
    )
    assert (last.outcomes, last.verdict, last.effective) == (400, verdict, effective)


def test_outcomes_that_wait_say_nothing() -> None:
    tables = begun()
    run(tables, 0, np.ones(2_000), [0] * 2_000, 0, [0] * 2_000)
    assert interval_of(tables) == (True, -1.0, 1.0, 0.0)


def test_a_few_large_cohorts_tell_nothing_of_dependence() -> None:
    """Were f 1 as long as it isn't known, five runs of one sign would be hundreds of outcomes."""
    tables = begun()
    for cohort in range(5):
        run(tables, 0, np.ones(400), [cohort] * 400, 0, [*[cohort] * 399, cohort + 1])
        assert tables.pair.sequences.counted[0] == 400 * (cohort + 1)
        assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == UNDECIDED
        assert interval_of(tables) == (True, -1.0, 1.0, 0.0)
    run(tables, 0, np.ones(400), [5] * 400, 0, [*[5] * 399, 6])
    assert tables.pair.sequences.verdict[0] == B_BETTER


def test_small_cohorts_before_large_ones_tell_nothing_of_these() -> None:
    tables = begun()
    run(tables, 0, [1.0, -1.0, 0.0] * 10)
    run(tables, 0, np.ones(400), [30] * 400, 0, [*[30] * 399, 31])
    assert tables.pair.sequences.counted[0] == 430
    assert tables.pair.sequences.verdict[0] == UNDECIDED


def test_the_normal_mixture_is_an_integral() -> None:
    """Over λ, of exp(λ·s - λ²·v/2), with a normal density of variance 1/ρ."""
    rho, grid = confidence_sequence.MIXTURE_RHO, np.linspace(-4, 4, 400_001)
    for v in (1.0, 50.0, 3_000.0):
        s = math.sqrt(confidence_sequence.squared_radius(v, 20.0))
        density = np.exp(-grid * grid * rho / 2) * math.sqrt(rho / (2 * math.pi))
        mixture = float(np.sum(np.exp(grid * s - grid * grid * v / 2) * density) * (grid[1] - grid[0]))
        assert mixture == pytest.approx(20.0, rel=1e-6)


def bound_of_losses(v: float, level: float) -> float:
    """The s where the mixture with a gamma density is 2/level, with scipy's incomplete gamma function."""
    rho, needed = 8.0, math.log(2 / level)

    def excess(s: float) -> float:
        a, x = v + rho, s + v + rho
        start = rho * math.log(rho) - special.gammaln(rho) - math.log(special.gammainc(rho, rho)) - rho
        mixture = start + special.gammaln(a) + math.log(special.gammainc(a, x)) - a * math.log(x) + x
        return float(mixture - needed)

    return float(optimize.brentq(excess, 0, 100 * v + 1e4, xtol=1e-12))


def test_the_other_boundary_is_at_most_a_trifle_wider_than_the_definition() -> None:
    for level in (0.5, 0.05, 0.005, 1e-6):
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            exact = bound_of_losses(v, level)
            # The definition itself has 8 digits at v = 1e7 (differences of logarithms of 1e8).
            wider = bound.radius(v, needed_for(level / 2), RHO) / exact - 1
            assert -1e-8 < wider < (1e-4 if level <= 0.05 else 0.01)


#: (level, v, u(v)) by confseq 0.0.11:
#: `boundaries.gamma_exponential_mixture_bound(v, level/2, v_opt, 1, level/2)`
#: with v_opt = 8·(2·ln(1/level) + ln(1 + 2·ln(1/level))), so that its ρ is ours. It isn't built for any
#: Python that we support. `pip download --no-binary :all: --no-deps confseq==0.0.11`, then, with Boost 1.74
#: and pybind11 3, `c++ -O2 -shared -fPIC $(python -m pybind11 --includes) src/confseq/boundaries.cpp`.
CONFSEQ = [
    (0.05, 1.0, 9.76134640226519), (0.05, 10.0, 13.670285055404747), (0.05, 50.0, 24.57932968671912),
    (0.05, 1e3, 109.14669426557566), (0.05, 1e5, 1255.2940353394604), (0.05, 1e7, 14230.242469368548),
    (0.005, 1.0, 13.823840337870934), (0.005, 10.0, 18.548616960479194), (0.005, 50.0, 31.636190313270163),
    (0.005, 1e3, 130.79737144641967), (0.005, 1e5, 1429.1604498005483), (0.005, 1e7, 15767.707818268305),
    (0.0005, 1.0, 17.454809963834123), (0.0005, 50.0, 37.78946587679002), (0.0005, 1e5, 1584.2971951670393),
]  # fmt: skip


@pytest.mark.parametrize(("level", "v", "u"), CONFSEQ)
def test_the_boundary_is_that_of_confseq(level: float, v: float, u: float) -> None:
    assert bound.radius(v, needed_for(level / 2), RHO) == pytest.approx(u, rel=1e-4)
    assert bound_of_losses(v, level) == pytest.approx(u, rel=1e-8)


@pytest.mark.parametrize("b", [1.0, 0.01, 1e20])
def test_dependence_makes_intervals_wider_only(b: float) -> None:
    """So what holds without regard to it holds with it."""
    for level in (0.5, 0.05, 0.005, 1e-6):
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            v = v * b * b
            widths = [f * sequence.radius(v / f, 1 / level, b) for f in np.linspace(1, 19, 73)]
            assert all(wider > narrower for narrower, wider in pairwise(widths))
            for f in (1.1, 3.0, 19.0):
                s = sequence.radius(v, 1 / level, b)
                assert sequence.verdict_of(s / f, v / f, 1 / level, b) == UNDECIDED


@pytest.mark.parametrize("batch", [50, 200])
def test_neither_runs_nor_the_order_of_labels_are_evidence(batch: int) -> None:
    """Runs of 100 of either sign; labels come shuffled: cohorts are of 64 predictions."""
    runs_of = np.repeat(np.random.default_rng(5).choice([1.0, -1.0], 60), 100)
    tables = begun()
    run(tables, 0, runs_of)
    in_order = interval_of(tables)
    assert 20 < in_order[3] < 120, "sixty runs"
    assert tables.pair.sequences.verdict[0] == UNDECIDED
    tables, rng = begun(), np.random.default_rng(batch)
    cohorts = np.arange(len(runs_of)) // 64
    for start in range(0, len(runs_of), batch):
        order = start + rng.permutation(min(batch, len(runs_of) - start))
        frontier = cohorts[start]
        run(tables, 0, runs_of[order], cohorts[order], 0, [frontier] * len(order))
    assert tables.pair.sequences.verdict[0] == UNDECIDED
    assert 0.5 < interval_of(tables)[3] / in_order[3] < 2


def test_who_is_better_now() -> None:
    """Of the whole run nobody is, a while after the sign has changed."""
    rng = np.random.default_rng(2)
    before, after = (rng.choice([1.0, 0.0, -1.0], 4_000, p=p) for p in ((0.1, 0.88, 0.02), (0.02, 0.88, 0.1)))
    tables = begun()
    run(tables, 0, before)
    assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == B_BETTER
    assert tables.recent.before[0] == 0
    run(tables, 0, after[:1_500])
    assert tables.pair.sequences.verdict[0] == UNDECIDED
    assert tables.recent.verdict[0] == A_BETTER
    assert 3_700 < tables.recent.before[0] < 4_200
    run(tables, 0, after[1_500:])
    assert tables.recent.verdict[0] == A_BETTER


def test_before_there_are_enough_outcomes_the_interval_is_everything() -> None:
    tables = begun()
    assert interval_of(tables) == (True, -1.0, 1.0, 0.0)
    run(tables, 0, [1.0, -1.0, 1.0] * 33)
    known, low, high, effective = interval_of(tables)
    assert (known, low, high) == (True, -1.0, 1.0)
    assert effective > 0


def test_losses_without_a_bound_have_no_interval_before_there_are_enough_outcomes() -> None:
    tables = begun("squared")
    assert not interval_of(tables).known
    run(tables, 0, [0.0] * 200)
    assert not interval_of(tables).known, "of what size differences are isn't known"
    run(tables, 0, [30.0, -10.0, 20.0, -40.0] * 50)
    known, low, high, _ = interval_of(tables)
    assert known
    assert -40 < low < 0 < high < 40


@pytest.mark.parametrize("exceeding", [1.1e100, -math.inf, math.nan])
def test_beyond_all_numbers_there_is_neither_interval_nor_verdict(exceeding: float) -> None:
    tables = begun("squared")
    run(tables, 0, [1.0] * 200)
    assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == B_BETTER
    run(tables, 0, [exceeding, *[1.0] * 199])
    assert tables.pair.sequences.verdict[0] == tables.recent.verdict[0] == UNDECIDED
    assert not interval_of(tables).known
    assert tables.pair.sequences.n[0] == 400


def test_models_that_never_differ_are_worth_what_they_are() -> None:
    tables = begun()
    run(tables, 0, np.zeros(1_000))
    known, low, high, effective = interval_of(tables)
    assert (known, effective) == (True, 1_000)
    assert low == -high < 0


def test_another_level_holds_at_once() -> None:
    tables = begun()
    run(tables, 0, np.tile([1.0, 0.0], 60))
    table = tables.pair.sequences
    assert table.verdict[0] == B_BETTER
    sums = tables.pair.sums
    assert sequence.declare(table, sums, np.array([0]), 1e-20, 0.0, True)
    assert (table.verdict[0], table.since[0]) == (UNDECIDED, 0)
    assert sequence.declare(table, sums, np.array([0]), 0.05, 0.0, True)
    assert (table.verdict[0], table.since[0]) == (B_BETTER, 120)


@pytest.mark.parametrize("v", [0.0, 1e-300, 1e12, 1e15])
@pytest.mark.parametrize("level", [1e-300, 1e-9, 0.999])
def test_extremes_have_finite_bounds(v: float, level: float) -> None:
    needed = 1 / level
    s = sequence.radius(v, needed, 1.0)
    assert 0 < s < math.inf
    assert sequence.verdict_of(s * (1 + 1e-9), v, needed, 1.0) == B_BETTER
    assert sequence.verdict_of(s * (1 - 1e-9), v, needed, 1.0) == UNDECIDED
    assert sequence.verdict_of(-s * (1 + 1e-9), v, needed, 1.0) == A_BETTER


def told() -> list[str]:
    """Verdicts and intervals along some sequences, to the last bit."""
    lines = []
    for loss in ("error", "brier", "log_loss"):
        for level in (0.2, 0.005):
            tables = begun(loss, level)
            for part in np.split(differences(8, 800, "error" if loss == "error" else "brier"), 100):
                run(tables, 0, part)
                table, recent = tables.pair.sequences, tables.recent
                _, *numbers = interval_of(tables)
                numbers += [recent.deviation[0], recent.inflation[0], *tables.pair.blocks.squares[0]]
                hexes = " ".join(float(number).hex() for number in numbers)
                verdicts = f"{table.verdict[0]} {recent.verdict[0]} {table.since[0]} {recent.before[0]}"
                lines.append(f"{verdicts} {hexes}")
    return lines


@pytest.mark.parametrize(
    "variables",
    few(
        [
            # Another variant of the C library's functions, whose last bits differ.
            {"NUMBA_DISABLE_JIT": "1", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
            {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
        ]
    ),
    ids=["no compiler and another C library", "another C library"],
)
def test_the_same_bits(variables: dict[str, str]) -> None:
    root = _HERE.parents[2]
    folders = (root, root / "tests", root / "pipeline", root / "topics")
    elsewhere = subprocess.run(
        [sys.executable, str(_HERE)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **variables},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert elsewhere.returncode == 0, elsewhere.stderr
    here = told()
    assert elsewhere.stdout.splitlines() == here
    assert {line[0] for line in here} == {"0", "2"}
    assert {line[2] for line in here} == {"0", "1", "2"}


if __name__ == "__main__":
    print("\n".join(told()))
