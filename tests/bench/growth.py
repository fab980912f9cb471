"""How the engine's cost and memory grow with models, waiting predictions and streams.

`python -m tests.bench.growth [--case models=10] …` runs the cases, each in a process of its own, without a
broker: what grows is the engine. A case fills a shard with predictions that wait, then puts the
benchmark's messages through it, takes a snapshot and restores it.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from time import perf_counter, thread_time

import msgspec

from pipeline.config import Config
from pipeline.core.merge import Batch
from pipeline.core.shard import Shard
from tests.bench.messages import START_MS, Record, generate
from topics.decoding import decode
from topics.specs import INPUTS

#: What varies, and what it is otherwise.
USUAL = {"models": 2, "waiting": 10_000, "streams": 1}
CASES = [
    {"models": 1}, {"models": 10}, {"models": 100},
    {"waiting": 10_000}, {"waiting": 100_000}, {"waiting": 1_000_000},
    {"streams": 1}, {"streams": 100}, {"streams": 10_000},
]  # fmt: skip

#: Records of a case, and of one topic in a round.
RECORDS = 800_000
ROUND = 8_000

_ENDED = 1 << 62


def filling(waiting: int, models: int, streams: int, start: int) -> Iterator[Record]:
    """Instances with their predictions whose labels don't come, from `start` (ms) on."""
    for number in range(waiting // models):
        stream = f"s-{number % streams}"
        ts = start + number // 100
        head = f'{{"stream":"{stream}","instance_id":"w-{number}","ts":{ts}'
        yield Record(ts, "instances", stream.encode(), f"{head}}}".encode())
        for model in range(models):
            text = f'{head},"model":"m-{model}","y_pred":"0"}}'
            yield Record(ts, "predictions", stream.encode(), text.encode())


def rounds(records: Iterator[Record], shard: Shard) -> Iterator[list[Batch]]:
    """Batches of raw records, decoded when they are given to the shard."""
    offsets = list(shard.merge.added)
    while chunk := list(islice(records, 4 * ROUND)):
        batches = []
        for kind, name in enumerate(INPUTS):
            own = [record for record in chunk if record.kind == name]
            if own:
                span = range(offsets[kind], offsets[kind] + len(own))
                offsets[kind] = span.stop
                batches.append((kind, span, [r.ts for r in own], [r.value for r in own]))
        yield batches  # type: ignore[misc]


def feed(shard: Shard, records: Iterator[Record]) -> tuple[int, float]:
    """Put records through; returns how many, and the CPU seconds that decoding and the engine took."""
    count, seconds = 0, 0.0
    for batches in rounds(records, shard):
        began = thread_time()
        for kind, span, times, values in batches:  # type: ignore[misc]
            shard.add(Batch(kind, span, times, decode(kind, values)))
        count += shard.advance([_ENDED] * 3, _ENDED)
        shard.flush()
        seconds += thread_time() - began
    return count, seconds


def resident() -> float:
    """Memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def measure(models: int, waiting: int, streams: int) -> dict[str, float]:
    """One case."""
    gc.freeze()
    gc.disable()
    shard = Shard(Config())
    before = resident()
    feed(shard, filling(waiting, models, streams, START_MS - 3_600_000))
    filled = resident()
    instances = RECORDS // (2 + models)
    count, seconds = feed(shard, generate(instances, models, streams))
    began = perf_counter()
    parts = shard.snapshot()
    stall = perf_counter() - began
    encoded = [msgspec.msgpack.encode(part) for part in parts]
    written = perf_counter() - began
    began = perf_counter()
    other = Shard(Config())
    other.restore(msgspec.msgpack.decode(part) for part in encoded)
    restored = perf_counter() - began
    return {
        "us_per_event": seconds / count * 1e6,
        "mb_waiting": filled - before,
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
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        name, number = next(iter(case.items()))
        shown = (f"{field} {value:,.2f}" for field, value in json.loads(done.stdout).items())
        print(f"{name} {number:>9,}  " + "  ".join(shown), flush=True)


if __name__ == "__main__":
    main()
