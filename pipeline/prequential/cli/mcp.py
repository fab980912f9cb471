"""`prequential mcp`: read-only answers for agents, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from prequential.cli import common
from prequential.configuration.settings.model import Config
from prequential.topics import specs
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import complain

#: Default of --since.
_SINCE = "24h"

_DESCRIPTION = """\
Serve answers about models to an agent, by the Model Context Protocol. Tools: what needs attention, a model,
an incident, two models compared, the history of a measure, which number to use, and what a term means. Each
answer names the messages that it rests on. Reads committed messages of the output topics, or files of
`prequential replay`; joins no consumer group and changes nothing. Without --http it serves the client that
has started it, on standard input and output. Needs: pip install 'prequential[mcp]'."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "mcp", help="read-only answers for agents (Model Context Protocol)", description=_DESCRIPTION
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve streamable HTTP at /mcp of this address, with the token http.token and http.tls_…",
    )
    parser.add_argument(
        "--since",
        type=common.as_duration,
        default=_SINCE,
        metavar="TIME",
        help=f"start of the messages that are read, e.g. 30m, 7d (default: {_SINCE})",
    )
    parser.add_argument(
        "--from-files",
        nargs="+",
        metavar="F",
        help="messages of a replay (JSON lines, .gz), in place of the topics",
    )
    common.add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes, Ctrl-C or SIGTERM; return status 0."""
    if args.from_files and "-" in args.from_files:
        raise UsageError("--from-files -: expected files, as standard input is the client's")
    config = common.load(args)
    _require_sdk()
    from prequential.runtime.agents.sources import LiveAnswers, answers_of

    with suppress(KeyboardInterrupt), common.sigterm_as_ctrl_c():
        if args.from_files:
            _serve(args, config, answers_of(config, _records(args.from_files)))
        else:
            with LiveAnswers(config, args.since) as answers:
                _serve(args, config, answers)
    return 0


def _require_sdk() -> None:
    """Raise WorkError if the SDK of the protocol is not installed."""
    try:
        importlib.import_module("mcp.server.lowlevel")
        importlib.import_module("uvicorn")
    except ImportError as error:
        raise WorkError(
            f"`prequential mcp` needs {error.name}, which is not installed: pip install 'prequential[mcp]'"
        ) from error


def _records(paths: list[str]) -> Iterator[Any]:
    """Yield the messages of files."""
    from prequential.offline.replay.sources import lines_of
    from prequential.views.state.output_records import records_of

    for path in paths:
        with common.open_readable(path) as stream:
            yield from records_of(path, lines_of(stream, specs.DEAD_LETTER_MESSAGE_BYTES))


def _serve(args: argparse.Namespace, config: Config, answers: Any) -> None:
    from prequential.runtime.agents import protocol

    if args.http is None:
        if sys.stdin.isatty():
            complain("standard input is a terminal: a client starts this program and speaks to it")
        protocol.serve_stdio(answers)
        return
    place = common.address(args.http)
    endpoint = protocol.HttpEndpoint(answers, config.http, place.host, place.port or 0)
    complain(f"answers are at {endpoint.address} (Ctrl-C ends it)")
    if endpoint.is_open:
        complain(
            f"there is no password: everyone who can reach {place.host} port {endpoint.port} can ask; "
            "set http.token, or serve at 127.0.0.1"
        )
    endpoint.serve()
