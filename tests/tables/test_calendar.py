"""Deadlines run out when a plain dictionary of them says so, whatever the clock does."""

from __future__ import annotations

import numpy as np
from compiled import from_python
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.engine.tables import store
from prequential.engine.tables.store import BEGINNING, BUCKETS, LEVELS, NEVER, Links, Wheels

from tests.nightly import scaled

schedule, unschedule = from_python(store.schedule), from_python(store.unschedule)
advance, earliest = from_python(store.advance), from_python(store.earliest)

YEAR = 31_556_952_000
LIMIT = 8_640_000_000_000_000
STREAMS, INSTANCES = 2, 12

# Differences of times: of every size, and around powers of 64, where buckets begin.
SPANS = st.one_of(
    st.integers(0, 3),
    st.integers(0, 300),
    st.builds(
        lambda level, factor, off: max(0, factor * 64**level + off),
        st.integers(1, 8),
        st.integers(1, 64),
        st.integers(-2, 2),
    ),
    st.integers(0, 1000 * YEAR),
)
TIMES = st.one_of(
    st.integers(-LIMIT, LIMIT),
    st.sampled_from([-LIMIT, LIMIT, 0, -1, 1, -64, 63]),
    SPANS.map(lambda x: max(-LIMIT, -x)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, STREAMS - 1), st.integers(1, INSTANCES), SPANS),
        st.tuples(st.just("schedule before"), st.integers(0, STREAMS - 1), st.integers(1, INSTANCES), SPANS),
        st.tuples(st.just("schedule at"), st.integers(0, STREAMS - 1), st.integers(1, INSTANCES), TIMES),
        st.tuples(st.just("unschedule"), st.just(0), st.integers(1, INSTANCES), st.just(0)),
        st.tuples(st.just("clock"), st.integers(0, STREAMS - 1), st.just(0), SPANS),
        st.tuples(st.just("follow"), st.integers(0, STREAMS - 1), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def new_tables(streams: int, instances: int) -> tuple[Wheels, Links]:
    wheels = Wheels(
        first=np.zeros((streams, LEVELS * BUCKETS), dtype=np.int32),
        used=np.zeros((streams, LEVELS), dtype=np.uint64),
        next_due=np.zeros(streams, dtype=np.int64),  # as tables grow: zero
    )
    links = Links(
        deadline=np.zeros(instances + 1, dtype=np.int64),
        next=np.zeros(instances + 1, dtype=np.int32),
        previous=np.zeros(instances + 1, dtype=np.int32),
        bucket=np.zeros(instances + 1, dtype=np.int16),
    )
    return wheels, links


class Plain:
    """Wheels, and a dictionary of deadlines; `lazy` leaves out the clocks at which nothing can be due."""

    def __init__(self, lazy: bool) -> None:
        self.wheels, self.links = new_tables(STREAMS, INSTANCES)
        self.clock = [BEGINNING] * STREAMS
        self.waits: dict[int, tuple[int, int]] = {}  # instance: stream, deadline
        self.lazy = lazy

    def schedule(self, stream: int, instance: int, deadline: int) -> None:
        self.unschedule(instance)
        schedule(self.wheels, self.links, stream, instance, deadline, self.clock[stream])
        self.waits[instance] = stream, deadline

    def unschedule(self, instance: int) -> None:
        stream, _ = self.waits.pop(instance, (0, 0))
        unschedule(self.wheels, self.links, stream, instance)

    def set_clock(self, stream: int, clock: int) -> int:
        """Moves a stream's clock; returns how many were taken out."""
        before, self.clock[stream] = self.clock[stream], clock
        expected = {i for i, (of, deadline) in self.waits.items() if of == stream and deadline < clock}
        if self.lazy and self.wheels.next_due[stream] >= clock:
            assert not expected
            return 0
        taken, due = 0, set()
        instance = advance(self.wheels, self.links, stream, before, clock)
        while instance:
            following = int(self.links.next[instance])
            taken += 1
            assert self.waits[int(instance)] == (stream, self.links.deadline[instance])
            if self.links.deadline[instance] < clock:
                due.add(int(instance))
                del self.waits[int(instance)]
            else:
                schedule(self.wheels, self.links, stream, instance, self.links.deadline[instance], clock)
            instance = following
        assert due == expected
        self.wheels.next_due[stream] = earliest(self.wheels, self.links, stream, clock)
        self.check(stream)
        return taken

    def check(self, stream: int) -> None:
        """`next_due` is a lower bound, below the clock if one is due; buckets are linked as bits say."""
        deadlines = [deadline for of, deadline in self.waits.values() if of == stream]
        first = max(min(deadlines, default=NEVER), self.clock[stream] - 1)
        assert self.wheels.next_due[stream] <= first
        found = set()
        for bucket in range(LEVELS * BUCKETS):
            instance, before = int(self.wheels.first[stream, bucket]), 0
            bit = int(self.wheels.used[stream, bucket // BUCKETS]) >> (bucket % BUCKETS) & 1
            assert bit == (instance > 0)
            while instance:
                assert self.links.previous[instance] == before
                assert self.links.bucket[instance] == bucket + 1
                found.add(instance)
                before, instance = instance, int(self.links.next[instance])
        assert found == {instance for instance, (of, _) in self.waits.items() if of == stream}


@settings(max_examples=scaled(130, 400), deadline=None)
@given(STEPS, TIMES, st.booleans(), st.booleans())
def test_what_a_dictionary_of_deadlines_says(
    steps: list[tuple[str, int, int, int]], first: int, lazy: bool, started: bool
) -> None:
    both = Plain(lazy)
    if started:
        both.set_clock(0, first)
    for what, stream, instance, span in steps:
        clock = both.clock[stream]
        if what == "schedule":
            latest = LIMIT + 1000 * YEAR
            both.schedule(stream, instance, min((first if clock == BEGINNING else clock) + span, latest))
        elif what == "schedule before":
            both.schedule(stream, instance, max(clock, -LIMIT) - span)
        elif what == "schedule at":
            both.schedule(stream, instance, span)
        elif what == "unschedule":
            both.unschedule(instance)
        elif what == "clock":
            both.set_clock(stream, max(clock, min(first if clock == BEGINNING else clock + span, LIMIT)))
        else:  # to where the first one may be due
            following = max(int(both.wheels.next_due[stream]) + 1, clock)
            if following <= LIMIT + 2000 * YEAR:
                both.set_clock(stream, following)
        both.check(stream)
    for stream in range(STREAMS):
        both.set_clock(stream, max(both.clock[stream], LIMIT + 3000 * YEAR))
    assert not both.waits


@settings(max_examples=scaled(30, 100), deadline=None)
@given(st.lists(TIMES, min_size=1, max_size=INSTANCES), st.booleans())
def test_who_follows_the_earliest_time_comes_to_every_deadline(deadlines: list[int], started: bool) -> None:
    both = Plain(lazy=True)
    if started:
        both.set_clock(0, -LIMIT)
    for instance, deadline in enumerate(deadlines, 1):
        both.schedule(0, instance, deadline)
    both.wheels.next_due[0] = earliest(both.wheels, both.links, 0, both.clock[0])  # no longer a new table's 0
    steps = 0
    while both.waits:
        clock = int(both.wheels.next_due[0]) + 1
        assert both.set_clock(
            0, max(clock, both.clock[0])
        )  # something is taken out, to be due or to go lower
        steps += 1
    assert steps <= LEVELS * len(deadlines)
    assert both.wheels.next_due[0] == NEVER


def test_a_deadline_that_has_passed_is_due_at_once() -> None:
    both = Plain(lazy=True)
    both.set_clock(0, 1000)
    for instance, deadline in enumerate([999, 0, -LIMIT, -NEVER, 1000], 1):
        both.schedule(0, instance, deadline)
    both.set_clock(0, 1000)
    assert both.waits == {5: (0, 1000)}
    both.set_clock(0, 1001)
    assert not both.waits


def test_never_is_never_reached() -> None:
    both = Plain(lazy=False)
    both.set_clock(0, LIMIT - 1)
    both.schedule(0, 1, NEVER)
    both.schedule(0, 2, LIMIT - 1)
    both.set_clock(0, LIMIT)
    assert both.waits == {1: (0, NEVER)}


def test_the_clock_before_anything_was_seen_may_be_any_sentinel() -> None:
    for nothing in (BEGINNING, -NEVER, -(1 << 63)):
        both = Plain(lazy=True)
        both.clock[0] = nothing
        both.schedule(0, 1, -LIMIT)
        both.schedule(0, 2, 5)
        both.set_clock(0, -LIMIT)
        assert len(both.waits) == 2
        both.set_clock(0, 6)
        assert not both.waits


def test_taking_out_what_is_in_no_bucket_does_nothing() -> None:
    both = Plain(lazy=False)
    both.schedule(0, 1, 5)
    unschedule(both.wheels, both.links, 0, 2)
    both.check(0)
