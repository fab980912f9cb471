"""How often the bound of a disagreement is wrong: at any look, before any label comes.

`python -m tests.evidence.disagreements` prints the table of the page on validation, in a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from prequential.engine.comparisons import disagreement
from prequential.engine.comparisons.clusters import needed_clusters
from prequential.engine.comparisons.disagreement import Disagreements, DisagreementTables
from prequential.engine.compiled.kernel import Floats
from prequential.engine.tables.logs import Encounters, new_encounters

LEVEL = 0.025
INSTANCES = 30_000

#: Instances between two looks.
STEP = 100

#: Length of a day, ms, of so many instances.
DAY, OF_DAY = 86_400_000, 1_000


# Worlds: they fill in the share p_1 … p_n of one stream, whose expectation is `share`.


def steady(rng: np.random.Generator, share: float, _: float, p: Floats) -> None:
    """Nothing depends on anything."""
    p[:] = share


def by_batch(rng: np.random.Generator, share: float, spread: float, p: Floats) -> None:
    """Batches of 50 have effects of their own."""
    effects = rng.normal(0.0, spread * share, -(-len(p) // 50)).clip(-share, share)
    p[:] = share + np.repeat(effects, 50)[: len(p)]


def by_day(rng: np.random.Generator, share: float, spread: float, p: Floats) -> None:
    """Days have effects of their own, on both sides alike."""
    effects = rng.normal(0.0, spread * share, -(-len(p) // OF_DAY)).clip(-share, share)
    p[:] = share + np.repeat(effects, OF_DAY)[: len(p)]


def by_hour(rng: np.random.Generator, share: float, spread: float, p: Floats) -> None:
    """Each day has a turn, which begins anywhere."""
    place = 2.0 * np.pi * (np.arange(len(p)) / OF_DAY + rng.random())
    p[:] = share * (1.0 + spread * np.sin(place))


class World(NamedTuple):
    """A way to make streams; `keep`: the chance that an instance is as the one before, so runs."""

    name: str
    make: Callable[[np.random.Generator, float, float, Floats], None]
    share: float
    spread: float = 0.0
    keep: float = 0.0
    timed: bool = True


WORLDS = (
    World("0.5%, independent", steady, 0.005),
    World("0.5%, independent, without times", steady, 0.005, timed=False),
    World("0.02%, independent, without times", steady, 0.0002, timed=False),
    World("20%, independent, without times", steady, 0.2, timed=False),
    World("5%, runs of correlation 0.8, without times", steady, 0.05, keep=0.8, timed=False),
    World("5%, batches of 50 differ by half, without times", by_batch, 0.05, 0.5, timed=False),
    World("5%, runs of correlation 0.8", steady, 0.05, keep=0.8),
    World("5%, days differ by half", by_day, 0.05, 0.5),
    World("0.5%, days differ by half", by_day, 0.005, 0.5),
    World("5%, a turn by half each day", by_hour, 0.05, 0.5),
)


def encounters_of(world: World, seed: int, instances: int = INSTANCES) -> Encounters:
    """The instances of one stream."""
    rng, p = np.random.default_rng(seed), np.zeros(instances)
    world.make(rng, world.share, world.spread, p)
    differs = rng.random(instances) < p
    if world.keep:
        source = np.where(rng.random(instances) < world.keep, 0, np.arange(instances))
        differs = differs[np.maximum.accumulate(source)]
    encounters = new_encounters(instances)
    encounters.differs[:] = differs
    encounters.ts[:] = np.arange(instances) * (DAY // OF_DAY)
    encounters.pair[:] = 1
    return encounters


@numba.njit(error_model="numpy")
def bounds_of(
    tables: DisagreementTables, encounters: Encounters, length: int, fewest: int, bounds: Floats
) -> None:
    """The bound at each look."""
    for i in range(len(encounters)):
        disagreement._add(tables, 0, encounters, i, length)
        if (i + 1) % STEP == 0:
            bounds[(i + 1) // STEP - 1] = disagreement.at_most(tables, 0, 1.0 / LEVEL, fewest)


class Rates(NamedTuple):
    """Of so many streams: …"""

    wrong: float  # share in which the bound was ever below the share that is expected
    provisional: float  # … while there were too few days
    ratio: float  # median of the last bound, by what is expected


def rates(world: World, streams: int, instances: int = INSTANCES) -> Rates:
    """Of so many streams."""
    fewest, bounds = needed_clusters(LEVEL), np.zeros(instances // STEP)
    first = fewest * OF_DAY // STEP if world.timed else 0
    wrong, early, last = 0, 0, np.zeros(streams)
    for seed in range(streams):
        tables = Disagreements()
        tables.allocate()
        bounds_of(
            tables.tables, encounters_of(world, seed, instances), DAY if world.timed else 0, fewest, bounds
        )
        below = bounds < world.share
        wrong += bool(below[first:].any())
        early += bool(below[:first].any())
        last[seed] = bounds[-1]
    return Rates(wrong / streams, early / streams, float(np.median(last)) / world.share)


def table(streams: int = 500) -> list[str]:
    """Streams whose bound is ever below the expected share, at a level of 2.5%."""
    lines = ["| share of disagreement | ever wrong | … in the first days | last bound, median |"]
    lines.append("| --- " * 4 + "|")
    for world in WORLDS:
        found = rates(world, streams)
        early = f"{100 * found.provisional:.1f}%" if world.timed else ""
        lines.append(f"| {world.name} | {100 * found.wrong:.1f}% | {early} | {found.ratio:.2f} times |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


if __name__ == "__main__":
    print(*table(int(sys.argv[1]) if len(sys.argv) > 1 else 500), sep="\n")
