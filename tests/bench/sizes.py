"""What a real worker needs at a pace: CPU, memory, bytes on Kafka, recovery; costs are fitted to it.

`python -m tests.bench.sizes [--size NAME] …` runs a worker, configured by default but for segments, on a
real Apache Kafka for a minute or two for each size. CPU is the kernel's count of the worker's user and
system time: what else the machine does is in it only as far as caches and shared cores go. Bytes are those
of the topics' segment files: compressed, once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
from prequential.topics.admin import create
from prequential.topics.specs import (
    COMPARISONS,
    DRIFT_ALARMS,
    INCIDENTS,
    INPUTS,
    JOURNAL,
    METRICS,
    SNAPSHOTS,
    topic_specs,
)

from tests.bench.live import Feeder, Load, name_of
from tests.bench.observer import Observer
from tests.bench.running import Running, broker_pid, resident
from tests.bench.scraping import cpu_seconds
from tests.brokers import Broker, launch
from tests.worker.processes import WorkerProcess, await_ready, eventually, write_config


class Size(NamedTuple):
    """What comes, and how long it is watched."""

    streams: int
    models: int
    rate: float  # records a second
    regions: int = 0
    label_seconds: float = 5.0  # on average
    partitions: int = 4
    warm: float = 45.0  # seconds before anything is measured
    watched: float = 45.0


#: Those that `docs/do/size-cluster.md` names.
SIZES: Final = {
    "small": Size(60, 1, 600.0),
    "medium": Size(250, 4, 4_500.0),
    "segments": Size(300, 2, 1_500.0, regions=4),
    "large": Size(1_500, 2, 3_000.0, label_seconds=20.0, partitions=8, warm=75.0),
    "streams-300": Size(300, 2, 4_000.0),
    "streams-2000": Size(2_000, 2, 8_000.0, warm=75.0),
}

#: Those that the costs were fitted to, which are others.
FITTED: Final = {
    "idle": Size(4, 2, 20.0),
    "idle-16": Size(4, 2, 20.0, partitions=16),
    "commits": Size(20, 2, 400.0),
    "commits-12": Size(48, 1, 300.0, partitions=12),
    "records": Size(4, 2, 16_000.0),
    "messages": Size(1_000, 2, 3_000.0),
    "models": Size(200, 5, 3_500.0),
    "regions": Size(150, 2, 1_600.0, regions=3),
    "sparse": Size(2_000, 1, 1_000.0),
}


#: Of how many streams the delays of messages are measured: since they were due, until a reader has them.
_TIMED: Final = 100


def measure(size: Size, broker: Broker, recover: bool) -> dict[str, Any]:
    """Run one size."""
    kafka = broker.config(prefix=f"size-{uuid4().hex[:8]}.", partitions=size.partitions)
    create(kafka, topic_specs(kafka))
    mean = size.label_seconds
    load = Load(size.streams, size.models, size.regions, (min(1.0, mean / 2), mean, 4 * mean), 0.0)
    folder = Path(tempfile.mkdtemp(prefix="sizes-"))
    segments = {"segments": ["region"]} if size.regions else {}
    config = write_config(folder, kafka, defaults=segments)
    with ExitStack() as stack:
        worker = stack.enter_context(WorkerProcess(config))
        await_ready(worker, seconds=300.0)
        empty = resident(worker.pid)
        observer = Observer(kafka, {name_of(stream) for stream in range(min(size.streams, _TIMED))})
        observer.start()
        stack.callback(observer.stop)
        feeder = stack.enter_context(Feeder(kafka, load))
        run = Running([worker], broker_pid(broker), feeder, observer)
        run.go("warm", size.rate, size.warm)
        before, disk = counters(worker), on_disk(broker, kafka.prefix)
        cpu, began, first = cpu_seconds(worker.pid), time.monotonic(), run.samples[-1]
        samples = run.go("watched", size.rate, size.watched)
        delays = [delay.seen / 1e3 for phase, delay in run.delays if phase == "watched"]
        spent, seconds = cpu_seconds(worker.pid) - cpu, time.monotonic() - began
        later, bytes_now = counters(worker), on_disk(broker, kafka.prefix)
        grown = {name: value - before[name] for name, value in later.items()}
        text = run.scrape()
        found: dict[str, Any] = {
            "cores": spent / seconds,
            "records": (samples[-1].taken - first.taken) / seconds,
            "outcomes": grown["outcomes_total"] / seconds,
            "messages": (samples[-1].messages - first.messages) / seconds,
            "p50_s": float(np.percentile(delays, 50)),
            "p99_s": float(np.percentile(delays, 99)),
            "lag_s": max(one.lag for one in samples) / size.rate,
            "rss_mb": median(one.rss_mb for one in samples),
            "peak_mb": max(one.rss_mb for one in run.samples),
            "empty_mb": empty,
            "transactions": grown["transaction_seconds_count"] / seconds,
            "snapshots": grown["snapshot_seconds_count"] / seconds,
            "snapshot_mb": later["snapshot_bytes"] / 1e6,
            "broker_cores": sum(one.broker_cpu for one in samples) / len(samples),
            "series": sum(not line.startswith("#") for line in text.splitlines()),
            "scrape_mb": len(text) / 1e6,
            "disk": {name: (bytes_now[name] - disk[name]) / seconds for name in bytes_now},
        }  # fmt: skip
        if recover:
            found |= recovered(worker, config)
    return found


def recovered(worker: WorkerProcess, config: Path) -> dict[str, Any]:
    """Seconds from `kill -9` until another worker is ready, and its CPU seconds until then.

    Part of it is the group's session timeout.
    """
    worker.kill()
    began = time.monotonic()
    with WorkerProcess(config) as second:
        eventually("ready", second.ready, 300.0)
        found = {"ready_s": time.monotonic() - began, "ready_cpu_s": cpu_seconds(second.pid)}
        return {**found, "restored": re.findall(r"shard \d+: .*to follow.*", second.log)}


def counters(worker: WorkerProcess) -> dict[str, float]:
    """Sums over all samples, by name without prefix."""
    found = {"outcomes_total": 0.0, "transaction_seconds_count": 0.0, "snapshot_seconds_count": 0.0}
    found["snapshot_bytes"] = 0.0
    for line in worker.get("/metrics")[1].splitlines():
        name = line.partition("{")[0].partition(" ")[0].removeprefix("prequential_")
        if name in found:
            found[name] += float(line.rpartition(" ")[2])
    return found


def on_disk(broker: Broker, prefix: str) -> dict[str, int]:
    """Bytes of topics' segment files, by what they are for; all zero for a broker that isn't ours."""
    groups = {
        "inputs": INPUTS, "outputs": (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS), "journal": (JOURNAL,),
        "snapshots": (SNAPSHOTS,),
    }  # fmt: skip
    folder = getattr(broker, "_folder", None)
    files = list((folder / "data").glob(f"{prefix}*/*.log")) if folder else []
    sizes: dict[str, int] = {}
    for path in files:
        topic = path.parent.name.removeprefix(prefix).rpartition("-")[0]
        try:
            sizes[topic] = sizes.get(topic, 0) + os.stat(path).st_size
        except FileNotFoundError:  # compaction has replaced it
            continue
    return {name: sum(sizes.get(topic, 0) for topic in topics) for name, topics in groups.items()}


def main() -> None:
    """Run the sizes, each on topics of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--size", action="append", choices=[*SIZES, *FITTED], help="only this (repeatable)"
    )
    parser.add_argument("--recover", action="store_true", help="kill the worker, and wait for another")
    args = parser.parse_args()
    with launch("kafka") as broker:
        for name in args.size or SIZES:
            size = (SIZES | FITTED)[name]
            found = measure(size, broker, args.recover)
            print(json.dumps({"name": name, **size._asdict(), **found}), flush=True)


if __name__ == "__main__":
    main()
