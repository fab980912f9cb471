"""Verdicts in simulated streams: a small part of what `verdicts.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence.verdicts import EQUAL, LEVEL, UNKEPT, World, delays, detection, rates

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


def test_what_lasts_for_a_sixth_of_the_run_cant_be_told_from_a_difference() -> None:
    """As the page on validation says: half-days of 10 points are found."""
    of_20 = rates(UNKEPT[-1], streams=20, outcomes=6_000)
    assert of_20.ever > 0.5
    assert of_20.effective < 600


def test_the_better_model_is_found() -> None:
    here, mixture = np.median(detection(0.05, LEVEL, 60, 8_000), axis=0)
    assert 400 < mixture < here < 1_300


def test_a_change_of_sign_is_said() -> None:
    later, place = delays(0.05, -0.05, 10)
    assert np.median(later) < 3_000
    assert 9_000 < np.median(place) < 11_000
