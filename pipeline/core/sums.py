"""Sums of scores over all history, a window, or faded: beside an estimator's matrix.

All are sums in the order of the outcomes, one after the other, so cutting a sequence into chunks
changes no bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.fading import fading_scale
from pipeline.core.scores import SIZE, WIDTH, Scores


class AllSums:
    """Sums over the whole sequence.

    >>> from pipeline.core.scores import score_number
    >>> sums = AllSums()
    >>> sums.update(Scores.of(2, {0: score_number(3.0, 1.0, 0.0)}))
    >>> sums.sums[:4].tolist()
    [1.0, 2.0, 4.0, -2.0]
    """

    def __init__(self) -> None:
        self.sums: Floats = np.zeros(SIZE)

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes."""
        np.add.at(self.sums, scores.places.ravel(), scores.values.ravel())

    def snapshot(self) -> list[object]:
        return [self.sums.tobytes()]

    def restore(self, state: Any) -> None:
        self.sums = np.frombuffer(state[0]).copy()


class FadedSums:
    """Sums under a fading factor α: S = x + α·S at every outcome (see `pipeline.core.fading`)."""

    def __init__(self, factor: float, outcomes: int = 0) -> None:
        self._scale = fading_scale(factor)
        self._sums: Floats = np.zeros(SIZE)
        self._place = outcomes % self._scale.length  # into the present block

    @property
    def sums(self) -> Floats:
        """The faded sums."""
        return self._sums * self._scale.scales[self._place]

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes; those without one fade the others."""
        scale = self._scale
        start = 0
        while start < scores.length:
            stop = min(scores.length, start + scale.length - self._place)
            part = scores.between(start, stop)
            weights = scale.weights[self._place + 1 + part.rows]
            np.add.at(self._sums, part.places.ravel(), (part.values * weights[:, None]).ravel())
            self._place += stop - start
            if self._place == scale.length:
                self._sums *= scale.scales[-1]
                self._place = 0
            start = stop

    def snapshot(self) -> list[object]:
        return [self._place, self._sums.tobytes()]

    def restore(self, state: Any) -> None:
        self._place = state[0]
        self._sums = np.frombuffer(state[1]).copy()


class WindowSums:
    """Sums over the last `size` outcomes, added up anew when they are asked for: nothing drifts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._seen = 0
        self._rows: Ints = np.zeros(0, dtype=np.int64)  # numbers of the outcomes that have scores
        self._places: Ints = np.zeros((0, WIDTH), dtype=np.int64)
        self._values: Floats = np.zeros((0, WIDTH))

    @property
    def sums(self) -> Floats:
        """Sums of the scores in the window."""
        sums = np.zeros(SIZE)
        np.add.at(sums, self._places.ravel(), self._values.ravel())
        return sums

    def update(self, scores: Scores) -> None:
        """Add the scores of consecutive outcomes; what is older than the window leaves."""
        rows = np.concatenate((self._rows, scores.rows + self._seen))
        self._seen += scores.length
        stay = slice(int(rows.searchsorted(self._seen - self.size)), None)
        self._rows = rows[stay]
        self._places = np.concatenate((self._places, scores.places))[stay]
        self._values = np.concatenate((self._values, scores.values))[stay]

    def snapshot(self) -> list[object]:
        return [self._seen, self._rows.tobytes(), self._places.tobytes(), self._values.tobytes()]

    def restore(self, state: Any) -> None:
        self._seen = state[0]
        self._rows = np.frombuffer(state[1], dtype=np.int64)
        self._places = np.frombuffer(state[2], dtype=np.int64).reshape(-1, WIDTH)
        self._values = np.frombuffer(state[3]).reshape(-1, WIDTH)


Sums = AllSums | WindowSums | FadedSums


def build_sums(estimator: str, outcomes: int = 0) -> Sums:
    """The sums of an estimator that `build_memory` knows, after `outcomes` outcomes without a score."""
    kind, _, parameter = estimator.partition(":")
    if kind == "all":
        return AllSums()
    return WindowSums(int(parameter)) if kind == "window" else FadedSums(float(parameter), outcomes)
