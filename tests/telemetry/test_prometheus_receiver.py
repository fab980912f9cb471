"""A worker that pushes to a real Prometheus, which scrapes it as well: both have the same series."""

from __future__ import annotations

from pathlib import Path

from prequential.demo.broker import pick_port
from prequential.runtime.program import VERSION
from prequential.topics.clients import KafkaConfig
from receiving_prometheus import ReceivingPrometheus, receiving_prometheus
from test_real_receiver import SETTINGS, send

from tests.worker.processes import WorkerProcess, await_published, await_ready, eventually, write_config

#: Name and labels of a series, and its value.
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

#: What Prometheus itself adds to a scrape.
_OWN = ("up", "scrape_")

#: What it makes of the attributes of a process that pushes.
_TARGET = "target_info"

#: Series that change while nothing happens, or with each scrape.
_MOVING = ("_seconds_bucket", "_seconds_sum", "_seconds_count", "waiting_seconds", "age_seconds")


def series_of(prometheus: ReceivingPrometheus, job: str) -> Series:
    """The series of a job, without what tells it apart."""
    found: Series = {}
    for labels, value in prometheus.samples(f'{{job="{job}"}}'):
        name = labels.pop("__name__")
        if not name.startswith(_OWN) and name != _TARGET:
            del labels["job"], labels["instance"]
            # Prometheus writes whole bounds as 1.0 in a scrape, and as 1 in what is pushed.
            bounds = {"le": str(float(labels["le"]))} if "le" in labels else {}
            found[name, frozenset({**labels, **bounds}.items())] = value
    return found


def still(series: Series) -> Series:
    """Those that stay as they are while no record comes."""
    return {key: value for key, value in series.items() if not any(part in key[0] for part in _MOVING)}


def test_pushed_series_are_those_of_a_scrape(cluster: KafkaConfig, tmp_path: Path) -> None:
    """All names and labels, and the values of all that stands still: no unit or suffix is added."""
    send(cluster)
    with receiving_prometheus(tmp_path, port := pick_port()) as prometheus:
        otlp = {"endpoint": prometheus.endpoint, "every": "1s", "send": ["metrics"]}
        config = write_config(tmp_path, cluster, defaults=SETTINGS, otlp=otlp, http={"series": "all"})
        with WorkerProcess(config, "--http", f"127.0.0.1:{port}") as worker:
            worker.port = port
            await_ready(worker)
            await_published(cluster, worker)
            group = f"{cluster.prefix}group-{cluster.prefix}"

            def both() -> tuple[Series, Series]:
                pushed = series_of(prometheus, f"{group}/prequential-worker")
                return pushed, series_of(prometheus, "scraped")

            def agree() -> bool:
                pushed, scraped = both()
                return pushed.keys() == scraped.keys() and still(pushed) == still(scraped)

            eventually("what is pushed is what a scrape has", agree, 60)
            names = {name for name, _ in both()[0]}
            assert {
                "prequential_accuracy", "prequential_outcomes_total", "prequential_label_latency_seconds_sum",
                "prequential_label_latency_seconds_bucket", "prequential_label_latency_seconds_count",
            } <= names  # fmt: skip
            [(target, _)] = prometheus.samples(_TARGET)
            assert target["job"] == f"{group}/prequential-worker"
            assert target["service_version"] == VERSION
            assert target["instance"].endswith(f":{port}")
            assert worker.stop() == 0, worker.log
            assert "can't be pushed" not in worker.log
