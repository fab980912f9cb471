"""Every panel of the Grafana dashboard shows something, where a Prometheus watches a real worker."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import fresh_cluster
from dashboard import expand, templates
from processes import WorkerProcess, await_published, await_ready, eventually, write_config
from prometheus_server import ask, prometheus_of
from workload import Record, Sender

from tests.brokers import Broker

CLASSES, NUMBERS = "clicks", "prices"

DEFAULTS: dict[str, Any] = {
    "estimators": ["all", "window:100"],
    "positive_class": "yes",
    "segments": ["arm"],
    "label_horizon": "1m",
    "settle": "1s",
    "cluster": "5s",
    "compare_losses": ["error", "log_loss"],
    "objective": {"accuracy": 0.8},
    "emit": {"outcomes": 50, "every": "1s"},
    "detectors": [{"detector": "page-hinkley", "signal": "error", "lambda": 10}],
}

#: What the dashboard's user has chosen, and what Grafana fills in: a rate's range is all of the test, so
#: that nothing depends on when a scrape comes.
CHOSEN = {
    "model": ".+", "stage": "final", "estimator": "window:100", "segment": "^$", "group": ".*",
    "__rate_interval": "10m",
}  # fmt: skip

#: What is empty while all is well, and why.
EMPTY = {
    "annotation Restoring": "marks the times at which shards were being restored",
    **dict.fromkeys(
        (
            "65 Ingest: records A", "65 Ingest: records B", "66 Ingest: not used so far A",
            "66 Ingest: not used so far B", "66 Ingest: not used so far C",
            "67 Archive: messages A", "67 Archive: messages B",
            "68 Archive: age of the oldest missing message A",
        ),
        "neither `prequential ingest` nor `prequential archive` runs here",
    ),
}  # fmt: skip

#: Instances, and event time between two of them, in ms: five minutes, so that the horizon of many is over.
_COUNT, _STEP = 1_000, 300


def events(began: int) -> Iterator[Record]:
    """Models with a version each, one much worse; halfway one gets worse, and the next version of it comes.

    Some labels never come, come twice, are revised, or have no prediction.
    """
    rng = random.Random(1)
    for number in range(_COUNT):
        ts = began + _STEP * number
        about: dict[str, Any] = {"stream": CLASSES, "instance_id": number}
        late = 2 * number >= _COUNT
        yes = rng.random() < 0.5
        yield record("instances", **about, ts=ts)
        for model, wrong in (("nb", 0.6 if late else 0.1), ("tree", 0.05), ("stub", 0.95)):
            if number % 50 == 7:
                break  # nobody predicts it
            says = "yes" if (rng.random() >= wrong) == yes else "no"
            p = 0.9 if says == "yes" else 0.1
            yield record(
                "predictions", **about, ts=ts + 5, model=model, y_pred=says, y_proba={"yes": p, "no": 1 - p},
                segments={"arm": "AB"[number % 2]}, model_version="2" if late else "1",
            )  # fmt: skip
        if number % 10 != 3:
            label = {**about, "y_true": "yes" if yes else "no", "ts": ts + 100}
            yield record("labels", **label)
            if number % 20 == 4:
                yield record("labels", **label)
            if number % 20 == 15:
                yield record("labels", **{**label, "y_true": "no" if yes else "yes"})
            if number % 20 == 16:
                yield record("labels", **{**label, "y_true": None})
        price = {"stream": NUMBERS, "instance_id": number}
        y = rng.gauss(10, 3)
        yield record("predictions", **price, ts=ts, model="m", y_pred=y + rng.gauss(0, 1))
        yield record("labels", **price, ts=ts + 50, y_true=y)


def record(topic: str, **fields: Any) -> Record:
    return Record(topic, fields["stream"].encode(), json.dumps(fields).encode())


def send_in_order(sender: Sender, records: list[Record]) -> None:
    """Send records so that no topic is ahead of another by more than half of `label_horizon`.

    A producer sends topic after topic. A worker that reads in between would take the later ones for late.
    """
    at_once = 30_000 // _STEP
    for first in range(0, len(records), at_once):
        sender.send(records[first : first + at_once])
        sender.flush()


def has_values(rows: list[dict[str, Any]]) -> bool:
    """Whether one of them is a number: Grafana shows NaN as nothing."""
    return any(not math.isnan(float(row["value"][1])) for row in rows)


def test_no_panel_is_empty(kafka: Broker, tmp_path: Path) -> None:
    cluster = fresh_cluster(kafka, 2)
    numbers = {"task": "regression", "objective": {"mae": 2.0}, "compare_losses": ["error"]}
    numbers |= {"positive_class": None, "segments": []}
    config = write_config(
        tmp_path, cluster, defaults=DEFAULTS, streams={NUMBERS: numbers},
        worker={"snapshot_every": "1s"},
    )  # fmt: skip
    everything = list(events(round(time.time() * 1000) - _COUNT * _STEP))
    half = len(everything) // 2
    sender = Sender(cluster)
    with WorkerProcess(config) as worker:
        send_in_order(sender, everything[:half])
        await_ready(worker)
        await_published(cluster, worker)
        with prometheus_of([worker.port], tmp_path) as address:
            send_in_order(sender, [*everything[half:], Record("labels", CLASSES.encode(), b"no JSON")])
            await_published(cluster, worker)
            # Classes and numbers have different measures: one of the two streams must have an answer.
            empty = {
                place: [expand(query, {**CHOSEN, "stream": name}) for name in (CLASSES, NUMBERS)]
                for place, query in templates().items()
            }

            def filled() -> bool:
                for place, asked in list(empty.items()):
                    if any(has_values(ask(address, query)) for query in asked):
                        del empty[place]
                return empty.keys() <= EMPTY.keys()

            try:
                eventually("every panel has values", filled)
            except AssertionError:
                assert empty.keys() == EMPTY.keys(), f"{empty.keys() - EMPTY.keys()}\n{worker.log}"
            assert empty.keys() == EMPTY.keys()
            # What PrequentialHarm goes by: the objectives' own tests, one of which says that it is broken.
            # (That of `nb`, whose errors have jumped once, is worth too few independent outcomes yet.)
            harm = 'sum by (stream, model) (prequential_drift_alarms_total{detector="harm", segment=""}) > 0'
            wanted = [(CLASSES, "stub")]

            def broken() -> list[tuple[str, str]]:
                rows = [row["metric"] for row in ask(address, harm)]
                return sorted((row["stream"], row["model"]) for row in rows)

            eventually("harm", lambda: broken() == wanted)
