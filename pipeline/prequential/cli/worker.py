"""`prequential worker`: one Faust worker; more of them share the partitions."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
from dataclasses import replace
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.cli.process import add_process_options, start_log, with_address
from prequential.runtime.http.server import TEXT, Endpoint
from prequential.runtime.program.compilation import compile_loops
from prequential.runtime.worker.heap import share_arenas
from prequential.topics.clients import resolved

log = logging.getLogger(__name__)

#: Young objects between two collections: pending predictions are immutable and never in a cycle, so
#: collections find nothing. Without them the worker was twice as fast.
_GC_THRESHOLD = 200_000


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "worker",
        help="evaluate live: read the input topics, publish metrics and drift alarms",
        description="Runs one worker until SIGTERM or Ctrl-C. Workers of the same group share the "
        "partitions. You may start, stop or kill workers at any time.",
    )
    add_kafka_options(parser)
    add_process_options(parser)
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="ignore snapshots, and compute the state from the input topics and the journal",
    )
    parser.add_argument(
        "--accept-loss", metavar="PARTITION", type=int, action="append", default=[],
        help="continue the shard of this partition although retention deleted records that it needs; "
        "repeatable (worker.accept_loss does this for all workers of a group)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    # Until the worker has a loop to stop, nothing needs to be cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    share_arenas()
    config = load(args)
    config = with_address(config, args)
    if accepted := (*config.worker.accept_loss, *args.accept_loss):
        config = replace(config, worker=replace(config.worker, accept_loss=accepted))
    if config.worker.instance_id is not None:
        resolved("worker.instance_id", config.worker.instance_id)  # reports an error in it before all others
    # Faust logs too many details about its services.
    start_log(args, ("faust", "mode", "prequential.runtime.kafka.transport"))
    # It answers from the beginning, so that no supervisor kills a worker that compiles and is not ready yet.
    endpoint = Endpoint(config.http, {})

    def report(progress: str) -> None:
        said = f"{progress}\n".encode()
        endpoint.serve({"/live": lambda: (200, TEXT, said), "/ready": lambda: (503, TEXT, said)})

    report("starting")
    # Before the worker joins its group: compiling in the middle of a stream would look like a crash.
    compile_loops(log.info, config, report)
    report("starting: the engine's loops are loaded")
    from prequential.runtime.worker.app import run_worker  # Faust is slow to import: only where it is needed

    quiet_collector()
    return run_worker(config, rebuild=args.rebuild, endpoint=endpoint)


def quiet_collector() -> None:
    """Collect cyclic garbage less often: see `_GC_THRESHOLD`."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 1000)
