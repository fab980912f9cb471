"""What a worker costs at a quiet pace, and what a scrape is: many streams, few events.

`python -m tests.bench.quiet [--streams 300] [--rate 4000] [--seconds 60] [--bootstrap-servers ADDR]`

Events of two models come at the given pace, in real time. In the second half of the run the worker's CPU is
read from the kernel, all of its threads together; then `/metrics` is asked again and again, and how long an
answer of `/live` takes meanwhile says how long the worker's loop was held up.
"""

from __future__ import annotations

import argparse
import gzip
import os
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen
from uuid import uuid4

from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import topic_specs

from tests.bench.messages import generate, send_in_time
from tests.brokers import launch
from tests.worker.processes import WorkerProcess, write_config

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def feed(kafka: KafkaConfig, streams: int, rate: int, seconds: float) -> None:
    """Send events at their times, from now on."""
    start, instances = round(time.time() * 1e3) + 1_000, rate / 4  # an instance, two predictions, a label
    send_in_time(kafka, generate(int(instances * seconds), 2, streams, start=start, rate=instances))


def ask(url: str, *, compressed: bool = False) -> tuple[bytes, float]:
    """A page, and the seconds that it took."""
    began = time.monotonic()
    headers = {"Accept-Encoding": "gzip"} if compressed else {}
    with urlopen(Request(url, headers=headers), timeout=60) as answer:
        content: bytes = answer.read()
    return content, time.monotonic() - began


def hold_ups(base: str, until: float, found: list[float]) -> None:
    """Milliseconds that answers of the worker's loop take, one after the other."""
    while time.monotonic() < until:
        found.append(ask(f"{base}/live")[1] * 1e3)
        time.sleep(0.01)


def measure(kafka: KafkaConfig, streams: int, rate: int, seconds: float, folder: Path) -> None:
    """Run it and say what was seen."""
    create(kafka, topic_specs(kafka))
    with WorkerProcess(write_config(folder, kafka)) as worker:
        feeder = threading.Thread(target=feed, args=(kafka, streams, rate, seconds), daemon=True)
        feeder.start()
        time.sleep(seconds / 2)
        base = f"http://127.0.0.1:{worker.port}"
        before, began = cpu_seconds(worker.pid), time.monotonic()
        time.sleep(seconds / 4)
        spent = (cpu_seconds(worker.pid) - before) / (time.monotonic() - began)
        print(f"{streams} streams, {rate} events/s: {spent:.1%} of a core")
        found: list[float] = []
        calm: list[float] = []
        hold_ups(base, time.monotonic() + 2, calm)
        until = time.monotonic() + seconds / 8
        other = threading.Thread(target=hold_ups, args=(base, until, found))
        other.start()
        while time.monotonic() < until:
            content, took = ask(f"{base}/metrics", compressed=True)
            plain = gzip.decompress(content)
            print(f"/metrics: {len(plain) / 1e6:.2f} MB, {len(content) / 1e6:.2f} compressed, {took:.2f} s")
            time.sleep(2)
        other.join()
        for name, times in (("without", sorted(calm)), ("with", sorted(found))):
            print(f"/live {name} scrapes: median {times[len(times) // 2]:.1f} ms, longest {times[-1]:.1f} ms")
        feeder.join()


def main() -> None:
    """Run it on a broker of its own, or on one that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--rate", type=int, default=4_000, help="events a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--bootstrap-servers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"quiet-{uuid4().hex[:8]}."
        given = (args.streams, args.rate, args.seconds, Path(folder))
        if args.bootstrap_servers:
            measure(KafkaConfig(args.bootstrap_servers, prefix=prefix, partitions=4), *given)
            return
        with launch() as broker:
            measure(broker.config(prefix=prefix, partitions=4), *given)


if __name__ == "__main__":
    main()
