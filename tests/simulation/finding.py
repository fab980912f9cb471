"""How many seeds it takes to find each safeguard that is switched off (`make safeguards`)."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tests.simulation.plan import AIMS, aim_of
from tests.simulation.safeguards import SAFEGUARDS, SEARCHED_IN, switched_off
from tests.simulation.world import World

#: Most seeds that are tried for one safeguard.
MOST_SEEDS = 1_000


class Found(NamedTuple):
    """How many seeds it took to find a fault, and by what."""

    seeds: int
    why: str


def found(name: str, first: int, most: int = MOST_SEEDS) -> Found | None:
    """Try seeds from `first` on until a world finds that a safeguard is missing.

    Some safeguards are searched only in worlds that aim at what they need. All seeds count.
    """
    aim = SEARCHED_IN.get(name)
    for seed in range(first, first + most):
        if aim is not None and aim_of(seed) is not AIMS[aim]:
            continue
        try:
            with switched_off(name):
                World(seed).run()
        except Exception as error:
            World(seed).run()  # which must hold with the safeguard
            return Found(seed - first + 1, f"{type(error).__name__}: {error}".splitlines()[0])
    return None


def search(name: str, first: int, times: int, most: int) -> list[Found]:
    """Search so many times, each time from the seed after the last one; fewer if a search finds nothing."""
    results: list[Found] = []
    while len(results) < times and (result := found(name, first, most)) is not None:
        results.append(result)
        first += result.seeds
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each safeguard."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="safeguards; default: all")
    parser.add_argument("--times", type=int, default=3, help="searches for each, whose median is printed")
    parser.add_argument("--most", type=int, default=MOST_SEEDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parsed = parser.parse_args(arguments)
    missing = 0
    names = list(parsed.names or SAFEGUARDS)
    searches = partial(search, first=parsed.first, times=parsed.times, most=parsed.most)
    # A process for each safeguard: memory that worlds leave behind goes with it.
    with multiprocessing.Pool(parsed.processes, maxtasksperchild=1) as pool:
        for name, results in zip(names, pool.imap(searches, names, chunksize=1)):
            description = (SAFEGUARDS[name].__doc__ or "").strip()
            is_complete = len(results) == parsed.times
            missing += not is_complete
            numbers = [result.seeds for result in results]
            shown = (
                f"{statistics.median(numbers):g}|{numbers}"
                if is_complete
                else f"over {parsed.most}|{numbers}"
            )
            print(f"|{name}|{description}|{shown}|{results[0].why[:150] if results else ''}", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(main())
