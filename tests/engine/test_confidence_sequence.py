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
from prequential.engine.comparisons import A_BETTER, B_BETTER, UNDECIDED, VERDICTS, confidence_sequence
from prequential.engine.comparisons import confidence_sequence as sequence
from prequential.engine.comparisons import updating as forgetting
from prequential.engine.comparisons.joint import OF_LOSSES, new_joint
from prequential.engine.comparisons.updating import PairSettings, PairVerdicts, Times, step_pairs
from prequential.engine.compiled.kernel import Floats, zeros
from prequential.engine.delay import cohorts
from prequential.engine.delay.cohorts import CLOSED, OPEN
from prequential.engine.detectors.confidence_sequence import RHO, needed_for, new_blocks
from prequential.engine.detectors.confidence_sequence import radius as bound_radius
from prequential.topics.outputs import Comparison, decoded
from test_between_lives import Lives

from tests.nightly import few

_HERE = Path(__file__).resolve()


def begun(loss: str = "error", level: float = 0.05, rows: int = 1) -> PairVerdicts:
    table = sequence.new_table(rows)
    for row in range(rows):
        sequence.declare(table, row, sequence.LARGEST.get(loss, 0.0), level, loss == "error")
    return PairVerdicts(
        table, cohorts.new_pending(rows), new_blocks(rows), forgetting.new_recent(rows), new_blocks(rows),
        cohorts.new_closed(),
    )  # fmt: skip


def run(
    tables: PairVerdicts, row: int, d: Sequence[float] | Floats, cohorts: Sequence[int] | None = None,
    epoch: int = 0, frontiers: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Differences of a row: each is a cohort that closes at once, unless something else is said."""
    n = len(d)
    joint = new_joint(n)
    first = int(tables.sequences.n[row])
    joint.sequence[:], joint.code[:], joint.a[:], joint.epoch[:] = row, OF_LOSSES, d, epoch
    joint.cohort[:] = np.arange(first, first + n) if cohorts is None else cohorts
    joint.frontier[:] = joint.cohort + 1 if frontiers is None else frontiers
    rows = len(tables.sequences)
    settings = PairSettings(
        np.full(rows, -1), np.zeros(rows, np.int32), np.zeros(rows, np.uint8)
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
    table, recent = tables.sequences, tables.recent
    known, low, high, effective = sequence.interval(table, 0)
    assert known
    assert (table.n[0], table.counted[0], table.judged[0]) == (
        expected.n, expected.counted_n(), expected.judged,
    )  # fmt: skip
    assert table.inflation[0] == pytest.approx(expected.f or 0.0, rel=1e-9)
    assert effective == pytest.approx(expected.effective, rel=1e-9)
    wide = expected.interval[1] - expected.interval[0]
    assert (low, high) == pytest.approx(expected.interval, rel=1e-9, abs=1e-4 * wide)
    if expected.margin > 1e-4:
        assert VERDICTS[table.verdict[0]] == expected.verdict
        assert (int(table.since[0]) or None) == expected.since
    assert (table.verdict[0] != UNDECIDED) == (low > 0 or high < 0)
    assert VERDICTS[recent.verdict[0]] == expected.recent
    assert recent.before[0] == expected.before


def test_a_change_is_where_the_deviation_is_the_largest_for_its_variance() -> None:
    """140²/21 is more than 100²/11; what fewer than 50 outcomes say is no change."""
    recent = forgetting.new_recent(1)
    recent.counted[0], recent.deviation[0], recent.variance[0] = 400, 100.0, 100.0
    recent.mark_counted[0, :3] = 380, 300, 200
    recent.mark_deviation[0, :3], recent.mark_variance[0, :3] = (-1_000.0, 0.0, -40.0), (90.0, 90.0, 80.0)
    assert forgetting._changed(recent, 0, 1.0, 20.0, True) == 2


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
        frontier, waiting = after, tables.pending
        assert tables.sequences.n[0] == tables.sequences.counted[0] + waiting.n[0].sum()
        check(tables, expected)
    assert expected.counted_n() > 300


def test_all_open_cohorts_and_that_of_the_outcome_close_at_once() -> None:
    tables = begun()
    run(tables, 0, [1.0] * OPEN, range(OPEN), 0, [0] * OPEN)
    assert tables.sequences.counted[0] == 0
    run(tables, 0, [-1.0], [OPEN], 0, [OPEN + 1])
    assert tables.sequences.counted[0] == OPEN + 1
    assert tables.closed.n.tolist() == [1] * (OPEN + 1)
    assert tables.blocks.number[0, 0] == tables.recent_blocks.number[0, 0] == OPEN + 1


def test_an_outcome_of_a_closed_cohort_counts_at_once() -> None:
    tables = begun()
    run(tables, 0, [1.0, 1.0], [CLOSED, 4], 0, [4, 4])
    assert tables.sequences.counted[0] == 1
    assert tables.pending.n[0].sum() == 1
    run(tables, 0, [-1.0], [CLOSED], 0, [5])
    assert tables.sequences.counted[0] == 3
    assert tables.closed.total[:2].tolist() == [1.0, -1.0]  # what was closed, then itself


@pytest.mark.parametrize(
    ("cluster", "verdict", "effective"),
    [(None, "a_better", 397), (40, "a_better", 320), (100, "undecided", 0)],
)
def test_predictions_that_come_after_their_labels_are_compared(
    cluster: int | None, verdict: str, effective: int
) -> None:
    """As of models that are run over the past: each cluster of it is one observation.

    The newest cluster is open, and the newest late one waits. Fewer than six clusters tell nothing.
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
    assert sequence.interval(tables.sequences, 0) == (True, -1.0, 1.0, 0.0)


def test_a_few_large_cohorts_tell_nothing_of_dependence() -> None:
    """Were f 1 as long as it isn't known, five runs of one sign would be hundreds of outcomes."""
    tables = begun()
    for cohort in range(5):
        run(tables, 0, np.ones(400), [cohort] * 400, 0, [*[cohort] * 399, cohort + 1])
        assert tables.sequences.counted[0] == 400 * (cohort + 1)
        assert tables.sequences.verdict[0] == tables.recent.verdict[0] == UNDECIDED
        assert sequence.interval(tables.sequences, 0) == (True, -1.0, 1.0, 0.0)
    run(tables, 0, np.ones(400), [5] * 400, 0, [*[5] * 399, 6])
    assert tables.sequences.verdict[0] == B_BETTER


def test_small_cohorts_before_large_ones_tell_nothing_of_these() -> None:
    tables = begun()
    run(tables, 0, [1.0, -1.0, 0.0] * 10)
    run(tables, 0, np.ones(400), [30] * 400, 0, [*[30] * 399, 31])
    assert tables.sequences.counted[0] == 430
    assert tables.sequences.verdict[0] == UNDECIDED


def test_the_normal_mixture_is_an_integral() -> None:
    """Over λ, of exp(λ·s - λ²·v/2), with a normal density of variance 1/ρ."""
    rho, grid = confidence_sequence.MIXTURE_RHO, np.linspace(-4, 4, 400_001)
    for v in (1.0, 50.0, 3_000.0):
        s = math.sqrt(confidence_sequence.squared_radius(v, 20.0))
        density = np.exp(-grid * grid * rho / 2) * math.sqrt(rho / (2 * math.pi))
        mixture = float(np.sum(np.exp(grid * s - grid * grid * v / 2) * density) * (grid[1] - grid[0]))
        assert mixture == pytest.approx(20.0, rel=1e-6)


def test_the_other_boundary_is_at_most_a_trifle_wider_than_the_definition() -> None:
    for level in (0.5, 0.05, 0.005, 1e-6):
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            exact = oracle.radius(v, level, False)
            # The definition itself has 8 digits at v = 1e7 (differences of logarithms of 1e8).
            wider = bound_radius(v, needed_for(level / 2), RHO) / exact - 1
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
    assert sequence.radius(v, needed_for(level / 2), False) == pytest.approx(u, rel=1e-4)
    assert oracle.radius(v, level, False) == pytest.approx(u, rel=1e-8)


@pytest.mark.parametrize("signs", [True, False])
def test_dependence_makes_intervals_wider_only(signs: bool) -> None:
    """So what holds without regard to it holds with it."""
    for level in (0.5, 0.05, 0.005, 1e-6):
        needed = 1 / level if signs else needed_for(level / 2)
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            widths = [f * sequence.radius(v / f, needed, signs) for f in np.linspace(1, 19, 73)]
            assert all(wider > narrower for narrower, wider in pairwise(widths))
            for f in (1.1, 3.0, 19.0):
                s = sequence.radius(v, needed, signs)
                assert sequence.verdict_of(s / f, v / f, needed, signs) == UNDECIDED


@pytest.mark.parametrize("batch", [50, 200])
def test_neither_runs_nor_the_order_of_labels_are_evidence(batch: int) -> None:
    """Runs of 100 of either sign; labels come shuffled: cohorts are of 64 predictions."""
    runs_of = np.repeat(np.random.default_rng(5).choice([1.0, -1.0], 60), 100)
    tables = begun()
    run(tables, 0, runs_of)
    in_order = sequence.interval(tables.sequences, 0)
    assert 20 < in_order[3] < 120, "sixty runs"
    assert tables.sequences.verdict[0] == UNDECIDED
    tables, rng = begun(), np.random.default_rng(batch)
    cohorts = np.arange(len(runs_of)) // 64
    for start in range(0, len(runs_of), batch):
        order = start + rng.permutation(min(batch, len(runs_of) - start))
        frontier = cohorts[start]
        run(tables, 0, runs_of[order], cohorts[order], 0, [frontier] * len(order))
    assert tables.sequences.verdict[0] == UNDECIDED
    assert 0.5 < sequence.interval(tables.sequences, 0)[3] / in_order[3] < 2


def test_who_is_better_now() -> None:
    """Of the whole run nobody is, a while after the sign has changed."""
    rng = np.random.default_rng(2)
    before, after = (rng.choice([1.0, 0.0, -1.0], 4_000, p=p) for p in ((0.1, 0.88, 0.02), (0.02, 0.88, 0.1)))
    tables = begun()
    run(tables, 0, before)
    assert tables.sequences.verdict[0] == tables.recent.verdict[0] == B_BETTER
    assert tables.recent.before[0] == 0
    run(tables, 0, after[:1_500])
    assert tables.sequences.verdict[0] == UNDECIDED
    assert tables.recent.verdict[0] == A_BETTER
    assert 3_700 < tables.recent.before[0] < 4_200
    run(tables, 0, after[1_500:])
    assert tables.recent.verdict[0] == A_BETTER


@pytest.mark.parametrize("loss", ["error", "brier"])
def test_before_there_are_enough_outcomes_the_interval_is_everything(loss: str) -> None:
    tables, b = begun(loss), sequence.LARGEST[loss]
    assert sequence.interval(tables.sequences, 0) == (True, -b, b, 0.0)
    run(tables, 0, [1.0, -1.0, 1.0] * 33)
    known, low, high, effective = sequence.interval(tables.sequences, 0)
    assert (known, low, high) == (True, -b, b)
    assert effective > 0


@pytest.mark.parametrize("exceeding", [1.0000001, -3.0, math.inf, math.nan])
def test_beyond_the_bound_there_is_neither_interval_nor_verdict(exceeding: float) -> None:
    tables = begun()
    run(tables, 0, np.ones(400))
    assert tables.sequences.verdict[0] == tables.recent.verdict[0] == B_BETTER
    run(tables, 0, [exceeding])
    assert tables.recent.verdict[0] == UNDECIDED
    run(tables, 0, np.ones(400))
    table = tables.sequences
    assert (table.verdict[0], table.since[0], table.n[0]) == (UNDECIDED, 0, 801)
    assert tables.recent.verdict[0] == UNDECIDED
    assert sequence.interval(table, 0) == (False, 0.0, 0.0, 0.0)


def test_a_loss_without_a_bound_is_never_decided() -> None:
    tables = begun("squared")
    run(tables, 0, np.full(400, 1e9))
    assert tables.sequences.verdict[0] == tables.recent.verdict[0] == UNDECIDED
    assert sequence.interval(tables.sequences, 0) == (False, 0.0, 0.0, 0.0)
    assert tables.sequences.n[0] == 400


def test_models_that_never_differ_are_worth_what_they_are() -> None:
    tables = begun()
    run(tables, 0, np.zeros(1_000))
    known, low, high, effective = sequence.interval(tables.sequences, 0)
    assert (known, effective) == (True, 1_000)
    assert low == -high < 0


def test_another_level_holds_at_once() -> None:
    tables = begun()
    run(tables, 0, np.tile([1.0, 0.0], 60))
    table = tables.sequences
    assert table.verdict[0] == B_BETTER
    assert sequence.declare(table, 0, 1.0, 1e-20, True)
    assert (table.verdict[0], table.since[0]) == (UNDECIDED, 0)
    assert sequence.declare(table, 0, 1.0, 0.05, True)
    assert (table.verdict[0], table.since[0]) == (B_BETTER, 120)


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize("v", [0.0, 1e-300, 1e12, 1e15])
@pytest.mark.parametrize("level", [1e-300, 1e-9, 0.999])
def test_extremes_have_finite_bounds(v: float, level: float, signs: bool) -> None:
    needed = 1 / level if signs else needed_for(level / 2)
    s = sequence.radius(v, needed, signs)
    assert 0 < s < math.inf
    assert sequence.verdict_of(s * (1 + 1e-9), v, needed, signs) == B_BETTER
    assert sequence.verdict_of(s * (1 - 1e-9), v, needed, signs) == UNDECIDED
    assert sequence.verdict_of(-s * (1 + 1e-9), v, needed, signs) == A_BETTER


def told() -> list[str]:
    """Verdicts and intervals along some sequences, to the last bit."""
    lines = []
    for loss in ("error", "brier", "log_loss"):
        for level in (0.2, 0.005):
            tables = begun(loss, level)
            for part in np.split(differences(8, 800, "error" if loss == "error" else "brier"), 100):
                run(tables, 0, part)
                table, recent = tables.sequences, tables.recent
                _, *numbers = sequence.interval(table, 0)
                numbers += [recent.deviation[0], recent.inflation[0], *tables.blocks.squares[0]]
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
