"""`prequential ingest`: topics of any shape into the three inputs; more processes share the partitions."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from dataclasses import replace
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.cli.worker import LEVELS, address, quiet_collector
from prequential.topics.errors import UsageError


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "ingest",
        help="make instances, predictions and labels of the records of any topics",
        description="Reads the topics of the configuration's section ingest and writes the three input "
        "topics, in transactions: each record once, whenever a process is killed. Runs until SIGTERM or "
        "Ctrl-C. More processes of the same configuration share the partitions.",
    )
    add_kafka_options(parser)
    parser.add_argument(
        "--dry-run", type=int, metavar="N",
        help="show what the newest N records of each source would become, and what is wrong; write nothing",
    )  # fmt: skip
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="where to serve /metrics, /live and /ready"
    )
    parser.add_argument("--log-level", choices=list(LEVELS), default="info", help="default: info")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = load(args)
    if args.dry_run is not None:
        if args.dry_run < 1:
            raise UsageError(f"--dry-run is {args.dry_run}: expected a number of records from 1 on")
        from prequential.ingest.dryrun import dry_run

        return dry_run(config, args.dry_run)
    # Until there is a loop to stop cleanly there is nothing to be cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if args.http is not None:
        given = address(args.http)
        config = replace(config, http=replace(config.http, host=given.host, port=given.port))
    logging.basicConfig(
        level=LEVELS[args.log_level],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Faust tells of its services at a level of detail that is of no use here.
    for name in ("faust", "mode", "prequential.kafka.transport", "httpx"):
        logging.getLogger(name).setLevel(max(logging.ERROR, LEVELS[args.log_level]))
    from prequential.ingest.app import run_ingest  # Faust is slow to import: only where it is needed

    quiet_collector()
    return run_ingest(config)
