"""One stream on two workers: how much more a second than on one (`key: instance`).

`python -m tests.bench.wide [--instances 400000] [--quota 0.35] [--rounds 2]` puts the same records of
one stream into four partitions twice: keyed by stream, for one worker, and by instance, for two. Each worker
gets the same share of a core (`--quota`, by the kernel's control groups, so as root), as on machines of their
own; the broker gets what it wants. The rate is that of the records between a fifth and nine tenths of all, by
what the journal says is taken. Both setups run in turn, the other one first in every other round. At the end
the merged messages' `outcomes` and `accuracy` are compared with those of the one partition.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import ALL_PARTITIONS
from prequential.topics.partitioning import key_of
from prequential.topics.specs import INPUTS

from tests.bench.messages import Record, generate, load, specs
from tests.bench.observer import Observer
from tests.brokers import launch
from tests.worker.processes import WorkerProcess, outputs, write_config

STREAM = "s-0"

#: Models, partitions, and the shares of all records between which the rate is measured.
_MODELS, _PARTITIONS, _FROM, _TO = 2, 4, 0.2, 0.9

#: Microseconds of the kernel's period, in which each worker gets its share.
_PERIOD = 20_000

_GROUPS = Path("/sys/fs/cgroup/cpu")


@contextmanager
def share_of_a_core(quota: float) -> Iterator[Path]:
    """A control group whose processes get so much of a core together."""
    group = _GROUPS / f"wide-{uuid4().hex[:8]}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(round(quota * _PERIOD)))
        yield group
    finally:
        group.rmdir()  # its worker has ended


def keyed(instances: int, wide: bool) -> Iterator[Record]:
    """The records, keyed by stream or by instance."""
    for record in generate(instances, _MODELS, 1):
        if wide:
            said = json.loads(record.value)
            record = record._replace(key=key_of(STREAM, str(said["instance_id"]), {STREAM}))
        yield record


def rate(kafka: KafkaConfig, folder: Path, workers: int, total: int, quota: float, wide: bool) -> float:
    """Records a second that so many workers take."""
    streams = {"streams": {STREAM: {"key": "instance"}}} if wide else {}
    config = write_config(folder, kafka, defaults={"estimators": ["all", "window:1000"]}, **streams)
    observer = Observer(kafka, set())
    observer.start()
    times: dict[str, float] = {}
    with ExitStack() as stack:
        stack.callback(observer.stop)
        for _ in range(workers):
            group = stack.enter_context(share_of_a_core(quota))
            worker = stack.enter_context(WorkerProcess(config))
            (group / "cgroup.procs").write_text(str(worker.pid))
        while observer.published < total:
            taken = observer.published
            for name, share in (("from", _FROM), ("to", _TO)):
                if taken >= share * total and name not in times:
                    times[name] = time.monotonic()
                    times[f"{name} records"] = taken
            time.sleep(0.02)
    return (times["to records"] - times["from records"]) / (times["to"] - times["from"])


def last_said(kafka: KafkaConfig, partition: int | None) -> dict[str, Any]:
    """By model, the newest metrics message of `all`, of a partition or of whichever there is."""
    found: dict[str, Any] = {}
    for message in outputs(kafka, "metrics"):
        if message["estimator"] == "all" and partition in (None, message["partition"]):
            found[message["model"]] = message["outcomes"], message["measures"].get("accuracy")
    return found


def main() -> None:
    """Print the rates of each round, their ratio, and whether both say the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--instances", type=int, default=400_000, metavar="N")
    parser.add_argument("--quota", type=float, default=0.35, metavar="CORES", help="of each worker")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    ratios = []
    with launch("kafka") as broker:
        for number in range(args.rounds):
            found: dict[bool, float] = {}
            for wide in (False, True) if number % 2 == 0 else (True, False):
                kafka = broker.config(prefix=f"wide-{uuid4().hex[:8]}.", partitions=_PARTITIONS)
                create(kafka, specs(kafka, wide=wide))
                topics = {kind: kafka.topic(kind) for kind in INPUTS}
                sent = load(kafka.bootstrap_servers, topics, keyed(args.instances, wide))
                total = sum(sent.values())
                with tempfile.TemporaryDirectory() as folder:
                    found[wide] = rate(kafka, Path(folder), 1 + wide, total, args.quota, wide)
                said = last_said(kafka, ALL_PARTITIONS if wide else None)
                name = "two workers, keyed by instance" if wide else "one worker, keyed by stream"
                print(f"{name}: {found[wide]:,.0f} records/s; last said {said}", flush=True)
            ratios.append(found[True] / found[False])
            print(f"round {number + 1}: {ratios[-1]:.2f}", flush=True)
    print(f"median ratio: {median(ratios):.2f}")
    sys.exit(0)


if __name__ == "__main__":
    main()
