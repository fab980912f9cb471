"""`prequential explain`: describe an incident, from the topics or from a replay's files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from prequential.cli.common import add_kafka_options, kafka_from, open_readable
from prequential.offline.replay.sources import lines_of
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import milliseconds
from prequential.topics.errors import UsageError, as_text
from prequential.topics.specs import DEAD_LETTER_MESSAGE_BYTES, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.views.wording.console import complain, say
from prequential.views.wording.explaining import ExplainingMessages, explain

_DESCRIPTION = """\
Prints since when a model is worse, by how much, what changed, what the baselines did, whether detectors are
noisy, which records to inspect, and the alarms. Names the incident by its id or the beginning of it, or by a
model and a time within the incident. Reads committed messages of the topics incidents, drift-alarms and
metrics, or files that `prequential replay` has written. Exit status 1 if there is no such incident."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "explain", help="explain an incident: since when, how bad, why", description=_DESCRIPTION
    )
    parser.add_argument("incident", nargs="?", metavar="INCIDENT", help="its id, or the beginning of it")
    parser.add_argument("--stream", type=as_text, metavar="NAME", help="without an id: its stream")
    parser.add_argument("--model", type=as_text, metavar="NAME", help="without an id: its model")
    parser.add_argument(
        "--at", metavar="TIME", help="without an id: a label time within it (RFC 3339, or ms since 1970)"
    )
    parser.add_argument(
        "--from", dest="files", nargs="+", metavar="FILE", default=[],
        help="files to read in place of the topics (JSON lines; also - and .gz)",
    )  # fmt: skip
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    named = [args.stream, args.model, args.at]
    if (args.incident is None) == (None in named) or (args.incident and any(named)):
        raise UsageError("expected the id of an incident, or --stream, --model and --at")
    ts = None if args.at is None else _time(args.at)
    known = ExplainingMessages()
    if args.files:
        _read_files(known, args.files)
    else:
        _read_topics(known, kafka_from(args))
    if known.unreadable:
        complain(f"{known.unreadable:,} messages can't be read")
    incidents = known.by_id(args.incident) if ts is None else known.at(args.stream, args.model, ts)
    for line in explain(known, incidents):
        say(line)
    return 0


def _time(text: str) -> int:
    """A time, in the forms that records have."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else milliseconds(text)
    except ValueError as error:
        raise UsageError(
            f"--at {text!r}: expected a time such as 2026-08-30T00:00:00Z, or ms since the epoch"
        ) from error


def _read_files(known: ExplainingMessages, paths: Sequence[str]) -> None:
    for path in paths:
        with open_readable(path) as lines:
            for line in lines_of(lines, DEAD_LETTER_MESSAGE_BYTES):
                if line.strip():
                    known.add(line)


def _read_topics(known: ExplainingMessages, kafka: KafkaConfig) -> None:
    """Return all incidents and alarms, which are few, and the newest metrics."""
    from prequential.views.watching.tail import Tail  # only this path needs a broker's clients

    for topics, whole in (((INCIDENTS, DRIFT_ALARMS), True), ((METRICS,), False)):
        with closing(Tail(kafka, topics, from_beginning=whole)) as tail:
            for record in tail.to_end():
                known.add(record.value or b"")
