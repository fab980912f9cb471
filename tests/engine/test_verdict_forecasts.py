"""What a decision takes: the estimate against its definition, and against what came."""

from __future__ import annotations

import numpy as np
import pytest
from prequential.engine.comparisons import UNDECIDED
from prequential.engine.comparisons.forecast import forecast
from prequential.engine.comparisons.updating import PairVerdicts
from prequential.engine.compiled.kernel import Floats
from test_confidence_sequence import begun, run


def days_of(d: Floats, size: int) -> list[int]:
    return (1 + np.arange(len(d)) // size).tolist()


def more_of(tables: PairVerdicts) -> tuple[float, float]:
    return tuple(forecast(tables.pair.sequences, tables.pair.sums, 0))


def decided_at(d: Floats, size: int) -> int:
    """After how many of these there is a verdict; 0: there is none."""
    tables = begun("squared", 0.025)
    run(tables, 0, d, clusters=days_of(d, size))
    return int(tables.pair.sequences.since[0]) if tables.pair.sequences.verdict[0] != UNDECIDED else 0


def test_half_way_most_estimates_are_within_a_factor_of_two() -> None:
    """Days of 20 outcomes, of which the sums differ by 0.35 of their deviation."""
    right = given = 0
    for seed in range(60):
        d = np.random.default_rng(seed).normal(0.35 / np.sqrt(20), 1.0, 20 * 400)
        at = decided_at(d, 20)
        if at < 20 * 20:
            continue
        tables, half = begun("squared", 0.025), at // 40 * 20
        run(tables, 0, d[:half], clusters=days_of(d[:half], 20))
        outcomes, days = more_of(tables)
        if outcomes:
            given += 1
            assert days == pytest.approx(outcomes / 20, rel=0.01)
            right += 0.5 <= (half + outcomes) / at <= 2.0
    assert given > 15
    assert right >= 0.8 * given


@pytest.mark.parametrize("clustered", [True, False])
def test_if_all_stays_as_it_is_the_estimate_is_right(clustered: bool) -> None:
    """Of 100 outcomes 12 are wrong in the one model and 8 in the other; 3 more in either by turns of days."""
    rng, even = np.random.default_rng(1), np.repeat([1.0, -1.0, 0.0], [12, 8, 80])
    swings = [(-1.0) ** (day // 2) * clustered for day in range(400)]
    d = np.concatenate([rng.permutation([*even, *[swing] * 3]) for swing in swings])
    tables, at = begun("error", 0.025), 0
    days = days_of(d, 103) if clustered else [0] * len(d)
    start = 103 * 10
    run(tables, 0, d[:start], clusters=days[:start])
    outcomes, _ = more_of(tables)
    assert outcomes > 0
    while tables.pair.sequences.verdict[0] == UNDECIDED:
        place = slice(start + at, start + at + 103)
        run(tables, 0, d[place], clusters=days[place])
        at += 103
    assert 0.5 < outcomes / at < 2.0
    assert more_of(tables) == (0.0, 0.0), "it is decided"


def test_models_that_could_be_equal_have_no_estimate_unless_a_margin_ends_it() -> None:
    d = np.random.default_rng(3).permutation(np.repeat([1.0, -1.0, 0.0], [50, 50, 900]))
    for clusters in ([0] * 1_000, days_of(d, 50)):
        tables = begun()
        run(tables, 0, d, clusters=clusters)
        assert more_of(tables) == (0.0, 0.0)
        tables = begun(margin=0.02)
        run(tables, 0, d, clusters=clusters)
        assert 1_000 < more_of(tables)[0] < 30_000
