"""Settled instances in at most 40 bytes, and the ids of those that were settled and forgotten.

Compact are instances of classification with one prediction, also where the label has been overridden or
withdrawn. All others stay in the other tables of the store, in 126 bytes or more:

- with a second prediction, stored probabilities, a model's version, segments, a value, or a propensity;
- of streams with stages at an age, or with estimates; with a class by `label_at_horizon`;
- with an instance record that has a version, or with times 49 days apart;
- with other classes than the first 20 of their stream;
- a few that find no place in the index or in a chunk.

A row has a 64-bit hash (SipHash with a fixed key) in place of the stream's name and the id: ids with the same
hash would be one instance. The chance that this happens at all among 10 million instances is 3 in a million,
and for one new id it is 5 in 10^13.

The rows of a stream are in order of their deadlines, in chunks, so that the first ones end first. The index
has two buckets of entries for each hash.

The table has a fixed number of hashes, each with the time until which it counts. A hash has eight possible
places, which those have whose times end last. The table is state: its hashes follow from the records alone,
independent of the order in which instances that end together are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.ids import Ids, hash_of_slot, siphash
from prequential.engine.compiled.kernel import (
    Bytes,
    Ints,
    Ints32,
    Words,
    Words32,
    as_records,
    columns_of,
    grown,
    inlined,
    inner,
    kernel,
    records,
)

#: Rows of a chunk: a stream has one that isn't full. Entries of a bucket: a line of the processor's cache.
CHUNK, WAYS = 64, 16

#: An entry is 7 bits of the hash, then 25 bits of the row.
_ROW_BITS = 25
_ROW = (1 << _ROW_BITS) - 1

#: The lower 32 bits of a number, and of those that are minus a chunk's first one, the most.
LOW, _MOST = (1 << 32) - 1, (1 << 8) - 1

#: Maximum share of the index in use: 9/10. It grows by 1/4: then it has 4.4 to 5.6 bytes per instance, and a
#: row 34.
_SHARE, _GROWTH = (9, 10), 4

#: Positions in `Compact.counts`. LIVE: number of instances; FREE: first free chunk (0: none); SPARE: number
#: of free chunks; END: number of chunks that have been used, with chunk 0, which stands for none.
LIVE, FREE, SPARE, END = range(4)

_R32 = np.uint64(32)
_LOW = np.uint64(LOW)


class CompactRows(NamedTuple):
    """By row: an instance with one prediction, whose label is the first one."""

    hash: Words  # `engine.tables.compact.key_of`; 0: the row isn't an instance's, or no longer
    deadline: Words32  # low 32 bits: below 2^32 ms after the stream's wheel
    lag: Words32  # from t1 to the deadline, ms
    latency: Words32  # from t0 to t1, ms
    age: Words32  # from the prediction's time to t1, ms
    codes: Words32  # classes, see `join.compacting`
    outcome: Words32  # low 32 bits
    completed: Bytes  # this and the model: minus that of the chunk
    model: Bytes


class CompactChunks(NamedTuple):
    """By chunk: from which its rows count, and the stream's next chunk; of a free one, the next free one."""

    completed: Ints
    model: Ints32
    next: Ints32


class CompactEnds(NamedTuple):
    """By stream: its first row, and the last one; 0: it has none."""

    first: Ints32
    last: Ints32


class Compact(NamedTuple):
    """The rows, and how they are found."""

    rows: CompactRows
    chunks: CompactChunks
    ends: CompactEnds
    entries: Words32  # of buckets, from their beginnings on; 0: none
    counts: Ints


def new_compact() -> Compact:
    """A table without instances, and without room for them."""
    return Compact(
        records(CompactRows, CHUNK, packed=True), records(CompactChunks, 1, packed=True),
        records(CompactEnds, 1), np.zeros(WAYS, np.uint32), np.array([0, 0, 0, 1]),
    )  # fmt: skip


def ensure_compact(compact: Compact, streams: int, more: int) -> Compact:
    """The table with room for so many streams, and for about as many more rows."""
    compact = compact._replace(ends=grown(compact.ends, streams))
    live, _, spare, end = compact.counts.tolist()
    chunks = min(end + max(0, more // CHUNK + 1 - spare), (_ROW + 1) // CHUNK)
    if chunks > len(compact.chunks):
        compact = compact._replace(
            rows=_longer(compact.rows, chunks * CHUNK), chunks=_longer(compact.chunks, chunks)
        )
    part, whole = _SHARE
    buckets = (live + more) * whole // (part * WAYS) + 1
    return _with_index(compact, buckets) if buckets * WAYS > len(compact.entries) else compact


def _with_index(compact: Compact, buckets: int) -> Compact:
    """The table with an index of at least so many buckets, and of as many as it needs."""
    while True:
        buckets += buckets // _GROWTH + 1
        compact = compact._replace(entries=np.zeros(buckets * WAYS, np.uint32))
        if _enter_all(compact):
            return compact


def _longer(table: Any, rows: int) -> Any:
    """The table with so many rows, which is the beginning of a larger array.

    The array is at least doubled when it is full, so that rows are rarely copied. The system gives memory
    only to the pages that have been written, those of used rows.
    """
    whole = table.base
    if rows > len(whole):
        whole = as_records(np.zeros(max(rows, 2 * len(whole)), whole.dtype))
        whole[: len(table)] = table
    return whole[:rows]


# ---- the index


@inlined
def _bucket(compact: Compact, key: np.uint64, side: int) -> int:
    """The first entry of one of a hash's two buckets."""
    half = np.int64(key & _LOW) if side else np.int64(key >> _R32)
    return WAYS * ((half * (len(compact.entries) // WAYS)) >> 32)


@inlined
def _part(key: np.uint64) -> int:
    """The bits of a hash in an entry."""
    return np.int64(key >> _R32) & 0x7F


@inner
def find_compact(compact: Compact, key: np.uint64) -> int:
    """The row of the instance with this hash; 0: it has none."""
    part = _part(key)
    for side in range(2):
        start = _bucket(compact, key, side)
        for slot in range(start, start + WAYS):
            entry = np.int64(compact.entries[slot])
            if not entry:
                break
            if entry >> _ROW_BITS == part and compact.rows.hash[entry & _ROW] == key:
                return entry & _ROW
    return 0


@inner
def _in_bucket(compact: Compact, start: int) -> int:
    """How many entries of a bucket are in use."""
    count = 0
    while count < WAYS and compact.entries[start + count]:
        count += 1
    return count


@inner
def enter_row(compact: Compact, row: int) -> bool:
    """Put a row into the index; False if both buckets are full."""
    key = compact.rows.hash[row]
    start, second_start = _bucket(compact, key, 0), _bucket(compact, key, 1)
    count, second_count = _in_bucket(compact, start), _in_bucket(compact, second_start)
    if second_count < count:
        start, count = second_start, second_count
    if count == WAYS:
        return False
    compact.entries[start + count] = (_part(key) << _ROW_BITS) | row
    return True


@kernel
def _enter_all(compact: Compact) -> bool:
    """Put all rows into an empty index; False if it has no room for one of them."""
    for row in range(CHUNK, compact.counts[END] * CHUNK):
        if compact.rows.hash[row] and not enter_row(compact, row):
            return False
    return True


@inner
def remove_compact(compact: Compact, row: int) -> None:
    """Take an instance out; its row stays until it is the stream's first one."""
    key = compact.rows.hash[row]
    for side in range(2):
        start = _bucket(compact, key, side)
        count = _in_bucket(compact, start)
        for slot in range(start, start + count):
            if np.int64(compact.entries[slot]) & _ROW == row:
                compact.entries[slot] = compact.entries[start + count - 1]
                compact.entries[start + count - 1] = 0
                break
    compact.rows.hash[row] = 0
    compact.counts[LIVE] -= 1


# ---- the rows of a stream


@inlined
def deadline_of(compact: Compact, row: int, wheel: int) -> int:
    """A row's deadline (ms); `wheel` is its stream's, which isn't later."""
    return wheel + ((np.int64(compact.rows.deadline[row]) - wheel) & LOW)


@inner
def next_deadline(compact: Compact, stream: int, wheel: int, never: int) -> int:
    """The deadline of a stream's first row; `never` if it has none."""
    first = compact.ends.first[stream]
    return deadline_of(compact, first, wheel) if first else never


@inner
def add_row(
    compact: Compact, stream: int, key: np.uint64, deadline: int, wheel: int, completed: int, model: int,
    begins: bool,
) -> int:  # fmt: skip
    """A new row after a stream's last one, with these numbers; 0 if they don't fit, or there is no room.

    It isn't in the index yet. With `begins` it begins a chunk, in which any model fits.
    """
    rows, chunks, ends = compact.rows, compact.chunks, compact.ends
    last = np.int64(ends.last[stream])
    if deadline - wheel > LOW or (last and deadline_of(compact, last, wheel) > deadline):
        return 0
    row, chunk = last + 1, last // CHUNK
    # Where others have been completed meanwhile, the rest of a chunk remains unused.
    begins |= not last or row % CHUNK == 0 or completed - chunks.completed[chunk] > _MOST
    if begins:
        chunk = _take_chunk(compact)
        row = chunk * CHUNK
        if not chunk:
            return 0
        chunks.completed[chunk], chunks.model[chunk] = completed, model - _MOST // 2
        if last:
            chunks.next[last // CHUNK] = chunk
        else:
            ends.first[stream] = row
    completed_offset, model_offset = completed - chunks.completed[chunk], model - chunks.model[chunk]
    if min(completed_offset, model_offset) < 0 or model_offset > _MOST:
        return 0
    ends.last[stream] = row
    rows.hash[row], rows.deadline[row] = key, deadline & LOW
    rows.completed[row], rows.model[row] = completed_offset, model_offset
    compact.counts[LIVE] += 1
    return row


@inner
def _take_chunk(compact: Compact) -> int:
    """Take a chunk, from the free ones or after those that have been used; 0: there is none."""
    counts, chunk = compact.counts, compact.counts[FREE]
    if chunk:
        counts[FREE] = compact.chunks.next[chunk]
        counts[SPARE] -= 1
    elif counts[END] < len(compact.chunks):
        chunk = counts[END]
        counts[END] += 1
    compact.chunks.next[chunk] = 0
    return chunk


@inner
def drop_first(compact: Compact, stream: int) -> None:
    """Go on from a stream's first row, which is no instance's any more, to the next one."""
    ends, chunks, counts = compact.ends, compact.chunks, compact.counts
    row = np.int64(ends.first[stream])
    chunk, is_last = row // CHUNK, row == ends.last[stream]
    ends.first[stream] = row + 1
    if is_last or (row + 1) % CHUNK == 0:
        ends.first[stream] = chunks.next[chunk] * CHUNK
        chunks.next[chunk] = counts[FREE]
        counts[FREE] = chunk
        counts[SPARE] += 1
    if is_last:
        ends.first[stream] = ends.last[stream] = 0


# ---- snapshots


def used_compact(compact: Compact) -> Compact:
    """The data that `dump_compact` needs, as views; no instance can be found in it."""
    end = int(compact.counts[END])
    rows: Any = compact.rows
    chunks: Any = compact.chunks
    return compact._replace(rows=rows[: end * CHUNK], chunks=chunks[:end], entries=compact.entries[:0])


def dump_compact(compact: Compact) -> dict[str, Any]:
    """All instances by stream and deadline, as columns of a snapshot, with complete numbers.

    The table may be a copy of `used_compact`.
    """
    tables: Any = compact
    compact = Compact(*(as_records(table) if table.dtype.names else table for table in tables))
    order, streams = np.empty((2, compact.counts[LIVE]), np.int64)
    _list_rows(compact, order, streams)
    columns = {name: column[order] for name, column in columns_of(compact.rows).items()}
    for name in ("completed", "model"):
        columns[name] = columns_of(compact.chunks)[name][order // CHUNK] + columns[name]
    return {"stream": streams.astype(np.int32), **columns}


@kernel
def _list_rows(compact: Compact, order: Ints, streams: Ints) -> None:
    """Write the rows of all instances, and their streams."""
    count = 0
    for stream in range(len(compact.ends)):
        row, last = np.int64(compact.ends.first[stream]), np.int64(compact.ends.last[stream])
        while row:
            if compact.rows.hash[row]:
                order[count], streams[count] = row, stream
                count += 1
            if row == last:
                break
            row += 1
            if row % CHUNK == 0:
                row = np.int64(compact.chunks.next[row // CHUNK - 1]) * CHUNK


def load_compact(columns: Mapping[str, Any], wheel: Ints, next_due: Ints) -> Compact:
    """The instances that `dump_compact` has given; the streams' `next_due` is updated."""
    count = len(columns["stream"])
    dumped: Any = records(CompactRows, count, packed=True)
    for name in ("hash", "deadline", "lag", "latency", "age", "codes", "outcome"):
        dumped[name] = columns[name]
    stream, completed, model = (columns[name].astype(np.int64) for name in ("stream", "completed", "model"))
    room = count + CHUNK * len(np.unique(stream))
    compact = ensure_compact(new_compact(), len(wheel), room)
    while not _fill(compact, dumped, stream, completed, model, wheel, next_due):
        room *= 2  # it needs more chunks than before
        compact = ensure_compact(new_compact(), len(wheel), room)
    part, whole = _SHARE
    return _with_index(compact, count * whole // (part * WAYS))


@kernel
def _fill(
    compact: Compact, dumped: CompactRows, stream: Ints, completed: Ints, model: Ints, wheel: Ints,
    next_due: Ints,
) -> bool:  # fmt: skip
    """Add the rows of a snapshot; False if there is no room for one of them."""
    rows = compact.rows
    for i in range(len(stream)):
        its = stream[i]
        deadline = wheel[its] + ((np.int64(dumped.deadline[i]) - wheel[its]) & LOW)
        next_due[its] = min(next_due[its], deadline)
        row = 0
        for begins in range(2):
            if not row:
                row = add_row(
                    compact, its, dumped.hash[i], deadline, wheel[its], completed[i], model[i], begins > 0
                )
        if not row:
            return False
        rows.lag[row], rows.latency[row], rows.age[row] = dumped.lag[i], dumped.latency[i], dumped.age[i]
        rows.codes[row], rows.outcome[row] = dumped.codes[i], dumped.outcome[i]
    return True


#: Hashes that a shard remembers (1 MiB), and places that one hash may have.
_PLACES, _WAYS = 1 << 16, 8

#: Key of the hashes. It is the same in every process, since snapshots hold them.
_KEY: Any = np.uint64(0x736574746C656421), np.uint64(0x6B6E6F776E206964)


class Settled(NamedTuple):
    """By place: an instance that was settled and is forgotten."""

    hash: Words  # of its id and its stream's name; 0: the place is free
    until: Ints  # the stream's clock (ms) up to which a label of the instance is known as such
    stream: Ints32


def new_settled() -> Settled:
    """A memory of no instances, which has all places that there will be."""
    return records(Settled, _PLACES)


def dump(settled: Settled) -> dict[str, Any]:
    """The instances that are remembered, and their places, as columns of a snapshot."""
    places = np.flatnonzero(settled.hash)
    return {"place": places, **{name: column[places] for name, column in columns_of(settled).items()}}


def load(columns: Mapping[str, Any]) -> Settled:
    """A memory with the instances that `dump` has given, in the places that they had."""
    settled = new_settled()
    for name, column in columns_of(settled).items():
        column[columns["place"]] = columns[name]
    return settled


@inner
def key_of_slot(ids: Ids, slot: int, name: int) -> np.uint64:
    """The hash of the id in a slot and of its stream's name, whose hash is `name`."""
    return hash_of_slot(ids, slot, _KEY, name)


@inner
def key_of(name: int, text: Bytes, start: int, stop: int) -> np.uint64:
    """The hash, as that of `key_of_slot`, of the id `text[start:stop]`."""
    return siphash(_KEY, name, text, start, stop)


@inner
def remember_settled(settled: Settled, key: np.uint64, stream: int, until: int) -> None:
    """Note that the instance with this hash, of a stream (code), was settled."""
    first = _WAYS * (np.int64(key >> np.uint64(32)) % (len(settled.hash) // _WAYS))
    slot = first
    for candidate in range(first, first + _WAYS):
        if settled.hash[candidate] == key:
            slot = candidate
            break
        if _is_before(settled, candidate, settled.until[slot], settled.hash[slot]):
            slot = candidate
    if settled.hash[slot] != key and not _is_before(settled, slot, until, key):
        return
    settled.hash[slot], settled.until[slot], settled.stream[slot] = key, until, stream


@inlined
def _is_before(settled: Settled, slot: int, until: int, key: np.uint64) -> bool:
    """Whether a place's time ends before this one; of equal times, the smaller hash is before."""
    return settled.until[slot] < until or (settled.until[slot] == until and settled.hash[slot] < key)


@inner
def was_settled(settled: Settled, key: np.uint64, clock: int) -> bool:
    """Whether the instance with this hash was settled within the last horizon."""
    first = _WAYS * (np.int64(key >> np.uint64(32)) % (len(settled.hash) // _WAYS))
    for slot in range(first, first + _WAYS):
        if settled.hash[slot] == key:
            return settled.until[slot] >= clock
    return False
