"""Budgets of false alarms on stationary streams: a small part of what `budgets.py` shows, from a seed."""

from __future__ import annotations

import numba
import pytest
from prequential.configuration.settings.streams import DetectorConfig

from tests.evidence.budgets import IN_THE_ENGINE, RATIO, WORLDS, World, in_the_engine, realised

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler"),
]


@pytest.mark.parametrize(
    ("world", "apart"), [*((world, 10_000) for world in WORLDS), (WORLDS[-1], 50_000)]
)
def test_a_budget_is_kept_within_a_factor_of_one_and_a_half(world: World, apart: float) -> None:
    detectors = (DetectorConfig(), DetectorConfig("cusum"))
    made = max(1_000_000, int(40 * apart))
    found = realised(world, detectors, apart, history=1_000_000, made=made, outcomes=int(200 * apart))
    for _, share in found:
        assert 1 / 1.5 < share < 1.5


def test_so_is_one_of_the_ratio_that_is_too_rare_to_be_counted() -> None:
    world, apart = WORLDS[-1], 300_000
    [(_, share)] = realised(world, (RATIO,), apart, 1_000_000, made=1_000_000, outcomes=100 * apart)
    assert 1 / 1.5 < share < 1.5


@pytest.mark.parametrize("world", WORLDS)
def test_so_is_one_by_thresholds_that_the_engine_sets(world: World) -> None:
    """From the first outcome on; of the ratio, where errors are few, budgets of rare alarms alone."""
    apart = 300_000 if world == World(0.3) else 50_000
    for _, share in in_the_engine(world, IN_THE_ENGINE, apart, 200 * apart):
        assert 1 / 1.5 < share < 1.5


@pytest.mark.parametrize("world", [World(0.002), World(0.001), World(0.002, 0.5)])
def test_rare_errors_flood_no_budget(world: World) -> None:
    """From the first outcome on, when next to no errors are known."""
    apart = 100_000
    [(threshold, share)] = in_the_engine(world, (RATIO,), apart, 100 * apart)
    assert share < 1.5
    assert threshold > 500
