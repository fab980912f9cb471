"""Thresholds by losses: the same bits compiled and plain; higher for what varies more and is rarer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from compiled import from_python
from oracle_detectors import variance_by_clusters
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors import budgets
from prequential.engine.detectors.budgets import BINARY, SUMS, threshold_for

#: Error rates, and autocorrelations.
WORLDS = list(itertools.product((0.01, 0.1, 0.3, 0.6), (-0.2, 0.0, 0.5, 0.9)))


def sums(error: float, keep: float, n: float) -> Floats:
    """Sums over n pairs of neighbours, as they are expected of a Markov chain."""
    both = n * error * (error + keep * (1 - error))
    found = np.array([n, n * error, n * error, n * error, max(both, 0.0)])
    assert len(found) == SUMS
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BINARY, budgets.BOUNDED, budgets.RATIO])
def test_compiled_and_plain_thresholds_have_the_same_bits(kind: int) -> None:
    known = 0
    for (error, keep), standardised, down in itertools.product(WORLDS, (False, True), (False, True)):
        for apart in (1e4, 1e9):
            given = sums(error, keep, 200_000.0), 0.5, kind, 0.02, standardised, True, down, apart
            compiled = from_python(threshold_for)(*given)
            assert compiled == threshold_for(*given)
            known += compiled > 0.0
    assert known > 50


def test_thresholds_are_higher_where_errors_come_in_runs_and_alarms_are_to_be_rarer() -> None:
    for kind, error in itertools.product((BINARY, budgets.RATIO), (0.1, 0.3)):
        found = [
            [
                threshold_for(sums(error, keep, 1e7), 0.0, kind, 0.01, False, True, False, apart)
                for apart in (1e5, 1e7, 1e9)
            ]
            for keep in (0.0, 0.5, 0.8)
        ]
        assert (np.diff(found, axis=0) > 0).all()
        assert (np.diff(found, axis=1) > 0).all()


def test_few_outcomes_say_nothing_and_not_many_make_thresholds_higher() -> None:
    by_outcomes = [
        threshold_for(sums(0.1, 0.3, n), 0.0, BINARY, 0.01, False, True, False, 1e7)
        for n in (200.0, 3e3, 1e4, 1e6)
    ]
    assert by_outcomes[0] == 0.0
    assert by_outcomes[1] > by_outcomes[2] > by_outcomes[3] > 0.0
    # All right, all wrong, or no two neighbours that differ.
    for error in (0.0, 1.0):
        assert threshold_for(sums(error, 0.0, 1e6), 0.0, BINARY, 0.01, False, True, False, 1e7) == 0.0
    assert threshold_for(sums(0.1, 1.0, 1e6), 0.0, BINARY, 0.01, False, True, False, 1e7) == 0.0


def test_a_loss_of_numbers_has_the_threshold_of_a_normal_walk() -> None:
    """λ = σ²/(2δ)·w - b, e^w - 1 - w = A·2δ²/σ², and σ² = s²·(1 + r)/(1 - r)."""
    n, mean, variance, r = 1e9, 0.5, 0.04, 0.6
    given = np.array([n, n * mean, n * mean, n * (variance + mean**2), n * (r * variance + mean**2)])
    found = threshold_for(given, 0.0, budgets.BOUNDED, 0.01, False, True, False, 1e8)
    kappa = 2 * 0.01 / (variance * 4)
    w = kappa * (found + 1.166 * np.sqrt(variance * 4))
    assert (np.exp(w) - 1 - w) / (kappa * 0.01) == pytest.approx(1e8, rel=1e-3)


def extended(x: float, xs: Floats, ys: Floats) -> float:
    """The line through points: as the first one before them, straight on after them."""
    beyond = max(0.0, x - xs[-1]) / (xs[-1] - xs[-2])
    return float(np.interp(x, xs, ys) + beyond * (ys[-1] - ys[-2]))


def by_table(spread: float, wanted: float) -> float:
    """λ of the default ratio for e^wanted outcomes between alarms, from the table's rows and columns."""
    table = budgets.RATIOS
    logs = np.arange(table.shape[1]) * 2.0 + 8.0
    rows = np.array([extended(wanted, logs, row) for row in table])
    return max(1.0, spread * extended(spread, budgets.SPREADS, rows))


@pytest.mark.parametrize("unsure", [0.0, 0.004])
def test_thresholds_of_the_ratio_are_between_those_of_the_table(unsure: float) -> None:
    """Below, on, between and beyond its rows and columns; uncertainty makes them s - unsure·s²/2 = wanted."""
    for spread in (0.5, 1.0, 1.2, 1.5, 5.0, 6.5, 29.0, 30.0, 45.0):
        for wanted in (0.1, 7.0, 8.0, 8.5, 10.0, 17.0, 29.0, 30.0, 31.0, 36.0):
            r, mean = 0.5, 0.2
            variance = (spread * mean) ** 2 / 3.0  # times (1 + r)/(1 - r)
            losses = budgets.Losses(mean, variance / 2.0, r, 9.0, unsure, 0.0, 0.0)
            surely = (1 - np.sqrt(1 - 2 * unsure * wanted)) / unsure if unsure else wanted
            found = budgets.ratio_threshold(losses, 2.0, np.exp(wanted))
            assert found == pytest.approx(by_table(spread, surely), rel=1e-9), (spread, wanted)


def test_thresholds_of_the_ratio_need_a_long_past_and_alarms_that_are_rare() -> None:
    def known(unsure: float, apart: float) -> bool:
        losses = budgets.Losses(0.2, 0.16, 0.0, 9.0, unsure, 0.0, 0.0)
        return budgets.ratio_threshold(losses, 1.0, apart) > 0.0

    assert known(0.0249, np.exp(10.0))
    assert not known(0.0251, np.exp(10.0))
    assert known(0.0, 1.001)
    assert not known(0.0, 1.0)


def test_the_highest_threshold_of_the_ratio_is_of_the_last_row() -> None:
    logs = np.arange(budgets.RATIOS.shape[1]) * 2.0 + 8.0
    for wanted in (-1.0, 0.0, 8.0, 9.0, 10.0, 23.0, 30.0, 31.0, 40.0):
        expected = 30.0 * extended(wanted, logs, budgets.RATIOS[-1])
        assert budgets.highest_ratio_threshold(np.exp(wanted)) == pytest.approx(expected, rel=1e-9)


def test_the_rate_of_a_threshold_of_the_ratio_is_the_inverse() -> None:
    for spread in (1.0, 1.2, 5.0, 30.0):
        for wanted in (18.0, 19.0, 29.5, 30.0, 33.0):  # λ is above its least value, 1
            threshold = by_table(spread, wanted)
            assert budgets.ratio_log(spread, threshold) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.4), (0.3, 0.3), (0.5, 0.95)])
def test_statistics_of_a_chain_are_of_its_shares(a: float, b: float) -> None:
    """Its rate and its dependence, and by finite differences how unsure ln σ² and ln c are."""
    right, wrong = 3000.0, 2000.0
    n = right + wrong
    pairs = np.array([n, wrong, wrong * (1 - b) + right * a, wrong * (1 - b) + right * a, wrong * (1 - b)])
    known, found = budgets.losses_of(pairs, True)
    assert known
    e = a / (a + b)
    assert found[:3] == pytest.approx((e, e * (1 - e), 1 - a - b), rel=1e-9)
    assert found[5:] == pytest.approx((a, b), rel=1e-9)

    def variance(of: Callable[[float, float], float]) -> float:
        step = 1e-6
        by_a = (of(a + step, b) - of(a - step, b)) / (2 * step)
        by_b = (of(a, b + step) - of(a, b - step)) / (2 * step)
        return by_a**2 * a * (1 - a) / right + by_b**2 * b * (1 - b) / wrong

    def long_run(a: float, b: float) -> float:
        return a * b / (a + b) ** 2 * (2 - a - b) / (a + b)

    assert found.unsure == pytest.approx(variance(lambda a, b: np.log(long_run(a, b))), rel=1e-6)
    ln_c = variance(lambda a, b: np.log(long_run(a, b) * (a + b) ** 2 / a**2) / 2)
    assert found.unsure_spread == pytest.approx(ln_c, rel=1e-6)


@pytest.mark.parametrize(
    ("before", "after", "both"),
    [(0, 0, 0), (0, 1, 0), (1, 0, 0), (9, 9, 9), (9, 8, 8), (3, 4, 3), (4, 3, 3), (4, 4, 4), (4, 5, 0)],
)
def test_a_chain_is_known_once_it_has_gone_both_ways(before: int, after: int, both: int) -> None:
    """Of nine pairs: always right or wrong, one change for good, and both changes without exception."""
    assert not budgets.losses_of(np.array([9.0, before, after, after, both]), True)[0]
    assert budgets.losses_of(np.array([9.0, 4.0, 4.0, 4.0, 2.0]), True)[0]


def test_statistics_of_numbers_are_of_their_moments() -> None:
    n, mean, variance, r = 400.0, 0.5, 0.04, 0.6
    pairs = np.array([n, n * 0.4, n * mean, n * (variance + mean**2), n * (r * variance + 0.4 * mean)])
    known, found = budgets.losses_of(pairs, False)
    assert known
    unsure = (2 * (1 + r**2) + 4) / ((1 - r**2) * n)
    assert found == pytest.approx((mean, variance, r, unsure, 0.0, 0.0, 0.0), rel=1e-9)
    for few in ([1.0, 0.5, 0.5, 0.5, 0.1], [n, 0.0, 0.0, 0.0, 0.0], [n, n, n, n, n]):
        assert not budgets.losses_of(np.array(few), False)[0]


MINUTE, HOUR, DAY = budgets.LENGTHS


def followed(losses: Floats, step: float, cluster: int = 0) -> Floats:
    """The sums of one sequence with a loss every `step` ms."""
    table, last, begun = np.zeros((1, budgets.WIDTH)), np.zeros(1), np.zeros(1, np.uint8)
    for place, loss in enumerate(losses):
        budgets.follow(table, last, begun, 0, loss, False, int(place * step), cluster)
    return table[0]


def by_definition(losses: Floats, step: float, length: int) -> float:
    """The long-run variance by clusters of a length."""
    keys = (np.arange(len(losses)) * step).astype(np.int64) // length
    return variance_by_clusters(losses.tolist(), keys.tolist())


def test_clusters_count_by_how_much_more_they_vary_than_pairs_say() -> None:
    pairs = np.array([1000.0, 200.0, 200.0, 200.0, 120.0])  # errors of 0.2 with an autocorrelation of 0.5
    losses = budgets.losses_of(pairs, True)[1]
    for variance, ratio in ((0.0, 1.0), (0.47, 1.0), (0.48 * 1.25, 1.25), (4.8, 10.0)):
        found = threshold_for(pairs, variance, BINARY, 0.005, False, True, False, 5e4)
        expected = budgets.excursion_threshold(losses, ratio, 0.005, True, False, 5e4)
        assert found == pytest.approx(expected, rel=1e-9)


def days(level_sd: float, count: int, outcomes: int, seed: int) -> Floats:
    """Errors whose level is one of an AR(1) process by day, with a correlation of 0.5."""
    some, level, found = np.random.default_rng(seed), 0.0, []
    for _ in range(count):
        level = 0.5 * level + some.normal(0.0, level_sd * np.sqrt(0.75))
        found.append(some.random(outcomes) < np.clip(0.3 + level, 0.0, 1.0))
    return np.concatenate(found).astype(float)


@pytest.mark.parametrize("cluster", [0, HOUR, DAY, 7 * HOUR])
def test_the_variance_by_clusters_is_that_of_plain_loops(cluster: int) -> None:
    losses, step = days(0.1, 40, 60, 0), DAY / 60
    lengths = (cluster,) if cluster else budgets.LENGTHS
    expected = max(by_definition(losses, step, length) for length in lengths)
    assert budgets.variance_of_clusters(followed(losses, step, cluster)) == pytest.approx(expected, rel=1e-9)
    assert expected > 0.0 or cluster == HOUR  # an hour has too few outcomes


def test_days_that_differ_make_thresholds_higher_and_one_change_hardly_does() -> None:
    def threshold(losses: Floats) -> float:
        sums = followed(losses, DAY / 80)
        given = sums[:SUMS], budgets.variance_of_clusters(sums), BINARY, 0.005, False, True, False, 5e4
        return threshold_for(*given)

    steady, varied = days(0.0, 200, 80, 1), days(0.12, 200, 80, 1)
    changed = np.concatenate([days(0.0, 190, 80, 1), days(0.0, 10, 80, 2) + 0.0])
    changed[190 * 80 :] = np.random.default_rng(3).random(800) < 0.6
    assert threshold(varied) > 2.5 * threshold(steady)
    assert threshold(changed) < 1.3 * threshold(steady)


def test_another_configured_length_begins_again() -> None:
    """Clusters of one length say nothing about those of another."""
    losses, step = days(0.1, 40, 60, 0), DAY / 60
    table, last, begun = np.zeros((1, budgets.WIDTH)), np.zeros(1), np.zeros(1, np.uint8)
    for cluster in (0, 7 * HOUR, DAY):
        for place, loss in enumerate(losses):
            budgets.follow(table, last, begun, 0, loss, False, int(place * step), cluster)
    expected = by_definition(losses, step, DAY)
    assert budgets.variance_of_clusters(table[0]) == pytest.approx(expected, rel=1e-9)
