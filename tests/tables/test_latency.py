"""Latencies, against all of them sorted, and the class that was there before."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from oracle_coverage import ACCURACIES, Latest, as_said, quantiles
from prequential.engine.delay import latency as engine
from prequential.engine.delay.latency import LatencyTables, new_latencies, with_streams
from test_coverage import assert_same, digest_of

STREAMS = 3

BOUNDS_S = (0.1, 1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 259_200, 604_800, 2_592_000)


def lived_quantiles(latencies: LatencyTables, stream: int) -> dict[str, int]:
    return engine.quantiles(latencies, np.array([stream]))[0]


def recent_quantiles(latencies: LatencyTables, stream: int) -> dict[str, int]:
    return engine.recent_quantiles(latencies, np.array([stream]))[0]


def values_of(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Streams, latencies from none to a thousand years, and clocks some seconds apart."""
    rng = random.Random(seed)
    streams = [rng.randrange(STREAMS) for _ in range(rows)]
    values = [rng.choice((-1, 0, 1, 100, 101, 3_600_000, int(10 ** (rng.random() * 13.5)))) for _ in streams]
    clocks = np.cumsum([rng.randrange(4_000) for _ in streams])
    return np.array(streams, dtype=np.int32), np.array(values, dtype=np.int64), clocks


def run(streams: np.ndarray, values: np.ndarray, clocks: np.ndarray, cuts: list[int]) -> LatencyTables:
    latencies, before = with_streams(new_latencies(), STREAMS), 0
    for cut in [*cuts, len(values)]:
        latencies = engine.update(latencies, streams[before:cut], values[before:cut], clocks[before:cut])
        before = cut
    return latencies


def test_bins_are_those_of_snapshots() -> None:
    """What is in a snapshot counts bins by their number: these are DDSketch's (version 3.0.1, 1%)."""
    names = ("_ENDS", "_VALUES", "_RECENT_VALUES")
    digests = [hashlib.sha256(getattr(engine, name).tobytes()).hexdigest()[:16] for name in names]
    assert digests == ["a6537280abe033cd", "3617917fbc85076d", "44f27a507bb97051"]


@pytest.mark.parametrize("seed", range(6))
def test_quantiles_are_right_to_one_percent(seed: int) -> None:
    streams, values, clocks = values_of(seed, 2_000)
    values = np.minimum(values, 10**13)  # what is above stands for 300 years
    latencies = run(streams, values, clocks, [])
    for stream in range(STREAMS):
        own = sorted(int(value) for value in values[streams == stream] if value >= 0)
        assert lived_quantiles(latencies, stream) == as_said(quantiles(own), ACCURACIES["label_latency_ms"])
        assert latencies.streams.total[stream] == sum(own)
        limits = [0.0, *BOUNDS_S, float("inf")]
        for bound, count in enumerate(latencies.streams.counts[stream].tolist()):
            low, high = 1_000 * limits[bound], 1_000 * limits[bound + 1]
            assert count == sum(low < value <= high or (bound == 0 and value == 0) for value in own)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_recent_quantiles_are_those_of_the_latest_labels(seed: int) -> None:
    """After every label: of the last two generations, in plain lists."""
    streams, values, clocks = values_of(seed, 3_000)
    values = np.minimum(values, 10**13)
    latencies, latest = with_streams(new_latencies(), STREAMS), [Latest() for _ in range(STREAMS)]
    generations = 0
    for i in range(len(values)):
        one, stream = slice(i, i + 1), int(streams[i])
        latencies = engine.update(latencies, streams[one], values[one], clocks[one])
        if values[i] >= 0:
            before = latest[stream].older
            latest[stream].add(int(values[i]), int(clocks[i]))
            generations += latest[stream].older is not before
        expected = as_said(quantiles(latest[stream].latencies()), ACCURACIES["recent_label_latency_ms"])
        assert recent_quantiles(latencies, stream) == expected
    assert generations > 10


def test_without_labels_there_are_none() -> None:
    latencies = run(np.zeros(1, dtype=np.int32), np.array([-1]), np.zeros(1, dtype=np.int64), [])
    assert lived_quantiles(latencies, 0) == recent_quantiles(latencies, 0) == {}


def test_a_copy_of_some_streams_says_the_same() -> None:
    latencies = run(*values_of(1, 2_000), [])
    some = np.array([0, 2])
    copied = engine.part(latencies, some)
    latencies = engine.update(latencies, *(column[:100] for column in values_of(2, 100)))
    before = run(*values_of(1, 2_000), [])
    for stream in some.tolist():
        assert lived_quantiles(copied, stream) == lived_quantiles(before, stream)
        assert recent_quantiles(copied, stream) == recent_quantiles(before, stream)
    assert recent_quantiles(copied, 1) == {}


def test_cuts_change_no_bit() -> None:
    for seed in range(4):
        rows = values_of(seed, 3_000)
        cuts = sorted(random.Random(seed).sample(range(3_000), 100))
        assert_same(run(*rows, []), run(*rows, cuts))


def test_ten_thousand_usual_streams_take_little_memory() -> None:
    """Latencies that differ by a factor of 100: up to 9 blocks of 256 bytes, and 3 for the latest labels."""
    latencies = with_streams(new_latencies(), 10_000)
    streams = np.repeat(np.arange(10_000, dtype=np.int32), 20)
    values = (np.exp(np.random.default_rng(1).uniform(0, np.log(100), len(streams))) * 1_000).astype(np.int64)
    latencies = engine.update(latencies, streams, values, np.zeros(len(streams), dtype=np.int64))
    used = int(latencies.counters[0])
    assert used < 12 * 10_000
    assert latencies.bins.counts[:used].nbytes + sum(column.nbytes for column in latencies.streams) < 40e6


def digest() -> str:
    """Of a fixed script."""
    latencies = run(*values_of(1, 2_000), [500])
    asked = lived_quantiles, recent_quantiles
    return digest_of(latencies, said=[of(latencies, stream) for stream in range(STREAMS) for of in asked])
