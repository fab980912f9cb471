"""`prequential dashboard`: a web page over the output topics, or over files of their messages."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from prequential.cli import common
from prequential.cli.common import add_kafka_options, as_duration, load, open_readable, sigterm_as_ctrl_c
from prequential.configuration.settings.model import Config
from prequential.offline.replay.sources import lines_of
from prequential.topics.errors import UsageError, as_text
from prequential.topics.marking import StreamMark, write_marks
from prequential.topics.marks import decode_mark
from prequential.topics.specs import DEAD_LETTER_MESSAGE_BYTES, INCIDENT_MARKS
from prequential.topics.wall_clock import now_ms
from prequential.views.dashboard.server import MOST_RECORDS, Board, Server, board_of, take
from prequential.views.state.history import History
from prequential.views.state.newest import TOPICS
from prequential.views.state.output_records import OutputRecord, records_of
from prequential.views.wording.console import complain, say
from prequential.web.http import Access

if TYPE_CHECKING:
    from prequential.archive.reading import ArchiveReader

#: Default port: the one after that of a worker's metrics.
HOST, PORT = "127.0.0.1", 9465

#: Default of --since.
_SINCE = "24h"

#: Lines of a file that are read at once, so that the page answers between two readings.
_LINES = 1_000


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "dashboard",
        help="live web page over the metrics, comparisons, alarms and incidents",
        description="Serve a web page with all models, the worst first, each model's measures over time, "
        "comparisons and incidents. Reads committed messages of the output topics and joins no consumer "
        "group. By default only this machine can reach the page. The key http.token is its password; those "
        "who know it can also mark incidents. http.tls_certificate and http.tls_key make it HTTPS.",
    )
    add_kafka_options(parser)
    parser.add_argument("--host", default=HOST, metavar="H", help=f"address to serve at (default: {HOST})")
    parser.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"port, 0 takes a free one (default: {PORT})"
    )
    parser.add_argument(
        "--since",
        type=as_duration,
        default=_SINCE,
        metavar="TIME",
        help=f"start of the messages that are read, e.g. 30m, 7d (default: {_SINCE}); at most "
        f"{MOST_RECORDS:,} records per partition",
    )
    parser.add_argument(
        "--from-files",
        nargs="+",
        metavar="F",
        help="messages of a replay (JSON lines; - and .gz as elsewhere), in place of the topics",
    )
    parser.add_argument(
        "--archive",
        metavar="DIR",
        help="archive of `prequential archive`, read before the topics: history beyond their retention, "
        "with a longer --since",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM; return status 0."""
    if not 0 <= args.port <= 65_535:
        raise UsageError(f"--port is {args.port}: expected 0 to 65535")
    if args.from_files and args.archive:
        raise UsageError("--archive and --from-files exclude each other")
    config = load(args)
    try:
        with sigterm_as_ctrl_c():
            if args.from_files:
                _serve_files(args, config)
            else:
                _serve_topics(args, config)
    except KeyboardInterrupt:
        pass
    return 0


def _serve_files(args: argparse.Namespace, config: Config) -> None:
    board = Board(History(config), ", ".join(map(as_text, args.from_files)))
    board.catching_up = True
    with _serving(Server(board, args.host, args.port, Access(config.http))):
        for path in args.from_files:
            with open_readable(path) as stream:
                records = records_of(path, lines_of(stream, DEAD_LETTER_MESSAGE_BYTES))
                while batch := [record for _, record in zip(range(_LINES), records)]:
                    board.take(batch)
        board.catching_up = False
        threading.Event().wait()


def _serve_topics(args: argparse.Namespace, config: Config) -> None:
    access = Access(config.http)
    archive = None if args.archive is None else common.archive_at(args.archive)
    board, tail = board_of(config, args.since, None if archive is None else archive.starts())

    def write(marked: StreamMark) -> None:
        write_marks(config.kafka, [marked])

    with closing(tail), closing(board), _serving(Server(board, args.host, args.port, access, write)):
        if archive is not None:
            _take_archive(archive, board, now_ms() - args.since)
        while True:
            take(tail, board)


def _take_archive(archive: ArchiveReader, board: Board, arrived: int) -> None:
    """Add the archive's messages that Kafka received at `arrived` (epoch ms) or later."""
    board.catching_up = True
    messages = archive.messages(TOPICS, arrived=arrived)
    while batch := list(islice(messages, _LINES)):
        board.take(
            OutputRecord(message.topic, message.value, message.time, message.settings) for message in batch
        )
    marks = archive.messages([INCIDENT_MARKS])
    board.take_marks(decode_mark(message.value) for message in marks)


@contextmanager
def _serving(server: Server) -> Iterator[None]:
    """Print the address of the server, and stop it at the end."""
    say(f"the page is at {server.address} (Ctrl-C ends it)")
    if server.is_open:
        complain(
            f"the page has no password: everyone who can reach {server.host or '0.0.0.0'} port {server.port} "
            "can read it; set http.token, or leave out --host"
        )
    try:
        yield
    finally:
        server.stop()
