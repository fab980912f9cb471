"""All figures that have a goal, next to it: `python -m tests.bench.goals [--kafka] [--only PART] …`.

Each part is another benchmark's command, which runs in a process of its own. Without `--kafka` only parts run
that need no broker: about five minutes. With it, Apache Kafka runs next to the worker and its peers, which
takes an hour more. Compare figures of one run on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

#: What a part's command printed: one object for each line.
Printed = list[dict[str, Any]]


class Figure(NamedTuple):
    """A figure with its goal. It is reached at the goal, or on the better side of it."""

    what: str
    value: float
    unit: str
    goal: float
    more_is_better: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal


class Part(NamedTuple):
    """A command, `python -m` and these words, and how its figures are read."""

    command: tuple[str, ...]
    read: Callable[[Printed], Iterator[Figure]]
    needs_kafka: bool = False


def _many_streams(printed: Printed) -> Iterator[Figure]:
    of = {result["case"]: result for result in printed}
    yield Figure("1,000 streams, plain", of["plain"]["us"], "µs per event", 2.5)
    yield Figure("1,000 streams, period", of["period"]["us"], "µs per event", 4.0)
    yield Figure("1,000 streams, segments", of["segments"]["us"], "µs per event", 4.0)
    yield Figure("1,000 streams, segments, while new", of["segments"]["beginning_us"], "µs per event", 20.0)
    yield Figure("1,000 streams, segments: state", of["segments"]["mb"], "MB", 300.0)


def _one_stream(printed: Printed) -> Iterator[Figure]:
    of = {result["case"]: result["us"] for result in printed}
    yield Figure("one stream: segments", of["segments"] / of["plain"], "times plain", 1.5)
    yield Figure("one stream: all fields", of["scored"] / of["plain"], "times plain", 1.8)


def _messages(printed: Printed) -> Iterator[Figure]:
    for result, what, goal in zip(printed, ("", " with all details"), (4.0, 60.0)):
        made = result["reporting_us"] * result["records"] / max(1, result["messages"])
        yield Figure(f"a message in the engine{what}", made, "µs", goal)


def _curve(printed: Printed) -> Iterator[Figure]:
    least = min(result["us"] for result in printed)
    most = max(result["us"] for result in printed)
    yield Figure("1 to 100,000 streams: dearest by cheapest", most / least, "times", 2.0)


def _python(printed: Printed) -> Iterator[Figure]:
    for result in printed:
        yield Figure(f"Evaluator step, {result['case']}", result["median_us"], "µs", 50.0)


def _contest(what: str, goals: tuple[float, float]) -> Callable[[Printed], Iterator[Figure]]:
    def read(printed: Printed) -> Iterator[Figure]:
        results = {result["name"]: result for result in printed[0]["results"]}
        streams = results["streams"]["events_per_second"]
        for name, output, goal in zip(
            ("prequential-metrics", "prequential"), ("equal output", "default"), goals
        ):
            speed = results[name]["events_per_second"] / streams
            yield Figure(f"{what}, {output}", speed, "times Kafka Streams", goal, more_is_better=True)
        if "1,000 streams, scored" in what:
            published = results["prequential-metrics"]["megabytes"]
            yield Figure(f"{what}: published", published, "MB", 2_000.0)

    return read


def _batches(printed: Printed) -> Iterator[Figure]:
    results = {result["name"]: result for result in printed[0]["results"]}
    for name, output, goal in (
        ("prequential", "default", 1e6),
        ("prequential-metrics", "metrics alone", 2e6),
    ):
        speed = results[name]["events_per_second"]
        yield Figure(f"Arrow messages, {output}", speed, "events/s", goal, more_is_better=True)


def _quiet(printed: Printed) -> Iterator[Figure]:
    results = {result["name"]: result for result in printed[0]["results"]}
    for name, output, goal in (
        ("prequential-metrics", "equal output", 10.0),
        ("prequential", "default", 13.0),
    ):
        spent = results[name]["cpu_seconds_per_hour"] * 125 / 3_600
        yield Figure(f"300 streams, 4,000 records/s, {output}", spent, "CPU s in 125 s", goal)


def _latency(printed: Printed) -> Iterator[Figure]:
    yield Figure("2,000 streams, 8,000 records/s: label to message, p99", printed[0]["p99_s"], "s", 1.0)


def _costs(*words: str, streams: int = 1_000) -> tuple[str, ...]:
    cases = [word for case in words for word in ("--case", case)]
    return "tests.bench.costs", *cases, "--streams", str(streams), "--json"


def _contest_of(case: str, streams: int, instances: int) -> tuple[str, ...]:
    sizes = "--streams", str(streams), "--instances", str(instances)
    return "tests.bench.contest", "--case", case, *sizes, "--json"


#: By name, in the order of the table.
PARTS = {
    "many-streams": Part(_costs("plain", "period", "segments"), _many_streams),
    "one-stream": Part(_costs("plain", "segments", "scored", streams=1), _one_stream),
    "messages": Part(_costs("scored", "details"), _messages),
    "curve": Part(("tests.bench.curve", "--json"), _curve),
    "python": Part(("tests.bench.in_python", "--json"), _python),
    "scored": Part(
        _contest_of("scored", 1_000, 600_000), _contest("1,000 streams, scored", (1.5, 1.2)), True
    ),
    "plain-1": Part(_contest_of("plain", 1, 5_000_000), _contest("one stream, plain", (1.2, 1.2)), True),
    "plain-1000": Part(
        _contest_of("plain", 1_000, 3_000_000), _contest("1,000 streams, plain", (1.2, 1.2)), True
    ),
    "batches": Part(_contest_of("arrow", 1, 3_000_000), _batches, True),
    "quiet": Part(("tests.bench.contest", "--case", "quiet", "--json"), _quiet, True),
    "latency": Part(("tests.bench.sizes", "--size", "streams-2000"), _latency, True),
}


def figures_of(part: Part) -> list[Figure]:
    """Run a part, and read its figures."""
    command = [sys.executable, "-m", *part.command]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(part.read([json.loads(line) for line in out.splitlines() if line.startswith("{")]))


def show(names: Sequence[str]) -> None:
    """Run these parts, and print the table."""
    table = Table("figure", "measured", "goal", "", "part")
    for name in names:
        for figure in figures_of(PARTS[name]):
            bound = "at least" if figure.more_is_better else "at most"
            table.add_row(
                figure.what,
                f"{figure.value:,.2f} {figure.unit}",
                f"{bound} {figure.goal:g}",
                "reached" if figure.is_reached else "missed",
                name,
            )
    Console().print(table)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the parts that were chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="also what needs a broker")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="only this part (repeatable)")
    args = parser.parse_args(argv)
    chosen = args.only or [name for name, part in PARTS.items() if args.kafka or not part.needs_kafka]
    show(chosen)


if __name__ == "__main__":
    main()
