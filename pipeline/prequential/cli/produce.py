"""`prequential produce TOPIC FILE.jsonl`: JSON lines into a topic, keyed by their stream."""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
from prequential.cli.common import add_kafka_options, load, open_input
from prequential.engine.input.message_rows import rows_of
from prequential.offline.replay.sources import lines_of
from prequential.runtime.compilation import progress_bar, reading
from prequential.topics import admin, clients, messages, partitioning, permissions, specs
from prequential.topics.errors import WorkError
from prequential.topics.foreign_json import reader
from prequential.topics.producer import RecordProducer
from prequential.views.wording.console import say

#: Lines between two updates of the progress bar: about a hundred updates per second at full speed.
_UPDATE_LINES = 1_000

#: Longest excerpt of a bad line in an error, in bytes.
_QUOTED = 60

#: With --raw, the longest record that is tried, in bytes: the most that a broker accepts in a request.
_RAW_MESSAGE_BYTES = 100 * 1024 * 1024


class _Keyed(msgspec.Struct):
    """The fields that matter here; the rest of a line is only checked to be JSON."""

    stream: str
    instance_id: str | int = ""


_decode = reader(_Keyed)


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "produce",
        help="send JSON lines to a topic",
        description="Send every line of a file to a topic, byte for byte, without a byte order mark. The key "
        "is the line's stream, or its instance if the stream has key: instance.",
    )
    parser.add_argument("topic", choices=specs.INPUTS, metavar="TOPIC", help=", ".join(specs.INPUTS))
    parser.add_argument("file", metavar="FILE", help="JSON lines; - is standard input, or .gz")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="also send lines that are not JSON objects with a stream, to try out invalid input",
    )
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Send the file; print the number of records."""
    config = load(args)
    kafka = config.kafka
    longest = _RAW_MESSAGE_BYTES if args.raw else messages.INPUT_MESSAGE_BYTES
    with open_input(args.file) as (stream, below):
        lines = _shown(args.file, lines_of(stream, longest), below)
        permissions.require(kafka, {kafka.topic(args.topic): permissions.WRITE})
        admin.partition_counts(kafka, [kafka.topic(args.topic)])  # else a broker might create the topic
        sent = _send(kafka, args, frozenset(config.wide), lines)
    say(f"{sent} records sent to {kafka.topic(args.topic)}")
    return 0


def _send(
    kafka: clients.KafkaConfig, args: argparse.Namespace, wide: frozenset[str], lines: Iterator[bytes]
) -> int:
    """Send the lines; return the number of records delivered."""
    settings: dict[str, Any] = {"log_level": 0}  # the error reports a failure once
    if args.raw:
        settings["message.max.bytes"] = _RAW_MESSAGE_BYTES
    sent = number = 0
    with RecordProducer(kafka, **settings) as producer:
        try:
            for line in lines:
                number += 1
                value = line.rstrip(b"\r\n")
                if not args.raw and not value.strip():
                    continue  # often the last line
                producer.send(args.topic, _key(value, args.raw, wide), value)
                sent += 1
        except (OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {args.file!r} after line {number}: {error}") from error
        except ValueError as error:
            raise WorkError(
                f"{args.file!r}, line {number}: {error} (records sent before it: {sent})"
            ) from error
    return sent


def _key(value: bytes, raw: bool, wide: frozenset[str]) -> bytes | None:
    """Return the key of a line's records; None, with `raw`, for a line without a stream.

    `wide`: as in `key_of`. Raises ValueError for an invalid line.
    """
    if len(value) > messages.MAX_VALUE_BYTES and not raw:
        least = "at least " * (len(value) >= messages.INPUT_MESSAGE_BYTES)  # `lines_of` reads no more of it
        raise ValueError(f"it has {least}{len(value)} bytes: at most {messages.MAX_VALUE_BYTES} are allowed")
    try:
        rows = rows_of([value])
        records = map(_decode, [value] if rows is None else rows.values)
        keys = {partitioning.key_of(record.stream, str(record.instance_id), wide) for record in records}
    except ValueError as error:
        if raw:
            return None
        excerpt = value[:_QUOTED].decode(errors="replace")
        more = "…" if len(value) > _QUOTED else ""
        raise ValueError(f"expected a JSON object with a string `stream`, found {excerpt!r}{more}") from error
    if len(keys) > 1 and not raw:
        first, second, *_ = sorted(keys)
        several = f"its records have several keys, such as {first!r} and {second!r}"
        raise ValueError(f"{several}: expected a line for each key")
    return min(keys)


def _shown(path: str, lines: Iterator[bytes], below: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines, with a bar on standard error if that is a terminal."""
    size = Path(path).stat().st_size if Path(path).is_file() else 0
    with progress_bar(unit="lines") as progress:
        advance = reading(progress, path)
        for number, line in enumerate(lines, start=1):
            yield line
            if number % _UPDATE_LINES == 0:
                advance(number, below.tell() / size if size else None)
