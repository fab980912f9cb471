"""Label latencies by stream, how long after its instance a label came: a histogram, and bins for quantiles.

The bins are those of a DDSketch of 1 % accuracy (Masson, Rim and Lee 2019, doi:10.14778/3352063.3352135): of
equal relative width, so they can be added up, in any order the same. Streams differ in which of 1,501 bins
they need, so bins lie in blocks that are allocated when a latency first falls into one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from ddsketch.mapping import LogarithmicMapping
from prequential.core.kernel import Ints, Ints32, grown, inner, kernel, of_rows, taken

#: Upper bounds in seconds: from immediate labels to those that take a month.
BOUNDS = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, 259200.0, 604800.0, 2592000.0)

BOUNDS_MS: Ints = np.array([round(bound * 1000) for bound in BOUNDS], dtype=np.int64)

#: The bounds' names in messages.
AGES = ("100ms", "1s", "10s", "1m", "5m", "15m", "1h", "6h", "1d", "3d", "7d", "30d")

#: Published quantiles, by their names.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_SHARES = np.array(list(QUANTILES.values()))

#: Quantiles are right to 1 %.
_MAPPING = LogarithmicMapping(0.01)

#: By key from 0 on, the largest whole number of ms in the bin (up to 300 years).
_ENDS: Ints = np.array([int(_MAPPING.gamma**key) for key in range(1500)], dtype=np.int64)

#: By key, the latency in ms that stands for those in its bin; the last bin is beyond all ends.
_VALUES: Ints = np.array([round(_MAPPING.value(key)) for key in range(len(_ENDS) + 1)], dtype=np.int64)

#: Bins by which latencies differ by a factor of e.
_PER_E = 1 / math.log(_MAPPING.gamma)

#: Bins in a block, 2^5: some 350 bins, that is 11 blocks, hold latencies that differ by a factor of 1,000.
_BITS = 5
_BLOCK = 1 << _BITS
_BLOCKS = (len(_VALUES) - 1) // _BLOCK + 1

#: Counters: blocks in use; the first one is never used, its number stands for none.
_USED = 0


class Streams(NamedTuple):
    """By stream."""

    counts: Ints  # (streams, bounds + 1): labels by latency, the last beyond all bounds
    total: Ints  # sum of the latencies, ms
    zeros: Ints  # latencies of 0 ms, for which there is no bin
    block: Ints32  # (streams, _BLOCKS): row in `Bins` of each block of keys, 0: none yet


class Bins(NamedTuple):
    """Blocks of bins; rows 1 … `counters[0]` - 1 are in use."""

    counts: Ints  # (blocks, _BLOCK)


class Latencies(NamedTuple):
    """The tables of a shard."""

    streams: Streams
    bins: Bins
    counters: Ints


def new_latencies() -> Latencies:
    """Empty tables."""
    counters = np.zeros(1, dtype=np.int64)
    counters[_USED] = 1
    streams = Streams(
        np.zeros((0, len(BOUNDS) + 1), dtype=np.int64), np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=np.int64), np.zeros((0, _BLOCKS), dtype=np.int32),
    )  # fmt: skip
    return Latencies(streams, Bins(np.zeros((16, _BLOCK), dtype=np.int64)), counters)


def with_streams(latencies: Latencies, streams: int) -> Latencies:
    """The tables with at least so many streams."""
    return latencies._replace(streams=grown(latencies.streams, streams))


def update(latencies: Latencies, streams: Ints32, values: Ints) -> Latencies:
    """Count latencies (ms) of streams (rows), two arrays of equal length; negative ones stand for nothing.

    >>> latencies = with_streams(new_latencies(), 1)
    >>> latencies = update(latencies, np.zeros(3, dtype=np.int32), np.array([50, 2000, -1]))
    >>> latencies.streams.counts[0, :4].tolist(), int(latencies.streams.total[0]), quantiles(latencies, 0)
    ([1, 0, 1, 0], 2050, {'p50': 50, 'p90': 50, 'p99': 50})
    """
    start = 0
    while (start := _update(latencies, streams, values, start)) < len(values):
        latencies = latencies._replace(bins=grown(latencies.bins, len(latencies.bins.counts) + 1))
    return latencies


def quantiles(latencies: Latencies, stream: int) -> dict[str, int]:
    """The latency in ms that a share of `QUANTILES` of labels had at most, to 1 %; {} without labels."""
    found = np.zeros(len(_SHARES), dtype=np.int64)
    labels = _quantiles(latencies, stream, _SHARES, found)
    return dict(zip(QUANTILES, found.tolist())) if labels else {}


def part(latencies: Latencies, streams: Ints) -> Latencies:
    """A copy of what is known of these streams, to be read only."""
    own = of_rows(latencies.streams, streams)
    used = np.union1d([0], own.block[streams])  # none is none of the copy's, too
    own.block[streams] = np.searchsorted(used, own.block[streams])
    return latencies._replace(streams=own, bins=taken(latencies.bins, used))


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

    The logarithm is where the search begins only, so its digits decide nothing.
    """
    key = min(int(math.log(value) * _PER_E), len(_ENDS))
    while key > 0 and _ENDS[key - 1] >= value:
        key -= 1
    while key < len(_ENDS) and _ENDS[key] < value:
        key += 1
    return key


@kernel
def _update(latencies: Latencies, streams: Ints32, values: Ints, start: int) -> int:
    """Count from row `start` on; returns the row before which blocks must be made, or the end."""
    table, bins, counters = latencies.streams, latencies.bins.counts, latencies.counters
    for i in range(start, len(values)):
        value = values[i]
        if value < 0:
            continue
        stream = streams[i]
        if value:
            key = _key(value)
            block = table.block[stream, key >> _BITS]
            if block == 0:
                block = counters[_USED]
                if block == len(bins):
                    return i
                counters[_USED] += 1
                table.block[stream, key >> _BITS] = block
            bins[block, key & (_BLOCK - 1)] += 1
        else:
            table.zeros[stream] += 1
        table.counts[stream, position(BOUNDS_MS, value)] += 1
        table.total[stream] += value
    return len(values)


@kernel
def _quantiles(latencies: Latencies, stream: int, shares: np.ndarray, found: Ints) -> int:
    """Put the quantile of each share, ascending, into `found`; returns the number of labels."""
    table, bins = latencies.streams, latencies.bins.counts
    labels = 0
    for bound in range(table.counts.shape[1]):
        labels += table.counts[stream, bound]
    zeros = table.zeros[stream]
    quantile, running = 0, 0
    while quantile < len(shares) and shares[quantile] * (labels - 1) < zeros:
        found[quantile] = 0
        quantile += 1
    for key in range(len(_VALUES)):
        block = table.block[stream, key >> _BITS]
        if block:
            running += bins[block, key & (_BLOCK - 1)]
            while quantile < len(shares) and running > shares[quantile] * (labels - 1) - zeros:
                found[quantile] = _VALUES[key]
                quantile += 1
    return labels
