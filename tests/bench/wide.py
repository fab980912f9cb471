"""One stream on two workers: how much more a second than on one (`key: instance`).

`python -m tests.bench.wide [--instances 400000] [--rounds 2]` lets workers take the same records of one
stream from four partitions: keyed by stream, which one worker takes, and keyed by instance, which two share.
They are ready, and stand still (SIGSTOP) until all records are there. A worker is bound by one core, so what
it could take a second is the number of records over the CPU seconds of the busiest worker until all is taken;
whether each has a core of its own doesn't matter to that. Both setups run in turn, the other one first in
every other round. Beside it stands what was said last of all history, merged, and in the one partition.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import ALL_PARTITIONS
from prequential.topics.partitioning import key_of, partition_of
from prequential.topics.specs import INPUTS

from tests.bench.messages import Record, generate, load, specs
from tests.bench.observer import Observer
from tests.bench.quiet import cpu_seconds
from tests.brokers import launch
from tests.worker.processes import WorkerProcess, await_ready, eventually, outputs, write_config

STREAM = "s-0"

_MODELS, _PARTITIONS = 2, 4

#: What workers are configured with: they may stand still for long.
_DEFAULTS: dict[str, Any] = {"estimators": ["all", "window:1000"]}
_PATIENT: dict[str, Any] = {"session_timeout": "5m"}


def keyed(instances: int, wide: bool) -> Iterator[Record]:
    """The records, keyed by stream or by instance."""
    for record in generate(instances, _MODELS, 1):
        if wide:
            said = json.loads(record.value)
            record = record._replace(key=key_of(STREAM, str(said["instance_id"]), {STREAM}))
        yield record


def busiest(kafka: KafkaConfig, folder: Path, workers: int, instances: int) -> tuple[float, int]:
    """CPU seconds of the busiest of so many workers for all records, and how many these are."""
    wide = workers > 1
    streams = {"streams": {STREAM: {"key": "instance"}}} if wide else {}
    config = write_config(folder, kafka, defaults=_DEFAULTS, worker=_PATIENT, **streams)
    with ExitStack() as stack:
        observer = Observer(kafka, set())
        observer.start()
        stack.callback(observer.stop)
        running = [stack.enter_context(WorkerProcess(config)) for _ in range(workers)]
        await_ready(*running)
        share = _PARTITIONS // workers
        eventually("each has its shards", lambda: all(len(one.shards()) == share for one in running))
        await_ready(*running)
        before = [cpu_seconds(one.pid) for one in running]
        for one in running:
            one.freeze()
        topics = {kind: kafka.topic(kind) for kind in INPUTS}
        total = sum(load(kafka.bootstrap_servers, topics, keyed(instances, wide)).values())
        for one in running:
            one.thaw()
        while observer.published < total:
            time.sleep(0.05)
        return max(cpu_seconds(one.pid) - cpu for one, cpu in zip(running, before)), total


def last_said(kafka: KafkaConfig, partition: int) -> dict[str, Any]:
    """By model, outcomes and accuracy of the newest metrics message of `all`, of a partition."""
    found: dict[str, Any] = {}
    for message in outputs(kafka, "metrics"):
        if message["estimator"] == "all" and message["partition"] == partition:
            found[message["model"]] = message["outcomes"], message["measures"].get("accuracy")
    return found


def main() -> None:
    """Print records a second of each round, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--instances", type=int, default=400_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    ratios = []
    with launch("kafka") as broker:
        for number in range(args.rounds):
            found: dict[int, float] = {}
            for workers in (1, 2) if number % 2 == 0 else (2, 1):
                kafka = broker.config(prefix=f"wide-{uuid4().hex[:8]}.", partitions=_PARTITIONS)
                create(kafka, specs(kafka, wide=workers > 1))
                with tempfile.TemporaryDirectory() as folder:
                    seconds, total = busiest(kafka, Path(folder), workers, args.instances)
                found[workers] = total / seconds
                home = ALL_PARTITIONS if workers > 1 else partition_of(STREAM, _PARTITIONS)
                said = last_said(kafka, home)
                name = "two workers, by instance" if workers > 1 else "one worker, by stream"
                print(f"{name}: {found[workers]:,.0f} records/s; last said {said}", flush=True)
            ratios.append(found[2] / found[1])
            print(f"round {number + 1}: {ratios[-1]:.2f}", flush=True)
    print(f"median ratio: {median(ratios):.2f}")


if __name__ == "__main__":
    main()
