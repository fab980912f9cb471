"""A record at which workers die: what the journal says of it, and the order in which its successors try it.

Whether it is found and passed over, whatever else happens: `tests/simulation`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from prequential.engine.input.merge import Batch, Merge, OffsetVector
from prequential.runtime.worker.isolating import Isolation
from prequential.runtime.worker.journal import (
    Attempt,
    Death,
    JournalEntry,
    JournalStatus,
    Quarantine,
    Suspicion,
    TopicsOrigin,
    decode_entry,
    encode_entry,
    standing,
)
from prequential.topics.decoding import Decoded
from prequential.topics.errors import WorkError

# ---- the journal


def entries(*parts: tuple[list[OffsetVector], Any]) -> list[JournalEntry]:
    return [JournalEntry(n, vectors, TopicsOrigin(1), note) for n, (vectors, note) in enumerate(parts, 1)]


class TestJournal:
    @pytest.mark.parametrize(
        "note", [None, Attempt(0), Attempt(2, 1, (2, 7)), Death("E"), Quarantine(1, 2, "r")]
    )
    def test_written_and_read(self, note: Any) -> None:
        entry = JournalEntry(3, [(1, 2, 3), (1, 9, 3)], TopicsOrigin(4, "a", "b", "c"), note)
        assert decode_entry(encode_entry(entry)) == entry

    def test_entries_without_a_note_are_those_of_earlier_versions(self) -> None:
        """Byte for byte: an earlier version goes on from them, and they are read here."""
        plain = b"\x94\x02\x07\x93\x01\x02\x03\x94\x04\xa0\xa0\xa0"
        entry = JournalEntry(7, [(1, 2, 3)], TopicsOrigin(4))
        assert (encode_entry(entry), decode_entry(plain)) == (plain, entry)

    def test_another_format_is_refused(self) -> None:
        with pytest.raises(WorkError, match="format 9: this version reads formats 2 and 3"):
            decode_entry(b"\x94\x09\x07\x90\x94\x04\xa0\xa0\xa0")

    def test_ordinary_entries(self) -> None:
        a, b, c = (1, 0, 0), (1, 2, 0), (3, 2, 1)
        assert standing(entries(([a, b], None), ([], None), ([c], None))) == ([a, b], [c], [], None)

    def test_a_life_of_which_nothing_came(self) -> None:
        found = standing(entries(([(1, 0, 0)], None), ([], Attempt(0))))
        assert found == ([(1, 0, 0)], [], [], Suspicion(1))
        assert standing(entries(([], Attempt(0)), ([(1, 0, 0)], None))).suspicion is None

    def test_an_error_counts_once_with_what_was_announced(self) -> None:
        found = standing(entries(([(1, 0, 0)], None), ([], Death("E: x"))))
        assert found.suspicion == Suspicion(1, error="E: x")
        found = standing(entries(([(4, 0, 0)], Attempt(1, 4)), ([], Death("E: x"))))
        assert (found.open, found.suspicion) == ([(4, 0, 0)], Suspicion(2, 4, None, "E: x"))

    def test_parts_of_what_was_announced_come_before_its_rest(self) -> None:
        whole, one, two = (9, 9, 9), (3, 0, 0), (3, 1, 0)
        tried = [([whole], Attempt(1, 27)), ([one], Attempt(2, 3))]
        found = standing(entries(*tried, ([two], Attempt(2, 1, (1, 0)))))
        assert found == ([one], [two, whole], [], Suspicion(3, 1, (1, 0), alone=1))
        twice = standing(entries(*tried, *2 * [([two], Attempt(2, 1, (1, 0)))]))
        assert twice.suspicion == Suspicion(3, 1, (1, 0), alone=2)
        again = standing(entries(*tried, ([one], Attempt(3, 3))))
        assert again == ([], [one, whole], [], Suspicion(4, 3))

    def test_a_quarantine_leaves_the_rest_in_its_place(self) -> None:
        whole, one = (9, 9, 9), (3, 0, 0)
        record = Quarantine(0, 2, "r")
        parts = [([whole], Attempt(1, 27)), ([one], Attempt(2, 1, (0, 2))), ([], Death("E")), ([], record)]
        assert standing(entries(*parts)) == ([], [one, whole], [record], Suspicion(records=1))
        after = standing(entries(*parts, ([one], Attempt(0, 1, (0, 2))), ([whole], None)))
        assert after == ([one], [whole], [record], Suspicion(records=1))

    def test_what_is_left_behind_tried_parts_is_still_to_be_tried(self) -> None:
        """However the worker ended there: followed as a whole, every successor would die of it, unnoticed."""
        whole, one, two = (9, 9, 9), (3, 0, 0), (3, 1, 0)
        tried = [([whole], Attempt(1, 8)), ([one], Attempt(2, 1, (0, 2)))]
        found = standing(entries(*tried, ([whole], None)))
        assert found == ([one], [whole], [], Suspicion(2, 1))
        isolation = Isolation(found)
        assert (list(isolation.planned), isolation.deaths, isolation.most) == ([whole], 2, 1)
        died = standing(entries(*tried, ([whole], None), ([two], Attempt(2, 1, (1, 0))), ([], Death("E"))))
        assert died == ([one], [two, whole], [], Suspicion(3, 1, (1, 0), "E", 1))

    def test_of_many_records_the_rest_is_tried_in_parts(self) -> None:
        whole, more, part = (900, 0, 0), (999, 0, 0), (250, 0, 0)
        tried = [([whole, more], None), ([], Death("E")), ([part], Attempt(1, 250))]
        found = standing(entries(*tried, ([whole, more], None)))
        assert found == ([part], [whole, more], [], Suspicion(1))
        assert Isolation(found).most == 250

    def test_where_nothing_is_left_the_shard_has_got_on(self) -> None:
        one = (3, 0, 0)
        found = standing(entries(([one], Attempt(1, 3)), ([], None)))
        assert found == ([one], [], [], None)


# ---- the order in small parts


@pytest.mark.parametrize("planned", [False, True])
def test_parts_are_in_the_order_of_rounds(planned: bool) -> None:
    """Taken in parts of any size, with any watermarks, or up to a cut: the same order as as a whole."""
    rng = random.Random(4)
    for _ in range(300):
        topics = [sorted(rng.randrange(10) for _ in range(rng.randrange(12))) for _ in range(3)]
        offsets = [sorted(rng.sample(range(40), len(times))) for times in topics]
        watermarks = [rng.choice([None, rng.randrange(12), 1 << 50]) for _ in range(3)]
        whole, parts = Merge(), Merge()
        for merge in (whole, parts):
            for kind, times in enumerate(topics):
                merge.add(Batch(kind, offsets[kind], times, Decoded([object()] * len(times), {})))
        taken = whole.take(watermarks, 100)
        until: OffsetVector | None = tuple(whole.vector) if planned else None
        found: list[tuple[int, int]] = []
        while (step := parts.ahead(watermarks, rng.randrange(1, 5), until))[1]:
            part = parts.take_until(step[0])
            assert part is not None
            assert len(part) == step[1]
            found += _places(part)
        assert found == ([] if taken is None else _places(taken))


def _places(part: Any) -> list[tuple[int, int]]:
    located = [part.locate(place) for place in part.order.tolist()]
    return [(batch.kind, batch.offsets[index]) for batch, index in located]


def test_what_is_planned_and_gone_is_passed_over() -> None:
    """Retention has taken the records, or their offsets were transactions' marks."""
    merge = Merge()
    merge.add(Batch(0, [7], [1], Decoded([object()], {})))
    isolation = Isolation(JournalStatus([], [(5, 4, 0), (8, 4, 0)], [], Suspicion(1, 9)))
    assert isolation.next(merge, [None] * 3) is None
    merge.reach(1, 4)
    merge.reach(2, 3)  # further than what was planned knew of
    assert isolation.next(merge, [None] * 3) == ((8, 4, 0), Attempt(1, 1, (0, 7)))


def test_what_came_after_the_death_is_not_doubtful() -> None:
    """Where it isn't known at which records it was: at most those that were there then."""
    isolation = Isolation(JournalStatus([], [], [], Suspicion(1)))
    isolation.taken((4, 4, 2), 10)
    isolation.limit([5, 6, 3], [4, 4, 2])
    assert not isolation.over
    isolation.limit([50, 60, 30], [5, 6, 2])  # read further: the first ends count
    assert not isolation.over
    isolation.limit([50, 60, 30], [5, 7, 3])
    assert isolation.over
    planned = Isolation(JournalStatus([], [(9, 9, 9)], [], Suspicion(1)))
    planned.limit([5, 6, 3], [5, 6, 3])
    assert not planned.over, "what is settled is taken as it is"
