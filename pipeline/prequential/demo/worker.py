"""The demo's worker: a process of its own, as in production, with a configuration of its own; its metrics."""

from __future__ import annotations

import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml
from prequential.configuration.settings.http_server import HttpConfig
from prequential.demo.broker import GuardedProcess
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prometheus_client.parser import text_string_to_metric_families

#: Seconds in which an answer must have come: a live screen can't wait longer for one.
_ANSWER_SECONDS = 2.0


class Readings(NamedTuple):
    """Counts of the worker's, and the median label latency of late in seconds, of the slowest stream."""

    records: int
    #: Predictions without a label yet, of all models.
    waiting: int
    #: Labels that had come before.
    repeated: int
    latency: float | None


class Readiness(NamedTuple):
    """Whether a worker holds its shards, and the body of its answer."""

    ready: bool
    text: str


def readiness(base: str) -> Readiness:
    """The readiness of the worker at an address such as `http://127.0.0.1:9464`."""
    try:
        with urlopen(f"{base}/ready", timeout=_ANSWER_SECONDS) as answer:
            return Readiness(ready=True, text=_text(answer))
    except HTTPError as refusal:
        with refusal:
            return Readiness(ready=False, text=_text(refusal))
    except (OSError, HTTPException):  # it doesn't listen yet, or has no time to answer
        return Readiness(ready=False, text="no answer yet")


def _text(answer: Any) -> str:
    try:
        return str(answer.read().decode("utf-8", "replace").strip())
    except (OSError, HTTPException):
        return "no answer yet"


def scrape(base: str) -> Readings | None:
    """One reading of the worker's metrics at the URL `base`; None if there was no answer in time."""
    try:
        with urlopen(f"{base}/metrics", timeout=_ANSWER_SECONDS) as answer:
            return parse(answer.read().decode())
    except (OSError, HTTPException):
        return None


def parse(text: str) -> Readings:
    r"""Readings from the Prometheus text format.

    >>> parse('prequential_records_total{topic="labels"} 2\nprequential_records_total{topic="x"} 3')
    Readings(records=5, waiting=0, repeated=0, latency=None)
    >>> parse('prequential_label_latency_recent_quantile_seconds{stream="s",percentile="p50"} 2.5').latency
    2.5
    """
    sums: dict[str, float] = defaultdict(float)
    medians = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += sample.value
            if sample.labels.get("topic", "").endswith("labels"):
                sums[f"{sample.name} labels"] += sample.value
            of_latency = sample.name == "prequential_label_latency_recent_quantile_seconds"
            if of_latency and sample.labels["percentile"] == "p50":
                medians.append(sample.value)
    return Readings(
        records=round(sums["prequential_records_total"]),
        waiting=round(sums["prequential_waiting_predictions"]),
        repeated=round(sums["prequential_duplicates_total labels"]),
        latency=max(medians, default=None),
    )


#: Seconds between two questions whether it is ready, and between two lines that say what it waits for.
_LOOK_SECONDS, _TELL_SECONDS = 0.1, 10.0

#: Seconds for a clean end: more than the worker gives itself (10).
_STOP_SECONDS = 12.0

#: Lines of its log that are shown after an unexpected stop.
_LAST_LINES = 15


def configuration(kafka: KafkaConfig, group: str, evaluated: Mapping[str, Any]) -> dict[str, Any]:
    """The worker's configuration file, as YAML would have it; `evaluated` is its section `defaults`."""
    return {
        "kafka": {
            "bootstrap_servers": kafka.bootstrap_servers,
            "prefix": kafka.prefix,
            "partitions": kafka.partitions,
            "security": dict(kafka.security),
        },
        "worker": {"group": group},
        "defaults": dict(evaluated),
    }


class DemoWorker:
    """A worker as a context manager: started when the block begins, gone when it has ended.

    It evaluates what `evaluated`, its section `defaults`, says. Its files are in `folder`.
    """

    def __init__(
        self, kafka: KafkaConfig, group: str, evaluated: Mapping[str, Any], http: HttpConfig, folder: Path
    ) -> None:
        self.base = f"http://{http.host}:{http.port}"
        self._log = folder / "worker.log"
        self._log.touch()
        config = folder / "prequential.yaml"
        config.write_text(yaml.safe_dump(configuration(kafka, group, evaluated)), encoding="utf-8")
        self._command = [
            # Faust makes a folder for tables, which are not used here: not in the user's folder.
            "env", f"APP_DATADIR={folder / 'faust'}",
            sys.executable, "-m", "prequential.cli.main", "worker",
            "--config", str(config), "--http", f"{http.host}:{http.port}",
        ]  # fmt: skip
        self._process: GuardedProcess | None = None

    def __enter__(self) -> DemoWorker:
        self._process = GuardedProcess(self._command, self._log, signal.SIGTERM)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop(_STOP_SECONDS)

    def wait_until_ready(self, tell: Callable[[str], None], report: Callable[[str], None]) -> None:
        """Wait until the worker holds its shards, however long that takes.

        `tell` is called every 10 s with what the worker is doing, `report` whenever that changes. Raises
        WorkError, with the last lines of its log, if the worker stops unexpectedly.
        """
        began = told_at = time.monotonic()
        reported = ""
        while not (state := readiness(self.base)).ready:
            self.check()
            text = "; ".join(state.text.splitlines())
            if text != reported:
                report(text)
                reported = text
            now = time.monotonic()
            if now - told_at >= _TELL_SECONDS:
                tell(f"waiting for the worker for {now - began:.0f} s: {text}")
                told_at = now
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Raise WorkError if the worker stopped unexpectedly."""
        if self._process is not None and not self._process.running:
            lines = self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
            end = "the end of its log:\n" + "\n".join(lines) if lines else "its log is empty"
            raise WorkError(f"the worker stopped unexpectedly; {end}")
