"""Fading factors in blocks: sums that forget, over arrays, bit-equal however they are cut.

The fading sum (2013 paper, section 3.2.1) is S(i) = x_i + α·S(i-1). Decaying every sum at every
outcome is slow where there are many; instead outcome j of a block is added with weight α^-j, and the
true value is the accumulated one times α^j. Weights grow, so accumulators are scaled back at the
block's end. Blocks are counted from the sequence's first outcome, so where a chunk is cut changes no
operation and hence no bit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from prequential.core.arrays import Floats

#: Outcomes up to which a plain loop is faster than arrays.
_FEW = 16

#: Outcomes in a block at most: the scaling's cost vanishes well before, and tables stay small.
_MOST = 1024
#: Largest weight, as a power of e: far from overflow (e^709), and no digit is lost below it.
_LARGEST_EXPONENT = 69.0


class FadingScale:
    """The tables of one fading factor: `weights[j]` is α^-j, `scales[j]` is α^j, j = 0 … length."""

    def __init__(self, factor: float) -> None:
        decay = -math.log(factor)
        self.length = min(_MOST, max(1, int(_LARGEST_EXPONENT / decay))) if decay > 0 else _MOST
        weights, scales = [1.0], [1.0]
        for _ in range(self.length):  # products in order: the same bits on every machine
            weights.append(weights[-1] / factor)
            scales.append(scales[-1] * factor)
        self.weights: Floats = np.array(weights)
        self.scales: Floats = np.array(scales)
        self.few_weights, self.few_scales = weights, scales  # the same, for single outcomes
        #: `counts[j]` is the sum of `weights[1 … j]`: j outcomes of weight 1 each.
        self.counts: Floats = np.cumsum(self.weights) - self.weights[0]
        self.few_counts: list[float] = self.counts.tolist()


@lru_cache(maxsize=64)
def fading_scale(factor: float) -> FadingScale:
    """The tables of `factor` (0 < factor <= 1), shared by all who use it."""
    return FadingScale(factor)


class FadingSum:
    """The fading sum of a signal, with its value after every outcome.

    >>> FadingSum(0.5).update(np.array([1.0, 0.0, 0.0]))
    array([1.  , 0.5 , 0.25])
    """

    def __init__(self, factor: float) -> None:
        self._scale = fading_scale(factor)
        self._sum = 0.0
        self._place = 0  # outcomes into the present block

    def update(self, x: npt.NDArray[Any]) -> Floats:
        """S after each of the outcomes `x`."""
        scale = self._scale
        values = np.empty(len(x))
        if len(x) <= _FEW:
            for i, value in enumerate(x.tolist()):
                self._place += 1
                self._sum += value * scale.few_weights[self._place]
                values[i] = self._sum * scale.few_scales[self._place]
                if self._place == scale.length:
                    self._sum *= scale.few_scales[-1]
                    self._place = 0
            return values
        start = 0
        while start < len(x):
            stop = min(len(x), start + scale.length - self._place)
            places = slice(self._place + 1, self._place + 1 + stop - start)
            terms = np.empty(stop - start + 1)
            terms[0] = self._sum
            np.multiply(x[start:stop], scale.weights[places], out=terms[1:])
            sums = np.cumsum(terms, out=terms)[1:]
            values[start:stop] = sums * scale.scales[places]
            self._sum = float(sums[-1])
            self._place += stop - start
            if self._place == scale.length:
                self._sum *= float(scale.scales[-1])
                self._place = 0
            start = stop
        return values

    def snapshot(self) -> list[float]:
        return [self._sum, self._place]

    def restore(self, state: Any) -> None:
        self._sum, self._place = state[0], int(state[1])


class FadingCount:
    """The fading increment N(i) = 1 + α·N(i-1), after every outcome.

    >>> FadingCount(0.5).update(3)
    array([1.  , 1.5 , 1.75])
    """

    def __init__(self, factor: float) -> None:
        self._scale = fading_scale(factor)
        self._before = 0.0  # N at the beginning of the present block
        self._place = 0

    def update(self, n: int) -> Floats:
        """N after each of the next `n` outcomes."""
        scale = self._scale
        values = np.empty(n)
        if n <= _FEW:
            for i in range(n):
                self._place += 1
                value = (self._before + scale.few_counts[self._place]) * scale.few_scales[self._place]
                values[i] = value
                if self._place == scale.length:
                    self._before = value
                    self._place = 0
            return values
        start = 0
        while start < n:
            stop = min(n, start + scale.length - self._place)
            places = slice(self._place + 1, self._place + 1 + stop - start)
            values[start:stop] = (self._before + scale.counts[places]) * scale.scales[places]
            self._place += stop - start
            if self._place == scale.length:
                self._before = float(values[stop - 1])
                self._place = 0
            start = stop
        return values

    def snapshot(self) -> list[float]:
        return [self._before, self._place]

    def restore(self, state: Any) -> None:
        self._before, self._place = state[0], int(state[1])
