"""Verdicts in simulated streams: a small part of what `verdicts.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence.verdicts import (
    EQUAL,
    LEVEL,
    UNEQUAL_DAYS,
    UNKEPT,
    World,
    by_day,
    delays,
    detection,
    power,
    rates,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler"),
]


@pytest.mark.parametrize("world", EQUAL, ids=[world.name for world in EQUAL])
def test_without_a_difference_few_streams_ever_get_a_verdict(world: World) -> None:
    of_20 = rates(world, streams=20, outcomes=6_000)
    assert of_20.ever <= 3 * LEVEL
    # "Recently" says more than it knows of errors that go together for fifty outcomes.
    assert of_20.recent <= (6 if "0.98" in world.name else 3) * LEVEL
    assert of_20.covered >= 0.9


def test_without_times_what_lasts_for_a_sixth_of_the_run_looks_like_a_difference() -> None:
    """As the page on validation says: half-days of 10 points are found."""
    of_20 = rates(UNKEPT[-1], streams=20, outcomes=6_000)
    assert of_20.ever > 0.5
    assert of_20.effective < 600


@pytest.mark.parametrize("world", list(by_day(UNKEPT, 1_000)), ids=lambda world: world.name)
def test_by_day_cycles_and_batches_are_no_difference(world: World) -> None:
    of_20 = rates(world, streams=20, outcomes=30_000)
    assert max(of_20.ever, of_20.recent) <= 3 * LEVEL
    assert of_20.covered >= 0.9
    assert of_20.early == 0, "no whole days yet"


@pytest.mark.parametrize("days", [20, 100])
def test_days_with_heavy_tailed_effects_are_no_difference(days: int) -> None:
    of_40 = rates(UNEQUAL_DAYS, streams=40, outcomes=100 * days)
    assert max(of_40.ever, of_40.recent) <= 3 * LEVEL
    assert of_40.covered >= 0.9


def test_five_points_are_found_in_ten_days_of_600() -> None:
    (world,) = by_day((EQUAL[0],), 600)
    at = power(world, 0.05, 20, 6_000)
    assert np.isfinite(at).mean() >= 0.8


def test_the_better_model_is_found() -> None:
    here, mixture = np.median(detection(0.05, LEVEL, 60, 8_000), axis=0)
    assert 400 < mixture < here < 1_300


def test_a_change_of_sign_is_said() -> None:
    later, place = delays(0.05, -0.05, 10)
    assert np.median(later) < 3_000
    assert 9_000 < np.median(place) < 11_000
