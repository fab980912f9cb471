"""Who takes part in the benchmark, and one of them at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

from prequential.demo.broker import pick_port
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError

from tests.bench.cases import PLAIN
from tests.bench.scraping import Scraper, cpu_seconds

#: The checkout.
ROOT: Final = Path(__file__).resolve().parents[2]

#: Seconds that a contestant may take, and between two looks whether it is done.
_PATIENCE, _LOOK = 1_800.0, 0.2

#: What a contestant shows, by its name: one that runs twice has two.
Shown = dict[str, dict[str, Any]]


class Contestant(NamedTuple):
    """Who takes part."""

    name: str
    module: str  # below tests/bench
    options: tuple[str, ...] = ()
    case: str = PLAIN  # what its messages say
    is_worker: bool = False


CONTESTANTS: Final = (
    Contestant("prequential", "prequential_worker", is_worker=True),
    Contestant("prequential-metrics", "prequential_worker", options=("--only-metrics",), is_worker=True),
    Contestant("streams", "peer_streams"),
    Contestant("loop", "peer_loop"),
)


class Pace(NamedTuple):
    """Records that come in real time: what sends them, and after how many seconds half of them are sent."""

    send: Callable[[], None]
    half: float


def run(who: Contestant, kafka: KafkaConfig, records: int, pace: Pace | None = None) -> Shown:
    """Run a contestant as a process of its own, scraped meanwhile; what it printed, and what follows."""
    port = pick_port()
    command = [
        sys.executable, "-m", f"tests.bench.{who.module}",
        "--bootstrap-servers", kafka.bootstrap_servers, "--prefix", kafka.prefix,
        "--records", str(records), "--case", who.case, "--http-port", str(port), "--json", *who.options,
    ]  # fmt: skip
    with TemporaryFile("w+") as said, TemporaryFile("w+") as complaints, Scraper(port) as scraper:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=complaints, env=os.environ)
        try:
            hourly = {} if pace is None else _at_pace(process, pace)
            _await(process, who)
        finally:
            process.kill()
        said.seek(0)
        complaints.seek(0)
        lines = [line for line in said.read().splitlines() if line.startswith("{")]
        if process.returncode or not lines:
            last = (complaints.read().strip().splitlines() or ["it printed nothing"])[-1]
            raise WorkError(f"{who.module} failed with status {process.returncode}: {last}")
    found: Shown = {}
    for result in map(json.loads, lines):
        result |= hourly
        if pace is None:
            result["events_per_second"] = result["records"] / result["seconds"]
            result["cpu_us_per_event"] = result["cpu_seconds"] / result["records"] * 1e6
        if who.is_worker:
            result["scrapes"] = scraper.answers
        name = who.name if len(lines) == 1 else result["peer"]
        found[name] = result
    return found


def _await(process: subprocess.Popen[str], who: Contestant) -> None:
    end = monotonic() + _PATIENCE
    while process.poll() is None:
        if monotonic() > end:
            raise WorkError(f"{who.module} wasn't done after {_PATIENCE:.0f} s")
        sleep(_LOOK)


def _at_pace(process: subprocess.Popen[str], pace: Pace) -> dict[str, float]:
    """Send records; processor seconds an hour by what the second half of them took."""
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        if process.poll() is None:
            marks.append((monotonic(), cpu_seconds(process.pid)))

    timer = Timer(pace.half, mark)
    timer.start()
    pace.send()
    timer.cancel()
    mark()
    if len(marks) < 2:
        raise WorkError("the contestant ended while records were sent")
    (began, before), (ended, after) = marks
    return {"cpu_seconds_per_hour": (after - before) / (ended - began) * 3_600}
