"""Expected values in simulated worlds: a small part of what `before_labels.py` shows, from a seed."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence import what_waits
from tests.evidence.before_labels import WORLDS, run
from tests.nightly import few

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler")


@pytest.mark.parametrize("world", few(["right", *(one for one in WORLDS if one != "right")], keep=0))
def test_expected_values_are_far_better_than_labels_so_far(world: str) -> None:
    said = [one for one in run(world, 1, days=80, each=200) if one.half == one.half]
    for maturity in (0, 2, 3):
        own = [one for one in said if one.maturity == maturity]
        assert len(own) >= 15
        error = np.mean([abs(one.value - one.final) for one in own])
        naive = np.nanmean([abs(one.labelled_so_far - one.final) for one in own])
        assert error <= naive / (1 if world.startswith("iid") else 2)
    assert 0.7 <= np.mean([one.covered for one in said]) <= 1
    assert np.mean([one.half for one in said]) <= 0.1


@pytest.mark.parametrize("world", few(["right", "slower"], keep=0))
def test_shares_of_what_waits_are_within_their_intervals(world: str) -> None:
    said = [one for one in what_waits.run(world, 1, days=80, each=200) if one.said.half is not None]
    assert len(said) > 50
    assert np.mean([one.error <= one.half for one in said]) >= 0.7
    assert np.mean([one.half for one in said]) <= 0.1
