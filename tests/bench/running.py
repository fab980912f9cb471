"""Workers under load, looked at once a second: what soaks and measurements of size have in common."""

from __future__ import annotations

import csv
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import COMPARISONS, METRICS

from tests.bench.live import Feeder
from tests.bench.observer import Delay, Observer
from tests.bench.scraping import cpu_seconds
from tests.brokers import Broker
from tests.worker.processes import WorkerProcess

#: Seconds between two questions whether the worker is alive.
_PROBE_SECONDS: Final = 1.0

#: How often outcomes are asked for.
_ATTEMPTS: Final = 5

#: Outputs are read at once and fill the disk otherwise: they are kept for so long.
_RETENTION: Final[Mapping[str, str]] = {
    "retention.ms": "120000", "segment.ms": "60000", "segment.bytes": "134217728",
}  # fmt: skip


class Sample(NamedTuple):
    """One second."""

    second: int
    phase: str
    pace: float  # records a second that are asked for
    sent: int  # so far
    taken: int  # records, so far
    lag: int  # records sent that aren't taken, in an order that is committed
    rss_mb: float  # of all workers
    worker_cpu: float  # of a core, in this second, all workers', and the others'
    broker_cpu: float
    feeder_cpu: float
    messages: int  # so far: metrics and comparisons, as readers have seen them
    told: int  # metrics messages whose delays became known in this second
    published_p50: float  # ms, NaN if there are none
    published_p99: float
    seen_p99: float


class Running:
    """Looks once a second at all that there is; with a `file`, writes it there as CSV."""

    def __init__(
        self,
        workers: Sequence[WorkerProcess],
        broker: int,
        feeder: Feeder,
        observer: Observer,
        *,
        file: Path | None = None,
        scrape_every: float = 0.0,
        probed: bool = False,
    ) -> None:
        """`broker` is its process, 0 if that isn't known; `scrape_every` is in seconds, 0: never.

        `probed`: `/live` is asked all the time.
        """
        self.samples: list[Sample] = []
        self.delays: list[tuple[str, Delay]] = []  # with the phase in which they became known
        self.scrapes: list[tuple[float, int]] = []  # seconds, bytes
        self.unanswered: list[tuple[str, str]] = []  # what wasn't answered in time, and in which phase
        self.longest: dict[str, float] = {}  # seconds that an answer of `/live` took, by phase
        self.workers = workers
        self._feeder = feeder
        self._observer = observer
        observer.delays()  # those of before are nobody's
        self._pids = ([worker.pid for worker in workers], [broker] if broker else [], [feeder.pid])
        self._cpu = self._spent()
        self._looked = time.monotonic()
        self._rows: Any = None
        if file is not None:
            self._rows = csv.writer(file.open("w", newline="", buffering=1))
            self._rows.writerow(Sample._fields)
        self._pace = 0.0
        self._phase = "start"
        self._scrape_every = scrape_every
        self._scraped = self._looked
        if probed:
            for worker in workers:
                threading.Thread(target=self._probe, args=[worker], daemon=True).start()

    def go(
        self, phase: str, pace: float, seconds: float, until: Callable[[Sample], bool] | None = None
    ) -> list[Sample]:
        """Have records come at a pace for so long, or until something is so; the samples of that time."""
        self._phase, self._pace = phase, pace
        self._feeder.pace(pace)
        first = len(self.samples)
        ends = time.monotonic() + seconds
        text = f"{time.strftime('%H:%M:%S')} {phase}: {pace:,.0f} records/s, {seconds:,.0f} s"
        print(text, file=sys.stderr, flush=True)
        while time.monotonic() < ends:
            sample = self._look()
            if until is not None and until(sample):
                break
        return self.samples[first:]

    def _look(self) -> Sample:
        time.sleep(max(0.0, self._looked + 1.0 - time.monotonic()))
        for worker in self.workers:
            assert worker.status is None, f"a worker ended with {worker.status}:\n{worker.log}"
        now = time.monotonic()
        spent = self._spent()
        shares = [(a - b) / (now - self._looked) for a, b in zip(spent, self._cpu)]
        self._cpu, self._looked = spent, now
        delays = self._observer.delays()
        self.delays += ((self._phase, delay) for delay in delays)
        taken = self._observer.published
        sent = self._feeder.sent
        known = np.array(delays or [(np.nan, np.nan)], float)
        sample = Sample(
            len(self.samples) + 1, self._phase, self._pace, sent, taken, max(0, sent - taken),
            sum(map(resident, self._pids[0])), *shares, self._observer.messages, len(delays),
            *np.percentile(known[:, 0], (50, 99)).tolist(), float(np.percentile(known[:, 1], 99)),
        )  # fmt: skip
        self.samples.append(sample)
        if self._rows is not None:
            self._rows.writerow(
                [f"{value:.3f}" if isinstance(value, float) else value for value in sample]
            )
        if self._scrape_every and now - self._scraped > self._scrape_every:
            self._scraped = now
            threading.Thread(target=self.scrape, daemon=True).start()
        return sample

    def _spent(self) -> list[float]:
        """Processor seconds of workers, broker and feeder; 0 if the process isn't known."""
        return [sum(map(cpu_seconds, pids)) for pids in self._pids]

    def scrape(self) -> str:
        """All of each worker's `/metrics`, as Prometheus asks for it; "" if one doesn't answer."""
        texts = []
        for worker in self.workers:
            began = time.monotonic()
            status, text = worker.get("/metrics")
            if status != 200:
                self.unanswered.append(("/metrics", self._phase))
                return ""
            self.scrapes.append((time.monotonic() - began, len(text)))
            texts.append(text)
        return "".join(texts)

    def _probe(self, worker: WorkerProcess) -> None:
        """Ask `/live` again and again, as Kubernetes does."""
        while worker.status is None:
            began = time.monotonic()
            if worker.get("/live")[0] != 200 and worker.status is None:
                self.unanswered.append(("/live", self._phase))
            self.longest[self._phase] = max(self.longest.get(self._phase, 0.0), time.monotonic() - began)
            time.sleep(_PROBE_SECONDS)

    def outcomes(self) -> tuple[dict[tuple[str, str, str], int], dict[tuple[str, str], int]]:
        """By stream, model and stage, as the worker says; and late predictions by stream and model.

        Nothing if it doesn't answer.
        """
        text = next(filter(None, (self.scrape() for _ in range(_ATTEMPTS))), "")
        outcomes, late = _OUTCOMES.finditer(text), _LATE.finditer(text)
        return (
            {(match[1], match[2], match[3]): int(float(match[4])) for match in outcomes},
            {(match[1], match[2]): int(float(match[3])) for match in late},
        )

    def drain(self, seconds: float) -> None:
        """Let no more instances come, and wait until the last labels have come, and all is taken."""
        silent = round(self._feeder.load.label_seconds[2]) + 2  # with less, labels may still come

        def done(sample: Sample) -> bool:
            last = self.samples[-silent:]
            return not sample.lag and len(last) == silent and last[0].sent == sample.sent

        self.go("drain", 0.0, seconds, done)


_OUTCOMES = re.compile(
    r'^prequential_outcomes_total\{group="[^"]*",stream="([^"]*)",partition="\d+",model="([^"]*)",'
    r'stage="([^"]*)"\} (\S+)$',
    re.MULTILINE,
)
_LATE = re.compile(
    r'^prequential_late_predictions_total\{group="[^"]*",stream="([^"]*)",partition="\d+",model="([^"]*)"\}'
    r" (\S+)$",
    re.MULTILINE,
)


def resident(pid: int) -> float:
    """Resident memory of a process, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def broker_pid(broker: Broker) -> int:
    """The process of a broker on this machine's Java, which is its guard's child; else 0."""
    guard = getattr(getattr(broker, "_process", None), "_process", None)
    if guard is None:
        return 0
    children = Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()
    return int(children[0]) if children else 0


def keep_outputs_short(kafka: KafkaConfig) -> None:
    """Don't let the outputs of an hour fill the disk."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in _RETENTION.items()
    ]
    resources = [
        ConfigResource(ResourceType.TOPIC, kafka.topic(topic), incremental_configs=entries)
        for topic in (METRICS, COMPARISONS)
    ]
    client = AdminClient(kafka.client())  # kept until all is done
    for done in client.incremental_alter_configs(resources).values():
        done.result()
