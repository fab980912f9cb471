"""The simulations of `tests.evidence.scale`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evidence import scale


def test_ranges_are_those_of_kafkas_assignor() -> None:
    """Its own documentation's case: the first members have one more."""
    found = scale.ranges(["c-1", "c-0", "c-2"], 10)
    assert [list(found.values()).count(name) for name in ("c-0", "c-1", "c-2")] == [4, 3, 3]
    assert list(found) == list(range(10))


def test_a_member_that_goes_moves_at_least_its_own() -> None:
    members = [f"m-{n:02}" for n in range(10)]
    now = scale.ranges(members, 40)
    last = scale.moved(now, scale.ranges(members[:-1], 40))
    first = scale.moved(now, scale.ranges(members[1:], 40))
    assert 4 <= last <= 40
    assert 4 <= first <= 40
    assert scale.moved(now, now) == 0


def test_snapshots_that_begin_at_once_spread_in_time() -> None:
    written = scale.snapshot_peaks(400, 20.0, seed=2)
    late = written[300:]
    assert written[:60].max() > 4 * late.mean()
    assert late.max() < 2 * late.mean()
    sizes = np.linspace(10.0, 30.0, 101)  # MB, and then a pause of 10 s or of 20 times what it took
    each = sizes / (sizes / 40 + np.maximum(10.0, sizes / 2) + 0.125)
    assert late.mean() == pytest.approx(400 * each.mean(), rel=0.03)


def test_a_share_of_the_time_bounds_what_large_snapshots_write() -> None:
    written = scale.snapshot_peaks(100, 400.0, seed=2)
    assert written[300:].mean() == pytest.approx(100 * 40.0 / 21, rel=0.1)


def test_rates_of_streams_add_up() -> None:
    rates, shards = scale.placed(1_000, 1.0, 1e6, 40, seed=3)
    assert rates.sum() == pytest.approx(1e6)
    assert rates[0] / rates[9] == pytest.approx(10.0)
    assert set(np.unique(shards)) <= set(range(40))


def test_every_table_has_rows() -> None:
    for part in (scale.totals, scale.coordinators, scale.rebalances, scale.hot_streams, scale.widths):
        rows = [row for row in part() if row.startswith("|")]
        assert len(rows) > 3
        assert len({row.count("|") for row in rows}) == 1
