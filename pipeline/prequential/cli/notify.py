"""`prequential notify`: incidents, and alarms, to a webhook."""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.cli.worker import LEVELS, address


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "notify",
        help="post incidents to a webhook: as they are, as Slack takes them, or as CloudEvents",
        description="Reads the topic incidents (and drift-alarms, if the configuration's section notify says "
        "so) as a consumer group of its own and posts each message to notify.url, signed with notify.secret, "
        "until it is taken. A new group begins with what comes from then on. Runs until SIGTERM or Ctrl-C.",
    )
    add_kafka_options(parser)
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="where to serve /metrics, /live and /ready"
    )
    parser.add_argument("--log-level", choices=list(LEVELS), default="info", help="default: info")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = load(args)
    if args.http is not None:
        given = address(args.http)
        config = replace(config, http=replace(config.http, host=given.host, port=given.port))
    logging.basicConfig(
        level=LEVELS[args.log_level],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # What it says at a level of detail has addresses, which are secrets.
    for name in ("aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.ERROR, LEVELS[args.log_level]))
    from prequential.notifying.app import run_notify  # its clients are slow to import

    return run_notify(config)
