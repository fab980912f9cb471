"""How long a killed worker's shards stand still, with many predictions that wait.

`python -m tests.bench.recovery --bootstrap-servers ADDR [--waiting 1000000]` fills fresh topics with
predictions whose labels don't come, lets a worker process them and write a snapshot, kills it (-9),
starts another one at once and says when that one is ready. Part of it is Kafka's: the group waits for
the dead member until its session times out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from time import monotonic
from uuid import uuid4

from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, topic_specs

from tests.bench.feeding import arriving
from tests.bench.messages import START_MS, load
from tests.bench.running import resident
from tests.worker.processes import WorkerProcess, eventually, write_config

#: Seconds that each step may take.
PATIENCE = 300.0


def total(worker: WorkerProcess, name: str) -> float:
    """The sum of a metric's samples; 0 while the worker doesn't answer."""
    return sum(worker.metrics().get(name, {}).values()) if worker.get("/live")[0] == 200 else 0.0


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True, metavar="ADDR")
    parser.add_argument("--waiting", type=int, default=1_000_000, metavar="N")
    args = parser.parse_args()
    kafka = KafkaConfig(args.bootstrap_servers, prefix=f"recovery-{uuid4().hex[:8]}.")
    create(kafka, topic_specs(kafka))
    records = arriving(range(args.waiting // 2), 2, 1, lambda number: START_MS + number // 100)
    load(args.bootstrap_servers, {kind: kafka.topic(kind) for kind in INPUTS}, records)
    config = write_config(Path(tempfile.mkdtemp()), kafka)
    with WorkerProcess(config) as first:
        began = monotonic()
        waiting, written = "prequential_waiting_predictions", "prequential_snapshot_bytes"
        eventually("all predictions wait", lambda: total(first, waiting) >= args.waiting, PATIENCE)
        filled = monotonic() - began
        eventually("a snapshot", lambda: total(first, written) > 10 * args.waiting, PATIENCE)
        memory, size = resident(first.pid), total(first, written) / 1e6
        first.kill()
        began = monotonic()
        with WorkerProcess(config) as second:
            eventually("ready", second.ready, PATIENCE)
            ready, recovered = monotonic() - began, total(second, waiting)
            second.stop(PATIENCE)
            restored = re.findall(r"shard 0?\d: .*|.*shards of this worker.*", second.log)
    print(
        json.dumps(
            {
                "waiting": args.waiting, "filled_s": round(filled, 1), "resident_mb": round(memory),
                "snapshot_mb": round(size, 1), "ready_s": round(ready, 1), "recovered": recovered,
            }
        )
    )  # fmt: skip
    print("\n".join(restored), file=sys.stderr)


if __name__ == "__main__":
    main()
