"""Q and the signed McNemar statistic against their definitions, in plain Python and by others' hands."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from prequential.engine.comparisons import DEFINED, NO_DISCORDANT, REASONS, ZERO_LOSS, measuring
from scipy import stats


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.0, 3.0), (3.0, 0.0), (1e-250, 1.0), (1.0, 1e-250)])
def test_q_has_no_value_where_a_loss_is_zero(a: float, b: float) -> None:
    assert measuring.q(a, b) == (0.0, ZERO_LOSS)
    assert REASONS[ZERO_LOSS] == "zero_loss"


@pytest.mark.parametrize(
    ("a", "b"), [(3.0, 2.0), (1e300, 1e110), (1e150, 1e-49), (5e-320, 5e-320), (1e308, 1e308)]
)
def test_q_of_extremes_is_finite(a: float, b: float) -> None:
    value, reason = measuring.q(a, b)
    assert reason == DEFINED
    assert value == pytest.approx(math.log(a) - math.log(b), rel=1e-12) == -measuring.q(b, a)[0]


def test_mcnemar_is_positive_where_b_is_better() -> None:
    assert measuring.signed(80.0, 49.0) == (pytest.approx(31**2 / 129), DEFINED)
    assert measuring.signed(7.0, 0.0) == (7.0, DEFINED)
    assert measuring.signed(0.5, 0.25) == (pytest.approx(0.0625 / 0.75), DEFINED)


def test_mcnemar_has_no_value_without_discordant_outcomes() -> None:
    assert measuring.signed(0.0, 0.0) == (0.0, NO_DISCORDANT)
    assert measuring.p_value(0, 0) == (0.0, NO_DISCORDANT)
    assert REASONS[NO_DISCORDANT] == "no_discordant"


def test_p_values_of_few_are_the_binomial_ones() -> None:
    for n in range(1, measuring.ENOUGH):
        for n01 in range(n + 1):
            fewer = min(n01, n - n01)
            ways = sum(math.comb(n, k) for k in range(fewer + 1))
            exact = min(Fraction(1), Fraction(2 * ways, 2**n))
            value, reason = measuring.p_value(n01, n - n01)
            assert reason == DEFINED
            assert Fraction(value) == exact  # nothing rounded
            assert value == pytest.approx(stats.binomtest(n01, n).pvalue, rel=1e-12)


@pytest.mark.parametrize("level", [0.999999, 0.5, 0.1, 0.05, 0.0125, 0.01, 1e-3, 1e-6, 1e-12, 1e-100, 1e-300])
def test_thresholds_are_quantiles_of_chi_squared(level: float) -> None:
    assert measuring.threshold(level) == pytest.approx(stats.chi2.isf(level, 1), rel=1e-9)


def test_statistics_of_a_memory_without_outcomes_have_no_value() -> None:
    """Beside one with outcomes: sums of A's and of B's losses, or cells 2·(A is wrong) + (B is wrong)."""
    sums = (measuring.from_sums, np.array([[0.0, 0.0, 0.0], [3.0, 1.0, 4.0]]))
    counts = (
        lambda cells, values, reasons: measuring.from_counts(cells, True, values, reasons),
        np.eye(4)[:2] - np.eye(4)[0],
    )
    for read, memory in (sums, counts):
        values, reasons = np.zeros((2, len(measuring.NAMES))), np.zeros((2, len(measuring.NAMES)), np.int64)
        read(memory, values, reasons)
        assert REASONS[reasons[0, measuring.DIFFERENCE]] == "empty"
    values, reasons = np.zeros((2, len(measuring.NAMES))), np.zeros((2, len(measuring.NAMES)), np.int64)
    measuring.from_sums(sums[1], values, reasons)
    assert values[1, measuring.DIFFERENCE] == 0.5
    assert values[1, measuring.Q] == pytest.approx(math.log(3.0))
