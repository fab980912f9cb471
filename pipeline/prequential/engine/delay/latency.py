"""Label latencies by stream, the times from instance to label: a histogram, and bins for quantiles.

The bins are those of a DDSketch of 1% accuracy (Masson, Rim and Lee 2019, doi:10.14778/3352063.3352135). They
have equal relative width, so their counts can be added in any order with the same result. Streams need
different ones of the 1,501 bins. So bins are allocated in blocks, when a latency first falls into a block.

Quantiles over a stream's whole life hardly move when labels become slower. So there are also quantiles of the
latest labels, from two *generations*. When the newer generation is old enough, by the stream's clock, and has
enough labels, the older one is emptied and becomes the newer one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled import kernel as loops
from prequential.engine.compiled.kernel import (
    Bytes,
    Floats,
    Ints,
    Ints32,
    copy_of_rows,
    grown,
    inner,
    kernel,
    zeros,
)
from prequential.engine.tables.rows import Key, StateTable

#: Upper bounds in seconds: from immediate labels to those that take a month.
BOUNDS = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, 259200.0, 604800.0, 2592000.0)

BOUNDS_MS: Ints = np.array([round(bound * 1000) for bound in BOUNDS], dtype=np.int64)

#: The bounds' names in messages.
AGES = ("100ms", "1s", "10s", "1m", "5m", "15m", "1h", "6h", "1d", "3d", "7d", "30d")

#: Published quantiles, by their names.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_SHARES = np.array(list(QUANTILES.values()))

#: The relative accuracy of quantiles.
_ACCURACY = 0.01

#: How many times as long the latencies of the next bin are: (1 + a)/(1 - a).
_GAMMA = 1 + 2 * _ACCURACY / (1 - _ACCURACY)

#: Bins by which latencies differ by a factor of 2.
_PER_TWO = 1 / math.log1p(2 * _ACCURACY / (1 - _ACCURACY)) * math.log(2)


def _value_of(key: int) -> float:
    """The latency (ms) that has the same relative distance to both ends of a bin: 2γ^key/(1 + γ)."""
    return math.pow(2.0, key / _PER_TWO) * (2.0 / (1 + _GAMMA))


#: By key from 0 on, the largest whole number of ms in the bin (up to 300 years).
_ENDS: Ints = np.array([int(_GAMMA**key) for key in range(1500)], dtype=np.int64)

#: By key, the latency in ms that represents its bin; the last bin is beyond all ends.
_VALUES: Ints = np.array([round(_value_of(key)) for key in range(len(_ENDS) + 1)], dtype=np.int64)

#: Bins by which latencies differ by a factor of e.
_PER_E = 1 / math.log(_GAMMA)

#: Bins in a block, 2^5. Latencies that differ by a factor of 1,000 need about 350 bins, which are 11 blocks.
_BITS = 5
_BLOCK = 1 << _BITS
_BLOCKS = (len(_VALUES) - 1) // _BLOCK + 1

#: A generation ends when it has at least this age (ms of the stream's clock) and this number of labels. So
#: the latest labels are those of the last five to ten minutes or, if labels are rare, the last 100 to 200.
RECENT_MS, RECENT_LABELS = 5 * 60_000, 100

#: A bin of a generation covers four of the other bins: an accuracy of 4% at a quarter of the memory. That is
#: enough to see whether labels take several times as long.
_MERGED_BITS = 2
_RECENT_BLOCKS = (len(_VALUES) - 1 >> _MERGED_BITS) // _BLOCK + 1

#: By bin of a generation, the latency in ms that represents it: as far from either end, relatively.
_RECENT_VALUES: Ints = np.array(
    [
        max(1, round(2 * _GAMMA ** ((key << _MERGED_BITS) + 3) / (1 + _GAMMA**4)))
        for key in range(len(_ENDS) // 4 + 1)
    ],
    dtype=np.int64,
)

#: The key of latencies of 0 ms, which have no bin.
_ZERO = -1

#: Place in `counters` of the number of blocks in use. Block 0 is never used; its number means none.
_USED = 0


class LatencyStreams(NamedTuple):
    """By stream."""

    counts: Ints  # (streams, bounds + 1): labels by latency, the last beyond all bounds
    total: Ints  # sum of the latencies, ms
    zeros: Ints  # latencies of 0 ms, for which there is no bin
    block: Ints32  # (streams, _BLOCKS): row in `Bins` of each block of keys, 0: none yet
    # The two generations of the latest labels, (streams, 2) each:
    recent: Ints  # labels
    recent_zeros: Ints  # of them, those that took 0 ms
    recent_block: Ints32  # (streams, 2, _RECENT_BLOCKS): as `block`
    newer: Bytes  # which of the two is the newer one
    began: Ints  # the stream's clock at the first label of the newer one


class Bins(NamedTuple):
    """Blocks of bins; rows 1 … `counters[0]` - 1 are in use."""

    counts: Ints  # (blocks, _BLOCK)


class LatencyTables(NamedTuple):
    """The tables of a shard."""

    streams: LatencyStreams
    bins: Bins
    counters: Ints


def new_latencies() -> LatencyTables:
    """Tables without streams; `with_streams` adds rows."""
    counters = np.zeros(1, dtype=np.int64)
    counters[_USED] = 1
    streams = zeros(LatencyStreams, 0, counts=len(BOUNDS) + 1, block=_BLOCKS, recent=2, recent_zeros=2)
    streams = streams._replace(recent_block=np.zeros((0, 2, _RECENT_BLOCKS), dtype=np.int32))
    return LatencyTables(streams, zeros(Bins, 16, counts=_BLOCK), counters)


def tables(latencies: LatencyTables) -> Iterator[StateTable]:
    """What their rows stand for."""
    links = {"block": Key.BINS, "recent_block": Key.BINS}
    yield StateTable("latencies|streams.", Key.STREAM, latencies.streams, links=links)
    yield StateTable("latencies|bins.", Key.BINS, latencies.bins)
    yield StateTable("latencies|counters", Key.NONE, latencies.counters)


def with_streams(latencies: LatencyTables, streams: int) -> LatencyTables:
    """The tables with at least this many streams."""
    return latencies._replace(streams=grown(latencies.streams, streams))


def update(latencies: LatencyTables, streams: Ints32, values: Ints, clocks: Ints) -> LatencyTables:
    """Count latencies (ms) of streams (rows) at their clocks (ms), three arrays of (n,); returns the tables.

    Negative latencies are ignored. The returned tables have more rows if more bins are needed.

    >>> latencies = with_streams(new_latencies(), 1)
    >>> streams, clocks = np.zeros(3, dtype=np.int32), np.zeros(3, dtype=np.int64)
    >>> latencies = update(latencies, streams, np.array([50, 2000, -1]), clocks)
    >>> latencies.streams.counts[0, :4].tolist(), int(latencies.streams.total[0])
    ([1, 0, 1, 0], 2050)
    >>> quantiles(latencies, np.zeros(1, np.int64))
    [{'p50': 50, 'p90': 50, 'p99': 50}]
    """
    start = 0
    while (start := _update(latencies, streams, values, clocks, start)) < len(values):
        latencies = latencies._replace(bins=grown(latencies.bins, len(latencies.bins.counts) + 1))
    return latencies


def quantiles(latencies: LatencyTables, streams: Ints) -> list[dict[str, int]]:
    """The quantiles `QUANTILES` of label latencies (ms), by name, with an accuracy of 1%; {} without labels.

    For each of these streams, (n,) int64 rows, over its whole life.

    References
    ----------
    Masson, Rim, Lee: DDSketch, VLDB 2019, doi:10.14778/3352063.3352135.
    """
    return _quantiles_of(latencies, streams, recent=False)


def recent_quantiles(latencies: LatencyTables, streams: Ints) -> list[dict[str, int]]:
    """As `quantiles`, to 4%, but of the latest labels: those of the last five to ten minutes, or 100 to 200.

    >>> slower = np.repeat([5_000, 30_000], 2_000)  # ms, a label each second
    >>> now = 1_000 * np.arange(len(slower))
    >>> latencies = update(with_streams(new_latencies(), 1), np.zeros(len(now), np.int32), slower, now)
    >>> first = np.zeros(1, np.int64)
    >>> quantiles(latencies, first)[0]["p50"], recent_quantiles(latencies, first)[0]["p50"]
    (4965, 30932)
    """
    return _quantiles_of(latencies, streams, recent=True)


def quantile_columns(latencies: LatencyTables, streams: Ints, *, recent: bool) -> tuple[Ints, Ints]:
    """Quantiles as columns, (n, `QUANTILES`), and the number of labels behind them, (n,)."""
    values = np.zeros((len(streams), len(_SHARES)), dtype=np.int64)
    labels = np.zeros(len(streams), dtype=np.int64)
    _quantiles(latencies, streams, recent, _RECENT_VALUES if recent else _VALUES, _SHARES, values, labels)
    return values, labels


def _quantiles_of(latencies: LatencyTables, streams: Ints, *, recent: bool) -> list[dict[str, int]]:
    values, labels = quantile_columns(latencies, streams, recent=recent)
    return [
        dict(zip(QUANTILES, row)) if count else {} for row, count in zip(values.tolist(), labels.tolist())
    ]


def part(latencies: LatencyTables, streams: Ints) -> LatencyTables:
    """A read-only copy of the data of these streams."""
    table = loops.of_rows(latencies.streams, streams)
    return latencies._replace(streams=table, bins=_bins_of(latencies, table, streams))


def of_streams(latencies: LatencyTables, streams: Sequence[int]) -> LatencyTables:
    """A copy of the data of these streams, in rows from 0 on, in this order."""
    table = copy_of_rows(latencies.streams, np.array(streams, dtype=np.int64))
    bins = _bins_of(latencies, table, slice(None))
    return LatencyTables(table, bins, np.array([len(bins.counts)], dtype=np.int64))


def counts_of(latencies: LatencyTables, stream: int) -> tuple[dict[int, int], dict[int, int]]:
    """The number of labels in each bin, of a stream's whole life and of its latest labels; they are additive.

    >>> latencies, first = with_streams(new_latencies(), 1), np.zeros(3, dtype=np.int32)
    >>> latencies = update(latencies, first, np.array([0, 50, 50]), np.zeros(3, np.int64))
    >>> counts_of(latencies, 0)
    ({-1: 1, 196: 2}, {-1: 1, 49: 2})
    >>> both = of_counts(*({key: 2 * count for key, count in one.items()} for one in counts_of(latencies, 0)))
    >>> quantiles(both, np.zeros(1, np.int64)) == quantiles(latencies, np.zeros(1, np.int64))
    True
    """
    table = latencies.streams
    life = _counted(latencies.bins, table.block[[stream]], int(table.zeros[stream]))
    zeros_of_both = int(table.recent_zeros[stream].sum())
    return life, _counted(latencies.bins, table.recent_block[stream], zeros_of_both)


def _counted(bins: Bins, generations: Ints32, at_once: int) -> dict[int, int]:
    """Labels by bin of these blocks, (generations, blocks), and those that took 0 ms."""
    counts = Counter({_ZERO: at_once})
    for blocks in generations:
        for number in np.flatnonzero(blocks).tolist():
            for bin_number, count in enumerate(bins.counts[blocks[number]].tolist(), number << _BITS):
                counts[bin_number] += count
    return dict(sorted((+counts).items()))


def of_counts(life: Mapping[int, int], recent: Mapping[int, int]) -> LatencyTables:
    """Latencies of one stream from its labels in each bin (`counts_of`), for quantiles only."""
    latencies = with_streams(new_latencies(), 1)
    table = latencies.streams
    table.zeros[0], table.recent_zeros[0, 0] = life.get(_ZERO, 0), recent.get(_ZERO, 0)
    table.counts[0, 0], table.recent[0, 0] = sum(life.values()), sum(recent.values())
    numbers = [
        (blocks, key >> _BITS)
        for blocks, counts in ((table.block[0], life), (table.recent_block[0, 0], recent))
        for key in counts if key != _ZERO
    ]  # fmt: skip
    bins = grown(latencies.bins, len(numbers) + 1)
    for row, (blocks, number) in enumerate(numbers, start=1):
        blocks[number] = blocks[number] or row
    for blocks, counts in ((table.block[0], life), (table.recent_block[0, 0], recent)):
        for key, count in counts.items():
            if key != _ZERO:
                bins.counts[blocks[key >> _BITS], key & (_BLOCK - 1)] += count
    return latencies._replace(bins=bins)


def _bins_of(latencies: LatencyTables, table: LatencyStreams, rows: Ints | slice) -> Bins:
    """Only the blocks of these rows; the rows of `table` get their new places."""
    blocks = table.block[rows], table.recent_block[rows]
    # Block 0 means none, also in the copy.
    used = np.unique(np.concatenate(([0], *(numbers.ravel() for numbers in blocks))))
    table.block[rows], table.recent_block[rows] = (np.searchsorted(used, numbers) for numbers in blocks)
    return copy_of_rows(latencies.bins, used)


@inner
def position(bounds: Ints, value: int) -> int:
    """How many of the ascending bounds are below a value."""
    below = 0
    for bound in bounds:
        below += bound < value
    return below


@inner
def _key(value: int) -> int:
    """The bin of a latency above 0: the first one whose end isn't below it.

    The search only begins at the logarithm, so the logarithm's last digits don't matter.
    """
    key = min(int(math.log(value) * _PER_E), len(_ENDS))
    while key > 0 and _ENDS[key - 1] >= value:
        key -= 1
    while key < len(_ENDS) and _ENDS[key] < value:
        key += 1
    return key


@inner
def _begin_generation(latencies: LatencyTables, stream: int) -> None:
    """Empty the older generation, which becomes the newer one."""
    table, bins = latencies.streams, latencies.bins.counts
    newer = 1 - table.newer[stream]
    table.newer[stream] = newer
    table.recent[stream, newer] = table.recent_zeros[stream, newer] = 0
    for number in range(_RECENT_BLOCKS):
        block = table.recent_block[stream, newer, number]
        if block:
            for column in range(_BLOCK):
                bins[block, column] = 0


@kernel
def _update(latencies: LatencyTables, streams: Ints32, values: Ints, clocks: Ints, start: int) -> int:
    """Count from row `start` on; returns the row that needs more blocks, or the end."""
    table, bins, counters = latencies.streams, latencies.bins.counts, latencies.counters
    for i in range(start, len(values)):
        value = values[i]
        if value < 0:
            continue
        stream = streams[i]
        newer = table.newer[stream]
        if table.recent[stream, newer] >= RECENT_LABELS and clocks[i] - table.began[stream] >= RECENT_MS:
            _begin_generation(latencies, stream)
            newer = table.newer[stream]
        if table.recent[stream, newer] == 0:
            table.began[stream] = clocks[i]
        if value:
            key = _key(value)
            merged = key >> _MERGED_BITS
            block = table.block[stream, key >> _BITS]
            recent = table.recent_block[stream, newer, merged >> _BITS]
            if counters[_USED] + (block == 0) + (recent == 0) > len(bins):
                return i
            if block == 0:
                block = counters[_USED]
                counters[_USED] += 1
                table.block[stream, key >> _BITS] = block
            if recent == 0:
                recent = counters[_USED]
                counters[_USED] += 1
                table.recent_block[stream, newer, merged >> _BITS] = recent
            bins[block, key & (_BLOCK - 1)] += 1
            bins[recent, merged & (_BLOCK - 1)] += 1
        else:
            table.zeros[stream] += 1
            table.recent_zeros[stream, newer] += 1
        table.recent[stream, newer] += 1
        table.counts[stream, position(BOUNDS_MS, value)] += 1
        table.total[stream] += value
    return len(values)


@kernel
def _quantiles(
    latencies: LatencyTables, streams: Ints, recent: bool, represented: Ints, shares: Floats, values: Ints,
    labels: Ints,
) -> None:  # fmt: skip
    """Put the quantile of each share, ascending, into `values`, and the number of labels into `labels`.

    They are those of the whole life or, if `recent`, of both generations together. `represented` are the
    latencies that represent bins.
    """
    table = latencies.streams
    for i in range(len(streams)):
        stream = streams[i]
        if recent:
            labels[i] = table.recent[stream, 0] + table.recent[stream, 1]
            at_once = table.recent_zeros[stream, 0] + table.recent_zeros[stream, 1]
            older, newer = table.recent_block[stream, 0], table.recent_block[stream, 1]
        else:
            labels[i], at_once = 0, table.zeros[stream]
            for bound in range(table.counts.shape[1]):
                labels[i] += table.counts[stream, bound]
            older = newer = table.block[stream]
        bins = latencies.bins.counts
        _put_quantiles(bins, older, newer, recent, at_once, labels[i], represented, shares, values[i])


@inner
def _put_quantiles(
    bins: Ints, blocks: Ints32, other_blocks: Ints32, both: bool, running: int, labels: int,
    represented: Ints,
    shares: Floats, values: Ints,
) -> None:  # fmt: skip
    """Put quantiles of labels in `blocks` and, if `both`, in `other_blocks`; `running`: labels of 0 ms."""
    quantile = 0
    while quantile < len(shares) and running > shares[quantile] * (labels - 1):
        values[quantile] = 0
        quantile += 1
    for number in range(len(blocks)):
        first, second = blocks[number], other_blocks[number] if both else 0
        if first == 0 and second == 0:
            continue
        for i in range(_BLOCK):
            running += bins[first, i] if first else 0
            running += bins[second, i] if second else 0
            while quantile < len(shares) and running > shares[quantile] * (labels - 1):
                values[quantile] = represented[(number << _BITS) + i]
                quantile += 1
