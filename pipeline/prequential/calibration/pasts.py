"""What of a past says how often detectors will alarm: its best phase, and how far dependence goes in it.

A past with a drift isn't one of false alarms: what is before and after it differs, and so do thresholds. It
is cut where its mean loss changes (binary segmentation; Vostrikova 1981), and phases at its lowest level are
kept. A change is told from chance by the variance of a mean, the largest by blocks of 16, 32, 64, … outcomes:
by the median of squared differences of neighbouring blocks, which a few changes don't move, and which sees
days that turn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints
from prequential.past.bootstrap import block_length

#: Fewer blocks tell nothing of their variance.
_LEAST_BLOCKS = 8

#: Median of a squared standard normal variable.
_MEDIAN = 0.4549

#: The shortest blocks that are compared: of few outcomes most differences are 0.
_SHORTEST = 16

#: Standard errors beyond which two means are two levels: the largest of all places in stationary streams is
#: that far off in one of 1,000.
_APART = 5.0

#: Outcomes of a phase, at least.
_LEAST_PHASE = 500

#: Standard errors by which a longer block's variance must be larger, to count.
_CLEAR = 1.0


class Reach(NamedTuple):
    """How far outcomes depend on each other."""

    #: Blocks of so many outcomes vary as much, by outcome, as any longer ones.
    length: int
    #: By how many times more than independent ones.
    inflation: float


def reach_of(losses: Floats) -> Reach:
    """The shortest of blocks of 1, 2, 4, … outcomes beyond which no variance is clearly larger.

    >>> rng = np.random.default_rng(1)
    >>> round(reach_of((rng.random(8_000) < 0.1).astype(float)).inflation, 1)
    1.0
    >>> reach_of(np.repeat([0.0, 1.0] * 100, 20))
    Reach(length=16, inflation=8.0)
    """
    lengths, variances, errors = [], [], []
    length = 1
    while len(losses) >= _LEAST_BLOCKS * length:
        blocks = _sums(losses, length)
        lengths.append(length)
        variances.append(float(blocks.var()) / length)
        errors.append(_CLEAR * math.sqrt(2.0 / len(blocks)))
        length *= 2
    if not variances or variances[0] == 0.0:
        return Reach(1, 1.0)
    surely = max(one * (1.0 - error) for one, error in zip(variances, errors))
    at = next(i for i, (one, error) in enumerate(zip(variances, errors)) if one * (1.0 + error) >= surely)
    return Reach(lengths[at], max(1.0, max(variances[at], surely) / variances[0]))


def far(losses: Floats) -> int:
    """The reach where it is longer than blocks by the correlation of neighbours, else 0."""
    reach = reach_of(losses).length
    return reach if reach > block_length(losses) else 0


def best_phase(losses: Floats) -> Ints:
    """Places of the phases at the lowest level (of those above 0), in order.

    >>> losses = np.concatenate([np.arange(6_000) % 10 == 0, np.arange(3_000) % 2 == 0]).astype(float)
    >>> len(best_phase(losses))
    6000
    """
    phases = _phases(losses, 0, len(losses))
    some = [one for one in phases if losses[one[0] : one[1]].mean() > 0.0] or phases
    lowest = min(some, key=lambda one: float(losses[one[0] : one[1]].mean()))
    kept = [one for one in some if not _higher(losses[slice(*one)], losses[slice(*lowest)])]
    return np.concatenate([np.arange(*one) for one in kept])


def _phases(losses: Floats, start: int, end: int) -> list[tuple[int, int]]:
    """Begins and ends of phases between these places."""
    some = losses[start:end]
    n = len(some)
    if n < 2 * _LEAST_PHASE:
        return [(start, end)]
    before = np.arange(_LEAST_PHASE, n - _LEAST_PHASE + 1)
    off = (np.cumsum(some - some.mean())[before - 1]) ** 2 * (n / (before * (n - before)))
    at = int(off.argmax())
    if off[at] <= _APART**2 * _variance(some):
        return [(start, end)]
    middle = start + int(before[at])
    return _phases(losses, start, middle) + _phases(losses, middle, end)


def _higher(one: Floats, other: Floats) -> bool:
    """Whether the level of one is clearly above that of the other."""
    variance = _variance(one) / len(one) + _variance(other) / len(other)
    return bool(one.mean() - other.mean() > _APART * math.sqrt(variance))


def _variance(losses: Floats) -> float:
    """Of a mean times its number; not less than that of independent ones, nor moved by a few changes."""
    variance = float((np.diff(losses) ** 2).mean()) / 2.0
    length = _SHORTEST
    while len(losses) >= 2 * _LEAST_BLOCKS * length:
        squares = np.diff(_sums(losses, length)) ** 2
        variance = max(variance, float(np.median(squares)) / (2.0 * _MEDIAN * length))
        length *= 2
    return variance


def _sums(losses: Floats, length: int) -> Floats:
    """Of consecutive blocks."""
    sums: Floats = losses[: len(losses) // length * length].reshape(-1, length).sum(axis=1)
    return sums
