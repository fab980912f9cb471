"""`prequential worker`, `ingest` and `notify`: processes that run until they are stopped."""

from __future__ import annotations

import argparse
import gc
import logging
from dataclasses import replace
from typing import Any

from prequential.cli.common import add_kafka_options, add_process_options, load_process, start_log
from prequential.runtime import compilation, program
from prequential.runtime.kafka import stopping
from prequential.topics.clients import resolved
from prequential.topics.errors import UsageError
from prequential.web import http

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
    stopping.exit_on_sigterm()
    program.share_arenas()
    config = load_process(args)
    if accepted := (*config.worker.accept_loss, *args.accept_loss):
        config = replace(config, worker=replace(config.worker, accept_loss=accepted))
    if config.worker.instance_id is not None:
        resolved("worker.instance_id", config.worker.instance_id)  # reports an error in it before all others
    # Faust logs too many details about its services.
    start_log(args, ("faust", "mode", "prequential.runtime.kafka.transport"))
    # It answers from the beginning, so that no supervisor kills a worker that compiles and is not ready yet.
    endpoint = http.Endpoint(config.http, {})

    def report(progress: str) -> None:
        body = f"{progress}\n".encode()
        endpoint.serve({"/live": lambda: (200, http.TEXT, body), "/ready": lambda: (503, http.TEXT, body)})

    report("starting")
    # Before the worker joins its group: compiling in the middle of a stream would look like a crash.
    compilation.compile_loops(log.info, config, report)
    program.map_large_blocks()  # behind the compiler: it asks for large blocks all the time
    report("starting: the engine's loops are loaded")
    from prequential.runtime.worker.app import run_worker  # Faust is slow to import: only where it is needed

    quiet_collector()
    return run_worker(config, rebuild=args.rebuild, endpoint=endpoint)


def quiet_collector() -> None:
    """Collect cyclic garbage less often: see `_GC_THRESHOLD`."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 1000)


def add_ingest_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "ingest",
        help="translate records of other topics into instances, predictions and labels",
        description="Reads the topics of the configuration's section ingest and writes the three input "
        "topics in transactions: each record exactly once, even if a process is killed. Runs until SIGTERM "
        "or Ctrl-C. Processes with the same configuration share the partitions.",
    )
    add_kafka_options(parser)
    parser.add_argument(
        "--dry-run", type=int, metavar="N",
        help="show the results of the newest N records of each source, and their faults; write nothing",
    )  # fmt: skip
    add_process_options(parser)
    parser.set_defaults(run=_run_ingest)


def _run_ingest(args: argparse.Namespace) -> int:
    config = load_process(args)
    if args.dry_run is not None:
        if args.dry_run < 1:
            raise UsageError(f"--dry-run is {args.dry_run}: expected a number of records from 1 on")
        from prequential.runtime.ingest.dryrun import dry_run

        return dry_run(config, args.dry_run)
    stopping.exit_on_sigterm()
    # Faust logs too many details about its services.
    start_log(args, ("faust", "mode", "prequential.runtime.kafka.transport", "httpx"))
    from prequential.runtime.ingest.app import run_ingest  # Faust is slow to import: only where it is needed

    quiet_collector()
    return run_ingest(config)


def add_notify_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "notify",
        help="post incidents to a webhook: as they are, as Slack takes them, or as CloudEvents",
        description="Reads the topic incidents, and drift-alarms if notify.topics lists it, as a consumer "
        "group of its own. Posts each message to notify.url, signed with notify.secret, until the webhook "
        "accepts it. A new group begins with messages after its start. Runs until SIGTERM or Ctrl-C.",
    )
    add_kafka_options(parser)
    add_process_options(parser)
    parser.set_defaults(run=_run_notify)


def _run_notify(args: argparse.Namespace) -> int:
    config = load_process(args)
    # Its detailed log has addresses, which are secrets.
    start_log(args, ("aiohttp", "asyncio"))
    from prequential.runtime.notifying.app import run_notify  # its clients are slow to import

    return run_notify(config)
