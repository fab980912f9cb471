"""Options of commands that run until they are stopped: the address that they serve, and their log."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from prequential.configuration.settings.model import Config, HttpConfig
from prequential.topics.errors import UsageError, printable, redacted
from prequential.views.wording.console import printable_lines

_LEVELS = {
    "crit": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class _Formatter(logging.Formatter):
    """Shows characters of a message that aren't printable as U+FFFD, so a name can't begin another line.

    It is the formatter of all loggers, those of libraries included, and shows no secret.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its exception."""
        return redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return printable_lines(super().formatException(ei))


def add_process_options(parser: argparse.ArgumentParser) -> None:
    """Add --http and --log-level."""
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="where to serve /metrics, /live and /ready"
    )
    parser.add_argument("--log-level", choices=list(_LEVELS), default="info", help="default: info")


def with_address(config: Config, args: argparse.Namespace) -> Config:
    """Return the configuration with the address of --http, if it is given."""
    if args.http is None:
        return config
    given = address(args.http)
    return replace(config, http=replace(config.http, host=given.host, port=given.port))


def start_log(args: argparse.Namespace, quiet: Iterable[str]) -> None:
    """Log at the level of --log-level, and only errors of these loggers."""
    level = _LEVELS[args.log_level]
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    for name in quiet:
        logging.getLogger(name).setLevel(max(logging.ERROR, level))


def address(text: str) -> HttpConfig:
    """Return the address of --http.

    >>> address("[::1]:9464").host, address("127.0.0.1:0").port
    ('::1', 0)
    """
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http is {text!r}: expected HOST:PORT, e.g. 127.0.0.1:9464")
    return HttpConfig(host, int(port))
