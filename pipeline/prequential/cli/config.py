"""`prequential config check|diff|live`: validate a configuration, compare two, find those in use."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from prequential.cli.common import add_kafka_options, as_duration, as_json, load
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.topics import clients, specs
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.wall_clock import now_ms
from prequential.views.wording.console import say, write

#: Default of --since.
_SINCE = "1h"


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "config", help="validate a configuration, compare two, or show which ones are in use"
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="validate a configuration, and print every fault",
        description="Validates a configuration and prints one line for each fault. "
        "Connects to nothing, starts nothing, and reads no secret that env:NAME or file:PATH refers to. "
        "Exit status: 0 the configuration is valid, 2 it is not.",
    )
    check.add_argument("file", metavar="FILE", help="configuration (YAML)")
    check.set_defaults(run=_check)
    diff = actions.add_parser(
        "diff",
        help="compare two configurations, and show what happens to the state",
        description="Shows which keys differ, and what a worker that starts with B does with the state of A: "
        "what it keeps, what begins empty, and what ends. Needs no cluster and changes nothing. Never shows "
        "values of kafka.security, tokens and other secrets. "
        "Exit status as of diff: 0 nothing differs, 1 something differs, 2 trouble.",
    )
    diff.add_argument("before", metavar="A", help="current configuration (YAML)")
    diff.add_argument("after", metavar="B", help="new configuration (YAML)")
    diff.add_argument("--json", action="store_true", help="print everything as one JSON object")
    diff.set_defaults(run=_diff)
    now = actions.add_parser(
        "live",
        help="show which configuration each stream uses",
        description="Reads the newest metrics messages, and lists streams and partitions whose messages use "
        "another configuration than the file's (field config), and since when. Joins no group and changes "
        "nothing. Exit status 1 if there are such streams.",
    )
    now.add_argument(
        "--since",
        type=as_duration,
        default=_SINCE,
        metavar="TIME",
        help=f"how far back to look, e.g. 10m (default: {_SINCE})",
    )
    add_kafka_options(now)
    now.set_defaults(run=_live)


def _check(args: argparse.Namespace) -> int:
    config = load_config(args.file)
    if faults := list(_starting_faults(config)):
        raise UsageError("\n".join(f"{args.file}: {fault}" for fault in faults))
    say(f"{args.file}: valid")
    return 0


def _starting_faults(config: Config) -> Iterator[str]:
    """Faults that each program reports when it starts, as far as they show without secrets and files."""
    from prequential.runtime.ingest.registry import refuse_without_registry
    from prequential.runtime.ingest.sources import refuse_own_topics
    from prequential.runtime.kafka.membership import require_protocol
    from prequential.runtime.notifying.posting import checked_url
    from prequential.web.http import Access  # only here, as other actions need none of these

    http = config.http
    if (http.tls_certificate is None) != (http.tls_key is None):
        yield "http.tls_certificate and http.tls_key: only one is set, expected both PEM files or none"
    checks: list[Callable[[], object]] = [
        lambda: refuse_own_topics(config),
        lambda: require_protocol(config.kafka),
    ]
    if http.token is not None and not clients.is_reference(http.token):
        checks.append(lambda: Access(HttpConfig(token=http.token)))
    url = config.notify.url
    if url is not None and not clients.is_reference(url):
        checks.append(lambda: checked_url(url))
    checks += [partial(refuse_without_registry, config.kafka, source.format) for source in config.ingest]
    for check in checks:
        try:
            check()
        except UsageError as error:
            yield str(error)


def _diff(args: argparse.Namespace) -> int:
    from prequential.configfile.changes import diff  # the engine is slow to import

    try:
        difference = diff.compare(load_config(args.before), load_config(args.after))
    except WorkError as error:  # status 1 means that something differs
        raise UsageError(str(error)) from error
    if args.json:
        write(as_json(difference))
    else:
        for line in diff.lines(difference):
            say(line)
    return 0 if difference.same else 1


def _live(args: argparse.Namespace) -> int:
    from prequential.configfile.changes import diff
    from prequential.views.watching.tail import Tail  # only this action needs a broker's clients

    config = load(args)
    since = now_ms() - args.since
    with closing(Tail(config.kafka, [specs.METRICS], since=since)) as tail:
        in_use = diff.live(diff.uses(tail.to_end()), config)
    for line in in_use.lines:
        say(line)
    return 0 if in_use.everywhere else 1
