"""Streams like a past one: blocks of its outcomes drawn at random, and rises of the error put into them.

A circular block bootstrap (Politis and Romano 1992): a run is made of blocks of consecutive outcomes that
begin anywhere in the past; behind the last one comes the first. Within a block outcomes depend on each other
as they did. All columns of the outcome log go with an outcome, so any signal can be made of a run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, taken
from prequential.engine.measures.losses import SQUARED, own_column
from prequential.engine.tables.outcomes import Log
from prequential.offline.past.sequences import PastSequence
from prequential.topics.outputs import identity

#: Autocorrelation of neighbours beyond which blocks grow no longer: a sample can't tell it from 1.
_MOST_CORRELATED = 0.99

#: Hex digits of a run's seed: 60 bits.
_SEED_DIGITS = 15


class ResampledRun(NamedTuple):
    """Outcomes of a past sequence by their places in it, (m,) int64 from 0, one after the other.

    `factors`, (m,), multiply regression errors; None: errors stay as they are.
    """

    places: Ints
    factors: Floats | None


def block_length(losses: Floats) -> int:
    """Outcomes in a block: n^(1/3), times (√6·|r|/(1 - r²))^(2/3) where that is above 1 (Carlstein 1986).

    r is the correlation of neighbouring losses, of which `losses` has n, (n,) float64. The rule is that for
    the variance of a mean of values that each depend on the one before. From 1 to n.

    >>> rng = np.random.default_rng(1)
    >>> block_length((rng.random(8_000) < 0.1).astype(float)), block_length(np.repeat([0.0, 1.0] * 100, 20))
    (20, 82)
    """
    n = len(losses)
    off = losses - losses.mean() if n else losses
    square = float(off @ off)
    r = 0.0 if square == 0.0 else min(abs(float(off[1:] @ off[:-1])) / square, _MOST_CORRELATED)
    more = (math.sqrt(6.0) * r / (1.0 - r * r)) ** (2.0 / 3.0)
    length: int = max(1, min(n, math.ceil(n ** (1.0 / 3.0) * max(1.0, more))))
    return length


def generator(seed: int, *names: object) -> np.random.Generator:
    """A generator of random numbers that are a function of a seed and of names, the same on every machine."""
    return np.random.default_rng(int(identity(seed, *names)[:_SEED_DIGITS], 16))


def blocks(random: np.random.Generator, n: int, length: int, block: int) -> Ints:
    """Places in a past of `n` outcomes, in blocks of `block` that begin anywhere: (length,) int64, from 0.

    A block that reaches the past's end goes on at its beginning (circular block bootstrap).

    >>> blocks(np.random.default_rng(2), 10, 6, 3).tolist()
    [8, 9, 0, 2, 3, 4]
    """
    starts = random.integers(0, n, -(-length // block))
    places: Ints = (starts[:, None] + np.arange(block)).ravel()[:length] % n
    return places


def risen(random: np.random.Generator, past: PastSequence, places: Ints, rise: Floats) -> ResampledRun:
    """The run of these places with its mean loss risen by `rise`, (m,) float64 from 0 on, at each outcome.

    For classification, correct outcomes become wrong ones, drawn from the past's own. Each is drawn
    separately, so they don't come in runs. For regression, errors are multiplied. Raises ValueError if the
    loss can't rise so much.
    """
    loss, most = past.loss, float(rise.max(initial=0.0))
    mean = float(loss.mean())
    if most == 0.0:
        return ResampledRun(places, None)
    if past.numbers:
        if mean == 0.0:
            raise ValueError("no prediction was wrong, so there is no error to be multiplied")
        factors = 1.0 + rise / mean
        return ResampledRun(places, np.sqrt(factors) if own_column(past.config) == SQUARED else factors)
    if mean == 0.0:
        raise ValueError("no prediction was wrong, so there is none to take for those that become wrong")
    if mean + most > 1.0:
        raise ValueError(f"its error is {mean:.3g}, which can't rise by {most:.3g}")
    wrong = np.flatnonzero(loss > 0.0)
    replaced = (loss[places] == 0.0) & (random.random(len(places)) * (1.0 - mean) < rise)
    others = wrong[random.integers(0, len(wrong), len(places))]
    return ResampledRun(np.where(replaced, others, places), None)


def log_of(past: PastSequence, run: ResampledRun, since: int = 0) -> Log:
    """The run as m rows of an outcome log, of a sequence in row 0 with outcomes from 1.

    Its label times go on from `since` (ms), each outcome as long after the one before as it was in the past.
    """
    log = taken(past.rows, run.places)
    log.t1[:] = since + np.cumsum(past.gaps[run.places])
    log.sequence[:], log.number[:] = 0, np.arange(1, len(run.places) + 1)
    if run.factors is not None:
        log.error[:] *= run.factors
    return log
