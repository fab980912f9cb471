"""`prequential schema [TOPIC]`: the JSON Schema of the messages of output topics."""

from __future__ import annotations

import argparse
import json
from typing import Any

from prequential.engine.comparisons.measuring import NAMES as OF_PAIRS
from prequential.engine.measures.registry import MEASURES
from prequential.topics.avro import avro_schema
from prequential.topics.errors import UsageError
from prequential.topics.schemas import STRUCTS, connect_schema, schema
from prequential.topics.specs import COMPARISONS
from prequential.views.wording.console import write


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON Schema of an output topic",
        description="Print the JSON Schema (2020-12) of the messages of an output topic, or of all topics. "
        "Dead letters are the original records; their schema is that of the lines of `dead-letters --json`.",
    )
    parser.add_argument("topic", nargs="?", choices=tuple(STRUCTS), metavar="TOPIC", help=", ".join(STRUCTS))
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--connect", action="store_true",
        help="print the schema for Kafka Connect's JsonConverter in one line instead "
        "(schema.content, Connect 4.2 or later), with the fields that fit columns",
    )  # fmt: skip
    other.add_argument(
        "--avro", action="store_true",
        help="print the Avro schema of the messages of prequential.topics.avro instead",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print it."""
    if args.connect:
        if args.topic is None:
            raise UsageError("--connect needs one topic: expected e.g. schema metrics --connect")
        measures = OF_PAIRS if args.topic == COMPARISONS else MEASURES
        return _write(json.dumps(connect_schema(args.topic, measures), separators=(",", ":")))
    if args.avro:
        if args.topic is None:
            raise UsageError("--avro needs one topic: expected e.g. schema metrics --avro")
        return _write(json.dumps(avro_schema(args.topic), indent=2, ensure_ascii=False))
    found = {topic: schema(topic) for topic in STRUCTS} if args.topic is None else schema(args.topic)
    return _write(json.dumps(found, indent=2, ensure_ascii=False))


def _write(text: str) -> int:
    """Write JSON, in UTF-8 in every locale, to standard output; return the exit status."""
    write(text.encode() + b"\n")
    return 0
