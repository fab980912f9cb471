"""Courses: which points are kept, and that memory is bounded."""

from __future__ import annotations

import pytest
from boards import metrics
from hypothesis import given
from hypothesis import strategies as st
from prequential.views.state.history import History
from prequential.views.state.series import Capacity, Series

POINTS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 50)), max_size=300)


def series_of(points: list[tuple[int, int]], capacity: int) -> Series:
    """Points so far from each other, each with its own outcomes as a value."""
    series = Series(capacity)
    time = outcomes = 0
    for ms, more in points:
        time, outcomes = time + ms, outcomes + more
        series.add(time, outcomes, {"outcomes": outcomes})
    return series


@given(POINTS, st.sampled_from([4, 16, 64]))
def test_what_is_kept_was_said_is_in_order_and_begins_at_the_beginning(
    points: list[tuple[int, int]], capacity: int
) -> None:
    series = series_of(points, capacity)
    assert series.size <= capacity
    assert series.values("outcomes") == series.outcomes()
    assert series.times() == sorted(series.times())
    assert series.outcomes() == sorted(set(series.outcomes()))
    if points:
        assert series.outcomes()[0] == points[0][1]


@pytest.mark.parametrize("points", [1_000, 12_345, 100_000])
def test_what_is_kept_reaches_over_everything_evenly(points: int) -> None:
    series = series_of([(1000, 10)] * points, 64)
    assert series.size >= 64 // 4
    gaps = [b - a for a, b in zip(series.times(), series.times()[1:])]
    assert series.times()[-1] > 1000 * points * 0.9
    assert max(gaps) <= 4 * 1000 * points / series.size


def test_a_sequence_that_becomes_slow_keeps_its_resolution_in_time() -> None:
    """A million outcomes in 17 minutes, then one a minute: each of these is a point."""
    series = series_of([(1, 1)] * 10_000 + [(100, 100)] * 10_000, 64)
    before = series.size
    slow = [(60_000, 1)] * 10
    for ms, more in slow:
        assert series.add(series.times()[-1] + ms, series.outcomes()[-1] + more, {})
    assert series.size >= min(64, before) // 2 + len(slow) // 2


def test_what_is_said_again_takes_the_points_place_and_time_never_goes_back() -> None:
    series = Series(8)
    assert series.add(1000, 10, {"accuracy": 0.5})
    assert series.add(1000, 10, {"accuracy": 0.75})
    assert series.add(900, 20, {"accuracy": 0.25, "kappa": 0.125})
    assert series.times() == [1000, 1000]
    assert series.values("accuracy") == [0.75, 0.25]
    assert series.values("kappa") == [None, 0.125]
    assert series.values("none") == [None, None]


def test_generations_tell_whether_those_who_have_some_have_all_before() -> None:
    series = series_of([(1000, 1)] * 8, 8)
    generation, size = series.generation, series.size
    series.add(9000, 9, {})
    assert series.generation != generation
    assert series.size < size + 1
    generation, size = series.generation, series.size
    series.add(20_000, 20, {})
    assert (series.generation, series.size) == (generation, size + 1)
    series.drop_before(20_000)
    assert series.times() == [20_000]
    assert series.generation != generation


@pytest.mark.slow
def test_all_courses_together_stay_within_the_budget() -> None:
    """1,000 streams with 5 models in 2 stages: what they may take is a hundredth of the real budget."""
    budget = (64 << 20) // 100
    history = History(capacity=Capacity(budget))
    for outcomes in range(1000, 41_000, 1000):
        for number in range(100):
            for stage in ("initial", "final"):
                history.update(*metrics(outcomes, stream=f"s{number // 5}", model=f"m{number % 5}",
                    stage=stage))
    for number in range(100, 5000):
        for stage in ("initial", "final"):
            history.update(*metrics(1000, stream=f"s{number // 5}", model=f"m{number % 5}", stage=stage))
    kept = [one for past in history.past.values() for one in past.series.values()]
    assert len(kept) == 10_000
    # The least capacity is above what so small a budget has room for; that bound holds instead.
    assert 8 <= max(one.size for one in kept) <= 16
    assert sum(one._axes.nbytes + one._values.nbytes for one in kept) <= max(4 * budget, 10_000 * 16 * 9 * 4)
    assert min(one.size for one in kept) == 1
