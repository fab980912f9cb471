"""Incidents on a year of real flights: few, only for the worse, and an injected rise is found soon."""

from __future__ import annotations

import numba
import pytest

from tests.evidence import flights

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes an hour without the compiler"),
]


def test_few_incidents_and_none_for_the_better() -> None:
    year = flights.year()
    found = flights.incidents(year)
    months = 2 * (year.scheduled[-1] - year.scheduled[0]) / (30 * flights.DAY)
    assert 0 < len(found) <= months
    assert all(one.after["level"] > one.before["level"] for one in found)


def test_a_rise_of_30_points_is_found_within_a_week() -> None:
    changed, start = flights.with_rise(flights.year(), 1, 30)
    found = flights.found_after(flights.incidents(changed, detectors=[]), start, 7)
    assert found is not None
    assert found.worst["level"] > found.before["level"] + 0.2  # `after` leaves out what usually passes
