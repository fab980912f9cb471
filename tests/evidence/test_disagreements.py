"""The bound of a disagreement in simulated streams, and on real flights."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from prequential.datasets import flights
from prequential.engine.comparisons.clusters import needed_clusters
from prequential.engine.comparisons.disagreement import Disagreements
from prequential.engine.tables.logs import new_encounters

from tests.evidence.disagreements import DAY, LEVEL, STEP, WORLDS, World, bounds_of, rates
from tests.nightly import scaled

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_bound_is_seldom_below_the_share_that_is_expected(world: World) -> None:
    found = rates(world, streams=scaled(40, 500))
    assert found.wrong <= 2 * LEVEL
    if "days" not in world.name:
        assert found.provisional <= 2 * LEVEL, "no other days are needed to know this"
    assert found.ratio < (12 if world.share < 0.001 else 1.8)


def test_on_real_flights_the_bound_holds_for_the_year_to_come() -> None:
    """As two models predict delays before each departure: from any week on, for all flights after it."""
    rows = flights(days=None).predictions
    first, second = (
        {row["instance_id"]: row["y_pred"] for row in rows if row["model"] == model}
        for model in ("daily", "monthly")
    )
    times = {row["instance_id"]: row["ts"] for row in rows}
    differs = np.array([first[name] != second[name] for name in first])
    encounters = new_encounters(len(first))
    encounters.pair[:], encounters.differs[:] = 1, differs
    encounters.ts[:] = [times[name] for name in first]
    tables, bounds = Disagreements(), np.zeros(len(first) // STEP)
    tables.allocate()
    bounds_of(tables.tables, encounters, DAY, needed_clusters(LEVEL), bounds)
    share = np.cumsum(differs)[STEP - 1 :: STEP][: len(bounds)] / (STEP * np.arange(1, len(bounds) + 1))
    assert (bounds >= share).all()
    enough = 10 * 42 // STEP  # ten days of about 42 flights
    # Seasons differ: in winter the models disagree less than in the year.
    assert (bounds[enough:] >= differs.mean()).mean() > 0.9
    assert bounds[-1] < 1.5 * differs.mean()
