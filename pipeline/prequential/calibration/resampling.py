"""Long streams like a past one, in which neighbours depend on each other across blocks, too.

A matched-block bootstrap (Carlstein, Do, Hall, Hesterberg and Künsch 1998): a block follows another one where
the losses before it are those at the other's end. Blocks that begin anywhere would forget at each joint; of a
stream whose errors come in runs they make one with shorter runs, in which false alarms are rarer.
"""

from __future__ import annotations

import numpy as np
from prequential.core.compiled.kernel import Floats, Ints

#: Losses before a block that are compared with those at the end of the one before: so many bits.
_CONTEXT = 8


def contexts(losses: Floats, length: int = _CONTEXT, reach: int = 0) -> Ints:
    """By place: which of the `length` losses before it are above the mean, the nearest as the lowest bit.

    The past is a circle: before its first loss comes the last. With a `reach` two more bits say whether the
    sum of so many losses before it is above the mean, and of so many before them: where a cycle is.

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
    """Places of a run of `length` outcomes, in blocks of `block`, whose joints have equal contexts.

    A joint is drawn of all places with the context that the run has there; the one that would have come next
    is among them.

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
    starts, place = [], int(random.integers(n))
    for draw in draws:
        code = context[place]
        place = int(order[first[code] + int(draw * counts[code])])
        starts.append(place)
        place = (place + block) % n
    places: Ints = (np.array(starts)[:, None] + np.arange(block)).ravel()[:length] % n
    return places
