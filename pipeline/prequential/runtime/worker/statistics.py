"""Statistics that a worker collects about itself, per shard."""

from __future__ import annotations

from bisect import bisect_left

#: Upper bounds in seconds, from a micro-batch of a few records to a broker that hardly responds.
DURATION_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Durations:
    """A histogram of durations in seconds.

    >>> durations = Durations()
    >>> durations.observe(0.02)
    >>> durations.counts[:4], durations.total
    ([0, 0, 0, 1], 0.02)
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self.total += seconds


class ShardStatistics:
    """Counts and durations of one shard since this worker took it."""

    def __init__(self) -> None:
        self.records = [0, 0, 0]  # fetched, by kind
        self.processing = Durations()  # of micro-batches
        self.transactions = Durations()
        self.snapshots = Durations()  # cost of writing the chunks, without pauses and outages
        self.stall = Durations()  # copies of the state, during which processing pauses
        self.snapshot_bytes = 0
