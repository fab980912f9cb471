"""What a scrape of `/metrics` is: its samples, bytes and CPU seconds, by numbers of streams of two models.

`python -m tests.bench.scrape [--streams N] …` puts the benchmark's messages through a shard, and has the
exporter write all that there is to say of it, some times. Of the CPU seconds a part is the loop's that runs
the shards, which copies what is read: that holds records up, a picture at a time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter, thread_time
from types import SimpleNamespace
from typing import Any

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.http_server import ALL_SERIES, SERIES, HttpConfig
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.runtime.compilation import compile_loops
from prequential.runtime.worker.exporter import Exporter
from prequential.runtime.worker.publisher import ShardStatistics

from tests.bench.feeding import feed
from tests.bench.messages import generate

STREAMS, MODELS = (300, 2_000), 2

#: Of a stream: pairs have begun, and statistics have as many digits as they ever have.
INSTANCES = 40


def shard_of(streams: int, config: Config, case: str) -> Shard:
    """A shard with so many streams; it makes no messages."""
    quiet = replace(config.defaults, emit_outcomes=None, emit_every=None, emit_comparisons=None)
    shard = Shard(replace(config, defaults=quiet))
    for _ in feed(shard, generate(INSTANCES * streams, MODELS, streams, case=case)):
        pass
    return shard


def measure(shard: Shard, http: HttpConfig, times: int) -> dict[str, Any]:
    """Scrape a shard so often."""
    runner: Any = SimpleNamespace(
        shard=shard, recovering=False, halted=None, partition=0, statistics=ShardStatistics()
    )
    fetcher: Any = SimpleNamespace(ends={})
    exporter = Exporter(replace(shard.config, http=http), fetcher, {0: runner})
    copying: list[float] = []

    def in_loop(question: Callable[[], Any]) -> Any:
        began = perf_counter()
        found = question()
        copying.append(perf_counter() - began)
        return found

    cpu, walls, in_loops, text = [], [], [], ""
    for _ in range(times):
        copying.clear()
        wall, began = perf_counter(), thread_time()
        text = exporter.text(in_loop)
        cpu.append(thread_time() - began)
        walls.append(perf_counter() - wall)
        in_loops.append(sum(copying))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    families = Counter(line.partition("{")[0] for line in lines)
    return {
        "samples": len(lines), "mb": len(text) / 1e6, "gzip_mb": len(gzip.compress(text.encode(), 1)) / 1e6,
        "cpu_s": median(cpu), "wall_s": median(walls), "in_loop_s": median(in_loops),
        "longest_ms": max(copying) * 1e3, "families": dict(families),
    }  # fmt: skip


def main() -> None:
    """Print a line for each number of streams, with what is shown by default, and with all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", action="append", type=int, metavar="N", help="so many (repeatable)")
    parser.add_argument("--times", type=int, default=5, metavar="N", help="scrapes (default: 5)")
    parser.add_argument("--case", default="plain", help="of the benchmark (default: plain)")
    parser.add_argument("--families", action="store_true", help="samples by family")
    parser.add_argument("--json", action="store_true", help="for machines")
    args = parser.parse_args()
    compile_loops(partial(print, file=sys.stderr))
    quiet_collector()
    every = HttpConfig(stages=ALL_SERIES, estimators=ALL_SERIES, series=SERIES)
    shown = {"needed": HttpConfig(), "all": every}
    for streams in args.streams or STREAMS:
        shard = shard_of(streams, Config(defaults=StreamConfig()), args.case)
        for name, http in shown.items():
            found = measure(shard, http, args.times)
            if args.json:
                print(json.dumps({"streams": streams, "series": name, **found}), flush=True)
                continue
            print(
                f"{streams:6,} streams, {name:6}: {found['samples']:9,} samples, {found['mb']:6.2f} MB "
                f"({found['gzip_mb']:.2f} compressed), CPU {found['cpu_s']:.2f} s, of it "
                f"{found['in_loop_s']:.2f} in the loop, at most {found['longest_ms']:.0f} ms at a time",
                flush=True,
            )
            if args.families:
                for family, count in found["families"].items():
                    print(f"    {family:60} {count:9,}")


if __name__ == "__main__":
    main()
