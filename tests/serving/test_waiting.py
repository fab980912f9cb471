"""Waiting instances against a list that is swept from end to end at every call."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.serving.waiting import WaitingInstances

ids = st.integers(0, 6)
times = st.integers(0, 40)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ids, times),
        st.tuples(st.just("label"), ids),
        st.tuples(st.just("due"), times, st.integers(0, 3) | st.none()),
    ),
    min_size=20,
    max_size=60,
)


class Swept:
    """The same, simply: `[id, x, ts, labels at its latest prediction, time up to which ages are done]`."""

    def __init__(self, every_labels: int | None, ages: Sequence[int], limit: int) -> None:
        self.every_labels, self.ages, self.limit = every_labels, ages, limit
        self.waiting: list[list[Any]] = []
        self.labels = self.dropped = 0

    def add(self, instance_id: int, x: str, ts: int) -> None:
        self.waiting = [one for one in self.waiting if one[0] != instance_id]
        self.waiting.append([instance_id, x, ts, self.labels, ts])
        if len(self.waiting) > self.limit:
            del self.waiting[0]
            self.dropped += 1

    def label(self, instance_id: int) -> str | None:
        found = [one for one in self.waiting if one[0] == instance_id]
        self.waiting = [one for one in self.waiting if one[0] != instance_id]
        self.labels += len(found)
        return found[0][1] if found else None

    def by_age(self, now: int) -> list[tuple[int, int]]:
        """(time, id) of what has got to an age."""
        due = []
        for instance_id, _, ts, _, done in self.waiting:
            at = [ts + age for age in self.ages if done < ts + age <= now]
            due += [(min(at), instance_id)] if at else []
        return sorted(due)

    def by_labels(self) -> set[int]:
        every = self.every_labels
        return {one[0] for one in self.waiting if every and self.labels - one[3] >= every}

    def predicted(self, instance_id: int, now: int) -> None:
        for one in self.waiting:
            if one[0] == instance_id:
                one[3:] = [self.labels, max(now, one[4])]


class TestAgainstSweeping:
    @given(calls, st.none() | st.integers(1, 4), st.lists(st.integers(1, 20), max_size=3), st.integers(1, 5))
    def test_the_same_are_due(
        self, calls: list[Any], every_labels: int | None, ages: list[int], limit: int
    ) -> None:
        waiting = WaitingInstances[str](every_labels=every_labels, ages=ages, limit=limit)
        swept = Swept(every_labels, ages, limit)
        now = 0
        for number, (what, *arguments) in enumerate(calls):
            if what == "add":
                waiting.add(arguments[0], f"x{number}", arguments[1])
                swept.add(arguments[0], f"x{number}", arguments[1])
            elif what == "label":
                assert waiting.label(*arguments) == swept.label(*arguments)
            else:
                now = max(now, arguments[0])
                self.compare(waiting, swept, now, most=arguments[1])
            assert (len(waiting), waiting.dropped) == (len(swept.waiting), swept.dropped)
        self.compare(waiting, swept, now, most=None)

    def compare(self, waiting: WaitingInstances[str], swept: Swept, now: int, most: int | None) -> None:
        for instance_id, x in islice(waiting.due(now), most):
            due = swept.by_age(now)
            if due:
                assert instance_id in {name for time, name in due if time == due[0][0]}
            else:
                assert instance_id in swept.by_labels()
            assert [x] == [one[1] for one in swept.waiting if one[0] == instance_id]
            swept.predicted(instance_id, now)
        if most is None:
            assert not swept.by_age(now)
            assert not swept.by_labels()


class TestBounds:
    def test_are_noticed_at_most_a_hundredth_late(self) -> None:
        waiting = WaitingInstances[int](ages=(60_000,))
        for ts in range(0, 10_000, 77):
            waiting.add(ts, ts, ts)
        for now in range(60_000, 80_000, 10):
            for _, ts in waiting.due(now):
                assert 60_000 <= now - ts < 60_610
        assert list(waiting.due(10**9)) == []

    def test_labelled_instances_leave_nothing(self) -> None:
        waiting = WaitingInstances[str](every_labels=100, ages=(600_000, 3_600_000))
        for number in range(20_000):
            waiting.add(number, "x", ts=number)
            waiting.label(number)
        assert len(pickle.dumps(waiting)) < 2_000

    def test_nothing_is_swept(self) -> None:
        """With a look at each of 20,000 waiting instances in each of 40,000 calls this takes minutes."""
        waiting = WaitingInstances[str](every_labels=50_000, ages=(10**9,))
        for number in range(20_000):
            waiting.add(number, "x", ts=number)
        for number in range(20_000):
            assert not list(waiting.due(20_000 + number))
            waiting.add(number, "x", ts=20_000 + number)

    def test_labels_may_come_while_it_is_read(self) -> None:
        waiting = WaitingInstances[str](ages=(10,))
        for instance_id in "abcd":
            waiting.add(instance_id, "x", ts=0)
        seen = []
        for name, _ in waiting.due(10):
            seen.append(name)
            waiting.label("b")
        assert seen == ["a", "c", "d"]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ({"every_labels": 0}, "every_labels is 0: expected at least 1"),
            ({"limit": 0}, "limit is 0: expected at least 1"),
            ({"ages": (5, 0)}, r"ages are \(5, 0\): expected milliseconds above 0"),
        ],
    )
    def test_refuses(self, arguments: dict[str, Any], sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            WaitingInstances[str](**arguments)


def test_what_is_older_than_the_horizon_leaves() -> None:
    """At 1,100 the horizon of 1,000 isn't over for what came at 100; at 1,101 it is."""
    waiting: WaitingInstances[str] = WaitingInstances(every_labels=1, horizon=1_000)
    for i, ts in enumerate((100, 200, 50)):  # the last one waits behind the others
        waiting.add(i, "x", ts)
    waiting.add("labelled", "x", 60)
    waiting.label("labelled")
    assert [i for i, _ in waiting.due(1_100)] == [0, 1, 2]
    assert (len(waiting), waiting.expired) == (3, 0)
    waiting.add("other", "x", 1_101)
    waiting.label("other")
    assert [i for i, _ in waiting.due(1_101)] == [1, 2]
    assert (len(waiting), waiting.expired) == (2, 1)
    assert waiting.label(0) is None
    assert list(waiting.due(1_201)) == []
    assert (len(waiting), waiting.expired, waiting.dropped) == (0, 3, 0)


def test_a_horizon_is_above_0() -> None:
    with pytest.raises(ValueError, match="horizon is 0: expected at least 1"):
        WaitingInstances(horizon=0)
