"""Generate long streams like a past one that keep the dependence of neighbours across the joints of blocks.

This is a matched-block bootstrap (Carlstein, Do, Hall, Hesterberg and Künsch 1998). A block may follow
another one only if the losses before it equal those at the other's end. Blocks that start anywhere would lose
the dependence at each joint: runs of errors would become shorter, and false alarms rarer.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints

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
    starts, place = [], int(random.integers(n))
    for draw in draws:
        code = context[place]
        place = int(order[first[code] + int(draw * counts[code])])
        starts.append(place)
        place = (place + block) % n
    places: Ints = (np.array(starts)[:, None] + np.arange(block)).ravel()[:length] % n
    return places
