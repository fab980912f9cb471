"""The merge of three topics against a plain sort."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import Any

import msgspec
import pytest
from helpers import ENDED, examples
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.input.merge import Batch, Merge, MicroBatch, Undecoded
from prequential.topics.decoding import Decoded

#: (time, kind, offset) of a record: in order of time, ties by kind, then by offset.
Key = tuple[int, int, int]


def batch(kind: int, offsets: Sequence[int], times: list[int]) -> Batch:
    """Records that know what they are; those whose offset ends in 7 are unusable."""
    records: list[Any] = [None if offset % 10 == 7 else (kind, offset) for offset in offsets]
    reasons = {i: f"{kind}/{offset}" for i, offset in enumerate(offsets) if offset % 10 == 7}
    return Batch(kind, offsets, list(times), Decoded(records, reasons))


def keys_of(taken: MicroBatch | None) -> list[Key]:
    """What was taken, checked for agreement of all columns."""
    if taken is None:
        return []
    found = []
    assert len(taken) == len(taken.records) == len(taken.times) == len(taken.order)
    assert sorted(taken.order.tolist()) == list(range(len(taken)))
    for place in taken.order.tolist():
        record, time = taken.records[place], taken.times[place]
        source, index = taken.locate(place)
        assert source.kind == taken.kind(place)
        offset = source.offsets[index]
        assert source.times[index] == time
        if record is None:
            assert source.reasons[index] == f"{source.kind}/{offset}"
        else:
            assert record == (source.kind, offset)
        found.append((time, source.kind, offset))
    return found


def take_all(
    merge: Merge, watermarks: Sequence[int | None] = (ENDED,) * 3, most: int = 10**9
) -> list[Key]:
    found = []
    while (taken := merge.take(watermarks, most)) is not None:
        assert taken.records, "a round is never empty"
        found += keys_of(taken)
    return found


def in_order(topics: Sequence[Sequence[int]], offsets: Sequence[Sequence[int]]) -> list[Key]:
    """Each topic's time never goes back."""
    return sorted(
        (time, kind, offset)
        for kind, times in enumerate(topics)
        for time, offset in zip(accumulate(times, max), offsets[kind])
    )


def plain_offsets(topics: Sequence[Sequence[int]]) -> list[range]:
    return [range(len(times)) for times in topics]


small_topics = st.tuples(*[st.lists(st.integers(-3, 12), max_size=25)] * 3)


class TestOrder:
    @examples(70)
    @given(small_topics, st.integers(1, 30), st.randoms(use_true_random=False))
    def test_any_batches_and_rounds_give_the_sorted_records(
        self, topics: tuple[list[int], ...], most: int, rng: random.Random
    ) -> None:
        """With true watermarks; clocks step back at will."""
        merge = Merge()
        times = [list(accumulate(topic, max)) for topic in topics]
        given_ = [0, 0, 0]
        found: list[Key] = []
        while given_ != list(map(len, topics)):
            kind = rng.choice([0, 1, 2])
            start = given_[kind]
            stop = min(len(topics[kind]), start + rng.choice([1, 2, 10]))
            if start < stop:
                assert merge.add(batch(kind, range(start, stop), topics[kind][start:stop])) == (
                    stop - start
                )
            given_[kind] = stop
            watermarks = [
                rng.choice([None, times[k][given_[k]] if given_[k] < len(times[k]) else ENDED])
                for k in range(3)
            ]
            taken = merge.take(watermarks, most)
            if taken is not None:
                per_kind = [sum(k == kind for _, k, _ in keys_of(taken)) for kind in range(3)]
                assert max(per_kind) <= most
            found += keys_of(taken)
        found += take_all(merge, most=most)
        assert found == in_order(topics, plain_offsets(topics))
        assert merge.vector == list(map(len, topics))
        assert merge.buffered == [0, 0, 0]

    def test_how_far_all_topics_have_come(self) -> None:
        """Whether their records were taken or not, and after a restore too."""
        merge = Merge()
        for kind, times, reached in ((0, [6, 5], -inf), (2, [4, 5], -inf), (1, [3], 3)):
            merge.add(batch(kind, range(len(times)), times))
            assert merge.reached == reached
        merge.add(batch(1, range(1, 2), [9]))
        assert merge.reached == 5
        assert len(take_all(merge)) == 6
        assert merge.reached == 5
        again = Merge()
        again.restore(merge.snapshot())
        assert again.reached == 5

    def test_what_is_read_to_its_end_has_nothing_left_below_it(self) -> None:
        """The offsets behind its last record are markers of transactions, or what was aborted."""
        merge = Merge()
        merge.add(batch(0, [3, 4], [1, 2]))
        merge.reach(0, 7)
        merge.reach(1, 5)
        assert (merge.added, merge.vector) == ([7, 5, 0], [0, 5, 0])
        assert merge.covers((7, 5, 0))
        assert len(take_all(merge, most=1)) == 2
        assert merge.vector == [7, 5, 0]
        merge.reach(0, 6)  # of a moment ago
        assert merge.add(batch(0, [7, 8], [3, 3])) == 2
        assert (merge.added, merge.vector) == ([9, 5, 0], [7, 5, 0])
        merge.reach(0, 9)
        again = Merge()
        again.add(batch(0, [3, 4, 7, 8], [1, 2, 3, 3]))
        assert len(again.take_until((7, 5, 0)) or ()) == 2
        assert (again.added, again.vector) == ([9, 5, 0], [7, 5, 0])
        assert take_all(merge) == take_all(again) == [(3, 0, 7), (3, 0, 8)]
        assert merge.snapshot() == again.snapshot()


class TestHoldingBack:
    """A topic of which nothing is known holds the others back."""

    def test_a_promise_of_5_lets_go_what_is_before_5_and_earlier_topics_at_5(self) -> None:
        """A record of time 5 may still come from the silent topic."""
        for silent, expected in (
            (0, [(4, 1, 0), (4, 2, 0)]),
            (1, [(4, 0, 0), (4, 2, 0), (5, 0, 1)]),
            (2, [(4, 0, 0), (4, 1, 0), (5, 0, 1), (5, 1, 1)]),
        ):
            merge = Merge()
            for kind in {0, 1, 2} - {silent}:
                merge.add(batch(kind, range(3), [4, 5, 6]))
            watermarks = [ENDED, ENDED, ENDED]
            watermarks[silent] = 5
            assert take_all(merge, watermarks) == expected

    def test_a_topic_read_out_holds_back_at_its_last_time(self) -> None:
        """What comes next can't be earlier: that is known without a watermark."""
        merge = Merge()
        merge.add(batch(0, range(2), [1, 3]))
        merge.add(batch(1, range(4), [1, 2, 3, 4]))
        merge.add(batch(2, range(1), [9]))
        assert take_all(merge, [None] * 3) == [
            (1, 0, 0), (1, 1, 0), (2, 1, 1), (3, 0, 1),
        ]  # fmt: skip
        merge.add(batch(0, range(2, 3), [3]))
        assert take_all(merge, [None] * 3) == [(3, 0, 2)]
        merge.add(batch(0, range(3, 4), [4]))
        assert take_all(merge, [None] * 3) == [(3, 1, 2), (4, 0, 3)]
        assert take_all(merge, [2, 2, 2]) == [], "an old promise doesn't count against what was seen"
        assert take_all(merge, [5, 5, 2]) == [(4, 1, 3)]


class TestRefetch:
    @examples(40)
    @given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.randoms(use_true_random=False))
    def test_overlaps_change_nothing(self, times: list[int], rng: random.Random) -> None:
        """Records, times (raised where the clock stepped back) and reasons stay together."""
        offsets = sorted(rng.sample(range(3 * len(times)), len(times)))
        merge = Merge()
        new = 0
        found: list[Key] = []
        for stop in range(1, len(times) + 1):
            start = rng.randrange(stop)
            new += merge.add(batch(2, offsets[start:stop], times[start:stop]))
            some = slice(start, rng.randrange(start, stop + 1))
            assert merge.add(batch(2, offsets[some], times[some])) == 0
            if rng.random() < 0.3:
                found += keys_of(merge.take([ENDED] * 3, 3))
        assert new == len(times)
        assert found + take_all(merge) == in_order([[], [], times], [[], [], offsets])

    def test_after_a_restore_the_rest_of_a_batch_is_taken(self) -> None:
        merge = Merge()
        merge.add(batch(0, range(4), [5, 1, 2, 7]))
        assert keys_of(merge.take([ENDED] * 3, 2)) == [(5, 0, 0), (5, 0, 1)]
        other = Merge()
        other.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(merge.snapshot())))
        assert (other.vector, other.added, other.buffered) == ([2, 0, 0], [2, 0, 0], [0, 0, 0])
        assert other.add(batch(0, range(4), [5, 1, 2, 7])) == 2
        assert take_all(other) == take_all(merge) == [(5, 0, 2), (7, 0, 3)]


class TestJournal:
    @examples(60)
    @given(small_topics, st.randoms(use_true_random=False))
    def test_cuts_tell_the_order_that_wrong_promises_made(
        self, topics: tuple[list[int], ...], rng: random.Random
    ) -> None:
        """Consecutive rounds that join make one cut, as a shard keeps them."""
        merge = Merge()
        given_ = [0, 0, 0]
        live: list[Key] = []
        vectors: list[tuple[int, ...]] = []
        while given_ != list(map(len, topics)) or any(merge.buffered):
            kind = rng.choice([0, 1, 2])
            start = given_[kind]
            stop = min(len(topics[kind]), start + rng.choice([1, 2, 10]))
            merge.add(batch(kind, range(start, stop), topics[kind][start:stop]))
            given_[kind] = stop
            watermarks = [rng.choice([None, 3, ENDED]) for _ in range(3)]
            taken = merge.take(watermarks, rng.choice([1, 50]))
            if given_ == list(map(len, topics)) and taken is None:
                taken = merge.take([ENDED] * 3, 50)
            if taken is not None:
                live += keys_of(taken)
                if merge.record_and_check_order(taken) and vectors:
                    vectors[-1] = tuple(merge.vector)
                else:
                    vectors.append(tuple(merge.vector))
        other = Merge()
        followed: list[Key] = []
        for kind, times in enumerate(topics):
            other.add(batch(kind, range(len(times)), times))
        for vector in vectors:
            assert other.covers(vector)  # type: ignore[arg-type]
            taken = other.take_until(vector)  # type: ignore[arg-type]
            assert taken is not None
            followed += keys_of(taken)
            other.record_and_check_order(taken)
            assert other.vector == list(vector)
        assert followed == live
        assert other.snapshot() == merge.snapshot()
        steps_back = sum(later[:2] < earlier[:2] for earlier, later in pairwise(live))
        assert len(vectors) == (steps_back + 1 if live else 0)

    def test_exactly_what_lies_below_a_cut(self) -> None:
        merge = Merge()
        for kind in range(3):
            merge.add(batch(kind, range(2), [kind, 9]))
            merge.add(batch(kind, range(2, 4), [9, 10]))
        assert not merge.covers((4, 4, 5))
        assert merge.covers((4, 4, 4))
        assert keys_of(merge.take_until((3, 0, 1))) == [(0, 0, 0), (2, 2, 0), (9, 0, 1), (9, 0, 2)]
        assert merge.take_until((3, 0, 1)) is None
        assert merge.take_until((1, 0, 0)) is None, "a cut of the past takes nothing"
        assert merge.vector == [3, 0, 1]
        assert take_all(merge) == [
            (1, 1, 0), (9, 1, 1), (9, 1, 2), (9, 2, 1), (9, 2, 2), (10, 0, 3), (10, 1, 3),
            (10, 2, 3),
        ]  # fmt: skip

    def test_a_cut_in_a_gap_of_offsets(self) -> None:
        merge = Merge()
        merge.add(batch(1, [0, 5, 9], [1, 2, 3]))
        assert keys_of(merge.take_until((0, 3, 0))) == [(1, 1, 0)]
        assert merge.vector == [0, 3, 0]
        assert merge.take_until((0, 5, 0)) is None
        assert merge.vector == [0, 5, 0]
        assert keys_of(merge.take_until((0, 6, 0))) == [(2, 1, 5)]


def test_an_origin_beyond_the_round_is_an_error() -> None:
    merge = Merge()
    merge.add(batch(0, range(2), [1, 2]))
    taken = merge.take([ENDED] * 3, 5)
    assert taken is not None
    with pytest.raises(IndexError):
        taken.locate(2)


def test_no_more_is_decoded_than_what_is_taken() -> None:
    """What goes wrong in decoding goes wrong in the round of that very record; one refused is left alone."""
    seen: list[list[bytes | None]] = []

    def decoding(values: Sequence[bytes | None]) -> Decoded:
        seen.append(list(values))
        records: list[Any] = [None if value is None else value.decode() for value in values]
        return Decoded(records, {i: "no value" for i, value in enumerate(values) if value is None})

    def undecoded(start: int, stop: int) -> Batch:
        values = [b"v%d" % offset for offset in range(start, stop)]
        return Batch(0, range(start, stop), list(range(start, stop)), Undecoded(values, decoding))

    merge, first = Merge(), undecoded(0, 6)
    first.refuse(3, "quarantined")
    merge.add(first)
    merge.add(undecoded(4, 9))  # the first two of them once more
    assert merge.ahead((ENDED,) * 3, 8) == ((8, 0, 0), 8)
    assert seen == []
    taken = [merge.take_until((2, 0, 0)), merge.take((ENDED,) * 3, 3), merge.take((ENDED,) * 3, 9)]
    assert [round_.records for round_ in taken if round_ is not None] == [
        ["v0", "v1"], ["v2", None, "v4"], ["v5", "v6", "v7", "v8"]
    ]  # fmt: skip
    assert seen == [[b"v0", b"v1"], [b"v2", None, b"v4"], [b"v5"], [b"v6", b"v7", b"v8"]]
    assert taken[1] is not None
    batch, place = taken[1].locate(1)
    assert (batch.offsets[place], batch.reasons[place]) == (3, "quarantined")


def test_a_change_waits_until_records_are_decoded() -> None:
    def twice(records: list[Any]) -> None:
        records[:] = [record * 2 for record in records]

    for content in (Undecoded([b"a", b"b"], lambda values: Decoded([v.decode() for v in values], {})),  # type: ignore
                    Decoded(["a", "b"], {})):  # type: ignore[list-item]  # fmt: skip
        batch = Batch(0, range(2), [1, 2], content)
        batch.change(twice)
        merge = Merge()
        merge.add(batch)
        found = [merge.take((ENDED,) * 3, 1), merge.take((ENDED,) * 3, 1)]
        assert [taken.records for taken in found if taken is not None] == [["aa"], ["bb"]]
