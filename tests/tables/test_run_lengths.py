"""Thresholds by losses: the same bits compiled and plain; higher for what varies more and is rarer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compiled import from_python
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors.budgets import BINARY, BOUNDED, RATIO, SUMS, threshold_for

#: Error rates, and autocorrelations.
WORLDS = list(itertools.product((0.01, 0.1, 0.3, 0.6), (-0.2, 0.0, 0.5, 0.9)))


def sums(error: float, keep: float, n: float) -> Floats:
    """Sums over n pairs of neighbours, as they are expected of a Markov chain."""
    both = n * error * (error + keep * (1 - error))
    found = np.array([n, n * error, n * error, n * error, max(both, 0.0)])
    assert len(found) == SUMS
    return found


@pytest.mark.parametrize("kind", [BINARY, BOUNDED, RATIO])
def test_compiled_and_plain_thresholds_have_the_same_bits(kind: int) -> None:
    known = 0
    for (error, keep), standardised, down in itertools.product(WORLDS, (False, True), (False, True)):
        for apart in (1e4, 1e9):
            given = sums(error, keep, 200_000.0), kind, 0.02, standardised, True, down, apart
            compiled = from_python(threshold_for)(*given)
            assert compiled == threshold_for(*given)
            known += compiled > 0.0
    assert known > 50


def test_thresholds_are_higher_where_errors_come_in_runs_and_alarms_are_to_be_rarer() -> None:
    for kind, error in itertools.product((BINARY, RATIO), (0.1, 0.3)):
        found = [
            [
                threshold_for(sums(error, keep, 1e7), kind, 0.01, False, True, False, apart)
                for apart in (1e5, 1e7, 1e9)
            ]
            for keep in (0.0, 0.5, 0.8)
        ]
        assert (np.diff(found, axis=0) > 0).all()
        assert (np.diff(found, axis=1) > 0).all()


def test_few_outcomes_say_nothing_and_not_many_make_thresholds_higher() -> None:
    by_outcomes = [
        threshold_for(sums(0.1, 0.3, n), BINARY, 0.01, False, True, False, 1e7)
        for n in (200.0, 3e3, 1e4, 1e6)
    ]
    assert by_outcomes[0] == 0.0
    assert by_outcomes[1] > by_outcomes[2] > by_outcomes[3] > 0.0
    # All right, all wrong, or no two neighbours that differ.
    for error in (0.0, 1.0):
        assert threshold_for(sums(error, 0.0, 1e6), BINARY, 0.01, False, True, False, 1e7) == 0.0
    assert threshold_for(sums(0.1, 1.0, 1e6), BINARY, 0.01, False, True, False, 1e7) == 0.0


def test_a_loss_of_numbers_has_the_threshold_of_a_normal_walk() -> None:
    """λ = σ²/(2δ)·w - b, e^w - 1 - w = A·2δ²/σ², and σ² = s²·(1 + r)/(1 - r)."""
    n, mean, variance, r = 1e9, 0.5, 0.04, 0.6
    given = np.array([n, n * mean, n * mean, n * (variance + mean**2), n * (r * variance + mean**2)])
    found = threshold_for(given, BOUNDED, 0.01, False, True, False, 1e8)
    kappa = 2 * 0.01 / (variance * 4)
    w = kappa * (found + 1.166 * np.sqrt(variance * 4))
    assert (np.exp(w) - 1 - w) / (kappa * 0.01) == pytest.approx(1e8, rel=1e-3)
