"""`prequential size`: what a workload needs, before anything is installed."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import yaml
from prequential.config.reader import load_config
from prequential.settings.durations import duration, shown_duration
from prequential.settings.model import Config
from prequential.sizing.chart import chart_values
from prequential.sizing.model import Sizing, Workload, size
from prequential.topics.errors import UsageError

_HELP = "workers, partitions, memory and Kafka's bytes that a workload needs"

_DESCRIPTION = """\
Says what a workload needs, by costs that were measured (docs/scale.md): workers, partitions, memory, bytes
that Kafka writes and keeps, the time in which a dead worker's shards run elsewhere, and Prometheus' series.
Needs no cluster. A record is one of any of the three input topics. The configuration's `defaults` count;
sections of single streams don't."""

#: Units of bytes.
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

#: Largest number of anything: beyond it nothing was meant so.
_MOST = 10**12


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("size", help=_HELP, description=_DESCRIPTION)
    parser.add_argument("--config", metavar="FILE", help="configuration (YAML)")
    what = parser.add_argument_group("workload")
    what.add_argument("--streams", type=_count, required=True, metavar="N")
    what.add_argument("--models", type=_count, default=2, metavar="N", help="of each stream (default: 2)")
    what.add_argument(
        "--rate", type=_above_zero, required=True, metavar="N",
        help="records a second of all streams together: an instance, a prediction of each model, a label",
    )  # fmt: skip
    what.add_argument(
        "--label-latency", type=_duration, default=60_000, metavar="DURATION",
        help="from an instance to its label, on average (default: 1m)",
    )  # fmt: skip
    what.add_argument(
        "--labelled", type=_share, default=1.0, metavar="SHARE",
        help="of instances whose label comes at all (default: 1)",
    )  # fmt: skip
    what.add_argument(
        "--segment-values", type=_count, default=3, metavar="N",
        help="values of each of the configuration's keys of segments (default: 3)",
    )  # fmt: skip
    what.add_argument("--probabilities", action="store_true", help="predictions have y_proba")
    what.add_argument(
        "--record-bytes", type=_above_zero, default=60.0, metavar="N",
        help="of a record on Kafka, compressed (default: 60)",
    )  # fmt: skip
    what.add_argument(
        "--after", type=_duration, metavar="DURATION",
        help="after so long (default: when windows and histories are full)",
    )  # fmt: skip
    where = parser.add_argument_group("machines")
    where.add_argument(
        "--busy", type=_share, default=0.6, metavar="SHARE",
        help="of a core that a worker may use: the rest catches up after failures (default: 0.6)",
    )  # fmt: skip
    where.add_argument(
        "--speed", type=_above_zero, default=1.0, metavar="F",
        help="how much faster a core is than the one that costs were measured on (default: 1)",
    )  # fmt: skip
    where.add_argument("--workers", type=_count, metavar="N", help="as many as there are")
    where.add_argument("--partitions", type=_count, metavar="N", help="as many as there are")
    where.add_argument("--replication", type=_count, metavar="N", help="default: kafka.replication")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as one JSON object")
    form.add_argument("--values", action="store_true", help="print values for the Helm chart (YAML)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = load_config(args.config)
    if args.replication is not None:
        config = replace(config, kafka=replace(config.kafka, replication=args.replication))
    if args.workers is not None and args.partitions is not None and args.workers > args.partitions:
        raise UsageError(
            f"--workers {args.workers} is more than --partitions {args.partitions}: expected at most one "
            "worker for each partition"
        )
    workload = Workload(
        args.streams, args.models, args.rate, args.label_latency, args.labelled, args.segment_values,
        args.probabilities, args.record_bytes, args.after,
    )  # fmt: skip
    sizing = size(
        workload, config, busy=args.busy, partitions=args.partitions, workers=args.workers, speed=args.speed
    )
    notes = list(remarks(workload, config, sizing, args.busy))
    if args.json:
        content = {**sizing._asdict(), "notes": notes}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        return 0
    if args.values:
        values = chart_values(workload, config, sizing, workers=args.workers, speed=args.speed)
        for line in (*(f"{name}: {text}" for name, text in lines(workload, config, sizing)), *notes):
            print(f"# {line}")
        print(yaml.safe_dump(values, sort_keys=False), end="")
        return 0
    for name, text in lines(workload, config, sizing):
        print(f"{name:12}{text}")
    for note in notes:
        print(f"note        {note}")
    return 0


def lines(workload: Workload, config: Config, sizing: Sizing) -> Iterator[tuple[str, str]]:
    """What is printed."""
    replicas = config.kafka.replication
    latency = shown_duration(round(workload.label_latency))
    yield "workload", (
        f"{workload.streams:,} streams of {workload.models} models, {workload.rate:,.0f} records/s: "
        f"{figure(sizing.instances)} instances/s, labels after {latency}"
    )
    busy = sizing.cores / sizing.workers
    yield "workers", f"{sizing.workers:,}, each {busy:.0%} of a core; {figure(sizing.cores)} cores in all"
    yield "partitions", f"{sizing.partitions:,} of each topic: at most as many workers can have work"
    yield "memory", (
        f"{shown(sizing.worker_bytes)} for each worker; {shown(sizing.state_bytes)} of state in all, "
        f"{figure(sizing.remembered)} instances remembered"
    )
    yield "messages", f"{figure(sizing.messages)}/s in {figure(sizing.transactions)} transactions/s"
    parts = (
        ("inputs", sizing.input_bytes), ("outputs", sizing.output_bytes), ("journal", sizing.journal_bytes),
        ("snapshots", sizing.snapshot_bytes),
    )  # fmt: skip
    each = ", ".join(f"{name} {shown(value)}/s" for name, value in parts)
    yield "Kafka", (
        f"{shown(sizing.written_bytes)}/s written with {replicas} replica{'s' * (replicas != 1)}, "
        f"{shown(sizing.read_bytes)}/s read; of one replica: {each}"
    )
    yield "disk", f"{shown(sizing.disk_bytes)} at the topics' retention, with replicas"
    session = shown_duration(config.worker.session_timeout)
    yield "recovery", (
        f"{sizing.recovery_seconds:,.1f} s from a worker's death until its shards run elsewhere ({session} "
        f"of them are worker.session_timeout), {sizing.caught_up_seconds:,.0f} s until they have caught up"
    )
    scrape = shown(sizing.scrape_bytes)
    yield "Prometheus", f"{figure(sizing.series)} series; a scrape of a worker is {scrape}"
    yield "one stream", f"at most {figure(sizing.stream_limit)} records/s, as it is on one core"


def remarks(workload: Workload, config: Config, sizing: Sizing, busy: float) -> Iterator[str]:
    """What doesn't fit."""
    limits = config.limits
    if sizing.cores > busy * sizing.workers:
        yield (
            f"{sizing.workers:,} workers would be busy for {sizing.cores / sizing.workers:.0%} of the time, "
            f"and {busy:.0%} is wanted: {math.ceil(sizing.cores / busy):,} are needed"
        )
    if sizing.workers > sizing.partitions:
        yield f"{sizing.workers - sizing.partitions:,} workers would have no partition"
    if workload.rate / workload.streams > sizing.stream_limit:
        yield "each stream alone is more than a core can take: see docs/scale.md on streams that are too wide"
    for count, limit, name in (
        (sizing.remembered / sizing.partitions, limits.instances_per_shard, "instances_per_shard"),
        (workload.streams / sizing.partitions, limits.streams_per_shard, "streams_per_shard"),
        (workload.models, limits.models_per_stream, "models_per_stream"),
    ):
        if count > limit:
            yield f"limits.{name} is {limit:,}, and {figure(count)} are expected: raise it"
    if workload.label_latency > config.defaults.label_horizon:
        yield "labels come after label_horizon, on average: most of them would be dropped"
    if config.streams:
        yield f"sections of {len(config.streams)} streams in the configuration aren't looked at"


def figure(value: float) -> str:
    """A number to three digits.

    >>> figure(1234.5), figure(12.345), figure(0.01234)
    ('1,230', '12.3', '0.0123')
    """
    rounded = float(f"{value:.3g}")
    if rounded <= 0:
        return "0"
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


def shown(value: float) -> str:
    """Bytes to three digits.

    >>> shown(1_234_567.0), shown(0.0), shown(999_999.0)
    ('1.23 MB', '0 B', '1.00 MB')
    """
    unit = 0
    while unit < len(_UNITS) - 1 and value >= 999.5 * 1000.0**unit:
        unit += 1
    return f"{figure(value / 1000.0**unit)} {_UNITS[unit]}"


def _checked(
    convert: Callable[[str], Any], good: Callable[[Any], bool], expected: str
) -> Callable[[str], Any]:
    """An argument's type: what `convert` makes of it, if it is good."""

    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not good(value):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
        return value

    return parse


_count = _checked(int, lambda value: 1 <= value <= _MOST, "a whole number from 1 on")
_above_zero = _checked(float, lambda value: 0.0 < value <= _MOST, "a number above 0")
_share = _checked(float, lambda value: 0.0 < value <= 1.0, "a share above 0, up to 1")
_duration = _checked(duration, lambda value: value <= _MOST, "a duration, e.g. 500ms, 1s, 5m, 2h, 7d")
