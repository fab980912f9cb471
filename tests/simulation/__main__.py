"""Worlds from the command line: `python -m tests.simulation --seed 17` repeats one and tells its story.

`--worlds 10000` lives through as many, in `--processes`, and prints the seeds that fail. The exit status is
the number of these, at most 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence

from tests.simulation.world import World


def tell(seed: int) -> int:
    """Live through one world, and print its story."""
    world = World(seed)
    print(f"seed {seed}: {world.plan.config.kafka.partitions} partitions, {world.plan.workers} workers")
    try:
        world.run()
    except Exception as error:
        print(world.story)
        print(f"\n{type(error).__name__}: {error}")
        return 1
    print(world.story)
    print("\nall properties hold")
    return 0


def why_it_fails(seed: int) -> tuple[int, str | None]:
    """The seed, and what does not hold in its world; None if everything does."""
    try:
        World(seed).run()
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}".splitlines()[0]
    return seed, None


def many(first: int, count: int, processes: int) -> int:
    """Live through many worlds, and print those that fail."""
    began, failed = time.monotonic(), 0
    with multiprocessing.Pool(processes, maxtasksperchild=20) as pool:
        for seed, why in pool.imap_unordered(why_it_fails, range(first, first + count), chunksize=10):
            if why is not None:
                failed += 1
                print(f"seed {seed}: {why}; `make world SEED={seed}` tells its story", flush=True)
    seconds = time.monotonic() - began
    print(f"{count} worlds from seed {first} in {seconds:.0f} s: {failed} failed")
    return min(1, failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="the world whose story is told")
    parser.add_argument("--worlds", type=int, default=200, help="how many worlds, default: 200")
    parser.add_argument("--first", type=int, default=0, help="the first of their seeds, default: 0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parsed = parser.parse_args(arguments)
    if parsed.seed is not None:
        return tell(parsed.seed)
    return many(parsed.first, parsed.worlds, parsed.processes)


if __name__ == "__main__":
    sys.exit(main())
