"""Lasting rises of an error, found in retrospect: an exact segmentation of its days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

DAY_SECONDS = 86_400.0

#: Outcomes of a day, at least, so that its mean counts; and days without which nothing is found.
_LEAST_OUTCOMES, _LEAST_DAYS = 8, 40

#: Days of a segment at least, and days on each side of a rise that lasts.
_SEGMENT_DAYS, _LASTING_DAYS = 7, 10

#: The smallest rise that counts.
_LEAST_RISE = 0.05

#: What one more segment costs: so many log(days) times the long-run variance of a day.
_STRENGTH = 3.0

#: Days on each side of a running median; and days over which the long-run variance adds up correlations.
_HALF, _LAGS = 30, 15

#: An incident belongs to a rise if it opens from so many days before it to so many after it.
_EARLY, _LATE = 2, 21


class Rise(NamedTuple):
    """A rise of the level."""

    time: float  # s
    before: float
    after: float
    days: int  # until the level changes again


def lasting_rises(times: np.ndarray, errors: np.ndarray) -> list[Rise]:
    """Return the rises of at least 5 points and one standard deviation of days, with 10 days on each side.

    Segments have the smallest squared loss plus a penalty (optimal partitioning, Jackson et al. 2005). The
    penalty goes by the long-run variance of a day around a running median (Bartlett weights), so that runs of
    bad days are no changes. `times` (s) and `errors` are (n,), in order of time.
    """
    days = np.floor(times / DAY_SECONDS).astype(int)
    first = int(days.min())
    counts, sums = np.bincount(days - first).astype(float), np.bincount(days - first, errors)
    enough = counts >= _LEAST_OUTCOMES
    begins, means = (np.flatnonzero(enough) + first) * DAY_SECONDS, sums[enough] / counts[enough]
    if len(means) < _LEAST_DAYS:
        return []
    middle = [np.median(means[max(0, day - _HALF) : day + _HALF + 1]) for day in range(len(means))]
    apart = means - np.array(middle)
    variance = float(np.mean(apart * apart))
    together = [(1 - lag / _LAGS) * np.mean(apart[lag:] * apart[:-lag]) for lag in range(1, _LAGS)]
    long_run = max(variance, variance + 2 * float(np.sum(together)))
    ends = segment_ends(means, _STRENGTH * np.log(len(means)) * long_run)
    rises = []
    for start, change, end in zip([0, *ends], ends, ends[1:]):
        before, after = float(means[start:change].mean()), float(means[change:end].mean())
        lasts = min(change - start, end - change) >= _LASTING_DAYS
        if lasts and after - before >= max(_LEAST_RISE, np.sqrt(variance)):
            span = int((begins[end - 1] - begins[change]) / DAY_SECONDS) + 1
            rises.append(Rise(float(begins[change]), before, after, span))
    return rises


def segment_ends(values: np.ndarray, penalty: float) -> list[int]:
    """Return where segments end that have the smallest squared loss plus a penalty for each.

    >>> segment_ends(np.repeat([0.1, 0.5, 0.1], 10), 0.01)
    [10, 20, 30]
    """
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (values, values * values))
    costs, last = np.full(len(values) + 1, np.inf), np.zeros(len(values) + 1, int)
    costs[0] = -penalty
    for end in range(_SEGMENT_DAYS, len(values) + 1):
        starts = np.arange(0, end - _SEGMENT_DAYS + 1)
        loss = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        total = costs[starts] + loss + penalty
        last[end], costs[end] = int(np.argmin(total)), total.min()
    ends = [len(values)]
    while last[ends[-1]] > 0:
        ends.append(int(last[ends[-1]]))
    return ends[::-1]


def missed(rises: Iterable[Rise], opened: Sequence[float]) -> int:
    """Return how many rises have no incident among those that opened at these times (s)."""
    return sum(
        not any(
            rise.time - _EARLY * DAY_SECONDS <= time
            <= rise.time + min(_LATE, max(rise.days, _SEGMENT_DAYS)) * DAY_SECONDS
            for time in opened
        )
        for rise in rises
    )  # fmt: skip
