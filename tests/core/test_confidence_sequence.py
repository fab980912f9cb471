"""The confidence sequence against its definition, against confseq and comparecast, and at its edges.

As a program it prints what compiled loops, plain Python and another C library must say alike.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from prequential.core.comparisons import A_BETTER, B_BETTER, UNDECIDED
from prequential.core.comparisons import confidence_sequence as sequence
from prequential.core.kernel import Floats
from scipy import optimize, special

from tests.evidence.verdicts import run

_HERE = Path(__file__).resolve()

RHO = 8.0


def log_mixture(s: float, v: float) -> float:
    """ln M(s, v) of the definition, with scipy's incomplete gamma function."""
    a, x = v + RHO, s + v + RHO
    start = RHO * math.log(RHO) - special.gammaln(RHO) - math.log(special.gammainc(RHO, RHO)) - RHO
    return float(start + special.gammaln(a) + math.log(special.gammainc(a, x)) - a * math.log(x) + x)


def by_definition(v: float, level: float) -> float:
    """The s at which M(s, v) = 2/level."""
    needed = math.log(2 / level)
    return float(optimize.brentq(lambda s: log_mixture(s, v) - needed, 0, 100 * v + 1e4, xtol=1e-12))


def runs(d: list[float]) -> float:
    """(1 + r)/(1 - r) of the definition, of d_1 … d_n."""
    moved = [x for x in d if x]
    neighbours = [x * y for x, y in pairwise(moved)]
    changes = sum(product < 0 for product in neighbours)
    w = 1 - 5 / changes if changes > 5 else 0.0
    of_mean = w * math.fsum(moved) ** 2 / len(moved) if moved else 0.0
    rest = math.fsum(x * x for x in moved) - of_mean
    r = min(0.9, max(0.0, (math.fsum(neighbours) - of_mean) / rest)) if rest else 0.0
    return (1 + r) / (1 - r)


def differences(seed: int, n: int, loss: str = "error") -> Floats:
    """Of one model against another that is better, then worse."""
    random = np.random.default_rng(seed)
    lean = np.repeat([0.3, -0.5, -0.5], -(-n // 3))[:n]
    if loss == "error":
        return (random.random(n) < 0.25 + lean / 2).astype(float) - (random.random(n) < 0.25 - lean / 2)
    return np.clip(random.normal(lean, 0.5), -2, 2)


def begun(loss: str, level: float, rows: int = 1) -> sequence.Sequences:
    table = sequence.new_table(rows)
    for row in range(rows):
        sequence.declare(table, row, sequence.LARGEST[loss], level)
    return table


@pytest.mark.parametrize("loss", ["error", "brier"])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_step_by_step_it_is_the_definition(loss: str, level: float) -> None:
    b, n = sequence.LARGEST[loss], 1500
    d = differences(3, n, loss)
    table = begun(loss, level)
    seen: set[int] = set()
    since = 0
    for i in range(n):
        past = (d[: i + 1] / b).tolist()
        s, v = math.fsum(past), math.fsum(x * x for x in past)
        f = runs(past)
        before = table.verdict[0]
        changed = sequence.step(table, 0, d[i])
        known, low, high = sequence.interval(table, 0)
        wide = f * by_definition(v / f, level)
        assert known
        # On the safe side of the definition, by next to nothing.
        for got, exact in ((low, (s - wide) / (i + 1) * b), (high, (s + wide) / (i + 1) * b)):
            assert got == pytest.approx(min(b, max(-b, exact)), rel=1e-9, abs=1e-4 * wide / (i + 1) * b)
        expected = UNDECIDED if abs(s) <= wide else (B_BETTER if s > 0 else A_BETTER)
        if abs(abs(s) - wide) > 1e-4 * wide:
            assert table.verdict[0] == expected
        assert (table.verdict[0] != UNDECIDED) == (low > 0 or high < 0)
        assert changed == (table.verdict[0] != before)
        if changed:
            since = i + 1 if table.verdict[0] else 0
        assert (table.n[0], table.since[0]) == (i + 1, since)
        seen.add(int(table.verdict[0]))
    assert seen == {UNDECIDED, A_BETTER, B_BETTER}
    assert table.total[0] == pytest.approx(float(np.sum(d)) / b, abs=1e-9)


def test_the_boundary_is_at_most_a_trifle_wider_than_the_definition() -> None:
    for level in (0.5, 0.05, 0.005, 1e-6):
        needed = sequence.needed_for(level)
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            exact = by_definition(v, level)
            # The definition itself has 8 digits at v = 1e7 (differences of logarithms of 1e8).
            assert -1e-8 < sequence.radius(v, needed) / exact - 1 < (1e-4 if level <= 0.05 else 0.01)


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
    assert sequence.radius(v, sequence.needed_for(level)) == pytest.approx(u, rel=1e-4)
    assert by_definition(v, level) == pytest.approx(u, rel=1e-8)


#: (n, low, high) by comparecast 1.0.0 over that boundary: `confseq_eb(d / b, alpha=level, lo=-1, hi=1,
#: gammas=np.zeros(5000), boundary_type="mixture", v_opt=v_opt, c=1)`, times b.
COMPARECAST = {
    ("error", 0.05): [
        (20, -0.48757190080859797, 0.587571900808598), (100, -0.12319402538576922, 0.2231940253857692),
        (1000, 0.003510243076767436, 0.10048975692323256), (5000, 0.02971592766933372, 0.07428407233066628),
    ],
    ("brier", 0.005): [
        (20, -1.2072164935031398, 1.6622164935031398), (100, -0.1946142419740429, 0.5296142419740427),
        (1000, 0.06804359795282004, 0.23025640204718054), (5000, 0.11478720575737573, 0.18451279424262634),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("loss", "level"), COMPARECAST)
def test_intervals_are_those_of_comparecast(loss: str, level: float) -> None:
    i = np.arange(1, 5001)
    d = (i % 7 == 0) * 1.0 - (i % 11 == 0) if loss == "error" else (i * i % 37 - 15) / 20.0
    table = begun(loss, level)
    expected = {n: (low, high) for n, low, high in COMPARECAST[loss, level]}
    for n in i.tolist():
        sequence.step(table, 0, d[n - 1])
        table.neighbours[0] = 0.0  # runs are no part of theirs
        if n in expected:
            _, low, high = sequence.interval(table, 0)
            middle, half = sum(expected[n]) / 2, (expected[n][1] - expected[n][0]) / 2
            assert (low + high) / 2 == pytest.approx(middle, rel=1e-9)
            assert (high - low) / 2 == pytest.approx(half, rel=1e-4)


def test_for_01_loss_it_is_a_function_of_the_discordant_counts() -> None:
    """Of these and of how often the same one was right as the time before: whole numbers, nothing rounded."""
    d = differences(4, 3000)
    table = begun("error", 0.05)
    run(table, 0, d, np.zeros(3000, np.uint8))
    n01, n10 = int(np.sum(d > 0)), int(np.sum(d < 0))
    assert (table.total[0], table.variance[0]) == (n01 - n10, n01 + n10)
    signs = d[d != 0]
    assert table.neighbours[0] == 2 * np.sum(signs[1:] == signs[:-1]) - (n01 + n10 - 1)


def test_runs_make_intervals_wider_only() -> None:
    """So what holds without regard to them holds with it."""
    for level in (0.5, 0.05, 0.005, 1e-6):
        needed = sequence.needed_for(level)
        for v in (0.0, 0.3, 1.0, 7.0, 60.0, 1e3, 1e5, 1e7):
            widths = [f * sequence.radius(v / f, needed) for f in np.linspace(1, 19, 73)]
            assert all(wider > narrower for narrower, wider in pairwise(widths))
            for f in (1.1, 3.0, 19.0):
                s = sequence.radius(v, needed)
                assert sequence.verdict_of(s / f, v / f, needed) == UNDECIDED


def test_one_long_run_is_no_evidence_of_many() -> None:
    table, mixed = begun("error", 0.05), begun("error", 0.05)
    run(table, 0, np.ones(297), np.zeros(297, np.uint8))
    assert table.verdict[0] == UNDECIDED
    assert sequence.step(table, 0, 1.0)
    run(mixed, 0, np.tile([1.0, -1.0, 1.0], 66), np.zeros(198, np.uint8))
    assert mixed.verdict[0] == B_BETTER  # with a third of them against it


def test_who_loses_more_is_worse() -> None:
    for sign, verdict in ((1.0, B_BETTER), (-1.0, A_BETTER)):
        table = begun("error", 0.05)
        verdicts = np.zeros(400, np.uint8)
        run(table, 0, np.full(400, sign), verdicts)
        first = int(np.argmax(verdicts != UNDECIDED)) + 1
        assert set(verdicts[first - 1 :].tolist()) == {verdict}
        assert table.since[0] == first
        _, low, high = sequence.interval(table, 0)
        assert (low > 0) if sign > 0 else (high < 0)


def test_a_verdict_can_end_and_turn() -> None:
    table = begun("error", 0.05)
    told = []
    for i, d in enumerate([1.0, 0.0, 1.0, -1.0] * 100 + [-1.0, 0.0, 1.0, -1.0] * 400, 1):
        if sequence.step(table, 0, d):
            told.append((i, int(table.verdict[0]), int(table.since[0])))
    verdicts = [verdict for _, verdict, _ in told]
    assert (verdicts[0], verdicts[-1]) == (B_BETTER, A_BETTER)
    assert UNDECIDED in verdicts
    assert all(since == (i if verdict else 0) for i, verdict, since in told)
    assert told[0][0] < 400
    assert min(i for i, verdict, _ in told if verdict == A_BETTER) > 800


def test_rows_dont_touch_each_other() -> None:
    table = begun("error", 0.05, rows=3)
    run(table, 1, differences(1, 500), np.zeros(500, np.uint8))
    assert table.n.tolist() == [0, 500, 0]
    assert table.variance[0] == table.variance[2] == 0


def test_before_the_first_outcome_the_interval_is_everything() -> None:
    assert sequence.interval(begun("error", 0.05), 0) == (True, -1.0, 1.0)
    assert sequence.interval(begun("brier", 0.05), 0) == (True, -2.002001, 2.002001)


def test_intervals_stay_within_the_range() -> None:
    table = begun("error", 0.05)
    for d in (0.0, 1.0, 1.0, 1.0):
        sequence.step(table, 0, d)
        _, low, high = sequence.interval(table, 0)
        assert -1.0 <= low <= 0.0 < high <= 1.0


@pytest.mark.parametrize("exceeding", [1.0000001, -3.0, math.inf, math.nan])
def test_beyond_the_bound_there_is_neither_interval_nor_verdict(exceeding: float) -> None:
    table = begun("error", 0.05)
    run(table, 0, np.ones(400), np.zeros(400, np.uint8))
    assert table.verdict[0] == B_BETTER
    assert sequence.step(table, 0, exceeding)
    run(table, 0, np.ones(400), np.zeros(400, np.uint8))
    assert (table.verdict[0], table.since[0], table.n[0]) == (UNDECIDED, 0, 801)
    assert sequence.interval(table, 0) == (False, 0.0, 0.0)


def test_a_loss_without_a_bound_is_never_decided() -> None:
    table = sequence.new_table(1)
    sequence.declare(table, 0, sequence.LARGEST.get("squared", 0.0), 0.05)
    verdicts = np.zeros(50, np.uint8)
    run(table, 0, np.full(50, 1e9), verdicts)
    assert not verdicts.any()
    assert sequence.interval(table, 0) == (False, 0.0, 0.0)
    assert table.n[0] == 50


def test_more_pairs_ask_for_more() -> None:
    table = begun("error", 0.05)
    at = {}
    for level in (0.05, 0.005):
        table = begun("error", level)
        run(table, 0, np.ones(1000), np.zeros(1000, np.uint8))
        at[level] = int(table.since[0])
    assert 0 < at[0.05] < at[0.005]


def test_another_level_holds_at_once() -> None:
    table = begun("error", 0.05)
    while not sequence.step(table, 0, 1.0):
        pass
    n = table.n[0]
    assert sequence.declare(table, 0, 1.0, 0.005)
    assert (table.verdict[0], table.since[0]) == (UNDECIDED, 0)
    assert sequence.declare(table, 0, 1.0, 0.05)
    assert (table.verdict[0], table.since[0]) == (B_BETTER, n)


@pytest.mark.parametrize("v", [0.0, 1e-300, 1e12, 1e15])
@pytest.mark.parametrize("level", [1e-300, 1e-9, 0.999])
def test_extremes_have_finite_bounds(v: float, level: float) -> None:
    needed = sequence.needed_for(level)
    s = sequence.radius(v, needed)
    assert 0 < s < math.inf
    assert sequence.verdict_of(s * (1 + 1e-9), v, needed) == B_BETTER
    assert sequence.verdict_of(s * (1 - 1e-9), v, needed) == UNDECIDED
    assert sequence.verdict_of(-s * (1 + 1e-9), v, needed) == A_BETTER


def told() -> list[str]:
    """Verdicts and intervals along some sequences, to the last bit."""
    lines = []
    for loss in ("error", "brier", "log_loss"):
        for level in (0.2, 0.05, 0.005):
            d = differences(8, 400, "error" if loss == "error" else "brier")
            table = begun(loss, level)
            for i in range(len(d)):
                verdicts = np.zeros(1, np.uint8)
                run(table, 0, d[i : i + 1], verdicts)
                _, low, high = sequence.interval(table, 0)
                lines.append(f"{verdicts[0]} {table.since[0]} {float(low).hex()} {float(high).hex()}")
    return lines


@pytest.mark.parametrize(
    "variables",
    [
        {"NUMBA_DISABLE_JIT": "1"},
        # Another variant of the C library's functions, whose last bits differ.
        {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
    ],
    ids=["no compiler", "another C library"],
)
def test_the_same_bits(variables: dict[str, str]) -> None:
    root = _HERE.parents[2]
    folders = (root, root / "pipeline", root / "topics")
    elsewhere = subprocess.run(
        [sys.executable, str(_HERE)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **variables},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert elsewhere.returncode == 0, elsewhere.stderr
    here = told()
    assert elsewhere.stdout.splitlines() == here
    assert {line[0] for line in here} == {"0", "1", "2"}


if __name__ == "__main__":
    print("\n".join(told()))
