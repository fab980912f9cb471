"""ADWIN: an adaptive window that is cut where the means of its parts differ (Bifet and Gavaldà 2007).

https://doi.org/10.1137/1.9781611972771.42, as in river 0.26: every `clock` values, cuts are tried at every
boundary of buckets. After an alarm the window is empty; MOA keeps the part after the cut instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.mathematics import log as ln
from prequential.engine.detectors.declaration import Detector, Parameter, bounded
from prequential.engine.tables.logs import Alarms, raise_alarm
from prequential.engine.tables.outcomes import Log

#: Sizes of buckets, 1 to 2^31 values: with five of each a window of 10^10 values.
SIZES = 32


class Adwin(NamedTuple):
    """By sequence: the window as sums of buckets, the oldest bucket of a size first."""

    ticks: Ints  # values seen
    width: Floats  # values in the window
    total: Floats  # their sum
    variance: Floats  # … of squared deviations from their mean
    used: Ints  # sizes that there are buckets of
    counts: Ints  # (sequences, `SIZES`): buckets of 2^i values
    totals: Floats  # (sequences, `SIZES`·(max_buckets + 1)): sums of the buckets, size by size
    alarms: Ints  # raised so far


class AdwinParameters(NamedTuple):
    """The parameters as the loop takes them, see `DETECTOR`."""

    delta: float
    clock: int
    max_buckets: int
    min_window_length: int
    grace_period: int


@inner
def _insert(table: Adwin, settings: AdwinParameters, q: int, x: float) -> None:
    """Add a value as a bucket. If there are too many buckets of a size, the two oldest are merged.

    If there are too many of the largest size, the two oldest are dropped.
    """
    width = table.width[q] + 1.0
    if width > 1.0:
        off = x - table.total[q] / (width - 1.0)
        table.variance[q] += (width - 1.0) * off * off / width
    table.width[q] = width
    table.total[q] += x
    counts, totals, room = table.counts[q], table.totals[q], settings.max_buckets + 1
    size, value = 0, x
    while True:
        totals[size * room + counts[size]] = value
        counts[size] += 1
        if table.used[q] == size:
            table.used[q] = size + 1
        if counts[size] < room:
            return
        value = totals[size * room] + totals[size * room + 1]
        counts[size] -= 2
        for k in range(counts[size]):
            totals[size * room + k] = totals[size * room + k + 2]
        if size == SIZES - 1:
            _forget(table, q, float(2 << size), value)
            return
        size += 1


@inner
def _forget(table: Adwin, q: int, n: float, total: float) -> None:
    """Let a bucket of n values go: the variance of the rest is as if the bucket's mean were the window's."""
    table.variance[q] *= (table.width[q] - n) / table.width[q]
    table.width[q] -= n
    table.total[q] -= total


@inner
def _vector(table: Adwin, settings: AdwinParameters, q: int) -> tuple[bool, float, float]:
    """Look for a boundary of buckets whose sides' means differ: whether there is one, by what, and the bound.

    |μ0 - μ1| > ε = sqrt(2·m·σ²·ln(2·ln n/δ)) + 2/3·m·ln(2·ln n/δ), m = 1/(n0 - l + 1) + 1/(n1 - l + 1),
    with l the least length of a side.
    """
    width, room = table.width[q], settings.max_buckets + 1
    if table.variance[q] < 0.0:  # a rounding error: the variance is 0
        return False, 0.0, 0.0
    least = float(settings.min_window_length)
    delta = ln(2.0 * ln(width) / settings.delta)
    spread = table.variance[q] / width
    n0, n1, u0, u1 = 0.0, width, 0.0, table.total[q]
    for back in range(table.used[q]):
        size = table.used[q] - 1 - back
        of_one = float(1 << size)
        for k in range(table.counts[q, size]):
            n0 += of_one
            n1 -= of_one
            u0 += table.totals[q, size * room + k]
            u1 -= table.totals[q, size * room + k]
            if n1 >= least and n0 >= least:
                off = abs(u0 / n0 - u1 / n1)
                m = 1.0 / (n0 - least + 1.0) + 1.0 / (n1 - least + 1.0)
                bound = math.sqrt(2.0 * m * spread * delta) + 2.0 / 3.0 * delta * m
                if off > bound:
                    return True, off, bound
    return False, 0.0, 0.0


@inner
def step(table: Adwin, settings: AdwinParameters, q: int, x: float) -> tuple[bool, float, float]:
    """Feed sequence `q` a value: whether there is an alarm, the statistic and its bound."""
    _insert(table, settings, q, bounded(x))
    table.ticks[q] += 1
    if table.ticks[q] % settings.clock != 0 or table.width[q] <= settings.grace_period:
        return False, 0.0, 0.0
    raised, off, bound = _vector(table, settings, q)
    if raised:
        table.alarms[q] += 1
        table.ticks[q] = table.used[q] = 0
        table.width[q] = table.total[q] = table.variance[q] = 0.0
        for size in range(SIZES):
            table.counts[q, size] = 0
    return raised, off, bound


@kernel
def run(
    table: Adwin, settings: AdwinParameters, log: Log, rows: Ints32, values: Floats, fed: Bytes,
    detector: int, alarms: Alarms,
) -> None:  # fmt: skip
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    for i in range(len(rows)):
        if fed[i]:
            raised, statistic, bound = step(table, settings, log.sequence[rows[i]], values[i])
            if raised:
                raise_alarm(alarms, i, detector, statistic, bound)


DETECTOR = Detector(
    (
        Parameter("delta", 0.002, "significance of a cut", 0, 1, above=True, below=True, rarer=-1),
        Parameter("clock", 32, "values from one look for a cut to the next", 1, 1 << 40),
        Parameter("max_buckets", 5, "sums of one size before two become one", 2, 100),
        Parameter("min_window_length", 5, "values that each side of a cut has at least", 1, 1 << 40),
        Parameter("grace_period", 10, "values before the first look", 0, 1 << 40),
    ),
    AdwinParameters,
    Adwin,
    run,
    widths=lambda settings: {"counts": SIZES, "totals": SIZES * (settings.max_buckets + 1)},
)
