"""`prequential notify`: post incidents and alarms to a webhook."""

from __future__ import annotations

import argparse
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.cli.process import add_process_options, start_log, with_address


def add_parser(subparsers: Any) -> None:
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = load(args)
    config = with_address(config, args)
    # Its detailed log has addresses, which are secrets.
    start_log(args, ("aiohttp", "asyncio"))
    from prequential.runtime.notifying.app import run_notify  # its clients are slow to import

    return run_notify(config)
