"""Groups in simulated streams: a small part of what `disparity.py` shows."""

from __future__ import annotations

import numba
import pytest

from tests.evidence.disparity import LEVEL, WORLDS, World, false_verdicts, outcomes_needed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler"),
]


@pytest.mark.parametrize("world", WORLDS)
def test_equal_groups_are_hardly_ever_found_to_differ(world: World) -> None:
    assert false_verdicts(world, 40) <= LEVEL


def test_a_group_that_is_worse_is_found() -> None:
    found = outcomes_needed(0.1, 10)
    assert 5_000 < found[5] < 25_000
