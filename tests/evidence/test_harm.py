"""The test for harm in simulated streams: a small part of what `harm.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence.harm import (
    BALANCED,
    LEVEL,
    NO_HARM,
    RESTART,
    TOLERANCE,
    World,
    alarms,
    delays,
    independent,
    settings,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler"),
]


@pytest.mark.parametrize("restart", [RESTART, 0])
@pytest.mark.parametrize("world", NO_HARM, ids=[world.name for world in NO_HARM])
def test_without_harm_few_streams_ever_have_an_alarm(world: World, restart: int) -> None:
    found = alarms(world, settings(restart, world.scale), streams=20, outcomes=6_000)
    # Ranges say more than they know of errors that go together for fifty outcomes (see detectors.md).
    assert (found > 0).mean() <= (8 if "0.98" in world.name else 3) * LEVEL


@pytest.mark.parametrize("world", BALANCED, ids=[world.name for world in BALANCED])
def test_bad_phases_that_good_ones_balance_are_no_harm_for_the_mean_of_all(world: World) -> None:
    found = alarms(world, settings(0), streams=60, outcomes=10_000)
    assert (found > 0).mean() <= LEVEL


def test_a_reference_has_no_more_false_alarms() -> None:
    world = World("", independent, 0.1, 0.1 + TOLERANCE, 2_000)
    found = alarms(world, settings(RESTART, reference=2_000), streams=60, outcomes=10_000)
    assert (found > 0).mean() <= LEVEL


def test_harm_is_found() -> None:
    half = [np.median(delays(RESTART, 0, points, 60, most)) for points, most in ((2, 12_000), (5, 3_000))]
    assert 3_000 < half[0] < 5_500
    assert 600 < half[1] < 1_100
    late = delays(RESTART, 53_300, 5, 60, 9_000)
    assert np.median(late) < 6_000
    assert np.isinf(delays(0, 53_300, 5, 60, 9_000)).all()  # the mean of all forgets slowly
