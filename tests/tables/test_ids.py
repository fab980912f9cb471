"""Ids and their slots are what a plain dictionary says, and cost bounded memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compiled import from_python
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from prequential.engine.compiled import ids as module
from prequential.engine.compiled.ids import (
    AHEAD,
    END,
    LIVE,
    LONGEST,
    Ids,
    dump,
    ensure,
    load,
    new_ids,
    text_of,
)

from tests.nightly import scaled

find_hashed, find_or_add_hashed = from_python(module.find_hashed), from_python(module.find_or_add_hashed)
remove, warm = from_python(module.remove), from_python(module.warm)
siphash, hash_of = from_python(module.siphash), from_python(module.hash_of)
hash_again = from_python(module._hash_again)

KEY = np.array([0x0706050403020100, 0x0F0E0D0C0B0A0908], dtype=np.uint64)
MASK = (1 << 64) - 1


def plain_siphash(key: np.ndarray, message: bytes, rounds: int, last_rounds: int) -> int:
    """SipHash-c-d as its paper has it, in Python's integers."""

    def turned(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & MASK

    def mixed(v: list[int]) -> list[int]:
        a, b, c, d = v
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
        a = turned(a, 32)
        c, a = (c + b) & MASK, (a + d) & MASK
        b, d = turned(b, 17) ^ c, turned(d, 21) ^ a
        return [a, b, turned(c, 32), d]

    low, high = int(key[0]), int(key[1])
    v = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    message += bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for at in range(0, len(message), 8):
        word = int.from_bytes(message[at : at + 8], "little")
        v[3] ^= word
        for _ in range(rounds):
            v = mixed(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(last_rounds):
        v = mixed(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def as_text(text: bytes) -> np.ndarray:
    return np.frombuffer(text, dtype=np.uint8)


def add(ids: Ids, stream: int, text: bytes) -> int:
    given = (stream, as_text(text), 0, len(text))
    return int(find_or_add_hashed(ids, hash_of(ids, *given), *given))


def found(ids: Ids, stream: int, text: bytes) -> int:
    given = (stream, as_text(text), 0, len(text))
    return int(find_hashed(ids, hash_of(ids, *given), *given))


def check(ids: Ids, expected: dict[tuple[int, bytes], int]) -> None:
    """All ids are found, under slots of their own; entries and free slots are what they are to be."""
    assert ids.counts[LIVE] == len(expected) == len(set(expected.values())) == np.count_nonzero(ids.entries)
    for (stream, text), slot in expected.items():
        assert slot > 0
        assert found(ids, stream, text) == slot
        assert text_of(ids, slot) == text
        assert ids.stream[slot] == stream


# The vectors of SipHash-2-4's authors: of messages 00, 00 01, … under the key 00 01 … 0f.
@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, 0x726FDB47DD0E0E31), (1, 0x74F839C593DC67FD), (8, 0x93F5F5799A932462), (15, 0xA129CA6149BE45E5)],
)
def test_the_plain_siphash_is_that_of_its_authors(length: int, expected: int) -> None:
    assert plain_siphash(KEY, bytes(range(length)), 2, 4) == expected


@settings(max_examples=scaled(100, 300), deadline=None)
@given(st.binary(max_size=LONGEST), st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16))
def test_hashes_are_those_of_the_plain_siphash(text: bytes, stream: int, key: bytes) -> None:
    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    around = as_text(b"ab" + text + b"c")
    expected = plain_siphash(words, stream.to_bytes(8, "little") + text, 1, 3)
    assert int(siphash(words, stream, around, 2, 2 + len(text))) == expected
    ids = ensure(new_ids(words), 1, len(text))
    assert hash_again(ids, -add(ids, stream, text)) == expected >> 33


TEXTS = st.one_of(
    st.integers(0, 30).map(b"id-%d".__mod__),
    st.binary(max_size=3),
    st.integers(0, LONGEST).map(lambda length: b"x" * length),
    st.binary(max_size=LONGEST),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "remove again", "find", "room", "reload"]),
        st.sampled_from([0, 1, 7, 2**31 - 1]),
        TEXTS,
        st.integers(0, 1000),
    ),
    max_size=120,
)


@settings(max_examples=scaled(70, 200), deadline=None)
@given(STEPS)
def test_what_a_dictionary_of_ids_says(steps: list[tuple[str, int, bytes, int]]) -> None:
    ids, expected = new_ids(), dict[tuple[int, bytes], int]()
    for what, stream, text, number in steps:
        if what == "add":
            ids = ensure(ids, 1, len(text))
            slot = add(ids, stream, text)
            if (stream, text) in expected:
                assert slot == expected[stream, text]
            else:
                expected[stream, text] = -slot
        elif what.startswith("remove") and expected:
            key = list(expected)[number % len(expected)]
            slot = expected.pop(key)
            remove(ids, slot)
            assert found(ids, *key) == 0
            with pytest.raises(KeyError):
                text_of(ids, slot)
            if what == "remove again":  # which is nothing
                remove(ids, slot)
        elif what == "find":
            assert found(ids, stream, text) == expected.get((stream, text), 0)
        elif what == "room":
            ids = ensure(ids, number, number * 20)
        elif what == "reload":
            ids = load(dump(ids))
    check(ids, expected)


def ids_at_home(ids: Ids, wanted: list[int]) -> list[bytes]:
    """Ids that a look for begins at these entries."""
    mask, result = len(ids.entries) - 1, []
    numbers = itertools.count()
    for home in wanted:
        for number in numbers:
            text = b"%d" % number
            if hash_of(ids, 0, as_text(text), 0, len(text)) & mask == home:
                result.append(text)
                break
    return result


def test_removal_in_a_tiny_table_whatever_its_entries() -> None:
    """Homes around the end of the table, so that chains wrap: any four, removed in any order."""
    for homes in itertools.product((14, 15, 0, 1), repeat=4):
        empty = ensure(new_ids(KEY), 4, 100)
        assert len(empty.entries) == 16
        texts = ids_at_home(empty, list(homes))
        for order in itertools.permutations(range(4)):
            ids = empty._replace(**{name: getattr(empty, name).copy() for name in Ids._fields})
            expected = {(0, text): -add(ids, 0, text) for text in texts}
            for which in order:
                remove(ids, expected.pop((0, texts[which])))
                check(ids, expected)
            assert not ids.entries.any()


def test_ids_whose_hashes_agree_in_all_bits_that_are_kept() -> None:
    """Then bytes, lengths and streams decide."""
    ids = ensure(new_ids(), 8, 1000)
    names = [(0, b""), (0, b"a"), (0, b"a\0"), (1, b"a"), (0, b"a" * 8), (0, b"a" * 9), (0, b"b" + b"a" * 8)]
    slots = []
    for stream, text in names:
        slots.append(-int(find_or_add_hashed(ids, 5, stream, as_text(text), 0, len(text))))
    assert len(set(slots)) == len(names)
    assert min(slots) > 0
    for (stream, text), slot in zip(names, slots):
        assert find_hashed(ids, 5, stream, as_text(text), 0, len(text)) == slot
    assert find_hashed(ids, 5, 2, as_text(b"a"), 0, 1) == 0


def test_room_for_a_round_suffices_while_ids_come_and_go() -> None:
    random = np.random.default_rng(5)
    ids, expected = new_ids(), dict[tuple[int, bytes], int]()
    for _ in range(60):
        count = int(random.integers(1, 200))
        texts = [random.bytes(int(random.integers(0, LONGEST + 1))) for _ in range(count)]
        ids = ensure(ids, count, sum(map(len, texts)))
        arrays = [id(column) for column in ids]
        for text in texts:
            if expected and random.random() < 0.5:
                remove(ids, expected.pop(next(iter(expected))))
            slot = add(ids, 3, text)
            assert slot < 0 or expected[3, text] == slot
            expected[3, text] = abs(slot)
            assert ids.counts[END] <= len(ids.arena)
            assert abs(slot) < len(ids.stream)
        assert arrays == [id(column) for column in ids]
        assert 16 * len(expected) <= module.SHARE * len(ids.entries)
    check(ids, expected)


@njit(error_model="numpy", _nrt=False)
def _come_and_go(ids: Ids, text: np.ndarray, starts: np.ndarray, slots: np.ndarray) -> int:
    """Each id of many comes, and goes once so many others have come as `slots` has room for.

    Returns the largest slot.
    """
    largest = 0
    for row in range(len(starts) - 1):
        at = row % len(slots)
        remove(ids, slots[at])
        stream, start, stop = row & 1, starts[row], starts[row + 1]
        part = hash_of(ids, stream, text, start, stop)
        slots[at] = -find_or_add_hashed(ids, part, stream, text, start, stop)
        largest = max(largest, slots[at])
    return largest


def test_memory_is_that_of_the_ids_that_live() -> None:
    live, many = 1000, 1_000_000
    lengths = np.random.default_rng(3).choice([4, 9, 20, 36], many)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    text = np.random.default_rng(4).integers(0, 256, starts[-1]).astype(np.uint8)
    for k in range(4):  # no two are the same
        text[starts[:-1] + k] = np.arange(many) >> 8 * k & 255
    ids = ensure(new_ids(), live, 36 * live)
    assert _come_and_go(ids, text, starts, np.zeros(live, dtype=np.int64)) <= live
    assert ids.counts[LIVE] == live
    blocks = sum(-(-length // 8) for length in (4, 9, 20, 36))
    assert ids.counts[END] < 1.3 * live * blocks / 4  # each length at its most
    assert ensure(ids, 0, 0) is ids


def looked_up(
    ids: Ids, streams: np.ndarray, text: np.ndarray, starts: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """The slots of a round's ids, read ahead as the join does; those that are wanted are added."""
    slots, parts = np.zeros(len(streams), dtype=np.int32), np.zeros(len(streams), dtype=np.int64)
    for first in range(0, len(streams), AHEAD):
        last = min(first + AHEAD, len(streams))
        warm(ids, streams, text, starts, first, last, parts)
        for i in range(first, last):
            look_up = find_or_add_hashed if wanted[i] else find_hashed
            slots[i] = look_up(ids, int(parts[i]), int(streams[i]), text, int(starts[i]), int(starts[i + 1]))
    return slots


def test_a_round_at_once_is_the_same_as_one_after_the_other() -> None:
    random = np.random.default_rng(7)
    one, all_at_once = new_ids(), new_ids()
    for _ in range(20):
        texts = [b"id-%d" % number for number in random.integers(0, 300, 150)]
        streams = random.integers(0, 3, 150).astype(np.int32)
        wanted = random.integers(0, 2, 150).astype(np.uint8)
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
        one, all_at_once = (ensure(ids, 150, int(starts[-1])) for ids in (one, all_at_once))
        slots = looked_up(all_at_once, streams, as_text(b"".join(texts)), starts, wanted)
        assert slots.tolist() == [
            (add if want else found)(one, int(stream), text)
            for stream, text, want in zip(streams, texts, wanted)
        ]
        for slot in np.unique(np.abs(slots))[::3]:
            remove(one, slot)
            remove(all_at_once, slot)


@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_a_snapshot_keeps_slots_under_another_key(count: int) -> None:
    texts = [b"x" * (number % 40) + b"%d" % number for number in range(count)]
    ids = ensure(new_ids(), count, sum(map(len, texts)))
    slots = [-add(ids, number % 5, text) for number, text in enumerate(texts)]
    for slot in slots[::3]:
        remove(ids, slot)
    again = load(dump(ids))
    assert not np.array_equal(again.key, ids.key)
    left = {(n % 5, texts[n]): slots[n] for n in range(count) if n % 3}
    check(again, left)
    assert all(np.array_equal(a, b) for a, b in zip(dump(again), dump(ids)))
    # What is free is given again, before new slots are.
    again = ensure(again, count, count * 30)
    given_again = [-add(again, 9, text) for text in texts]
    assert len(set(given_again) | set(left.values())) == count + len(left)
    free = max(left.values(), default=0) - len(left)
    assert all(slot <= max(left.values()) for slot in given_again[:free])


def digest() -> str:
    """Of slots and tables while ids come and go, and of a snapshot that is read under another key."""
    ids = new_ids(np.array([2**64 - 1, 12345], dtype=np.uint64))
    random, slots, seen = np.random.default_rng(1), list[int](), list[int]()
    for _ in range(300):
        text = b"id-%d" % random.integers(100) * int(random.integers(1, 9))
        ids = ensure(ids, 1, len(text))
        seen.append(add(ids, int(random.integers(2)), text))
        slots += [-seen[-1]] * (seen[-1] < 0)
        if len(slots) > 40:
            remove(ids, slots.pop(int(random.integers(40))))
    again = load(dump(ids), np.array([7, 2**63], dtype=np.uint64))
    tables = ids.entries, again.entries, again.arena, again.counts
    return repr((seen, [table.tolist() for table in tables]))
