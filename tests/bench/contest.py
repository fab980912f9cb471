"""The benchmark, `make bench ARGS=…`: the worker and its peers on the same messages, one after the other."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from prequential.cli.common import add_kafka_options, load
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, INPUTS, METRICS
from rich.console import Console

from tests.bench import contestants, goals, results
from tests.bench.cases import ARROW, BATCHES, CASES, PLAIN, QUIET, SCORED, UUID
from tests.bench.contestants import CONTESTANTS, Contestant, Pace, Shown
from tests.bench.messages import batched, generate, send_in_time, specs
from tests.bench.messages import load as load_messages
from tests.bench.published import Figures, difference, published
from tests.bench.results import Ratio, Rounds
from tests.bench.settings import EMIT_EVERY_MS

#: Instances: with peers, enough that a worker on a quiet machine takes a snapshot of each shard meanwhile
#: (the first 10 s after its start, the next one when the first is a twentieth of the time); in real time, two
#: minutes.
_INSTANCES: Final = {
    SCORED: 3_000_000, PLAIN: 10_000_000, UUID: 3_000_000, BATCHES: 3_000_000, ARROW: 3_000_000,
    QUIET: 120_000,
}  # fmt: skip
_ALONE: Final = 200_000

#: Streams in real time.
_QUIET_STREAMS: Final = 300

#: Seconds until the first record in real time: a contestant is then up.
_UP: Final = 15.0

#: Snapshots of each shard that a run of the worker should contain.
_SNAPSHOTS: Final = 2

#: Of the worker: what it publishes beside metrics.
_OTHERS: Final = (COMPARISONS, DRIFT_ALARMS, INCIDENTS)

#: Waiting predictions that can still be divided: a hundredth, and two models.
_LEAST_WAITING: Final = 200

#: By name: what a contestant shows, and what it has published.
_Played = dict[str, tuple[dict[str, Any], Figures]]

#: Seconds within which the broker has forgotten a topic that is deleted, and between two looks.
_DELETED, _LOOK = 30.0, 0.1

_PEERS: Final = (
    Ratio("prequential is", "events_per_second", "ratio", ".2f", of="prequential"),
    Ratio("metrics alone", "events_per_second", "metrics_ratio", ".2f", of="prequential-metrics"),
    Ratio("of prequential's", "cpu_seconds_per_hour", "hourly_ratio", ".2f", by="prequential"),
)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit status: 0 done, 1 it failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=…",
        description="Puts the same messages through the worker (default configuration, durability on; and "
        "once more with metrics messages alone, which is what the others publish), a Kafka Streams processor "
        "(exactly once, cold and warm) and a hand-written loop with dicts, one after the other, and prints "
        "events/s, ratios and what they published. Without --bootstrap-servers a broker is started, Apache "
        "Kafka where this machine can have it.",
    )
    add_kafka_options(parser)
    parser.add_argument(
        "--instances", type=int, metavar="N",
        help=f"default: {_INSTANCES[SCORED]} ({PLAIN}: {_INSTANCES[PLAIN]}, {QUIET}: {_INSTANCES[QUIET]}); "
        f"{_ALONE} in cases for the worker alone",
    )  # fmt: skip
    parser.add_argument("--models", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--streams", type=int, metavar="N", help=f"default: 1 ({QUIET}: {_QUIET_STREAMS})")
    parser.add_argument(
        "--only",
        action="append",
        choices=[contestant.name for contestant in CONTESTANTS],
        help="only this contestant (may be repeated)",
    )
    parser.add_argument(
        "--case", choices=list(CASES), default=SCORED,
        help=f"what records contain: {SCORED!r}, the default, as applications write them: UUIDs, spaces, "
        "probabilities, two segments, labels an hour late, a million predictions pending; "
        f"{UUID!r}, the same without probabilities and segments; {PLAIN!r}, short records; {BATCHES!r}, "
        f"1,000 of these in each message, as a JSON array; {ARROW!r}, as an Arrow stream; {QUIET!r}, in "
        "real time, for what an hour costs; with any other the worker takes part alone, with plain records "
        "and with these, and the ratio is between the two",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N",
        help="go round so often, each time with another one first, and report medians (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--waiting", type=int, nargs="?", const=1_000_000, metavar="N",
        help="instead: memory, cost and pauses with up to N waiting predictions (1000000 where N isn't "
        "given; 10000000 need some GB); needs no broker",
    )  # fmt: skip
    parser.add_argument(
        "--goals", action="store_true",
        help="instead: all figures that have a goal, next to it; the other benchmarks run one after the "
        "other, for more than an hour (`python -m tests.bench.goals` chooses among them)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON, for machines")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except (UsageError, WorkError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def _run(args: argparse.Namespace) -> int:
    if args.goals:
        goals.show(list(goals.PARTS))
        return 0
    if args.waiting is not None:
        if args.waiting < _LEAST_WAITING:
            raise UsageError(f"--waiting is {args.waiting}: expected at least {_LEAST_WAITING}")
        return _waiting(args)
    if args.instances is None:
        args.instances = _INSTANCES.get(args.case, _ALONE)
    if args.streams is None:
        args.streams = _QUIET_STREAMS if args.case == QUIET else 1
    for name in ("instances", "models", "streams", "rounds"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} is {getattr(args, name)}: expected at least 1")
    chosen = _chosen(args)
    with _cluster(args) as kafka:
        rounds = _rounds(args, kafka, chosen)
    ratios = _PEERS if CASES[args.case].peers else (
        Ratio(f"of {PLAIN}", "events_per_second", "ratio", ".2f", by=PLAIN),
        Ratio(f"of {PLAIN}", "cpu_us_per_event", "cpu_ratio", ".2f", by=PLAIN),
    )  # fmt: skip
    results.show(rounds, ratios, as_json=args.json)
    return 0


def _chosen(args: argparse.Namespace) -> list[Contestant]:
    """Who takes part, in this order."""
    if not CASES[args.case].peers:
        if others := sorted(set(args.only or ()) - {"prequential"}):
            raise UsageError(f"--case {args.case} is for the worker alone: not with --only {others[0]}")
        worker = CONTESTANTS[0]
        return [worker._replace(name=case, case=case) for case in (PLAIN, args.case)]
    return [each._replace(case=args.case) for each in CONTESTANTS if not args.only or each.name in args.only]


def _waiting(args: argparse.Namespace) -> int:
    """Run the benchmark of waiting predictions, as a process of its own; returns the exit status."""
    json_option = ["--json"] if args.json else []
    command = [sys.executable, "-m", "tests.bench.waiting", "--waiting", str(args.waiting), *json_option]
    return 1 if subprocess.run(command, cwd=contestants.ROOT, check=False).returncode else 0


@contextmanager
def _cluster(args: argparse.Namespace) -> Iterator[KafkaConfig]:
    """The cluster that was named, or a broker of this machine."""
    kafka = load(args).kafka
    if args.bootstrap_servers is not None or args.config is not None:
        yield kafka
        return
    from tests.brokers import launch  # others need no Java, Docker or embedded broker

    with launch() as broker:
        yield broker.config(prefix=kafka.prefix)


def _rounds(args: argparse.Namespace, kafka: KafkaConfig, chosen: Sequence[Contestant]) -> Rounds:
    """All rounds; each begins with another contestant."""
    console = Console(stderr=True)
    rounds: Rounds = []
    loaded: dict[tuple[int, str], tuple[KafkaConfig, int]] = {}
    for number in range(args.rounds):
        shown: Shown = {}
        figures: dict[tuple[int, str], tuple[str, Figures]] = {}
        first = number % len(chosen)
        for each in (*chosen[first:], *chosen[:first]):
            size = args.instances, each.case
            console.print(f"round {number + 1} of {args.rounds}: {each.name} …")
            if each.case == QUIET:
                live = _live(kafka, args, each, *size)
                shown |= {name: result for name, (result, _) in live.items()}
                continue  # figures aren't compared: when a topic is at its end decides there, too
            if size not in loaded:
                console.print(f"loading {size[0]:,} instances of {args.models} models ({each.case}) …")
                loaded[size] = _load(kafka, args, *size)
            for name, (result, said) in _play(each, *loaded[size]).items():
                shown[name] = result
                other, before = figures.setdefault(size, (name, said))
                if differs := difference(before, said):
                    raise WorkError(f"{other} and {name} have published different figures: {differs}")
                if result.get("snapshots", _SNAPSHOTS) < _SNAPSHOTS:
                    seen = result["snapshots"]
                    console.print(f"{name}: {seen} snapshots; more --instances have {_SNAPSHOTS} in it")
        rounds.append({name: shown[name] for name in sorted(shown, key=_place)})
    return rounds


def _place(name: str) -> tuple[int, str]:
    """Where a row stands in the table, whoever went first; what has two rows has them together."""
    names = [each.name for each in CONTESTANTS]
    found = [place for place, one in enumerate(names) if name.removesuffix("-cold") == one]
    return (*found, len(names))[0], name


def _fresh(kafka: KafkaConfig) -> KafkaConfig:
    """The cluster with topics under a new prefix."""
    kafka = replace(kafka, prefix=f"{kafka.prefix}bench-{uuid4().hex[:8]}.")
    create(kafka, specs(kafka))
    return kafka


def _load(kafka: KafkaConfig, args: argparse.Namespace, instances: int, case: str) -> tuple[KafkaConfig, int]:
    """Make topics and fill them; returns where they are, and the number of records."""
    kafka = _fresh(kafka)
    messages = batched(generate(instances, args.models, args.streams, case=case), case)
    topics = {name: kafka.topic(name) for name in INPUTS}
    counts = load_messages(kafka.bootstrap_servers, topics, messages)
    return kafka, sum(counts.values())


def _play(who: Contestant, kafka: KafkaConfig, records: int, pace: Pace | None = None) -> _Played:
    """What a contestant shows, with what it has published."""
    found = {}
    for name, result in contestants.run(who, kafka, records, pace).items():
        if who.is_worker:
            said = published(kafka, kafka.topic(METRICS), map(kafka.topic, _OTHERS))
        else:
            said = published(kafka, result["outputs"])
        found[name] = result | {"messages": said.messages, "megabytes": said.bytes / 1e6}, said.figures
    if who.is_worker:
        _forget_worker(kafka)
    return found


def _forget_worker(kafka: KafkaConfig) -> None:
    """Make all topics anew but the inputs: the next worker begins at their beginning, too."""
    admin = connect(kafka)
    own = [spec.name for spec in specs(kafka) if spec.role != "input"]
    for deleted in admin.delete_topics(own).values():
        deleted.result()
    end = time.monotonic() + _DELETED
    while set(own) & set(admin.list_topics().topics):
        if time.monotonic() > end:
            raise WorkError(f"the broker still has deleted topics after {_DELETED:.0f} s")
        time.sleep(_LOOK)
    create(kafka, specs(kafka))


def _live(
    kafka: KafkaConfig, args: argparse.Namespace, who: Contestant, instances: int, case: str
) -> _Played:
    """The same on records that come in real time."""
    kafka = _fresh(kafka)
    now = time.time()
    # At a multiple of time that makes messages due: everybody passes as many.
    start = math.ceil((now + _UP) * 1e3 / EMIT_EVERY_MS) * EMIT_EVERY_MS
    messages = generate(instances, args.models, args.streams, case=case, start=start)
    half = start / 1e3 - now + instances / CASES[case].rate / 2
    pace = Pace(lambda: send_in_time(kafka, messages), half)
    return _play(who, kafka, instances * (2 + args.models), pace)


if __name__ == "__main__":
    sys.exit(main())
