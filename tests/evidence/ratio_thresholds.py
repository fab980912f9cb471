"""How rare excursions of the default ratio are: the table of `engine.detectors.budgets`.

`python -m tests.evidence.ratio_thresholds` prints it, in some ten minutes. Page-Hinkley on
`fading:0.997/fading:0.9994` with δ = 0.1, of independent errors; λ in units of c = sqrt((1 - e)/e). Alarms
that are too rare to be waited for are found by multilevel splitting: from where the statistic came up to a
level, runs go on until it is at the next one, or at 0 again (Glasserman, Heidelberger, Shahabuddin and Zajic
1999).
"""

from __future__ import annotations

import sys

import numba
import numpy as np
from prequential.engine.compiled.kernel import Floats

SHORT, LONG, DELTA = 0.997, 0.9994, 0.1

#: c of the table's rows, and ln(outcomes between alarms) of its columns.
SPREADS = (1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 9.0, 13.0, 20.0, 30.0)
LOGS = tuple(range(8, 31, 2))

#: Outcomes of the run that begins it, before it, and runs from each level.
_FIRST, _BEFORE, _RUNS = 50_000_000, 50_000, 16_000

#: λ of the first level, at most: of rare errors it is higher than a run of this length comes to.
_MOST = 300.0

#: Chance of a step beyond which there are no more levels.
_RAREST = 32.0


@numba.njit
def _begin(seed: int, error: float, mean: float, level: float, entries: Floats) -> tuple[int, float]:
    """A long run: how often the statistic came from 0 to the level; the ratio's mean; where it was."""
    np.random.seed(seed)
    short = long = error
    w, total, count, below = 0.0, 0.0, 0, True
    for i in range(_BEFORE + _FIRST):
        x = 1.0 if np.random.random() < error else 0.0
        short = (1.0 - SHORT) * x + SHORT * short
        long = (1.0 - LONG) * x + LONG * long
        if i < _BEFORE:
            continue
        ratio = short / long
        total += ratio
        w = max(0.0, w + ratio - mean - DELTA)
        if w == 0.0:
            below = True
        elif below and w >= level:
            below = False
            place = count if count < len(entries) else np.random.randint(0, count + 1)
            if place < len(entries):
                entries[place, 0], entries[place, 1], entries[place, 2] = short, long, w
            count += 1
    return count, total / _FIRST


@numba.njit
def _go_on(
    seed: int, error: float, mean: float, level: float, entries: Floats, known: int, following: Floats
) -> int:
    """Runs from entries of one level: how many come to the next, and where they then are."""
    np.random.seed(seed)
    found = 0
    for _ in range(len(following)):
        short, long, w = entries[np.random.randint(0, known)]
        while 0.0 < w < level:
            x = 1.0 if np.random.random() < error else 0.0
            short = (1.0 - SHORT) * x + SHORT * short
            long = (1.0 - LONG) * x + LONG * long
            w = max(0.0, w + short / long - mean - DELTA)
        if w > 0.0:
            following[found, 0], following[found, 1], following[found, 2] = short, long, w
            found += 1
    return found


def run_lengths(spread: float, seed: int = 1) -> tuple[Floats, Floats]:
    """Thresholds in units of c, and ln(outcomes between alarms)."""
    error = 1.0 / (1.0 + spread * spread)
    unused = np.zeros((1, 3))
    _, mean = _begin(seed, error, 1.0, 1e9, unused)
    entries = np.zeros((_RUNS, 3))
    step = min(0.4 + 0.7 * spread, _MOST / spread)
    x = step
    count, _ = _begin(seed + 1, error, mean, x * spread, entries)
    known = min(count, _RUNS)
    levels, logs = [x], [float(np.log(_FIRST / count))]
    while logs[-1] < _RAREST:
        x += step
        following = np.zeros((_RUNS, 3))
        found = _go_on(seed + len(logs) + 1, error, mean, x * spread, entries, known, following)
        if found < _RUNS // 50:  # too far: half of the way
            x -= step
            step /= 2.0
            continue
        entries, known = following, found
        levels.append(x)
        logs.append(logs[-1] + float(np.log(_RUNS / found)))
    return np.array(levels), np.array(logs)


def table() -> Floats:
    """Thresholds in units of c: rows by c, columns by ln(outcomes between alarms)."""
    rows = []
    for spread in SPREADS:
        levels, logs = run_lengths(spread)
        # Below the first level along the line through the first two.
        before = min(float(LOGS[0]), 2.0 * logs[0] - logs[1])
        rows.append(np.interp(LOGS, [before, *logs], [0.0, *levels]))
        print(spread, *(f"{x:.2f}:{one:.2f}" for x, one in zip(levels, logs)), file=sys.stderr, flush=True)
    return np.array(rows)


if __name__ == "__main__":
    for row in table():
        print(f"[{', '.join(f'{x:.1f}' for x in row)}],", flush=True)
