"""`decay:H`: older outcomes count less and less, by time: half as much after each H.

At each outcome S = x + S·2^(-Δt/H), where Δt >= 0 is the time from the sequence's latest label to this one. N
is the same with x = 1, and the estimate is S/N. So a label with a time before the latest counts 1, as if it
had the latest time. A reading is at the latest label time.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from prequential.configuration.settings.durations import duration, exact_duration
from prequential.engine.compiled.kernel import Floats, Ints, inner
from prequential.engine.compiled.mathematics import halved
from prequential.engine.estimators.declaration import Memory
from prequential.engine.estimators.fading import Clock, faded_loops
from prequential.engine.tables.scores import NO_WEIGHT

#: Longest half-life, 100 years (ms).
_LONGEST = 36_525 * 86_400_000

# One spelling, as far as possible, because names are in messages.
_HALF_LIFE = re.compile("[1-9][0-9]{0,15}(?:ms|s|m|h|d|w|S|min|H|D|W)")


class DecayCounts(NamedTuple):
    """By sequence: the weight of each cell."""

    weights: Floats  # (sequences, cells), as of the outcome that touched the cell last
    touched: Ints  # (sequences, cells), the latest label time then, ms
    n: Ints  # outcomes seen
    latest: Ints  # label time, ms
    squares: Floats  # Σw² of the outcomes' weights at that time
    known: Ints  # the last outcome at which baselines had a label to predict from, from 1; 0: none
    known_at: Ints  # the latest label time then, ms


class DecaySums(NamedTuple):
    """By sequence: sums, as of the last outcome that added to them."""

    sums: Floats  # (sequences, sums)
    touched: Ints  # the latest label time then, ms
    n: Ints  # outcomes seen
    latest: Ints  # label time, ms


@inner
def advance(table: Any, q: int, t1: int, parameter: float) -> None:
    """Advance by one outcome, with this label time."""
    if table.n[q] == 0 or t1 > table.latest[q]:
        table.latest[q] = t1
    table.n[q] += 1


@inner
def advance_counts(table: DecayCounts, q: int, t1: int, parameter: float) -> None:
    """Advance by one outcome, and update the squares of weights."""
    before = table.latest[q]
    advance(table, q, t1, parameter)
    weight = weight_left(table.latest[q] - before, parameter)
    table.squares[q] = 1.0 + table.squares[q] * (weight * weight)


@inner
def now(table: Any, q: int) -> int:
    """The latest label time."""
    return table.latest[q]


@inner
def weight_left(gap: int, parameter: float) -> float:
    """2^(-gap/H)."""
    return halved(gap, int(parameter))


@inner
def note(table: DecayCounts, q: int) -> None:
    """Note that baselines had a label to predict from at the newest outcome."""
    table.known[q], table.known_at[q] = table.n[q], table.latest[q]


@inner
def knows(table: DecayCounts, q: int, parameter: float) -> bool:
    """Whether baselines had a label to predict from at any outcome that still has a weight."""
    return table.known[q] > 0 and weight_left(table.latest[q] - table.known_at[q], parameter) >= NO_WEIGHT


def effective(table: DecayCounts, q: int, parameter: float, n: float) -> float:
    """The effective sample size of a memory of weight `n`: N²/Σw²."""
    return n * n / float(table.squares[q]) if n else n


def parse(text: str) -> float | None:
    """The half-life, ms; None if the text isn't one. Raises ValueError for one that is too long.

    >>> parse("1h"), parse("90s"), parse("0h"), parse("1 h"), parse("1.5h")
    (3600000.0, 90000.0, None, None, None)
    >>> parse("99999w")
    Traceback (most recent call last):
    ...
    ValueError: expected a half-life of at most 36525d
    """
    if not _HALF_LIFE.fullmatch(text):
        return None
    half_life = duration(text)
    if half_life > _LONGEST:
        raise ValueError(f"expected a half-life of at most {exact_duration(_LONGEST)}")
    return float(half_life)


MEMORY = Memory(
    "decay",
    "decay:H (H a half-life such as 1h)",
    "decay:1s",
    parse,
    lambda parameter: exact_duration(int(parameter)),
    *faded_loops(
        "decay", DecayCounts, DecaySums, Clock(advance_counts, advance, now, weight_left), note, knows
    ),
    clock=("n", "latest"),
    whole=False,
    adds_up=True,
    effective=effective,
    weight_left=lambda parameter, outcomes, ms: weight_left(ms, parameter),
)
