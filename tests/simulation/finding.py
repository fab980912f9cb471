"""How many seeds it takes to find each safeguard that is switched off (`make safeguards`)."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.safeguards import SAFEGUARDS, switched_off
from tests.simulation.world import World

#: Most seeds that are tried for one safeguard.
MOST_SEEDS = 1_000


class Found(NamedTuple):
    """How many seeds it took to find a fault, and by what."""

    seeds: int
    why: str


def found(name: str, first: int, most: int = MOST_SEEDS) -> Found | None:
    """Try seeds from `first` on until a world finds that a safeguard is missing."""
    for seed in range(first, first + most):
        try:
            with switched_off(name):
                World(seed).run()
        except Exception as error:
            World(seed).run()  # which must hold with the safeguard
            return Found(seed - first + 1, f"{type(error).__name__}: {error}".splitlines()[0])
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each safeguard."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="safeguards; default: all")
    parser.add_argument("--times", type=int, default=3, help="searches for each, whose median is printed")
    parser.add_argument("--most", type=int, default=MOST_SEEDS)
    parser.add_argument("--first", type=int, default=0)
    parsed = parser.parse_args(arguments)
    missing = 0
    for name in parsed.names or SAFEGUARDS:
        results = []
        first = parsed.first
        for _ in range(parsed.times):
            result = found(name, first, parsed.most)
            if result is None:
                break
            results.append(result)
            first += result.seeds
        said = (SAFEGUARDS[name].__doc__ or "").strip()
        if results:
            median = statistics.median(result.seeds for result in results)
            print(f"|{name.replace('_', ' ')}|{said}|{median:g}|   {results[0].why[:150]}", flush=True)
        else:
            missing += 1
            print(f"|{name.replace('_', ' ')}|{said}|more than {parsed.most}|", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(main())
