"""`prequential verify`: recompute published messages from the inputs, and list the differences."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from contextlib import closing
from functools import partial
from typing import Any

from prequential.cli import common
from prequential.configuration.settings.model import Config
from prequential.offline.replay.verification import MessageDifference, Verification
from prequential.runtime.compilation import compile_loops, progress_bar
from prequential.topics import encoding, specs
from prequential.topics.errors import WorkError
from prequential.topics.outputs import ALL_PARTITIONS, Alarm, Encoded, Incident, Output
from prequential.topics.reading import TopicReader
from prequential.topics.wall_clock import now_ms
from prequential.views.wording.console import complain, say

#: Name of the clients that read published messages.
_NAME = "prequential-verify"


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "verify",
        help="recompute what was published from the inputs, and list the differences",
        description="Reads the committed messages of the output topics, recomputes them from the inputs "
        "in the order that the workers took, and lists each difference by id and field. Joins no consumer "
        "group and changes nothing. Exit status 1 if there are differences, or nothing can be recomputed.",
    )
    parser.add_argument(
        "--since",
        type=common.as_duration,
        metavar="D",
        help="only messages that were published in the last 30m, 2h or 1d, for example",
    )
    common.add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, and list the differences; 1 if there are any, else 0."""
    config = common.load(args)
    with common.sigterm_as_ctrl_c(), closing(Verification()) as verification:
        differences = _verify(config, verification, args.since)
    skipped = verification.other_settings
    complain(
        f"{verification.published:,} messages published, {verification.compared:,} recomputed, "
        f"{differences:,} differences"
        + (f"; {skipped:,} were made with other settings, and not compared" if skipped else "")
    )
    return 1 if differences else 0


def _verify(config: Config, verification: Verification, since: int | None) -> int:
    """Compare what was published so far; returns the number of differences, each of which is printed."""
    from prequential.offline.replay import from_topics  # it needs a broker's clients

    without = _incomplete(from_topics.incomplete(config), config.kafka.partitions)
    differences = _read(config, verification, since, without)
    compile_loops(complain, config)

    def put(output: Output) -> None:
        nonlocal differences
        if isinstance(output, Encoded):
            differences += _list(verification.compare(output.topic, output.json))
        elif isinstance(output, Alarm | Incident):
            topic = specs.DRIFT_ALARMS if isinstance(output, Alarm) else specs.INCIDENTS
            differences += _list(verification.compare(topic, encoding.encode(output)))

    with progress_bar() as progress:
        from_topics.replay_topics(config, put, lambda *_: None, progress, without=without)
    settings = {stream.digest for stream in (config.defaults, *config.streams.values())}
    return differences + _list(verification.only_published(settings))


def _incomplete(beginnings: dict[int, list[Any]], partitions: int) -> frozenset[int]:
    """Say which partitions can't be recomputed; returns their numbers."""
    for partition, first in sorted(beginnings.items()):
        begins = ", ".join(f"{beginning.topic} begins at offset {beginning.offset:,}" for beginning in first)
        complain(
            f"partition {partition} isn't verified: {begins}, as Kafka has removed earlier records. "
            "A longer `retention.ms` of inputs and journal makes more verifiable"
        )
    if beginnings and len(beginnings) >= partitions:
        raise WorkError("nothing can be recomputed: all partitions lack their first records")
    return frozenset(beginnings)


def _read(config: Config, verification: Verification, since: int | None, without: Collection[int]) -> int:
    """Read what was published, but for these partitions; returns the number of differences among ids."""
    kafka, differences = config.kafka, 0
    start = None if since is None else max(0, now_ms() - since)
    for topic in _topics(config):
        reader = TopicReader(kafka, kafka.topic(topic), _NAME, start)
        if reader.is_whole:
            verification.whole.add(topic)
        with closing(reader), progress_bar(unit=None) as progress:
            task = progress.add_task(topic, total=reader.size)
            for message in reader.messages(partial(progress.advance, task)):
                is_merged = bool(without) and verification.partition_of(message.value()) == ALL_PARTITIONS
                if message.partition() not in without and not is_merged:
                    differences += _list(verification.add(topic, message.value()))
    return differences


def _topics(config: Config) -> Iterable[str]:
    """The topics of messages that have ids."""
    has_disparity = any(
        stream_config.disparity is not None for stream_config in (config.defaults, *config.streams.values())
    )
    further = [specs.DISPARITIES] if has_disparity else []
    return specs.METRICS, specs.COMPARISONS, *further, specs.DRIFT_ALARMS, specs.INCIDENTS


def _list(differences: Iterable[MessageDifference]) -> int:
    """Print differences; returns their number."""
    number = 0
    for number, difference in enumerate(differences, 1):  # noqa: B007 - the last number is the count
        say(str(difference))
    return number
