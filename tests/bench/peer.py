"""What the peers share: their command line, the topics' names, the stopwatch and the report."""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic
from prequential.topics.specs import INPUTS

from tests.bench.cases import PLAIN


@dataclass
class Peer:
    """One run of a peer: what it was asked to do, and how long that took.

    `start` is called at the first record received, `stop` after the last one was processed.
    """

    name: str
    bootstrap_servers: str
    prefix: str
    records: int
    as_json: bool
    case: str = PLAIN
    http_port: int = 0
    only_metrics: bool = False
    group: str = ""
    _began: tuple[float, float] | None = None
    _took: tuple[float, float] | None = None

    @classmethod
    def from_command_line(cls, name: str, description: str | None, cases: Collection[str] = (PLAIN,)) -> Peer:
        """The run that `sys.argv` asks for, of one of the cases that the peer can evaluate."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--bootstrap-servers", required=True, metavar="ADDR")
        parser.add_argument("--prefix", default="", metavar="P", help="before all topics' names")
        parser.add_argument("--records", type=int, required=True, metavar="N", help="expected")
        parser.add_argument("--case", choices=list(cases), default=PLAIN, help="what messages say")
        parser.add_argument("--json", action="store_true", help="for machines")
        parser.add_argument("--group", metavar="NAME", help="the consumer group; default: a new one")
        parser.add_argument("--http-port", type=int, default=0, metavar="N", help="the worker's endpoint")
        parser.add_argument(
            "--only-metrics", action="store_true", help="the worker's: without comparisons and detectors"
        )
        args = parser.parse_args()
        return cls(
            name, args.bootstrap_servers, args.prefix, args.records, args.json, args.case,
            args.http_port, args.only_metrics, args.group or f"bench-{uuid4().hex[:8]}",
        )  # fmt: skip

    @property
    def inputs(self) -> dict[str, str]:
        """The three input topics' full names, by kind."""
        return {kind: self.prefix + kind for kind in INPUTS}

    @property
    def output(self) -> str:
        """The topic for this run's metrics messages."""
        return f"{self.prefix}{self.group}-metrics"

    def partitions(self) -> int:
        """The number of each input's partitions."""
        labels = self.inputs["labels"]
        return len(self._admin.list_topics(labels).topics[labels].partitions)

    def create_topics(self, *names: str) -> None:
        """Create topics that aren't there, with as many partitions as the inputs have.

        Their records stay, whatever time they have.
        """
        partitions, existing = self.partitions(), self._admin.list_topics().topics
        kept = {"retention.ms": "-1"}
        topics = [NewTopic(name, partitions, config=kept) for name in names if name not in existing]
        if not topics:
            return
        for created in self._admin.create_topics(topics).values():
            created.result()

    def start(self) -> None:
        """The first record came."""
        self._began = perf_counter(), _cpu_seconds()

    def stop(self) -> None:
        """The last record was processed."""
        if self._began is None:
            raise RuntimeError(f"peer {self.name!r} stopped without a record")
        self._took = perf_counter() - self._began[0], _cpu_seconds() - self._began[1]

    def report(self, outcomes: int, accuracy: Mapping[str, float], **more: Any) -> None:
        """Print the result: `outcomes` of all models, `accuracy` of each one's final predictions, and `more`.

        `cpu_seconds` are user and system time of the process with all its threads.
        """
        if self._took is None:
            raise RuntimeError(f"peer {self.name!r} has nothing to report: it was not stopped")
        seconds, cpu_seconds = self._took
        result = {
            "peer": self.name,
            "case": self.case,
            "records": self.records,
            "seconds": round(seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "peak_rss_mb": round(_peak_rss_mb(), 1),
            "outputs": self.output,
            "outcomes": outcomes,
            "accuracy": {model: accuracy[model] for model in sorted(accuracy)},
            **more,
        }
        if self.as_json:
            print(json.dumps(result), flush=True)
        else:
            rate = self.records / seconds
            print(*(f"{key}: {value}" for key, value in result.items()), sep="\n")
            print(f"records per second: {rate:,.0f}", flush=True)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _peak_rss_mb() -> float:
    """The process's largest resident set so far, in MB (10^6 bytes).

    (Not getrusage where /proc can tell: a process inherits its parent's peak on Linux.)
    """
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of getrusage's number
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
