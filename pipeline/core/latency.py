"""The histogram of label latencies: how long after its instance a label came."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any

import numpy as np

#: Upper bounds in seconds: from immediate labels to those that take a month.
BOUNDS = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, 259200.0, 604800.0, 2592000.0)

_BOUNDS_MS = [bound * 1000 for bound in BOUNDS]

#: Latencies up to which a plain loop is faster than arrays.
_FEW = 32


class LatencyHistogram:
    """Counts per bound (the last count is beyond all bounds) and the sum in ms.

    >>> histogram = LatencyHistogram()
    >>> histogram.update(array("q", [50, 2000, -1]))
    >>> histogram.counts[:4], histogram.total
    ([1, 0, 1, 0], 2050)
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0

    def update(self, latencies: array[int]) -> None:
        """Latencies in ms; negative ones stand for nothing."""
        if len(latencies) <= _FEW:
            for latency in latencies:
                if latency >= 0:
                    self.counts[bisect_left(_BOUNDS_MS, latency)] += 1
                    self.total += latency
            return
        values = np.frombuffer(latencies, dtype=np.int64)
        values = values[values >= 0]
        places = np.searchsorted(_BOUNDS_MS, values, side="left")
        new = np.bincount(places, minlength=len(self.counts)).tolist()
        self.counts = [count + more for count, more in zip(self.counts, new)]
        self.total += int(values.sum())

    def snapshot(self) -> list[object]:
        return [list(self.counts), self.total]

    def restore(self, state: Any) -> None:
        self.counts, self.total = list(state[0]), state[1]
