"""`prequential config diff`: what another configuration does to the state, before anybody restarts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec
from prequential.changes.diff import compare
from prequential.changes.text import lines
from prequential.config.reader import load_config


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser("config", help="what another configuration does to the state")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    diff = actions.add_parser(
        "diff",
        help="what differs between two configurations, and what happens to the state",
        description="Says by key what differs, and what a worker makes of state of A when it is started "
        "with B: kept, begins empty, ends. It is what a restore says of a few records' state; no cluster is "
        "needed, and nothing is changed. Values of kafka.security, tokens and other secrets are never "
        "shown. Exit status as of diff: 0 nothing differs, 1 something does, 2 trouble.",
    )
    diff.add_argument("before", metavar="A", help="configuration (YAML) that the state is of")
    diff.add_argument("after", metavar="B", help="configuration (YAML) that is to come")
    diff.add_argument("--json", action="store_true", help="print everything as one JSON object")
    diff.set_defaults(run=_diff)


def _diff(args: argparse.Namespace) -> int:
    difference = compare(load_config(args.before), load_config(args.after))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(difference), indent=1) + b"\n")
    else:
        for line in lines(difference):
            print(line)
    return 0 if difference.same else 1
