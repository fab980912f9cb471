"""KSWIN: the newest values of a window against a sample of those before (Raab, Heusinger and Schleif 2020).

https://doi.org/10.1016/j.neucom.2019.11.111, as river 0.26 has it but for the random numbers: the sample is
drawn by a generator of each sequence's own, which begins anew after an alarm, so every run draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.core.detectors.declaration import Alarms, Detector, Parameter, raise_alarm
from prequential.core.kernel import Bytes, Floats, Ints, Ints32, allocating, inner, zeros
from prequential.core.outcomes import Log

#: Park and Miller's generator (1988, with the multiplier of 1993): r becomes r·multiplier mod modulus.
_MULTIPLIER, _MODULUS = 48_271, 2_147_483_647

#: The least difference of two distributions that is one.
_LEAST = 0.1

#: Longest window, in values: each outcome goes through all of it.
_LONGEST = 10_000


class Kswin(NamedTuple):
    """By sequence: the window."""

    ring: Floats  # (sequences, window_size): the m-th value since the last alarm at (m - 1) mod window_size
    n: Ints  # values since the last alarm
    seed: Ints  # what the generator begins with
    random: Ints  # its last number; 0: it hasn't begun
    alarms: Ints  # raised so far


class Settings(NamedTuple):
    """Parameters."""

    alpha: float
    window_size: int
    stat_size: int


def new_table(rows: int, settings: Settings) -> Kswin:
    """Empty windows of so many sequences."""
    return zeros(Kswin, rows, ring=settings.window_size)


@inner
def _draw(table: Kswin, settings: Settings, q: int, sample: Floats) -> None:
    """Fill the sample from the older values, each set of them alike (Knuth's algorithm S)."""
    size = settings.window_size
    at, older, wanted = table.n[q] % size, size - settings.stat_size, settings.stat_size
    r = table.random[q] if table.random[q] else 1 + table.seed[q] % (_MODULUS - 1)
    for left in range(older, 0, -1):
        r *= _MULTIPLIER
        r = (r & _MODULUS) + (r >> 31)  # the remainder, since the modulus is 2^31 - 1
        if r >= _MODULUS:
            r -= _MODULUS
        if r * left < wanted * _MODULUS:
            wanted -= 1
            sample[wanted] = table.ring[q, at]
        at = at + 1 if at + 1 < size else 0
    table.random[q] = r


@inner
def _sort(x: Floats) -> None:
    """Sort, in place (Shell)."""
    gap = len(x) // 2
    while gap > 0:
        for i in range(gap, len(x)):
            value, at = x[i], i
            while at >= gap and x[at - gap] > value:
                x[at] = x[at - gap]
                at -= gap
            x[at] = value
        gap //= 2


@inner
def _apart(x: Floats, y: Floats) -> int:
    """The largest difference of the numbers of values up to any one, of two sorted samples."""
    i = j = most = 0
    while i < len(x) and j < len(y):
        value = min(x[i], y[j])
        while i < len(x) and x[i] == value:
            i += 1
        while j < len(y) and y[j] == value:
            j += 1
        most = max(most, abs(i - j))
    return most


@inner
def p_value(n: int, apart: int) -> float:
    """The probability that two samples of n values of one continuous distribution are so far apart, or more.

    2·Σ (-1)^(k-1)·C(2n, n - kh)/C(2n, n), k = 1, 2, … for h > 0 (Gnedenko and Korolyuk 1951), from the last.
    """
    p = 0.0
    for back in range(n // apart + 1):
        k = n // apart - back
        ratio = 1.0
        for j in range(apart):
            ratio = (n - k * apart - j) * ratio / (n + k * apart + j + 1)
        p = ratio * (1.0 - p)
    return 2.0 * p


@inner
def step(
    table: Kswin, settings: Settings, q: int, x: float, sample: Floats, newest: Floats
) -> tuple[bool, float]:
    """Feed sequence `q` a value: whether there is an alarm, and the p-value.

    An alarm when the two-sided Kolmogorov-Smirnov test has p <= α for the newest `stat_size` values of a full
    window against as many drawn from the others, and the distributions are more than 0.1 apart.
    """
    size, count = settings.window_size, settings.stat_size
    table.ring[q, table.n[q] % size] = x
    table.n[q] += 1
    if table.n[q] < size:
        return False, 1.0
    _draw(table, settings, q, sample)
    at = (table.n[q] - 1) % size
    for i in range(count):
        newest[i] = table.ring[q, at]
        at = at - 1 if at > 0 else size - 1
    _sort(sample)
    _sort(newest)
    apart = _apart(sample, newest)
    if apart / count <= _LEAST:
        return False, 1.0
    p = p_value(count, apart)
    if p > settings.alpha:
        return False, p
    table.alarms[q] += 1
    table.n[q] = table.random[q] = 0
    return True, p


@allocating
def run(
    table: Kswin,
    settings: Settings,
    log: Log,
    rows: Ints32,
    values: Floats,
    fed: Bytes,
    detector: int,
    alarms: Alarms,
) -> None:
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    sample, newest = np.empty(settings.stat_size), np.empty(settings.stat_size)
    for i in range(len(rows)):
        if fed[i]:
            raised, p = step(table, settings, log.sequence[rows[i]], values[i], sample, newest)
            if raised:
                raise_alarm(alarms, i, detector, p, settings.alpha)


def problem(values: Mapping[str, Any]) -> str:
    """The sample is as large as the newest part, and from the rest."""
    if 2 * values["stat_size"] <= values["window_size"]:
        return ""
    return f"stat_size is {values['stat_size']}: expected at most half of window_size {values['window_size']}"


DETECTOR = Detector(
    (
        Parameter("alpha", 0.005, "significance of an alarm", 0, 1, above=True, below=True),
        Parameter("window_size", 100, "values in the window", 2, _LONGEST),
        Parameter("stat_size", 30, "newest values, which are compared with as many others", 1, _LONGEST // 2),
    ),
    Settings,
    new_table,
    run,
    problem=problem,
)
