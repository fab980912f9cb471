"""Latencies, against all of them sorted, and the class that was there before."""

from __future__ import annotations

import random

import numpy as np
import pytest
from prequential.core import latency as engine
from prequential.core.latency import Latencies, new_latencies, with_streams
from test_coverage import assert_same, digest_of, without_compiler

STREAMS = 3

BOUNDS_S = (0.1, 1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 259_200, 604_800, 2_592_000)


def values_of(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Streams, and latencies from none to a thousand years."""
    rng = random.Random(seed)
    streams = [rng.randrange(STREAMS) for _ in range(rows)]
    values = [rng.choice((-1, 0, 1, 100, 101, 3_600_000, int(10 ** (rng.random() * 13.5)))) for _ in streams]
    return np.array(streams, dtype=np.int32), np.array(values, dtype=np.int64)


def run(streams: np.ndarray, values: np.ndarray, cuts: list[int]) -> Latencies:
    latencies, before = with_streams(new_latencies(), STREAMS), 0
    for cut in [*cuts, len(values)]:
        latencies = engine.update(latencies, streams[before:cut], values[before:cut])
        before = cut
    return latencies


@pytest.mark.parametrize("seed", range(6))
def test_quantiles_are_right_to_one_percent(seed: int) -> None:
    streams, values = values_of(seed, 2_000)
    values = np.minimum(values, 10**13)  # what is above stands for 300 years
    latencies = run(streams, values, [])
    for stream in range(STREAMS):
        own = sorted(int(value) for value in values[streams == stream] if value >= 0)
        quantiles = engine.quantiles(latencies, stream)
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            assert quantiles[name] == pytest.approx(own[int(q * (len(own) - 1))], rel=0.0101, abs=0.5)
        assert latencies.streams.total[stream] == sum(own)
        limits = [0.0, *BOUNDS_S, float("inf")]
        for bound, count in enumerate(latencies.streams.counts[stream].tolist()):
            low, high = 1_000 * limits[bound], 1_000 * limits[bound + 1]
            assert count == sum(low < value <= high or (bound == 0 and value == 0) for value in own)


def test_without_labels_there_are_none() -> None:
    latencies = run(np.zeros(1, dtype=np.int32), np.array([-1]), [])
    assert engine.quantiles(latencies, 0) == {}


def test_cuts_change_no_bit() -> None:
    for seed in range(4):
        streams, values = values_of(seed, 3_000)
        cuts = sorted(random.Random(seed).sample(range(3_000), 100))
        assert_same(run(streams, values, []), run(streams, values, cuts))


def test_ten_thousand_usual_streams_take_little_memory() -> None:
    """Latencies that differ by a factor of 100: up to 9 blocks of 256 bytes."""
    latencies = with_streams(new_latencies(), 10_000)
    streams = np.repeat(np.arange(10_000, dtype=np.int32), 20)
    values = (np.exp(np.random.default_rng(1).uniform(0, np.log(100), len(streams))) * 1_000).astype(np.int64)
    latencies = engine.update(latencies, streams, values)
    used = int(latencies.counters[0])
    assert used < 9 * 10_000
    assert latencies.bins.counts[:used].nbytes + sum(column.nbytes for column in latencies.streams) < 30e6


def digest() -> str:
    """Of a fixed script."""
    latencies = run(*values_of(1, 2_000), [500])
    return digest_of(latencies, said=[engine.quantiles(latencies, stream) for stream in range(STREAMS)])


def test_compiled_and_as_plain_python_it_has_the_same_bits() -> None:
    assert without_compiler("test_latency") == digest()
