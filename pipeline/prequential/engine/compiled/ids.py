"""Instance ids: a hash table from a stream's code and an id's bytes to a slot, the instance's row in tables.

The texts of ids lie in an arena of 8-byte blocks. The table uses open addressing with linear probing. Its
entries hold a slot and 31 bits of the hash, so that most other ids are skipped or moved without reading their
texts. The hash is SipHash-1-3 with a secret key of the process: producers choose the ids, and might choose
colliding ones.

A removed slot and the blocks of its text are the first ones to be used again. The number of present ids is
bounded, so memory is bounded as well. After `load`, slots are given out in another order, so no published
content may depend on slots.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import (
    Bytes,
    Ints,
    Ints32,
    capacity_for,
    grown,
    inlined,
    inner,
    kernel,
)

Words = npt.NDArray[np.uint64]

#: The longest id, in bytes, and in blocks.
LONGEST = 256
LARGEST = LONGEST // 8

#: Positions in `Ids.counts`. LIVE: number of used slots; TOP: largest slot so far; FREE: first free slot (0:
#: none); END: first block after all texts. From RUNS on, by number of blocks: the first free run of this
#: length (0: none).
LIVE, TOP, FREE, END, RUNS = range(5)

#: Maximum share of the table's entries in use: SHARE / 16.
SHARE = 11

#: Number of rows to read ahead (see `warm`).
AHEAD = 64

#: The bits of a table's entry that hold the slot: its lower half.
LOW = (1 << 32) - 1


class Ids(NamedTuple):
    """Ids and their slots; slot 0 means none. `ensure` makes room, and compiled loops use it."""

    # By slot:
    stream: Ints32
    offset: Ints32  # the first block of its text; of a free slot, the next free one (0: none)
    size: npt.NDArray[np.int16]  # bytes of its text + 1; 0: free
    # Others:
    entries: Ints  # 31 bits of the hash, then 32 bits of the slot; 0: empty. The length is a power of two
    arena: Words  # blocks: the first byte is the lowest, zeros follow the last; a free run links to the next
    counts: Ints
    key: Words  # two


def new_key() -> Words:
    """A secret key for hashes: two random words of 64 bits, (2,) uint64."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


def new_ids(key: Words | None = None) -> Ids:
    """An empty table without room (`ensure` makes room); it has a new secret key unless you pass a `key`."""
    counts = np.zeros(RUNS + LARGEST + 1, dtype=np.int64)
    counts[END] = 1  # offset 0 means none
    return Ids(
        stream=np.zeros(1, dtype=np.int32),
        offset=np.zeros(1, dtype=np.int32),
        size=np.zeros(1, dtype=np.int16),
        entries=np.zeros(16, dtype=np.int64),
        arena=np.zeros(1, dtype=np.uint64),
        counts=counts,
        key=new_key() if key is None else key,
    )


def ensure(ids: Ids, more_slots: int, more_bytes: int) -> Ids:
    """The ids with room for `more_slots` more ids, whose texts have `more_bytes` bytes together.

    Arrays with enough room stay the same; an array that grows at least doubles. The room suffices also if ids
    are removed meanwhile.

    Raises
    ------
    MemoryError
        For 2^31 ids or blocks of text, because slots have 31 bits.
    """
    live, top, end = (int(ids.counts[k]) for k in (LIVE, TOP, END))
    rows = max(live + more_slots, top) + 1
    blocks = end + more_bytes // 8 + more_slots  # free runs may be too short, and each text begins a block
    if max(rows, blocks) >= 1 << 31:
        raise MemoryError("too many ids for one shard")
    if rows > len(ids.stream):
        rows = capacity_for(rows, len(ids.stream))
        ids = ids._replace(
            stream=grown(ids.stream, rows), offset=grown(ids.offset, rows), size=grown(ids.size, rows)
        )
    if blocks > len(ids.arena):
        ids = ids._replace(arena=grown(ids.arena, capacity_for(blocks, len(ids.arena))))
    if (live + more_slots) * 16 > len(ids.entries) * SHARE:
        entries = np.zeros(capacity_for((live + more_slots) * 16 // SHARE + 1), dtype=np.int64)
        _spread(ids.entries, entries)
        ids = ids._replace(entries=entries)
    return ids


def text_of(ids: Ids, slot: int) -> bytes:
    """The id in a slot, as bytes of UTF-8; raises KeyError for 0 and for a free slot."""
    length, first = int(ids.size[slot]) - 1, int(ids.offset[slot])
    if slot <= 0 or length < 0:
        raise KeyError(slot)
    return ids.arena[first : first + (length + 7) // 8].astype("<u8").tobytes()[:length]


# SipHash. Words and all operands of operations on them are unsigned: mixed with signed integers, they would
# become floats.

_B8, _B16, _B24, _B32, _B40, _B48, _B56 = (np.uint64(bits) for bits in range(8, 64, 8))
_R13, _R17, _R21, _R33 = (np.uint64(bits) for bits in (13, 17, 21, 33))
_L51, _L47, _L43 = (np.uint64(bits) for bits in (51, 47, 43))
_LAST = np.uint64(0xFF)
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)

State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@inner
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> State:
    """SipHash's round. Sums wrap."""
    v0 = v0 + v1
    v2 = v2 + v3
    v1 = ((v1 << _R13) | (v1 >> _L51)) ^ v0
    v3 = ((v3 << _B16) | (v3 >> _B48)) ^ v2
    v0 = (v0 << _B32) | (v0 >> _B32)
    v2 = v2 + v1
    v0 = v0 + v3
    v1 = ((v1 << _R17) | (v1 >> _L47)) ^ v2
    v3 = ((v3 << _R21) | (v3 >> _L43)) ^ v0
    v2 = (v2 << _B32) | (v2 >> _B32)
    return v0, v1, v2, v3


@inner
def _word(text: Bytes, position: int, stop: int) -> np.uint64:
    """The eight bytes of a text from `position` on, the first byte lowest; zeros follow its end."""
    if position + 8 <= stop:
        return (
            np.uint64(text[position])
            | np.uint64(text[position + 1]) << _B8
            | np.uint64(text[position + 2]) << _B16
            | np.uint64(text[position + 3]) << _B24
            | np.uint64(text[position + 4]) << _B32
            | np.uint64(text[position + 5]) << _B40
            | np.uint64(text[position + 6]) << _B48
            | np.uint64(text[position + 7]) << _B56
        )
    word = np.uint64(0)
    for k in range(stop - 1, position - 1, -1):
        word = (word << _B8) | np.uint64(text[k])
    return word


@inner
def _begin(key: Words, stream: int) -> State:
    """The state after the stream's code, eight bytes of the message."""
    word = np.uint64(stream)
    v0, v1, v2, v3 = _round(key[0] ^ _V0, key[1] ^ _V1, key[0] ^ _V2, key[1] ^ _V3 ^ word)
    return v0 ^ word, v1, v2, v3


@inner
def _finish(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, tail: np.uint64, length: int
) -> np.uint64:
    """The hash, computed from the state, the rest of the text and the text's length."""
    word = tail | np.uint64((length + 8) & 0xFF) << _B56
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    v0, v1, v2, v3 = _round(v0 ^ word, v1, v2 ^ _LAST, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inner
def siphash(key: Words, stream: int, text: Bytes, start: int, stop: int) -> np.uint64:
    """SipHash-1-3 of the stream's code (eight bytes, the lowest first) and then of `text[start:stop]`.

    References
    ----------
    Aumasson, Bernstein: SipHash: a fast short-input PRF, INDOCRYPT 2012; with one round for each word and
    three at the end, as Python and Rust hash strings.
    """
    v0, v1, v2, v3 = _begin(key, stream)
    position = start
    while position + 8 <= stop:
        word = _word(text, position, stop)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
        position += 8
    return _finish(v0, v1, v2, v3, _word(text, position, stop), stop - start)


@inner
def hash_of_slot(ids: Ids, slot: int, key: Words, stream: int) -> np.uint64:
    """The `siphash` of the id in a slot, with this key, and with `stream` in place of its stream's code."""
    v0, v1, v2, v3 = _begin(key, stream)
    length, block = np.int64(ids.size[slot]) - 1, np.int64(ids.offset[slot])
    for _ in range(length >> 3):
        word = ids.arena[block]
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
        block += 1
    tail = ids.arena[block] if length & 7 else np.uint64(0)
    return _finish(v0, v1, v2, v3, tail, length)


@inner
def _hash_again(ids: Ids, slot: int) -> int:
    """The hash of the id in a slot, in the form that entries hold."""
    return np.int64(hash_of_slot(ids, slot, ids.key, ids.stream[slot]) >> _R33)


# The table.


@kernel
def _spread(old: Ints, new: Ints) -> None:
    """Put the entries of a table into an empty, larger one."""
    mask = len(new) - 1
    for k in range(len(old)):
        entry = old[k]
        if entry:
            position = (entry >> 32) & mask
            while new[position]:
                position = (position + 1) & mask
            new[position] = entry


@inlined
def _is(ids: Ids, slot: int, stream: int, text: Bytes, start: int, stop: int) -> bool:
    """Whether a slot belongs to the id `text[start:stop]` of a stream."""
    if ids.stream[slot] != stream or ids.size[slot] != stop - start + 1:
        return False
    block = np.int64(ids.offset[slot])
    for position in range(start, stop, 8):
        if ids.arena[block] != _word(text, position, stop):
            return False
        block += 1
    return True


@inlined
def _position_of(ids: Ids, part: int, stream: int, text: Bytes, start: int, stop: int) -> int:
    """The position of an id's entry in the table, or of the empty entry where it belongs."""
    mask = len(ids.entries) - 1
    position = part & mask
    while True:
        entry = ids.entries[position]
        if entry == 0 or (entry >> 32 == part and _is(ids, entry & LOW, stream, text, start, stop)):
            return position
        position = (position + 1) & mask


@inner
def hash_of(ids: Ids, stream: int, text: Bytes, start: int, stop: int) -> int:
    """The hash of the id `text[start:stop]` of a stream (code), as entries hold it: 31 bits of `siphash`."""
    return np.int64(siphash(ids.key, stream, text, start, stop) >> _R33)


@inlined
def find_hashed(ids: Ids, part: int, stream: int, text: Bytes, start: int, stop: int) -> int:
    """The slot of the id `text[start:stop]` of a stream (code); 0: it has none. `part` is its `hash_of`."""
    return ids.entries[_position_of(ids, part, stream, text, start, stop)] & LOW


@inner
def find_or_add_hashed(ids: Ids, part: int, stream: int, text: Bytes, start: int, stop: int) -> int:
    """As `find_hashed`, but a new id gets a slot, and the negated slot is returned.

    The id has at most `LONGEST` bytes, and there must be room for it (see `ensure`).
    """
    position = _position_of(ids, part, stream, text, start, stop)
    if ids.entries[position]:
        return ids.entries[position] & LOW
    counts = ids.counts
    slot = counts[FREE]
    if slot:
        counts[FREE] = ids.offset[slot]
    else:
        slot = counts[TOP] + 1
        counts[TOP] = slot
    counts[LIVE] += 1
    _write(ids, slot, stream, text, start, stop)
    ids.entries[position] = part << 32 | slot
    return -slot


@inner
def _write(ids: Ids, slot: int, stream: int, text: Bytes, start: int, stop: int) -> None:
    """Fill a slot's row, and write its text to the arena."""
    length = stop - start
    blocks = (length + 7) >> 3
    block = ids.counts[RUNS + blocks]
    if block:
        ids.counts[RUNS + blocks] = np.int64(ids.arena[block])
    else:
        block = ids.counts[END]
        ids.counts[END] = block + blocks
    ids.stream[slot] = stream
    ids.size[slot] = length + 1
    ids.offset[slot] = block
    for position in range(start, stop, 8):
        ids.arena[block] = _word(text, position, stop)
        block += 1


@inner
def remove(ids: Ids, slot: int) -> None:
    """Free an id's slot and blocks, so that the next ids use them; does nothing for 0 or a free slot."""
    if ids.size[slot] == 0:
        return
    entries, mask = ids.entries, len(ids.entries) - 1
    hole = _hash_again(ids, slot) & mask
    while entries[hole] & LOW != slot:
        hole = (hole + 1) & mask
    # The entries that follow move up, unless an entry would then lie before the start of its search.
    position = (hole + 1) & mask
    while entries[position]:
        entry = entries[position]
        if (position - (entry >> 32)) & mask >= (position - hole) & mask:
            entries[hole] = entry
            hole = position
        position = (position + 1) & mask
    entries[hole] = 0
    counts, block = ids.counts, np.int64(ids.offset[slot])
    blocks = (np.int64(ids.size[slot]) + 6) >> 3
    if blocks:
        ids.arena[block] = np.uint64(counts[RUNS + blocks])
        counts[RUNS + blocks] = block
    ids.size[slot] = 0
    ids.offset[slot] = counts[FREE]
    counts[FREE] = slot
    counts[LIVE] -= 1


@inlined
def text_at(ids: Ids, slot: int) -> np.uint64:
    """The first block of a slot's text; 0: it has none."""
    return ids.arena[ids.offset[slot]] if ids.size[slot] > 1 else np.uint64(0)


@inlined
def entry_at(ids: Ids, slot: int) -> int:
    """The entry at which the search for a slot's id begins; `remove` reads this entry first."""
    return ids.entries[_hash_again(ids, slot) & (len(ids.entries) - 1)]


@inner
def warm(ids: Ids, stream: Ints32, text: Bytes, starts: Ints, first: int, last: int, parts: Ints) -> int:
    """Fill `parts` with the hashes of the ids in rows first to last - 1, and read ahead for looking them up.

    A single look-up waits for several reads of memory, one after the other. This loop starts the reads of
    many rows at the same time, so that look-ups soon afterwards find all data in the processor's cache. Call
    it for about `AHEAD` rows. `stream`, `text` and `starts` are columns of `Rows`; `parts`, (rows,) int64,
    is as `hash_of`. The returned number has no meaning: it depends on the reads, so that the compiler keeps
    them.
    """
    mask = len(ids.entries) - 1
    read = np.int64(0)
    for i in range(first, last):
        parts[i] = hash_of(ids, stream[i], text, starts[i], starts[i + 1])
    for i in range(first, last):  # short loops, because a processor sees about 200 instructions ahead
        read ^= ids.entries[parts[i] & mask]
    for i in range(first, last):
        slot = ids.entries[parts[i] & mask] & LOW
        read ^= np.int64(ids.stream[slot]) ^ np.int64(ids.offset[slot]) ^ np.int64(ids.size[slot])
    for i in range(first, last):
        slot = ids.entries[parts[i] & mask] & LOW
        read ^= np.int64(text_at(ids, slot))
    return read


# Snapshots.


class Dump(NamedTuple):
    """Ids that have a slot, ordered by slot; the texts are concatenated."""

    slots: Ints32
    streams: Ints32
    lengths: npt.NDArray[np.int16]
    text: Bytes


def used(ids: Ids) -> Ids:
    """The data that `dump` needs, as views. The hash table is missing, so no id can be found."""
    slots = int(ids.counts[TOP]) + 1
    return ids._replace(
        stream=ids.stream[:slots],
        offset=ids.offset[:slots],
        size=ids.size[:slots],
        entries=ids.entries[:0],
        arena=ids.arena[: int(ids.counts[END])],
    )


def dump(ids: Ids) -> Dump:
    """All ids, for a snapshot, without the key, which is a secret."""
    slots = np.flatnonzero(ids.size[: int(ids.counts[TOP]) + 1]).astype(np.int32)
    lengths = ids.size[slots] - np.int16(1)
    text = np.empty(int(lengths.sum(dtype=np.int64)), dtype=np.uint8)
    _read(ids, slots, text)
    return Dump(slots, ids.stream[slots], lengths, text)


def texts_of(ids: Ids, slots: npt.NDArray[np.int64]) -> list[bytes]:
    """The ids in these slots, as bytes of UTF-8; each slot, (n,) int64, must be in use."""
    lengths = ids.size[slots].astype(np.int64) - 1
    text = np.empty(int(lengths.sum()), dtype=np.uint8)
    _read(ids, slots.astype(np.int32), text)
    joined, ends = text.tobytes(), np.cumsum(lengths).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends)]


def load(dumped: Dump, key: Words | None = None) -> Ids:
    """Ids from a snapshot, with the slots that they had; the key is new, so their hashes differ.

    `key` is the same as in `new_ids`.
    """
    live, top = len(dumped.slots), int(dumped.slots.max(initial=0))
    ids = ensure(new_ids(key), live, len(dumped.text))
    if top >= len(ids.stream):
        rows = capacity_for(top + 1)
        ids = ids._replace(
            stream=grown(ids.stream, rows), offset=grown(ids.offset, rows), size=grown(ids.size, rows)
        )
    _fill(ids, dumped.slots, dumped.streams, dumped.lengths, dumped.text)
    ids.counts[LIVE], ids.counts[TOP] = live, top
    return ids


@kernel
def _read(ids: Ids, slots: Ints32, text: Bytes) -> None:
    """Write the texts of slots to `text`, one after the other."""
    end = 0
    for slot in slots:
        length, block = np.int64(ids.size[slot]) - 1, np.int64(ids.offset[slot])
        word = np.uint64(0)
        for k in range(length):
            if k & 7 == 0:
                word = ids.arena[block + (k >> 3)]
            text[end + k] = word & _LAST
            word >>= _B8
        end += length


@kernel
def _fill(ids: Ids, slots: Ints32, streams: Ints32, lengths: npt.NDArray[np.int16], text: Bytes) -> None:
    """Fill the rows, enter them in the empty table, and link the free slots between them in order."""
    mask = len(ids.entries) - 1
    start, top = 0, 0
    for row in range(len(slots)):
        slot, stop = np.int64(slots[row]), start + np.int64(lengths[row])
        top = max(top, slot)
        _write(ids, slot, streams[row], text, start, stop)
        part = hash_of(ids, streams[row], text, start, stop)
        position = part & mask
        while ids.entries[position]:
            position = (position + 1) & mask
        ids.entries[position] = part << 32 | slot
        start = stop
    for slot in range(top, 0, -1):
        if ids.size[slot] == 0:
            ids.offset[slot] = ids.counts[FREE]
            ids.counts[FREE] = slot
