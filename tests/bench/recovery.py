"""How long a killed worker's shards stand still, with many predictions that wait.

`python -m tests.bench.recovery --bootstrap-servers ADDR [--waiting 1000000]` fills fresh topics with
predictions whose labels don't come, lets a worker process them and write a snapshot, kills it (-9),
starts another one at once and says when that one is ready. Part of it is Kafka's: the group waits for
the dead member until its session times out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError, URLError
from urllib.request import urlopen
from uuid import uuid4

from prequential.demo.broker import pick_port
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, topic_specs

from tests.bench.feeding import arriving
from tests.bench.messages import START_MS, load

PATIENCE = 300.0


class Worker:
    """A worker process and its endpoint."""

    def __init__(self, config: Path) -> None:
        self.address = f"127.0.0.1:{pick_port()}"
        self.log = config.with_suffix(f".{uuid4().hex[:4]}.log")
        command = [sys.executable, "-m", "prequential.cli.main", "worker", "--config", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, "--http", self.address], stdout=log, stderr=log)

    def get(self, path: str) -> str | None:
        """What the endpoint answers with status 200."""
        try:
            with urlopen(f"http://{self.address}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except (HTTPError, URLError, OSError):
            return None

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.get("/metrics") or "", re.MULTILINE)
        return sum(map(float, found))


def wait(what: str, true: object) -> float:
    """Seconds until it is true."""
    began = monotonic()
    while not true():  # type: ignore[operator]
        if monotonic() - began > PATIENCE:
            raise SystemExit(f"{what}: not within {PATIENCE:.0f} s")
        sleep(0.05)
    return monotonic() - began


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
    config = Path(tempfile.mkdtemp()) / "prequential.json"
    about = {"bootstrap_servers": kafka.bootstrap_servers, "prefix": kafka.prefix}
    config.write_text(json.dumps({"kafka": about}))

    first = Worker(config)
    filled = wait(
        "all predictions wait",
        lambda: first.metric("prequential_waiting_predictions") >= args.waiting,
    )
    wait("a snapshot", lambda: first.metric("prequential_snapshot_bytes") > 10 * args.waiting)
    memory = next(
        int(line.split()[1]) / 1e3
        for line in Path(f"/proc/{first.process.pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    size = first.metric("prequential_snapshot_bytes") / 1e6
    os.kill(first.process.pid, 9)
    second = Worker(config)
    ready = wait("ready", lambda: second.get("/ready") is not None)
    recovered = second.metric("prequential_waiting_predictions")
    second.process.terminate()
    second.process.wait()
    restored = re.findall(r"shard 0?\d: .*|.*shards of this worker.*", second.log.read_text())
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
