"""Page-Hinkley test for an increase of a signal's mean (2013 paper, section 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.arrays import Floats

#: Values up to which a plain loop is faster than arrays.
_FEW = 32

#: Values evaluated at once: after an alarm the rest is evaluated again, so this bounds the work
#: that frequent alarms cause.
_BLOCK = 4096


class PageHinkley:
    """Alarms when the signal's mean has risen by more than `delta` for long enough.

    With x̄_T the mean of x_1 … x_T: m_T = m_{T-1} + x_T - x̄_T - δ, M_T = min(M_{T-1}, m_T),
    m_0 = M_0 = 0; an alarm when m_T - M_T > λ and T >= `min_outcomes`. After an alarm T is 0 again.
    All sums run in the order of the signal, so cutting it into chunks changes no bit.

    >>> detector = PageHinkley(delta=0.005, threshold=5.0, min_outcomes=30)
    >>> detector.update(np.zeros(100))
    []
    >>> detector.update(np.ones(10))
    [(5, 5.768...)]
    """

    def __init__(self, delta: float, threshold: float, min_outcomes: int = 30) -> None:
        self.delta = delta
        self.threshold = threshold
        self.min_outcomes = min_outcomes
        self._reset()

    def _reset(self) -> None:
        self._count = 0
        self._total = 0.0
        self._m = 0.0
        self._lowest = 0.0

    def update(self, x: Floats) -> list[tuple[int, float]]:
        """Feed values; returns (place in `x`, statistic) of each alarm."""
        if len(x) <= _FEW:
            return self._update_one_by_one(x.tolist())
        alarms = []
        start = 0
        while start < len(x):
            block = x[start : start + _BLOCK]
            count = self._count + np.arange(1, len(block) + 1)
            total = _running(self._total, block)
            m = _running(self._m, block - total / count - self.delta)
            lowest = np.minimum(np.minimum.accumulate(m), self._lowest)
            statistic = m - lowest
            raised = (statistic > self.threshold) & (count >= self.min_outcomes)
            if raised.any():
                place = int(raised.argmax())
                alarms.append((start + place, float(statistic[place])))
                self._reset()
                start += place + 1
            else:
                self._count = int(count[-1])
                self._total, self._m = float(total[-1]), float(m[-1])
                self._lowest = float(lowest[-1])
                start += len(block)
        return alarms

    def _update_one_by_one(self, x: list[float]) -> list[tuple[int, float]]:
        alarms = []
        for place, value in enumerate(x):
            self._count += 1
            self._total += value
            self._m += value - self._total / self._count - self.delta
            self._lowest = min(self._lowest, self._m)
            statistic = self._m - self._lowest
            if statistic > self.threshold and self._count >= self.min_outcomes:
                alarms.append((place, statistic))
                self._reset()
        return alarms

    def snapshot(self) -> list[float]:
        return [self._count, self._total, self._m, self._lowest]

    def restore(self, state: Any) -> None:
        self._count, self._total, self._m, self._lowest = state


def _running(start: float, x: Floats) -> Floats:
    """Sequential running sums of `x` from `start`: bit for bit those of a plain loop."""
    sums = np.empty(len(x) + 1)
    sums[0] = start
    sums[1:] = x
    return np.cumsum(sums, out=sums)[1:]
