"""KSWIN: the newest values of a window against a sample of those before (Raab, Heusinger and Schleif 2020).

https://doi.org/10.1016/j.neucom.2019.11.111. This is river 0.26's version except for the random numbers: each
sequence has its own generator, which starts again after an alarm. So every run draws the same samples.

The window is kept sorted by value, so that tests need no sorting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, Shorts, allocating, inner
from prequential.engine.detectors.declaration import Detector, Parameter
from prequential.engine.tables.logs import Alarms, raise_alarm
from prequential.engine.tables.outcomes import Log

#: Park and Miller's generator (1988, with the multiplier of 1993): r becomes r·multiplier mod modulus.
_MULTIPLIER, _MODULUS = 48_271, 2_147_483_647

#: Independent random numbers that are computed in parallel, so that the processor needn't wait for each.
_LANES = 4

#: Differences of two distributions up to this size raise no alarm.
_LEAST = 0.1

#: The longest window, in values: each outcome passes over all of it. Places have 16 bits.
_LONGEST = 10_000


class Kswin(NamedTuple):
    """By sequence: the window."""

    values: Floats  # (sequences, window_size): the smallest first
    places: Shorts  # (sequences, window_size): the m-th since the last alarm is at (m - 1) mod window_size
    n: Ints  # values since the last alarm
    seed: Ints  # the generator's first state
    random: Ints  # its last number; 0: it hasn't begun
    alarms: Ints  # raised so far


class KswinParameters(NamedTuple):
    """Parameters."""

    alpha: float
    window_size: int
    stat_size: int


@inner
def _insert(table: Kswin, settings: KswinParameters, q: int, x: float) -> None:
    """Put a value into the window; a full window drops its oldest value."""
    size = settings.window_size
    ring_position, values, places = table.n[q] % size, table.values[q], table.places[q]
    free = table.n[q]  # a place among the values that may be taken
    if free >= size:
        free = 0
        while places[free] != ring_position:
            free += 1
    while free > 0 and values[free - 1] > x:
        values[free], places[free] = values[free - 1], places[free - 1]
        free -= 1
    last = min(table.n[q], size - 1)
    while free < last and values[free + 1] < x:
        values[free], places[free] = values[free + 1], places[free + 1]
        free += 1
    values[free], places[free] = x, ring_position
    table.n[q] += 1


@inner
def _following(r: int, multiplier: int) -> int:
    """r·multiplier mod 2^31 - 1."""
    r *= multiplier
    r = (r & _MODULUS) + (r >> 31)
    return r - _MODULUS if r >= _MODULUS else r


@inner
def _numbers(table: Kswin, q: int, numbers: Ints) -> None:
    """The generator's next numbers, all of which it then has given."""
    count = len(numbers)
    r = table.random[q] if table.random[q] else 1 + table.seed[q] % (_MODULUS - 1)
    several = 1
    for i in range(min(_LANES, count)):
        r = _following(r, _MULTIPLIER)
        several = _following(several, _MULTIPLIER)
        numbers[i] = r
    for i in range(_LANES, count):
        numbers[i] = _following(numbers[i - _LANES], several)
    table.random[q] = numbers[count - 1]


@inner
def _draw(table: Kswin, settings: KswinParameters, q: int, numbers: Ints, weights: Ints) -> None:
    """Set weights by place: 1 for the newest values, -1 for a sample of the others.

    Each sample has the same probability (Knuth's algorithm S).
    """
    size = settings.window_size
    _numbers(table, q, numbers)
    ring_position, older, wanted = table.n[q] % size, size - settings.stat_size, settings.stat_size * _MODULUS
    for i in range(older):
        drawn = 1 if numbers[i] * (older - i) < wanted else 0
        wanted -= _MODULUS * drawn
        weights[ring_position] = -drawn
        ring_position = ring_position + 1 if ring_position + 1 < size else 0
    for _ in range(settings.stat_size):
        weights[ring_position] = 1
        ring_position = ring_position + 1 if ring_position + 1 < size else 0


@inner
def _apart(table: Kswin, q: int, weights: Ints) -> int:
    """The largest difference between the cumulative counts of the newest values and of the sample."""
    values, places, size = table.values[q], table.places[q], len(weights)
    off, most = 0, 0
    for k in range(size):
        off += weights[places[k]]
        if k + 1 == size or values[k] != values[k + 1]:
            most = max(most, abs(off))
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
    table: Kswin, settings: KswinParameters, q: int, x: float, numbers: Ints, weights: Ints
) -> tuple[bool, float]:
    """Feed sequence `q` a value; returns whether there is an alarm, and the p-value.

    The two-sided Kolmogorov-Smirnov test compares the newest `stat_size` values of a full window with as many
    values drawn from the rest. There is an alarm when p <= α and the distributions are more than 0.1 apart.
    """
    size, count = settings.window_size, settings.stat_size
    _insert(table, settings, q, x)
    if table.n[q] < size:
        return False, 1.0
    _draw(table, settings, q, numbers, weights)
    apart = _apart(table, q, weights)
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
    table: Kswin, settings: KswinParameters, log: Log, rows: Ints32, values: Floats, fed: Bytes,
    detector: int, alarms: Alarms,
) -> None:  # fmt: skip
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    numbers = np.empty(settings.window_size - settings.stat_size, np.int64)
    weights = np.empty(settings.window_size, np.int64)
    for i in range(len(rows)):
        if fed[i]:
            raised, p = step(table, settings, log.sequence[rows[i]], values[i], numbers, weights)
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
    KswinParameters,
    Kswin,
    run,
    problem=problem,
    widths=lambda settings: dict.fromkeys(("values", "places"), settings.window_size),
)
