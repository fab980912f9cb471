"""Prepare a past for calibration: its best phase, the range of dependence in it, and streams like it.

A past with a drift contains true alarms, and thresholds before and after the drift differ. The past is
therefore cut where its mean loss changes (binary segmentation; Vostrikova 1981), and only the phases with the
lowest mean loss are kept. A change counts only if it is large against the standard deviation of a mean.

That variance is the largest over blocks of 16, 32, 64, … outcomes. It is estimated from the median of squared
differences between neighbouring blocks. A few changes don't affect the median, but it includes daily cycles.

Streams like a past are made by a matched-block bootstrap (Carlstein, Do, Hall, Hesterberg and Künsch 1998). A
block may follow another one only if the losses before it equal those at the other's end. Blocks that start
anywhere would lose the dependence at each joint: runs of errors would become shorter, and false alarms rarer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.offline.backtesting.sequences import block_length

#: The least number of blocks from which a variance can be estimated.
_LEAST_BLOCKS = 8

#: Median of a squared standard normal variable.
_MEDIAN = 0.4549

#: The shortest blocks that are compared: in shorter ones most differences are 0.
_SHORTEST = 16

#: Standard errors beyond which two means count as two levels. In 1 of 1,000 stationary streams, the largest
#: difference over all places exceeds this bound.
_APART = 5.0

#: The least number of outcomes in a phase.
_LEAST_PHASE = 500

#: Standard errors by which the variance of longer blocks must be larger to count.
_CLEAR = 1.0


class Reach(NamedTuple):
    """The range over which outcomes depend on each other."""

    #: The block length beyond which the variance per outcome grows no further.
    length: int
    #: That variance as a multiple of the variance of independent outcomes.
    inflation: float


def reach_of(losses: Floats) -> Reach:
    """Return the shortest of blocks of 1, 2, 4, … outcomes beyond which no variance is clearly larger.

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
    surely = max(variance * (1.0 - error) for variance, error in zip(variances, errors))
    index = next(
        i for i, (variance, error) in enumerate(zip(variances, errors)) if variance * (1.0 + error) >= surely
    )
    return Reach(lengths[index], max(1.0, max(variances[index], surely) / variances[0]))


def far(losses: Floats) -> int:
    """Return the reach if it exceeds the block length that neighbouring losses suggest, else 0."""
    reach = reach_of(losses).length
    return reach if reach > block_length(losses) else 0


def best_phase(losses: Floats) -> Ints:
    """Return the places of the phases at the lowest level above 0, in order, (places,).

    >>> losses = np.concatenate([np.arange(6_000) % 10 == 0, np.arange(3_000) % 2 == 0]).astype(float)
    >>> len(best_phase(losses))
    6000
    """
    phases = _phases(losses, 0, len(losses))
    candidates = [phase for phase in phases if losses[phase].mean() > 0.0] or phases
    lowest = min(candidates, key=lambda phase: float(losses[phase].mean()))
    kept = [phase for phase in candidates if not _higher(losses[phase], losses[lowest])]
    return np.concatenate([np.arange(phase.start, phase.stop) for phase in kept])


def _phases(losses: Floats, start: int, end: int) -> list[slice]:
    """Return the phases between these places."""
    phase_losses = losses[start:end]
    n = len(phase_losses)
    if n < 2 * _LEAST_PHASE:
        return [slice(start, end)]
    before = np.arange(_LEAST_PHASE, n - _LEAST_PHASE + 1)
    off = (np.cumsum(phase_losses - phase_losses.mean())[before - 1]) ** 2 * (n / (before * (n - before)))
    split = int(off.argmax())
    if off[split] <= _APART**2 * _variance(phase_losses):
        return [slice(start, end)]
    middle = start + int(before[split])
    return _phases(losses, start, middle) + _phases(losses, middle, end)


def _higher(losses: Floats, other_losses: Floats) -> bool:
    """Return whether the level of one phase is clearly above that of the other."""
    variance = _variance(losses) / len(losses) + _variance(other_losses) / len(other_losses)
    return bool(losses.mean() - other_losses.mean() > _APART * math.sqrt(variance))


def _variance(losses: Floats) -> float:
    """Return the variance of a mean times the number of losses, which a few changes don't affect.

    The result is at least the variance of independent losses.
    """
    variance = float((np.diff(losses) ** 2).mean()) / 2.0
    length = _SHORTEST
    while len(losses) >= 2 * _LEAST_BLOCKS * length:
        squares = np.diff(_sums(losses, length)) ** 2
        variance = max(variance, float(np.median(squares)) / (2.0 * _MEDIAN * length))
        length *= 2
    return variance


def _sums(losses: Floats, length: int) -> Floats:
    """Return the sums of consecutive blocks, (blocks,)."""
    sums: Floats = losses[: len(losses) // length * length].reshape(-1, length).sum(axis=1)
    return sums


#: How many losses before a block are compared with those at the end of the previous block; one bit each.
_CONTEXT = 8


def contexts(losses: Floats, length: int = _CONTEXT, reach: int = 0) -> Ints:
    """Return for each place which of the `length` losses before it are above the mean, (places,).

    The nearest loss is the lowest bit. The past is treated as a circle: the last loss precedes the first.
    With a `reach`, two more bits give the position in a cycle. They are set if the sum of the `reach` losses
    before the place is above average, and if the sum of the `reach` losses before those is.

    >>> contexts(np.array([0.0, 1.0, 1.0, 0.0]), 2).tolist()
    [2, 0, 1, 3]
    """
    high = (losses > losses.mean()).astype(np.int64)
    bits = np.zeros(len(losses), np.int64)
    for back in range(1, length + 1):
        bits |= np.roll(high, back) << (back - 1)
    if reach:
        n, off = len(losses), losses - losses.mean()
        sums = np.cumsum(np.concatenate((off[n - reach :], off)))
        above = (np.roll(sums[reach:] - sums[:n], 1) > 0.0).astype(np.int64)
        bits |= above << length | np.roll(above, reach) << (length + 1)
    return bits


def matched_blocks(random: np.random.Generator, context: Ints, length: int, block: int) -> Ints:
    """Return the places of a run of outcomes, (length,), in blocks with matching contexts at the joints.

    Each block starts at a random place with the context that the run has there. The place that follows in the
    past is one of these.

    >>> losses = np.array([0.0, 1.0] * 50)
    >>> run = matched_blocks(np.random.default_rng(1), contexts(losses), 10, 3)
    >>> losses[run].tolist() == [losses[run[0]], 1 - losses[run[0]]] * 5
    True
    """
    n = len(context)
    order = np.argsort(context.astype(np.int16), kind="stable")  # radix sort
    counts = np.bincount(context)
    first = np.cumsum(counts) - counts
    draws = random.random(-(-length // block)).tolist()
    starts, index = [], int(random.integers(n))
    for draw in draws:
        code = context[index]
        index = int(order[first[code] + int(draw * counts[code])])
        starts.append(index)
        index = (index + block) % n
    indices: Ints = (np.array(starts)[:, None] + np.arange(block)).ravel()[:length] % n
    return indices
