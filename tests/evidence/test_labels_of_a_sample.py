"""Expected values of sampled labels: a small part of what `sampled_labels.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence.sampled_labels import WORLDS, run

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler")


@pytest.mark.parametrize("world", WORLDS)
def test_expected_values_are_far_better_than_weighted_labels(world: str) -> None:
    said = [one for one in run(world, 1, days=70, each=500) if one.half == one.half and one.maturity >= 0]
    assert len(said) > 100
    error = np.mean([abs(one.value - one.truth) for one in said])
    weighted = np.nanmean([abs(one.weighted - one.truth) for one in said])
    assert error <= weighted / 2
    assert (0.5 if world == "concept" else 0.75) <= np.mean([one.covered for one in said]) <= 1
