"""Verdicts in simulated streams: a small part of what `verdicts.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from prequential.core.comparisons.confidence_sequence import needed_for, radius

from tests.evidence.verdicts import DRIFT, EQUAL, LEVEL, World, detection, mixture, rates, stitched

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler")


@pytest.mark.parametrize("world", EQUAL, ids=[world.name for world in EQUAL])
def test_without_a_difference_few_streams_ever_get_a_verdict(world: World) -> None:
    of_400 = rates(world, streams=400, outcomes=4_000)
    assert of_400.verdict <= LEVEL
    assert of_400.missed <= LEVEL
    assert of_400.theorem_missed <= LEVEL
    assert of_400.always > 0.3
    assert of_400.daily > 0.2  # 29 % for independent outcomes


def test_when_each_is_better_for_a_time_the_interval_goes_with_the_mean() -> None:
    of_400 = rates(DRIFT, streams=400, outcomes=10_000)
    assert of_400.missed <= LEVEL
    assert of_400.verdict > 0.9  # and rightly so, in the first half


def test_where_errors_come_in_runs_the_theorem_alone_is_not_about_the_long_run() -> None:
    (world,) = [world for world in EQUAL if world.name == "errors in runs, correlation 0.5"]
    of_400 = rates(world, streams=400, outcomes=4_000)
    assert of_400.theorem > 0.25
    assert of_400.once > 0.15


def test_the_better_model_is_found() -> None:
    lengths = {0.01: 40_000, 0.02: 9_000}
    found = {lead: detection(lead, 0.05, LEVEL, 100, outcomes) for lead, outcomes in lengths.items()}
    here, theorem, closed = np.median(found[0.02], axis=0)
    assert 1_000 < theorem < here < 2_000 < closed
    here, theorem, closed = np.median(found[0.01], axis=0)
    assert 3_500 < theorem < here < 6_500 < closed
    assert np.quantile(found[0.02][:, 0], 0.9) < 4_000


def test_no_other_boundary_is_narrower() -> None:
    for level in (0.05, 0.005):
        for v in (10.0, 50.0, 500.0, 5_000.0):
            here = radius(v, needed_for(level))
            assert here < mixture(v, level / 2) < stitched(v, level / 2)
