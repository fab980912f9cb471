"""The benchmark, `make bench ARGS=…`: the worker and its peers on the same messages, one after the other."""

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

from tests.bench.messages import generate
from tests.bench.messages import load as load_messages


class _Contestant(NamedTuple):
    """Who takes part."""

    name: str  # in the results
    module: str  # below tests/bench
    instances: int | None  # at most; messages of its own for the slow one: its rate is what counts
    needs: tuple[str, ...]  # packages that it imports
    case: str = "plain"  # what its messages say


_CONTESTANTS = (
    _Contestant("prequential", "prequential_worker", None, ()),
    _Contestant("loop", "peer_loop", None, ("river",)),
    _Contestant("quix", "peer_quix", None, ("quixstreams",)),
    _Contestant("faust", "peer_faust", 10_000, ("cramjam",)),
)

#: What peers can evaluate, too; and what only the product can, so that it is its own peer.
_PLAIN = "plain"
_CASES = (
    _PLAIN, "y_proba", "segments", "several", "period", "regression", "comparisons", "detectors",
)  # fmt: skip

#: What a case is compared with, where it isn't the plain one.
_BESIDE = {"comparisons": "uncompared", "detectors": "undetected"}

#: The checkout.
_ROOT = Path(__file__).resolve().parents[2]

#: Seconds that a contestant may take.
_PATIENCE = 600.0

#: What the contestants of each round have shown, by their names.
_Rounds = list[dict[str, dict[str, Any]]]

#: Waiting predictions that can still be divided: a hundredth, and two models.
_LEAST_WAITING = 200


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit status: 0 done, 1 it failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=…",
        description="Puts the same messages through the worker (default configuration, durability on), "
        "a hand-written confluent-kafka loop, a Quix Streams app with state and a tutorial-style Faust "
        "app, one after the other, and prints events/s and the ratios. Without --bootstrap-servers an "
        "embedded broker is started.",
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
        "--case", choices=_CASES, default=_PLAIN,
        help="what messages say: with any but 'plain' (the default) the worker takes part alone, with plain "
        "messages and with these, and the ratio is between the two",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N",
        help="go round so often, with fresh topics, and report medians (default: 1)",
    )  # fmt: skip
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--measures", action="store_true",
        help="instead: what an outcome and a message cost by measures and details; needs no broker",
    )  # fmt: skip
    instead.add_argument(
        "--waiting", type=int, nargs="?", const=1_000_000, metavar="N",
        help="instead: memory, cost and pauses with up to N waiting predictions (1000000 where N isn't "
        "given; 10000000 need some GB); needs no broker",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON, for machines")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except (UsageError, WorkError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _run(args: argparse.Namespace) -> int:
    if args.measures:
        return _instead(args, "measures")
    if args.waiting is not None:
        if args.waiting < _LEAST_WAITING:
            raise UsageError(f"--waiting is {args.waiting}: expected at least {_LEAST_WAITING}")
        return _instead(args, "waiting", "--waiting", str(args.waiting))
    for name in ("instances", "models", "streams", "rounds"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} is {getattr(args, name)}: expected at least 1")
    chosen = _chosen(args)
    console = Console(stderr=True)
    rounds = []
    with _cluster(args) as kafka:
        for number in range(1, args.rounds + 1):
            results = {}
            loaded: dict[tuple[int, str], tuple[KafkaConfig, int]] = {}
            for each in chosen:
                size = min(args.instances, each.instances or args.instances), each.case
                if size not in loaded:
                    console.print(f"loading {size[0]:,} instances of {args.models} models ({each.case}) …")
                    loaded[size] = _load(kafka, args, *size)
                console.print(f"round {number} of {args.rounds}: {each.name} …")
                results[each.name] = _contest(each, *loaded[size])
            rounds.append(results)
    if args.case == _PLAIN:
        _print_peers(rounds, as_json=args.json)
    else:
        _print_case(rounds, _BESIDE.get(args.case, _PLAIN), as_json=args.json)
    return 0


def _chosen(args: argparse.Namespace) -> list[_Contestant]:
    """Who takes part, in this order."""
    if args.case != _PLAIN:
        if others := sorted(set(args.only or ()) - {"prequential"}):
            raise UsageError(f"--case {args.case} is for the worker alone: not with --only {others[0]}")
        worker = _CONTESTANTS[0]
        beside = _BESIDE.get(args.case, _PLAIN)
        return [worker._replace(name=case, case=case) for case in (beside, args.case)]
    chosen = [each for each in _CONTESTANTS if not args.only or each.name in args.only]
    missing = {need for each in chosen for need in each.needs if find_spec(need) is None}
    if missing:
        raise UsageError(
            f"the peers need {', '.join(sorted(missing))}, which `make bench` installs; "
            "or choose others with --only"
        )
    return chosen


def _instead(args: argparse.Namespace, module: str, *options: str) -> int:
    """Run a benchmark of the engine alone, as a process of its own; returns the exit status."""
    json_option = ["--json"] if args.json else []
    command = [sys.executable, "-m", f"tests.bench.{module}", *options, *json_option]
    return 1 if subprocess.run(command, cwd=_ROOT, check=False).returncode else 0


@contextmanager
def _cluster(args: argparse.Namespace) -> Iterator[KafkaConfig]:
    """The cluster that was named, or an embedded broker."""
    kafka = load(args).kafka
    if args.bootstrap_servers is not None or args.config is not None:
        yield kafka
        return
    from prequential.demo.broker import CLIENT_SETTINGS, EmbeddedBroker  # others need no such package

    with EmbeddedBroker() as broker:
        yield KafkaConfig(broker.bootstrap_servers, prefix=kafka.prefix, security=CLIENT_SETTINGS)


def _load(
    kafka: KafkaConfig, args: argparse.Namespace, instances: int, case: str
) -> tuple[KafkaConfig, int]:
    """Make fresh topics and fill them; returns where they are, and the number of records."""
    kafka = replace(kafka, prefix=f"{kafka.prefix}bench-{uuid4().hex[:8]}.")
    topics = {name: kafka.topic(name) for name in INPUTS}
    create(kafka, topic_specs(kafka))
    messages = generate(instances, args.models, args.streams, case=case)
    counts = load_messages(kafka.bootstrap_servers, topics, messages)
    return kafka, sum(counts.values())


def _contest(who: _Contestant, kafka: KafkaConfig, records: int) -> dict[str, Any]:
    """Run one contestant as a process of its own; returns what it printed."""
    module = who.module
    command = [
        sys.executable, "-m", f"tests.bench.{module}",
        "--bootstrap-servers", kafka.bootstrap_servers, "--prefix", kafka.prefix,
        "--records", str(records), "--case", who.case, "--json",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, timeout=_PATIENCE, env=os.environ
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


def _print_peers(rounds: _Rounds, *, as_json: bool) -> None:
    """Medians over the rounds; beside them how many times faster the worker is."""
    summary = _medians(rounds)
    for name, about in summary.items():
        if ratios := _ratios(rounds, "events_per_second", "prequential", name):
            about |= {"ratio": median(ratios), "ratios": ratios}
    _show(rounds, summary, {"events_per_second": ("prequential is", "ratio", ".1f")}, as_json=as_json)


def _print_case(rounds: _Rounds, beside: str, *, as_json: bool) -> None:
    """Medians over the rounds; with them how many times the figures of the case `beside` they are."""
    summary = _medians(rounds)
    for name, about in summary.items():
        ratios = _ratios(rounds, "events_per_second", name, beside)
        cpu = _ratios(rounds, "cpu_us_per_event", name, beside)
        about |= {"ratio": median(ratios), "ratios": ratios, "cpu_ratio": median(cpu), "cpu_ratios": cpu}
    columns = {
        "events_per_second": (f"of {beside}", "ratio", ".2f"),
        "cpu_us_per_event": (f"of {beside}", "cpu_ratio", ".2f"),
    }
    _show(rounds, summary, columns, as_json=as_json)


def _medians(rounds: _Rounds) -> dict[str, dict[str, Any]]:
    """What contestants have shown, by name."""
    summary = {name: dict(newest) for name, newest in rounds[-1].items()}
    for name, about in summary.items():
        for field in ("events_per_second", "cpu_us_per_event", "peak_rss_mb"):
            about[field] = median(results[name][field] for results in rounds)
    return summary


def _ratios(rounds: _Rounds, field: str, one: str, other: str) -> list[float]:
    """How many times `other`'s figure `one`'s is, in each round that has both."""
    both = [results for results in rounds if one in results and other in results]
    return [results[one][field] / results[other][field] for results in both]


#: Columns of the table: heading, field, format.
_COLUMNS = (
    ("records", "records", ",.0f"),
    ("events/s", "events_per_second", ",.0f"),
    ("CPU µs/event", "cpu_us_per_event", ".1f"),
    ("peak MB", "peak_rss_mb", ".0f"),
    ("outcomes", "outcomes", ",.0f"),
)


def _show(
    rounds: _Rounds,
    summary: dict[str, dict[str, Any]],
    beside: dict[str, tuple[str, str, str]],
    *,
    as_json: bool,
) -> None:
    """Print all, for machines or as a table; some columns have that of a ratio beside them."""
    if as_json:
        print(json.dumps({"results": list(summary.values())}))
        return
    columns: list[tuple[str, str, str, str]] = []
    for heading, field, form in _COLUMNS:
        columns.append((heading, field, form, ""))
        if field in beside:
            columns.append((*beside[field], " x"))
    table = Table(title=f"medians of {len(rounds)} rounds" if len(rounds) > 1 else None)
    table.add_column("")
    for heading, *_ in columns:
        table.add_column(heading, justify="right")
    for name, about in summary.items():
        table.add_row(
            name,
            *(f"{about[field]:{form}}{unit}" if field in about else "" for _, field, form, unit in columns),
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
