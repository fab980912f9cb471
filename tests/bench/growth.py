"""How the engine's cost and memory grow with models, waiting predictions and streams.

`python -m tests.bench.growth [--case models=10] …` runs the cases, each in a process of its own, without a
broker: what grows is the engine. A case fills a shard with predictions that wait, then puts the
benchmark's messages through it, takes a snapshot and restores it. (What an event costs by what it says, and
in which steps, is in `tests.bench.costs`.)
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from time import perf_counter

import msgspec
from prequential.configuration.settings.model import Config
from prequential.engine.compiled.space import Space
from prequential.engine.shard import Shard
from prequential.runtime.program.compilation import compile_loops

from tests.bench.feeding import arriving, feed, per_event, resident
from tests.bench.messages import START_MS, Record, generate

#: What varies, and what it is otherwise.
USUAL = {"models": 2, "waiting": 10_000, "streams": 1}
CASES = [
    {"models": 1}, {"models": 10}, {"models": 100},
    {"waiting": 10_000}, {"waiting": 100_000}, {"waiting": 1_000_000},
    {"streams": 1}, {"streams": 100}, {"streams": 10_000},
]  # fmt: skip

#: Records of a case.
RECORDS = 800_000


def filling(waiting: int, models: int, streams: int, start: int) -> Iterator[Record]:
    """Instances with their predictions whose labels don't come, from `start` (ms) on."""
    return arriving(range(waiting // models), models, streams, lambda number: start + number // 100)


def measure(models: int, waiting: int, streams: int) -> dict[str, float]:
    """One case."""
    compile_loops(partial(print, file=sys.stderr))
    gc.freeze()
    gc.disable()
    shard = Shard(Config())
    before = resident()
    for _ in feed(shard, filling(waiting, models, streams, START_MS - 3_600_000)):
        pass
    filled = resident()
    instances = RECORDS // (2 + models)
    rounds = list(feed(shard, generate(instances, models, streams)))
    space = Space(shard.snapshot_size)  # in the shard's own thread, beside the rounds
    began = perf_counter()
    parts = shard.snapshot(space)  # copies everything, while the shard stands still
    stall = perf_counter() - began
    encoded = [msgspec.msgpack.encode(part) for part in parts]
    written = perf_counter() - began
    began = perf_counter()
    other = Shard(Config())
    other.restore(msgspec.msgpack.decode(part) for part in encoded)
    restored = perf_counter() - began
    return {
        "us_per_event": per_event(rounds, "seconds"),
        "mb_waiting": (filled - before) / 1e6,
        "stall_ms": stall * 1e3,
        "snapshot_mb": sum(map(len, encoded)) / 1e6,
        "write_s": written,
        "restore_s": restored,
    }


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", metavar="NAME=NUMBER", help="only this (repeatable)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(**json.loads(args.one))))
        return
    chosen = [
        {name: int(number)} for name, _, number in (case.partition("=") for case in args.case or [])
    ]
    for case in chosen or CASES:
        command = [sys.executable, "-m", "tests.bench.growth", "--one", json.dumps({**USUAL, **case})]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        name, number = next(iter(case.items()))
        shown = (f"{field} {value:,.2f}" for field, value in json.loads(done.stdout).items())
        print(f"{name} {number:>9,}  " + "  ".join(shown), flush=True)


if __name__ == "__main__":
    main()
