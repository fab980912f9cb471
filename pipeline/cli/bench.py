"""`prequential bench`: the worker and its peers on the same messages, one after the other in one run."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from pipeline.cli.common import add_kafka_options, load
from topics.admin import create
from topics.clients import KafkaConfig
from topics.errors import UsageError, WorkError
from topics.specs import INPUTS, topic_specs

#: Contestants: name, module below tests/bench, records at most (the slow one gets a prefix of the
#: same messages: its rate is what counts, and nobody wants to wait for minutes).
_CONTESTANTS = (
    ("prequential", "prequential_worker", None),
    ("loop", "peer_loop", None),
    ("quix", "peer_quix", None),
    ("faust", "peer_faust", 40_000),
)

#: Seconds that a contestant may take.
_PATIENCE = 600.0


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure the worker beside its peers",
        description="Puts the same messages through the worker (default configuration, durability on), "
        "a hand-written confluent-kafka loop, a Quix Streams app with state and a tutorial-style Faust "
        "app, one after the other, and prints events/s and the ratios. Needs a source checkout (the "
        "peers live in tests/bench) and the extra 'bench'. Without --bootstrap-servers an embedded "
        "broker is started.",
    )
    add_kafka_options(parser)
    parser.add_argument(
        "--instances", type=int, default=200_000, metavar="N", help="default: 200000"
    )
    parser.add_argument("--models", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--streams", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--only",
        action="append",
        choices=[name for name, _, _ in _CONTESTANTS],
        help="only this contestant (may be repeated)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "tests" / "bench").is_dir():
        raise UsageError("the benchmark's peers are part of the source tree: run from a checkout")
    for name in ("instances", "models", "streams"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} is {getattr(args, name)}: expected at least 1")
    console = Console(stderr=True)
    with _cluster(args) as kafka:
        kafka = replace(kafka, prefix=f"{kafka.prefix}bench-{uuid4().hex[:8]}.")
        console.print(f"loading {args.instances:,} instances of {args.models} models …")
        records = _load(kafka, args)
        results = []
        for name, module, most in _CONTESTANTS:
            if not args.only or name in args.only:
                console.print(f"running {name} …")
                results.append(_contest(root, kafka, module, records, most))
    _print(results, records, as_json=args.json)
    return 0


@contextmanager
def _cluster(args: argparse.Namespace) -> Iterator[KafkaConfig]:
    """The cluster that was named, or an embedded broker."""
    kafka = load(args).kafka
    if args.bootstrap_servers is not None or args.config is not None:
        yield kafka
        return
    from pipeline.broker import CLIENT_SETTINGS, EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield KafkaConfig(broker.bootstrap_servers, prefix=kafka.prefix, security=CLIENT_SETTINGS)


def _load(kafka: KafkaConfig, args: argparse.Namespace) -> int:
    """Make the topics and fill them; returns the number of records."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.bench.messages import generate
    from tests.bench.messages import load as load_messages

    topics = {name: kafka.topic(name) for name in INPUTS}
    create(kafka, topic_specs(kafka))
    messages = generate(args.instances, args.models, args.streams)
    counts = load_messages(kafka.bootstrap_servers, topics, messages)
    return sum(counts.values())


def _contest(
    root: Path, kafka: KafkaConfig, module: str, records: int, most: int | None
) -> dict[str, Any]:
    """Run one contestant as a process of its own; returns what it printed."""
    command = [
        sys.executable, "-m", f"tests.bench.{module}",
        "--bootstrap-servers", kafka.bootstrap_servers, "--prefix", kafka.prefix,
        "--records", str(records), "--json",
    ]  # fmt: skip
    if most is not None:
        command += ["--limit", str(most)]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_PATIENCE, env=os.environ
        )
    except subprocess.TimeoutExpired as error:
        raise WorkError(f"{module} wasn't done after {_PATIENCE:.0f} s") from error
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise WorkError(f"{module} failed with status {done.returncode}: {last}")
    result: dict[str, Any] = json.loads(lines[-1])
    result["events_per_second"] = result["records"] / result["seconds"]
    result["cpu_us_per_event"] = result["cpu_seconds"] / result["records"] * 1e6
    return result


def _print(results: list[dict[str, Any]], records: int, *, as_json: bool) -> None:
    ours = next((r["events_per_second"] for r in results if r["peer"] == "prequential"), None)
    for result in results:
        if ours is not None:
            result["ratio"] = ours / result["events_per_second"]
    if as_json:
        print(json.dumps({"records": records, "results": results}))
        return
    table = Table(title=f"{records:,} records")
    for column in ("", "events/s", "prequential is", "CPU µs/event", "peak MB", "outcomes"):
        table.add_column(column, justify="left" if not column else "right")
    for result in results:
        ratio = result.get("ratio")
        table.add_row(
            result["peer"],
            f"{result['events_per_second']:,.0f}",
            "" if ratio is None else f"{ratio:.1f} x",
            f"{result['cpu_us_per_event']:.1f}",
            f"{result['peak_rss_mb']:.0f}",
            f"{result['outcomes']:,}",
        )
    Console().print(table)
