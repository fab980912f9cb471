"""Budgets of false alarms on stationary streams: a small part of what `budgets.py` shows, from a seed."""

from __future__ import annotations

import numba
import pytest
from prequential.config import DetectorConfig

from tests.evidence.budgets import WORLDS, World, realised

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler")


@pytest.mark.parametrize(("world", "apart"), [*((world, 10_000) for world in WORLDS), (WORLDS[-1], 50_000)])
def test_a_budget_is_kept_within_a_factor_of_one_and_a_half(world: World, apart: float) -> None:
    detectors = (DetectorConfig(), DetectorConfig("cusum"))
    made = max(1_000_000, int(40 * apart))
    found = realised(world, detectors, apart, history=1_000_000, made=made, outcomes=int(200 * apart))
    for _, share in found:
        assert 1 / 1.5 < share < 1.5
