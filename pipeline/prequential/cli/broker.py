"""`prequential broker`: an embedded Kafka-compatible broker in the foreground."""

from __future__ import annotations

import argparse
from typing import Any

from prequential.demo.broker import EmbeddedBroker
from prequential.runtime.program.stopping import stop_signals
from prequential.topics.errors import WorkError
from prequential.views.wording.console import say

#: Kafka's own port, which is also the default of the other commands.
DEFAULT_PORT = 9092

#: Seconds between two checks that the broker is still running.
_LOOK_SECONDS = 0.5


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "broker",
        help="run an embedded broker",
        description="Run a Kafka-compatible broker in the foreground, for trying out and tests: "
        "it listens on the loopback interface only and keeps everything in memory. "
        "Ctrl-C or SIGTERM ends it.",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port to listen on, 0 for any that is free (default: {DEFAULT_PORT})",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the address and serve until a signal comes; 0 then.

    Raises WorkError if the broker doesn't start or stops unexpectedly.
    """
    with stop_signals() as stop, EmbeddedBroker(args.port) as broker:
        say(f"{broker.name}: {broker.bootstrap_servers}")
        while not stop.wait(_LOOK_SECONDS):
            if not broker.running:
                raise WorkError(f"the {broker.name} at {broker.bootstrap_servers} stopped unexpectedly")
    return 0
