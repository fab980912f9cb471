"""Signals of periods: a small part of what `period_signals.py` shows, from a seed."""

from __future__ import annotations

import numba
import pytest
from prequential.engine.delay.records import SIGNALS

from tests.evidence.period_signals import STATIONARY, run, unusual

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler")


@pytest.mark.parametrize("world", STATIONARY)
def test_where_nothing_changes_hardly_anything_is_unusual(world: str) -> None:
    said = run(world, 1, days=100, each=200)
    assert sum(one.signals["inputs"] is not None for one in said) > 200
    for signal in SIGNALS:
        assert len({one.day for one in unusual(said, signal)}) <= 1


@pytest.mark.parametrize(
    ("world", "signal"), [("covariate", "inputs"), ("slower", "delays"), ("concept", "concept")]
)
def test_a_change_is(world: str, signal: str) -> None:
    said = run(world, 1, days=120, each=500)
    assert any(one.day >= 55 for one in unusual(said, signal))
