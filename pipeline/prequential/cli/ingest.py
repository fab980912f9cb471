"""`prequential ingest`: turn topics of any shape into the inputs; processes share the partitions."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.cli.process import add_process_options, start_log, with_address
from prequential.cli.worker import quiet_collector
from prequential.topics.errors import UsageError


def add_parser(subparsers: Any) -> None:
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = load(args)
    if args.dry_run is not None:
        if args.dry_run < 1:
            raise UsageError(f"--dry-run is {args.dry_run}: expected a number of records from 1 on")
        from prequential.runtime.ingest.dryrun import dry_run

        return dry_run(config, args.dry_run)
    # Until there is a loop to stop, nothing needs to be cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    config = with_address(config, args)
    # Faust logs too many details about its services.
    start_log(args, ("faust", "mode", "prequential.runtime.kafka.transport", "httpx"))
    from prequential.runtime.ingest.app import run_ingest  # Faust is slow to import: only where it is needed

    quiet_collector()
    return run_ingest(config)
