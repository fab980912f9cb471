"""How good expected values are where people label a sample of what a judge has said.

    python -m tests.evidence.sampled_labels [WORLD ...]

Days of 1,000 verdicts of a judge, of which 5% get a label from people: with equal propensities (`uniform`),
or the uncertain ones five times as often as the others (`uncertain`); labels come with a mean delay of two
days (`late`: of six, wrong verdicts sooner), horizon 14 days. In `concept` the judge becomes worse half way.
Here the truth is known for all verdicts: what is said is compared with that, and the interval must hold it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.engine.delay.records import MATURITIES

from tests.evidence.before_labels import DAY, maturity_of, messages_of
from tests.evidence.label_worlds import HORIZON, World, of_two

#: Verdicts of a day, and the mean share of them that gets a label.
EACH, SHARE = 1_000, 0.05

WORLDS = ("uniform", "uncertain", "late", "concept")

#: What a final message says, beside the maturities.
FINAL = 5


class Said(NamedTuple):
    """What was said of a day's accuracy, and the truth; NaN: no interval, or no label yet."""

    day: int
    maturity: int
    value: float
    half: float
    covered: bool
    labelled: float  # plain accuracy of the labels that had come
    weighted: float  # `ipw_accuracy` of these
    truth: float


def world(kind: str, days: int, each: int, seed: int) -> tuple[World, Any]:
    """A world, and the propensity of each verdict's label."""
    r = np.random.default_rng(seed)
    n = days * each
    t = np.sort(r.random(n)) * days
    s = r.beta(1.2, 0.9, n)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    if kind == "concept":
        y = np.where((t > days / 2) & (r.random(n) < 0.08), ~y, y)
    wanted = np.where((abs(s - 0.5) < 0.2) & (kind != "uniform"), 5.0, 1.0)
    propensity = np.minimum(1.0, SHARE * wanted / wanted.mean())
    delay = r.exponential(2, n)
    if kind == "late":
        delay = np.where((s > 0.5) != y, r.exponential(3, n), r.exponential(6, n))
    delay[r.random(n) >= propensity] = np.inf
    return of_two(t, s, y, delay, days), propensity


def run(kind: str, seed: int, days: int = 120, each: int = EACH) -> list[Said]:
    """What is said of each day at each maturity for the first time, and with the final message."""
    own, propensity = world(kind, days, each, seed)
    own = own._replace(step=1 / 24)
    first: dict[tuple[int, int], Said] = {}
    found = messages_of(own, measures=("accuracy", "ipw_accuracy"), propensity=propensity)
    for _, one in found:
        if one.period is msgspec.UNSET or one.expected is msgspec.UNSET:
            continue
        day = one.period["start"] // DAY
        maturity = FINAL if one.period["status"] == "final" else maturity_of(one.expected)
        said = one.expected["measures"]["accuracy"]
        low, high = said.get("interval", (np.nan, np.nan))
        truth = float(own.right[own.ts.astype(int) == day].mean())
        first.setdefault((day, maturity), Said(
            day, maturity, said["value"], (high - low) / 2, low <= truth <= high,
            one.measures.get("accuracy", np.nan), one.measures.get("ipw_accuracy", np.nan), truth,
        ))  # fmt: skip
    return [one for _, one in sorted(first.items())]


def main(kinds: tuple[str, ...], seeds: int = 2) -> None:
    """Print a line for each world and maturity."""
    columns = "world", "days", "error", "labels so far", "weighted", "coverage", "half width"
    print("|", " | ".join(columns), "|\n|", " | ".join(["---"] * len(columns)), "|")
    for kind in kinds:
        rows: dict[int, list[Said]] = defaultdict(list)
        for seed in range(seeds):
            for one in run(kind, seed):
                if one.half == one.half and one.maturity >= 0:
                    rows[one.maturity].append(one)
        for maturity, own in sorted(rows.items()):
            errors = (
                100 * np.nanmean([abs(getattr(one, name) - one.truth) for one in own])
                for name in ("value", "labelled", "weighted")
            )
            print(
                f"| {kind} | {'final' if maturity == FINAL else f'{MATURITIES[maturity] * HORIZON / 28:g}'} "
                f"| {' | '.join(f'{error:.2f}' for error in errors)} "
                f"| {100 * np.mean([one.covered for one in own]):.0f}% "
                f"| {100 * np.mean([one.half for one in own]):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or WORLDS)
