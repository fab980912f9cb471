"""Label latencies, how long after its instance a label came: a histogram, and a sketch for quantiles."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import DenseStore

#: Upper bounds in seconds: from immediate labels to those that take a month.
BOUNDS = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0, 259200.0, 604800.0, 2592000.0)

BOUNDS_MS = [round(bound * 1000) for bound in BOUNDS]

#: The bounds' names in messages.
AGES = ("100ms", "1s", "10s", "1m", "5m", "15m", "1h", "6h", "1d", "3d", "7d", "30d")

#: Quantiles that are told, by their names.
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

#: Quantiles are right to 1 %.
_MAPPING = LogarithmicMapping(0.01)

#: The sketch's bins end here: by key from 0 on, the largest whole number of ms in the bin (up to 300 years).
_ENDS = np.array([int(_MAPPING.gamma**key) for key in range(1500)], dtype=np.int64)

#: Latencies up to which a plain loop is faster than arrays.
_FEW = 32


class Latencies:
    """Counts per bound (the last count is beyond all bounds), the sum in ms, and quantiles.

    >>> latencies = Latencies()
    >>> latencies.update(array("q", [50, 2000, -1]))
    >>> latencies.counts[:4], latencies.total, latencies.quantiles
    ([1, 0, 1, 0], 2050, {'p50': 50, 'p90': 50, 'p99': 50})
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0
        self._none = 0  # latencies of 0, for which the sketch has no bin
        self._sketch = DenseStore()  # DDSketch: bins of equal relative width, in any order the same
        self._quantiles: dict[str, int] | None = None  # unless a latency came since they were found

    def update(self, latencies: array[int]) -> None:
        """Latencies in ms; negative ones stand for nothing."""
        self._quantiles = None
        if len(latencies) <= _FEW:
            for latency in latencies:
                if latency >= 0:
                    self.counts[bisect_left(BOUNDS_MS, latency)] += 1
                    self.total += latency
                    if latency:
                        self._sketch.add(int(np.searchsorted(_ENDS, latency)))
                    else:
                        self._none += 1
            return
        values = np.frombuffer(latencies, dtype=np.int64)
        values = values[values >= 0]
        places = np.searchsorted(BOUNDS_MS, values, side="left")
        new = np.bincount(places, minlength=len(self.counts)).tolist()
        self.counts = [count + more for count, more in zip(self.counts, new)]
        self.total += int(values.sum())
        keys = np.bincount(np.searchsorted(_ENDS, values[values > 0]))
        self._none += int(np.count_nonzero(values == 0))
        for key in np.flatnonzero(keys).tolist():
            self._sketch.add(key, float(keys[key]))

    @property
    def quantiles(self) -> dict[str, int]:
        """The latency in ms that a share of `QUANTILES` of labels had at most, to 1 %; {} without labels."""
        if self._quantiles is None:
            self._quantiles = self._found()
        return dict(self._quantiles)

    def _found(self) -> dict[str, int]:
        count = sum(self.counts)
        if not count:
            return {}
        running = list(accumulate(self._sketch.bins))
        found = {}
        for name, q in QUANTILES.items():
            rank = q * (count - 1)
            key = self._sketch.offset + bisect_right(running, rank - self._none)
            found[name] = 0 if rank < self._none else round(_MAPPING.value(key))
        return found

    def snapshot(self) -> list[object]:
        bins = enumerate(self._sketch.bins, self._sketch.offset)
        return [list(self.counts), self.total, self._none, [[key, count] for key, count in bins if count]]

    def restore(self, state: Any) -> None:
        self.counts, self.total, self._none, bins = state
        for key, count in bins:
            self._sketch.add(key, count)
