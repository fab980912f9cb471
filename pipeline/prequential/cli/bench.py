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
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import uuid4

from prequential.cli.common import add_kafka_options, load
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import INPUTS, topic_specs
from rich.console import Console
from rich.table import Table


class _Contestant(NamedTuple):
    """Who takes part."""

    name: str
    module: str  # below tests/bench
    instances: int | None  # at most; messages of its own for the slow one: its rate is what counts
    needs: tuple[str, ...]  # packages of the extra that it imports


_CONTESTANTS = (
    _Contestant("prequential", "prequential_worker", None, ()),
    _Contestant("loop", "peer_loop", None, ("river",)),
    _Contestant("quix", "peer_quix", None, ("quixstreams",)),
    _Contestant("faust", "peer_faust", 10_000, ("cramjam",)),
)

#: Seconds that a contestant may take.
_PATIENCE = 600.0

#: Waiting predictions that can still be divided: a hundredth, and two models.
_LEAST_WAITING = 200


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
        choices=[contestant.name for contestant in _CONTESTANTS],
        help="only this contestant (may be repeated)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N",
        help="go round so often, with fresh topics, and report medians (default: 1)",
    )  # fmt: skip
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--measures", action="store_true",
        help="instead: what the estimate step costs by measures and details; needs no broker",
    )  # fmt: skip
    instead.add_argument(
        "--waiting", type=int, nargs="?", const=1_000_000, metavar="N",
        help="instead: memory, cost and pauses with up to N waiting predictions (1000000 where N isn't "
        "given; 10000000 need some GB); needs no broker",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON, for machines")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "tests" / "bench").is_dir():
        raise UsageError("the benchmark's peers are part of the source tree: run from a checkout")
    if args.measures:
        return _instead(root, args, "measures")
    if args.waiting is not None:
        if args.waiting < _LEAST_WAITING:
            raise UsageError(f"--waiting is {args.waiting}: expected at least {_LEAST_WAITING}")
        return _instead(root, args, "waiting", "--waiting", str(args.waiting))
    for name in ("instances", "models", "streams", "rounds"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} is {getattr(args, name)}: expected at least 1")
    chosen = [each for each in _CONTESTANTS if not args.only or each.name in args.only]
    missing = {need for each in chosen for need in each.needs if find_spec(need) is None}
    if missing:
        raise UsageError(
            f"the peers need {', '.join(sorted(missing))}: pip install 'prequential[bench]', "
            "or choose others with --only"
        )
    console = Console(stderr=True)
    rounds = []
    with _cluster(args) as kafka:
        for number in range(1, args.rounds + 1):
            results = {}
            loaded: dict[int, tuple[KafkaConfig, int]] = {}
            for each in chosen:
                instances = min(args.instances, each.instances or args.instances)
                if instances not in loaded:
                    console.print(f"loading {instances:,} instances of {args.models} models …")
                    loaded[instances] = _load(kafka, args, instances)
                console.print(f"round {number} of {args.rounds}: {each.name} …")
                results[each.name] = _contest(root, each.module, *loaded[instances])
            rounds.append(results)
    _print(rounds, as_json=args.json)
    return 0


def _instead(root: Path, args: argparse.Namespace, module: str, *options: str) -> int:
    """Run a benchmark of the engine alone, as a process of its own; returns the exit status."""
    json_option = ["--json"] if args.json else []
    command = [sys.executable, "-m", f"tests.bench.{module}", *options, *json_option]
    return 1 if subprocess.run(command, cwd=root, check=False).returncode else 0


@contextmanager
def _cluster(args: argparse.Namespace) -> Iterator[KafkaConfig]:
    """The cluster that was named, or an embedded broker."""
    kafka = load(args).kafka
    if args.bootstrap_servers is not None or args.config is not None:
        yield kafka
        return
    from prequential.broker import CLIENT_SETTINGS, EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield KafkaConfig(broker.bootstrap_servers, prefix=kafka.prefix, security=CLIENT_SETTINGS)


def _load(kafka: KafkaConfig, args: argparse.Namespace, instances: int) -> tuple[KafkaConfig, int]:
    """Make fresh topics and fill them; returns where they are, and the number of records."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    from tests.bench.messages import generate
    from tests.bench.messages import load as load_messages

    kafka = replace(kafka, prefix=f"{kafka.prefix}bench-{uuid4().hex[:8]}.")
    topics = {name: kafka.topic(name) for name in INPUTS}
    create(kafka, topic_specs(kafka))
    messages = generate(instances, args.models, args.streams)
    counts = load_messages(kafka.bootstrap_servers, topics, messages)
    return kafka, sum(counts.values())


def _contest(root: Path, module: str, kafka: KafkaConfig, records: int) -> dict[str, Any]:
    """Run one contestant as a process of its own; returns what it printed."""
    command = [
        sys.executable, "-m", f"tests.bench.{module}",
        "--bootstrap-servers", kafka.bootstrap_servers, "--prefix", kafka.prefix,
        "--records", str(records), "--json",
    ]  # fmt: skip
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


def _print(rounds: list[dict[str, dict[str, Any]]], *, as_json: bool) -> None:
    """Medians over the rounds; a ratio is the median of the rounds' ratios."""
    ours = [results.get("prequential") for results in rounds]
    summary: dict[str, dict[str, Any]] = {}
    for name, newest in rounds[-1].items():
        runs = [results[name] for results in rounds]
        summary[name] = dict(newest)
        for field in ("events_per_second", "cpu_us_per_event", "peak_rss_mb"):
            summary[name][field] = median(run[field] for run in runs)
        ratios = [
            our["events_per_second"] / run["events_per_second"] for our, run in zip(ours, runs) if our
        ]
        if ratios:
            summary[name]["ratio"] = median(ratios)
            summary[name]["ratios"] = ratios
    if as_json:
        print(json.dumps({"results": list(summary.values())}))
        return
    table = Table(title=f"medians of {len(rounds)} rounds" if len(rounds) > 1 else None)
    for column in ("", "records", "events/s", "prequential is", "CPU µs/event", "peak MB", "outcomes"):
        table.add_column(column, justify="left" if not column else "right")
    for name, result in summary.items():
        table.add_row(
            name,
            f"{result['records']:,}",
            f"{result['events_per_second']:,.0f}",
            f"{result['ratio']:.1f} x" if "ratio" in result else "",
            f"{result['cpu_us_per_event']:.1f}",
            f"{result['peak_rss_mb']:.0f}",
            f"{result['outcomes']:,}",
        )
    Console().print(table)
