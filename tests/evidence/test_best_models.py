"""The set of best models in simulated and real streams: a part of what `best_models.py` prints."""

from __future__ import annotations

import numba
import pytest

from tests.evidence.best_models import WORLDS, Models, of_stream, outcome
from tests.evidence.e_values import day_sums, mean_of_equal_days, null_mean
from tests.evidence.real_streams import DATA
from tests.evidence.verdicts import LEVEL
from tests.nightly import scaled

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler")


@needs_compiler
@pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])
def test_the_set_seldom_loses_a_best_model(world: Models) -> None:
    found = outcome(world, scaled(100, 1_000), 15_000)
    assert found.lost <= LEVEL
    assert found.settled >= 0.9


@needs_compiler
def test_the_sets_of_real_streams() -> None:
    """One model of `weather` leaves for good. In `usflights` models change, and each returns in the end."""
    everyone = ["static", "monthly", "naive"]
    changes = of_stream(DATA / "weather.csv.gz")
    assert (changes[0], changes[-1].models) == ((1, everyone), ["monthly", "naive"])
    changes = of_stream(DATA / "usflights.csv.gz")
    assert [change.models for change in changes[:3]] == [everyone, ["static", "naive"], ["static"]]
    assert changes[-1].models == everyone


def test_e_values_of_verdicts_have_a_mean_above_1_without_a_difference() -> None:
    """So they can't share a budget of errors: for few equal days exactly, and for days of real models."""
    assert mean_of_equal_days(2) == pytest.approx((3 + 1) / (2 * 3**0.5))
    assert mean_of_equal_days(8) > 10
    by_week = [null_mean(pair, 7, 500).mean for pair in day_sums(DATA / "usflights.csv.gz")]
    assert min(by_week) > 2
