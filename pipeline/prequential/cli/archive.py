"""`prequential archive`: the output topics as Parquet, exactly once by id."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from prequential.cli.common import (
    add_kafka_options,
    add_process_options,
    archive_at,
    as_duration,
    load_process,
    needing_pyarrow,
    start_log,
)
from prequential.runtime.program import stop_signals
from prequential.topics import specs
from prequential.topics.errors import UsageError, as_text
from prequential.views.wording.console import complain, say

if TYPE_CHECKING:
    from prequential.archive.writing import Written
    from prequential.configuration.settings.model import Config
    from prequential.runtime.archiving.app import ArchiveEndpoint

#: Topics that are archived, if they are there; the last one only if it is asked for.
_TOPICS = (
    specs.METRICS, specs.COMPARISONS, specs.DISPARITIES, specs.DRIFT_ALARMS, specs.INCIDENTS,
    specs.INCIDENT_MARKS, specs.DEAD_LETTERS,
)  # fmt: skip

#: Default of --every.
_EVERY = "1m"


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "archive",
        help="output topics to Parquet, exactly once by id",
        description="Write the output topics to Parquet files, in folders by topic and day (UTC) of the "
        "message's `ts`, and each message exactly once. Follows the topics until Ctrl-C or SIGTERM; a new "
        "start continues where the last one ended. Reads committed messages, joins no consumer group and "
        "changes nothing in Kafka. Prints each range of offsets that retention removed before it was "
        "archived. Needs pyarrow.",
    )
    parser.add_argument(
        "--to", required=True, metavar="DIR",
        help="folder of the archive, or an address such as s3://bucket/folder or gs://bucket/folder",
    )  # fmt: skip
    parser.add_argument(
        "--once", action="store_true", help="archive up to the current ends of the topics, and exit"
    )
    parser.add_argument(
        "--every", type=as_duration, default=_EVERY, metavar="TIME",
        help=f"time between two writes of files, e.g. 10s, 5m (default: {_EVERY})",
    )  # fmt: skip
    parser.add_argument(
        "--topics", nargs="+", metavar="T", choices=_TOPICS, default=_TOPICS[:-1],
        help="topics to archive (default: all but dead-letters, which contain records as they were sent): "
        f"{', '.join(_TOPICS)}",
    )  # fmt: skip
    parser.add_argument(
        "--forget", type=as_text, metavar="ID",
        help="remove an instance's ID from the archive, and exit: from alarms, examples of incidents and "
        "dead letters",
    )  # fmt: skip
    add_kafka_options(parser)
    add_process_options(parser, " (default: not served)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Archive until a signal, or with --once up to the current ends; return status 0."""
    with needing_pyarrow():
        from prequential.archive.following import Archiver
        from prequential.archive.storage import storage_of
        from prequential.archive.writing import ArchiveWriter
    if args.forget is not None:
        return _forget(args.to, args.forget)
    if args.once and args.http is not None:
        raise UsageError("--http and --once exclude each other: a job that ends serves nothing")
    config = load_process(args)
    storage, every = storage_of(args.to), args.every / 1000
    topics = [name for name in _TOPICS if name in args.topics]
    with stop_signals() as stop, ExitStack() as stack:
        endpoint = stack.enter_context(closing(_endpoint(args, config, topics))) if args.http else None
        archive = stack.enter_context(ArchiveWriter(storage, config.kafka.prefix, complain))
        archiver = stack.enter_context(closing(Archiver(config.kafka, archive, topics, every, complain)))
        if not args.once:
            say(f"archiving {config.kafka.bootstrap_servers} to {storage.shown} (Ctrl-C ends it)")
        if endpoint is None:
            archiver.run(stop, once=args.once)
        else:
            endpoint.serve(archiver)
            archiver.run(stop, once=False, turned=endpoint.note_turn)
    _report(archiver.written)
    return 0


def _endpoint(args: argparse.Namespace, config: Config, topics: list[str]) -> ArchiveEndpoint:
    """Serve at --http, with a log; imported where it is needed, since its libraries are slow to import."""
    from prequential.runtime.archiving.app import ArchiveEndpoint

    start_log(args, ("aiohttp", "asyncio"))
    return ArchiveEndpoint(config, topics, args.every / 1000)


def _report(total: Written) -> None:
    """Print how many messages were written by folder."""
    for folder in sorted(total.rows):
        doubles = total.doubles[folder]
        again = f", {doubles:,} were archived already" if doubles else ""
        noun = "message" if total.rows[folder] == 1 else "messages"
        say(f"{folder}: {total.rows[folder]:,} {noun}{again}")
    if not total.rows:
        say("no new messages")


def _forget(place: str, identifier: str) -> int:
    """Remove an ID from the archive, and print what was changed."""
    from prequential.archive.forgetting import forget

    if not identifier:
        raise UsageError("--forget is '': expected the ID of an instance")
    archive = archive_at(place)
    changed = forget(archive.storage, archive.state.prefix, identifier)
    for folder, count in changed.items():
        say(f"{folder}: {count:,} {'message' if count == 1 else 'messages'} changed")
    if not changed:
        say("no message has this ID")
    return 0
