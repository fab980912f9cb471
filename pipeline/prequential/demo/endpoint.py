"""Reads a worker's metrics endpoint, as Prometheus would."""

from __future__ import annotations

from collections import defaultdict
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

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
    """Return whether a worker holds its shards, and the body of its answer."""

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
