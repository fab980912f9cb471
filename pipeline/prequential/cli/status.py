"""`prequential status`: shards, lag, labels and incidents of an installation, for people and scripts."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from prequential.cli import common
from prequential.configuration.settings.model import Config
from prequential.topics import specs
from prequential.topics.errors import WorkError
from prequential.topics.wall_clock import now_ms
from prequential.views.wording.console import complain, say, write

#: Default of --max-lag.
_MOST_LAG = "5m"

_DESCRIPTION = """\
Print which worker has which shard, how far its inputs are published, whether labels arrive, the open
incidents, and the models that need attention, with the most important problem first. Reads committed messages
and the offsets that workers commit; joins no consumer group and changes nothing. Exit status 0 if nothing is
wrong, 1 if something is wrong or the cluster does not answer."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "status",
        help="one screen: shards, lag, labels, incidents; exit status 1 if something is wrong",
        description=_DESCRIPTION,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--max-lag",
        type=common.as_duration,
        default=_MOST_LAG,
        metavar="TIME",
        help=f"age of the oldest pending record from which a shard is behind (default: {_MOST_LAG})",
    )
    common.add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the status; 1 if something is wrong, else 0."""
    config = common.load(args)
    try:
        cluster_status = _read(config, args.max_lag)
    except WorkError as error:
        if not args.json:
            raise
        problem = {"kind": "unreadable", "sentence": str(error), "next": None}
        write(common.as_json({"now": now_ms(), "group": config.group, "ok": False, "problems": [problem]}))
        return 1
    if args.json:
        write(common.as_json(cluster_status.as_json()))
    else:
        for line in cluster_status.lines():
            say(line)
    return int(bool(cluster_status.problems))


def _read(config: Config, most_lag: int) -> Any:
    """Return the status; raise WorkError if the cluster does not answer, or lacks topics."""
    from prequential.views.answers.cluster import ClusterStatus  # only a valid command line needs these
    from prequential.views.state.history import History
    from prequential.views.state.newest import TOPICS
    from prequential.views.watching.group import read_group
    from prequential.views.watching.tail import Tail

    group = read_group(config)
    history = History(config)
    with closing(Tail(config.kafka, TOPICS, optional=[specs.INCIDENTS])) as tail:
        for record in tail.to_end():
            history.update(*record)
    if history.unreadable:
        complain(f"{history.unreadable:,} messages can't be read")
    _read_marks(config, history)
    return ClusterStatus(group, history, now_ms(), most_lag)


def _read_marks(config: Config, history: Any) -> None:
    """Add people's marks of incidents; none if the topic can't be read."""
    from prequential.views.watching.marks import MarksReader

    try:
        with closing(MarksReader(config.kafka)) as reader:
            for mark in reader.take():
                history.marks.add(mark)
    except WorkError as error:
        complain(f"marks of incidents can't be read: {error}")
