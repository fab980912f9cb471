"""How often signals of periods say something where nothing has changed, and how soon where something has.

    python -m tests.evidence.period_signals [WORLD ...]

Days of a model with two classes, horizon 14 days, as in `before_labels`. In the stationary worlds every
signal beyond the bound is a false alarm: predictions and labels independent (`independent`), labels in
batches once a week (`batches`), errors and inputs that depend on each other within some hours (`hours`) and
over days (`days`), and weekends of other predictions (`weekends`). In the others something changes half way.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.engine.delay.records import SIGNALS, UNUSUAL

from tests.evidence.before_labels import DAY, messages_of
from tests.evidence.label_worlds import EACH, World, of_two, world

STATIONARY = ("independent", "batches", "hours", "days", "weekends")
CHANGES = ("concept", "slower", "covariate")


class Said(NamedTuple):
    """The signals of a day that has a maturity for the first time."""

    day: int
    maturity: int
    clock: int
    signals: dict[str, float | None]


def stationary(kind: str, days: int, each: int, seed: int) -> World:
    """A world in which nothing changes, but not all is independent."""
    r = np.random.default_rng(seed)
    n = days * each
    t = np.sort(r.random(n)) * days
    level = np.zeros(n)
    if kind in ("hours", "days"):
        # A state that is forgotten with a mean life of 3 hours, or 1.5 days.
        steps = days * 24
        keep = np.exp(-1 / (3 if kind == "hours" else 36))
        state = np.zeros(steps)
        for i, step in enumerate(r.normal(0, np.sqrt(1 - keep**2), steps)):
            state[i] = keep * state[i - 1] + step
        level = state[np.minimum((t * 24).astype(int), steps - 1)]
    weekend = (t % 7 > 5) & (kind == "weekends")
    s = np.clip(r.beta(np.where(weekend, 2.0, 1.0), 6.0) + 0.05 * np.maximum(level, -1), 0, 1)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    y = np.where(r.random(n) < 0.04 * np.exp(0.5 * level), ~y, y)
    d = np.where(y, r.exponential(1.5, n), r.exponential(6, n))
    if kind == "batches":
        d = np.ceil((t + d) / 7) * 7 + 0.2 - t
    return of_two(t, s, y, d, days)


def run(kind: str, seed: int, days: int = 200, each: int = EACH) -> list[Said]:
    """The signals that are said in a world."""
    own = world(kind, days, each, seed) if kind in CHANGES else stationary(kind, days, each, seed)
    said = []
    for clock, one in messages_of(own._replace(step=1 / 24)):
        if one.period is not msgspec.UNSET and one.expected is not msgspec.UNSET:
            signals = one.expected.get("signals")
            if signals is not None:
                day = one.period["start"] // DAY
                said.append(Said(day, sum(said_of.day == day for said_of in said), clock, signals))
    return said


def unusual(said: list[Said], signal: str) -> list[Said]:
    """Those whose signal is beyond the bound."""
    return [one for one in said if (value := one.signals[signal]) is not None and abs(value) > UNUSUAL]


def main(kinds: tuple[str, ...], seeds: int = 2) -> None:
    """Print a line for each world."""
    print("| world | " + " | ".join(SIGNALS) + " |\n| --- |" + " --- |" * len(SIGNALS))
    for kind in kinds:
        found: list[list[Said]] = [run(kind, seed) for seed in range(seeds)]
        cells = []
        for signal in SIGNALS:
            values: list[Any] = [one for said in found for one in said if one.signals[signal] is not None]
            if kind in CHANGES:
                after = [[one for one in unusual(said, signal) if one.clock > 100 * DAY] for said in found]
                first = [f"{(own[0].clock / DAY) - 100:.1f}" if own else "none" for own in after]
                cells.append(", ".join(first))
                continue
            alarms = [one for said in found for one in unusual(said, signal)]
            days = sum(len({one.day for one in unusual(said, signal)}) for said in found)
            every = sum(len({one.day for one in said if one.signals[signal] is not None}) for said in found)
            largest = max(abs(one.signals[signal]) for one in values)
            cells.append(f"{days} of {every} days ({len(alarms)} of {len(values)}), largest {largest:.1f}")
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or STATIONARY + CHANGES)
