"""How much periods usually deviate (see `calibrating`), and how unusual a deviation is: three signals.

The tables have the mean and variance of about the last 50 periods, by model, signal and maturity. They
include all dependence between predictions and labels. A signal is the deviation less this mean, in standard
deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.compiled.pool import Pool
from prequential.engine.delay.records import MATURITIES
from prequential.engine.tables.keys import Key, StateTable, of_pool

#: The signals, in the order of the deviations (`calibrating.CONCEPT` …).
SIGNALS = ("concept", "delays", "inputs")

#: Periods that count, and the fewest that give a signal.
MEMORY, LEAST = 50, 20

#: The smallest standard deviation, in standard deviations by chance alone.
_LEAST_DEVIATION = 0.5

#: Larger signals count as this one when they update mean and variance.
UNUSUAL = 4.0


class Usual(NamedTuple):
    """By model and signal: rows of a pool, whose owners are models and whose keys are signals."""

    seen: Ints  # (rows, maturities)
    mean: Floats  # …
    variance: Floats  # …


def new_usual(rows: int) -> Usual:
    """Return rows without past periods."""
    shape = rows, len(MATURITIES)
    return Usual(np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))


def usual_tables(pool: Pool, usual: Usual) -> Iterator[StateTable]:
    """What their rows stand for."""
    yield from of_pool("expected|usual_pool", Key.EXPECTED_USUAL, Key.ENTITY, pool)
    yield StateTable("expected|usual.", Key.EXPECTED_USUAL, usual)


def begin(usual: Usual, row: int) -> None:
    """Reset a row. Changes only `usual`."""
    for column in usual:
        column[row] = 0


def see(usual: Usual, row: int, maturity: int, value: float) -> float | None:
    """How unusual a period's deviation is, in standard deviations; None: there are too few earlier periods.

    The period counts from now on. Changes only `usual`.

    >>> one = new_usual(1)
    >>> [see(one, 0, 0, float(x % 2)) for x in range(20)][-1]
    >>> round(see(one, 0, 0, 2.5), 2)  # mean 0.5, of 20 values
    3.8
    """
    count = int(usual.seen[row, maturity])
    mean, variance = float(usual.mean[row, maturity]), float(usual.variance[row, maturity])
    found = None
    off = value - mean
    if count >= LEAST:
        n = min(count, MEMORY)
        # The variance of one value, and of the mean of n values.
        deviation = max(variance * (n + 1) / (n - 1), _LEAST_DEVIATION**2) ** 0.5
        found = off / deviation
        off = min(UNUSUAL * deviation, max(-UNUSUAL * deviation, off))
    share = 1.0 / min(count + 1, MEMORY)
    usual.seen[row, maturity] = count + 1
    usual.mean[row, maturity] = mean + share * off
    usual.variance[row, maturity] = (1.0 - share) * (variance + share * off * off)
    return found
