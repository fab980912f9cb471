"""What an event costs in one stream, and in up to 100,000: the join, estimators and all that follows them.

`python -m tests.bench.curve [--streams N] …` puts plain records through a shard without a broker, each number
of streams in a process of its own. Seconds are CPU seconds of the thread that runs the engine, which is
compiled before. No messages become due: what they cost follows from their number (`tests.bench.costs`).

The rounds in which streams come for the first time stand apart; what a stream costs in these with its first
records is also told by itself. Memory is that of the state at the end. A shard has room for all streams here,
which it has by default for 10,000 (`limits.streams_per_shard`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from functools import partial
from typing import Any

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.model import Config, Limits
from prequential.engine.shard import Shard
from prequential.runtime import program
from prequential.runtime.compilation import compile_loops

from tests.bench.cases import CASES
from tests.bench.feeding import ROUND, feed, per_event, resident
from tests.bench.messages import generate

STREAMS = (1, 10, 100, 1_000, 10_000, 100_000)

MODELS = 2

#: Instances of a run, at least; and of each stream.
INSTANCES, OF_EACH = 100_000, 10

_EACH = 2 + MODELS  # records of an instance


def measure(case: str, streams: int) -> dict[str, Any]:
    """One number of streams."""
    settings = dataclasses.replace(CASES[case].config, emit_every=None, emit_outcomes=None)
    config = Config(defaults=settings, limits=Limits(streams_per_shard=max(STREAMS)))
    compile_loops(partial(print, file=sys.stderr), config)
    instances, size = max(INSTANCES, OF_EACH * streams), 4 * ROUND
    shard, before = Shard(config), resident()
    rounds = list(feed(shard, generate(instances, MODELS, streams, case=case), size))
    new = 1 + streams * _EACH // size  # rounds until all streams are known
    return {
        "case": case, "streams": streams, "new_us": per_event(rounds[:new], "seconds"),
        "stream_us": sum(spent.seconds for spent in rounds[:new]) / streams * 1e6,
        "us": per_event(rounds[new:], "seconds"), "joining_us": per_event(rounds[new:], "joining"),
        "mb": (resident() - before) / 1e6,
    }  # fmt: skip


def main() -> None:
    """Run all numbers of streams, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="plain", choices=list(CASES))
    parser.add_argument("--streams", action="append", type=int, metavar="N", help="so many (repeatable)")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        program.map_large_blocks()
        quiet_collector()
        print(json.dumps(measure(**json.loads(args.one))))
        return
    if not args.json:
        print("streams    while new, µs   then, µs   a new stream, µs     MB   kB per stream", flush=True)
    for streams in args.streams or STREAMS:
        asked = json.dumps({"case": args.case, "streams": streams})
        command = [sys.executable, "-m", "tests.bench.curve", "--one", asked]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        if args.json:
            print(json.dumps(found), flush=True)
            continue
        each = f"{found['stream_us']:,.0f}" if streams * _EACH >= 4 * ROUND else "-"
        print(
            f"{streams:<10,} {found['new_us']:>13.2f} {found['us']:>10.2f} {each:>18} "
            f"{found['mb']:>6,.0f} {found['mb'] * 1e3 / streams:>15,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
