"""What many waiting predictions cost: memory, the join, and pauses.

`python -m tests.bench.waiting [--waiting 1000000]` (or `make bench ARGS=--waiting`) puts N predictions
whose labels are days away into a shard, as one stream and as many small ones, each case in a process of its
own, without a broker. Then

1. labels come as fast as new predictions, so that as many wait as before,
2. a snapshot is taken: the shard stands still while its state is copied (the stall); what becomes chunks of a
   topic is written beside it,
3. labels stop coming, and everything that waits expires, at the pace at which it came.

Seconds are CPU seconds of the thread that runs the engine: what else the machine does isn't in them. Loops
are compiled before, and the collector of cyclic garbage is set as the worker sets it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import Space
from prequential.runtime.compilation import compile_loops
from prequential.runtime.program import give_back
from prequential.runtime.worker.snapshots import ChunkWriter
from rich.console import Console
from rich.table import Table

from tests.bench.feeding import ROUND, Spent, arriving, feed, models_of, per_event, resident
from tests.bench.messages import START_MS

MODELS = 2

#: Streams that share what waits, where there are many.
STREAMS = 1_000

#: Fractions of the waiting predictions that were asked for: what grows shows.
FRACTIONS = (100, 10, 1)

#: Instances of a round: each topic's records are at most as many as the worker processes at once.
INSTANCES = ROUND // MODELS

#: Rounds with labels; with few waiting it is a quick run.
ROUNDS = 100
_WAITING_PER_ROUND = 5_000

#: Rounds between two flushes: about what the worker processes between two transactions.
FLUSH_EVERY = 4

#: Messages by count only: at a pace of some instances a second those of each second were all that is seen.
STREAM = StreamConfig(emit_every=None)

#: Labels come so long (ms) after their instance. Far from the end of their time: a round may span hours
#: here, and instances whose time is over within their round aren't usual.
DELAY = STREAM.label_horizon // 2


def longest(rounds: list[Spent]) -> dict[str, float]:
    """Largest and 99th percentile of the joins' milliseconds."""
    times = sorted(1e3 * each.joining for each in rounds)
    return {"max_ms": times[-1], "p99_ms": times[(len(times) * 99 + 99) // 100 - 1]}


def used() -> float:
    """Memory of this process once what is free is given back, which the worker does every half a minute."""
    give_back()
    return resident()


def measure(waiting: int, streams: int, rounds: int) -> dict[str, Any]:
    """One case."""
    compile_loops(partial(print, file=sys.stderr))
    quiet_collector()
    instances = waiting // MODELS
    streams = min(streams, instances)
    limits = replace(Limits(), instances_per_shard=max(Limits.instances_per_shard, 4 * waiting))
    shard = Shard(Config(defaults=STREAM, limits=limits))

    def spent(first: int, count: int, later: int, behind: int = 0) -> list[Spent]:
        """Put `count` instances from number `first` on through, their times moved by `later` ms."""
        records = arriving(
            range(first, first + count), MODELS, streams,
            lambda number: START_MS + later + number * DELAY // instances, behind,
        )  # fmt: skip
        size = min(INSTANCES, instances) * (1 + MODELS + (behind > 0))
        return list(feed(shard, records, size, FLUSH_EVERY))

    def waits() -> int:
        return int(shard.state.accounts.coverage.models.waiting[models_of(shard)].sum())

    def expired() -> int:
        return int(shard.catalog.columns.entities.expired[models_of(shard)].sum())

    empty = used()
    filled = spent(0, instances, 0)
    memory = used() - empty
    labelled = rounds * min(INSTANCES, instances)
    steady = spent(instances, labelled, 0, behind=instances)
    assert (waits(), expired()) == (instances * MODELS, 0), "as many as before"
    space = Space(shard.snapshot_size)  # in the shard's own thread, beside the rounds
    began = thread_time()
    parts = shard.snapshot(space)  # copies everything; what the parts hold is made as they are written
    stall = thread_time() - began
    size = sum(map(len, ChunkWriter().chunks_of(parts)))
    snapshot = thread_time() - began
    expiring = spent(instances + labelled, instances, STREAM.label_horizon - DELAY)
    rest = waits() - instances * MODELS
    assert 0 <= rest <= MODELS * streams, "but for the newest of each stream, everything has expired"
    return {
        "waiting": instances * MODELS,
        "streams": streams,
        "bytes_per_waiting": memory / (instances * MODELS),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "decode_us": per_event(steady, "decoding"),
        "join_us": per_event(steady, "joining"),
        "messages_us": per_event(steady, "reporting") + per_event(steady, "encoding"),
        "expire_us": per_event(expiring, "joining"),
        "snapshot_stall_ms": stall * 1e3,
        "snapshot_ms": snapshot * 1e3,
        "snapshot_mb": size / 1e6,
        "filling": longest(filled),
        "steady": longest(steady),
        "expiring": longest(expiring),
    }


#: What the tables' rows begin with, and what they show: heading and field, phases.
_CASE = ("waiting", "streams")
_COSTS = {
    "bytes": "bytes_per_waiting", "peak MB": "peak_mb", "decode": "decode_us",
    "join": "join_us", "messages": "messages_us", "expire": "expire_us",
}  # fmt: skip
_PHASES = ("filling", "steady", "expiring")


def show(results: list[dict[str, Any]]) -> None:
    """Two tables with a row for each case."""
    costs = Table(*_CASE, *_COSTS, title="memory; CPU µs per event")
    pauses = Table(
        *_CASE, *_PHASES, "stall", "whole", "MB",
        title="ms of longest rounds (99th percentile), of a snapshot's stall and of all of it",
    )  # fmt: skip
    for result in results:
        case = [f"{result[name]:,}" for name in _CASE]
        places = {"bytes": 0, "peak MB": 0}
        cost = [f"{result[field]:,.{places.get(name, 2)}f}" for name, field in _COSTS.items()]
        costs.add_row(*case, *cost)
        pause = [f"{result[phase]['max_ms']:,.0f} ({result[phase]['p99_ms']:,.0f})" for phase in _PHASES]
        snapshot = [f"{result[f'snapshot_{of}']:,.0f}" for of in ("stall_ms", "ms", "mb")]
        pauses.add_row(*case, *pause, *snapshot)
    for table in (costs, pauses):
        for column in table.columns:
            column.justify = "right"
        Console().print(table)


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(**json.loads(args.one))))
        return
    rounds = max(1, min(ROUNDS, args.waiting // _WAITING_PER_ROUND))
    results = []
    for streams in (1, STREAMS):
        for fraction in FRACTIONS:
            case = {"waiting": args.waiting // fraction, "streams": streams, "rounds": rounds}
            command = [sys.executable, "-m", "tests.bench.waiting", "--one", json.dumps(case)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results.append(json.loads(done.stdout))
            if args.json:
                print(done.stdout, end="", flush=True)
    if not args.json:
        show(results)


if __name__ == "__main__":
    main()
